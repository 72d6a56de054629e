# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: what was waited for although others asked for it in, spans of who waited out."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints, one_of, order_of, ranges
from iostrata.layers import RANK
from iostrata.stitch.awaited import edges_of
from iostrata.stitch.blockio import flushes_awaited
from iostrata.stitch.pages import queued_before
from iostrata.stitch.rpc import spans_of_calls
from iostrata.stitch.scene import Scene
from iostrata.stitch.spans import Edges, Ranks, SpanList, Spans, follow, seen_as
from iostrata.stitch.stacked import on_stacked
from iostrata.stitch.wakers import Explained, Tied

READ, AHEAD = RANK["device.read"], RANK["device.readahead"]
MOST_BELOW: Final = 16
"""Devices upon one another."""


class Others:
    """What was waited for although others asked for it, as spans of those who waited."""

    def __init__(self, scene: Scene) -> None:
        self._scene, self._disks = scene, scene.disks

    def spans_of(self, explained: Explained) -> Spans:
        """But for what those who own the bios have of them already."""
        spans = SpanList()
        spans.extend(explained.spans)
        if not len(explained.bios.row) and not len(explained.calls.row):
            return spans.collect()
        tied = explained.bios
        own = np.logical_or.reduce(
            [of_bio[tied.row] == tied.owner for of_bio in self._disks.owners]
        )
        # What a commit consists of, it is waited for as a commit.
        tied = tied.rows(np.flatnonzero(~own & ~self._disks.journal[tied.row]))
        root = self._disks.bios.root
        whole = root[tied.row] == tied.row
        if whole.any():
            spans.extend(self._of_bios(tied.rows(np.flatnonzero(whole)), root))
        if not whole.all():
            parts = tied.rows(np.flatnonzero(~whole))
            spans.extend(self._of_bios(parts, self._parts(parts.row)))
        tied = explained.calls
        if not len(tied.row):
            return spans.collect()
        remote = self._scene.remote
        every, first = np.arange(len(remote.calls)), len(self._disks.requests.key)
        called = spans_of_calls(remote.calls, every, first, remote.hindered)
        spans.extend(follow(called, edges_of(tied, tied.row)))
        return spans.collect()

    def _parts(self, row: Ints) -> Ints:
        """Of each bio which of some others (``row``), themselves below others, it was made for."""
        parent = self._disks.bios.parent
        wanted = np.zeros(len(parent), np.bool_)
        wanted[row] = True
        found = np.arange(len(parent))
        for _ in range(MOST_BELOW):
            up = ~wanted[found] & (parent[found] >= 0)
            if not up.any():
                break
            found[up] = parent[found[up]]
        return found

    def _of_bios(self, tied: Tied, root: Ints) -> Spans:
        """``root``: of each bio the one that it is of."""
        disks, bios = self._disks, self._disks.bios
        wanted = np.zeros(len(root), np.bool_)
        wanted[tied.row] = True
        whole = np.where(wanted[root], root, -1)
        flushes = flushes_awaited(bios, np.flatnonzero(whole >= 0), disks.requests)
        alone = disks.spans_of(whole, flushes=flushes)
        alone.extend(self._scene.unserved(whole, flushes))
        alone.extend(self._scene.rests(whole))
        ahead = self._ahead(tied)

        def seen(ranks: Ranks, is_ahead: int) -> Ranks:
            return np.where(ranks == READ, AHEAD, ranks) if is_ahead else ranks

        return follow(
            alone.collect(), edges_of(tied, tied.row), seen_as(ahead.astype(np.int64), seen)
        )

    def edges(self, tied: Tied) -> tuple[Edges, Ints]:
        """To what is below the bios, where those are on stacked devices; and as what it is seen.

        What is below a commit's bios is the commit's, and a journal's: it has edges of its own.
        """
        disks = self._disks
        tied, root = tied.rows(np.flatnonzero(~disks.journal[tied.row])), disks.bios.root
        asked = on_stacked(
            disks.bios, disks.requests, disks.carried, one_of(root, tied.row), disks.logged,
            disks.stack.stacked,
        )  # fmt: skip
        order = order_of(root[asked.bio])
        roots_of = root[asked.bio][order]
        first_of = np.searchsorted(roots_of, tied.row, side="left")
        count = np.searchsorted(roots_of, tied.row, side="right") - first_of
        tie = np.repeat(np.arange(len(tied.row)), count)
        place = order[np.repeat(first_of, count) + ranges(count)]
        edges = Edges(
            asked.request[place] + disks.first_request,
            tied.owner[tie],
            np.maximum(tied.begin_ns[tie], asked.begin_ns[place]),
            np.minimum(tied.end_ns[tie], asked.end_ns[place]),
        )
        return edges, np.where(self._ahead(tied)[tie], AHEAD, asked.kind[place])

    def _ahead(self, tied: Tied) -> NDArray[np.bool_]:
        """Whether a bio was there before the read that waited for it."""
        return queued_before(self._scene.window, self._disks.bios, tied, self._scene.owners)
