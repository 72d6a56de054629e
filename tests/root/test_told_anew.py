# SPDX-License-Identifier: Apache-2.0
"""Who threads are is told anew now and then, on this kernel: a lost packet costs but a moment."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.columns import distinct, integers
from iostrata.recording import open_recording
from iostrata.trace.layout import THREAD_HELPER, THREAD_TARGET
from tests.analysis.test_beside_losses import packets
from tests.root.conftest import iostrata, loop_device
from tests.root.test_record import good

WRITES = 5000
EVENTS_EACH = 512
"""As bpf/record/anew.c has it."""
# For some seconds, on the fastest disk, too: it is looked once a second who is to be told anew.
PROGRAM = f"""
import os, sys, time
fd = os.open(sys.argv[1], os.O_RDWR | os.O_DSYNC)
for number in range({WRITES}):
    os.pwrite(fd, bytes(8192), number % 64 * 8192)
    time.sleep(0.0008)
"""


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of writes to a loop device, whose workers' names matter."""
    place = tmp_path_factory.mktemp("anew")
    with ExitStack() as teardown:
        loop = loop_device(place / "image", 1 << 20, teardown)
        command = (sys.executable, "-c", PROGRAM, loop)
        done = iostrata("record", "-o", str(place / "recording"), "--", *command)
        good(done.returncode, done.stderr)
        yield place / "recording"


def test_threads_are_told_anew_as_the_same(recording: Path) -> None:
    """The program's, and the kernel's that it waits for; as one event in so many at most."""
    (trace,) = open_recording(recording).traces()
    threads, tasks = trace.points["thread"], trace.points["task"]
    tid, birth, kind = (integers(threads[name]) for name in ("subject_tid", "birth", "kind"))
    (own,) = distinct(integers(trace.points["syscall"]["tid"])).tolist()
    mine = np.flatnonzero(tid == own)
    assert len(mine) > 2
    assert set(kind[mine].tolist()) == {THREAD_TARGET}
    assert np.count_nonzero(integers(tasks["subject_tid"]) == own) > 2
    again = [
        one
        for one in distinct(tid[kind == THREAD_HELPER]).tolist()
        if np.count_nonzero(tid == one) > 2
    ]
    assert again
    for one in (own, *again):
        assert len(set(birth[tid == one].tolist())) == 1
    told = len(threads) + len(tasks)
    once = len(distinct(tid)) + len(distinct(integers(tasks["subject_tid"])))
    forgotten = 2 * int(np.count_nonzero(kind == 0))
    events = sum(len(point) for point in trace.points.values())
    assert told - once - forgotten <= events / EVENTS_EACH + once


def test_without_its_first_packet_a_recording_has_what_is_behind_that(recording: Path) -> None:
    """Whichever CPU's it is."""
    whole = len(analyse(open_recording(recording)).writes)
    for stream in sorted(recording.rglob("cpu_*")):
        data = stream.read_bytes()
        _, end = packets(bytearray(data))[0]
        try:
            stream.write_bytes(data[end:])
            assert len(analyse(open_recording(recording)).writes) > whole / 4
        finally:
            stream.write_bytes(data)
