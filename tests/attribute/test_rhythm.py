# SPDX-License-Identifier: Apache-2.0
"""Onsets and periods: those that were made are found, and in hundreds of others none."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from iostrata.attribute import rhythm as of_rhythm
from iostrata.attribute.rhythm import MOST_EPISODES, _met, _period_of, rhythm
from iostrata.attribute.selection import select
from iostrata.attribute.summarise import summarise
from iostrata.model import Breakdown, Onset, Period
from iostrata.report import verdict
from tests.attribute.test_tail import breakdown

SECOND = 10**9
RECORDINGS = 400
Times = NDArray[np.float64]


def made(
    begin_ns: NDArray[np.int64], device: Times, fs: Times | float = 0.0, kind: int = 1
) -> Breakdown:
    count = len(begin_ns)
    parts = np.zeros((3, count))
    parts[0], parts[1], parts[2] = 5_000, 4_000 + fs, device
    whole = breakdown(parts.astype(np.int64), np.zeros(count, np.int64))
    codes = {**whole.writes.codes, "method": (np.arange(count) * kind // count).astype(np.int32)}
    names = {**whole.writes.names, "method": tuple(map(str, range(kind)))}
    return replace(whole, writes=replace(whole.writes, begin_ns=begin_ns, codes=codes, names=names))


def onset(whole: Breakdown) -> Onset | None:
    return rhythm(whole)[0]


def period(whole: Breakdown) -> Period | None:
    return rhythm(whole)[1]


def random_recording(random: np.random.Generator) -> Breakdown:
    """Heavy tails, stalls that come by chance, writes that are alike as the last, in bursts."""
    count = int(random.integers(400, 4000))
    gaps = random.exponential(1, count) * random.choice([0.2e6, 1e6, 5e6])
    if random.random() < 0.3:
        gaps = np.full(count, 2e6)
    device = 50_000 * random.lognormal(0, random.choice([0.1, 0.4, 0.8]), count)
    if random.random() < 0.5:
        swing = np.cumsum(random.normal(0, 1, count + 50))
        device *= np.exp((swing[50:] - swing[:-50]) / 7 * 0.2)
    if random.random() < 0.5:
        device *= np.where(random.random(count) < random.choice([0.005, 0.02]), 12, 1)
    return made(np.cumsum(gaps).astype(np.int64), device)


def test_chance_has_neither_onset_nor_period() -> None:
    """Fewer than 1 % of what is random is called anything."""
    random = np.random.default_rng(1)
    found = [random_recording(random) for _ in range(RECORDINGS)]
    assert sum(onset(one) is not None for one in found) < 0.01 * RECORDINGS
    assert sum(period(one) is not None for one in found) < 0.01 * RECORDINGS


@pytest.mark.parametrize("times", [3.0, 0.4])
@pytest.mark.parametrize("part", [0.3, 0.6, 0.8])
def test_an_onset(part: float, times: float) -> None:
    random = np.random.default_rng(2)
    begin = np.cumsum(random.exponential(5e6, 4000)).astype(np.int64)
    at = int(part * 4000)
    device = 60_000 * random.lognormal(0, 0.3, 4000)
    device[at:] *= times
    found = onset(made(begin, device))
    assert found is not None
    assert abs(found.at_ns - (begin[at] - begin[0])) < 0.1 * SECOND
    true = (60_000 * times + 9_000) / 69_000
    assert found.times == pytest.approx(true, rel=0.1)
    assert found.row == "device.data"
    assert found.share == pytest.approx(1, abs=0.05)
    assert period(made(begin, device)) is None


def test_another_method_is_no_onset() -> None:
    """What is slower because it is something else did not become slower."""
    random = np.random.default_rng(3)
    begin = np.cumsum(random.exponential(5e6, 4000)).astype(np.int64)
    device = 60_000 * random.lognormal(0, 0.3, 4000)
    device[2000:] *= 4
    assert onset(made(begin, device)) is not None
    assert onset(made(begin, device, kind=2)) is None


@pytest.mark.parametrize("every_s", [0.5, 2.0, 5.0])
@pytest.mark.parametrize("lost", [0.0, 0.15])
def test_a_period(every_s: float, lost: float) -> None:
    """A stall each few seconds, seen by all writes of 20 ms; some fall into a pause."""
    random = np.random.default_rng(4)
    begin = np.cumsum(random.exponential(4e6, 15_000)).astype(np.int64)
    beat = np.floor((begin / SECOND + 0.3) / every_s)
    stalled = (begin / SECOND + 0.3) % every_s < 0.02
    stalled &= random.random(int(beat.max()) + 1)[beat.astype(int)] >= lost
    fs = np.where(stalled, 700_000 * random.lognormal(0, 0.2, 15_000), 0)
    found = period(made(begin, 60_000 * random.lognormal(0, 0.3, 15_000), fs))
    assert found is not None
    assert found.period_ns == pytest.approx(every_s * SECOND, rel=0.01)
    assert found.row == "fs"
    assert found.share > 0.9
    assert 8 < found.times < 14


def test_stalls_that_come_by_chance_have_no_period() -> None:
    random = np.random.default_rng(5)
    wrong = 0
    for _ in range(200):
        begin = np.cumsum(random.exponential(4e6, 3000)).astype(np.int64)
        stalls = np.sort(random.uniform(0, begin[-1], int(random.integers(6, 40))))
        near = np.searchsorted(stalls, begin) - 1
        stalled = (near >= 0) & (begin - stalls[near] < 0.02 * SECOND)
        device = 60_000 * random.lognormal(0, 0.3, 3000) * np.where(stalled, 10, 1)
        wrong += period(made(begin, device)) is not None
    assert wrong < 0.01 * 200 + 1


@pytest.mark.parametrize("every_s", [0.01, 1.0, 37.0])
@pytest.mark.parametrize("spread", [0.0, 0.02, 0.06])
def test_of_many_episodes_the_period_is_found_without_trying_all(
    every_s: float, spread: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(int(every_s * 100 + spread * 1000))
    times = np.arange(1700.0)[random.random(1700) > 0.2]
    times = np.sort(times + random.normal(0, spread, len(times))) * every_s * SECOND
    quick = _period_of(times)
    assert quick == pytest.approx(every_s * SECOND, rel=1e-3)
    monkeypatch.setattr(of_rhythm, "TRIED_AT_ONCE", len(times))
    assert quick == pytest.approx(_period_of(times), rel=1e-5)


def test_many_episodes_by_chance_cost_little_and_have_no_period() -> None:
    times = np.cumsum(np.random.default_rng(4).exponential(SECOND, MOST_EPISODES))
    tracemalloc.start()
    assert _period_of(times) is None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 << 20


@pytest.mark.parametrize("count", [1, 2, 15, 16, 17, 400])
def test_times_meet_as_closely_as_each_frequency_tells(count: int) -> None:
    passed = np.sort(np.random.default_rng(count).uniform(0, 1e11, 50))
    low, step = 3e-9, 1e-12
    turns = [2j * np.pi * (low + step * number) * passed for number in range(count)]
    expected = [abs(np.exp(each).sum()) for each in turns]
    assert _met(passed, low, step, count) == pytest.approx(expected, abs=1e-6)


def test_it_is_said() -> None:
    random = np.random.default_rng(6)
    begin = np.cumsum(np.full(4000, 5_000_000))
    device = 60_000 * random.lognormal(0, 0.2, 4000)
    device[2460:] *= 3
    said = verdict.sentences(summarise(made(begin, device)))
    assert "From 12.3 s on writes take 2.7 x as long: all of the difference is device.data." in said
    fs = np.where(np.arange(4000) % 400 < 4, 600_000, 0)
    (said_last,) = verdict.sentences(summarise(made(begin, device * 0 + 60_000, fs)))[-1:]
    assert said_last == "Every 2 s (10 times) some take 10 x as long: all of the difference is fs."


def test_few_writes_are_not_enough() -> None:
    whole = made(np.arange(399) * 10**6, np.linspace(1e4, 1e6, 399))
    assert onset(whole) is None
    assert period(select(whole, np.arange(10))) is None
