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


def attribute(spans: Spans, begin_ns: Ints, end_ns: Ints, ranks: int) -> NDArray[np.int64]:
    """Credit of every rank: int64 ns, shape (ranks, pieces).

    ``spans.owner`` indexes ``begin_ns``/``end_ns``; what a span has outside its
    piece's own time is not credited.
    """
    pieces = len(begin_ns)
    # Every piece gets a stretch of one long axis, so that one pass serves all of them.
    stride = int((end_ns - begin_ns).max(initial=0)) + 1
    start = np.arange(pieces) * stride
    base = (start - begin_ns)[spans.owner]
    begin = np.maximum(spans.begin_ns + base, start[spans.owner])
    end = np.minimum(spans.end_ns + base, (start + end_ns - begin_ns)[spans.owner])
    order = np.argsort(begin, kind="stable")
    order = order[end[order] > begin[order]]
    owner, rank, begin, end = spans.owner[order], spans.rank[order], begin[order], end[order]
    credit = np.zeros((ranks, pieces), np.int64)
    deeper = np.zeros(pieces, np.int64)
    for level in np.unique(rank)[::-1]:
        at_work = np.flatnonzero(rank >= level)
        covered = _union(owner[at_work], begin[at_work], end[at_work], pieces)
        credit[level] = covered - deeper
        deeper = covered
    return credit


def _union(owner: Ints, begin: Ints, end: Ints, pieces: int) -> Ints:
    """Length covered by each owner's spans, which are sorted along one axis by begin."""
    reach = np.maximum.accumulate(end)
    np.maximum(begin[1:], reach[:-1], out=begin[1:])
    # float64 holds these sums exactly: they are below 2**53 ns (104 days).
    length = np.bincount(owner, weights=np.maximum(end - begin, 0), minlength=pieces)
    return length.astype(np.int64)
