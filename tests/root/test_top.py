# SPDX-License-Identifier: Apache-2.0
"""top on this kernel: it shows what happens, and leaves nothing, even when it is killed."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.terminal import on_a_terminal
from tests.root.test_cut import Program, frozen, touched
from tests.root.test_record import writer


@pytest.fixture
def busy(disk: Path) -> Iterator[int]:
    """The pid of a program that writes all the time."""
    with subprocess.Popen(writer("fdatasync", 1_000_000, 0.001), cwd=disk) as other:
        yield other.pid
        other.terminate()


def recorders() -> set[str]:
    """Directories of the recorders of `top` that run."""
    found = set()
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_text(errors="replace").split("\0")
        except OSError:
            continue
        found |= {word for word in words if "iostrata-top-" in word}
    return found


def wait_until_gone(before: set[str]) -> None:
    deadline = time.monotonic() + 20
    while recorders() - before:
        assert time.monotonic() < deadline, "the recorder goes on"
        time.sleep(0.1)


def test_live(busy: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = recorders()
    with on_a_terminal("-m", "iostrata", "top", "--pid", str(busy)) as terminal:
        terminal.until("device.flush")
        assert f"pid {busy}" in terminal.screen
        assert "syscall" in terminal.screen
        assert len(recorders() - before) == 1
        terminal.press("m")
        terminal.until("method fdatasync")
        terminal.press("q")
        assert terminal.end() == 0
        assert terminal.restored
    wait_until_gone(before)
    assert not list(tmp_path.glob("iostrata-top-*"))


@pytest.mark.parametrize("file_system", ["ext4"], indirect=True)
def test_what_hangs(file_system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Since before, and until it does no longer; there is no write that ended."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with ExitStack() as stack:
        program = Program(touched(file_system / "file"), stack)
        program.do("write")
        with frozen(file_system):
            program.hang("write")
            terminal = stack.enter_context(
                on_a_terminal("-m", "iostrata", "top", "--pid", str(program.pid))
            )
            terminal.until("one call hangs since before this began")
        program.done()
        terminal.until("lost nothing")
        terminal.press("q")
        assert terminal.end() == 0


def test_killed(busy: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = recorders()
    with on_a_terminal("-m", "iostrata", "top", "--pid", str(busy)) as terminal:
        terminal.until("device.flush")
        assert recorders() - before
        terminal.end(signal.SIGKILL)
        wait_until_gone(before)
    left = list(tmp_path.glob("iostrata-top-*"))
    with on_a_terminal("-m", "iostrata", "top", "--pid", str(busy)) as terminal:
        terminal.until("device.flush")
        assert len(left) == 1
        assert not left[0].exists()
        terminal.press("q")
        assert terminal.end() == 0
    assert not list(tmp_path.glob("iostrata-top-*"))
