# SPDX-License-Identifier: Apache-2.0
"""Requests that the kernel's own thread submits (SQPOLL), and the call that waits for them."""

from __future__ import annotations

import pytest

from iostrata.stitch.opcodes import RWF_OF_LINKED
from iostrata.trace.layout import (
    CALL_IO_URING_ENTER,
    THREAD_WORKER,
    WAKE_INTERRUPT,
    WAKE_THREAD,
)
from tests.stitch.test_truth import accounts, analysed, conserves
from tests.synthetic import O_DSYNC, Request, World, device, submit

WRITER, OTHER, POLLS, WORKER = 100, 102, 101, 103
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


@pytest.mark.parametrize("tid", [POLLS, OTHER])
def test_who_is_to_say_that_it_is_complete_and_has_no_cpu(tid: int) -> None:
    """The disk is done at 21700; the thread that submits says so at 22000, and has had no CPU since
    15000 until 21950. That another has none is no matter."""
    world = worlds((1_000, 20_000))
    world.emit("sched_resume", 21_950, tid, off_ns=15_000, state=0, subject_tid=tid)
    waits(world, 1_500, 23_000)
    breakdown = analysed(world)
    conserves(breakdown)
    ((found,),) = accounts(breakdown).values()
    late = 250 if tid == POLLS else 0
    assert found.get("wakeup.runqueue", 0) == late
    assert found["wakeup.reap"] == 1_300 - late


def test_who_is_to_hand_a_sync_over_and_has_no_cpu() -> None:
    """What it is linked behind is complete at 22000, and the thread that submits them off its CPU
    from 22010 to 31000: it hands the sync over at 31500."""
    world = worlds()
    write, sync = FILE | {"rwf": RWF_OF_LINKED, "open_flags": 0}, FILE | {"opcode": 3}
    world.emit("thread", 1, WRITER, tgid=WRITER, subject_tid=WORKER, kind=THREAD_WORKER,
               comm=b"iou-wrk-100")  # fmt: skip
    world.emit("io_uring_submit_req", 1_000, POLLS, request_key=0x70, **write)
    world.emit("io_uring_submit_req", 1_100, POLLS, request_key=0x80, **sync)
    submit(world, DISK, POLLS, 1_200, Request(queue=500, scheduler=None, device=20_000))
    world.emit("io_uring_complete", 22_000, POLLS, request_key=0x70, result=8192, **write)
    world.emit("sched_resume", 31_000, POLLS, off_ns=22_010, state=0, subject_tid=POLLS)
    world.emit("io_uring_queue_async_work", 31_500, POLLS, request_key=0x80, **sync)
    world.emit("sched_resume", 32_500, WORKER, off_ns=500, wake_ns=31_600, waker_tid=POLLS,
               state=1, subject_tid=WORKER, waker_context=WAKE_THREAD)  # fmt: skip
    world.emit("io_uring_work", 33_000, WORKER, request_key=0x80)
    submit(world, DISK, WORKER, 33_000, Request(queue=500, scheduler=None, device=20_000))
    world.emit("sched_resume", 54_000, WORKER, off_ns=33_600, wake_ns=53_600, waker_tid=0,
               state=2, subject_tid=WORKER, waker_context=WAKE_INTERRUPT)  # fmt: skip
    world.emit("io_uring_complete", 55_000, WORKER, request_key=0x80, result=0, **sync)
    waits(world, 1_500, 56_000)
    breakdown = analysed(world)
    conserves(breakdown)
    ((found,),) = accounts(breakdown).values()
    assert found["wakeup.runqueue"] == 31_000 - 22_010 + 32_500 - 31_600 + 54_000 - 53_600
    assert found["wakeup.worker"] <= 1_000
