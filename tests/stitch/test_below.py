# SPDX-License-Identifier: Apache-2.0
"""Bios that are split, merged, given back or handed on, and what goes on below stacked devices."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from iostrata.analysis import analyse
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from iostrata.stitch.account import units_of
from iostrata.stitch.bios import bios_of
from iostrata.stitch.requests import requests_of
from iostrata.stitch.stitch import stitch
from iostrata.stitch.window import NO_COMMITS, whole, window_of
from iostrata.trace.layout import QUEUER_KERNEL_THREAD, QUEUER_LOOP, WAKE_INTERRUPT
from iostrata.trace.read import read_trace
from tests.reading import O_DIRECT
from tests.stitch.test_truth import accounts, analysed, conserves
from tests.synthetic import (
    FLUSH_OP,
    FUA,
    NO_SECTOR,
    O_DSYNC,
    PREFLUSH,
    SYNC,
    WRITE,
    Commit,
    Request,
    World,
    Writer,
    device,
)

SDA, LOOP, MD, CRYPT = device(8, 0), device(7, 0), device(9, 0), device(252, 0)
POOL, THIN, HEAD, PATH = device(252, 1), device(252, 2), device(259, 0), device(259, 1)
DATA, FLUSH = WRITE | SYNC, WRITE | SYNC | PREFLUSH
KWORKER = 66
RECORDINGS = Path(__file__).parents[1] / "recordings"


@dataclass
class Block:
    """One device's events, written out; ``tid`` 0 completes."""

    world: World
    dev: int

    def queue(
        self, time: int, tid: int, bio: int, *, sector: int = 8, size: int = 8192,
        flags: int = DATA, kernel: int = 0, above: int = 0, held: int = 0,
    ) -> None:  # fmt: skip
        self.world.emit(
            "block_bio_queue", time, tid, bio_key=bio, sector=sector, dev=self.dev,
            size_bytes=size, flags=flags, kernel_thread=kernel, above_key=above, held=held,
        )  # fmt: skip

    def request(
        self, issue: int, complete: int, rq: int, bio: int, *, sector: int = 8, size: int = 8192,
        tid: int = KWORKER, by: int = 0,
    ) -> None:  # fmt: skip
        place = {"dev": self.dev, "sector": sector, "size_bytes": size, "flags": DATA}
        self.world.emit("block_rq_issue", issue, tid, request_key=rq, bio_key=bio, **place)
        self.world.emit("block_rq_complete", complete, by, request_key=rq, bio_key=bio, **place)

    def flush(self, issue: int, complete: int, rq: int, bio: int, asked: int) -> None:
        """The block layer's own request, then the empty one of the bio that asked for it."""
        own = {"dev": self.dev, "sector": NO_SECTOR, "size_bytes": 0, "flags": FLUSH_OP | PREFLUSH}
        self.world.emit("block_rq_issue", issue, 77, request_key=rq, **own)
        self.world.emit("block_rq_complete", complete, 0, request_key=rq, **own)
        self.world.emit("block_rq_complete", complete, 0, request_key=asked, bio_key=bio,
                        dev=self.dev, size_bytes=0, flags=DATA)  # fmt: skip

    def complete(self, time: int, bio: int, *, size: int = 8192, flags: int = DATA) -> None:
        """Of a device that has no requests."""
        self.world.emit("block_bio_complete", time, 0, bio_key=bio, sector=8, dev=self.dev,
                        size_bytes=size, flags=flags)  # fmt: skip

    def take_from(
        self, upper: int, time: int, tid: int, bio: int, *, old_sector: int = 8, sector: int = 8,
        size: int = 8192, flags: int = DATA,
    ) -> None:  # fmt: skip
        self.world.emit(
            "block_bio_remap", time, tid, bio_key=bio, sector=sector, old_sector=old_sector,
            dev=self.dev, old_dev=upper, size_bytes=size, flags=flags,
        )  # fmt: skip


def one_write(
    world: World, disk: int, end: int, *, tid: int = 100, off: int = 2_500, woken: int = 0
) -> None:
    """A synchronous write from 1000 to ``end``, asleep from ``off`` on."""
    writer = Writer(world, tid, disk, 1_000)
    writer.enter()
    world.emit("sched_resume", end, tid, off_ns=off, wake_ns=woken or end, waker_tid=0, state=2,
               subject_tid=tid)  # fmt: skip
    writer.now = end
    writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)


def told(world: World) -> Breakdown:
    breakdown = analysed(world)
    conserves(breakdown)
    return breakdown


