# SPDX-License-Identifier: Apache-2.0
"""Help: of every command, complete, and never wider than 80 columns."""

from __future__ import annotations

import pytest

from iostrata import __version__, errors
from iostrata.attribute.summarise import GROUPINGS
from iostrata.cli import COMMANDS, EPILOG, STATUS_BROKEN_PIPE, function_of, status_of
from iostrata.cli.options import By


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_80_columns(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    arguments = [command, "--help"] if command else ["--help"]
    assert status_of(arguments) == 0
    text = capsys.readouterr().out
    assert "Usage: iostrata" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("command", COMMANDS)
def test_first_sentence_fits_the_list_of_commands(command: str) -> None:
    first = (function_of(command).__doc__ or "").splitlines()[0]
    assert first.endswith(".")
    assert len(first) <= 68


def test_nothing_at_all_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of([]) == 0
    assert "Commands:" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["--version"]) == 0
    assert capsys.readouterr().out == f"iostrata {__version__}\n"


def test_groupings_are_those_of_the_analysis() -> None:
    assert tuple(by.value for by in By) == GROUPINGS


def test_every_exit_status_is_documented() -> None:
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    statuses = {kind.status for kind in classes if issubclass(kind, errors.IostrataError)}
    statuses |= {errors.STATUS_LOSSES, errors.STATUS_REGRESSION, errors.STATUS_INTERRUPTED, 0}
    statuses.add(STATUS_BROKEN_PIPE)
    listed = {int(line.split()[0]) for line in EPILOG.splitlines() if line[2:3].isdigit()}
    assert listed == statuses
