# SPDX-License-Identifier: Apache-2.0
"""Segments against the sweep: the same credit, no overlap, no gap."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from iostrata.attribute import sweep
from iostrata.attribute.timeline import NOBODY, segments
from iostrata.stitch.spans import Spans
from tests.attribute.test_sweep import RANKS, span, table, write


@given(st.lists(write, max_size=5), st.lists(span, max_size=30))
def test_segments_add_up_to_the_credit_of_the_sweep(
    writes: list[tuple[int, int]], drawn: list[tuple[int, ...]]
) -> None:
    begin, duration = np.array(writes, np.int64).reshape(-1, 2).T
    end = begin + duration
    columns = np.array(drawn if writes else [], np.int64).reshape(-1, 4).T
    owner = columns[0] % max(len(writes), 1)
    end_ns = columns[2] + columns[3]
    spans = Spans(owner, columns[1].astype(np.int16), columns[2], end_ns, owner)
    found = segments(spans, begin, end)

    held = np.zeros((RANKS, len(writes)), np.int64)
    kept = found.where(found.rank != NOBODY)
    np.add.at(held, (kept.rank, kept.owner), kept.end_ns - kept.begin_ns)
    assert held.tolist() == table(sweep(spans, begin, end), len(begin)).tolist()

    # Each piece is covered from its begin to its end, without overlap, in order.
    covered = [
        [
            found.begin_ns[found.owner == number].tolist(),
            found.end_ns[found.owner == number].tolist(),
        ]
        for number in range(len(writes))
    ]
    for (begins, ends), first, last in zip(covered, begin, end, strict=True):
        assert begins == [first, *ends[:-1]]
        assert ends[-1] == last
        assert all(b < e for b, e in zip(begins, ends, strict=True))
    assert (np.diff(found.owner) >= 0).all()


def test_neighbours_of_one_rank_are_one_segment() -> None:
    one = np.zeros(2, np.int64)
    spans = Spans(one, np.array([3, 3], np.int16), np.array([10, 20]), np.array([20, 30]), one)
    found = segments(spans, np.array([5]), np.array([35]))
    assert found.rank.tolist() == [NOBODY, 3, NOBODY]
    assert found.begin_ns.tolist() == [5, 10, 30]
    assert found.end_ns.tolist() == [10, 30, 35]
