# SPDX-License-Identifier: Apache-2.0
"""Values of parameters are what Typer makes of the same words, and most need no Pydantic."""

from __future__ import annotations

import subprocess
import sys
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from iostrata.cli import COMMANDS, application, status_of
from iostrata.cli.values import PLACES, Unsure, taken_over, value_of

WORDS = (
    "", "-", "0", "1", "-1", "+1", "1_0", "007", "61", "1001", "1e3", "2.5", "0.001", "2.", ".5",
    "00.10", "2.5.1", "1_0.5", "9" * 18 + ".1", "nan", "inf", "x", "²", "٣.٣", "٣", " 1", "1 ",
    "1\n", "9" * 18, "9" * 19, "sync", "SYNC", "read", "all", "method", "By.METHOD", "up", "\udcff",
    "a\udcffb", "ä", "/", "/nowhere", "~", "a/../b", "a//b", "./a", "true",
)  # fmt: skip
OTHERS: tuple[Any, ...] = (None, 0, 1, -1, 61, 2.5, float("inf"), True, b"x", Path("x"), [], ())


def parameters() -> list[Any]:
    top: Any = get_command(application())
    return [one for name in COMMANDS for one in top.commands[name].params]


def outcome(make: Any) -> tuple[bool, object]:
    """Whether there is a value, and the value; kinds matter, and not what is said of a mistake."""
    try:
        value = make()
    except Unsure:
        return False, Unsure
    except Exception:
        return False, None
    items = value if isinstance(value, (list, tuple)) else [value]
    return True, (type(value), [(type(item), item) for item in items])


@pytest.mark.parametrize("parameter", parameters(), ids=lambda one: str(one.name))
def test_a_value_is_what_typer_makes_of_it(parameter: Any, tmp_path: Path) -> None:
    unreadable = tmp_path / "secret"
    unreadable.touch(mode=0)
    words = [*WORDS, str(unreadable), str(tmp_path), parameter.default]
    several = [[word] for word in words] + [list(pair) for pair in pairwise(words)]
    for value in chain(words, OTHERS, several, map(tuple, several)):
        found, own = outcome(lambda value=value: value_of(value, parameter))
        told, typers = outcome(
            lambda value=value: parameter.get_runtime_param().coerce(value, parameter, None)
        )
        assert own is Unsure or ((found, own) == (told, typers))


def test_what_is_plain_needs_no_pydantic(tmp_path: Path) -> None:
    program = (
        "import sys; from iostrata.cli import status_of; status_of(sys.argv[1:]);"
        "sys.exit('pydantic' in sys.modules)"
    )
    words = ["replay", str(tmp_path), "--by", "file", "--jobs", "2", "--process", "x", "--tail"]
    command = [sys.executable, "-c", program, *words]
    subprocess.run(command, stderr=subprocess.DEVNULL, check=True)
    mistaken = [*command[:3], *("x" if word == "2" else word for word in words)]
    assert subprocess.run(mistaken, stderr=subprocess.DEVNULL, check=False).returncode


def test_what_is_not_given_is_plain() -> None:
    """Each start of each command has many of these."""
    for parameter in parameters():
        value_of(parameter.default, parameter)


def test_seconds_are_plain() -> None:
    (duration,) = {one.name: one for one in parameters() if one.name == "duration"}.values()
    plain = {word: value_of(word, duration) for word in ("10", "2.5", "0.001")}
    assert plain == {"10": 10.0, "2.5": 2.5, "0.001": 0.001}
    assert {type(value) for value in plain.values()} == {float}


def test_of_a_typer_that_makes_values_elsewhere_nothing_is_taken_over() -> None:
    class Parameter:
        """Without ``get_runtime_param``."""

    other: Any = Parameter()
    assert taken_over([other]) == [other]
    assert not vars(other)


def taking() -> list[Any]:
    """Command and option: of those that take a value."""
    top: Any = get_command(application())
    return [
        pytest.param(name, one, id=f"{name}{one.opts[0]}")
        for name in COMMANDS
        for one in top.commands[name].params
        if one.param_type_name == "option" and not one.is_flag
    ]


def placing() -> list[Any]:
    """Of those the ones that take the name of a file or directory."""
    return [one for one in taking() if one.values[1].metavar in PLACES]


def test_every_option_that_makes_a_path_is_known_to_take_one() -> None:
    paths = {
        one.metavar
        for one in parameters()
        if one.param_type_name == "option" and "Path" in str(one.type_descriptor.annotation)
    }
    assert {"DIR", "FILE"} <= paths <= PLACES


@pytest.mark.parametrize(("command", "option"), placing())
def test_no_file_is_called_as_an_option(
    command: str,
    option: Any,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was forgotten is the name, as in ``replay DIR --json --no-cache``."""
    monkeypatch.chdir(tmp_path)
    for name in (*option.opts, "--help", "-h", "--nonsense", "--", f"{option.opts[-1]}x"):
        for words in ([option.opts[0], name], [f"{option.opts[0]}={name}"]):
            assert status_of([command, *words]) == 2
            captured = capsys.readouterr()
            assert captured.out == ""
            told, tries = captured.err.splitlines()
            takes = f"iostrata: {option.opts[0]} takes a {option.metavar}, "
            assert told == f"{takes}and {name} looks like an option"
            assert tries.endswith(f"or {option.opts[0]} ./{name}, if that is its name")
            assert (f"{option.opts[0]} -, for" in tries) == ("standard output" in option.help)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("command", "option"), taking())
def test_no_value_is_empty(command: str, option: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """As in ``--comm=$NAME`` and ``--fail-above "$LIMIT"``: all would be taken, and nobody told."""
    for words in ([option.opts[0], ""], [f"{option.opts[0]}="]):
        assert status_of([command, *words]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        takes = f"iostrata: {option.opts[0]} takes a {option.metavar or 'value'}, "
        assert captured.err.splitlines()[0] == f"{takes}and it is empty"


@pytest.mark.parametrize(
    ("command", "option"), [one for one in taking() if not one.values[1].multiple]
)
def test_no_value_is_dropped_for_another(
    command: str, option: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of([command, option.opts[0], "1", option.opts[-1], "2"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    told = captured.err.splitlines()[0]
    assert told.startswith(f"iostrata: {option.opts[0]} is given twice, and takes one ")


@pytest.mark.parametrize("name", ["-", "-x", "./--no-cache", "a--b"])
def test_a_file_may_have_any_other_name(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert status_of(["replay", "/nonexistent", "--json", name]) == 3
    assert "/nonexistent does not exist" in capsys.readouterr().err
