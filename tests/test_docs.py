# SPDX-License-Identifier: Apache-2.0
"""The book: what it shows is what the program prints; IOSTRATA_REWRITE=1 writes it anew."""

from __future__ import annotations

import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any, Final

import pytest
from typer.main import get_command

from iostrata.cli import application, schemas
from iostrata.layers import ROWS
from iostrata.layers.page import page
from iostrata.trace.fact_files import BLOCK_COLUMNS
from iostrata.trace.layout import DTYPES, POINTS
from iostrata.trace.metadata import EVENT_HEADER, PACKET_FIELDS
from tests.test_readme import BLOCK, ROOT

PAGES: Final = sorted((ROOT / "docs").glob("*.md"))
BESIDE: Final = (ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md")
EVERYWHERE: Final = (*PAGES, *BESIDE, ROOT / "README.md")
FOLDERS: Final = ("bpf", "docs", "packaging", "scenarios", "tests", "tracer")

# Of Python sessions, by their own and by what they import.
NAMES: Final[dict[str, Any]] = {}


def output(what: str) -> str:
    """Of a command, and perhaps of text tools behind it."""
    command = what.replace("iostrata", f"{sys.executable} -m iostrata", 1)
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def part_of_file(what: str) -> str:
    return output(f"cat {what}")


def head(what: str) -> str:
    return "".join(f"{offset:>3}  {name:<18}{kind}\n" for name, kind, offset in PACKET_FIELDS)


def points(what: str) -> str:
    """Number, name and own fields of each point."""
    text = ""
    for name, number in POINTS.items():
        own = [field for field in DTYPES[name].names or () if field not in EVENT_HEADER]
        line = f"{number:>2} {name}:"
        for field in own:
            if len(line) + len(field) + 1 > 96:
                text, line = f"{text}{line}\n", " " * 7
            line += f" {field}"
        text += f"{line}\n"
    return text


def block_columns(what: str) -> str:
    return "\n".join(BLOCK_COLUMNS) + "\n"


WRITERS: Final[dict[str, Callable[[str], str]]] = {
    "output": output,
    "file": part_of_file,
    "head": head,
    "points": points,
    "block columns": block_columns,
}


def expected(what: str, shown: str) -> str:
    if what == "python":
        return session(shown)
    kind, _, rest = what.partition(": ")
    return WRITERS[kind](rest)


def session(shown: str) -> str:
    """A Python session with the output that its lines have today; pages go on where they were."""
    text = ""
    for example in doctest.DocTestParser().get_examples(shown):
        first, *more = example.source.splitlines()
        text += "".join(f"{line}\n" for line in (f">>> {first}", *(f"... {one}" for one in more)))
        printed = io.StringIO()
        with redirect_stdout(printed), chdir(ROOT):
            exec(compile(example.source, "<page>", "single"), NAMES)
        text += printed.getvalue()
    return text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_blocks_are_what_the_program_prints(page: Path) -> None:
    if os.environ.get("IOSTRATA_REWRITE"):
        page.write_text(
            BLOCK.sub(
                lambda b: f"<!-- {b['what']} -->\n```\n{expected(b['what'], b['text'])}```\n",
                page.read_text(),
            )
        )
    for block in BLOCK.finditer(page.read_text()):
        assert block["text"] == expected(block["what"], block["text"]), block["what"]


@pytest.mark.parametrize("page", EVERYWHERE, ids=lambda page: page.stem)
def test_what_is_shown_stands_apart_from_the_prose(page: Path) -> None:
    """Where lines were joined, a marker has no block, or a block's marks are amid a line."""
    text = page.read_text()
    remarks = re.findall(r"<!--(.*?)-->", text, re.DOTALL)
    marked = [one for one in remarks if not one.startswith((" SPDX-", " Made by "))]
    assert marked == [f" {block['what']} " for block in BLOCK.finditer(text)]
    assert set(re.findall(r"^.*```.*$", text, re.MULTILINE)) <= {"```"}


FENCED: Final = re.compile(r"^```\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
FRACTION: Final = re.compile(r"\b\d+\.\d+\b")
NO_PROSE: Final = re.compile(r"`[^`]*`|<!--.*?-->", re.DOTALL)


def test_what_the_tutorial_says_of_a_table_is_in_it() -> None:
    """Above it or below: tables are made anew, and what is said of them is not."""
    prose = FENCED.split((ROOT / "docs" / "tutorial.md").read_text())
    assert len(prose) > 10
    for place in range(0, len(prose), 2):
        tables = "".join((*prose[max(place - 1, 0) : place], *prose[place + 1 : place + 2]))
        said = FRACTION.findall(NO_PROSE.sub("", prose[place]))
        assert [one for one in said if one not in FRACTION.findall(tables)] == []


def test_schemas_are_of_today() -> None:
    published = ROOT / "docs" / "schema"
    if os.environ.get("IOSTRATA_REWRITE"):
        schemas.main(published)
    assert {path.name: path.read_text() for path in published.iterdir()} == schemas.files(), (
        "make schema"
    )


def commands(text: str) -> Iterator[list[str]]:
    """Every command of ours that stands in code, from its name on."""
    code = re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in code for line in block.replace("\\\n", " ").splitlines()]
    lines += re.findall(r"`([^`\n]+)`", text)
    for line in lines:
        match = re.match(r" *(?:sudo )?iostrata ([a-z].*)", line.partition("   ")[0])
        if match:
            yield shlex.split(match[1].partition("|")[0])


@pytest.mark.parametrize("page", EVERYWHERE, ids=lambda page: page.stem)
def test_commands_and_their_options_exist(page: Path) -> None:
    known: Any = get_command(application())
    for words in commands(page.read_text()):
        name, *rest = words
        assert name in known.commands, words
        options = {option for one in known.commands[name].params for option in
                   (*one.opts, *one.secondary_opts)} | {"-h", "--help"}  # fmt: skip
        ours = rest[: rest.index("--")] if "--" in rest else rest
        assert {word for word in ours if word.startswith("-") and word != "-"} <= options, words


def test_options_of_commands_are_found() -> None:
    code = "```\nsudo iostrata run --by size -- fio --x   what\niostrata top\n```\n"
    assert list(commands(f"{code}`iostrata dump DIR`")) == [
        ["run", "--by", "size", "--", "fio", "--x"], ["top"], ["dump", "DIR"],
    ]  # fmt: skip


@pytest.mark.parametrize("page", [*PAGES, *BESIDE], ids=lambda page: page.stem)
def test_links_and_paths_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    for link in re.findall(r"\]\(([^)#]+)\)", text):
        assert link.startswith("https:") or (page.parent / link).exists(), link
    for path in re.findall(r"`([\w.-]+/[\w./-]*)`", text):
        if path.split("/")[0] in FOLDERS and "build/" not in path and path.upper() != path:
            names = path.replace("LAYER", "*").rstrip("/")
            assert list(ROOT.glob(names)), path


@pytest.mark.parametrize("page", [*PAGES, *BESIDE], ids=lambda page: page.stem)
def test_lines_fit(page: Path) -> None:
    """What is shown as it is, and tables, are as wide as they are."""
    shown = r"^```\n(?:.*\n)*?```|^\|.*|^<!--.*"
    prose = re.sub(shown, "", page.read_text(), flags=re.MULTILINE)
    assert max(map(len, prose.splitlines())) <= 100


def test_every_page_is_in_the_contents() -> None:
    contents = (ROOT / "docs" / "README.md").read_text()
    assert {f"({page.name})" for page in PAGES if page.name != "README.md"} <= set(
        re.findall(r"\(\w+\.md\)", contents)
    )


def test_the_page_of_the_layers_is_what_they_declare() -> None:
    assert (ROOT / "docs" / "layers.md").read_text() == page(), "run `make docs`"


def test_layers_are_made_of_points() -> None:
    for row in ROWS:
        assert row.points
        assert set(row.points) <= set(POINTS), row.name


def test_every_line_below_a_table_is_explained() -> None:
    source = (ROOT / "tracer/iostrata/report/quality.py").read_text()
    labels = set(re.findall(r'yield "([a-z ]+)", ', source))
    assert {"lost", "virtual", "own cost"} <= labels
    page = (ROOT / "docs/reading.md").read_text()
    told = page.partition("\n## The lines below\n")[2].partition("\n## ")[0]
    assert labels == set(re.findall(r"^\| `([a-z ]+)` \|", told, re.MULTILINE))
