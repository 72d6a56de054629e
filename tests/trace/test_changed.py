# SPDX-License-Identifier: Apache-2.0
"""A recording that somebody writes to while it is read is told so, whatever its bytes are by then:
nothing is told of events that were not looked through."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from iostrata.analysis.pipeline import breakdown_of
from iostrata.analysis.prepared import prepare
from iostrata.errors import RecordingError
from iostrata.recording import open_recording
from iostrata.trace.read import Trace, read_trace
from tests.test_recorded import RECORDINGS
from tests.trace.random_events import random_events, write

COUNTS = {"syscall": 4000, "block_rq_issue": 250}
Change = Callable[[Path], None]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    path = write(tmp_path, random_events(5, COUNTS), 100)
    _wait(path)
    return path


def _wait(directory: Path) -> None:
    """Until a file that is written to has another time than these."""
    probe = directory / ".probe"
    newest = max(path.stat().st_mtime_ns for path in _streams(directory))
    while True:
        probe.write_bytes(b"")
        if probe.stat().st_mtime_ns > newest:
            break
        time.sleep(0.001)
    probe.unlink()


def _streams(directory: Path) -> list[Path]:
    return sorted(directory.glob("cpu_*"))


def _overwrite(path: Path, data: bytes = b"\xff" * 64) -> None:
    handle = os.open(path, os.O_WRONLY)
    os.pwrite(handle, data, path.stat().st_size // 128 * 64)
    os.close(handle)


def _append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(bytes(64))


def _rewrite(path: Path) -> None:
    path.write_bytes(2 * path.read_bytes())


def _replace(path: Path) -> None:
    other = path.with_name(".other")
    other.write_bytes(bytes(128))
    other.rename(path)


def _all(trace: Trace) -> int:
    return sum(len(points.integers(*points.fields)["time_ns"]) for points in trace.points.values())


@pytest.mark.parametrize("change", [_overwrite, _append, _rewrite])
def test_what_was_changed_is_not_read(directory: Path, change: Change) -> None:
    trace = read_trace(directory, grows=False)
    change(_streams(directory)[0])
    with pytest.raises(RecordingError, match="cpu_0 was changed while it was read"):
        _all(trace)


@pytest.mark.parametrize("change", [_replace, Path.unlink])
def test_what_another_file_has_is_not_asked(
    directory: Path, change: Callable[[Path], None]
) -> None:
    trace = read_trace(directory, grows=False)
    count = _all(read_trace(directory))
    change(_streams(directory)[0])
    assert _all(trace) == count > 0


def test_what_is_recorded_meanwhile_grows(directory: Path) -> None:
    trace = read_trace(directory)
    count = _all(read_trace(directory))
    for path in _streams(directory):
        _append(path)
    assert _all(trace) == count > 0
    trace = read_trace(directory)
    _overwrite(_streams(directory)[0])
    with pytest.raises(RecordingError):
        _all(trace)


@pytest.mark.parametrize("jobs", [1, 2])
def test_no_table_is_made_of_what_was_changed(tmp_path: Path, jobs: int) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(RECORDINGS / "four_methods", copy)
    machine = open_recording(copy).machines[0]
    _wait(copy / machine.directory)
    found = prepare(open_recording(copy), jobs=jobs)
    for path in _streams(copy / machine.directory):
        _overwrite(path)
    with pytest.raises(RecordingError, match="was changed while it was read") as caught:
        breakdown_of(found, jobs)
    assert "nobody changes it" in caught.value.hint
