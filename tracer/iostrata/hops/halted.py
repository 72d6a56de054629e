# SPDX-License-Identifier: Apache-2.0
"""Hops: what was found of a halted machine's requests in, when its clock's relation holds out.

A clock that stood still meanwhile is behind from then on, so that one steady line is right on one
side of the halt only. On the other one, what a machine below did at the same time by that line is
nothing that this one waited for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints, Union
from iostrata.hops.hop import Asks, Pairs
from iostrata.stitch import SpanList, Spans
from iostrata.trace import Trace, halts_of

MOST: Final = 0.5
"""Of what was asked on the right side so much is found at least, of the rest only by chance."""
EVER: Final = (0, 1 << 62)


def right_of(upper: Trace, asks: Asks, pairs: Pairs) -> Union | None:
    """When, by the upper machine's clock, that relation is right; None: it never was halted."""
    halts = halts_of(upper)
    if not halts:
        return None
    keyed = np.flatnonzero(pairs.crossing & ~asks.shared)
    begin, end = asks.begin_ns[keyed], asks.end_ns[keyed]
    found = np.isin(keyed, pairs.ask)
    stretches = list(_right(halts, begin, end, found))
    begins, ends = np.array(stretches, np.int64).reshape(-1, 2).T
    return Union(begins, ends)


def _right(
    halts: list[tuple[int, int, int]], begin: Ints, end: Ints, found: NDArray[np.bool_]
) -> Iterator[tuple[int, int]]:
    """When a halt was is known from sample to sample only: what was found between them tells."""
    since = [EVER[0], *(after for _, after, _ in halts)]
    until = [*(before for before, _, _ in halts), EVER[1]]
    for low, high in zip(since, until, strict=True):
        mine = (begin >= low) & (end <= high)
        if not mine.any() or found[mine].mean() < MOST:
            continue
        first, last = low, high
        for before, after, _ in halts:
            between = (end > before) & (begin < after)
            strange = between & ~found
            if before == high:
                mine = between & found & (end <= begin[strange].min(initial=after))
                last = int(end[mine].max(initial=before)) if strange.any() else after
            if after == low:
                mine = between & found & (begin >= end[strange].max(initial=before))
                first = int(begin[mine].min(initial=after)) if strange.any() else before
        yield first, last


def kept(right: Union | None, spans: Spans) -> Spans:
    """What of some spans, by the upper machine's clock, is within the times that are right."""
    if right is None:
        return spans
    found = SpanList()
    for since, until in zip(right.begins.tolist(), right.ends.tolist(), strict=True):
        begin, end = np.maximum(spans.begin_ns, since), np.minimum(spans.end_ns, until)
        found.add(spans.owner, spans.rank, begin, end, spans.of)
    return found.collect()


def astray(right: Union, begin_ns: Ints, end_ns: Ints) -> NDArray[np.bool_]:
    """Which of some intervals are not all within the times that are right."""
    outside: NDArray[np.bool_] = right.within(begin_ns, end_ns) < end_ns - begin_ns
    return outside
