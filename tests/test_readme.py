# SPDX-License-Identifier: Apache-2.0
"""README's tables and commands are what the program prints; IOSTRATA_REWRITE=1 writes them anew."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from iostrata.analysis import analyse
from iostrata.attribute.summarise import summarise
from iostrata.cli import COMMANDS, EPILOG, function_of
from iostrata.layers import ROWS
from iostrata.recording import open_recording
from iostrata.report import table

ROOT: Final = Path(__file__).parents[1]
README: Final = ROOT / "README.md"
BLOCK: Final = re.compile(r"<!-- (?P<what>[^>]*) -->\n```\n(?P<text>.*?)```\n", re.DOTALL)


def replay(what: str) -> str:
    recording = open_recording(ROOT / what.removeprefix("table: replay "))
    return table.plain(summarise(analyse(recording)))


def layers(what: str) -> str:
    return "".join(f"{row.name:<20}{row.meaning}\n" for row in ROWS)


def exit_status(what: str) -> str:
    lines = EPILOG.removeprefix("\b\nExit status:\n").splitlines()
    return "".join(f"{line.removeprefix('  ')}\n" for line in lines)


WRITERS: Final[dict[str, Callable[[str], str]]] = {
    "table": replay,
    "layers": layers,
    "exit status": exit_status,
}


def expected(what: str) -> str:
    return WRITERS[what.partition(":")[0]](what)


def test_blocks_are_what_the_program_prints() -> None:
    text = README.read_text()
    blocks = list(BLOCK.finditer(text))
    assert {block["what"].partition(":")[0] for block in blocks} == set(WRITERS)
    if os.environ.get("IOSTRATA_REWRITE"):
        text = BLOCK.sub(lambda b: f"<!-- {b['what']} -->\n```\n{expected(b['what'])}```\n", text)
        README.write_text(text)
    for block in BLOCK.finditer(text):
        assert block["text"] == expected(block["what"])


def test_commands_exist() -> None:
    code = "".join(re.findall(r"^```\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL))
    used = set(re.findall(r"^(?:sudo )?iostrata (\w+)", code, re.MULTILINE))
    assert used == set(COMMANDS)


def test_make_targets_exist() -> None:
    targets = re.findall(r"^make (\w+)", README.read_text(), re.MULTILINE)
    makefile = (ROOT / "Makefile").read_text()
    assert targets
    assert all(f"\n{target}:" in makefile for target in targets)


@pytest.mark.parametrize("path", ["docs/schema", "bpf/events.h"])
def test_paths_exist(path: str) -> None:
    assert path.rsplit("/", maxsplit=1)[-1] in README.read_text()
    assert (ROOT / path).exists()


def test_lines_fit() -> None:
    assert max(map(len, README.read_text().splitlines())) <= 100


def test_examples_in_help_are_commands() -> None:
    for command in COMMANDS:
        for line in (function_of(command).__doc__ or "").splitlines():
            found = re.match(r" +(sudo )?iostrata ", line)
            words = shlex.split(line.removesuffix("\\")) if found else []
            if words:
                assert words[words.index("iostrata") + 1] in COMMANDS
