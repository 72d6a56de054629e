# SPDX-License-Identifier: Apache-2.0
"""Sleeps that do not overlap, as C tells: against a loop that cannot be wrong."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostrata import native

pytestmark = pytest.mark.skipif(
    native.LIBRARY is None, reason="libnative.so was not built here: make native"
)

MANY = 3000
NOTHING = np.zeros(0, np.int64)
seeds = st.integers(0, 2**32 - 1)
Sleep = tuple[int, int, int]
"""Thread, begin and end."""
sleeps = st.lists(
    st.tuples(st.sampled_from([7, 8, 2**32 - 1]), st.integers(0, 9), st.integers(0, 9)), max_size=9
)


def told(own: list[Sleep], others: list[Sleep], seed: int, streams: int = 3) -> bool:
    """``own``: of whichever streams."""
    tid, off, on = np.array(sorted(own, key=lambda one: one[2]), np.int64).reshape(-1, 3).T
    stream = np.random.default_rng(seed).integers(0, streams, len(tid))
    parts = [
        (tid[rows].astype(np.uint32), off[rows].astype(np.uint64), rows.astype(np.uint32))
        for rows in (np.flatnonzero(stream == number) for number in range(streams))
    ]
    further = np.array(sorted(others, key=lambda one: one[2]), np.int64).reshape(-1, 3).T
    return native.apart(parts, on.astype(np.uint64), list(further))


def possible(own: list[Sleep], others: list[Sleep]) -> bool:
    last: dict[int, int] = {}
    ordered = [(one[2], number, one) for number, one in enumerate([*own, *others])]
    for _, _, (tid, off, on) in sorted(ordered):
        if not 0 < off <= on or off < last.get(tid, 0):
            return False
        last[tid] = on
    return True


@given(sleeps, sleeps, seeds)
def test_sleeps_overlap(own: list[Sleep], others: list[Sleep], seed: int) -> None:
    assert told(own, others, seed) == possible(own, others)


@given(seeds, st.integers(0, MANY), st.sampled_from([1, 5, MANY]), st.booleans(), st.integers(1, 5))
def test_many_sleeps_overlap(
    seed: int, count: int, threads: int, wrong: bool, streams: int
) -> None:
    random = np.random.default_rng(seed)
    tid = random.integers(0, threads, count)
    on = np.cumsum(random.integers(1, 4, count))
    off, last = on.copy(), dict[int, int]()
    for row, (own, end) in enumerate(zip(tid.tolist(), on.tolist(), strict=True)):
        off[row] = random.integers(last.get(own, 1), end + 1)
        last[own] = end
    if wrong and count:
        off[random.integers(0, count)] -= random.integers(1, 9)
    every = list(zip(tid.tolist(), off.tolist(), on.tolist(), strict=True))
    own, others = every[: count // 2] + every[count // 2 + 5 :], every[count // 2 :][:5]
    assert told(own, others, seed, streams) == possible(own, others)
    assert possible(own, others) or wrong


def test_a_place_that_is_not_there_is_refused() -> None:
    count = 1025
    one, ends, none = np.ones(count, np.uint64), np.arange(count, dtype=np.uint64) + 9, NOTHING
    for place, wrong in ((0, count), (count - 1, count), (count - 1, 0), (7, 2**32 - 1)):
        places = np.arange(count, dtype=np.uint32)
        places[place] = wrong
        with pytest.raises(IndexError):
            native.apart([(np.arange(count, dtype=np.uint32), one, places)], ends, [none] * 3)
    with pytest.raises(IndexError):
        native.apart([], ends, [none] * 3)
