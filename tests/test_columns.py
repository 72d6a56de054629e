# SPDX-License-Identifier: Apache-2.0
"""The joins against loops that cannot be wrong."""

from __future__ import annotations

from collections.abc import Sequence
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iostrata.columns as stage
from iostrata.columns import AsOf, Containing, merged, order_of, overlapping

rows = st.lists(st.tuples(st.integers(-3, 3), st.integers(-20, 20)), max_size=20)
keys = st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)
intervals = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(1, 15)), max_size=15
)


def columns(values: Sequence[tuple[int, ...]], width: int) -> list[np.ndarray]:
    return list(np.array(values, np.int64).reshape(-1, width).T)


@pytest.mark.parametrize("places", [0, stage.PLACES])
@given(rows, rows)
def test_as_of(places: int, have: list[tuple[int, int]], ask: list[tuple[int, int]]) -> None:
    with patch.object(stage, "PLACES", places):
        table = AsOf(*columns(have, 2))
    before = table.at_or_before(*columns(ask, 2))
    after = table.at_or_after(*columns(ask, 2))
    for (key, time), earlier, later in zip(ask, before, after, strict=True):
        past = [t for k, t in have if k == key and t <= time]
        future = [t for k, t in have if k == key and t >= time]
        assert (have[earlier] if earlier >= 0 else None) == ((key, max(past)) if past else None)
        assert (have[later] if later >= 0 else None) == ((key, min(future)) if future else None)


@given(st.lists(st.tuples(keys, keys), max_size=30))
def test_order_of(rows: list[tuple[int, int]]) -> None:
    one, other = columns(rows, 2)
    assert order_of(one, other).tolist() == np.lexsort((other, one)).tolist()


@given(st.lists(st.integers(0, 9), max_size=30), st.lists(st.integers(0, 9), max_size=30))
def test_merged(table: list[int], values: list[int]) -> None:
    have, ask = np.array(sorted(table), np.int64), np.array(values, np.int64)
    before, after = merged(have, ask, after=False), merged(have, ask, after=True)
    assert before.tolist() == [sum(one < value for one in table) for value in values]
    assert after.tolist() == [sum(one <= value for one in table) for value in values]


@given(intervals, intervals)
def test_overlapping(mine: list[tuple[int, ...]], theirs: list[tuple[int, ...]]) -> None:
    key, begin, length = columns(mine, 3)
    other_key, other_begin, other_length = columns(theirs, 3)
    left, right = overlapping(
        key, begin, begin + length, other_key, other_begin, other_begin + other_length
    )
    expected = {
        (i, j)
        for i, (k, b, n) in enumerate(mine)
        for j, (other, ob, on) in enumerate(theirs)
        if k == other and ob < b + n and b < ob + on
    }
    assert len(left) == len(expected)
    assert set(zip(left.tolist(), right.tolist(), strict=True)) == expected


def test_containing_knows_where_an_interval_ends() -> None:
    one = np.array([7, 7, 8])
    found = Containing(one, np.array([10, 30, 10]), np.array([20, 40, 15])).find(
        np.array([7, 7, 7, 7, 8, 9]), np.array([10, 20, 25, 41, 16, 12])
    )
    assert found.tolist() == [0, 0, -1, -1, -1, -1]
