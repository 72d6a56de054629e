# SPDX-License-Identifier: Apache-2.0
"""The sweep against an account kept nanosecond by nanosecond."""

from __future__ import annotations

import sys
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostrata.attribute import Held, attribute
from iostrata.attribute.sweep import WORD_BITS, sweep
from iostrata.stitch.spans import Spans

RANKS = 6

write = st.tuples(st.integers(0, 50), st.integers(1, 60))
span = st.tuples(
    st.integers(0, 200), st.integers(0, RANKS - 1), st.integers(-10, 120), st.integers(1, 70)
)


def by_hand(spans: list[tuple[int, ...]], writes: list[tuple[int, int]]) -> np.ndarray:
    credit = np.zeros((RANKS, len(writes)), np.int64)
    for number, (begin, duration) in enumerate(writes):
        for instant in range(begin, begin + duration):
            at_work = [
                rank for owner, rank, first, length in spans
                if owner == number and first <= instant < first + length
            ]  # fmt: skip
            if at_work:
                credit[max(at_work), number] += 1
    return credit


def table(held: Held, writes: int) -> np.ndarray:
    """With a row for every rank."""
    credit, found = attribute(held, writes), np.zeros((RANKS, writes), np.int64)
    assert credit.time_ns.all()
    assert (np.diff(credit.rank * max(writes, 1) + credit.owner) > 0).all()
    found[credit.rank, credit.owner] = credit.time_ns
    return found


@pytest.mark.parametrize("word_bits", [2, WORD_BITS])
@given(st.lists(write, min_size=1, max_size=5), st.lists(span, max_size=30))
def test_every_nanosecond_goes_to_the_deepest_rank(
    word_bits: int, writes: list[tuple[int, int]], spans: list[tuple[int, ...]]
) -> None:
    spans = [(owner % len(writes), rank, begin, length) for owner, rank, begin, length in spans]
    columns = np.array(spans, np.int64).reshape(-1, 4).T
    begin, duration = np.array(writes, np.int64).T
    end = columns[2] + columns[3]
    own = Spans(columns[0], columns[1].astype(np.int16), columns[2], end, columns[0])
    module = sys.modules[sweep.__module__]
    with patch.object(module, "WORD_BITS", word_bits):
        held = sweep(own, begin, begin + duration)
    # In order of piece, and of time.
    assert (np.diff(held.owner) >= 0).all()
    assert ((np.diff(held.since_ns) >= 0) | (np.diff(held.owner) > 0)).all()
    assert table(held, len(writes)).tolist() == by_hand(spans, writes).tolist()


@pytest.mark.parametrize("axis_ns", [0, 1 << 60])
@pytest.mark.parametrize("count", [256, 257, 300, 5_000])
def test_any_number_of_ranks(count: int, axis_ns: int) -> None:
    """Each rank a nanosecond, and one that lasts throughout and is below them all.

    ``axis_ns``: of other time, so long that a time and a rank do not fit into one number.
    """
    ranks = np.arange(count, dtype=np.int32) * 3
    begin = np.concatenate([[0], np.arange(1, count) * 2])
    end = np.concatenate([[2 * count], begin[1:] + 1])
    owner = np.zeros(count, np.int64)
    held = sweep(
        Spans(owner, ranks, begin, end, owner), np.array([0, 0]), np.array([2 * count, axis_ns])
    )
    some = held.until_ns > held.since_ns
    rank, since = held.ranks[held.level[some]], held.since_ns[some]
    assert (held.until_ns - held.since_ns)[some].sum() == 2 * count
    assert (held.owner[some] == 0).all()
    assert rank[np.searchsorted(since, begin[1:])].tolist() == ranks[1:].tolist()
    assert (rank[np.searchsorted(since, begin[1:] + 1)] == 0).all()


def test_a_write_that_hung_for_a_day_among_many_short_ones() -> None:
    count, short, long = 1_000_000, 1_000, 86_400 * 10**9
    begin = np.arange(count)
    end = begin + short
    end[count // 2] += long
    owner = np.arange(count)
    own = Spans(owner, np.full(count, 3, np.int16), begin + 100, end - 100, owner)
    expected = end - begin - 200
    assert table(sweep(own, begin, end), count)[3].tolist() == expected.tolist()
