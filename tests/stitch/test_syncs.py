# SPDX-License-Identifier: Apache-2.0
"""Syncs of asynchronous requests on file systems without a point at the return: each ends with
what its worker was at, not when the caller, who may have no CPU, collects the result."""

from __future__ import annotations

import pytest

from iostrata.trace.layout import (
    CALL_IO_URING_ENTER,
    THREAD_HELPER,
    THREAD_WORKER,
    WAKE_INTERRUPT,
    WAKE_THREAD,
)
from tests.stitch.test_stacks import DISK, ICLOG, LSN, log_write
from tests.stitch.test_truth import accounts, analysed, conserves
from tests.synthetic import O_DSYNC, Request, World, submit

WRITER, WORKER, KEY, OTHER = 100, 601, 0x77, 0x88
PREEMPTED, INTERRUPTIBLE, UNINTERRUPTIBLE, IDLE = 0, 1, 2, 0x402
MS = 1_000_000
FILE = {"inode": 12, "dev": DISK}
REQUEST = {"opcode": 23, "open_flags": O_DSYNC, "size_bytes": 8192, **FILE}


def resumes(world: World, tid: int, off: int, wake: int, on: int, waker: int, state: int) -> None:
    context = WAKE_THREAD if waker else WAKE_INTERRUPT
    world.emit("sched_resume", on, tid, off_ns=off, wake_ns=wake, waker_tid=waker, state=state,
               subject_tid=tid, waker_context=context if wake else 0)  # fmt: skip


def transferred(kind: int = THREAD_HELPER, *, resumed: bool = True) -> World:
    """Direct, by io_uring: the disk is done at 22000, and the worker runs at 24000."""
    world = World()
    world.target(WRITER)
    world.emit("thread", 1, WORKER, tgid=WORKER, subject_tid=WORKER, kind=kind,
               comm=b"kworker/1:2")  # fmt: skip
    world.emit("io_uring_submit_req", 1_000, WRITER, request_key=KEY, **REQUEST)
    submit(world, DISK, WRITER, 1_500, Request(queue=500, scheduler=None, device=20_000))
    world.emit("syscall", 3_000, WRITER, enter_ns=900, call=CALL_IO_URING_ENTER, tgid=WRITER)
    if resumed:
        resumes(world, WORKER, 500, 22_500, 24_000, 0, IDLE)
    return world


def synced(world: World) -> None:
    """XFS, from 25000 on; the worker is back from its log at 60000, and goes on until 62000."""
    world.emit("xfs_file_fsync", 25_000, WORKER, request_key=KEY, **FILE)
    done = log_write(world, WORKER, 26_000)
    world.emit("xlog_iclog_wait_on", 26_000, WORKER, iclog_key=ICLOG, lsn=LSN, dev=DISK)
    resumes(world, WORKER, 26_100, done + 500, 60_000, 555, UNINTERRUPTIBLE)


def collected(world: World, time: int) -> None:
    world.emit("io_uring_complete", time, WRITER, request_key=KEY, result=8192, **REQUEST)


def account(world: World) -> dict[str, int]:
    breakdown = analysed(world)
    conserves(breakdown)
    (found,) = accounts(breakdown)[WRITER]
    return found


UNTIL_LOGGED = {
    "syscall": 600, "block.Q2D": 500 + 500, "device.data": 20_000, "wakeup.worker": 500 + 1_000,
    "device.flush": 10_000, "device.journal": 20_000, "journal.logging": 1_000,
}  # fmt: skip


@pytest.mark.parametrize("rests", [True, False])
def test_a_submitter_that_the_worker_let_go_and_that_has_no_cpu(rests: bool) -> None:
    """It is woken at 62000, and runs 10 ms later. The worker rests then, or was not seen again."""
    world = transferred()
    synced(world)
    if rests:
        resumes(world, WORKER, 63_000, 11 * MS, 11 * MS + 1_000, 0, IDLE)
    resumes(world, WRITER, 2_500, 62_000, 10 * MS, WORKER, INTERRUPTIBLE)
    collected(world, 10 * MS + 1_000)
    assert account(world) == UNTIL_LOGGED | {
        "fs": 1_000 + 2_000, "wakeup.interrupt": 500, "wakeup.reap": 1_000,
        "wakeup.runqueue": 1_500 + 2_000 + 10 * MS - 62_000,
    }  # fmt: skip


