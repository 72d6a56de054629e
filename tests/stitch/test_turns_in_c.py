# SPDX-License-Identifier: Apache-2.0
"""Whose turn it was, told once for those alike: the same instants as when it is told of each."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iostrata import native
from iostrata.columns import Union
from iostrata.layers import STACK
from iostrata.stitch import turns as telling
from iostrata.stitch.behind import Parts, Turns, during, in_one
from iostrata.stitch.spans import Spans
from iostrata.stitch.turns import KIND, TOLD, Numbers, Waited

LARGE: Final = 1 << 61
PLACES: Final = np.array([-(1 << 63), -1, 0, 1, np.iinfo(np.int64).max])

pytestmark = pytest.mark.skipif(
    native.LIBRARY is None, reason="libnative.so was not built here: make native"
)

seeds = st.integers(0, 2**32 - 1)
few = st.integers(0, 60)


def turns_of(random: np.random.Generator, count: int, latest_ns: int, late: int) -> Turns:
    """One after the other at each place, some at once, some for no time; of ``late`` ones each
    ends when the next one has begun."""
    step = random.integers(0, latest_ns // (2 * count + 1) + 1, (len(PLACES), 2 * count))
    times = np.cumsum(step, axis=1) - latest_ns // 3
    begin, end = times.reshape(-1, 2).T.copy()
    some = random.integers(0, max(len(end), 1), late * (count > 0))
    end[some] += random.integers(0, latest_ns // 4 + 1, len(some))
    who = random.integers(-1, 3, len(begin))
    return in_one(Turns(np.repeat(PLACES, count), begin, end, who))


Shown = dict[tuple[int, ...], list[list[int]]]
Waits = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def waits_of(random: np.random.Generator, count: int, latest_ns: int) -> Waits:
    begin = random.integers(-latest_ns // 3, latest_ns + 1, count)
    took = random.integers(-2, latest_ns // 2 + 3, count)
    place = random.choice(PLACES, count)
    return np.arange(count), place, begin, begin + took, random.integers(-2, 4, count)


def together(parts: Parts, whose: np.ndarray, place: np.ndarray) -> Shown:
    """When it was whose turn, of each wait, or of those alike: their instants, each once."""
    row, begin, end, who = parts
    kept = np.flatnonzero(end > begin)
    row, begin, end, who = row[kept], begin[kept], end[kept], who[kept]
    alone = np.where(whose[row] < 0, row, -1)
    keys = np.array([whose[row], place[row], who, alone])
    found = {}
    for key in np.unique(keys, axis=1).T:
        mine = np.flatnonzero((key == keys.T).all(axis=1))
        union = Union(begin[mine], end[mine])
        found[tuple(key.tolist())] = [union.begins.tolist(), union.ends.tolist()]
    return found


@settings(max_examples=300)
@given(seeds, st.integers(0, 12), few, st.sampled_from([1, 2, 16, 1 << 40]),
       st.sampled_from([8, 100, LARGE]), st.sampled_from([0, 0, 1, 9]))  # fmt: skip
def test_told_once(seed: int, count: int, waits: int, most: int, latest_ns: int, late: int) -> None:
    random = np.random.default_rng(seed)
    turns = turns_of(random, count, latest_ns, late)
    span, place, begins, ends, whose = waits_of(random, waits, latest_ns)
    once = during(span, place, begins, ends, turns, most, whose)
    each = during(span, place, begins, ends, turns, most)
    assert together(once, whose, place) == together(each, whose, place)
    every = (whose, (place, begins, ends), (turns.place, turns.begin_ns, turns.end_ns), most)
    found = native.turns_told(*every)
    assert found or (late and most < count)
    if not found:
        return
    row, begin, end, turn = found
    assert (end >= begin).all()
    assert (turns.begin_ns[turn] <= begin).all()
    assert (end <= turns.end_ns[turn]).all()
    assert (place[row] == turns.place[turn]).all()


def test_those_alike_are_told_once() -> None:
    turns = Turns(*np.array([[0, 0, 0], [0, 10, 20], [10, 20, 30], [5, 6, 7]]))
    begin, nothing = np.arange(100) % 7, np.zeros(100, np.int64)
    parts = during(np.arange(100), nothing, begin, begin + 12, turns, 16, nothing)
    assert [column.tolist() for column in parts[1:]] == [[0, 10], [10, 18], [5, 6]]
    assert len(during(np.arange(100), nothing, begin, begin + 12, turns, 16, nothing - 1)[0]) > 100


def test_turns_that_overlap_where_some_are_left_out_are_told_of_each() -> None:
    turns = (np.zeros(3, np.int64), np.array([0, 4, 8]), np.array([5, 9, 20]))
    one = np.zeros(1, np.int64)
    assert native.turns_told(one, (one, one, one + 9), turns, 1) is None
    span, begin, end, who = during(one, one, one, one + 9, Turns(*turns, np.arange(3)), 1, one)
    assert (span.tolist(), begin.tolist(), end.tolist()) == ([0, 0], [0, 8], [5, 9])
    assert who.tolist() == [0, 2]
    assert native.turns_told(one, (one, one, one + 9), turns, 2) is not None
    assert (
        native.turns_told(one, (one, one, one + 9), [column[::-1] for column in turns], 2) is None
    )


@given(seeds, few)
def test_kinds(seed: int, count: int) -> None:
    random = np.random.default_rng(seed)
    some = random.integers(-1, 12, (4, count))
    spans = Spans(some[0], random.integers(0, len(STACK), count).astype(np.int16), *some[1:])
    waited = object.__new__(Waited)
    numbers = Numbers(*np.sort(random.integers(0, 12, 4)).tolist())
    requests = type("Requests", (), {"key": np.zeros(int(random.integers(0, 5)))})
    object.__setattr__(waited, "numbers", numbers)
    object.__setattr__(waited, "requests", requests)
    kinds, counts = telling._kinds(spans, waited)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "LIBRARY", None)
        expected, numbered = telling._kinds(spans, waited)
    assert (kinds.tolist(), counts) == (expected.tolist(), numbered)


def test_a_rank_is_of_one_kind() -> None:
    assert np.sum(TOLD, axis=0).max() == 1
    assert [int(KIND[ranks].min()) for ranks in TOLD] == [*range(1, len(TOLD) + 1)]


def test_ranks_and_kinds_that_are_none_are_refused() -> None:
    one = np.zeros(1, np.int64)
    for rank, kind in ((-1, 0), (1, 0), (0, 1)):
        with pytest.raises(IndexError):
            native.kinds_of(
                np.array([rank], np.int16), one, np.array([kind], np.uint8), one, one + 9
            )
