# SPDX-License-Identifier: Apache-2.0
"""top: keys, and a terminal that is as before however it ends."""

from __future__ import annotations

import signal
import tempfile
from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.cli import status_of
from iostrata.cli.top import _Wishes
from iostrata.live import History, Replayed
from iostrata.recording import open_recording
from tests.cli.terminal import on_a_terminal

RECORDING = str(Path(__file__).parents[1] / "recordings" / "four_methods")
REPLAY = ("-m", "iostrata", "top", "--replay", RECORDING)


def test_keys_and_quit() -> None:
    with on_a_terminal(*REPLAY, "--speed", "100") as terminal:
        terminal.until("the end")
        assert "four_methods, at 100 times its pace" in terminal.screen
        assert "device.flush" in terminal.screen
        assert "unattributed" in terminal.screen
        assert "lost nothing" in terminal.screen
        assert max(map(len, terminal.screen.splitlines())) <= 100
        terminal.press("s")
        terminal.until("in order of share")
        rows = terminal.screen.splitlines()
        names = [row.split()[0] for row in rows if row.strip() and row.startswith("  ")]
        assert names[:2] == ["device.data", "device.flush"]
        terminal.press("m")
        terminal.until("method ")
        terminal.press("f")
        terminal.until("frozen")
        terminal.press("q")
        assert terminal.end() == 0
        assert terminal.restored


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals(number: signal.Signals) -> None:
    with on_a_terminal(*REPLAY) as terminal:
        terminal.until("q quit")
        assert terminal.end(number) == 128 + number
        assert terminal.restored
        assert b"Traceback" not in terminal.output


def test_an_exception() -> None:
    program = "from iostrata.cli.screen import full_screen\nwith full_screen():\n 1 / 0"
    with on_a_terminal("-c", program) as terminal:
        assert terminal.end() == 1
        assert terminal.restored
        assert b"ZeroDivisionError" in terminal.output


@pytest.mark.parametrize(("columns", "lines"), [(40, 12), (80, 24), (200, 60)])
def test_it_fits(columns: int, lines: int) -> None:
    with on_a_terminal(*REPLAY, "--speed", "100", columns=columns, lines=lines) as terminal:
        terminal.until("the end" if columns > 40 else "all writes")
        shown = terminal.screen.splitlines()
        assert len(shown) <= lines
        assert max(map(len, shown)) <= columns
        terminal.press("q")
        assert terminal.end() == 0


def test_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["top", "--replay", RECORDING]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "top needs a terminal" in captured.err
    assert "  try: " in captured.err


def test_a_replay_takes_no_filter(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["top", "--replay", RECORDING, "--comm", "fio"]) == 2
    assert "it takes no filter" in capsys.readouterr().err


def test_a_recorder_that_fails_is_told_on_the_old_screen(tmp_path: Path) -> None:
    """Its temporary directory is gone, too."""
    recorder = tmp_path / "recorder"
    recorder.write_text("#!/bin/sh\nexit 3\n")
    recorder.chmod(0o755)
    (tmp_path / "tmp").mkdir()
    program = (
        "import sys, tempfile\nfrom pathlib import Path\n"
        "from iostrata.cli import capture, status_of, top\nfrom iostrata.record import recorder\n"
        f"recorder.PACKAGED = Path({str(recorder)!r})\n"
        f"tempfile.tempdir = {str(tmp_path / 'tmp')!r}\n"
        "capture.check_ebpf = lambda: None\n"
        "sys.exit(status_of(['top']))"
    )
    with on_a_terminal("-c", program) as terminal:
        assert terminal.end() == 6
        assert b"the recorder ended by itself" in terminal.output
    assert tempfile.gettempdir() != str(tmp_path / "tmp")
    assert not list((tmp_path / "tmp").iterdir())


def test_choices_go_round() -> None:
    history, wishes = History(10), _Wishes()
    interval = Replayed(analyse(open_recording(Path(RECORDING))), 1000).interval(1)
    assert interval
    history.add(interval)
    seen = []
    for _ in range(5):
        wishes.take("m", history)
        seen.append(wishes.chosen.get("method"))
    assert sorted(filter(None, seen)) == ["fdatasync", "fsync", "open_datasync", "open_sync"]
    assert seen[4] is None
    wishes.take("d", history)
    assert wishes.chosen == {"device": "vda"}
    wishes.take("a", history)
    assert not wishes.chosen
    wishes.take("x", history)
    assert wishes == _Wishes()
