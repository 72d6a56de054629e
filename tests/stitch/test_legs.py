# SPDX-License-Identifier: Apache-2.0
"""What is written below a stacked device is what was written above: an array's bios bear no word of
that (md's raid1 and raid10 give them the flags SYNC and FUA only, dm-mirror has dm-io's own)."""

from __future__ import annotations

import pytest

from iostrata.analysis import analyse
from iostrata.recording import open_recording
from iostrata.trace.facts import Striping
from iostrata.trace.layout import WAKE_THREAD
from tests.stitch.test_below import (
    KWORKER,
    LOOP,
    RECORDINGS,
    SDA,
    THIN,
    Block,
    one_write,
    told,
)
from tests.stitch.test_truth import accounts, conserves
from tests.stitch.test_upkeep import of_kernel
from tests.stitch.test_wakers import resume
from tests.synthetic import META, SYNC, WRITE, World, Writer, device

SDB, JBD2, RAID = device(8, 32), 900, 69
DATA, LOG = WRITE | SYNC, WRITE | SYNC | META
BEHIND = 64


def on_array(*, striping: tuple[Striping, ...] = ()) -> tuple[World, Block, tuple[Block, Block]]:
    """A device of device mapper's, of two disks, of which no bio says that it is for one above."""
    world = World()
    world.builder.block(THIN, "dm-4", lower_keys=(SDA, SDB), striping=striping)
    world.builder.block(SDA, "sda").block(SDB, "sdb")
    of_kernel(world)
    return world, Block(world, THIN), (Block(world, SDA), Block(world, SDB))


def legs(
    disks: tuple[Block, Block], begin: int, end: int, bio: int, *, tid: int, sector: int,
    behind: int = 0,
) -> None:  # fmt: skip
    """As an array, or a mirror, writes to its disks: the second one is the last to end."""
    for number, disk in enumerate(disks):
        key, place = bio + number, sector + behind
        disk.queue(begin - 500, tid, key, sector=place, kernel=1, flags=DATA)
        disk.request(begin, end - 100 * (not number), key + 0x100, key, sector=place, tid=tid)


def commits(world: World, begin: int, end: int, *, disk: int = THIN) -> None:
    for point, time in (
        ("jbd2_start_commit", begin), ("jbd2_commit_locking", begin + 10),
        ("jbd2_commit_flushing", begin + 20), ("jbd2_commit_logging", begin + 30),
        ("jbd2_end_commit", end),
    ):  # fmt: skip
        world.emit(point, time, JBD2, journal_key=0xFFFF_8882_0000_0000, dev=disk, transaction=7,
                   synchronous=1)  # fmt: skip


def fsync(world: World, off: int, end: int, *, disk: int = THIN) -> None:
    """A writer that waits for nothing but the commit, of transaction 7."""
    writer = Writer(world, 100, disk, 1_000)
    writer.enter()
    resume(world, 100, off, end, end, JBD2, context=WAKE_THREAD)
    writer.now = end
    world.emit("ext4_sync_file", end, 100, enter_ns=1_000, inode=12, dev=disk,
               enter_transaction=7, exit_transaction=7, result=0)  # fmt: skip
    writer.leave("fsync")


@pytest.mark.parametrize("place", ["the same", "another"])
@pytest.mark.parametrize("who", [JBD2, RAID, KWORKER], ids=["itself", "raid", "worker"])
@pytest.mark.parametrize("known", [True, False])
def test_a_journals_log_on_an_array_is_a_journals(who: int, place: str, *, known: bool) -> None:
    """Whoever queues what is for its disks: the journal's thread as it unplugs, md's, a worker."""
    behind = BEHIND * (place == "another")
    told_of = (Striping(0, 1, ((SDA, behind), (SDB, behind))),) if known else ()
    world, array, disks = on_array(striping=told_of)
    commits(world, 3_000, 50_000)
    array.queue(4_000, JBD2, 0xB0, sector=800, flags=LOG, kernel=1)
    legs(disks, 6_000, 46_000, 0xC0, tid=who, sector=800, behind=behind)
    array.complete(46_500, 0xB0, flags=LOG)
    resume(world, JBD2, 5_800, 47_000, 47_000)
    fsync(world, 2_000, 51_000)
    (account,) = accounts(told(world))[100]
    assert account == {
        "fs": 1_000, "journal.start": 1_000, "journal.locking": 20, "journal.flushing": 10,
        "journal.logging": 970 + 3_000, "block.stacked": 1_500 + 500, "block.Q2D": 500,
        "device.journal": 40_000, "wakeup.interrupt": 500 + 1_000,
    }  # fmt: skip


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("tid", [RAID, JBD2])
def test_a_log_and_data_at_once_are_each_its_own(tid: int, *, known: bool) -> None:
    """Data that was queued before the log, and is complete behind it: by time the log's first disk
    is the data's, which has none yet."""
    told_of = (Striping(0, 1, ((SDA, 0), (SDB, 0))),) if known else ()
    world, array, disks = on_array(striping=told_of)
    array.queue(2_000, 101, 0xB1, sector=64, flags=DATA)
    commits(world, 3_000, 50_000)
    array.queue(4_000, JBD2, 0xB0, sector=800, flags=LOG, kernel=1)
    legs(disks, 6_000, 46_000, 0xC0, tid=tid, sector=800)
    legs(disks, 7_000, 60_000, 0xD0, tid=RAID, sector=64)
    array.complete(46_500, 0xB0, flags=LOG)
    array.complete(60_500, 0xB1)
    resume(world, JBD2, 5_800, 47_000, 47_000)
    fsync(world, 2_000, 51_000)
    one_write(world, THIN, 61_000, tid=101)
    found = accounts(told(world))
    assert found[100][0]["device.journal"] == 40_000
    assert "device.data" not in found[100][0]
    assert found[101][0]["device.data"] == 53_000
    assert "device.journal" not in found[101][0]


