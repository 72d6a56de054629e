# SPDX-License-Identifier: Apache-2.0
"""io_uring's workers, and its thread that submits, which were there before the recording."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.recording import open_recording
from iostrata.trace.layout import THREAD_TARGET, THREAD_WORKER
from tests.root.conftest import iostrata
from tests.root.test_uring import requests, row

__all__ = ["requests"]
MODES = {"cached": "requests", "polled-cached": "iou-sqp-"}
"""What a program does for as long as it may, and how the thread that submits is called."""
FOREVER, BEGUN_S, UNEXPLAINED = 1 << 30, 0.5, 0.1


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def running(requests: Path, disk: Path, mode: str) -> Iterator[int]:
    """The program's number; it has done some by then."""
    command = [str(requests), str(disk / "file"), mode, str(FOREVER)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as program:
        try:
            time.sleep(BEGUN_S)
            assert program.poll() is None
            yield program.pid
        finally:
            program.kill()


@pytest.mark.parametrize("chosen", ["--pid", "--comm", "--all"])
def test_they_are_known_by_whom_they_work_for(
    running: int, disk: Path, mode: str, chosen: str
) -> None:
    value = {"--pid": [str(running)], "--comm": ["requests"], "--all": []}[chosen]
    place = disk / "recording"
    done = iostrata("record", chosen, *value, "--duration", "1", "-o", str(place))
    assert done.returncode == 0, done.stderr
    recording = open_recording(place)
    found = analyse(recording)
    mine = found.writes.tgid == running
    assert mine.sum() > 10
    assert found.residual_ns[mine].sum() <= UNEXPLAINED * found.writes.latency_ns[mine].sum()
    assert (row(found, "device.data")[mine] > 0).mean() > 0.75
    (trace,) = recording.traces()
    told = trace.points["thread"].columns("tgid", "kind", "comm")
    own = told["tgid"] == running
    kinds = dict(zip(told["comm"][own].tolist(), told["kind"][own].tolist(), strict=True))
    submitter = next(name for name in kinds if name.decode().startswith(MODES[mode]))
    polled = mode.startswith("polled")
    assert kinds[submitter] == (THREAD_WORKER if polled else THREAD_TARGET)
    assert any(name.startswith(b"iou-wrk-") for name in kinds)
    assert ("SQPOLL" in str(found.quality.not_observed)) == polled
