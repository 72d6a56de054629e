# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: a window and the segments of one of its pieces in, what is behind each out.

Spans carry times, not keys. A request, bio or commit is behind a segment when
it was at work throughout, and a span that covers the segment begins or ends to
the nanosecond where that request, bio or commit did.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.layers import STACK
from iostrata.model import Evidence
from iostrata.stitch.join import Ints
from iostrata.stitch.owners import Owners
from iostrata.stitch.requests import Requests, bios_of, requests_of
from iostrata.stitch.spans import Spans
from iostrata.stitch.window import Window
from iostrata.trace import layout

NO_SECTOR: Final = -1
"""The sector of a flush, which has none."""
CALLS: Final = {
    number: name.removeprefix("CALL_").lower()
    for name, number in vars(layout).items()
    if name.startswith("CALL_")
}


class Witness:
    """What a window's events say about stretches of its pieces' time."""

    def __init__(self, window: Window, spans: Spans) -> None:
        self._window, self._spans = window, spans
        self._requests, completed = requests_of(window)
        self._bios = bios_of(window, self._requests, completed)
        self._bio_piece = Owners(window).find(self._bios.tid, self._bios.queue_ns)
        self._calls = window.columns("syscall", "tid", "enter_ns", "call")
        self._own: dict[int, tuple[Spans, Ints]] = {}

    def of(self, piece: int, rank: int, begin_ns: int, end_ns: int) -> Evidence:
        """What is behind one segment; an empty Evidence where the keys do not tell."""
        name = STACK[rank].name if rank >= 0 else ""
        kind, _, part = name.partition(".")
        if kind == "syscall":
            return Evidence(call=self.call(piece))
        spans, _ = self._of_piece(piece)
        behind = (spans.begin_ns <= begin_ns) & (spans.end_ns >= end_ns) & (spans.rank == rank)
        begins, ends = spans.begin_ns[behind], spans.end_ns[behind]
        if kind == "journal":
            return self._commit(piece, begin_ns, end_ns)
        if kind == "device" or part in ("data", "meta", "flush", "stacked"):
            return self._request(piece, begins, ends, begin_ns, end_ns)
        if kind in ("block", "lower") or part == "queue":
            return self._bio(piece, begins, ends, begin_ns, end_ns)
        return Evidence()

    def _of_piece(self, piece: int) -> tuple[Spans, Ints]:
        """The piece's spans, and the requests that carried its bios."""
        if piece not in self._own:
            carried = self._bios.request[self._bio_piece == piece]
            spans = self._spans.where(self._spans.owner == piece)
            self._own[piece] = spans, np.unique(carried[carried >= 0])
        return self._own[piece]

    def call(self, piece: int) -> str | None:
        """The system call that a piece is; None for a request, or where it was not seen."""
        pieces, calls = self._window.pieces, self._calls
        same = (calls["tid"] == pieces.tid[piece]) & (calls["time_ns"] == pieces.end_ns[piece])
        same &= calls["enter_ns"] == pieces.begin_ns[piece]
        rows = np.flatnonzero(same)
        return CALLS.get(int(calls["call"][rows[0]])) if len(rows) else None

    def _request(
        self, piece: int, begins: Ints, ends: Ints, begin_ns: int, end_ns: int
    ) -> Evidence:
        requests = self._requests
        at_work = (requests.issue_ns <= begin_ns) & (requests.complete_ns >= end_ns)
        rows = np.flatnonzero(at_work)
        rows = rows[_among((requests.issue_ns[rows],), begins)
                    | _among((requests.complete_ns[rows],), ends)]  # fmt: skip
        if not len(rows):
            return self._bio(piece, begins, ends, begin_ns, end_ns)
        mine = rows[np.isin(rows, self._of_piece(piece)[1])]
        return self._of_request(requests, mine if len(mine) else rows)

    def _of_request(self, requests: Requests, rows: Ints) -> Evidence:
        row = rows[0]
        sector = int(requests.sector[row])
        return Evidence(
            device=self._device(requests.device_key[row]),
            sector=None if requests.flush[row] or sector == NO_SECTOR else sector,
            size_bytes=int(requests.size_bytes[row]) or None,
            request_key=int(requests.key[row]) & 0xFFFF_FFFF_FFFF_FFFF,
            more=len(rows) - 1,
        )

    def _bio(self, piece: int, begins: Ints, ends: Ints, begin_ns: int, end_ns: int) -> Evidence:
        bios, requests = self._bios, self._requests
        at_work = (bios.queue_ns <= begin_ns) & (bios.life_end_ns >= end_ns)
        rows = np.flatnonzero(at_work)
        starts = (bios.queue_ns[rows], bios.get_ns[rows], bios.insert_ns[rows])
        rows = rows[_among(starts, begins)]
        if len(mine := rows[self._bio_piece[rows] == piece]):
            rows = mine
        if not len(rows):
            return Evidence()
        row = rows[0]
        request = int(bios.request[row])
        return Evidence(
            device=self._device(bios.device_key[row]),
            sector=int(bios.sector[row]) if bios.size_bytes[row] else None,
            size_bytes=int(bios.size_bytes[row]) or None,
            request_key=int(requests.key[request]) & 0xFFFF_FFFF_FFFF_FFFF
            if request >= 0
            else None,
            more=len(rows) - 1,
        )

    def _commit(self, piece: int, begin_ns: int, end_ns: int) -> Evidence:
        commits = self._window.commits
        here = commits.device_key == self._window.pieces.device_key[piece]
        at_work = (commits.begin_ns <= begin_ns) & (commits.end_ns >= end_ns)
        rows = np.flatnonzero(here & (at_work | (commits.begin_ns == end_ns)))
        if not len(rows):
            return Evidence()
        transaction = int(commits.transaction[rows[0]])
        return Evidence(
            device=self._device(commits.device_key[rows[0]]),
            transaction=transaction if transaction >= 0 else None,
        )

    def _device(self, key: np.int64) -> str:
        return self._window.trace.facts.device_name(int(key))


def _among(columns: tuple[Ints, ...], times: Ints) -> NDArray[np.bool_]:
    found = np.zeros(len(columns[0]), np.bool_)
    for column in columns:
        found |= np.isin(column, times)
    return found
