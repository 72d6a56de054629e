# SPDX-License-Identifier: Apache-2.0
"""The joins against loops that cannot be wrong."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import iostrata.columns as stage
from iostrata.columns import (
    AsOf,
    Containing,
    Union,
    among,
    coded,
    meets,
    order_of,
    outside,
    overlapping,
    rows_of,
)

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


@given(st.sets(keys, max_size=30), st.lists(keys, max_size=30))
def test_among(values: set[int], others: list[int]) -> None:
    found = among(np.array(sorted(values), np.int64), np.array(others, np.int64))
    assert found.tolist() == [value in others for value in sorted(values)]


@given(intervals, intervals)
def test_union_and_meets(mine: list[tuple[int, ...]], theirs: list[tuple[int, ...]]) -> None:
    _, begin, length = columns(mine, 3)
    _, other_begin, other_length = columns(theirs, 3)
    held = {t for _, b, n in theirs for t in range(b, b + n)}
    expected = [len(held & set(range(b, b + n))) for _, b, n in mine]
    union = Union(other_begin, other_begin + other_length)
    assert union.within(begin, begin + length).tolist() == expected
    met = meets(begin, begin + length, other_begin, other_begin + other_length)
    assert met.tolist() == [share > 0 for share in expected]


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


@given(intervals, intervals)
def test_overlapping_at_the_ends_of_many(
    mine: list[tuple[int, ...]], theirs: list[tuple[int, ...]]
) -> None:
    key, begin, length = columns(mine, 3)
    other_key, other_begin, _ = columns(theirs, 3)
    # Those of one key follow each other.
    order = np.lexsort((other_begin, other_key))
    other_key, other_begin = other_key[order], np.arange(len(order)) * 2
    all_of_them = overlapping(key, begin, begin + length, other_key, other_begin, other_begin + 2)
    found = overlapping(key, begin, begin + length, other_key, other_begin, other_begin + 2, 1)
    for row in range(len(mine)):
        whole = sorted(all_of_them[1][all_of_them[0] == row].tolist())
        some = sorted(found[1][found[0] == row].tolist())
        assert some == (whole if len(whole) <= 2 else [whole[0], whole[-1]])


@given(st.lists(keys, max_size=30), st.integers(0, 3))
def test_coded(values: list[int], least: int) -> None:
    for some in (np.array(values, np.int64), np.array([value % 9 + least for value in values])):
        unique, codes = coded(some)
        assert unique.tolist() == sorted(set(some.tolist()))
        assert unique[codes].tolist() == some.tolist()


@given(st.lists(keys, max_size=30))
def test_rows_of(values: list[int]) -> None:
    found = rows_of(np.array(values, np.int64))
    assert list(found) == sorted(set(values))
    for value, rows in found.items():
        assert rows.tolist() == [row for row, one in enumerate(values) if one == value]


@given(st.lists(st.lists(st.integers(0, 20), max_size=6, unique=True), max_size=8), st.booleans())
def test_outside(edges: list[list[int]], one_each: bool) -> None:
    """Gaps are from an even edge of a row to the next one, in any order."""
    begins, ends = np.full(len(edges), -1), np.full(len(edges), 21)
    gaps = [
        (row, since, until)
        for row, own in enumerate(edges)
        for since, until in list(pairwise(sorted(own)))[: 1 if one_each else None : 2]
    ]
    row, since, until = columns(gaps if one_each else gaps[::-1], 3)
    found = zip(
        *(column.tolist() for column in outside(begins, ends, row, since, until)), strict=True
    )
    expected = [(row, -1, 21) for row, own in enumerate(edges) if len(own) < 2]
    for number in sorted({gap[0] for gap in gaps}):
        mine = sorted(gap[1:] for gap in gaps if gap[0] == number)
        left = zip([-1, *(gap[1] for gap in mine)], [*(gap[0] for gap in mine), 21], strict=True)
        expected += [(number, *part) for part in left]
    assert list(found) == expected
