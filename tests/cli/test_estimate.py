# SPDX-License-Identifier: Apache-2.0
"""estimate: from the command line, in good recordings and in bad ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iostrata.cli import status_of
from iostrata.recording import FILE_NAME
from tests.cli.recordings import lossy_recording, small_recording
from tests.report.test_several_machines import recording as chain_recording
from tests.synthetic import World, write


@pytest.fixture
def recording(tmp_path: Path) -> str:
    return str(small_recording(tmp_path / "machine"))


def test_table(recording: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["estimate", recording]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "40 writes of local" in captured.out
    assert "writes that vda had alone" in captured.out
    assert max(map(len, captured.out.splitlines())) <= 80


def test_ones_own_numbers_and_json(
    recording: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = ["estimate", recording, "--ping", "0.5", "--iops", "4000", "--json"]
    assert status_of([*own, "-"]) == 0
    text = capsys.readouterr().out
    guesses = {guess["segments"][0]: guess for guess in json.loads(text)["guesses"]}
    assert (guesses["network"]["guess_ns"], guesses["device"]["guess_ns"]) == (500_000, 250_000)
    assert {guesses[name]["basis"] for name in ("network", "device")} == {"given"}
    file = tmp_path / "out.json"
    assert status_of([*own, str(file)]) == 0
    assert file.read_text() == text
    assert "what is left" in capsys.readouterr().out


def test_no_network_is_a_ping_of_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(chain_recording(tmp_path / "chain", "guest"))
    assert status_of(["estimate", path, "--ping", "0", "--iops", "1000", "--json", "-"]) == 0
    network, *_ = (
        guess
        for guess in json.loads(capsys.readouterr().out)["guesses"]
        if guess["segments"] == ["network"]
    )
    assert (network["guess_ns"], network["merged_into"]) == (0, "hypervisor and below")


@pytest.mark.parametrize(
    "option",
    [
        ["--ping", "-1"],
        ["--iops", "0"],
        ["--iops", "inf"],
        ["--ping", "nan"],
        ["--ping", "1e+308"],
        ["--iops", "1e-300"],
    ],
)
def test_numbers_that_cannot_be(
    option: list[str], recording: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(["estimate", recording, *option]) == 2
    assert f"{option[0]} {option[1]} cannot be" in capsys.readouterr().err


def test_losses_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["estimate", str(lossy_recording(tmp_path / "machine"))]) == 7
    captured = capsys.readouterr()
    assert "writes of local" in captured.out
    assert "losses or damage" in captured.err


def test_nothing_to_estimate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["estimate", str(write(World(), tmp_path / "machine"))]) == 5
    assert "no synchronous write" in capsys.readouterr().err
    assert status_of(["estimate", str(tmp_path)]) == 3
    assert FILE_NAME in capsys.readouterr().err
