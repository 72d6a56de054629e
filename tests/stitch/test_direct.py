# SPDX-License-Identifier: Apache-2.0
"""What passes the page cache by, of any engine: each transfer has the requests of its own."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.attribute import summarise
from iostrata.errors import NothingToAnalyse
from iostrata.model import Breakdown, Op
from iostrata.recording import open_recording
from iostrata.trace.layout import (
    CALL_IO_URING_ENTER,
    CALL_PREAD64,
    THREAD_HELPER,
    WAKE_INTERRUPT,
    WAKE_THREAD,
)
from tests.reading import EVERY, O_DIRECT, Reader, reading_world
from tests.stitch.test_truth import accounts, conserves
from tests.stitch.test_truth import analysed as of_writes
from tests.synthetic import O_DSYNC, READ, Request, World, Writer, device, submit

DISK, LOOP = device(8, 0), device(7, 0)
PAGE = 4096
PREAD, PWRITE, FDSYNC, PREADV = 0, 1, 3, 7
DIRECT_ONLY = 1
WORKER = 77


def analysed(world: World, op: Op) -> Breakdown:
    with tempfile.TemporaryDirectory() as directory:
        world.builder.write(Path(directory) / "machine")
        found = analyse(open_recording(Path(directory) / "machine"), op)
    conserves(found)
    return found


def batch(world: World, enter: int, blocks: list[tuple[int, int, int]], flags: int) -> None:
    """One io_submit: opcode, key, and when its bio is queued (0: it has none) of each block."""
    end = max(time for _, _, time in blocks) + 1_000
    for order, (opcode, key, queued) in enumerate(blocks):
        if queued:
            request = Request(queue=200, scheduler=None, device=20_000 + 1_000 * order,
                              read=opcode == PREAD, sector=8_000 + 64 * order)  # fmt: skip
            submit(world, DISK, 100, queued, request)
        world.emit("aio_submit", end, 100, enter_ns=enter, iocb_key=key, inode=12, dev=DISK,
                   open_flags=flags, size_bytes=8192, opcode=opcode, order=order)  # fmt: skip


def collected(world: World, time: int, keys: dict[int, int]) -> None:
    for key, result in keys.items():
        world.emit("aio_complete", time, 100, enter_ns=time - 3_000, iocb_key=key, inode=12,
                   dev=DISK, result=result)  # fmt: skip


def test_a_batch_of_both_kinds() -> None:
    """libaio: reads and writes go with one call; the n-th has the n-th bio, whichever it is."""
    world = reading_world()
    world.target(100)
    batch(world, 1_000, [(PREAD, 0x10, 2_000), (PWRITE, 0x20, 4_000), (PREAD, 0x30, 6_000)],
          O_DIRECT)  # fmt: skip
    collected(world, 40_000, {0x10: 8192, 0x20: 8192, 0x30: 4096})
    found = analysed(world, Op.DIRECT)
    names = [found.writes.names["method"][code] for code in found.writes.codes["method"]]
    assert names == ["libaio:read_direct", "libaio:write_direct", "libaio:read_direct"]
    assert found.writes.size_bytes.tolist() == [8192, 8192, 4096]
    rows = ("device.read", "device.data", "device.read")
    for number, (account, row) in enumerate(zip(accounts(found)[100], rows, strict=True)):
        took = 20_000 + 1_000 * number
        complete = 2_000 + 2_000 * number + 200 + took
        assert account[row] == took
        assert account["block.Q2D"] == 200
        assert account["wakeup.reap"] == 40_000 - complete
        assert set(account) <= {row, "block.Q2D", "wakeup.reap", "syscall", "residual"}
    served = [found.writes.names["served"][code] for code in found.writes.codes["served"]]
    assert served == ["device", "written", "device"]
    (device,) = summarise(found).served
    assert (device.name, device.count, device.share) == ("device", 2, 1.0)
    assert device.mean_ns == found.writes.latency_ns[[0, 2]].mean()
    reads = analysed(world, Op.READ)
    assert accounts(reads)[100] == [accounts(found)[100][0], accounts(found)[100][2]]
    assert {reads.writes.names["served"][code] for code in reads.writes.codes["served"]} == {
        "device"
    }


@pytest.mark.parametrize("case", ["alone", "two at once", "asleep before"])
def test_a_worker_that_completes_has_the_time_until_then(case: str) -> None:
    """As of an overlay's file. Of several that are collected at once it is not known for which one
    slept, and who sleeps before the call that collects does so for anything."""
    world = reading_world()
    world.target(100)
    world.target(WORKER, comm=b"kworker/1:2", kind=THREAD_HELPER)
    keys = [1, 2] if case == "two at once" else [1]
    batch(world, 1_000, [(PWRITE, key, 1_000 + 1_000 * key) for key in keys], O_DIRECT)
    complete = 2_000 + 200 + 20_000
    resumed(world, WORKER, 500, 22_700, 30_000, 0, WAKE_INTERRUPT)
    resumed(world, 100, 3_500, 32_000, 33_000, WORKER, WAKE_THREAD)
    enter = 33_500 if case == "asleep before" else 3_200
    for key in keys:
        world.emit("aio_complete", 40_000, 100, enter_ns=enter, iocb_key=key, inode=12, dev=DISK,
                   result=8192)  # fmt: skip
    account = accounts(analysed(world, Op.DIRECT))[100][0]
    assert account["device.data"] == 20_000
    if case == "alone":
        assert account["wakeup.worker"] == 32_000 - complete - (30_000 - 22_700)
        assert account["wakeup.runqueue"] == (30_000 - 22_700) + 1_000
        assert account["wakeup.reap"] == 40_000 - 33_000
    else:
        assert account["wakeup.reap"] == 40_000 - complete - 1_000
        assert "wakeup.worker" not in account


@pytest.mark.parametrize("deferred", [False, True])
def test_what_waits_for_others_to_be_complete_is_complete(*, deferred: bool) -> None:
    """io_uring's submitter takes each as it is told of it, or all of them at the end of its sleep
    (IORING_SETUP_DEFER_TASKRUN); its call returns when there are two."""
    world = reading_world()
    world.target(100)
    world.target(WORKER, comm=b"kworker/1:2", kind=THREAD_HELPER)
    for key, submitted, device_ns in ((0x70, 2_000, 20_000), (0x80, 3_000, 60_000)):
        world.emit("io_uring_submit_req", submitted, 100, request_key=key, open_flags=O_DIRECT,
                   inode=12, dev=DISK, opcode=23, size_bytes=8192)  # fmt: skip
        submit(world, DISK, 100, submitted + 300, Request(
            queue=200, scheduler=None, device=device_ns, sector=64 * key,
        ))  # fmt: skip
    first, second = 22_500, 63_500
    resumed(world, WORKER, 500, first + 500, first + 5_000, 0, WAKE_INTERRUPT)
    if not deferred:
        resumed(world, 100, 4_000, first + 7_000, first + 8_000, WORKER, WAKE_THREAD)
    resumed(world, WORKER, first + 7_500, second + 500, second + 600, 0, WAKE_INTERRUPT)
    off = 4_000 if deferred else first + 10_000
    resumed(world, 100, off, second + 1_600, second + 2_000, WORKER, WAKE_THREAD)
    taken = second + 3_000 if deferred else first + 9_000
    for key, complete in ((0x70, taken), (0x80, second + 3_500)):
        world.emit("io_uring_complete", complete, 100, request_key=key, open_flags=O_DIRECT,
                   inode=12, dev=DISK, opcode=23, result=8192)  # fmt: skip
    world.emit("syscall", 70_000, 100, call=CALL_IO_URING_ENTER, tgid=100, enter_ns=1_500)
    one, other = accounts(analysed(world, Op.DIRECT))[100]
    assert (one["device.data"], other["device.data"]) == (20_000, 60_000)
    if deferred:
        # Nobody knows when either was.
        assert one["wakeup.reap"] == 70_000 - first - 400
        assert not {"wakeup.worker"} & {*one, *other}
    else:
        assert one["wakeup.worker"] == 500 + 2_000
        assert one["wakeup.runqueue"] == 4_500 + 1_000 + 400
        assert one["wakeup.reap"] == 70_000 - (first + 8_000) - 400
        assert other["wakeup.worker"] == 500 + 1_000
        assert other["wakeup.reap"] == 70_000 - (second + 2_000)


def resumed(world: World, tid: int, off: int, wake: int, on: int, waker: int, context: int) -> None:
    world.emit("sched_resume", on, tid, off_ns=off, wake_ns=wake, waker_tid=waker, state=1,
               subject_tid=tid, waker_context=context)  # fmt: skip


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("short", [False, True])
def test_blocks_that_have_several_bios_each(*, short: bool, vector: bool) -> None:
    """Of a batch, by how much each asks for, or of a vector takes: if its bios are for as much, not
    less (the file's end, or what is not told) of whichever."""
    world = reading_world()
    world.target(100)
    sizes = {0x10: 24_576, 0x20: 8_192, 0x30: 16_384}
    queued, took = (2_000, 3_000, 4_000, 6_000, 7_000, 8_000), (20_000,) * 3 + (30_000,) * 3
    for number, (time, device_ns) in enumerate(zip(queued, took, strict=True)):
        size = 4_096 if short and number == 2 else 8_192
        request = Request(queue=200, scheduler=None, device=device_ns, read=True, size=size,
                          sector=8_000 + 64 * number)  # fmt: skip
        submit(world, DISK, 100, time, request)
    for order, (key, size) in enumerate(sizes.items()):
        how = {"size_bytes": 0, "opcode": PREADV} if vector else {"size_bytes": size}
        world.emit("aio_submit", 9_000, 100, enter_ns=1_000, iocb_key=key, inode=12, dev=DISK,
                   open_flags=O_DIRECT, order=order, **how)  # fmt: skip
    collected(world, 60_000, sizes)
    found = analysed(world, Op.DIRECT)
    held = [account.get("device.read", 0) for account in accounts(found)[100]]
    if short:
        assert held == [0, 0, 0]
        assert (found.residual_ns > 0).all()
    else:
        assert held == [22_000, 30_000, 31_000]
        assert [account["block.Q2D"] for account in accounts(found)[100]] == [200, 200, 200]
        assert not found.residual_ns.any()


def two_reads(world: World) -> None:
    for number in range(2):
        request = Request(queue=200, scheduler=None, device=20_000, read=True, size=4_096,
                          sector=8_000 + 64 * number)  # fmt: skip
        submit(world, DISK, 100, 2_000 + 1_000 * number, request)


def test_as_many_bios_as_blocks_need_not_be_one_each() -> None:
    """A hole has none: both are the other one's, whichever that is."""
    world = reading_world()
    world.target(100)
    two_reads(world)
    for order, key in enumerate((0x10, 0x20)):
        world.emit("aio_submit", 9_000, 100, enter_ns=1_000, iocb_key=key, inode=12, dev=DISK,
                   open_flags=O_DIRECT, size_bytes=8_192, opcode=PREAD, order=order)  # fmt: skip
    collected(world, 60_000, {0x10: 8_192, 0x20: 8_192})
    found = analysed(world, Op.DIRECT)
    assert [account.get("device.read", 0) for account in accounts(found)[100]] == [0, 0]
    assert (found.residual_ns > 0).all()


@pytest.mark.parametrize("told", [False, True])
def test_of_a_batch_a_limit_holds_the_last(*, told: bool) -> None:
    """What it held has no bio in the call, as whoever lets it go says of which it is: the others
    are in turn."""
    world = reading_world()
    world.target(100)
    two_reads(world)
    keys = (0x10, 0x20, 0x30, 0x40)
    for order, key in enumerate(keys):
        world.emit("aio_submit", 4_000, 100, enter_ns=1_000, iocb_key=key, inode=12, dev=DISK,
                   open_flags=O_DIRECT, size_bytes=4_096, opcode=PREAD, order=order)  # fmt: skip
    for key in keys[2:] if told else ():
        world.emit("block_bio_held", 90_000 + key, 800, bio_key=0xB0 + key, request_key=key)
    collected(world, 99_000, dict.fromkeys(keys, 4_096))
    first, second, *held = accounts(analysed(world, Op.DIRECT))[100]
    assert [one.get("device.read", 0) for one in (first, second)] == [20_000 * told] * 2
    assert [one.get("wakeup.reap", 0) for one in (first, second)] == [
        (99_000 - 22_200) * told, (99_000 - 23_200) * told,
    ]  # fmt: skip
    assert not any("device.read" in one for one in held)


@pytest.mark.parametrize("places", [(0,), (1,), (2,), (1, 2), (0, 1, 2)])
def test_a_sync_among_transfers_has_no_bio_there(places: tuple[int, ...]) -> None:
    """The kernel's pool carries it out: what the others need is none of its, though there may be as
    many bios as blocks."""
    world = World()
    world.target(100)
    transfers = [(0x10, (2_000, 3_000)), (0x20, (4_000,))]
    number, order, queue = 0, 0, list(transfers)
    every: dict[int, int] = {}
    while queue or order in places:
        key, opcode, size = 0x100 + 16 * order, FDSYNC, 0
        if order not in places:
            key, queued = queue.pop(0)
            opcode, size = PWRITE, 8_192 * len(queued)
            for time in queued:
                request = Request(queue=200, scheduler=None, device=20_000 + 10_000 * number,
                                  sector=8_000 + 64 * number)  # fmt: skip
                submit(world, DISK, 100, time, request)
                number += 1
        world.emit("aio_submit", 9_000, 100, enter_ns=1_000, iocb_key=key, inode=12, dev=DISK,
                   open_flags=O_DIRECT | O_DSYNC, size_bytes=size, opcode=opcode,
                   order=order)  # fmt: skip
        every[key], order = size, order + 1
    collected(world, 60_000, every)
    found = of_writes(world)
    held = [account.get("device.data", 0) for account in accounts(found)[100]]
    # Of the two of the first, one is issued at 2200, and the other one is complete at 33200.
    expected = [31_000, 40_000]
    for place in places:
        expected.insert(place, 0)
    assert held == expected
    # It has done nothing yet when it comes to those that are ahead of all transfers.
    for place in places:
        rows = {"syscall", "residual"} if any(expected[:place]) else {"residual"}
        assert set(accounts(found)[100][place]) == rows


def test_blocks_that_are_not_recorded_keep_their_place() -> None:
    """Synchronous writes behind a read that nobody recorded: its bio was none of theirs before."""
    world = World()
    world.target(100)
    batch(world, 1_000, [(PREAD, 0x10, 2_000), (PWRITE, 0x20, 4_000), (PWRITE, 0x30, 6_000)],
          O_DIRECT | O_DSYNC)  # fmt: skip
    events = world.builder._rows["aio_submit"]
    events[:] = [event for event in events if event["iocb_key"] != 0x10]
    collected(world, 40_000, {0x20: 8192, 0x30: 8192})
    found = of_writes(world)
    assert [account["device.data"] for account in accounts(found)[100]] == [21_000, 22_000]
    assert all(account["block.Q2D"] == 200 for account in accounts(found)[100])


def test_io_uring_reads_past_the_cache() -> None:
    """From the submitter's call on until it has the result; those through the cache are others."""
    world = reading_world()
    world.target(100)
    at = {"inode": 12, "dev": DISK, "opcode": 22, "size_bytes": 8192}
    world.emit("io_uring_submit_req", 2_000, 100, request_key=0x70, open_flags=O_DIRECT, **at)
    submit(world, DISK, 100, 2_500,
           Request(queue=300, scheduler=None, device=20_000, read=True))  # fmt: skip
    world.emit("io_uring_submit_req", 3_500, 100, request_key=0x80, open_flags=0, **at)
    world.emit("syscall", 5_000, 100, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=100)
    for key, flags in ((0x80, 0), (0x70, O_DIRECT)):
        world.emit("io_uring_complete", 26_000, 100, request_key=key, open_flags=flags, result=8192,
                   **at)  # fmt: skip
    found = analysed(world, Op.READ)
    past, through = accounts(found)[100]
    assert past == {
        "syscall": 1_500, "block.Q2D": 300, "device.read": 20_000, "wakeup.reap": 3_200,
    }  # fmt: skip
    assert through == {"syscall": 2_500, "residual": 22_500}
    assert [found.writes.names["served"][code] for code in found.writes.codes["served"]] == [
        "device", "not told",
    ]  # fmt: skip
    assert accounts(analysed(world, Op.DIRECT))[100] == [past]


def test_who_submits_may_wait_for_another() -> None:
    """In the same call: what ends that sleep is the other's, whose row it stays in."""
    world = reading_world()
    world.target(100)
    for key, opcode, submitted, device_ns in ((0x70, 23, 2_000, 20_000), (0x80, 22, 3_000, 60_000)):
        world.emit("io_uring_submit_req", submitted, 100, request_key=key, open_flags=O_DIRECT,
                   inode=12, dev=DISK, opcode=opcode, size_bytes=8192)  # fmt: skip
        submit(world, DISK, 100, submitted + 300, Request(
            queue=200, scheduler=None, device=device_ns, read=opcode == 22, sector=64 * key,
        ))  # fmt: skip
    world.emit("sched_resume", 24_500, 100, off_ns=4_000, wake_ns=23_000, waker_tid=0, state=1,
               waker_context=2, subject_tid=100)  # fmt: skip
    for key, opcode, end in ((0x70, 23, 25_000), (0x80, 22, 70_000)):
        world.emit("io_uring_complete", end, 100, request_key=key, open_flags=O_DIRECT, inode=12,
                   dev=DISK, opcode=opcode, result=8192)  # fmt: skip
        world.emit("syscall", end + 500, 100, call=CALL_IO_URING_ENTER, tgid=100,
                   enter_ns=1_500 if key == 0x70 else 26_000)  # fmt: skip
    write, read = accounts(analysed(world, Op.DIRECT))[100]
    assert write["device.data"] == 20_000
    assert read["device.read"] == 60_000
    assert "device.data" not in read
    assert "wakeup.interrupt" not in read


def test_system_calls_that_need_no_sync() -> None:
    """Reads and writes past the cache are transfers, durable or not; others are none."""
    world = reading_world()
    reader = Reader(world, 100, DISK, 10_000)
    reader.missed(0, PAGE)
    reader.enter()
    reader.cpu(400)
    reader.wait(reader.ask(0, PAGE, told=False), "device.read")
    reader.done(0, PAGE, "device", flags=O_DIRECT, call=CALL_PREAD64)
    writer = Writer(world, 200, DISK, 12_000)
    for flags, result in ((O_DIRECT, 8192), (0, 8192), (O_DIRECT, 0), (O_DIRECT, -5)):
        writer.enter()
        writer.cpu(500)
        if flags and result > 0:
            writer.data(Request(scheduler=None))
        writer.leave("pwrite64", flags=flags, result=result, size=8192)
        writer.finish()
        writer.now += 100
    found = analysed(world, Op.DIRECT)
    assert accounts(found) == {100: [dict(reader.truth[1])], 200: [dict(writer.truth[0])]}
    assert found.left_out == {"the call failed": 1}
    served = [found.writes.names["served"][code] for code in found.writes.codes["served"]]
    assert served == ["written", "device"]


def test_past_the_cache_without_a_request() -> None:
    """A hole, or a file system that does not tell of its requests: nothing says what served it."""
    world = reading_world()
    reader = Reader(world, 100, DISK, 10_000)
    reader.enter()
    reader.cpu(2_000)
    reader.done(0, PAGE, "not told", flags=O_DIRECT)
    found = analysed(world, Op.READ)
    assert accounts(found) == {100: [{"syscall": 2_000}]}
    assert [found.writes.names["served"][code] for code in found.writes.codes["served"]] == [
        "not told"
    ]


def test_what_has_no_end_is_counted() -> None:
    world = reading_world()
    world.target(100)
    batch(world, 1_000, [(PREAD, 0x10, 2_000), (PREAD, 0x20, 4_000)], O_DIRECT)
    collected(world, 40_000, {0x10: 8192})
    found = analysed(world, Op.DIRECT)
    assert len(found.writes) == 1
    assert found.left_out == {"completion not seen": 1}


def test_which_recordings_have_it(tmp_path: Path) -> None:
    """One that was asked for O_DIRECT has not every read; one of every read has these."""
    for recorded in (0, DIRECT_ONLY, EVERY):
        world = World()
        world.builder.env["reads"] = recorded
        reader = Reader(world, 100, DISK, 10_000)
        reader.enter()
        reader.wait(reader.ask(0, PAGE, told=False), "device.read")
        reader.done(0, PAGE, "device", flags=O_DIRECT)
        path = tmp_path / str(recorded)
        world.builder.write(path)
        for op, needed in ((Op.DIRECT, DIRECT_ONLY), (Op.READ, EVERY)):
            if recorded >= needed:
                assert len(analyse(open_recording(path), op).writes) == 1
                continue
            with pytest.raises(NothingToAnalyse, match="not asked for") as refused:
                analyse(open_recording(path), op)
            assert f"--op {op}" in refused.value.hint


def test_another_processor_has_another_flag(tmp_path: Path) -> None:
    """0o40000 is O_DIRECTORY on arm64, where O_DIRECT is 0o200000."""
    world = reading_world()
    world.builder.env["architecture"] = "aarch64"
    reader = Reader(world, 100, DISK, 10_000)
    for flags in (0o40000, 0o200000):
        reader.enter()
        reader.wait(reader.ask(0, PAGE, told=False), "device.read")
        reader.done(0, PAGE, "device", flags=flags)
        reader.now += 100
    assert len(analysed(world, Op.DIRECT).writes) == 1


@pytest.mark.parametrize("cached", [False, True])
def test_what_is_read_by_a_loop_device_is_read_from_what_it_lies_on(*, cached: bool) -> None:
    """Right above another disk (``losetup --direct-io=on``) nothing bears the request's key: its
    worker's read is for it by time. ``cached``: it needs none."""
    world, worker = reading_world(), 66
    world.builder.block(LOOP, "loop0", backing="/dev/sda", lower_keys=(DISK,)).block(DISK, "sda")
    world.target(100)
    submit(world, LOOP, 100, 2_000,
           Request(queue=200, scheduler=None, device=20_000, read=True, sector=8_000))  # fmt: skip
    if cached:
        submit(world, DISK, 300, 50_000, Request(queue=300, scheduler=None, device=1_000))
    else:
        place = {"sector": 8_000, "dev": DISK, "size_bytes": 8192, "flags": READ}
        keys = {"request_key": 0xD0, "bio_key": 0xC0}
        world.emit("block_bio_queue", 5_000, worker, bio_key=0xC0, kernel_thread=1, **place)
        world.emit("block_rq_issue", 5_300, worker, **keys, **place)
        world.emit("block_rq_complete", 20_300, 0, **keys, **place)
    world.emit("aio_submit", 3_000, 100, enter_ns=1_000, iocb_key=0x10, inode=12, dev=LOOP,
               open_flags=O_DIRECT, size_bytes=8192, opcode=PREAD, order=0)  # fmt: skip
    world.emit("aio_complete", 24_000, 100, enter_ns=3_500, iocb_key=0x10, inode=12, dev=LOOP,
               result=8192)  # fmt: skip
    found = analysed(world, Op.DIRECT)
    (account,) = accounts(found)[100]
    stacked = 20_000 if cached else 5_000 - 2_200 + 22_200 - 20_300
    assert account["block.stacked"] == stacked
    assert account.get("device.read", 0) == (0 if cached else 15_000)
    assert account["block.Q2D"] == (200 if cached else 500)
    assert account["wakeup.reap"] == 24_000 - 22_200


def test_what_a_limit_held_back_of_a_read_is_the_device_s() -> None:
    """io_uring's: a kernel's worker hands the bio on, which tells for which request it is."""
    world, key = reading_world(), 0xFFFF_8880_0000_7700
    world.target(100)
    read = {"request_key": key, "opcode": 22, "inode": 12, "dev": DISK, "size_bytes": PAGE,
            "open_flags": O_DIRECT}  # fmt: skip
    world.emit("io_uring_submit_req", 2_000, 100, **read)
    world.emit("syscall", 3_000, 100, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=100)
    request = Request(queue=200, scheduler=None, device=20_000, read=True)
    submit(world, DISK, 77, 80_000, request, held=True, cgroup=4711, asked_key=key)
    world.emit("io_uring_complete", 101_000, 100, result=PAGE, **read)
    found = analysed(world, Op.DIRECT)
    assert [found.writes.names["served"][code] for code in found.writes.codes["served"]] == [
        "device"
    ]
    ((account,),) = accounts(found).values()
    assert account["throttle.io"] == 80_000 - 3_000
