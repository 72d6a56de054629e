# SPDX-License-Identifier: Apache-2.0
"""Which source is taken, what causality makes of it, and what is told when they disagree."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from iostrata.clock import Alignment, Intervals, align
from iostrata.clock.exchange import offers_of_exchange
from iostrata.clock.line import Line
from iostrata.model import Ints
from iostrata.trace.read import Trace

from .machines import BOOTED_CYCLES, exchanged, sampled
from .worlds import HOUR_NS, Clock, Load, World

NONE = Intervals(*(np.zeros(0, np.int64),) * 3)
UPPER = Clock(5 * HOUR_NS, 10.0)
LOWER = Clock(30 * HOUR_NS, -30.0)
OFFSET = -BOOTED_CYCLES + 777
WIRE = Load(upper=UPPER, lower=LOWER)
SAMPLED = np.arange(-1e9, 3e9, 0.25e9)
MS_CYCLES = 2_400_000
CAUSAL = "causality"


@pytest.fixture
def world() -> World:
    return WIRE.run(5)


def guest(directory: Path, offset: int = OFFSET) -> Trace:
    return sampled(directory / "guest", UPPER, SAMPLED, offset=offset)


def host(directory: Path, *offsets: int) -> Trace:
    lines = (f"{100 + pid} 0 {offset} 4294967296\n" for pid, offset in enumerate(offsets))
    return sampled(directory / "host", LOWER, SAMPLED, facts={"tsc": "".join(lines)})


def check(world: World, found: Alignment | None, source: str) -> Alignment:
    assert found
    assert found.source == source
    assert world.error_ns(found.line) <= found.bound_ns
    return found


def test_causality_where_there_is_nothing_else(tmp_path: Path, world: World) -> None:
    upper, lower = guest(tmp_path), host(tmp_path)
    found = check(world, align(upper, lower, world.asks, world.serves), CAUSAL)
    assert found.contradiction is None
    assert found.causal_low_ns
    assert found.causal_high_ns
    assert found.bound_ns == max(-found.causal_low_ns, found.causal_high_ns)
    assert found.drift_ppm == 0
    assert np.abs(found.to_lower(found.to_upper(world.lower_ns)) - world.lower_ns).max() <= 1


@pytest.mark.parametrize("seed", [0, 5, 7, 10, 18, 19, 23, 24])
def test_what_others_served_by_the_same_key_is_no_contradiction(seed: int, tmp_path: Path) -> None:
    """Five copies of a guest write one place: chance serves its requests at other times, too."""
    load = Load(
        20, 1, 1, 1e6, back_ns=2e5, think_ns=80e3, steady=0, lost=0, upper=UPPER, lower=LOWER
    )
    one, *others = (load.run(100 * seed + number) for number in range(5))
    columns = zip(*((w.serves.key, w.serves.begin_ns, w.serves.end_ns) for w in (one, *others)),
                  strict=True)  # fmt: skip
    serves = Intervals(*map(np.concatenate, columns))
    upper, lower = exchanged(tmp_path / "a", UPPER, 1), exchanged(tmp_path / "b", LOWER, 2)
    found = check(one, align(upper, lower, one.asks, serves), "exchange")
    assert found.contradiction is None


def test_what_nobody_else_served_is_known_better_than_the_exchange_says(tmp_path: Path) -> None:
    """One block, and the next write's serve is within the exchange's bound as well."""
    world = Load(
        200, 1, 1, 10e3, 20e3, 10e3, 5e3, steady=0, lost=0, upper=UPPER, lower=LOWER
    ).run(3)  # fmt: skip
    upper, lower = exchanged(tmp_path / "a", UPPER, 1), exchanged(tmp_path / "b", LOWER, 2)
    found = check(world, align(upper, lower, world.asks, world.serves), "exchange")
    assert found.bound_ns < 2_000


def slewed(world: World, ppm: float) -> World:
    """The lower clock's pace changes in the middle, by so much each way."""

    def bent(times: Ints) -> Ints:
        half = (world.lower_ns.max() - world.lower_ns.min()) // 2
        away = np.abs(times - world.lower_ns.min() - half)
        late: Ints = times - np.rint(away * ppm / 1e6).astype(np.int64)
        return late

    serves = world.serves
    serves = Intervals(serves.key, bent(serves.begin_ns), bent(serves.end_ns))
    return replace(world, serves=serves, lower_ns=bent(world.lower_ns))


@pytest.mark.parametrize("ppm", [-12, -8, 5, 8, 10, 12])
def test_a_clock_that_is_slewed_is_within_the_bound(ppm: float, tmp_path: Path) -> None:
    """The more a clock bends, the fewer straight lines fit: that is no better knowledge."""
    world = slewed(Load(keys=1 << 40, think_ns=20e6, count=4000).run(3), ppm)
    check(world, align(guest(tmp_path), host(tmp_path), world.asks, world.serves), CAUSAL)


