# SPDX-License-Identifier: Apache-2.0
"""What grows: every row once, in order, of the kinds that were asked for; every number added."""

from __future__ import annotations

import sys
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from iostrata.analysis.kept import Kept, Sums


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 7))
def test_every_row_is_kept_once(lengths: list[int], fewest: int) -> None:
    kept, number = Kept(np.int32, np.int64), 0
    with patch.object(sys.modules[Kept.__module__], "FEWEST_ROWS", fewest):
        for length in lengths:
            rows = np.arange(number, number + length)
            kept.extend((rows, rows << 40))
            number += length
    narrow, wide = kept.joined()
    assert narrow.dtype == np.dtype(np.int32)
    assert wide.dtype == np.dtype(np.int64)
    assert narrow.tolist() == list(range(number))
    assert wide.tolist() == [one << 40 for one in range(number)]
    assert [len(column) for column in kept.joined()] == [0, 0]


NUMBERS = st.one_of(
    st.integers(0, 9), st.sampled_from([(1 << 16) - 1, 1 << 16, (1 << 32) - 1, 1 << 32, -1])
)


@given(st.lists(st.lists(NUMBERS, max_size=5), max_size=9), st.integers(1, 7))
def test_a_number_too_large_for_half_the_bits_is_kept_whole(
    parts: list[list[int]], fewest: int
) -> None:
    kept = Kept(np.int64)
    with patch.object(sys.modules[Kept.__module__], "FEWEST_ROWS", fewest):
        for part in parts:
            kept.extend((np.array(part, np.int64),))
    (column,) = kept.joined()
    assert column.tolist() == [number for part in parts for number in part]


@given(st.lists(st.tuples(st.integers(0, 3), NUMBERS), max_size=9))
def test_every_number_is_added(added: list[tuple[int, int]]) -> None:
    sums, true = Sums(4), [0, 0, 0, 0]
    for row, number in added:
        sums.add(np.array([row]), np.array([number]))
        true[row] += number
    assert sums.numbers.tolist() == true


@given(st.lists(st.lists(st.integers(0, (1 << 32) - 1), min_size=4, max_size=4), max_size=4))
def test_numbers_of_half_the_bits_are_added(added: list[list[int]]) -> None:
    """Where one has no room, the others are not added twice."""
    rows, (sums, others) = np.array([2, 0, 3, 1]), (Sums(4), Sums(4))
    for some in added:
        sums.add(rows, np.array(some, np.uint32))
        others.add(rows, np.array(some))
    assert sums.numbers.tolist() == others.numbers.tolist()
    assert (
        others.numbers[rows].tolist()
        == np.array(added, np.int64).reshape(-1, 4).sum(axis=0).tolist()
    )