@pytest.mark.parametrize("case", ["rests", "other work", "next sync", "off", "preempted"])
def test_a_submitter_that_nobody_let_go(case: str) -> None:
    """It was kept from running at 3000, until 10 ms: the worker has been at it until 63000."""
    world = transferred()
    synced(world)
    match case:
        case "rests":
            resumes(world, WORKER, 63_000, 9 * MS, 9 * MS + 1_000, 0, IDLE)
            world.emit("xfs_file_fsync", 9 * MS + 2_000, WORKER, request_key=OTHER, **FILE)
        case "other work":
            world.emit(
                "sched_resume",
                9 * MS,
                WORKER,
                off_ns=63_000,
                wake_ns=8 * MS,
                waker_tid=0,
                state=2,
                subject_tid=WORKER,
                waker_context=WAKE_INTERRUPT,
                other_work=1,
            )
        case "next sync":
            world.emit("xfs_file_fsync", 63_000, WORKER, request_key=OTHER, **FILE)
        case "off":
            world.emit("sched_ran", 64_000, 1, begin_ns=60_000, end_ns=63_000, tgid=WORKER,
                       process=b"kworker/1:2")  # fmt: skip
        case "preempted":
            resumes(world, WORKER, 63_000, 0, 10 * MS + 9_000, 0, PREEMPTED)
    resumes(world, WRITER, 3_100, 0, 10 * MS, 0, PREEMPTED)
    collected(world, 10 * MS + 1_000)
    found = account(world)
    assert found["fs"] == 1_000 + 3_000
    assert found["wakeup.runqueue"] == 1_500 + 2_000 + 10 * MS - 63_000
    assert found["wakeup.reap"] == 1_000
    assert "residual" not in found


def test_whom_it_lets_go_before_its_last_wait_is_no_end_of_the_sync() -> None:
    """A lock that the submitter waits for. Nothing tells of the worker behind its last wait."""
    world = transferred()
    synced(world)
    resumes(world, WRITER, 2_500, 25_500, 25_800, WORKER, UNINTERRUPTIBLE)
    collected(world, 66_000)
    assert account(world) == UNTIL_LOGGED | {
        "fs": 1_000, "residual": 6_000, "wakeup.interrupt": 500, "wakeup.runqueue": 1_500 + 2_000,
    }  # fmt: skip


NEIGHBOUR = WORKER + 4
"""On its CPU, as World has threads."""


@pytest.mark.parametrize("told", ["resumes", "interrupted"])
def test_a_worker_whose_cpu_was_another_s_is_at_nothing_that_is_known(told: str) -> None:
    """It is not told to have left at 62000, nor to run again when it lets the submitter go."""
    world = transferred()
    synced(world)
    if told == "resumes":
        resumes(world, NEIGHBOUR, 500, 0, 62_000, 0, PREEMPTED)
    else:
        world.emit(
            "block_rq_complete", 62_000, NEIGHBOUR, request_key=0x999, dev=DISK, size_bytes=0
        )
    resumes(world, WRITER, 2_500, 5 * MS, 10 * MS, WORKER, INTERRUPTIBLE)
    resumes(world, WORKER, 5 * MS + 1_000, 11 * MS, 11 * MS + 1_000, 0, IDLE)
    collected(world, 10 * MS + 1_000)
    assert account(world) == UNTIL_LOGGED | {
        "fs": 1_000 + 2_000, "residual": 5 * MS - 62_000, "wakeup.interrupt": 500,
        "wakeup.reap": 1_000, "wakeup.runqueue": 1_500 + 2_000 + 5 * MS,
    }  # fmt: skip


