# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: what was waited for although others asked for it in, spans of who waited out."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints, one_of, order_of, ranges
from iostrata.layers import RANK
from iostrata.stitch.awaited import edges_of
from iostrata.stitch.bios import Bios, Carried
from iostrata.stitch.blockio import flushes_awaited, spans_of_bios
from iostrata.stitch.owners import Owners
from iostrata.stitch.pages import queued_before
from iostrata.stitch.requests import Requests
from iostrata.stitch.rpc import Calls, Hindered, spans_of_calls
from iostrata.stitch.spans import Edges, Ranks, SpanList, Spans, follow, seen_as
from iostrata.stitch.stacked import on_stacked
from iostrata.stitch.wakers import Explained, Tied
from iostrata.stitch.window import Window

READ, AHEAD = RANK["device.read"], RANK["device.readahead"]


class Others:
    """What was waited for although others asked for it, as spans of those who waited."""

    def __init__(
        self,
        window: Window,
        owners: Owners,
        bios: Bios,
        root: Ints,
        requests: Requests,
        carried: Carried,
        journal: NDArray[np.bool_],
        logged: NDArray[np.bool_],
        stacked: Ints,
        calls: Calls,
        hindered: Hindered,
    ) -> None:
        self._window, self._owners = window, owners
        self._bios, self._root, self._requests = bios, root, requests
        self._carried, self._journal, self._logged = carried, journal, logged
        self._stacked, self._calls, self._hindered = stacked, calls, hindered

    def spans_of(self, explained: Explained, owners: Iterable[Ints]) -> Spans:
        """``owners``: of each bio, whose own spans have it already."""
        spans = SpanList()
        spans.extend(explained.spans)
        if not len(explained.bios.row) and not len(explained.calls.row):
            return spans.collect()
        tied = explained.bios
        own = np.logical_or.reduce([of_bio[tied.row] == tied.owner for of_bio in owners])
        # What a commit consists of, it is waited for as a commit.
        tied = tied.rows(np.flatnonzero(~own & ~self._journal[tied.row]))
        if len(tied.row):
            spans.extend(self._of_bios(tied))
        tied = explained.calls
        if not len(tied.row):
            return spans.collect()
        called = spans_of_calls(
            self._calls, np.arange(len(self._calls)), len(self._requests.key), self._hindered
        )
        spans.extend(follow(called, edges_of(tied, tied.row)))
        return spans.collect()

    def _of_bios(self, tied: Tied) -> Spans:
        wanted = np.zeros(len(self._root), np.bool_)
        wanted[tied.row] = True
        whole = np.where(wanted[self._root], self._root, -1)
        flushes = flushes_awaited(self._bios, np.flatnonzero(whole >= 0), self._requests)
        alone = spans_of_bios(
            self._bios, self._requests, self._carried, flushes, whole, self._logged, self._stacked
        ).collect()
        ahead = queued_before(self._window, self._bios, tied, self._owners)

        def seen(ranks: Ranks, is_ahead: int) -> Ranks:
            return np.where(ranks == READ, AHEAD, ranks) if is_ahead else ranks

        return follow(alone, edges_of(tied, tied.row), seen_as(ahead.astype(np.int64), seen))

    def edges(self, tied: Tied, first: int) -> tuple[Edges, Ints]:
        """To what is below the bios, where those are on stacked devices; and as what it is seen.

        ``first``: the number of the first request among activities. What is below a commit's
        bios is the commit's, and a journal's: it has edges of its own.
        """
        tied = tied.rows(np.flatnonzero(~self._journal[tied.row]))
        asked = on_stacked(
            self._bios, self._requests, self._carried, one_of(self._root, tied.row), self._logged,
            self._stacked,
        )  # fmt: skip
        order = order_of(self._root[asked.bio])
        roots_of = self._root[asked.bio][order]
        first_of = np.searchsorted(roots_of, tied.row, side="left")
        count = np.searchsorted(roots_of, tied.row, side="right") - first_of
        tie = np.repeat(np.arange(len(tied.row)), count)
        place = order[np.repeat(first_of, count) + ranges(count)]
        edges = Edges(
            asked.request[place] + first,
            tied.owner[tie],
            np.maximum(tied.begin_ns[tie], asked.begin_ns[place]),
            np.minimum(tied.end_ns[tie], asked.end_ns[place]),
        )
        ahead = queued_before(self._window, self._bios, tied, self._owners)[tie]
        return edges, np.where(ahead, AHEAD, asked.kind[place])