def test_a_bio_in_fragments_waits_for_all_of_them_and_their_overlap_counts_once() -> None:
    world = World()
    disk, size = Block(world, SDA), 128 << 10
    disk.queue(2_000, 100, 0xB0, size=4 * size)
    ends = (30_000, 12_000, 50_000, 40_000)
    for number, end in enumerate(ends):
        place = {"sector": 8 + number * size // 512, "size": size}
        bio = 0xB0 if number == 3 else 0xF0 + number
        if bio != 0xB0:
            world.emit("block_split", 2_100 + number * 100, 100, bio_key=bio, parent_key=0xB0,
                       sector=place["sector"], dev=SDA, size_bytes=size, flags=DATA)  # fmt: skip
        disk.request(2_500 + number * 100, end, 0xA0 + number, bio, tid=100, **place)
    one_write(world, SDA, 51_000, off=3_000)
    breakdown = told(world)
    assert accounts(breakdown) == {
        100: [{
            "syscall": 1_000, "block.Q2D": 500, "device.data": 47_500, "wakeup.interrupt": 1_000,
        }]
    }  # fmt: skip
    assert breakdown.quality.ties == {"key": 4}


def test_data_that_must_be_flushed_is_queued_until_its_flush_is_issued() -> None:
    """As the block layer does for a disk with a cache and without FUA, one after the other."""
    world = World()
    disk = Block(world, SDA)
    disk.queue(2_000, 100, 0xB0, flags=DATA | FUA)
    disk.request(2_500, 22_500, 0xA0, 0xB0, tid=100)
    disk.flush(45_000, 65_000, 0xA1, 0xB0, asked=0xA0)
    one_write(world, SDA, 66_000)
    assert accounts(told(world)) == {
        100: [{
            "syscall": 1_000, "block.Q2D": 500 + 22_500, "device.data": 20_000,
            "device.flush": 20_000, "wakeup.interrupt": 1_000,
        }]
    }  # fmt: skip


def test_a_split_that_names_no_parent_changes_nothing() -> None:
    """As device mapper's: the bio itself, which points to whatever its owner wanted."""
    world = World()
    disk = Block(world, SDA)
    disk.queue(2_000, 100, 0xB0, size=8192)
    world.emit("block_split", 2_100, 100, bio_key=0xB0, parent_key=0xDEAD, sector=8, dev=SDA,
               size_bytes=4096, flags=DATA)  # fmt: skip
    disk.request(2_500, 12_500, 0xA0, 0xB0, tid=100)
    one_write(world, SDA, 13_000)
    assert accounts(told(world)) == {
        100: [{
            "syscall": 1_000, "block.Q2D": 500, "device.data": 10_000, "wakeup.interrupt": 500,
        }]
    }  # fmt: skip


def test_a_merged_bio_is_in_the_request_that_says_so() -> None:
    """Not in the one of another writer that is issued before it and holds its sectors, too."""
    world = World()
    disk = Block(world, SDA)
    disk.queue(2_000, 100, 0xB0, sector=8)
    disk.queue(2_100, 101, 0xB1, sector=24)
    disk.queue(2_200, 102, 0xB2, sector=24)
    disk.request(2_300, 90_000, 0xA2, 0xB2, sector=24, tid=102)
    disk.request(2_500, 32_500, 0xA0, 0xB0, sector=8, size=16384, tid=100)
    world.emit("block_rq_bio", 2_510, 100, request_key=0xA0, bio_key=0xB1, sector=24, dev=SDA,
               size_bytes=8192)  # fmt: skip
    for tid in (100, 101):
        one_write(world, SDA, 33_000, tid=tid)
    one_write(world, SDA, 90_500, tid=102)
    breakdown = told(world)
    assert accounts(breakdown) == {
        100: [{
            "syscall": 1_000, "block.Q2D": 500, "device.data": 30_000, "wakeup.interrupt": 500,
        }],
        101: [{
            "syscall": 1_100, "block.Q2D": 400, "device.data": 30_000, "wakeup.interrupt": 500,
        }],
        102: [{
            "syscall": 1_200, "block.Q2D": 100, "device.data": 87_700, "wakeup.interrupt": 500,
        }],
    }  # fmt: skip


def test_a_merged_bio_is_in_none_of_the_requests_that_had_the_pointer_before(
    tmp_path: Path,
) -> None:
    """Its own was not seen to end."""
    world = World()
    disk = Block(world, SDA)
    disk.queue(1_000, 102, 0xB2, sector=64)
    disk.request(1_200, 1_900, 0xA0, 0xB2, sector=64, tid=102)
    disk.queue(2_000, 100, 0xB0, sector=8)
    disk.queue(2_100, 101, 0xB1, sector=24)
    world.deaf_to = "block_rq_complete"
    disk.request(2_500, 32_500, 0xA0, 0xB0, sector=8, size=16384, tid=100)
    world.emit("block_rq_bio", 2_510, 100, request_key=0xA0, bio_key=0xB1, sector=24, dev=SDA,
               size_bytes=8192)  # fmt: skip
    world.builder.write(tmp_path)
    window = whole(read_trace(tmp_path))
    requests, done = requests_of(window)
    bios, carried = bios_of(window, requests, done)
    assert bios.key[carried.bio].tolist() == [0xB2]


@pytest.mark.parametrize("told_first", [False, True])
def test_a_request_that_is_given_back_was_with_the_device_until_then(told_first: bool) -> None:
    """SCSI tells first that nothing of a failed command is done: that ends none of its bios."""
    world = World()
    disk = Block(world, SDA)
    disk.queue(2_000, 100, 0xB0)
    same = {"request_key": 0xA0, "bio_key": 0xB0, "dev": SDA, "sector": 8, "flags": DATA}
    world.emit("block_rq_issue", 2_500, 100, size_bytes=8192, **same)
    if told_first:
        world.emit("block_rq_complete", 12_400, 0, size_bytes=0, **same)
    world.emit("block_rq_requeue", 12_500, 0, size_bytes=8192, **same)
    disk.request(15_500, 25_500, 0xA0, 0xB0)
    one_write(world, SDA, 26_000)
    assert accounts(told(world)) == {
        100: [{
            "syscall": 1_000, "block.Q2D": 500 + 3_000, "device.data": 20_000,
            "wakeup.interrupt": 500,
        }]
    }  # fmt: skip


def test_a_flush_through_multipath_is_the_paths_flush() -> None:
    """NVMe: the bio goes on under its own pointer, and no fact says what it goes to."""
    world = World()
    world.builder.block(HEAD, "nvme0n1")
    head, path = Block(world, HEAD), Block(world, PATH)
    head.queue(2_000, 100, 0xB0)
    path.take_from(HEAD, 2_200, 100, 0xB0)
    path.request(2_500, 12_500, 0xA0, 0xB0, tid=100)
    head.complete(12_600, 0xB0)
    head.queue(13_000, 100, 0xB0, sector=0, size=0, flags=FLUSH)
    path.take_from(HEAD, 13_200, 100, 0xB0, old_sector=0, sector=0, size=0, flags=FLUSH)
    path.flush(14_000, 34_000, 0xA1, 0xB0, asked=0xA2)
    head.complete(34_100, 0xB0, size=0, flags=FLUSH)
    one_write(world, HEAD, 35_000)
    assert accounts(told(world)) == {
        100: [{
            "syscall": 1_000, "block.stacked": 200 + 100 + 200 + 100,
            "block.Q2D": 300 + 800, "device.data": 10_000, "device.flush": 20_000,
            "residual": 400, "wakeup.interrupt": 900,
        }]
    }  # fmt: skip


@pytest.mark.parametrize("issuer", [100, KWORKER])
def test_a_request_of_multipaths_is_its_clones(issuer: int) -> None:
    """dm-multipath has requests of its own, and clones them for a path: no point names their bios.
    Two paths are taken in turn."""
    world = World()
    world.builder.block(THIN, "md0", lower_keys=(SDA, MD)).block(SDA, "sda").block(MD, "sdb")
    disk = Block(world, THIN)
    for number in range(6):
        begin, path = 100_000 * number, Block(world, (SDA, MD)[number % 2])
        disk.queue(begin + 2_000, 100, 0xB0, sector=8 * number)
        clone = 0xC0 + number % 2
        path.request(begin + 3_100, begin + 33_100, 0xA0 + number % 2, clone, sector=8 * number,
                     tid=issuer)  # fmt: skip
        disk.request(begin + 2_500, begin + 34_000, 0xAF, 0xB0, sector=8 * number, tid=100)
        writer = Writer(world, 100, THIN, begin + 1_000)
        writer.enter()
        world.emit("sched_resume", begin + 35_000, 100, off_ns=begin + 3_200,
                   wake_ns=begin + 35_000, waker_tid=0, state=2, subject_tid=100)  # fmt: skip
        writer.now = begin + 35_000
        writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    assert accounts(told(world)) == {
        100: [{
            "syscall": 1_000, "block.Q2D": 500, "block.stacked": 600 + 900,
            "device.data": 30_000, "wakeup.interrupt": 1_000,
        }] * 6
    }  # fmt: skip


def test_a_flush_of_multipaths_is_its_clone() -> None:
    """It has neither a place nor a bio."""
    world = World()
    world.builder.block(THIN, "md0", lower_keys=(SDA,)).block(SDA, "sda")
    disk = Block(world, THIN)
    disk.queue(2_000, 100, 0xB0, sector=0, size=0, flags=FLUSH)
    own = {"dev": SDA, "sector": NO_SECTOR, "size_bytes": 0, "flags": FLUSH_OP | PREFLUSH}
    world.emit("block_rq_issue", 3_100, KWORKER, request_key=0xA1, **own)
    world.emit("block_rq_complete", 33_100, 0, request_key=0xA1, **own)
    disk.flush(2_500, 34_000, 0xAF, 0xB0, asked=0xA2)
    one_write(world, THIN, 35_000)
    assert accounts(told(world)) == {
        100: [{
            "syscall": 1_000, "block.Q2D": 500, "block.stacked": 600 + 900,
            "device.flush": 30_000, "wakeup.interrupt": 1_000,
        }]
    }  # fmt: skip


def test_a_flush_of_a_thin_volume_is_followed_through_its_pool() -> None:
    """dm-thin: a worker hands the flush on, after its metadata is written, to the pool's disk."""
    world = World()
    world.builder.block(THIN, "dm-2", lower_keys=(POOL,)).block(POOL, "dm-1", lower_keys=(SDA,))
    world.builder.block(SDA, "sda")
    thin, pool, disk = (Block(world, dev) for dev in (THIN, POOL, SDA))
    thin.queue(2_000, 100, 0xB0, sector=0, size=0, flags=FLUSH)
    empty = {"sector": 0, "size": 0, "flags": FLUSH}
    pool.take_from(THIN, 10_000, KWORKER, 0xB1, old_sector=0, **empty)
    pool.queue(10_100, KWORKER, 0xB1, kernel=1, **empty)
    disk.take_from(POOL, 11_000, KWORKER, 0xB2, old_sector=0, **empty)
    disk.queue(11_100, KWORKER, 0xB2, kernel=1, **empty)
    disk.flush(12_100, 42_100, 0xA0, 0xB2, asked=0xA1)
    pool.complete(43_000, 0xB1, size=0, flags=FLUSH)
    thin.complete(44_000, 0xB0, size=0, flags=FLUSH)
    one_write(world, THIN, 44_500)
    breakdown = told(world)
    assert accounts(breakdown) == {
        100: [{
            "syscall": 1_000, "block.stacked": 9_100 + 1_900, "block.Q2D": 1_000,
            "device.flush": 30_000, "wakeup.interrupt": 500,
        }]
    }  # fmt: skip
    assert breakdown.quality.ties == {"key": 3}


def test_flushes_that_a_worker_hands_on_in_one_go_are_of_who_asked_in_turn() -> None:
    """dm-cache: after one commit, for each of them one to each of two disks; the last to end there
    is not the last for both."""
    world, other = World(), device(8, 16)
    world.builder.block(THIN, "dm-2", lower_keys=(SDA, other))
    world.builder.block(SDA, "sda").block(other, "sdb")
    cache = Block(world, THIN)
    empty = {"sector": 0, "size": 0, "flags": FLUSH}
    for number in range(2):
        cache.queue(2_000 + 100 * number, 100 + number, 0xB0 + number, **empty)
    flushes = {
        SDA: ((12_000, 42_000), (42_500, 62_500)),
        other: ((12_000, 24_000), (24_500, 34_500)),
    }
    for number, begin in enumerate((10_000, 13_000)):
        for place, (disk, runs) in enumerate(flushes.items()):
            bio, below = 0xC0 + 2 * number + place, Block(world, disk)
            below.take_from(THIN, begin + 200 * place, KWORKER, bio, old_sector=0, **empty)
            below.queue(begin + 200 * place + 50, KWORKER, bio, kernel=1, **empty)
            below.flush(*runs[number], bio + 0x100, bio, asked=bio + 0x200)
        end = flushes[SDA][number][1] + 500
        cache.complete(end, 0xB0 + number, size=0, flags=FLUSH)
        one_write(world, THIN, end + 500, tid=100 + number)
    found = accounts(told(world))
    stacked = {"block.stacked": 8_050 + 500, "block.Q2D": 1_950, "device.flush": 30_000}
    assert found[100] == [{"syscall": 1_000, "wakeup.interrupt": 500} | stacked]
    # Until its own begins, it is in the device's as well that runs for the first one.
    stacked = {"block.stacked": 10_950 + 500, "block.Q2D": 500, "device.flush": 28_950 + 20_000}
    assert found[101] == [{"syscall": 1_100, "wakeup.interrupt": 500} | stacked]


@pytest.mark.parametrize("keyed", [True, False], ids=["by-key", "by-time"])
def test_an_array_below_encryption_is_no_device(keyed: bool) -> None:
    """dm-crypt on md: a worker queues what it encrypted; md passes it on as it is."""
    world = World()
    world.builder.block(CRYPT, "md0", lower_keys=(MD,)).block(MD, "md0", lower_keys=(SDA,))
    world.builder.block(SDA, "sda")
    crypt, array, disk = (Block(world, dev) for dev in (CRYPT, MD, SDA))
    crypt.queue(2_000, 100, 0xB0)
    if keyed:  # device mapper says so since Linux 5.18
        array.take_from(CRYPT, 7_000, KWORKER, 0xB1)
    array.queue(7_100, KWORKER, 0xB1, kernel=1)
    disk.take_from(MD, 17_100, KWORKER, 0xB1, sector=2056)
    disk.request(18_100, 48_100, 0xA0, 0xB1, sector=2056)
    array.complete(50_000, 0xB1)
    crypt.complete(52_000, 0xB0)
    one_write(world, CRYPT, 52_500)
    breakdown = told(world)
    assert accounts(breakdown) == {
        100: [{
            "syscall": 1_000, "block.stacked": 15_100 + 3_900, "block.Q2D": 1_000,
            "device.data": 30_000, "wakeup.interrupt": 500,
        }]
    }  # fmt: skip
    assert breakdown.quality.ties == ({"key": 3} if keyed else {"key": 1, "time": 2})


def on_loop(inode: int | None = 13) -> World:
    world = World()
    world.builder.block(
        LOOP, "loop0", backing="/image", lower_keys=(SDA,), backing_inode=inode
    ).block(SDA, "sda")
    return world


@pytest.mark.parametrize("own", [True, False])
def test_what_an_array_reads_for_the_parity_of_what_it_writes(*, own: bool) -> None:
    """It has the same place below as what is written then; what has another is for others."""
    world, other = World(), device(8, 16)
    world.builder.block(MD, "md0", lower_keys=(SDA, other))
    world.builder.block(SDA, "sda").block(other, "sdb")
    array, data, parity = (Block(world, dev) for dev in (MD, SDA, other))
    array.queue(2_000, 100, 0xB0)
    place = 4112 if own else 8224
    parity.take_from(MD, 2_900, KWORKER, 0xB1, old_sector=1040, sector=place, flags=0)
    parity.queue(3_000, KWORKER, 0xB1, sector=place, flags=0, kernel=1)
    keys = {"request_key": 0xA1, "bio_key": 0xB1, "dev": other, "sector": place, "flags": 0}
    world.emit("block_rq_issue", 3_500, KWORKER, size_bytes=8192, **keys)
    world.emit("block_rq_complete", 23_500, 0, size_bytes=8192, **keys)
    data.take_from(MD, 23_900, KWORKER, 0xB2, sector=4112)
    data.queue(24_000, KWORKER, 0xB2, sector=4112, kernel=1)
    data.request(24_500, 34_500, 0xA2, 0xB2, sector=4112)
    array.complete(35_500, 0xB0)
    one_write(world, MD, 36_500)
    breakdown = told(world)
    account = accounts(breakdown)[100][0]
    assert account["device.data"] == 10_000
    assert account.get("device.read", 0) == (20_000 if own else 0)
    assert account["block.stacked"] == (2_500 if own else 23_000)
    assert breakdown.quality.ties == {"key": 2} | ({"place": 1} if own else {})


def test_what_an_array_writes_and_reads_at_once_for_several() -> None:
    """The parities of two stripes are written in one go, each is for the write of its own."""
    world, other = World(), device(8, 16)
    world.builder.block(MD, "md0", lower_keys=(SDA, other))
    world.builder.block(SDA, "sda").block(other, "sdb")
    array, data, parity = (Block(world, dev) for dev in (MD, SDA, other))
    for number in range(2):
        array.queue(2_000, 100 + number, 0xB0 + number, sector=8 + 1024 * number)
    # The second one's first: by turn they would be the other's.
    for number, end in ((1, 24_500), (0, 54_500)):
        place, begin = 4112 + 1024 * number, 4_000 + 100 * (1 - number)
        for keyed, disk, bio in ((False, parity, 0xC0), (True, data, 0xD0)):
            disk.take_from(MD, begin, KWORKER, bio + number, sector=place,
                           old_sector=8 + 1024 * number if keyed else 0)  # fmt: skip
            disk.queue(begin + 20, KWORKER, bio + number, sector=place, kernel=1)
            disk.request(4_500, end - 10_000 if keyed else end, bio + 0x100 + number, bio + number,
                         sector=place)  # fmt: skip
        array.complete(end + 500, 0xB0 + number)
        one_write(world, MD, end + 1_000, tid=100 + number)
    breakdown = told(world)
    found = accounts(breakdown)
    assert found[100][0]["device.data"] == 50_000
    assert found[101][0]["device.data"] == 20_000
    assert breakdown.quality.ties == {"key": 4, "place": 2}


def test_what_is_tied_to_nobodys_is_not_counted() -> None:
    """What an array writes for a kernel thread, which is part of no write."""
    world = World()
    world.builder.block(MD, "md0", lower_keys=(SDA,)).block(SDA, "sda")
    array, disk = Block(world, MD), Block(world, SDA)
    array.queue(2_000, 100, 0xB0)
    disk.take_from(MD, 2_100, 100, 0xC0)
    disk.request(2_500, 22_500, 0xA0, 0xC0, tid=100)
    array.complete(23_000, 0xB0)
    array.queue(3_000, KWORKER, 0xB1, sector=64, kernel=1)
    disk.queue(4_000, KWORKER, 0xC1, sector=64, kernel=1)
    disk.request(4_500, 44_500, 0xA1, 0xC1, sector=64)
    array.complete(45_000, 0xB1)
    one_write(world, MD, 23_500)
    assert told(world).quality.ties == {"key": 2}


@pytest.mark.parametrize(
    ("lower", "mounted", "said"),
    [
        ((SDA,), "ext4", ""),
        ((41,), "btrfs", ""),
        ((41,), "tmpfs", "its file is on tmpfs, which is not looked into for it"),
        ((41,), "overlay", "its file is on overlay, which is not looked into for it"),
        ((41,), "fuse.x", "its file is on fuse, which is not looked into for it"),
        ((41,), "", "on which disk its file is (as one on btrfs) is not known"),
        ((), "", "on which disk its file is (as one on btrfs) is not known"),
    ],
)
def test_a_loop_device_whose_file_is_nobody_knows_where(
    lower: tuple[int, ...], mounted: str, said: str
) -> None:
    """On a btrfs: the number of its subvolume is no mount's."""
    world = World()
    world.builder.block(LOOP, "loop0", backing="/image", lower_keys=lower).block(SDA, "sda")
    if mounted:
        world.builder.mount(lower[0], "/", mounted)
    loop = Block(world, LOOP)
    loop.queue(2_000, 100, 0xB0)
    loop.request(2_500, 61_000, 0xA0, 0xB0)
    one_write(world, LOOP, 61_500)
    lines = [gap for gap in told(world).quality.not_observed if gap.layer == "below loop0"]
    assert [(gap.reason, gap.merged_into) for gap in lines] == [(said, "device")] * bool(said)


@pytest.mark.parametrize("known", [False, True])
def test_a_disk_that_came_and_went_may_lie_on_anything(*, known: bool) -> None:
    """Neither the recording's begin nor its end found it: device mapper's, on a disk that has its
    requests again."""
    world = World()
    world.builder.block(SDA, "sda")
    if known:
        world.builder.block(MD, "md0", lower_keys=(SDA,))
    mapped = Block(world, MD)
    mapped.queue(2_000, 100, 0xB0)
    mapped.request(2_500, 61_000, 0xA0, 0xB0)
    one_write(world, MD, 61_500)
    lines = [gap for gap in told(world).quality.not_observed if gap.layer.startswith("below ")]
    assert [gap.merged_into for gap in lines] == ["device"] * (not known)


@pytest.mark.parametrize("cloned", [False, True])
@pytest.mark.parametrize("times", [1, 2, 3, 4])
def test_a_disk_that_is_made_anew_on_another_one(times: int, *, cloned: bool) -> None:
    """Its bios say what they are clones of (dm-linear), or do not (dm-mirror): then there is only
    time, and it may be a disk that it was not on."""
    world = World()
    world.builder.block(SDA, "sda").block(CRYPT, "dm-2")
    for number in range(times):
        world.builder.block(MD, "dm-0", lower_keys=((SDA, CRYPT)[number % 2],))
    mapped, disk = Block(world, MD), Block(world, SDA)
    mapped.queue(2_000, 100, 0xB0)
    if cloned:
        disk.take_from(MD, 2_100, 100, 0xB0)
    else:
        disk.queue(3_000, KWORKER, 0xC0, sector=512, kernel=1)
    disk.request(10_000, 50_000, 0xA0, 0xB0 if cloned else 0xC0, sector=8 if cloned else 512)
    if not cloned:
        mapped.complete(60_000, 0xB0)
    one_write(world, MD, 61_500)
    found = told(world)
    lines = [gap.merged_into for gap in found.quality.not_observed if gap.layer == "below dm-0"]
    assert lines == [""] * (times > 1 and not cloned)
    (account,) = accounts(found)[100]
    assert account["device.data"] == 40_000


ELSEWHERE = "device, wakeup.interrupt and unattributed"


@pytest.mark.parametrize(
    ("inodes", "said"),
    [((0,), True), ((0, 13), False), ((13, 13), True), ((13, 14), True), ((13,), False)],
)
def test_a_loop_device_that_is_set_up_while_it_is_recorded(
    inodes: tuple[int, ...], *, said: bool
) -> None:
    """It is told again at the end. One that was taken down again, or had a file before, was on
    nobody knows what; once all that was silent, and its file's disk was not followed."""
    world = World()
    world.builder.block(SDA, "sda").mount(SDA, "/", "ext4")
    for inode in inodes:
        below: dict[str, Any] = {"backing": "/image", "lower_keys": (SDA,), "backing_inode": inode}
        world.builder.block(LOOP, "loop0", **(below if inode else {}))
    loop, disk = Block(world, LOOP), Block(world, SDA)
    loop.queue(2_000, 100, 0xB0)
    loop.request(2_500, 61_000, 0xA0, 0xB0)
    disk.queue(10_000, KWORKER, 0xC0, sector=512, kernel=1)
    disk.request(10_500, 40_500, 0xD0, 0xC0, sector=512)
    one_write(world, LOOP, 61_500)
    found = told(world)
    lines = [gap for gap in found.quality.not_observed if gap.layer == "below loop0"]
    assert [gap.merged_into for gap in lines] == [ELSEWHERE] * said
    assert accounts(found)[100][0]["device.data"] == (58_500 if said else 30_000)


def test_what_a_loop_devices_worker_writes_is_for_the_request_that_it_names() -> None:
    """Two at once, and below the later one is taken up first: by time, each had the other's."""
    world = on_loop()
    loop, disk = Block(world, LOOP), Block(world, SDA)
    for number, (tid, begin, end) in enumerate(((100, 10_000, 60_500), (101, 5_000, 30_500))):
        loop.queue(2_000, tid, 0xB0 + number, sector=64 * number)
        loop.request(2_500, 61_000, 0xA0 + number, 0xB0 + number, sector=64 * number, tid=tid)
        disk.queue(
            begin, KWORKER, 0xC0 + number, sector=512 * number, kernel=1, above=0xA0 + number
        )
        disk.request(begin + 500, end, 0xD0 + number, 0xC0 + number, sector=512 * number)
        one_write(world, LOOP, 61_500, tid=tid)
    breakdown = told(world)
    rest = {"syscall": 1_000, "wakeup.interrupt": 500}
    assert accounts(breakdown) == {
        100: [rest | {
            "block.Q2D": 500 + 500, "block.stacked": 7_500 + 500, "device.data": 50_000,
        }],
        101: [rest | {
            "block.Q2D": 500 + 500, "block.stacked": 2_500 + 30_500, "device.data": 25_000,
        }],
    }  # fmt: skip
    assert breakdown.quality.ties == {"key": 4}


@pytest.mark.parametrize("queuer", [QUEUER_KERNEL_THREAD, QUEUER_LOOP])
def test_what_is_for_a_request_that_is_not_recorded_is_anothers(queuer: int) -> None:
    """Another loop device's, on the same disk, which the same worker serves: it lives within the
    flush of the one that is recorded, as what only time ties would."""
    world = on_loop()
    loop, disk = Block(world, LOOP), Block(world, SDA)
    loop.queue(2_000, 100, 0xB0)
    loop.request(2_500, 61_000, 0xA0, 0xB0)
    disk.queue(5_000, KWORKER, 0xC0, kernel=QUEUER_LOOP, above=0xA0)
    disk.request(5_500, 20_500, 0xD0, 0xC0)
    disk.queue(25_000, KWORKER, 0xC1, sector=512, kernel=queuer, above=0xA9)
    disk.request(25_500, 60_500, 0xD1, 0xC1, sector=512)
    one_write(world, LOOP, 61_500)
    breakdown = told(world)
    (account,) = accounts(breakdown)[100]
    known = queuer == QUEUER_LOOP
    assert account["device.data"] == (15_000 if known else 50_000)
    assert breakdown.quality.ties == {"key": 2} | ({} if known else {"time": 1})
    assert not breakdown.quality.left_over


@pytest.mark.parametrize("queuer", [QUEUER_KERNEL_THREAD, QUEUER_LOOP])
def test_what_is_for_anothers_request_is_known_to_be_anothers(queuer: int) -> None:
    """Who sleeps meanwhile, with nothing under way, does not wait for it: its own is known, too."""
    world = on_loop()
    loop, disk = Block(world, LOOP), Block(world, SDA)
    loop.queue(2_000, 100, 0xB0)
    loop.request(2_500, 21_000, 0xA0, 0xB0)
    loop.queue(22_000, 200, 0xB1, sector=64)
    loop.request(22_500, 61_000, 0xA1, 0xB1, sector=64, tid=200)
    disk.queue(25_000, KWORKER, 0xC1, sector=512, kernel=queuer, above=0xA1)
    disk.request(25_500, 60_500, 0xD1, 0xC1, sector=512)
    one_write(world, LOOP, 61_500)
    left = told(world).quality.left_over
    assert [one.kind for one in left] == ["request"] * (queuer == QUEUER_KERNEL_THREAD)


@pytest.mark.parametrize("case", ["another device's", "another flush's", "another file's"])
def test_what_a_loop_device_s_file_is_synced_for_is_known_to_be_anothers(case: str) -> None:
    """Its worker writes the inode of that, and has the disk flushed, while a write sleeps that has
    nothing under way; of any other file nobody knows for whom."""
    world = on_loop()
    other = device(7, 1)
    world.builder.block(other, "loop1", lower_keys=(SDA,), backing="/other.img", backing_inode=14)
    loop, disk = Block(world, LOOP), Block(world, SDA)
    loop.queue(2_000, 100, 0xB0)
    loop.request(2_500, 21_000, 0xA0, 0xB0)
    if case == "another flush's":
        loop.queue(22_000, 200, 0xB1, sector=0, size=0, flags=FLUSH)
        loop.flush(22_500, 61_000, 0xA1, 0xB1, asked=0xA2)
    disk.queue(25_000, KWORKER, 0xC1, sector=512, kernel=QUEUER_KERNEL_THREAD)
    disk.request(25_500, 35_500, 0xD1, 0xC1, sector=512)
    disk.queue(36_000, KWORKER, 0xC2, sector=0, size=0, flags=FLUSH, kernel=QUEUER_KERNEL_THREAD)
    disk.flush(36_500, 59_000, 0xD2, 0xC2, asked=0xD3)
    inode = {"another device's": 14, "another flush's": 13, "another file's": 15}[case]
    world.emit("ext4_sync_file", 60_000, KWORKER, enter_ns=24_000, inode=inode, dev=SDA)
    one_write(world, LOOP, 61_500)
    left = told(world).quality.left_over
    kinds = ["request", "flush"] if case == "another file's" else []
    assert [one.kind for one in left] == kinds


@pytest.mark.parametrize("inode", [13, None], ids=["inode", "no-inode"])
def test_a_flush_of_a_loop_device_is_the_sync_of_its_file(inode: int | None) -> None:
    """Its data, its journal's commit and the flush of the disk belong to who waits above."""
    world = on_loop(inode)
    loop, disk = Block(world, LOOP), Block(world, SDA)
    loop.queue(2_000, 100, 0xB0, sector=0, size=0, flags=FLUSH)
    # The worker syncs from 4000: a data request, then the commit, from 40000 on.
    disk.queue(5_000, KWORKER, 0xC0, kernel=1)
    disk.request(5_500, 35_500, 0xD0, 0xC0)
    world.emit("sched_resume", 38_500, KWORKER, off_ns=6_000, wake_ns=36_500, waker_tid=0,
               state=2, subject_tid=KWORKER)  # fmt: skip
    log = Request(queue=300, scheduler=None, device=20_000, sector=900, meta=True)
    commit = Commit(world, SDA, 40_000, 7).run(1_000, 500, [log])
    woken = commit.end + 700
    world.emit("sched_resume", woken + 200, KWORKER, off_ns=39_000, wake_ns=woken,
               waker_tid=commit.tid, state=2, subject_tid=KWORKER)  # fmt: skip
    done = woken + 1_000
    world.emit("ext4_sync_file", done, KWORKER, enter_ns=4_000, inode=13, dev=SDA,
               enter_transaction=7, exit_transaction=7, result=0)  # fmt: skip
    loop.flush(3_000, done + 500, 0xA0, 0xB0, asked=0xA1)
    one_write(world, LOOP, done + 1_000)
    breakdown = told(world)
    phases = {row: 0 for row, _, _ in commit.timeline}
    for row, begin, end in commit.timeline:
        phases[row] += end - begin
    truth = {
        "syscall": 1_000, "block.Q2D": 1_000 + 500 + 300, "device.data": 30_000,
        "device.journal": 20_000, "journal.locking": phases["journal.locking"],
        "journal.flushing": phases["journal.flushing"],
        "journal.logging": phases["journal.logging"], "journal.start": 40_000 - 39_000,
        "wakeup.runqueue": 2_000 + phases["wakeup.runqueue"] + 200,
        "wakeup.interrupt": 1_000 + phases["wakeup.interrupt"] + 700 + 500,
    }  # fmt: skip
    truth["block.stacked"] = done + 1_000 - 1_000 - sum(truth.values())
    assert truth["block.stacked"] == 2_000 + (39_000 - 38_500) + 800 + 500
    assert accounts(breakdown) == {100: [truth]}
    assert breakdown.quality.ties == {"key": 3}


@pytest.mark.parametrize("interrupted", [True, False])
def test_what_asks_a_loop_device_for_a_flush_is_not_queued_while_that_has_it(
    *, interrupted: bool
) -> None:
    """A file on a loop device, whose own file is on another: from 5500 to 40000 that has the first
    flush, and from 41000 on the data. So does whoever waits for the first."""
    world, upper = World(), device(7, 1)
    world.builder.block(upper, "loop1", lower_keys=(LOOP,), backing="/a", backing_inode=13)
    world.builder.block(LOOP, "loop0", lower_keys=(SDA,), backing="/b", backing_inode=14)
    world.builder.block(SDA, "sda")
    top, loop, disk = Block(world, upper), Block(world, LOOP), Block(world, SDA)
    top.queue(2_000, 100, 0xB0, sector=0, size=0, flags=FLUSH)
    loop.queue(5_000, KWORKER, 0xC0, flags=FLUSH | FUA, kernel=1)
    own = {"request_key": 0xA2, "dev": LOOP, "sector": NO_SECTOR, "flags": FLUSH_OP | PREFLUSH}
    world.emit("block_rq_issue", 5_500, 77, **own)
    disk.queue(9_500, 67, 0xC1, sector=0, size=0, flags=FLUSH, kernel=1)
    disk.flush(10_000, 30_000, 0xD0, 0xC1, asked=0xD1)
    late = 6_000 if interrupted else 0
    if late:
        world.emit("sched_resume", 37_000, 67, off_ns=9_600, wake_ns=31_000, waker_tid=0, state=2,
                   subject_tid=67, waker_context=WAKE_INTERRUPT)  # fmt: skip
    world.emit("ext4_sync_file", 39_000, 67, enter_ns=6_000, inode=14, dev=SDA)
    world.emit("block_rq_complete", 40_000, 0, **own)
    loop.request(41_000, 50_000, 0xA3, 0xC0)
    world.emit("ext4_sync_file", 51_000, KWORKER, enter_ns=4_000, inode=13, dev=LOOP)
    top.flush(3_000, 52_000, 0xA0, 0xB0, asked=0xA1)
    one_write(world, upper, 52_500)
    (found,) = accounts(told(world))[100]
    assert found["block.Q2D"] == 1_000 + 500 + 500 + 1_000
    assert found["device.flush"] == 20_000
    assert found.get("wakeup.runqueue", 0) == late
    assert found["block.stacked"] >= 5_000 - 3_000 + 3_500 + 2_000 + 9_000


def test_the_sync_of_another_file_is_not_the_loop_devices() -> None:
    world = on_loop(inode=14)
    loop, disk = Block(world, LOOP), Block(world, SDA)
    loop.queue(2_000, 100, 0xB0, sector=0, size=0, flags=FLUSH)
    disk.queue(5_000, KWORKER, 0xC0, sector=0, size=0, flags=FLUSH, kernel=1)
    disk.flush(5_500, 35_500, 0xD0, 0xC0, asked=0xD1)
    world.emit("ext4_sync_file", 36_000, KWORKER, enter_ns=4_000, inode=13, dev=SDA)
    # A worker that is known leaves nothing to be tied by time.
    disk.queue(40_000, 67, 0xC1, sector=0, size=0, flags=FLUSH, kernel=1)
    world.emit("ext4_sync_file", 90_000, 67, enter_ns=39_000, inode=14, dev=SDA)
    disk.flush(40_500, 80_500, 0xD0, 0xC1, asked=0xD1)
    loop.flush(3_000, 91_000, 0xA0, 0xB0, asked=0xA1)
    one_write(world, LOOP, 91_500)
    assert accounts(told(world)) == {
        100: [{
            "syscall": 1_000, "block.Q2D": 1_000 + 500, "device.flush": 40_000,
            "block.stacked": 88_000 - 40_500, "wakeup.interrupt": 500,
        }]
    }  # fmt: skip


def test_only_time_ties_what_no_key_does_and_each_has_its_own_in_turn() -> None:
    """An older kernel's loop device: its worker takes up one request after the other."""
    world = on_loop()
    loop, disk = Block(world, LOOP), Block(world, SDA)
    for number, tid in enumerate((100, 101)):
        loop.queue(2_000, tid, 0xB0 + number, sector=64 * number)
        loop.request(2_500 + number, 61_000, 0xA0 + number, 0xB0 + number, sector=64 * number,
                     tid=tid)  # fmt: skip
        begin = 5_000 + number * 100
        disk.queue(begin, KWORKER, 0xC0 + number, sector=512 * number, kernel=1)
        disk.request(begin + 400, (60_400, 25_500)[number], 0xD0 + number, 0xC0 + number,
                     sector=512 * number)  # fmt: skip
        one_write(world, LOOP, 61_500, tid=tid)
    breakdown = told(world)
    assert [found[0]["device.data"] for found in accounts(breakdown).values()] == [55_000, 20_000]
    assert breakdown.quality.ties == {"key": 2, "time": 2}


@pytest.mark.parametrize("woken_by", [0, 55], ids=["its-completion", "another"])
def test_what_no_key_ties_must_have_woken_the_sleeper(woken_by: int) -> None:
    world = World()
    world.builder.block(SDA, "sda")
    disk = Block(world, SDA)
    disk.queue(5_000, KWORKER, 0xC0, kernel=1)
    disk.request(6_000, 46_000, 0xD0, 0xC0)
    writer = Writer(world, 100, SDA, 1_000)
    writer.enter()
    writer.cpu(1_000)
    off, writer.now = writer.now, 50_000
    world.emit("sched_resume", 50_000, 100, off_ns=off, wake_ns=47_000, waker_tid=woken_by,
               state=2, subject_tid=100)  # fmt: skip
    writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    breakdown = told(world)
    rest = {"syscall": 1_000, "wakeup.runqueue": 3_000}
    claimed = {"residual": 3_000, "block.Q2D": 1_000, "device.data": 40_000,
               "wakeup.interrupt": 1_000}  # fmt: skip
    assert accounts(breakdown) == {
        100: [rest | (claimed if woken_by == 0 else {"residual": 45_000})]
    }


def test_sleepers_are_not_paired_with_all_that_goes_on_meanwhile(tmp_path: Path) -> None:
    """64 writes asleep all along, and 2000 flushes by kernel threads that no key ties to any."""
    world = World()
    world.builder.block(SDA, "sda")
    disk, flushes = Block(world, SDA), 2_000
    for number in range(flushes):
        begin = 3_000 + number * 1_000
        disk.queue(begin, KWORKER, 0xC0, sector=0, size=0, flags=FLUSH, kernel=1)
        disk.flush(begin + 100, begin + 900, 0xD0, 0xC0, asked=0xD1)
    for tid in range(100, 164):
        one_write(world, SDA, flushes * 1_000 + 10_000, tid=tid)
    world.builder.write(tmp_path)
    trace = read_trace(tmp_path)
    pieces = units_of(trace).pieces
    assert len(pieces.begin_ns) == 64
    spans = stitch(window_of(trace, pieces, NO_COMMITS)).spans
    assert len(spans) <= 64 * 8


def test_lower_devices_of_a_synthetic_chain_keep_their_data() -> None:
    """Device mapper in the writer's own context: the clone says its place, and is its own bio."""
    world = World()
    world.builder.block(CRYPT, "md0", lower_keys=(SDA,)).block(SDA, "sda")
    upper, disk = Block(world, CRYPT), Block(world, SDA)
    upper.queue(2_000, 100, 0xB0, sector=100)
    # One half at each of two places below.
    for number in range(2):
        begin = 2_200 + number * 100
        disk.take_from(CRYPT, begin, 100, 0xC0 + number, old_sector=100 + 8 * number, size=4096)
        disk.queue(begin + 50, 100, 0xC0 + number, sector=1_000 * number, size=4096)
        disk.request(3_000 + number * 100, 20_000 + number * 9_000, 0xD0 + number, 0xC0 + number,
                     sector=1_000 * number, size=4096, tid=100)  # fmt: skip
    upper.complete(29_500, 0xB0)
    one_write(world, CRYPT, 30_000)
    found = accounts(told(world))
    assert found == {
        100: [{
            "syscall": 1_000, "block.stacked": 250 + 500, "block.Q2D": 750,
            "device.data": 26_000, "wakeup.interrupt": 500,
        }]
    }  # fmt: skip
    assert sum(found[100][0].values()) == 29_000


def test_a_loop_device_on_ext4_is_as_busy_as_the_disk_below_it() -> None:
    """A real one, with a journal above and below: each write has all of its disk's requests."""
    recording = open_recording(RECORDINGS / "loop_on_ext4")
    (trace,), breakdown = recording.traces(), analyse(recording)
    disk = next(key for key, block in trace.facts.blocks.items() if block.name == "vda")
    began: dict[int, int] = {}
    busy: list[tuple[int, int]] = []
    events = [
        (int(time), point, int(key))
        for point in ("block_rq_issue", "block_rq_complete")
        for time, key, dev in zip(
            *trace.points[point].integers("request_key", "dev").values(), strict=True
        )
        if dev == disk
    ]
    for time, point, key in sorted(events):
        if point == "block_rq_issue":
            began[key] = time
        elif key in began:
            busy.append((began.pop(key), time))
    device = sum(
        times
        for layer, times in zip(breakdown.layers, breakdown.time_ns, strict=True)
        if layer.segment == "device"
    )
    writes = breakdown.writes
    for number in range(len(writes)):
        since, total = int(writes.begin_ns[number]), 0
        for begin, complete in sorted(busy):
            end = min(complete, int(writes.end_ns[number]))
            total += max(end - max(begin, since), 0)
            since = max(since, end)
        assert total == device[number]


def test_a_later_use_of_a_requests_pointer_is_not_its_end() -> None:
    """Its completion was not seen; the pointer's next use is for an empty flush, which is not
    issued itself, and completes without data."""
    world = World()
    disk = Block(world, SDA)
    disk.queue(2_000, 100, 0xB0)
    world.emit("block_rq_issue", 2_500, 100, request_key=0xA0, bio_key=0xB0, dev=SDA, sector=8,
               size_bytes=8192, flags=DATA)  # fmt: skip
    disk.flush(30_000, 45_000, 0xA8, 0xB7, 0xA0)
    one_write(world, SDA, 51_000, off=3_000)
    (account,) = accounts(told(world))[100]
    assert "device.data" not in account
    assert account["residual"] >= 27_000


@pytest.mark.parametrize("scheduled", [True, False])
def test_detail_tells_the_queue_below_a_stacked_device_apart(scheduled: bool) -> None:
    """A clone is queued at 2200, has a request from 3000 on, is in the scheduler from 5000 on, if
    there is one, and issued at 9000."""
    world = World()
    world.builder.env["detail"] = 1
    world.builder.block(CRYPT, "dm-0", lower_keys=(SDA,)).block(SDA, "sda")
    upper, lower = Block(world, CRYPT), Block(world, SDA)
    upper.queue(2_000, 100, 0xB0)
    lower.take_from(CRYPT, 2_100, 100, 0xC0)
    lower.queue(2_200, 100, 0xC0)
    place = {"sector": 8, "dev": SDA, "size_bytes": 8192, "flags": DATA}
    world.emit("block_getrq", 3_000, 100, bio_key=0xC0, **place)
    if scheduled:
        world.emit("block_rq_insert", 5_000, 100, request_key=0xA0, bio_key=0xC0, **place)
    lower.request(9_000, 30_000, 0xA0, 0xC0)
    upper.complete(30_100, 0xB0)
    one_write(world, CRYPT, 31_000)
    (found,) = accounts(told(world))[100]
    queued = {row: took for row, took in found.items() if row.startswith("block.")}
    apart = {"block.G2I": 2_000, "block.I2D": 4_000} if scheduled else {"block.G2D": 6_000}
    assert queued == {"block.stacked": 300, "block.Q2G": 800} | apart


@pytest.mark.parametrize("parts", [1, 2])
def test_what_a_batch_asks_of_a_stacked_device_counts_once(parts: int) -> None:
    """io_submit of libaio: device mapper queues bios of its own below, as who submits."""
    world = World()
    world.builder.block(CRYPT, "dm-0", lower_keys=(SDA,)).block(SDA, "sda")
    world.target(100)
    upper, lower = Block(world, CRYPT), Block(world, SDA)
    size, end = parts * 8192, 20_000
    for number in range(3):
        for part in range(parts):
            place = number * parts + part
            time, bio, below = 2_000 + 1_000 * place, 0xB00 + 16 * place, 0xC00 + 16 * place
            upper.queue(time, 100, bio, sector=64 * place)
            lower.take_from(CRYPT, time + 100, 100, below, sector=64 * place, old_sector=64 * place)
            lower.queue(time + 200, 100, below, sector=64 * place)
            complete = 30_000 + 10_000 * number
            lower.request(time + 400, complete, 0xA00 + 16 * place, below, sector=64 * place,
                          tid=100)  # fmt: skip
            upper.complete(complete + 100, bio)
        block = {"iocb_key": 0x70 + 16 * number, "inode": 12, "dev": CRYPT}
        world.emit("aio_submit", end, 100, enter_ns=1_000, opcode=1, size_bytes=size, order=number,
                   open_flags=O_DSYNC | O_DIRECT, offset_bytes=number * size, **block)  # fmt: skip
        world.emit("aio_complete", 60_000, 100, enter_ns=end + 100, opcode=1, result=size, **block)
    breakdown = told(world)
    assert [held["device.data"] for held in accounts(breakdown)[100]] == [
        30_000 + 10_000 * number - (2_400 + 1_000 * number * parts) for number in range(3)
    ]
    assert not breakdown.residual_ns.any()
