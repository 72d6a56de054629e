# SPDX-License-Identifier: Apache-2.0
"""What a limit of requests a second holds back of a bio that is larger than its disk takes at once:
what is left, anew with each part, of which nothing but the worker that takes it up tells."""

from __future__ import annotations

import pytest

from iostrata.trace.layout import UNSEEN_RESTS, WAKE_INTERRUPT
from tests.stitch.test_below import CRYPT, DATA, SDA, Block, one_write, told
from tests.stitch.test_held_below import DISPATCH
from tests.stitch.test_truth import accounts
from tests.stitch.test_wakers import IDLE, UNINTERRUPTIBLE, resume
from tests.synthetic import World

WHOLE, PART, SIZE = 0xB0, 0xC0, 8192
OTHER_WORKER = 78


def rested(world: World, off: int, on: int, tid: int = DISPATCH) -> None:
    """A worker that had nothing to do until the limit's timer went off."""
    resume(world, tid, off, on - 100, on, context=WAKE_INTERRUPT, state=IDLE)


def take_up(world: World, time: int, tid: int = DISPATCH, bio: int = WHOLE) -> None:
    world.emit("block_bio_held", time, tid, bio_key=bio, cgroup=4711, rest=1)


def split(world: World, time: int, tid: int, number: int, bio: int = WHOLE) -> None:
    """A part of 8192 bytes, issued 500 later and complete after another 10000."""
    place = {"sector": 8 + 16 * number, "size": SIZE}
    world.emit("block_split", time, tid, bio_key=PART + number, parent_key=bio, dev=SDA,
               sector=place["sector"], size_bytes=SIZE, flags=DATA)  # fmt: skip
    issue(world, time + 500, tid, number, PART + number)


def issue(world: World, time: int, tid: int, number: int, bio: int = WHOLE) -> None:
    Block(world, SDA).request(
        time, time + 10_000, 0xA0 + number, bio, sector=8 + 16 * number, size=SIZE, tid=tid
    )


def write(world: World, last: int) -> dict[str, int]:
    one_write(world, SDA, last + 10_500)
    (account,) = accounts(told(world))[100]
    return account


def in_three(second: int = DISPATCH) -> World:
    """Queued at 2000 by its writer, and split in three: the first part goes on at once, the other
    ones 40 us later each, if a limit lets them."""
    world = World()
    world.builder.block(SDA, "sda")
    Block(world, SDA).queue(2_000, 100, WHOLE, size=3 * SIZE)
    split(world, 2_000, 100, 0)
    take_up(world, 42_000, second)
    split(world, 42_000, second, 1)
    take_up(world, 82_000)
    issue(world, 82_500, DISPATCH, 2)
    return world


REST = {"syscall": 1_000, "wakeup.interrupt": 500, "device.data": 30_000}
BELOW = {
    "syscall": 1_000, "wakeup.interrupt": 500, "block.stacked": 150, "device.data": 20_000,
}  # fmt: skip


@pytest.mark.parametrize("second", [DISPATCH, OTHER_WORKER])
def test_what_is_left_is_held_back_since_the_part_before(second: int) -> None:
    world = in_three(second)
    rested(world, 500, 41_900, second)
    rested(world, 43_000, 81_900)
    assert write(world, 82_500) == REST | {
        "block.Q2D": 1_500, "throttle.io": 2 * (40_000 - 10_500),
    }  # fmt: skip


def test_what_a_worker_takes_up_without_a_rest_was_not_held_back() -> None:
    """Nothing says that it is not the same run of its work."""
    world = in_three()
    assert write(world, 82_500) == REST | {"block.Q2D": 60_500}


def test_what_a_worker_had_slept_for_since_it_had_rested_is_no_limit() -> None:
    """For a request, of which the disk has none free."""
    world = in_three()
    rested(world, 500, 41_900)
    rested(world, 43_000, 60_000)
    resume(world, DISPATCH, 61_000, 81_000, 81_900, state=UNINTERRUPTIBLE)
    account = write(world, 82_500)
    assert account["throttle.io"] == 42_000 - 12_500 + 61_000 - 52_500
    assert account["block.Q2D"] == 1_500 + 82_000 - 61_000


def test_a_worker_s_sleep_before_it_rested_is_another_s() -> None:
    world = in_three()
    rested(world, 500, 41_900)
    resume(world, DISPATCH, 55_000, 60_000, 60_000, state=UNINTERRUPTIBLE)
    rested(world, 61_000, 81_900)
    assert write(world, 82_500)["throttle.io"] == 2 * (40_000 - 10_500)