@pytest.mark.parametrize("when", ["in it", "before it", "behind it"])
def test_a_worker_that_left_its_cpu_unseen_is_at_nothing_that_is_known(when: str) -> None:
    """By the kernel's own count, told as it next leaves: it has not been seen to at any time since
    it ran again."""
    world = transferred()
    if when == "before it":
        world.emit("sched_hidden", 490, WORKER, enter_ns=0, count=1)
    synced(world)
    if when == "in it":
        world.emit("sched_hidden", 5 * MS, WORKER, enter_ns=0, count=1)
    resumes(world, WRITER, 2_500, 5 * MS, 10 * MS, WORKER, INTERRUPTIBLE)
    resumes(world, WORKER, 5 * MS + 1_000, 11 * MS, 11 * MS + 1_000, 0, IDLE)
    if when == "behind it":
        world.emit("sched_hidden", 12 * MS, WORKER, enter_ns=0, count=1)
    collected(world, 10 * MS + 1_000)
    unknown = {"fs": 1_000, "residual": 5 * MS - 60_000}
    assert account(world) == UNTIL_LOGGED | {
        "fs": 1_000 + 5 * MS - 60_000, "wakeup.interrupt": 500, "wakeup.reap": 1_000,
        "wakeup.runqueue": 1_500 + 2_000 + 5 * MS,
    } | (unknown if when == "in it" else {})  # fmt: skip


@pytest.mark.parametrize("another", [True, False])
def test_a_worker_that_does_not_run_again_is_at_nothing_behind_its_last_sign(another: bool) -> None:
    """The submitter is busy until 10 ms: it may have been done, or not, at any time."""
    world = transferred()
    synced(world)
    if another:
        resumes(world, NEIGHBOUR, 500, 0, 62_000, 0, PREEMPTED)
    collected(world, 10 * MS + 1_000)
    assert account(world) == UNTIL_LOGGED | {
        "fs": 1_000, "residual": 10 * MS + 1_000 - 60_000, "wakeup.interrupt": 500,
        "wakeup.runqueue": 1_500 + 2_000,
    }  # fmt: skip


def test_a_worker_of_io_uring_says_at_which_it_is_within_its_sync() -> None:
    """When it first sleeps there, on btrfs as on any; it completes that itself, at 40000."""
    world = World()
    world.target(WRITER)
    world.emit("thread", 1, WRITER, tgid=WRITER, subject_tid=WORKER, kind=THREAD_WORKER,
               comm=b"iou-wrk-100")  # fmt: skip
    world.emit("io_uring_submit_req", 1_000, WRITER, request_key=KEY, **REQUEST)
    world.emit("io_uring_queue_async_work", 2_000, WRITER, request_key=KEY, **REQUEST)
    world.emit("syscall", 3_000, WRITER, enter_ns=900, call=CALL_IO_URING_ENTER, tgid=WRITER)
    resumes(world, WORKER, 500, 2_500, 4_000, WRITER, INTERRUPTIBLE)
    world.emit("btrfs_sync_file", 5_000, WORKER, request_key=KEY, **FILE)
    world.emit("io_uring_work", 10_000, WORKER, request_key=KEY)
    submit(world, DISK, WORKER, 10_000, Request(queue=500, scheduler=None, device=20_000))
    resumes(world, WORKER, 10_200, 31_000, 32_000, 0, UNINTERRUPTIBLE)
    world.emit("io_uring_work", 41_000, WORKER, request_key=0)
    resumes(world, WRITER, 3_100, 40_000, 10 * MS, WORKER, INTERRUPTIBLE)
    collected(world, 10 * MS + 1_000)
    found = account(world)
    assert found["syscall"] == 1_100 + 1_000
    assert found["device.data"] == 20_000
    assert found["fs"] == 5_000 + 8_000
    assert found["wakeup.runqueue"] == 1_500 + 1_000 + 10 * MS - 40_000


