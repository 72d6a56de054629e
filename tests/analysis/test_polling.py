# SPDX-License-Identifier: Apache-2.0
"""What io_uring's thread (SQPOLL) has several of at once: each has its own time."""

from __future__ import annotations

import pytest

from iostrata.trace.layout import THREAD_WORKER
from tests.stitch.test_truth import accounts, analysed, conserves
from tests.synthetic import O_DSYNC, Request, World, device, submit

WRITER, POLLS = 100, 101
DISK = device(8, 0)
FILE = {"inode": 12, "dev": DISK, "opcode": 23, "open_flags": O_DSYNC, "size_bytes": 8192}


@pytest.mark.parametrize("comm", [b"iou-sqp-100", b"fio"], ids=["named", "at its birth"])
def test_several_at_once(comm: bytes) -> None:
    """It runs all the time, and completes both: the one behind did not wait for a worker."""
    world = World()
    world.target(WRITER)
    world.emit("thread", 1, WRITER, tgid=WRITER, subject_tid=POLLS, kind=THREAD_WORKER, comm=comm)
    for key, begin, took in ((0x70, 1_000, 20_000), (0x80, 2_000, 40_000)):
        world.emit("io_uring_submit_req", begin, POLLS, request_key=key, **FILE)
        submit(world, DISK, POLLS, begin + 200, Request(queue=500, scheduler=None, device=took))
        world.emit("io_uring_complete", begin + took + 1_000, POLLS, request_key=key, result=8192,
                   **FILE)  # fmt: skip
    breakdown = analysed(world)
    conserves(breakdown)
    assert not breakdown.left_out
    assert list(accounts(breakdown).values()) == [
        [
            {"syscall": 200, "block.Q2D": 500, "device.data": took, "wakeup.reap": 300}
            for took in (20_000, 40_000)
        ]
    ]
