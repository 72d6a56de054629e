# SPDX-License-Identifier: Apache-2.0
"""Sleeps that a timer of the sleeper's own ended: a pause, where nothing else is known of them."""

from __future__ import annotations

import pytest

from iostrata.trace.layout import THREAD_HELPER, WAKE_INTERRUPT, WAKE_THREAD, WAKE_TIMER
from tests.stitch.test_wakers import DISK, FAST, KWORKER, OTHER, REST, Sleeper, found, peer, resume
from tests.synthetic import World, submit


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