def test_a_worker_that_was_only_met_is_at_nothing_behind_its_last_sign() -> None:
    """Nobody was seen to let it go on from its log."""
    world = transferred(resumed=False)
    world.emit("xfs_file_fsync", 25_000, WORKER, request_key=KEY, **FILE)
    log_write(world, WORKER, 26_000)
    world.emit("xlog_iclog_wait_on", 26_000, WORKER, iclog_key=ICLOG, lsn=LSN, dev=DISK)
    resumes(world, WRITER, 3_100, 0, 10 * MS, 0, PREEMPTED)
    collected(world, 10 * MS + 1_000)
    found = account(world)
    assert found["fs"] == 1_000
    assert found["residual"] > 9 * MS


def test_libaio_s_submitter_goes_on_when_it_has_synchronised_itself() -> None:
    """In its call, until 60000; it collects that 10 ms later."""
    world = World()
    world.target(WRITER)
    block = {"iocb_key": KEY, **FILE}
    world.emit("xfs_file_fsync", 5_000, WRITER, request_key=KEY, **FILE)
    submit(world, DISK, WRITER, 6_000, Request(queue=500, scheduler=None, device=20_000))
    resumes(world, WRITER, 6_500, 27_000, 28_000, 0, UNINTERRUPTIBLE)
    world.emit("aio_submit", 60_000, WRITER, enter_ns=1_000, open_flags=O_DSYNC, size_bytes=8192,
               opcode=1, **block)  # fmt: skip
    world.emit("aio_complete", 10 * MS, WRITER, enter_ns=10 * MS - 1_000, result=8192, **block)
    found = account(world)
    assert found["fs"] == 1_000 + 60_000 - 28_000
    assert found["wakeup.reap"] == 10 * MS - 60_000


@pytest.mark.parametrize("told", [True, False])
def test_a_disk_s_own_sync_by_a_worker_is_told_as_it_queues_something(told: bool) -> None:
    """Libaio's, of a node, asked for at 1000: no file system tells of that, nor does an older
    recorder."""
    world, node = World(), {"inode": DISK, "dev": DISK}
    world.target(WRITER)
    world.emit("thread", 1, WORKER, tgid=WORKER, subject_tid=WORKER, kind=THREAD_HELPER,
               comm=b"kworker/1:2")  # fmt: skip
    world.emit("aio_submit", 3_000, WRITER, enter_ns=1_000, iocb_key=KEY, opcode=3, **node)
    resumes(world, WORKER, 500, 2_500, 4_000, WRITER, IDLE)
    queued = (5_000, 30_000)
    for sector, begin in enumerate(queued):
        if told:
            world.emit("blkdev_fsync", begin - 100, WORKER, request_key=KEY, datasync=1, **node)
        submit(world, DISK, WORKER, begin, Request(queue=500, scheduler=None, device=20_000,
                                                   sector=8_000 + 64 * sector))  # fmt: skip
        resumes(world, WORKER, begin + 200, begin + 21_000, begin + 22_000, 0, UNINTERRUPTIBLE)
    resumes(world, WRITER, 3_500, 55_000, 56_000, WORKER, INTERRUPTIBLE)
    resumes(world, WORKER, 56_500, 90_000, 91_000, 0, IDLE)
    world.emit("aio_complete", 57_000, WRITER, enter_ns=3_200, iocb_key=KEY, result=0, **node)
    found = account(world)
    if not told:
        assert found == {"syscall": 2_000, "residual": 54_000}
        return
    assert found == {
        "wakeup.worker": 1_500 + 900, "wakeup.runqueue": 1_500 + 2 * 1_000 + 1_000,
        "block.Q2D": 2 * 500, "device.data": 2 * 20_000, "wakeup.interrupt": 2 * 500,
        "fs": 100 + (29_900 - 27_000) + 100 + (55_000 - 52_000), "wakeup.reap": 1_000,
    }  # fmt: skip