def test_one_that_was_held_back_from_the_first() -> None:
    """Its worker queues it, and goes on with what is left in the same run, but for the last."""
    world = World()
    world.builder.block(SDA, "sda")
    rested(world, 500, 41_900)
    world.emit("block_bio_held", 42_000, DISPATCH, bio_key=WHOLE, cgroup=4711)
    Block(world, SDA).queue(42_000, DISPATCH, WHOLE, size=3 * SIZE, kernel=1, held=1)
    for number in range(2):
        take_up(world, 42_000 + number * 100)
        split(world, 42_000 + number * 100, DISPATCH, number)
    rested(world, 43_000, 81_900)
    take_up(world, 82_000)
    issue(world, 82_500, DISPATCH, 2)
    assert write(world, 82_500) == REST | {
        "device.data": 20_100, "block.Q2D": 1_000, "throttle.io": 39_500 + 29_400,
        "syscall": 1_500,
    }  # fmt: skip


def test_below_a_stacked_device() -> None:
    world = World()
    world.builder.block(SDA, "sda")
    world.builder.block(CRYPT, "dm-0", lower_keys=(SDA,))
    Block(world, CRYPT).queue(2_000, 100, 0xD0, size=2 * SIZE)
    Block(world, SDA).take_from(CRYPT, 2_100, 100, WHOLE, size=2 * SIZE)
    Block(world, SDA).queue(2_150, 100, WHOLE, size=2 * SIZE)
    split(world, 2_200, 100, 0)
    rested(world, 500, 41_900)
    take_up(world, 42_000)
    issue(world, 42_500, DISPATCH, 1)
    Block(world, CRYPT).complete(52_500, 0xD0, size=2 * SIZE)
    one_write(world, CRYPT, 53_000)
    assert accounts(told(world)) == {
        100: [BELOW | {"block.Q2D": 1_050, "throttle.io": 42_000 - 12_700}]
    }


@pytest.mark.parametrize("limited", [True, False])
def test_what_device_mapper_splits(limited: bool) -> None:
    """It says of what is left itself that it was split, when the part before was handed on; a
    limit of its device holds that back. A limit of the disk below holds a part of it back, which
    was handed on by its writer."""
    world = World()
    world.builder.block(SDA, "sda")
    world.builder.block(CRYPT, "dm-0", lower_keys=(SDA,))
    Block(world, CRYPT).queue(2_000, 100, 0xD0, size=2 * SIZE)
    Block(world, SDA).take_from(CRYPT, 2_100, 100, 0xE0)
    Block(world, SDA).queue(2_150, 100, 0xE0)
    world.emit("block_split", 2_200, 100, bio_key=0xD0, parent_key=0xDEAD, sector=24, dev=CRYPT,
               size_bytes=SIZE, flags=DATA)  # fmt: skip
    issue(world, 2_700, 100, 0, 0xE0)
    rested(world, 500, 41_900)
    handed = (42_000, DISPATCH) if limited else (2_300, 100)
    Block(world, SDA).take_from(CRYPT, *handed, 0xE1, old_sector=24, sector=24)
    world.emit("block_bio_held", 42_050, DISPATCH, bio_key=0xE1, cgroup=4711)
    Block(world, SDA).queue(42_050, DISPATCH, 0xE1, sector=24, kernel=1, held=1)
    issue(world, 42_500, DISPATCH, 1, 0xE1)
    Block(world, CRYPT).complete(52_500, 0xD0, size=2 * SIZE)
    one_write(world, CRYPT, 53_000)
    assert accounts(told(world)) == {
        100: [BELOW | {"block.Q2D": 1_000, "throttle.io": 42_050 - 12_700}]
    }


def test_another_of_the_same_key_has_nothing_of_it() -> None:
    """Whoever has its memory next is not split, and is complete before it is told of again."""
    world = in_three()
    rested(world, 500, 41_900)
    rested(world, 43_000, 81_900)
    rested(world, 95_000, 99_900)
    take_up(world, 100_000)
    assert write(world, 82_500)["throttle.io"] == 2 * (40_000 - 10_500)


def test_what_was_split_off_is_not_left() -> None:
    """It begins amid the pages as the last does, and its request is told of, too."""
    world = in_three()
    rested(world, 500, 41_900)
    take_up(world, 42_400, bio=PART + 1)
    rested(world, 43_000, 81_900)
    assert write(world, 82_500) == REST | {
        "block.Q2D": 1_500, "throttle.io": 2 * (40_000 - 10_500),
    }  # fmt: skip


@pytest.mark.parametrize("limited", [True, False])
def test_what_was_split_before_that_was_looked_at(*, limited: bool) -> None:
    """Where no limit holds anything back, there is nothing to say."""
    world = World()
    world.builder.block(SDA, "sda")
    world.builder.add("unseen", time_ns=1, kind=UNSEEN_RESTS, count=7, dev=0)
    if limited:
        world.emit("block_bio_held", 1_900, DISPATCH, bio_key=0xE0, cgroup=4711)
    Block(world, SDA).queue(2_000, 100, WHOLE)
    issue(world, 3_500, 100, 0, WHOLE)
    one_write(world, SDA, 14_000)
    lines = [gap.reason for gap in told(world).quality.not_observed if "io.max" in gap.layer]
    assert ["(7 parts by then)" in line for line in lines] == [True] * limited
