# SPDX-License-Identifier: Apache-2.0
"""Small synthetic stacks whose account can be read off the page: XFS, io_uring, libaio, loop."""

from __future__ import annotations

import pytest

from iostrata.trace.layout import (
    CALL_IO_URING_ENTER,
    THREAD_HELPER,
    WAKE_INTERRUPT,
    WAKE_THREAD,
)
from tests.stitch.test_truth import accounts, analysed, conserves
from tests.synthetic import (
    FLUSH_OP,
    FUA,
    META,
    NO_SECTOR,
    O_DSYNC,
    PREFLUSH,
    SYNC,
    WRITE,
    Request,
    World,
    Writer,
    device,
    submit,
)

DISK, LOOP = device(8, 0), device(7, 0)
ICLOG, LOG_BIO, LSN = 0xAAAA000, 0xAAAA100, 77


def log_write(world: World, submitter: int, begin: int) -> int:
    """XFS writes a log buffer: 500 queue, flush 10000, data 20000, 1000 until done."""
    world.emit("xlog_iclog_sync", begin, submitter, iclog_key=ICLOG, lsn=LSN, bio_key=LOG_BIO,
               dev=DISK)  # fmt: skip
    flags = WRITE | SYNC | META | FUA | PREFLUSH
    place = {"dev": DISK, "sector": 999, "size_bytes": 4096, "flags": flags}
    world.emit("block_bio_queue", begin, submitter, bio_key=LOG_BIO, kernel_thread=0, **place)
    empty = {"request_key": 0xF1, "sector": NO_SECTOR, "dev": DISK, "flags": FLUSH_OP}
    world.emit("block_rq_issue", begin + 500, 77, **empty)
    world.emit("block_rq_complete", begin + 10_500, 0, **empty)
    keys = {"request_key": 0xF2, "bio_key": LOG_BIO}
    world.emit("block_rq_issue", begin + 10_500, 77, **keys, **place)
    world.emit("block_rq_complete", begin + 30_500, 0, **keys, **place)
    done = begin + 31_500
    world.emit("xlog_iclog_sync_done", done, 555, iclog_key=ICLOG, lsn=LSN, dev=DISK)
    return done


def test_xfs_log_write_serves_the_thread_that_wrote_it_and_the_one_that_joined() -> None:
    world = World()
    first = Writer(world, 100, DISK, 1_000)
    second = Writer(world, 101, DISK, 21_000)
    for writer in (first, second):
        writer.enter()
        world.emit("xfs_file_fsync", writer.now, writer.tid, inode=12, dev=DISK)
    # The first sleeps until a worker has pushed the committed items, then writes the log.
    first.now += 1_000
    first.sleep(4_000, waker=888, row=None, runqueue=1_000)  # 2000 .. 6000, on at 7000
    begin = first.now
    done = log_write(world, first.tid, begin)
    for writer, asks in ((first, begin), (second, 22_000)):
        world.emit("xlog_iclog_wait_on", asks, writer.tid, iclog_key=ICLOG, lsn=LSN, dev=DISK)
        world.emit("sched_resume", done + 3_000, writer.tid, off_ns=asks, wake_ns=done + 1_000,
                   waker_tid=555, state=2, subject_tid=writer.tid)  # fmt: skip
        writer.now = done + 4_000
        writer.leave("fsync")
    breakdown = analysed(world)
    conserves(breakdown)
    assert accounts(breakdown) == {
        100: [{
            "fs": 1_000 + 1_000, "journal.start": 4_000, "block.Q2D": 500,
            "device.flush": 10_000, "device.journal": 20_000, "journal.logging": 1_000,
            "wakeup.interrupt": 1_000, "wakeup.runqueue": 1_000 + 2_000,
        }],
        101: [{
            "fs": 1_000 + 1_000, "device.journal": begin + 30_500 - 22_000,
            "journal.logging": 1_000, "wakeup.interrupt": 1_000, "wakeup.runqueue": 2_000,
        }],
    }  # fmt: skip


@pytest.mark.parametrize("case", ["nobody was seen", "an interrupt", "a stranger", "a writer"])
def test_a_sleep_in_a_sync_of_xfs_that_no_worker_ended_is_not_for_its_log(case: str) -> None:
    """Perhaps for a lock of the file: nobody tells."""
    world = World()
    world.target(777, kind=THREAD_HELPER)
    world.target(102)
    writer = Writer(world, 100, DISK, 1_000)
    writer.enter()
    world.emit("xfs_file_fsync", writer.now, 100, inode=12, dev=DISK)
    waker = {"a stranger": 888, "a writer": 102}.get(case, 0)
    context = WAKE_INTERRUPT if case == "an interrupt" else WAKE_THREAD
    wake = 0 if case == "nobody was seen" else 6_000
    world.emit("sched_resume", 7_000, 100, off_ns=2_000, wake_ns=wake, state=2, subject_tid=100,
               waker_tid=waker, waker_context=context)  # fmt: skip
    done = log_write(world, 100, 7_000)
    world.emit("xlog_iclog_wait_on", 7_000, 100, iclog_key=ICLOG, lsn=LSN, dev=DISK)
    writer.now = done + 1_000
    writer.leave("fsync")
    account = accounts(analysed(world))[100][0]
    assert "journal.start" not in account
    assert account["residual"] == 5_000 - account.get("wakeup.runqueue", 0)