@pytest.mark.parametrize("tid", [RAID, JBD2])
def test_data_that_a_journal_writes_before_its_log_is_data(tid: int) -> None:
    """Ordered mode: neither bio above bears the flag, and the journal's thread has them both."""
    world, array, disks = on_array()
    commits(world, 3_000, 70_000)
    array.queue(4_000, JBD2, 0xB1, sector=64, flags=DATA, kernel=1)
    legs(disks, 5_000, 25_000, 0xD0, tid=tid, sector=64)
    array.complete(25_500, 0xB1)
    resume(world, JBD2, 4_800, 26_000, 26_000)
    array.queue(27_000, JBD2, 0xB0, sector=800, flags=LOG, kernel=1)
    legs(disks, 29_000, 59_000, 0xC0, tid=tid, sector=800)
    array.complete(59_500, 0xB0, flags=LOG)
    resume(world, JBD2, 28_800, 60_000, 60_000)
    fsync(world, 2_000, 71_000)
    (account,) = accounts(told(world))[100]
    assert (account["device.data"], account["device.journal"]) == (20_000, 30_000)


def test_what_an_array_writes_at_the_place_of_another_device_is_not_its_own() -> None:
    """Of a thread that writes to a disk besides, an array on that disk tells what is its own."""
    world, array, (disk, _) = on_array()
    array.queue(4_000, 100, 0xB0, sector=800)
    disk.take_from(THIN, 4_100, 100, 0xB2, old_sector=800, sector=900)
    disk.queue(4_200, 100, 0xB2, sector=900)
    disk.request(4_500, 24_500, 0x1B2, 0xB2, sector=900, tid=100)
    disk.queue(4_600, 100, 0xB3, sector=800)
    disk.request(5_000, 30_000, 0x1B3, 0xB3, sector=800, tid=100)
    array.complete(40_000, 0xB0)
    one_write(world, THIN, 41_000, off=6_000)
    breakdown = told(world)
    assert breakdown.quality.ties == {"key": 3}


def test_data_that_a_journal_writes_on_a_loop_device_is_data_below_it() -> None:
    """Its direct I/O is a journal's where that was the log's."""
    world = World()
    world.builder.block(LOOP, "loop0", backing="/image", lower_keys=(SDA,), backing_inode=13)
    world.builder.block(SDA, "sda")
    loop, disk = Block(world, LOOP), Block(world, SDA)
    commits(world, 3_000, 70_000, disk=LOOP)
    for number, (begin, flags) in enumerate(((4_000, DATA), (27_000, LOG))):
        end, place = begin + 20_000, {"sector": 64 + 800 * number}
        loop.queue(begin, JBD2, 0xB0 + number, flags=flags, kernel=1, **place)
        loop.request(begin + 500, end + 1_000, 0xA0 + number, 0xB0 + number, tid=JBD2, **place)
        below = {"sector": 5_000 + 800 * number}
        disk.queue(begin + 1_000, KWORKER, 0xC0 + number, kernel=1, above=0xA0 + number, **below)
        disk.request(begin + 1_500, end - 500 * number, 0xD0 + number, 0xC0 + number, **below)
        resume(world, JBD2, begin + 600, end + 1_500, end + 1_500)
    fsync(world, 2_000, 71_000, disk=LOOP)
    (account,) = accounts(told(world))[100]
    assert (account["device.data"], account["device.journal"]) == (18_500, 18_000)


@pytest.mark.parametrize("name", ["dm_raid1", "dm_mirror_journal"])
def test_where_a_program_writes_nothing_its_devices_have_no_data(name: str) -> None:
    """It truncates the file that it has just written, and syncs: there is nothing but the log."""
    breakdown = analyse(open_recording(RECORDINGS / name))
    conserves(breakdown)
    rows = {layer.row for layer in breakdown.layers}
    assert "device.journal" in rows
    assert "device.data" not in rows
