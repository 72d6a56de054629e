# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: the pieces' spans in, nanoseconds per rank of the stack and write out.

At each instant of a write the deepest rank at work holds the time, so a rank's
credit is what it and all deeper ranks cover together, less what the deeper ones
cover alone: ``|union(rank >= r)| - |union(rank > r)|``. A union's length is one
running maximum over the spans sorted by write and begin.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iostrata.stitch.join import Ints
from iostrata.stitch.spans import Spans

CHUNK_WRITES = 65_536


def attribute(spans: Spans, begin_ns: Ints, end_ns: Ints, ranks: int) -> NDArray[np.int64]:
    """Credit of every rank: int64 ns, shape (ranks, writes).

    ``spans.owner`` indexes ``begin_ns``/``end_ns``; what a span has outside its
    write's own time is not credited.
    """
    credit = np.zeros((ranks, len(begin_ns)), np.int64)
    order = np.argsort(spans.owner, kind="stable")
    owners = spans.owner[order]
    for first in range(0, len(begin_ns), CHUNK_WRITES):
        last = min(first + CHUNK_WRITES, len(begin_ns))
        rows = order[slice(*np.searchsorted(owners, [first, last]))]
        credit[:, first:last] = _sweep(
            spans.owner[rows] - first,
            spans.rank[rows],
            spans.begin_ns[rows],
            spans.end_ns[rows],
            begin_ns[first:last],
            end_ns[first:last],
            ranks,
        )
    return credit


def _sweep(
    owner: Ints,
    rank: NDArray[np.int8],
    begin: Ints,
    end: Ints,
    write_begin: Ints,
    write_end: Ints,
    ranks: int,
) -> NDArray[np.int64]:
    writes = len(write_begin)
    # Every write gets a stretch of one long axis, so that one pass serves all of them.
    stride = int((write_end - write_begin).max(initial=0)) + 1
    base = owner * stride - write_begin[owner]
    begin = np.maximum(begin, write_begin[owner]) + base
    end = np.minimum(end, write_end[owner]) + base
    keep = end > begin
    order = np.flatnonzero(keep)[np.argsort(begin[keep], kind="stable")]
    owner, rank, begin, end = owner[order], rank[order], begin[order], end[order]
    credit = np.zeros((ranks, writes), np.int64)
    deeper = np.zeros(writes, np.int64)
    for level in np.unique(rank)[::-1]:
        at_work = np.flatnonzero(rank >= level)
        covered = _union(owner[at_work], begin[at_work], end[at_work], writes)
        credit[level] = covered - deeper
        deeper = covered
    return credit


def _union(owner: Ints, begin: Ints, end: Ints, writes: int) -> Ints:
    """Length covered by each owner's spans, which are sorted along one axis by begin."""
    reach = np.maximum.accumulate(end)
    from_ = begin.copy()
    np.maximum(from_[1:], reach[:-1], out=from_[1:])
    # float64 holds these sums exactly: they are below 2**53 ns (104 days).
    length = np.bincount(owner, weights=np.maximum(end - from_, 0), minlength=writes)
    return length.astype(np.int64)