def test_a_drift_that_causality_proves(tmp_path: Path) -> None:
    world = replace(WIRE, count=20_000).run(1)
    found = check(world, align(guest(tmp_path), host(tmp_path), world.asks, world.serves), CAUSAL)
    assert found.drift_ppm == pytest.approx(40, abs=1)


def test_the_counter_is_better(tmp_path: Path, world: World) -> None:
    upper, lower = guest(tmp_path), host(tmp_path, OFFSET)
    found = check(world, align(upper, lower, world.asks, world.serves), "tsc")
    assert found.contradiction is None
    assert found.bound_ns < 500
    assert found.causal_low_ns
    assert found.causal_high_ns
    assert found.causal_low_ns < -30_000
    assert found.causal_high_ns > 30_000


def test_of_several_guests_causality_knows_which(tmp_path: Path, world: World) -> None:
    lower = host(tmp_path, OFFSET - 40 * MS_CYCLES, OFFSET, OFFSET + MS_CYCLES)
    found = check(world, align(guest(tmp_path), lower, world.asks, world.serves), "tsc")
    assert found.contradiction is None


def test_a_counter_that_breaks_causality(tmp_path: Path, world: World) -> None:
    lower = host(tmp_path, OFFSET + MS_CYCLES)
    found = check(world, align(guest(tmp_path), lower, world.asks, world.serves), CAUSAL)
    assert found.contradiction
    assert "tsc" in found.contradiction
    assert "us more than they may" in found.contradiction


def test_a_guest_of_the_server_is_not_the_client(tmp_path: Path, world: World) -> None:
    """A server with virtual machines of its own: nothing is wrong about their counters."""
    lower = host(tmp_path, OFFSET - 20_000 * MS_CYCLES)
    found = check(world, align(guest(tmp_path), lower, world.asks, world.serves), CAUSAL)
    assert found.contradiction is None


def test_a_line_on_the_edge_is_moved_into_what_causality_allows(tmp_path: Path) -> None:
    load = Load(upper=UPPER, lower=LOWER, there_ns=100, back_ns=100, serve_ns=30_000)
    world = load.run(2)
    # 80 ns too much, of the 200 that a sample takes.
    lower = host(tmp_path, OFFSET + 192)
    found = check(world, align(guest(tmp_path), lower, world.asks, world.serves), "tsc")
    slack = found.to_upper(world.lower_ns) - world.upper_ns
    assert np.abs(slack).max() <= 100
    assert found.bound_ns <= 200


def test_nothing_checks_a_source_without_pairs(tmp_path: Path, world: World) -> None:
    upper = guest(tmp_path)
    found = check(world, align(upper, host(tmp_path, OFFSET), NONE, NONE), "tsc")
    assert found.causal_low_ns is None
    assert align(upper, host(tmp_path, OFFSET, OFFSET + MS_CYCLES), NONE, NONE) is None


def test_nothing_ties_them(tmp_path: Path, world: World) -> None:
    strangers = Intervals(world.serves.key + 10**6, world.serves.begin_ns, world.serves.end_ns)
    assert align(guest(tmp_path), host(tmp_path), world.asks, strangers) is None


def test_exchanges_with_one_coordinator(tmp_path: Path, world: World) -> None:
    upper, lower = exchanged(tmp_path / "u", UPPER, 1), exchanged(tmp_path / "l", LOWER, 2)
    (offer,) = offers_of_exchange(upper, lower)
    assert offer.bound_ns < 200_000
    true_ns = np.linspace(1e9, 29e9, 100)
    assert np.abs(offer.line(LOWER(true_ns)) - UPPER(true_ns)).max() <= offer.bound_ns
    found = check(world, align(upper, lower, world.asks, world.serves), "exchange")
    assert found.contradiction is None
    alone = align(upper, lower, NONE, NONE)
    assert alone
    assert alone.line == offer.line
    assert not offers_of_exchange(upper, guest(tmp_path))


def test_one_exchange_says_nothing_of_the_drift(tmp_path: Path) -> None:
    upper, lower = exchanged(tmp_path / "u", UPPER, 1), exchanged(tmp_path / "l", LOWER, 2, count=1)
    (offer,) = offers_of_exchange(upper, lower)
    true_ns = np.array((0, 30e9))
    assert np.abs(offer.line(LOWER(true_ns)) - UPPER(true_ns)).max() <= offer.bound_ns
    assert offer.bound_ns > 15e9 * 200 / 1e6


def test_recordings_of_different_runs(tmp_path: Path, world: World) -> None:
    other = WIRE.run(6)
    found = align(guest(tmp_path), host(tmp_path), world.asks, other.serves)
    assert found
    assert found.contradiction


def test_order_is_kept() -> None:
    alignment = Alignment(Line(0, 5, -(1 << 30)), 0, "tsc")
    assert (np.diff(alignment.to_upper(np.arange(100_000))) >= 0).all()
