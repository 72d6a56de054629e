# SPDX-License-Identifier: Apache-2.0
"""Reads of io_uring and libaio through the page cache, of known truth: where each one's time was,
and what served it."""

from __future__ import annotations

from iostrata.model import Breakdown, Op
from iostrata.stitch import reads as module
from iostrata.trace.layout import (
    CALL_IO_SUBMIT,
    CALL_IO_URING_ENTER,
    THREAD_WORKER,
    WAKE_INTERRUPT,
)
from tests.reading import Flight, Reader, reading_world
from tests.stitch.test_direct import analysed
from tests.stitch.test_reads import served
from tests.stitch.test_truth import accounts
from tests.synthetic import World, device

DISK = device(8, 0)
PAGE = 4096
READER, WORKER = 100, 101
READ, PREAD = 22, 0
A, B, C = 0x70, 0x80, 0x90


def submitted(world: World, time: int, key: int, offset: int, size: int = PAGE) -> None:
    world.emit("io_uring_submit_req", time, READER, request_key=key, open_flags=0, inode=12,
               dev=DISK, opcode=READ, size_bytes=size, offset_bytes=offset)  # fmt: skip


def complete(world: World, time: int, key: int, size: int = PAGE, tid: int = READER) -> None:
    world.emit("io_uring_complete", time, tid, request_key=key, open_flags=0, inode=12, dev=DISK,
               opcode=READ, size_bytes=size, result=size)  # fmt: skip


def returned(world: World, enter: int, time: int, call: int = CALL_IO_URING_ENTER) -> None:
    world.emit("syscall", time, READER, enter_ns=enter, call=call, tgid=READER)


def slept(world: World, tid: int, off: int, flight: Flight) -> int:
    """Until a flight is there; when it runs again."""
    on = flight.complete + 3_000
    world.emit("sched_resume", on, tid, off_ns=off, wake_ns=flight.complete + 1_000, waker_tid=0,
               state=2, waker_context=WAKE_INTERRUPT, subject_tid=tid)  # fmt: skip
    return on


def asked(reader: Reader, time: int, offset: int, device_ns: int = 30_000) -> Flight:
    reader.now = time
    return reader.ask(offset, PAGE, device=device_ns)


def found(world: World) -> list[tuple[dict[str, int], str]]:
    reads = analysed(world, Op.READ)
    return list(zip(told(reads), served(reads), strict=True))


def told(reads: Breakdown) -> list[dict[str, int]]:
    ((_, mine),) = accounts(reads).items()
    return mine


def test_what_is_in_memory_is_complete_as_it_is_submitted() -> None:
    """Two go with one call, which has their results one after the other when both are read."""
    world = reading_world()
    world.target(READER)
    submitted(world, 2_000, A, 0)
    submitted(world, 4_500, B, PAGE)
    complete(world, 7_000, A)
    complete(world, 7_000, B)
    returned(world, 1_000, 8_000)
    first, second = found(world)
    assert first == ({"syscall": 1_000, "read.cached": 2_499, "wakeup.reap": 3_501}, "page cache")
    assert second == ({"syscall": 3_500, "read.cached": 2_500, "wakeup.reap": 1_000}, "page cache")


def test_what_is_not_is_read_when_its_pages_are_there() -> None:
    """The call that submits returns; another one, later, has the result."""
    world = reading_world()
    reader = Reader(world, READER, DISK, 0)
    submitted(world, 2_000, A, 0)
    flight = asked(reader, 2_600, 0)
    submitted(world, 4_000, B, 8 * PAGE)
    complete(world, 6_000, B)
    returned(world, 1_000, 7_000)
    on = slept(world, READER, 9_000, flight)
    complete(world, on + 800, A)
    returned(world, 8_000, on + 1_500)
    missed, cached = found(world)
    assert missed == (
        {"syscall": 1_600, "block.Q2D": 300, "device.read": 30_000, "wakeup.reap": 1_000 + 1_500,
         "wakeup.runqueue": 2_000},
        "device",
    )  # fmt: skip
    assert cached == ({"syscall": 3_000, "read.cached": 2_000, "wakeup.reap": 1_000}, "page cache")


def test_pages_that_another_request_had_asked_for() -> None:
    """Both wait for the same flight; the one whose readahead it was has long been done."""
    world = reading_world()
    reader = Reader(world, READER, DISK, 0)
    submitted(world, 2_000, A, 0)
    ahead = asked(reader, 2_600, 16 * PAGE, device_ns=90_000)
    complete(world, 5_000, A)
    returned(world, 1_000, 6_000)
    submitted(world, 12_000, B, 16 * PAGE)
    returned(world, 11_000, 13_000)
    on = slept(world, READER, 15_000, ahead)
    complete(world, on + 500, B)
    returned(world, 14_000, on + 900)
    first, second = found(world)
    assert first[1] == "page cache"
    assert second[1] == "readahead under way"
    assert second[0] == {
        "device.readahead": ahead.complete - 11_000, "wakeup.reap": 1_000 + 900,
        "wakeup.runqueue": 2_000,
    }  # fmt: skip


