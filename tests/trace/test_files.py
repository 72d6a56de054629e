# SPDX-License-Identifier: Apache-2.0
"""What may lie where a recording has a file, and what becomes of who reads it."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from iostrata.errors import RecordingError
from iostrata.recording import open_recording
from iostrata.trace import read_trace
from iostrata.trace.files import open_regular, read_small
from tests.builder import TraceBuilder


def fifo(path: Path) -> None:
    os.mkfifo(path)


def endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def itself(path: Path) -> None:
    path.symlink_to(path.name)


def door(path: Path) -> None:
    """A socket: one of a short name, which has few letters to be called by."""
    here = Path.cwd()
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)
    os.chdir(here)


THINGS = (fifo, endless, itself, door)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    builder = TraceBuilder()
    builder.add("syscall", time_ns=10, cpu=0).add("syscall", time_ns=90, cpu=1)
    return builder.write(tmp_path / "trace")


def test_too_little_memory_is_no_damage(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr("iostrata.trace.stream_files.mmap.mmap", refused)
    with pytest.raises(OSError, match="Cannot allocate memory"):
        read_trace(trace)


@pytest.mark.parametrize("thing", THINGS)
def test_a_stream_that_is_no_file_is_all_lost(thing: Callable[[Path], None], trace: Path) -> None:
    (trace / "cpu_0").unlink()
    thing(trace / "cpu_0")
    found = read_trace(trace)
    assert any(line.startswith("cpu_0: cannot be read") for line in found.damage)
    assert len(found.points["syscall"]) == 1


@pytest.mark.parametrize(
    ("name", "thing"),
    [*(("metadata", thing) for thing in THINGS),
     *(("recording.json", thing) for thing in THINGS if thing is not itself)],
)  # fmt: skip
def test_what_must_be_there_and_is_no_file_is_refused(
    name: str, thing: Callable[[Path], None], trace: Path
) -> None:
    (trace / name).unlink(missing_ok=True)
    thing(trace / name)
    with pytest.raises(RecordingError) as caught:
        open_recording(trace).traces()
    assert caught.value.hint


def test_a_device_is_not_even_opened(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As root, /dev/watchdog would begin to count, and boot the machine."""
    (trace / "cpu_0").unlink()
    (trace / "cpu_0").symlink_to("/dev/null")
    opened: list[str] = []
    original = os.open

    def tell(path: str | os.PathLike[str], *rest: int) -> int:
        opened.append(os.path.realpath(path))
        return original(path, *rest)

    monkeypatch.setattr(os, "open", tell)
    assert "cpu_0: cannot be read" in read_trace(trace).damage[0]
    assert str(trace / "cpu_1") in opened
    assert "/dev/null" not in opened


def test_what_says_it_is_empty_is_not_read() -> None:
    """As /proc/kmsg does, from which the kernel's messages would be gone."""
    version = Path("/proc/version")
    assert version.stat().st_size == 0
    assert version.read_bytes()
    assert read_small(version) == b""


def test_no_more_is_read_than_there_may_be(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x" * 100)
    assert read_small(file, 100) == b"x" * 100
    with pytest.raises(OSError, match="longer than"):
        read_small(file, 99)
    os.truncate(file, 1 << 40)
    with pytest.raises(OSError, match="longer than"):
        read_small(file)


def test_no_descriptor_is_left(tmp_path: Path) -> None:
    before = set(Path("/proc/self/fd").iterdir())
    for path in (Path("/dev/null"), tmp_path, tmp_path / "nothing"):
        with pytest.raises(OSError, match=r"regular|No such file"):
            open_regular(path)
    assert set(Path("/proc/self/fd").iterdir()) == before
