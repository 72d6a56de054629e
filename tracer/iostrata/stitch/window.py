# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: a trace and the pieces of its writes in, windows of both out.

A recording is stitched window by window: what a window needs fits a core's
cache, and memory does not grow with the recording. A window holds some of the
pieces, ordered by begin, and all events of the time that can matter to them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from iostrata.stitch.calls import Pieces
from iostrata.stitch.join import Ints, integers
from iostrata.stitch.journal import Commits
from iostrata.trace.read import Trace

WINDOW_PIECES = 15_000
MARGIN_NS = 10_000_000

Columns = dict[str, Ints]


@dataclass(frozen=True)
class Window:
    """``pieces`` and ``commits`` as rows of their own; events of ``begin_ns`` .. ``end_ns``."""

    trace: Trace
    pieces: Pieces
    commits: Commits
    begin_ns: int
    end_ns: int

    def columns(self, point: str, *fields: str) -> Columns:
        """The point's events of the window: ``time_ns`` and the fields, int64, in time order."""
        events = self.trace.points[point]
        first, last = np.searchsorted(
            events.time_ns, np.array([self.begin_ns, self.end_ns + 1], np.uint64)
        ).tolist()
        found = events.columns(*fields, begin=first, end=last)
        return {"time_ns": integers(events.time_ns[first:last])} | {
            field: integers(column) for field, column in found.items()
        }


def windows(trace: Trace, pieces: Pieces, commits: Commits) -> Iterator[tuple[Ints, Window]]:
    """The rows of the pieces in each window, and the window.

    The margins are the longest of its own pieces, so that whatever was in flight
    when one began has its other edge too, and the commits that reach into it.
    """
    order = np.argsort(pieces.begin_ns, kind="stable")
    begins, first = pieces.begin_ns[order], 0
    while first < len(order):
        last = _last(begins, pieces.end_ns, order, first)
        rows = order[first:last]
        own = pieces.rows(rows)
        begin, end = int(own.begin_ns.min()), int(own.end_ns.max())
        margin = int((own.end_ns - own.begin_ns).max()) + MARGIN_NS
        reaching = (commits.end_ns >= begin) & (commits.begin_ns <= end)
        inside = commits.rows(np.flatnonzero(reaching))
        yield (
            rows,
            Window(
                trace,
                own,
                inside,
                max(min(begin - margin, int(inside.begin_ns.min(initial=begin))), 0),
                max(end + margin, int(inside.end_ns.max(initial=end))),
            ),
        )
        first = last


def _last(begins: Ints, ends: Ints, order: Ints, first: int) -> int:
    """Enough pieces, and enough time that the margins do not outweigh it."""
    last = min(first + WINDOW_PIECES, len(order))
    longest = int((ends[order[first:last]] - begins[first:last]).max())
    return max(last, int(np.searchsorted(begins, begins[first] + longest, side="right")))
