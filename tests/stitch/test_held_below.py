# SPDX-License-Identifier: Apache-2.0
"""What a limit of a disk below a stacked device holds back, of which nobody above is told."""

from __future__ import annotations

import pytest

from iostrata.trace.layout import WAKE_INTERRUPT
from tests.stitch.test_below import (
    CRYPT,
    DATA,
    FLUSH,
    KWORKER,
    LOOP,
    SDA,
    Block,
    one_write,
    told,
)
from tests.stitch.test_serving import REST, on_loop, preempted, work
from tests.stitch.test_truth import accounts
from tests.stitch.test_wakers import UNINTERRUPTIBLE, resume
from tests.synthetic import FUA, World

DISPATCH, INODE = 77, 12
END = {"wakeup.interrupt": 500}


def hold_back(world: World, until: int, bio: int, *, above: int = 0, inode: int = 0) -> None:
    """Queued by the kernel's worker for what limits held back, and complete 10500 later."""
    world.emit("block_bio_held", until, DISPATCH, bio_key=bio, cgroup=4711, request_key=0xDEAD,
               inode=inode, dev=LOOP if inode else 0)  # fmt: skip
    Block(world, SDA).queue(until, DISPATCH, bio, kernel=1, above=above, held=1)
    Block(world, SDA).request(until + 500, until + 10_500, 0xA1, bio)


@pytest.mark.parametrize("devices", [1, 2])
def test_a_clone_is_held_back_from_when_it_was_handed_on(devices: int) -> None:
    world, upper = World(), CRYPT + devices
    world.builder.block(SDA, "sda")
    Block(world, upper).queue(2_000, 100, 0xB0)
    for number in range(devices):
        below = upper - 1 if number < devices - 1 else SDA
        world.builder.block(upper, f"dm-{number}", lower_keys=(below,))
        Block(world, below).take_from(upper, 2_100 + number * 100, 100, 0xC0 + number)
        if below != SDA:
            Block(world, below).queue(2_150, 100, 0xC0)
            Block(world, below).complete(52_400, 0xC0)
            upper = below
    hold_back(world, 42_000, 0xC0 + devices - 1)
    Block(world, CRYPT + devices).complete(52_500, 0xB0)
    one_write(world, CRYPT + devices, 53_000)
    waited = devices * 100
    assert accounts(told(world)) == {
        100: [END | {
            "syscall": 1_000, "block.stacked": waited, "throttle.io": 40_000 - waited,
            "block.Q2D": 500, "device.data": 10_000,
        }]
    }  # fmt: skip


@pytest.mark.parametrize("inode", [0, INODE])
@pytest.mark.parametrize("sleeps", [False, True])
def test_a_loop_device_s_from_when_its_worker_had_done_its_part(sleeps: bool, inode: int) -> None:
    """The pages that its direct I/O writes are those of the file above, which somebody syncs."""
    world = on_loop()
    loop = Block(world, LOOP)
    loop.queue(2_000, 100, 0xB0)
    loop.request(2_500, 52_500, 0xA0, 0xB0, tid=100)
    work(world, KWORKER, 3_000, 52_600 if sleeps else 4_000)
    if sleeps:
        resume(world, KWORKER, 4_000, 52_500, 52_500, 0, context=WAKE_INTERRUPT,
               state=UNINTERRUPTIBLE)  # fmt: skip
    else:
        # That is for others.
        preempted(world, KWORKER, 25_000, 30_000)
        work(world, KWORKER, 20_000, 35_000)
    hold_back(world, 42_000, 0xC0, above=0xA0, inode=inode)
    one_write(world, LOOP, 53_000)
    assert accounts(told(world)) == {
        100: [REST | {
            "block.stacked": 1_500, "throttle.io": 38_000, "block.Q2D": 1_000,
            "device.data": 10_000,
        }]
    }  # fmt: skip


@pytest.mark.parametrize("flags", [DATA | FUA, DATA])
def test_a_flush_waits_for_another_s_data_that_a_limit_holds_back(flags: int) -> None:
    """A disk begins none while it has data that is to be flushed; of other data it waits for
    nothing, and nothing says why it is issued so late."""
    world = on_loop()
    loop = Block(world, LOOP)
    loop.queue(2_000, 100, 0xB0, flags=flags)
    loop.request(2_500, 52_500, 0xA0, 0xB0, tid=100)
    work(world, KWORKER, 3_000, 4_000)
    hold_back(world, 42_000, 0xC0, above=0xA0)
    loop.queue(5_000, 200, 0xB1, sector=0, size=0, flags=FLUSH)
    loop.flush(53_000, 60_000, 0xA2, 0xB1, asked=0xA3)
    one_write(world, LOOP, 60_500, tid=200, off=6_000)
    one_write(world, LOOP, 53_000 if flags == DATA else 60_500)
    (found,) = accounts(told(world))[200]
    limited = (42_000 - 5_000) * (flags != DATA)
    assert found == {
        "syscall": 4_000, "block.Q2D": 48_000 - limited, "block.stacked": 7_000,
        "wakeup.interrupt": 500,
    } | ({"throttle.io": limited} if limited else {})  # fmt: skip
