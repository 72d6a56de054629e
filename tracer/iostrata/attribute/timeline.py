# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: the pieces' spans in, who held each of their instants out.

The same rule as the sweep's (the deepest rank at work holds the time), with the
times kept: what ``attribute`` adds up, ``segments`` shows.
"""

from __future__ import annotations

import numpy as np

from iostrata.stitch.join import Ints
from iostrata.stitch.spans import Spans

NOBODY = -1


def segments(spans: Spans, begin_ns: Ints, end_ns: Ints) -> Spans:
    """Exclusive spans that cover each piece from begin to end, in order of piece and time.

    ``owner`` indexes ``begin_ns``/``end_ns``; ``rank`` is ``NOBODY`` where no span
    of the piece was at work. Neighbours of one rank are one segment.
    """
    duration = end_ns - begin_ns
    # Every piece gets a stretch of one long axis, so that one pass serves all of them.
    stride = int(duration.max(initial=0)) + 1
    start = np.arange(len(begin_ns)) * stride
    base = (start - begin_ns)[spans.owner]
    begin = np.maximum(spans.begin_ns + base, start[spans.owner])
    end = np.minimum(spans.end_ns + base, (start + duration)[spans.owner])
    some = end > begin
    rank, begin, end = spans.rank[some], begin[some], end[some]
    edges = np.unique(np.concatenate([begin, end, start, start + duration]))
    first, last = np.searchsorted(edges, begin), np.searchsorted(edges, end)
    holder = np.full(len(edges), NOBODY, np.int16)
    for level in np.unique(rank):
        here = rank == level
        change = np.bincount(first[here], minlength=len(edges))
        change -= np.bincount(last[here], minlength=len(edges))
        holder[np.cumsum(change) > 0] = level
    owner = edges // stride
    cells = np.flatnonzero(edges < (start + duration)[owner]) if len(edges) else edges
    owner, holder = owner[cells], holder[cells]
    opens = np.ones(len(cells), np.bool_)
    opens[1:] = (owner[1:] != owner[:-1]) | (holder[1:] != holder[:-1])
    closes = np.append(opens[1:], True)[: len(cells)]
    owner, back = owner[opens], (begin_ns - start)[owner[opens]]
    begin, end = edges[cells[opens]] + back, edges[cells[closes] + 1] + back
    return Spans(owner, holder[opens], begin, end, np.full(len(owner), -1))
