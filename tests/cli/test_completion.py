# SPDX-License-Identifier: Apache-2.0
"""Completion: commands, options, their values and scenarios, as the shells ask for them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from iostrata.cli import COMMANDS
from iostrata.lab import scenarios

PROGRAM = "import sys; from iostrata.cli import main; sys.argv[0] = 'iostrata'; main()"
SCENARIOS = list(scenarios())


def completed(**environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


def in_bash(line: str) -> list[str]:
    words = line.split(" ")
    return completed(
        _IOSTRATA_COMPLETE="complete_bash", COMP_WORDS=line, COMP_CWORD=str(len(words) - 1)
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("iostrata ", COMMANDS),
        ("iostrata repl", ["replay"]),
        ("iostrata lab u", ["up"]),
        ("iostrata lab run ", SCENARIOS),
        ("iostrata lab run loc", [name for name in SCENARIOS if name.startswith("loc")]),
        ("iostrata lab list ", []),
        ("iostrata replay --by si", ["size"]),
        ("iostrata html --for", ["--force"]),
        # Nothing of ours: the shell completes files itself.
        ("iostrata replay /var/t", []),
    ],
)
def test_bash(line: str, expected: Sequence[str]) -> None:
    assert sorted(in_bash(line)) == sorted(expected)


def test_zsh_and_fish() -> None:
    told = completed(_IOSTRATA_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="iostrata rep")
    assert "replay" in "".join(told)
    assert completed(_IOSTRATA_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS="iostrata dump x") == [
        "_files"
    ]
    told = completed(
        _IOSTRATA_COMPLETE="complete_fish",
        _TYPER_COMPLETE_FISH_ACTION="get-args",
        _TYPER_COMPLETE_ARGS="iostrata lab up ",
    )
    assert sorted(told) == sorted(SCENARIOS)


def test_a_real_bash(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if not bash:
        pytest.skip("there is no bash")
    command = tmp_path / "iostrata"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{PROGRAM}" "$@"\n')
    command.chmod(0o755)
    script = "\n".join(completed(_IOSTRATA_COMPLETE="source_bash"))
    asked = "COMP_WORDS=(iostrata comp) COMP_CWORD=1; _iostrata_completion iostrata"
    done = subprocess.run(
        [bash, "-c", f'{script}\n{asked}\necho "${{COMPREPLY[@]}}"'],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "compare\n"
