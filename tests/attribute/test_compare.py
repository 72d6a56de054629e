# SPDX-License-Identifier: Apache-2.0
"""Comparison: what was made slower is found, what is noise is not, and it all adds up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import mean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostrata.attribute.compare import compare
from iostrata.attribute.run import MIX_COLUMNS, Figure, Run, RunGroup, run_of
from iostrata.model import Breakdown, ComparedGroup, Comparison, Layer, NotObserved, Quality
from iostrata.report import comparison
from tests.attribute.test_tail import LAYERS, breakdown

PAIRS = 100


def noisy(
    seed: int, count: int = 300, *, device_ns: int = 50_000, level: float = 0.15, hog: float = 0
) -> Breakdown:
    """One run: heavy-tailed, alike from write to write, and with a level of its own.

    ``level``: by how much runs differ, as the deviation of a logarithm; ``hog``: what another
    process adds to ``fs``, in means of the rest, in bursts.
    """
    random = np.random.default_rng(seed)
    times = random.lognormal(0, 0.8, (3, count)) * 4_000
    swing = np.cumsum(random.normal(0, 1, count + 50))
    times[2] += np.maximum(device_ns + (swing[50:] - swing[:-50]) / 7 * 3_000, 1_000)
    times *= random.lognormal(0, level)
    bursts = np.repeat(random.random(count // 10 + 1) < 0.3, 10)[:count]
    times[1] += bursts * hog * times.sum(axis=0).mean() / 0.3 * random.lognormal(0, level)
    return breakdown(times.astype(np.int64), np.zeros(count, np.int64))


def runs(seed: int, count: int, **how: float) -> list[Run]:
    return [run_of(noisy(1000 * seed + number, **how)) for number in range(count)]  # type: ignore[arg-type]


def claims(found: Comparison) -> set[str]:
    (group,) = found.groups
    named = {"total": group.total, "p50": group.p50, "p99": group.p99}
    named |= {row.layer.name if row.layer else "": row.change for row in group.rows}
    return {name for name, change in named.items() if change.real}


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("level", [0.02, 0.15, 0.6])
def test_runs_of_the_same_do_not_differ(count: int, level: float) -> None:
    """Not one line of the whole table, in more than 5 of 100 pairs; each write's noise is shared.

    One run a side, however long, cannot tell: what it takes for a change is how runs differ.
    """
    found = [
        compare(runs(2 * pair, count, level=level), runs(2 * pair + 1, count, level=level))
        for pair in range(PAIRS)
    ]
    assert sum(bool(claims(one)) for one in found) <= 5


@pytest.mark.parametrize("seed", range(10))
def test_the_layer_that_was_made_slower(seed: int) -> None:
    """20 % more of the device's time, where runs differ by 2 %: there, and nowhere else."""
    before = runs(2 * seed, 5, level=0.02)
    after = runs(2 * seed + 1, 5, level=0.02, device_ns=60_000)
    found = compare(before, after, limit=0.1)
    assert claims(found) >= {"device.data", "total"}
    assert not claims(found) & {"syscall", "fs", ""}
    assert {one.row for one in found.regressions} >= {"total", "device.data"}
    device = found.groups[0].rows[2].change
    assert device.low_ns < 10_000 < device.high_ns
    assert not compare(before, after, limit=0.5).regressions
    faster = compare(after, before, limit=0.1)
    assert faster.groups[0].total.verdict == "faster"
    assert not faster.regressions


@pytest.mark.parametrize("seed", range(10))
def test_a_hog_that_tripled_the_total(seed: int) -> None:
    """Once it was noise, and a device some percent slower the regression."""
    found = compare(runs(2 * seed, 5), runs(2 * seed + 1, 5, hog=2), limit=0.1)
    assert found.groups[0].total.change_ns > found.groups[0].total.a_ns
    assert claims(found) >= {"total", "fs"}
    assert not claims(found) & {"syscall", "device.data", ""}
    few = compare(runs(2 * seed, 2), runs(2 * seed + 1, 2, hog=2))
    assert few.groups[0].total.verdict in ("slower", "unclear")