def test_io_uring_data_inline_and_sync_by_a_worker() -> None:
    world = World()
    world.target(100)
    request = {"request_key": 0x77, "opcode": 23, "inode": 12, "dev": DISK}
    world.emit("io_uring_submit_req", 1_000, 100, open_flags=O_DSYNC, **request)
    spent = submit(world, DISK, 100, 1_500, Request(queue=500, scheduler=None, device=20_000))
    assert spent == {"block.Q2D": 500, "device.data": 20_000}  # until 22000
    # A direct I/O completion worker syncs from 25000: 700 fs, then a flush until 37000.
    world.emit("ext4_sync_file", 40_000, 600, enter_ns=25_000, inode=12, dev=DISK,
               request_key=0x77)  # fmt: skip
    flags = WRITE | SYNC | PREFLUSH
    bio = {"bio_key": 0x5000, "dev": DISK, "size_bytes": 0}
    world.emit("block_bio_queue", 25_700, 600, sector=0, kernel_thread=1, flags=flags, **bio)
    empty = {"request_key": 0xF1, "sector": NO_SECTOR, "dev": DISK, "flags": FLUSH_OP}
    world.emit("block_rq_issue", 27_000, 77, **empty)
    world.emit("block_rq_complete", 37_000, 0, **empty)
    world.emit("block_rq_complete", 37_000, 0, request_key=0xA1, flags=flags, **bio)
    world.emit("io_uring_complete", 46_000, 100, result=8192, size_bytes=8192, **request)
    breakdown = analysed(world)
    conserves(breakdown)
    assert breakdown.writes.names["method"] == ("io_uring:open_datasync",)
    assert accounts(breakdown) == {
        100: [{
            "syscall": 500,  # submitted, until its data was queued
            "block.Q2D": 500 + 1_300, "device.data": 20_000, "wakeup.worker": 3_000,
            "fs": 700 + 3_000, "device.flush": 10_000, "wakeup.reap": 6_000,
        }]
    }  # fmt: skip


def test_io_uring_submitter_is_at_one_request_after_the_other() -> None:
    """The call takes two; what it did of the first until it handed it over, of the second
    until that was queued. What it did of the third, nothing tells: the bio is of later calls."""
    world = World()
    world.target(100)
    request = {"opcode": 23, "inode": 12, "dev": DISK}
    for key, begin in ((0x70, 2_000), (0x80, 4_000), (0x90, 31_000)):
        world.emit("io_uring_submit_req", begin, 100, request_key=key, open_flags=O_DSYNC,
                   **request)  # fmt: skip
    world.emit("io_uring_queue_async_work", 3_000, 100, request_key=0x70, **request)
    submit(world, DISK, 100, 5_000, Request(queue=500, scheduler=None, device=20_000))
    submit(world, DISK, 100, 35_000, Request(queue=500, scheduler=None, device=3_000))
    for enter, leave in ((1_000, 6_000), (30_000, 32_000)):
        world.emit("syscall", leave, 100, enter_ns=enter, call=CALL_IO_URING_ENTER, tgid=100)
    for key, end in ((0x70, 26_000), (0x80, 27_000), (0x90, 40_000)):
        world.emit("io_uring_complete", end, 101, request_key=key, result=8192, size_bytes=8192,
                   **request)  # fmt: skip
    breakdown = analysed(world)
    conserves(breakdown)
    assert accounts(breakdown) == {
        100: [
            {"syscall": 1_000 + 1_000, "residual": 23_000},
            {"syscall": 3_000 + 1_000, "block.Q2D": 500, "device.data": 20_000,
             "wakeup.reap": 1_500},
            {"syscall": 1_000, "residual": 9_000},
        ]
    }  # fmt: skip


def test_libaio_request_is_its_callers_until_getevents_returns_it() -> None:
    world = World()
    world.target(100)
    shared = {"iocb_key": 0x7F00, "inode": 12, "dev": DISK}
    submit(world, DISK, 100, 2_000, Request(queue=500, scheduler=None, device=20_000))
    world.emit("aio_submit", 4_000, 100, enter_ns=1_000, open_flags=O_DSYNC, size_bytes=8192,
               opcode=1, **shared)  # fmt: skip
    world.emit("aio_complete", 30_000, 100, enter_ns=5_000, result=8192, **shared)
    breakdown = analysed(world)
    conserves(breakdown)
    assert breakdown.writes.names["method"] == ("libaio:open_datasync",)
    assert accounts(breakdown) == {
        100: [{
            "syscall": 1_000, "block.Q2D": 500, "device.data": 20_000, "wakeup.reap": 7_500,
        }]
    }  # fmt: skip


