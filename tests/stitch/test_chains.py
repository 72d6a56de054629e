# SPDX-License-Identifier: Apache-2.0
"""io_uring's chains: what is submitted together, but begins one behind the other."""

from __future__ import annotations

import pytest

from iostrata.trace.layout import CALL_IO_URING_ENTER, THREAD_WORKER
from tests.stitch.test_truth import analysed, conserves
from tests.synthetic import World, device

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
