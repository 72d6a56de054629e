# SPDX-License-Identifier: Apache-2.0
"""What another loop device asks of the disk that both are on is no part of who is recorded."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from iostrata.analysis import analyse
from iostrata.recording import open_recording
from iostrata.stitch.requests import requests_of
from iostrata.stitch.window import whole
from tests.root.conftest import iostrata, loop_device
from tests.root.test_record import good

LOOP_MAJOR, MINOR_BITS = 7, 20
LARGE = 1 << 18
# Writes past the page cache for as long as it has its input.
NEIGHBOUR = f"""
import mmap, os, select, sys
file = os.open(sys.argv[1], os.O_WRONLY | os.O_DIRECT)
pages, number = mmap.mmap(-1, {LARGE}), 0
while not select.select([0], [], [], 0)[0]:
    os.pwrite(file, pages, number % 64 * {LARGE})
    number += 1
    if number == 8:
        print(flush=True)
"""
WRITER = """
import mmap, os, sys
file = os.open(sys.argv[1], os.O_WRONLY | os.O_DIRECT)
page = mmap.mmap(-1, 4096)
for number in range(200):
    os.pwrite(file, page, number * 4096)
    os.fdatasync(file)
"""


def test_a_loop_device_beside_it(disk: Path) -> None:
    """The disk's flushes are for who is recorded alone; while it waits for them, it waits for none
    of the other's writes, though one worker may serve both."""
    with ExitStack() as stack:
        loops = [loop_device(disk / name, 64 << 20, stack) for name in ("own", "other")]
        neighbour = subprocess.Popen(
            [sys.executable, "-c", NEIGHBOUR, loops[1]],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        stack.enter_context(neighbour)
        assert neighbour.stdin
        stack.callback(neighbour.stdin.close)
        assert neighbour.stdout
        neighbour.stdout.readline()
        done = iostrata("record", "-o", str(disk / "recording"), "--", sys.executable, "-c", WRITER,
                        loops[0])  # fmt: skip
    good(done.returncode, done.stderr)
    recording = open_recording(disk / "recording")
    (trace,) = recording.traces()
    breakdown = analyse(recording)
    requests, _ = requests_of(whole(trace))
    flushes = requests.flush & (requests.device_key >> MINOR_BITS != LOOP_MAJOR)
    flushed_ns = (requests.complete_ns - requests.issue_ns)[flushes].sum()
    row = [layer.row for layer in breakdown.layers].index("device.flush")
    assert breakdown.quality.ties.get("time", 0) == 0
    assert breakdown.time_ns[row].sum() >= 0.8 * flushed_ns > 0
