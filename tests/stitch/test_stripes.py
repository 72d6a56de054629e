# SPDX-License-Identifier: Apache-2.0
"""What md reads and writes of stripes is for the write that has its place there."""

from __future__ import annotations

import numpy as np
import pytest

from iostrata.stitch.arrays import Layout, allowed
from iostrata.trace.facts import Striping
from tests.stitch.test_below import DATA, KWORKER, MD, SDA, Block, one_write, told
from tests.stitch.test_truth import accounts
from tests.synthetic import World, device

SDB, SDC = device(8, 16), device(8, 32)
DISKS = (SDA, SDB, SDC)
BEGIN, CHUNK, DATA_DISKS = 2048, 128, 2
"""Where the disks' data begins, and an array of 64 KiB chunks: a RAID 6 that has lost one of four
disks. All in sectors."""


def place_of(sector: int, *, chunk: int = CHUNK, disks: int = DATA_DISKS) -> int:
    """As raid5_compute_sector of drivers/md/raid5.c has it."""
    number, rest = divmod(sector, chunk)
    return BEGIN + number // disks * chunk + rest


def array(*, known: bool) -> World:
    """``known``: somebody read it long before, data of which md says both places."""
    world = World()
    world.builder.block(MD, "md0", lower_keys=DISKS)
    for disk, name in zip(DISKS, "abc", strict=True):
        world.builder.block(disk, f"sd{name}")
    for number, sector in enumerate((8, 136, 264, 2_568, 40_968) if known else ()):
        below(world, DISKS[number % 3], 10 * number, 1_000_000 + number, 1_000_001 + number,
              place_of(sector), old_sector=sector, flags=0)  # fmt: skip
    return world


def below(
    world: World, disk: int, number: int, begin: int, end: int, place: int, *, old_sector: int = 0,
    flags: int | None = None, handed: bool = True,
) -> None:  # fmt: skip
    """What md has a disk do, of a parity, or of the array's ``old_sector``."""
    block, bio = Block(world, disk), 0xC000 + number
    kind = {"sector": place, "size": 4096} | ({} if flags is None else {"flags": flags})
    if handed:
        block.take_from(MD, begin - 20, KWORKER, bio, old_sector=old_sector, **kind)
    block.queue(begin - 10, KWORKER, bio, kernel=1, **kind)
    of_request = {"request_key": bio + 0x1000, "bio_key": bio, "dev": disk, "sector": place}
    of_request |= {"size_bytes": 4096, "flags": kind.get("flags", DATA)}
    world.emit("block_rq_issue", begin, KWORKER, **of_request)
    world.emit("block_rq_complete", end, 0, **of_request)


def write(world: World, number: int, sector: int, end: int, *, size: int = 4096) -> None:
    """One to the array, of its own thread, queued at 2000 + ``number``."""
    upper = Block(world, MD)
    upper.queue(2_000 + number, 100 + number, 0xB0 + number, sector=sector, size=size)
    upper.complete(end, 0xB0 + number, size=size)
    one_write(world, MD, end + 500, tid=100 + number)


@pytest.mark.parametrize("known", [True, False])
def test_of_data_on_a_failed_disk_the_parities_have_the_place(*, known: bool) -> None:
    """Two writes, of which only parities are written: the second one's first, which is the first
    one's by turn. Without the layout they may be either's: then they are nobody's."""
    world = array(known=known)
    for number, sector, end in ((0, 520, 54_500), (1, 2_056, 24_500)):
        for disk in (SDB, SDC):
            below(world, disk, 100 + 2 * number + (disk == SDC), 4_000, end, place_of(sector))
        write(world, number, sector, end + 500)
    breakdown = told(world)
    assert breakdown.quality.ties == {"key": 2} | ({"place": 4} if known else {})
    found = accounts(breakdown)
    assert found[100][0].get("device.data", 0) == (54_500 - 4_000 if known else 0)
    assert found[101][0].get("device.data", 0) == (24_500 - 4_000 if known else 0)


