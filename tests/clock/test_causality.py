# SPDX-License-Identifier: Apache-2.0
"""Causality alone against the truth: within its bound, and the bound as narrow as the slack."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iostrata.clock.causality import Causality, bound_by_causality, most_by_chance
from iostrata.clock.intervals import Intervals
from iostrata.clock.line import Line

from .worlds import HOUR_NS, Clock, Load, World

ROUNDING_NS = 5
LIMIT_NS = 2_000_000_000
"""Four times what 100 000 pairs take."""


def check(world: World, load: Load) -> Causality:
    found = bound_by_causality(world.asks, world.serves)
    assert found
    assert world.error_ns(found.corridor.middle) <= found.corridor.bound_ns + ROUNDING_NS
    least = load.steady * (load.there_ns + load.back_ns)
    assert found.corridor.bound_ns <= 0.75 * least
    return found


LOADS = {
    "random offsets of a file of 16 MB by 4 jobs": Load(),
    "keys that never repeat": Load(keys=1 << 40),
    "one block again and again": Load(keys=1, jobs=1),
    "one block again and again, like clockwork": Load(keys=1, jobs=1, steady=0.95, count=10_000),
    "four blocks by 4 jobs": Load(keys=4),
    "one write a second": Load(jobs=1, think_ns=1e9, count=600),
    "one write in ten seconds": Load(jobs=1, think_ns=1e10, count=300),
    "a fast device": Load(there_ns=5e3, serve_ns=10e3, back_ns=5e3, think_ns=3e3, count=8000),
    "a slow way back": Load(there_ns=5e3, back_ns=900e3),
    "the upper clock behind by a day": Load(upper=Clock(0), lower=Clock(24 * HOUR_NS, 50.0)),
    "clocks that drift much": Load(upper=Clock(HOUR_NS, 80.0), lower=Clock(HOUR_NS, -80.0)),
    "clocks of which one is slewed as fast as NTP may": Load(lower=Clock(HOUR_NS, 490.0)),
    "so, one write a second": Load(jobs=1, think_ns=1e9, count=600, lower=Clock(0, -490.0)),
    "so, one block again and again": Load(keys=1, jobs=1, lower=Clock(0, 490.0)),
    "so, keys that never repeat": Load(keys=1 << 40, think_ns=20e6, lower=Clock(0, -490.0)),
    "a fifth of the rows lost": Load(lost=0.2),
    "twelve blocks by 3 jobs, a tenth lost": Load(keys=12, jobs=3, lost=0.1, serve_ns=1e4),
    "wrong keys": Load(mistaken=0.02),
}


@pytest.mark.parametrize("load", LOADS.values(), ids=LOADS.keys())
def test_truth_is_within_the_bound(load: Load) -> None:
    for seed in range(2):
        world = load.run(seed)
        found = check(world, load)
        assert found.contradiction is None
        assert found.ambiguity is None
        assert found.pairs > 0.4 * len(world.asks)


@pytest.mark.parametrize(
    ("load", "seed"),
    [
        (Load(count=1107, there_ns=3000, back_ns=169_925, lower=Clock(0)), 2385),
        (Load(count=587, there_ns=3000, back_ns=111_649, lower=Clock(0)), 582736417),
    ],
)
def test_more_may_stand_in_for_others_than_on_average(load: Load, seed: int) -> None:
    """Two tight pairs of calls of which neither whole one was recorded, where one was expected."""
    load = replace(load, jobs=3, keys=64, lost=0.05)
    check(load.run(seed), load)


@pytest.mark.parametrize("mean", [0.0, 1e-6, 0.1, 1.5, 30.0, 99.0, 101.0, 1e4])
def test_more_than_the_most_come_once_in_ten_thousand_times(mean: float) -> None:
    drawn = np.random.default_rng(1).poisson(mean, 200_000)
    most = most_by_chance(mean)
    assert np.mean(drawn > most) <= 2e-4
    assert most <= mean + 5 * mean**0.5 + 3


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32), count=st.integers(100, 3000), jobs=st.integers(1, 4),
    keys=st.sampled_from((64, 2048, 1 << 40)), lost=st.sampled_from((0.0, 0.05)),
    there_ns=st.integers(3_000, 1_000_000), back_ns=st.integers(3_000, 1_000_000),
    drift_ppm=st.integers(-400, 400), start_ns=st.integers(0, 1000 * HOUR_NS),
)  # fmt: skip
def test_truth_is_within_the_bound_of_any_world(
    seed: int, count: int, jobs: int, keys: int, lost: float,
    there_ns: int, back_ns: int, drift_ppm: int, start_ns: int,
) -> None:  # fmt: skip
    load = Load(
        count=count, jobs=jobs, keys=keys, lost=lost, there_ns=there_ns, back_ns=back_ns,
        lower=Clock(start_ns, drift_ppm),
    )  # fmt: skip
    check(load.run(seed), load)


def test_a_hundred_thousand_pairs_take_half_a_second() -> None:
    load = Load(count=100_000)
    world = load.run(1)
    begin = time.process_time_ns()
    check(world, load)
    assert time.process_time_ns() - begin <= LIMIT_NS


def test_one_pair_says_what_it_can() -> None:
    world = Load(count=1, jobs=1, lost=0).run(1)
    found = bound_by_causality(world.asks, world.serves)
    assert found
    assert found.pairs == 1
    assert world.error_ns(found.corridor.middle) <= found.corridor.bound_ns + ROUNDING_NS
    slack = np.diff(world.asks.end_ns - world.asks.begin_ns - world.serves.end_ns, prepend=0)
    assert found.corridor.bound_ns < abs(int(slack[0]) + int(world.serves.begin_ns[0]))


def test_recordings_that_share_a_part_only() -> None:
    load = Load(count=20_000)
    world = load.run(3)
    early = replace(world, serves=world.serves.take(world.serves.begin_ns < world.lower_ns[2000]))
    found = bound_by_causality(early.asks, early.serves)
    assert found
    shared = replace(world, upper_ns=world.upper_ns[:2000], lower_ns=world.lower_ns[:2000])
    assert shared.error_ns(found.corridor.middle) <= found.corridor.bound_ns + ROUNDING_NS
    assert found.contradiction is None


def test_nothing_in_common() -> None:
    world = Load(count=100).run(1)
    others = replace(world.serves, key=world.serves.key + 1_000_000)
    assert bound_by_causality(world.asks, others) is None
    nothing = Intervals(*(np.zeros(0, np.int64),) * 3)
    assert bound_by_causality(nothing, world.serves) is None
    assert bound_by_causality(world.asks, nothing) is None


def test_what_cannot_be_told_apart_is_told() -> None:
    """Many jobs that write one block: hardly any request's serve is certain."""
    load = Load(keys=1, jobs=3, lost=0, steady=0.2, there_ns=57e3, back_ns=3e3, think_ns=1e3)
    world = replace(load, count=600, serve_ns=1e5).run(6)
    found = bound_by_causality(world.asks, world.serves)
    assert found
    assert found.ambiguity
    assert "can be told from others of their key" in found.ambiguity


