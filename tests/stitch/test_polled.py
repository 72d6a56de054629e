# SPDX-License-Identifier: Apache-2.0
"""Requests that the kernel's own thread submits (SQPOLL), and the call that waits for them."""

from __future__ import annotations

import pytest

from iostrata.trace.layout import CALL_IO_URING_ENTER, THREAD_WORKER
from tests.stitch.test_truth import accounts, analysed, conserves
from tests.synthetic import O_DSYNC, Request, World, device, submit

WRITER, OTHER, POLLS = 100, 102, 101
DISK = device(8, 0)
FILE = {"inode": 12, "dev": DISK, "opcode": 23, "open_flags": O_DSYNC, "size_bytes": 8192}


def worlds(*requests: tuple[int, int]) -> World:
    """Each: from when the thread took it, and for how long the disk had it; it completes it 800
    after that began and 300 after that ended."""
    world = World()
    world.target(WRITER)
    world.emit("thread", 1, OTHER, tgid=WRITER, subject_tid=OTHER, kind=1, comm=b"writer")
    world.emit("thread", 1, WRITER, tgid=WRITER, subject_tid=POLLS, kind=THREAD_WORKER,
               comm=b"iou-sqp-100")  # fmt: skip
    for key, (begin, took) in enumerate(requests, start=0x70):
        world.emit("io_uring_submit_req", begin, POLLS, request_key=key, **FILE)
        submit(world, DISK, POLLS, begin + 200, Request(queue=500, scheduler=None, device=took))
        world.emit("io_uring_complete", begin + took + 1_000, POLLS, request_key=key, result=8192,
                   **FILE)  # fmt: skip
    return world


def waits(world: World, enter: int, end: int, tid: int = WRITER, polls: int = POLLS) -> None:
    """``polls``: the thread of the kernel's that submits for the ring that it waits at."""
    world.emit("syscall", end, tid, enter_ns=enter, call=CALL_IO_URING_ENTER, tgid=WRITER, rwf=1,
               size_bytes=polls, result=2)  # fmt: skip


def test_the_call_that_waits_for_several_has_all_of_them() -> None:
    """They were complete at 22000 and 43000; it was let go at 43500, and had no CPU until 50000."""
    world = worlds((1_000, 20_000), (2_000, 40_000))
    world.emit("sched_resume", 50_000, WRITER, off_ns=900, wake_ns=43_500, waker_tid=POLLS, state=1,
               subject_tid=WRITER, waker_context=1)  # fmt: skip
    waits(world, 500, 51_000)
    breakdown = analysed(world)
    conserves(breakdown)
    assert not breakdown.left_out
    rest = {"syscall": 200, "block.Q2D": 500, "wakeup.runqueue": 6_500}
    first, second = accounts(breakdown)[POLLS]
    assert first == rest | {"device.data": 20_000, "wakeup.reap": 43_500 - 21_700 + 1_000}
    assert second == rest | {"device.data": 40_000, "wakeup.reap": 43_500 - 42_700 + 1_000}


@pytest.mark.parametrize(
    ("calls", "end"),
    [
        ([], 22_000),
        ([(500, 21_000, WRITER, POLLS), (23_000, 24_000, WRITER, POLLS)], 22_000),
        ([(500, 30_000, WRITER, 0)], 22_000),
        ([(500, 30_000, WRITER, 999)], 22_000),
        ([(500, 30_000, WRITER, POLLS), (600, 25_000, OTHER, POLLS)], 25_000),
        # Who came later had it first.
        ([(500, 30_000, WRITER, POLLS), (23_000, 24_000, OTHER, POLLS)], 22_000),
    ],
    ids=["none", "before and behind", "of no ring", "another's", "the first of two", "a later one"],
)
def test_which_call_it_ends_with(calls: list[tuple[int, int, int, int]], end: int) -> None:
    world = worlds((1_000, 20_000))
    for call in calls:
        waits(world, *call)
    assert analysed(world).writes.end_ns.tolist() == [end]
