# SPDX-License-Identifier: Apache-2.0
"""What a recording tells of itself while it goes on, where there is no terminal."""

from __future__ import annotations

import time

import pytest

from iostrata.analysis import SoFar
from iostrata.cli import story
from iostrata.cli.story import Story
from iostrata.record import Progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_a_line_now_and_then(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    told = Story(alone=True, limit_s=30)
    for second in range(1, 25):
        clock[0] += 1
        told.progress(Progress(events=1000 * second, lost=second // 20, seconds=second))
    assert capsys.readouterr().err.splitlines() == [
        "iostrata: recording: 10000 events in 10.0 s (1000/s), 20 s left",
        "iostrata: recording: 20000 events in 20.0 s (1000/s), 1 lost, 10 s left",
    ]


def test_each_machine(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    told = Story(alone=True)
    clock[0] += story.PLAIN_EVERY_S
    told.heard({"guest": Progress(50, 0, 10), "host": Progress(70, 3, 10)})
    told.heard({})
    assert capsys.readouterr().err == (
        "iostrata: recording: guest 50 events in 10.0 s (5/s); "
        "host 70 events in 10.0 s (7/s), 3 lost\n"
    )


def test_nothing_amid_a_commands_own_lines(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    told = Story()
    clock[0] += story.PLAIN_EVERY_S
    told.progress(Progress(50, 0, 10))
    assert capsys.readouterr().err == ""


def test_nothing_to_the_quiet(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    told = Story(quiet=True, alone=True)
    clock[0] += story.PLAIN_EVERY_S
    told.progress(Progress(50, 0, 10))
    assert capsys.readouterr().err == ""


def test_how_far_an_analysis_is_on_a_terminal_and_only_there(
    clock: list[float], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for terminal in (False, True):
        if terminal:
            monkeypatch.setenv("FORCE_COLOR", "1")
        told = Story(alone=True)
        told.analysed(SoFar(0.0))
        clock[0] += 0.1
        told.analysed(SoFar(0.1))
        clock[0] += 5.9
        held = {"OS": 0.31, "device": 0.625}
        told.analysed(SoFar(0.75, count=3000, mean_ns=210_400, held=held))
        told.stop()
        text = capsys.readouterr().err
        line = "analysing: 75%, 2 s left; so far 3000 writes, mean 210 us, 62% device"
        assert (line in text) == terminal
        assert "10%" not in text