def test_while_there_is_one_write_time_tells() -> None:
    """Nothing is known of the layout, but there is nobody else: the next begins only afterwards."""
    world = array(known=False)
    upper = Block(world, MD)
    for number in range(2):
        begin = 4_000 + 100_000 * number
        upper.queue(begin - 2_000, 100 + number, 0xB0 + number, size=4096)
        for disk in (SDB, SDC):
            below(world, disk, 100 + 2 * number + (disk == SDC), begin, begin + 20_000, 2_056)
        upper.complete(begin + 20_500, 0xB0 + number, size=4096)
    one_write(world, MD, 25_000)
    breakdown = told(world)
    assert breakdown.quality.ties == {"key": 1, "time": 2}
    assert accounts(breakdown)[100][0]["device.data"] == 20_000


def test_what_is_read_there_is_for_it_too() -> None:
    """All that is left of the stripe, to make up for what the failed disk had."""
    world = array(known=True)
    sector = 2_568
    below(world, SDA, 100, 3_000, 13_000, place_of(sector), old_sector=sector + CHUNK, flags=0)
    below(world, SDB, 101, 3_000, 23_000, place_of(sector), flags=0)
    below(world, SDB, 102, 25_000, 45_000, place_of(sector))
    write(world, 0, sector, 45_500)
    breakdown = told(world)
    (account,) = accounts(breakdown)[100]
    assert account["device.read"] == 20_000
    assert account["device.data"] == 20_000
    assert breakdown.quality.ties == {"key": 1, "place": 3}


def test_a_stripe_of_nobody_known_is_nobodys() -> None:
    """A resync's, or of who is not recorded: it went on within the write, elsewhere. What has no
    stripe at all, as md's superblock, still is for the first by time."""
    world = array(known=True)
    below(world, SDB, 100, 4_000, 44_000, place_of(2_056))
    below(world, SDC, 101, 3_000, 5_000, 8, handed=False)
    below(world, SDA, 102, 46_000, 56_000, place_of(520))
    write(world, 0, 520, 56_500)
    breakdown = told(world)
    assert breakdown.quality.ties == {"key": 1, "place": 1, "time": 1}
    assert accounts(breakdown)[100][0]["device.data"] == 2_000 + 10_000


def test_of_two_writes_to_one_stripe_the_later_has_what_is_written_before() -> None:
    """It came too late for that, and waits until the stripe is free."""
    world = array(known=True)
    below(world, SDB, 100, 4_000, 24_000, place_of(520))
    below(world, SDB, 101, 25_000, 55_000, place_of(520))
    write(world, 1, 520, 24_500)
    write(world, 0, 520 + CHUNK, 55_500)
    found = accounts(told(world))
    assert found[101][0]["device.data"] == 20_000
    assert found[100][0]["device.data"] == 20_000 + 30_000


@pytest.mark.parametrize("chunk", range(4))
def test_a_write_of_several_chunks_has_the_places_of_each(chunk: int) -> None:
    """From within the second chunk of a stripe to within the first of the next but one."""
    world = array(known=True)
    first = 3 * CHUNK + 64
    sector = (first, 4 * CHUNK, 5 * CHUNK + 120, 6 * CHUNK + 56)[chunk]
    below(world, SDC, 100, 4_000, 44_000, place_of(sector))
    # In the same stripe, but before and behind it.
    below(world, SDC, 101, 45_000, 46_000, place_of(first - 8))
    below(world, SDC, 102, 47_000, 48_000, place_of(6 * CHUNK + 64))
    write(world, 0, first, 55_500, size=512 * 3 * CHUNK)
    breakdown = told(world)
    assert breakdown.quality.ties == {"key": 1, "place": 1}
    assert accounts(breakdown)[100][0]["device.data"] == 40_000


