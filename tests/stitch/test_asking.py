# SPDX-License-Identifier: Apache-2.0
"""Who slept to get a request waited for nothing else, whatever had ended when one was there."""

from __future__ import annotations

from iostrata.trace.layout import THREAD_HELPER, WAKE_INTERRUPT, WAKE_THREAD
from tests.stitch.test_below import LOOP, SDA, Block, on_loop, one_write
from tests.stitch.test_wakers import (
    DISK,
    IDLE,
    KWORKER,
    OTHER,
    REST,
    Sleeper,
    found,
    resume,
)
from tests.synthetic import (
    ASKING,
    FLUSH_OP,
    NO_SECTOR,
    O_DSYNC,
    PREFLUSH,
    SYNC,
    WRITE,
    Request,
    World,
    Writer,
    submit,
)


def test_whose_completion_makes_room_is_not_waited_for() -> None:
    """The disk has room for one: another's request ends, and lets the writer have its own."""
    world = World()
    submit(world, DISK, OTHER, 5_000, Request(queue=1_000, scheduler=None, device=94_900))
    writer = Writer(world, 100, DISK, 10_000)
    writer.enter()
    writer.cpu(1_000)
    writer.data(Request(queue=90_000 + ASKING + 300, asleep=90_000, scheduler=None))
    writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    writer.finish()
    (truth,) = writer.truth
    assert truth["block.Q2G"] == 90_000
    assert found(world) == truth


def test_a_worker_that_slept_to_get_a_request_kept_its_sleeper_as_long() -> None:
    """It wrote for others first, what the sleeper has no part in."""
    world = World()
    sleeper = Sleeper(world)
    world.target(KWORKER, kind=THREAD_HELPER)
    submit(world, DISK, OTHER, 5_000, Request(queue=1_000, scheduler=None, device=73_900))
    resume(world, KWORKER, 9_000, 15_000, 16_000, 100, context=WAKE_THREAD, state=IDLE)
    submit(world, DISK, KWORKER, 20_000, Request(queue=61_000, asleep=60_000, scheduler=None))
    sleeper.wakes(85_000, KWORKER, WAKE_THREAD)
    assert found(world) == REST | {
        "block.Q2G": 60_000, "wakeup.runqueue": 2_000 + 1_000 + 200, "wakeup.worker": 8_800,
        "residual": 4_000,
    }  # fmt: skip


def test_an_empty_flush_that_waits_for_a_request() -> None:
    """Its own is never issued: the block layer makes one for it."""
    world = World()
    writer = Writer(world, 100, DISK, 10_000)
    writer.enter()
    writer.cpu(1_000)
    bio, own = 0xFFFF_8880_0000_1000, 0xFFFF_8880_0000_2000
    bare = {"dev": DISK, "sector": 0, "size_bytes": 0, "flags": WRITE | SYNC | PREFLUSH}
    flush = {"dev": DISK, "request_key": own + 64, "bio_key": 0, "sector": NO_SECTOR,
             "size_bytes": 0, "flags": FLUSH_OP | PREFLUSH}  # fmt: skip
    submit(world, DISK, OTHER, 5_000, Request(queue=1_000, scheduler=None, device=54_900))
    world.emit("block_bio_queue", 11_000, 100, bio_key=bio, kernel_thread=0, **bare)
    resume(world, 100, 11_000, 61_000, 61_500)
    world.emit("block_bio_asleep", 61_500, 100, bio_key=bio, dev=DISK, subject_tid=100)
    world.emit("block_rq_issue", 63_000, 77, **flush)
    world.emit("block_rq_complete", 103_000, 0, **flush)
    world.emit("block_rq_complete", 103_100, 0, request_key=own, bio_key=bio, **bare)
    resume(world, 100, 62_500, 103_200, 105_000)
    writer.now = 105_000
    writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    assert found(world) == {
        "syscall": 1_000, "block.Q2G": 50_000, "wakeup.runqueue": 500 + 1_800, "block.Q2D": 1_500,
        "device.flush": 40_000, "wakeup.interrupt": 200,
    }  # fmt: skip


def waited(*told: tuple[int, int, int]) -> dict[str, int]:
    """What became of one write's time, whose bio had its request at 62 us; ``told``: who slept,
    since when, until when."""
    world = World()
    writer = Writer(world, 100, DISK, 10_000)
    writer.enter()
    writer.cpu(1_000)
    block = Block(world, DISK)
    block.queue(11_000, 100, 0xB0)
    for tid, begin, end in told:
        resume(world, tid, begin, end, end + 200)
        world.emit("block_bio_asleep", end + 200, tid, bio_key=0xB0, dev=DISK, subject_tid=tid)
    block.request(62_000, 100_000, 0xA0, 0xB0, tid=100)
    resume(world, 100, 62_500, 100_100, 100_200)
    writer.now = 100_200
    writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    return found(world)


def test_who_slept_twice_had_no_request_before_the_second_end() -> None:
    """A limit let it pass, and then none was free."""
    account = waited((100, 11_000, 31_000), (100, 31_500, 61_000))
    assert account["block.Q2G"] == 20_000 + 300 + 29_500
    assert account["device.data"] == 38_000


def test_who_sleeps_for_a_bio_that_is_not_recorded_queued_another_before() -> None:
    """Which is long complete, and a third one has its address."""
    assert "block.Q2G" not in waited((OTHER, 12_000, 30_800))


def test_who_had_its_request_slept_for_something_else() -> None:
    """That of another, which then is complete; its own, got at once, is behind that."""
    world = World()
    sleeper = Sleeper(world)
    submit(world, DISK, OTHER, 8_000, Request(queue=1_000, scheduler=None, device=72_000))
    submit(world, DISK, 100, 10_500, Request(queue=90_000, scheduler=None, device=5_000))
    sleeper.wakes(81_300, 0, WAKE_INTERRUPT)
    account = found(world)
    assert account["device.data"] == 70_000
    assert "block.Q2G" not in account


def test_a_loop_devices_worker_waits_for_a_request_of_the_disk_below() -> None:
    """Told as by older recorders: by the request that it got."""
    world = on_loop()
    loop, disk = Block(world, LOOP), Block(world, SDA)
    world.target(KWORKER, kind=THREAD_HELPER)
    loop.queue(2_000, 100, 0xB0)
    loop.request(2_500, 61_000, 0xA0, 0xB0, tid=100)
    disk.queue(10_000, KWORKER, 0xC0, sector=512, kernel=1, above=0xA0)
    resume(world, KWORKER, 10_000, 40_000, 41_000)
    world.emit("block_getrq", 41_000, KWORKER, bio_key=0xC0, sector=512, dev=SDA,
               size_bytes=8192, flags=WRITE | SYNC, kernel_thread=1, held=1)  # fmt: skip
    disk.request(41_500, 60_500, 0xD0, 0xC0, sector=512)
    one_write(world, LOOP, 61_500)
    assert found(world) == {
        "syscall": 1_000, "block.Q2D": 500 + 500, "block.stacked": 7_500 + 500,
        "block.Q2G": 30_000, "wakeup.runqueue": 1_000, "device.data": 19_000,
        "wakeup.interrupt": 500,
    }  # fmt: skip