def test_what_a_worker_reads() -> None:
    """A file that cannot be read without waiting: the worker does, as itself."""
    world = reading_world()
    world.target(READER)
    world.emit("thread", 1, READER, tgid=READER, subject_tid=WORKER, kind=THREAD_WORKER,
               comm=b"iou-wrk-100")  # fmt: skip
    submitted(world, 2_000, A, 0)
    world.emit("io_uring_queue_async_work", 3_000, READER, request_key=A, opcode=READ, inode=12,
               dev=DISK)  # fmt: skip
    returned(world, 1_000, 3_500)
    world.emit("sched_resume", 5_000, WORKER, off_ns=500, wake_ns=3_800, waker_tid=READER, state=1,
               waker_context=1, subject_tid=WORKER)  # fmt: skip
    world.emit("io_uring_work", 6_000, WORKER, request_key=A)
    worker = Reader(world, WORKER, DISK, 6_000, kind=THREAD_WORKER)
    flight = worker.ask(0, PAGE)
    on = slept(world, WORKER, 6_500, flight)
    complete(world, on + 700, A, tid=WORKER)
    ((account, where),) = found(world)
    assert where == "device"
    assert account["device.read"] == 30_000
    assert account["block.Q2D"] == 300
    assert account["wakeup.interrupt"] == 1_000
    assert "residual" not in account


def test_libaio_reads_within_the_call_that_submits() -> None:
    """It waits for its pages there, whatever it is called; and has its result in another call."""
    world = reading_world()
    reader = Reader(world, READER, DISK, 0)
    at = {"inode": 12, "dev": DISK, "open_flags": 0, "opcode": PREAD}
    flight = asked(reader, 2_600, 0)
    on = slept(world, READER, 3_500, flight)
    world.emit("aio_submit", on + 700, READER, enter_ns=1_000, iocb_key=A, size_bytes=PAGE, order=0,
               offset_bytes=0, **at)  # fmt: skip
    returned(world, 1_000, on + 700, CALL_IO_SUBMIT)
    world.emit("aio_submit", on + 4_000, READER, enter_ns=on + 2_000, iocb_key=B, size_bytes=PAGE,
               order=0, offset_bytes=8 * PAGE, **at)  # fmt: skip
    returned(world, on + 2_000, on + 4_000, CALL_IO_SUBMIT)
    for key in (A, B):
        world.emit("aio_complete", on + 9_000, READER, enter_ns=on + 8_000, iocb_key=key, inode=12,
                   dev=DISK, result=PAGE)  # fmt: skip
    missed, cached = found(world)
    assert missed[1] == "device"
    assert missed[0]["device.read"] == 30_000
    assert missed[0]["block.Q2D"] == 300
    assert missed[0]["wakeup.interrupt"] == 1_000
    assert missed[0]["wakeup.runqueue"] == 2_000
    assert "residual" not in missed[0]
    assert cached == ({"read.cached": 2_000, "wakeup.reap": 5_000}, "page cache")


def test_several_that_go_with_one_call_of_libaio_are_not_told_apart() -> None:
    """Nothing says when that came to which; they are counted."""
    world = reading_world()
    world.target(READER)
    at = {"inode": 12, "dev": DISK, "open_flags": 0, "opcode": PREAD, "size_bytes": PAGE}
    for order, key in enumerate((A, B)):
        world.emit("aio_submit", 9_000, READER, enter_ns=1_000, iocb_key=key, order=order,
                   offset_bytes=order * PAGE, **at)  # fmt: skip
    world.emit("aio_submit", 19_000, READER, enter_ns=17_000, iocb_key=C, order=0, offset_bytes=0,
               **at)  # fmt: skip
    for key in (A, B, C):
        world.emit("aio_complete", 20_000, READER, enter_ns=19_500, iocb_key=key, inode=12,
                   dev=DISK, result=PAGE)  # fmt: skip
    reads = analysed(world, Op.READ)
    assert len(reads.writes) == 1
    assert reads.left_out == {module.IN_A_BATCH: 2}


def test_where_nothing_tells_it_is_not_the_page_cache() -> None:
    """A request that is complete later, without a page of its on the way: whatever that was."""
    world = reading_world()
    world.target(READER)
    submitted(world, 2_000, A, 0)
    returned(world, 1_000, 3_000)
    world.emit("sched_resume", 60_000, READER, off_ns=6_000, wake_ns=58_000, waker_tid=555, state=1,
               waker_context=1, subject_tid=READER)  # fmt: skip
    complete(world, 61_000, A)
    returned(world, 5_000, 62_000)
    ((account, where),) = found(world)
    assert where == "not told"
    assert "read.cached" not in account
