# SPDX-License-Identifier: Apache-2.0
"""io_uring's chains: what is submitted together, but begins one behind the other.

And what its workers run, where no file system tells of a sync.
"""

from __future__ import annotations

import pytest

from iostrata.trace.layout import CALL_IO_URING_ENTER, THREAD_WORKER
from tests.stitch.test_truth import accounts, analysed, conserves
from tests.synthetic import Request, World, device, submit

DISK = device(8, 0)
WRITE, FSYNC = 23, 3
SIZES = [4096, 65536, 8192]


@pytest.mark.parametrize("who_completes", ["worker", "submitter"])
def test_a_sync_makes_durable_what_it_is_linked_behind(who_completes: str) -> None:
    """One call submits a write and its sync, and collects both: each sync has its own write.

    A worker that completed the write goes on with the sync. Where the submitter completes
    (IORING_SETUP_DEFER_TASKRUN), it hands the sync over then.
    """
    world = World()
    world.target(100)
    world.emit("thread", 1, 100, tgid=100, subject_tid=101, kind=THREAD_WORKER, comm=b"iou-wrk-1")
    tid = 101 if who_completes == "worker" else 100
    for number, size in enumerate(SIZES):
        begin = 100_000 * (1 + number)
        write = {"request_key": 0x70, "opcode": WRITE, "inode": 12, "dev": DISK,
                 "size_bytes": size, "offset_bytes": 1 << 20 << number}  # fmt: skip
        sync = {"request_key": 0x80, "opcode": FSYNC, "inode": 12, "dev": DISK, "size_bytes": 0}
        world.emit("io_uring_submit_req", begin + 1_000, 100, **write)
        world.emit("io_uring_submit_req", begin + 2_000, 100, **sync)
        world.emit("io_uring_queue_async_work", begin + 3_000, 100, **write)
        world.emit("io_uring_complete", begin + 10_000, tid, result=size, **write)
        if tid == 100:
            world.emit("io_uring_queue_async_work", begin + 10_500, 100, **sync)
        world.emit("io_uring_complete", begin + 30_000, tid, result=0, **sync)
        world.emit("syscall", begin + 31_000, 100, enter_ns=begin, call=CALL_IO_URING_ENTER,
                   tgid=100)  # fmt: skip
    breakdown = analysed(world)
    conserves(breakdown)
    assert breakdown.writes.size_bytes.tolist() == SIZES
    assert breakdown.writes.latency_ns.tolist() == [31_000] * len(SIZES)
    assert breakdown.quality.plain_writes == 0


@pytest.mark.parametrize("point", ["ext4_sync_file", "xfs_file_fsync"])
@pytest.mark.parametrize("looks", [36_000, 45_000])
def test_a_sync_has_what_is_complete_when_its_worker_looks(looks: int, point: str) -> None:
    """It is handed over at 32000, before the write is complete, at 40000. Another sync is behind
    both."""
    world = World()
    world.target(100)
    for worker in (101, 102):
        world.emit("thread", 1, 100, tgid=100, subject_tid=worker, kind=THREAD_WORKER,
                   comm=b"iou-wrk-1")  # fmt: skip
    write = {"request_key": 0x70, "opcode": WRITE, "inode": 12, "dev": DISK, "size_bytes": 8192}
    file = {"inode": 12, "dev": DISK}
    syncs = [{"request_key": key, "opcode": FSYNC, "size_bytes": 0, **file} for key in (0x80, 0x90)]
    for time, request in ((2_000, write), (31_000, syncs[0]), (90_000, syncs[1])):
        world.emit("io_uring_submit_req", time, 100, **request)
        world.emit("io_uring_queue_async_work", time + 1_000, 100, **request)
    world.emit("io_uring_complete", 40_000, 101, result=8192, **write)
    for begin, end, sync in ((looks, 60_000, syncs[0]), (92_000, 95_000, syncs[1])):
        if point == "ext4_sync_file":
            world.emit(point, end - 100, 102, enter_ns=begin, **file)
        else:
            world.emit(point, begin, 102, **file)
        world.emit("io_uring_complete", end, 102, result=0, **sync)
    world.emit("syscall", 99_000, 100, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=100)
    sizes = analysed(world).writes.size_bytes.tolist()
    assert sizes == ([8192, 0] if looks > 40_000 else [0, 8192])


def test_what_a_worker_runs_is_its_request_s_without_a_sync_of_a_file_system() -> None:
    """On a block device two syncs are handed to one worker, which takes one after the other."""
    world = World()
    world.target(100)
    world.emit("thread", 1, 100, tgid=100, subject_tid=101, kind=THREAD_WORKER, comm=b"iou-wrk-1")
    request = {"opcode": FSYNC, "inode": 12, "dev": DISK, "size_bytes": 0}
    for number, key in enumerate((0x70, 0x80)):
        world.emit("io_uring_submit_req", 2_000 + number * 1_000, 100, request_key=key, **request)
        world.emit("io_uring_queue_async_work", 2_500 + number * 1_000, 100, request_key=key,
                   **request)  # fmt: skip
    # Woken at 4000 it runs from 6000 on, and sleeps for the first one's data.
    world.emit("sched_resume", 6_000, 0, off_ns=500, wake_ns=4_000, waker_tid=100, state=1,
               subject_tid=101, waker_context=1)  # fmt: skip
    submit(world, DISK, 101, 7_000, Request(queue=500, scheduler=None, device=20_000))
    world.emit("sched_resume", 30_000, 0, off_ns=7_500, wake_ns=28_500, waker_tid=0, state=2,
               subject_tid=101, waker_context=2)  # fmt: skip
    world.emit("io_uring_complete", 32_000, 101, request_key=0x70, result=0, **request)
    world.emit("io_uring_complete", 35_000, 101, request_key=0x80, result=0, **request)
    world.emit("syscall", 39_000, 100, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=100)
    breakdown = analysed(world)
    conserves(breakdown)
    assert accounts(breakdown) == {
        100: [
            {"wakeup.worker": 1_500, "wakeup.runqueue": 2_000 + 1_500, "block.Q2D": 500,
             "device.data": 20_000, "wakeup.interrupt": 1_000,
             "syscall": 1_500 + 1_000 + 2_000, "wakeup.reap": 7_000},
            # It waits for the worker, and, while that sleeps for the first one, for its data.
            {"wakeup.worker": 4_000, "wakeup.runqueue": 2_000 + 1_500, "device.data": 20_000,
             "wakeup.interrupt": 1_000, "syscall": 2_500 + 3_000, "wakeup.reap": 4_000},
        ]
    }  # fmt: skip


def test_a_cancelled_sync_has_not_the_completion_of_who_has_its_key_next() -> None:
    world = World()
    world.target(100)
    place = {"request_key": 0x80, "opcode": FSYNC, "inode": 12, "dev": DISK}
    for begin in (1_000, 50_000):
        world.emit("io_uring_submit_req", begin, 100, **place)
    world.emit("io_uring_complete", 80_000, 100, result=0, **place)
    breakdown = analysed(world)
    assert breakdown.writes.latency_ns.tolist() == [30_000]
    assert breakdown.left_out == {"completion not seen, although it was over": 1}
