# SPDX-License-Identifier: Apache-2.0
"""Sleeps that a timer of the sleeper's own ended: a pause, where nothing else is known of them."""

from __future__ import annotations

import pytest

from iostrata.trace.layout import THREAD_HELPER, WAKE_INTERRUPT, WAKE_THREAD, WAKE_TIMER
from tests.stitch.test_truth import accounts, analysed, conserves
from tests.stitch.test_wakers import (
    DISK,
    FAST,
    IDLE,
    KWORKER,
    OTHER,
    REST,
    Sleeper,
    found,
    peer,
    resume,
)
from tests.synthetic import O_DSYNC, World, submit

AIO, PWRITE, FDSYNC = 0x7F00, 1, 3


@pytest.mark.parametrize("context", [WAKE_TIMER, WAKE_INTERRUPT])
def test_a_pause_needs_the_timer_as_its_witness(context: int) -> None:
    world = World()
    Sleeper(world).wakes(71_000, 0, context)
    row = "pause" if context == WAKE_TIMER else "residual"
    assert found(world) == REST | {row: 60_000}


def test_whoever_the_timer_came_upon_let_nobody_go() -> None:
    """A thread of the workload was at a call of its own on that CPU."""
    world = World()
    Sleeper(world).wakes(71_000, OTHER, WAKE_TIMER)
    peer(world, OTHER, 5_000, 94_000)
    assert found(world) == REST | {"pause": 60_000}


def test_a_completion_beside_the_timer_ended_nothing() -> None:
    """What was asked for has its time; from then on it slept until the timer."""
    world = World()
    sleeper = Sleeper(world)
    submit(world, DISK, 100, 11_000, FAST)
    sleeper.wakes(62_000 + 700, 0, WAKE_TIMER)
    assert found(world) == REST | {"block.Q2D": 1_000, "device.data": 50_000, "pause": 700}


def test_who_waits_for_who_pauses() -> None:
    """As where btrfs syncs for all who wait: the one that does lets others join first."""
    world = World()
    sleeper = Sleeper(world)
    resume(world, OTHER, 15_000, 65_000, 68_000, context=WAKE_TIMER)
    submit(world, DISK, OTHER, 70_000, FAST)
    resume(world, OTHER, 70_000, 121_200, 122_000)
    sleeper.wakes(125_000, OTHER, WAKE_THREAD)
    peer(world, OTHER, 5_000, 126_000)
    assert found(world) == REST | {
        "lock": 4_000 + 2_000 + 3_000, "pause": 50_000,
        "block.Q2D": 1_000, "device.data": 50_000, "wakeup.interrupt": 200,
        "wakeup.runqueue": 2_000 + 3_000 + 800,
    }  # fmt: skip


def test_a_kernel_worker_that_pauses_at_its_work() -> None:
    world = World()
    world.target(KWORKER, kind=THREAD_HELPER)
    sleeper = Sleeper(world)
    resume(world, KWORKER, 12_000, 52_000, 53_000, context=WAKE_TIMER)
    sleeper.wakes(60_000, KWORKER, WAKE_THREAD)
    assert found(world) == REST | {
        "pause": 40_000, "wakeup.worker": 7_000, "wakeup.runqueue": 2_000 + 1_000,
        "residual": 1_000,
    }  # fmt: skip


def test_no_request_waits_for_the_time_limit_of_who_collects_it() -> None:
    """io_getevents with a timeout: what a limit held back is complete when it is complete."""
    world = asynchronous(PWRITE)
    resume(world, 100, 5_000, 55_000, 56_000, context=WAKE_TIMER)
    assert requested(world) == {"syscall": 2_000, "residual": 98_000}


@pytest.mark.parametrize("opcode", [PWRITE, FDSYNC])
def test_a_worker_is_waited_for_from_when_it_was_asked(opcode: int) -> None:
    """To sync, a call asks it at once; to sync what was transferred, whoever completed that."""
    world = asynchronous(opcode)
    world.target(KWORKER, kind=THREAD_HELPER)
    world.emit("ext4_sync_file", 90_000, KWORKER, enter_ns=80_000, inode=12, dev=DISK,
               request_key=AIO)  # fmt: skip
    asked = {
        PWRITE: {"syscall": 2_000, "residual": 77_000},
        FDSYNC: {"wakeup.worker": 79_000},
    }
    assert requested(world) == asked[opcode] | {"fs": 10_000, "wakeup.reap": 11_000}


def test_behind_its_call_a_submitter_sleeps_for_what_it_collects() -> None:
    """io_getevents: a worker lets it go that is done with another request of its."""
    world = asynchronous(PWRITE)
    world.target(KWORKER, kind=THREAD_HELPER)
    resume(world, KWORKER, 500, 6_000, 8_000, context=WAKE_INTERRUPT, state=IDLE)
    submit(world, DISK, KWORKER, 9_000, FAST)
    resume(world, KWORKER, 11_000, 60_100, 61_000)
    resume(world, 100, 5_000, 62_000, 64_000, KWORKER, context=WAKE_THREAD)
    assert requested(world) == {"syscall": 2_000, "residual": 98_000}


def asynchronous(opcode: int) -> World:
    """Submitted from 1000 to 3000, and collected at 101000."""
    world = World()
    world.target(100)
    shared = {"iocb_key": AIO, "inode": 12, "dev": DISK}
    world.emit("aio_submit", 3_000, 100, enter_ns=1_000, open_flags=O_DSYNC, size_bytes=8192,
               opcode=opcode, **shared)  # fmt: skip
    world.emit("aio_complete", 101_000, 100, enter_ns=4_000, result=8192 * (opcode == PWRITE),
               **shared)  # fmt: skip
    return world


def requested(world: World) -> dict[str, int]:
    breakdown = analysed(world)
    conserves(breakdown)
    ((account,),) = accounts(breakdown).values()
    return account