@pytest.mark.parametrize("known", [True, False])
def test_the_parity_of_another_stripe_is_not_of_sector_0(*, known: bool) -> None:
    """md says sector 0 of each parity, which is no place, although somebody writes there."""
    world = array(known=known)
    below(world, SDA, 100, 3_000, 13_000, place_of(0))
    below(world, SDB, 101, 3_000, 43_000, place_of(520))
    below(world, SDC, 102, 14_000, 24_000, place_of(520), old_sector=520)
    write(world, 0, 0, 54_500)
    write(world, 1, 520, 44_500)
    found = accounts(told(world))
    assert found[100][0].get("device.data", 0) == (10_000 if known else 0)
    assert found[101][0]["device.data"] == 40_000


@pytest.mark.parametrize("known", [True, False])
def test_device_mapper_says_how_its_arrays_are_laid_out(*, known: bool) -> None:
    """Nothing says of the bios below what they are for: the second write is the first to end, but
    what is written first is the first one's. A resync's is nobody's."""
    world, disks = World(), tuple((disk, BEGIN) for disk in DISKS)
    striping = (Striping(CHUNK, DATA_DISKS, disks),) if known else ()
    world.builder.block(MD, "dm-4", lower_keys=DISKS, striping=striping)
    for disk, name in zip(DISKS, "abc", strict=True):
        world.builder.block(disk, f"sd{name}")
    for number, sector, begin, end in ((0, 520, 4_000, 14_000), (1, 2_056, 20_000, 24_500)):
        for disk in (SDB, SDC):
            below(world, disk, 100 + 2 * number + (disk == SDC), begin, end, place_of(sector),
                  handed=False)  # fmt: skip
    below(world, SDA, 110, 15_000, 16_000, place_of(40_968), handed=False)
    write(world, 0, 520, 40_000)
    write(world, 1, 2_056, 25_000)
    breakdown = told(world)
    assert breakdown.quality.ties == {"key": 2} | ({"place": 4} if known else {"time": 5})
    found = accounts(breakdown)
    times = [found[100 + number][0].get("device.data", 0) for number in range(2)]
    assert times == ([10_000, 4_500] if known else [10_000, 11_000 + 4_500])


def pairs(layout: Layout, count: int, reach: int, seed: int) -> tuple[np.ndarray, ...]:
    """Pages of an array, which disk they are on, and where."""
    some = np.random.default_rng(seed)
    above = some.integers(1, reach // 8, count) * 8
    number = above // layout.chunk
    where = [place_of(sector, chunk=layout.chunk, disks=layout.disks) for sector in above.tolist()]
    disk = number % layout.disks
    return above, disk, np.array(where) + 64 * disk


@pytest.mark.parametrize("disks", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("chunk", [8, 128, 1024])
@pytest.mark.parametrize("seed", range(3))
def test_the_layout_is_among_those_that_are_allowed_and_mostly_alone(
    disks: int, chunk: int, seed: int
) -> None:
    layout = Layout(chunk, disks, {disk: BEGIN + 64 * disk for disk in range(disks)})
    few, many = (
        allowed(10, *pairs(layout, count, chunk * disks * 100, seed)) for count in (2, 2_000)
    )
    assert any((one.chunk, one.disks) == (chunk, disks) for one in few)
    assert layout in many
    # Of one disk, any chunks are.
    assert many == [layout] or disks == 1


def test_an_array_that_is_reshaped_has_no_layout() -> None:
    before, after = (pairs(Layout(128, disks, {}), 200, 100_000, disks) for disks in (2, 3))
    above, disk, place = (np.concatenate(both) for both in zip(before, after, strict=True))
    assert allowed(10, above, disk, place) == []


def test_a_stripe_that_is_written_for_two_at_once_is_both_ones() -> None:
    """Neither's data is where the parity is, which both wait for; also who comes meanwhile."""
    world = array(known=True)
    sector = 520
    for disk, end in ((SDB, 44_500), (SDC, 44_600)):
        below(world, disk, 100 + (disk == SDC), 4_000, end, place_of(sector))
    write(world, 0, sector, 45_000)
    write(world, 4_000, sector + CHUNK, 46_000)
    found = accounts(told(world))
    assert found[100][0]["device.data"] == 40_600
    assert found[4_100][0]["device.data"] == 44_600 - 6_000