@given(
    st.lists(st.floats(1e3, 1e9), min_size=2, max_size=6),
    st.lists(st.floats(1e3, 1e9), min_size=2, max_size=6),
)
def test_noise_is_always_small(a: list[float], b: list[float]) -> None:
    """Nothing that may matter is ever called noise."""
    change = compare(list(map(steady, a)), list(map(steady, b))).groups[0].total
    assert change.low_ns <= change.change_ns <= change.high_ns
    if change.verdict == "noise":
        assert max(abs(change.low_ns), abs(change.high_ns)) <= 0.1 * change.a_ns


def steady(latency_ns: float, created: str = "") -> Run:
    """A run by hand, its time all in the first layer."""
    total, nothing = Figure(latency_ns, None), Figure(0.0, None)
    key = (LAYERS[0].machine, LAYERS[0].name)
    group = RunGroup(100, total, total, total, {key: total}, nothing)
    return Run(LAYERS[:1], {"all": group}, {name: {} for name in MIX_COLUMNS}, Quality(), created)


def test_an_interval_that_ends_nowhere_says_so() -> None:
    """Of two runs that differ a thousandfold, as a percentile may that one write decides."""
    named = comparison.Names(["a"], ["b"])
    found = compare([steady(1e6), steady(1e6)], [steady(1e6), steady(1e9)])
    assert found.groups[0].total.high_ns > 1e15
    line = next(
        line for line in comparison.plain(found, named).splitlines() if line.startswith("total")
    )
    assert "+499500   -1000     any" in line


def test_one_run_a_side_is_never_judged() -> None:
    """A tenfold total may be the minute that it was recorded in."""
    one, ten = [run_of(noisy(1, 3000))], [run_of(noisy(2, 3000, device_ns=600_000))]
    for a, b in ((one, ten), (one, ten * 4), (one * 4, ten)):
        found = compare(a, b, limit=0.1)
        assert not found.judged
        assert not claims(found)
        assert not found.regressions
        (group,) = found.groups
        assert group.known
        assert {group.total.verdict, *(row.change.verdict for row in group.rows)} == {""}
        assert 0 < group.total.low_ns < group.total.change_ns < group.total.high_ns


@pytest.mark.parametrize("seed", range(5))
def test_one_run_that_was_disturbed_is_no_change(seed: int) -> None:
    """It moves the mean of its side by far, and nothing else: the other runs are as they were."""
    random = np.random.default_rng(seed)
    usual = [steady(13e6 * random.lognormal(0, 0.05)) for _ in range(12)]
    a, b = [*usual[:5], steady(900e6)], usual[6:]
    for found in (compare(a, b, limit=0.1), compare(b, a, limit=0.1)):
        (group,) = found.groups
        assert group.total.verdict == "unclear"
        assert group.total.low_ns <= group.total.change_ns <= group.total.high_ns
        assert not found.regressions


def test_what_would_be_found() -> None:
    """A rise as large as is called detectable is found in four of five comparisons or so."""
    random = np.random.default_rng(7)

    def side(mean_ns: float) -> list[Run]:
        return [steady(mean_ns * random.lognormal(0, 0.1)) for _ in range(5)]

    promised = mean([compare(side(1e5), side(1e5)).groups[0].total.detectable
                        for _ in range(100)])  # fmt: skip
    found = [compare(side(1e5), side(1e5 * (1 + promised))).groups[0].total.real
             for _ in range(200)]  # fmt: skip
    assert 0.65 < mean(found) < 0.95


def test_how_many_runs_it_would_take() -> None:
    values = [100e3, 104e3, 97e3]
    needed = compare(list(map(steady, values)), list(map(steady, values))).groups[0].needed_runs
    assert needed is not None
    assert 3 < needed < 12
    enough = (values * needed)[:needed]
    found = compare(list(map(steady, enough)), list(map(steady, enough))).groups[0]
    assert found.total.detectable == pytest.approx(0.1, rel=0.35)
    wild = [steady(value) for value in (100e3, 900e3, 20e3)]
    assert compare(wild, wild).groups[0].needed_runs is None


def test_runs_that_agree_to_the_nanosecond() -> None:
    found = compare([steady(1e5)] * 3, [steady(1e5)] * 3)
    assert found.groups[0].total.verdict == "same"
    assert compare([steady(1e5)] * 3, [steady(1e5 + 1)] * 3).groups[0].total.verdict == "slower"
    assert found.groups[0].rows[-1].change.verdict == "same"