def test_machines_that_never_met_are_told() -> None:
    found = bound_by_causality(Load().run(1).asks, Load().run(2).serves)
    assert found
    assert found.contradiction


def test_a_clock_that_jumps_is_told() -> None:
    world = Load(keys=1 << 40).run(1)
    late = world.serves.begin_ns > np.median(world.serves.begin_ns)
    jump = np.where(late, 3_000_000, 0)
    jumped = Intervals(world.serves.key, world.serves.begin_ns + jump, world.serves.end_ns + jump)
    found = bound_by_causality(world.asks, jumped)
    assert found
    assert found.contradiction
    assert "3.0" in found.contradiction or "2.9" in found.contradiction


def test_a_clock_that_runs_too_fast_is_told() -> None:
    """Steady, but further from the other's pace than what is taken to be possible."""
    world = Load(keys=1 << 40, think_ns=20e6, lower=Clock(0, 900.0)).run(1)
    found = bound_by_causality(world.asks, world.serves)
    assert found
    assert found.contradiction
    assert found.contradiction.endswith("with any steady clock within 500 ppm")


@pytest.mark.parametrize("seed", range(4))
def test_a_steady_clock_is_known_as_well_as_it_was(seed: int) -> None:
    world = Load(keys=1 << 40, think_ns=20e6, count=4000).run(seed)
    found = bound_by_causality(world.asks, world.serves)
    assert found
    assert len(found.parts) > 4
    assert found.bound_ns(found.corridor.middle) <= 1.3 * found.corridor.bound_ns


def test_a_hint_is_used_where_votes_cannot_decide() -> None:
    """Writes that follow each other exactly: any shift by a whole write fits."""
    load = Load(keys=1, jobs=1, steady=1.0, lost=0, count=400)
    world = load.run(1)
    middle = world.asks.take(slice(100, 300))
    alone = bound_by_causality(middle, world.serves)
    assert alone
    assert alone.ambiguity == "a clock that is 690 us off fits as well"
    truth = Line.through(world.lower_ns[[0, -1]], world.upper_ns[[0, -1]])
    found = bound_by_causality(middle, world.serves, [truth])
    assert found
    assert world.error_ns(found.corridor.middle) <= found.corridor.bound_ns + ROUNDING_NS


def test_a_hint_is_not_lost_to_the_few_that_are_looked_at_first() -> None:
    """The middle of what those allow leads away: so of a target that had no CPU at times, with
    commands of 160 keys, twice each, of a real recording."""
    told = np.loadtxt(Path(__file__).with_name("delayed.csv"), np.int64, delimiter=",", skiprows=1)
    asks, serves = Intervals(*told.T[:3]), Intervals(*told.T[3:])
    found = bound_by_causality(asks, serves, [Line(0, 576_617_000)])
    assert found
    assert found.served == len(asks) == 320