def test_a_loop_device_is_followed_down_to_the_disk_under_its_file() -> None:
    world = World()
    world.builder.block(LOOP, "loop0", backing="/image", lower_keys=(DISK,))
    world.builder.block(DISK, "sda")
    writer = Writer(world, 100, LOOP, 1_000)
    writer.enter()
    # 500 queue, then 60000 in the loop device, whose worker has the disk for 400 + 40000 of it.
    worker = Request(queue=400, scheduler=None, device=40_000, sector=5)
    lower = submit(world, DISK, 66, 11_500, worker)
    assert lower == {"block.Q2D": 400, "device.data": 40_000}
    writer.data(Request(queue=500, scheduler=None, device=60_000), interrupt=1_000, runqueue=0)
    writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    world.builder._rows["block_bio_queue"][0]["kernel_thread"] = 1
    breakdown = analysed(world)
    conserves(breakdown)
    assert breakdown.quality.ties == {"key": 1, "time": 1}
    assert accounts(breakdown) == {
        100: [{
            "block.Q2D": 500 + 400, "block.stacked": 60_000 - 40_400, "device.data": 40_000,
            "wakeup.interrupt": 1_000,
        }]
    }  # fmt: skip


def test_a_device_mapper_disk_has_bios_but_no_requests() -> None:
    """dm-crypt: the writer's bio on dm-0, encrypted and queued below by a kernel thread."""
    world, upper = World(), device(252, 0)
    world.builder.block(upper, "dm-0", lower_keys=(DISK,)).block(DISK, "sda")
    writer = Writer(world, 100, upper, 1_000)
    writer.enter()
    bio = {"bio_key": 0xD1, "dev": upper, "sector": 8, "size_bytes": 8192, "flags": WRITE | SYNC}
    world.emit("block_bio_queue", 2_000, 100, kernel_thread=0, **bio)
    submit(world, DISK, 66, 12_000, Request(queue=400, scheduler=None, device=40_000))
    world.builder._rows["block_bio_queue"][-1]["kernel_thread"] = 1
    world.emit("block_bio_complete", 55_000, 0, **bio)
    world.emit("sched_resume", 58_000, 100, off_ns=2_500, wake_ns=56_000, waker_tid=0, state=2,
               subject_tid=100)  # fmt: skip
    writer.now = 60_000
    writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    breakdown = analysed(world)
    conserves(breakdown)
    assert accounts(breakdown) == {
        100: [{
            "syscall": 1_000 + 2_000, "block.stacked": 53_000 - 40_400, "block.Q2D": 400,
            "device.data": 40_000, "wakeup.interrupt": 1_000, "wakeup.runqueue": 2_000,
        }]
    }  # fmt: skip


def test_a_request_whose_completion_nobody_saw_is_left_out_and_counted() -> None:
    """A process may read libaio's ring by itself; the recording may end before the request."""
    world = World()
    world.target(100)
    shared = {"inode": 12, "dev": DISK}
    for key, enter in ((0x7F00, 1_000), (0x7F40, 50_000)):
        world.emit("aio_submit", enter + 3_000, 100, enter_ns=enter, open_flags=O_DSYNC,
                   iocb_key=key, size_bytes=8192, opcode=1, **shared)  # fmt: skip
    world.emit("aio_complete", 30_000, 100, enter_ns=5_000, iocb_key=0x7F00, result=8192, **shared)
    world.emit("io_uring_submit_req", 60_000, 100, request_key=0x77, opcode=3, inode=12, dev=DISK)
    breakdown = analysed(world)
    assert len(breakdown.writes) == 1
    assert breakdown.left_out == {"completion not seen": 2}


def test_a_control_block_that_is_used_again_has_not_the_next_ones_completion() -> None:
    """The process read the first one's from the ring by itself, and asked the kernel later."""
    world = World()
    world.target(100)
    shared = {"iocb_key": 0x7F00, "inode": 12, "dev": DISK}
    for enter in (1_000, 100_000):
        world.emit("aio_submit", enter + 3_000, 100, enter_ns=enter, open_flags=O_DSYNC,
                   size_bytes=8192, opcode=1, **shared)  # fmt: skip
        submit(world, DISK, 100, enter + 1_000, Request(queue=500, scheduler=None, device=20_000))
    world.emit("aio_complete", 130_000, 100, enter_ns=105_000, result=8192, **shared)
    breakdown = analysed(world)
    assert breakdown.writes.latency_ns.tolist() == [30_000]
    assert breakdown.left_out == {"completion not seen, although it was over": 1}
    # Half of them: what there is may be all but theirs.
    assert breakdown.quality.unseen_share == 0.5
    assert breakdown.quality.doubtful