@given(
    *[
        st.lists(
            st.lists(st.tuples(*[st.integers(0, 10**9)] * 3), min_size=1, max_size=40),
            min_size=1, max_size=3,
        )
    ] * 2
)  # fmt: skip
def test_changes_add_up(a: list[list[tuple[int, ...]]], b: list[list[tuple[int, ...]]]) -> None:
    of_a, of_b = ([run_of(of_rows(rows)) for rows in side] for side in (a, b))
    (group,) = compare(of_a, of_b).groups
    total = sum(row.change.change_ns for row in group.rows)
    assert total == pytest.approx(group.total.change_ns, abs=1e-3)
    for change in (group.total, *(row.change for row in group.rows)):
        assert change.low_ns <= change.change_ns <= change.high_ns
    few = min(len(rows) for rows in (*a, *b)) < 20
    assert group.known == (min(len(a), len(b)) >= 2 or not few)


def of_rows(rows: Sequence[tuple[int, ...]]) -> Breakdown:
    times = np.array(rows, np.int64).T
    return breakdown(times, np.zeros(len(rows), np.int64))


def test_what_not_all_observed_is_not_judged() -> None:
    gap = NotObserved("fs", "no program", "syscall or lock")
    blind = [replace(run, quality=Quality(not_observed=(gap,))) for run in runs(1, 5, level=0.02)]
    found = compare(blind, runs(2, 5, level=0.02, hog=2), limit=0.1)
    assert [row.unlike for row in found.groups[0].rows] == [True, True, False, False]
    assert {one.row for one in found.regressions} == {"total", "p99"}


@pytest.mark.parametrize("machines", [("guest",), ("guest", "host")])
def test_what_not_all_observed_of_several_machines(machines: tuple[str, ...]) -> None:
    """Only some runs had --detail on one of them, or on both."""
    rows = [("guest", "block.Q2D"), ("host", "block.Q2D"), ("host", "fs")]
    layers = tuple(Layer(f"{machine}/{name}", "OS", machine, "") for machine, name in rows)
    gap = NotObserved("block.Q2G to I2D", "only with --detail", "block.Q2D", ("guest", "host"))
    left = replace(gap, machines=tuple(name for name in ("host",) if name not in machines))
    told = [
        run_of(replace(noisy(number, hog=2 * (number >= 3)), layers=layers, quality=quality))
        for number, quality in enumerate(
            [Quality(not_observed=(gap,))] * 3
            + [Quality(not_observed=(left,) * bool(left.machines))] * 3
        )
    ]
    found = compare(told[:3], told[3:], limit=0.1)
    unlike = {row.layer.machine for row in found.groups[0].rows if row.layer and row.unlike}
    assert unlike == set(machines)
    assert not unlike & {one.row.partition("/")[0] for one in found.regressions}
    assert not [row for row in found.groups[0].rows if row.unlike and row.layer is layers[2]]


def grouped(*names: str) -> Run:
    run = steady(1e5)
    return replace(run, groups=dict.fromkeys(names, run.groups["all"]))


def test_groups_that_not_all_runs_have() -> None:
    found = compare(
        [grouped("fsync", "write"), grouped("fsync", "msync")],
        [grouped("fsync", "write"), grouped("fsync", "write", "new")],
    )
    assert [group.name for group in found.groups] == ["fsync"]
    assert (found.only_a, found.only_b, found.not_in_all) == (("msync",), ("new",), ("write",))


def test_which_came_first() -> None:
    def made(*minutes: int) -> list[Run]:
        return [steady(1e5, f"2026-11-21T10:{minute:02}:00+00:00") for minute in minutes]

    assert compare(made(1, 2, 3), made(4, 5, 6)).one_after_the_other
    assert compare(made(5, 6), made(2, 1)).one_after_the_other
    assert not compare(made(1, 3, 5), made(2, 4, 6)).one_after_the_other
    assert not compare(made(1), made(2)).one_after_the_other
    assert not compare([steady(1e5)] * 2, made(2, 3)).one_after_the_other


def group_of(found: Comparison) -> ComparedGroup:
    (group,) = found.groups
    return group


def test_a_run_counts_once_however_many_writes_it_has() -> None:
    short, long = (run_of(noisy(seed, count)) for seed, count in ((1, 40), (2, 4000)))
    means = [run.groups["all"].total.value_ns for run in (short, long)]
    found = group_of(compare([short, long], [short, long]))
    assert found.total.a_ns == sum(means) / 2
    assert found.count_a == 4040
