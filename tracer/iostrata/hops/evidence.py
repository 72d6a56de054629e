# SPDX-License-Identifier: Apache-2.0
"""Hops: lifted spans and a stretch of a piece's time in, what is behind it out.

A span says which of its machine's own spans it is a copy of, and that one what it
asked of a device or of another machine: a request, a call. What has no request yet (a
bio in the queue) or is more than one (a commit) is behind a stretch when it was at
work throughout, and a span there begins to the nanosecond where it did.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from iostrata.columns import Ints, distinct
from iostrata.hops.graph import Graph
from iostrata.hops.hop import READ_MARK, Link
from iostrata.hops.lift import Lifted, View
from iostrata.layers import HOPS, SOURCE, STACK
from iostrata.model import Evidence
from iostrata.stitch import (
    FUSE_REQUEST,
    NINEP_REQUEST,
    OSD_REQUEST,
    UNASKED,
    Owners,
    Spans,
    bios_of,
    calls_of,
    requests_of,
)
from iostrata.trace import layout

NO_SECTOR: Final = -1
"""The sector of a flush, which has none."""
NOTHING: Final = Evidence()
ROUNDED_NS: Final = 8
"""Times that only the rounding from clock to clock keeps apart are no farther."""
NO_PLACE: Final = -1
"""The offset of what does not tell it."""
UNTOLD: Final = 0
"""The device of a piece whose events do not name it."""
KEY_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF
CALLS: Final = {
    number: name.removeprefix("CALL_").lower()
    for name, number in vars(layout).items()
    if name.startswith("CALL_")
}


class Witnesses:
    """What the events of all machines on the way say about the top one's pieces."""

    def __init__(self, graph: Graph, lifted: Lifted) -> None:
        self._graph, self._lifted = graph, lifted
        self._firsts = np.array([view.first for view in lifted.views])
        self._witnesses: dict[int, Witness] = {}
        self._of_piece: dict[int, Spans] = {}

    def call(self, piece: int) -> str | None:
        """The system call that a piece is; None for a request, or where it was not seen."""
        return self._witness(0).call(piece)

    def of(self, piece: int, rank: int, begin_ns: int, end_ns: int) -> Evidence:
        """What is behind one segment; an empty Evidence where the keys do not tell."""
        if rank < 0:
            return NOTHING
        own_rank = SOURCE[rank % len(STACK)]
        numbers = self._numbers(piece, rank, begin_ns, end_ns)
        found = self._behind(numbers, own_rank, begin_ns, end_ns)
        if own_rank >= len(HOPS):
            return found
        link = self._graph.link_of(rank)
        return replace(found, hop=link.hop.name, bound_ns=link.clock.bound_ns)

    def _numbers(self, piece: int, rank: int, begin_ns: int, end_ns: int) -> Ints:
        """Of the spans of that rank which were at work throughout."""
        if piece not in self._of_piece:
            spans = self._lifted.spans
            self._of_piece[piece] = spans.where(spans.owner == piece)
        spans = self._of_piece[piece]
        covers = (spans.begin_ns <= begin_ns) & (spans.end_ns >= end_ns) & (spans.rank == rank)
        numbers = distinct(spans.of[covers])
        return numbers[numbers >= 0]

    def _behind(self, numbers: Ints, rank: int, begin_ns: int, end_ns: int) -> Evidence:
        if not len(numbers):
            return NOTHING
        place = np.searchsorted(self._firsts, numbers, side="right") - 1
        number = int(place[0])
        rows = numbers[place == number] - self._firsts[number]
        witness = self._witness(number)
        if rank < len(HOPS):
            return witness.asked(rows)
        way = self._lifted.views[number].way
        times = np.array([begin_ns, end_ns])
        for link in way:
            times = link.clock.to_lower(times)
        # Rounded once a clock: what begins and ends there is meant, too.
        found = witness.of(rows, int(times[0]) + len(way), int(times[1]) - len(way))
        if way and STACK[rank].name == way[-1].hop.floor:
            return _served(found, way[-1], witness.piece(rows))
        return found

    def _witness(self, number: int) -> Witness:
        if number not in self._witnesses:
            self._witnesses[number] = Witness(self._lifted.views[number])
        return self._witnesses[number]


def _served(found: Evidence, link: Link, piece: int) -> Evidence:
    """With the place that was asked for."""
    (rows,) = np.nonzero(link.serves.piece == piece)
    offset = int(link.serves.offset_bytes[rows[0]])
    if offset == NO_PLACE:
        return found
    size = int(link.serves.size_bytes[rows[0]]) or None
    place = offset & ~int(READ_MARK)
    return replace(found, offset_bytes=place if size else None, size_bytes=size)


class Witness:
    """What one machine's events say about its own spans (``rows`` of the view's)."""

    def __init__(self, view: View) -> None:
        self._window, self._spans, self._rows = view.window, view.spans, view.rows
        self._requests, completed = requests_of(view.window)
        self._bios, _ = bios_of(view.window, self._requests, completed)
        self._calls = calls_of(view.window)
        self._bio_piece = Owners(view.window).find(self._bios.tid, self._bios.queue_ns)
        self._entered = view.window.columns("syscall", "tid", "enter_ns", "call")
        self._served = view.window.columns("svc_call", "tid", "xid", "connection")

    def of(self, rows: Ints, begin_ns: int, end_ns: int) -> Evidence:
        """What was behind spans of one rank throughout a time, in this machine's clock."""
        name = STACK[self._spans.rank[rows[0]]].name
        piece = int(self._spans.owner[rows[0]])
        kind = name.partition(".")[0]
        if kind == "syscall":
            return Evidence(call=self.call(piece))
        if kind == "svc":
            return self._service(piece)
        if kind == "journal":
            return self._commit(piece, begin_ns, end_ns)
        asks = not UNASKED[self._spans.rank[rows[0]]]
        if asks and (self._spans.of[rows] >= 0).any():
            return self.asked(rows)
        if kind in ("block", "lower", "device", "timed"):
            return self._bio(piece, self._spans.begin_ns[rows], begin_ns, end_ns)
        return NOTHING

    def asked(self, rows: Ints) -> Evidence:
        """The request or the call that spans of a device, or of a call, are of."""
        asked = distinct(self._spans.of[rows])
        asked = asked[asked >= 0]
        if not len(asked):
            return NOTHING
        requests, first = self._requests, int(asked[0])
        if first >= len(requests.key):
            call = first - len(requests.key)
            if self._calls.operation[call] >= OSD_REQUEST:
                return NOTHING
            if self._calls.operation[call] >= NINEP_REQUEST:
                size = int(self._calls.size_bytes[call]) or None
                offset = int(self._calls.offset_bytes[call])
                return Evidence(offset_bytes=offset if size else None, size_bytes=size)
            if self._calls.operation[call] >= FUSE_REQUEST:
                return Evidence(unique=int(self._calls.xid[call]))
            return Evidence(
                xid=int(self._calls.xid[call]), connection=int(self._calls.connection[call])
            )
        sector = int(requests.sector[first])
        return Evidence(
            device=self._device(requests.device_key[first]),
            sector=None if requests.flush[first] or sector == NO_SECTOR else sector,
            size_bytes=int(requests.size_bytes[first]) or None,
            request_key=int(requests.key[first]) & KEY_MASK,
            more=len(asked) - 1,
        )

    def piece(self, rows: Ints) -> int:
        """Which of the node's pieces some spans are of."""
        return int(self._rows[self._spans.owner[rows[0]]])

    def call(self, piece: int) -> str | None:
        """The system call that a piece is; None for a request, or where it was not seen."""
        pieces, calls = self._window.pieces, self._entered
        same = (calls["tid"] == pieces.tid[piece]) & (calls["time_ns"] == pieces.end_ns[piece])
        same &= calls["enter_ns"] == pieces.begin_ns[piece]
        rows = np.flatnonzero(same)
        return CALLS.get(int(calls["call"][rows[0]])) if len(rows) else None

    def _service(self, piece: int) -> Evidence:
        pieces, served = self._window.pieces, self._served
        same = (served["tid"] == pieces.tid[piece]) & (served["time_ns"] == pieces.end_ns[piece])
        rows = np.flatnonzero(same)
        if not len(rows):
            return NOTHING
        return Evidence(
            xid=int(served["xid"][rows[0]]), connection=int(served["connection"][rows[0]])
        )

    def _bio(self, piece: int, begins: Ints, begin_ns: int, end_ns: int) -> Evidence:
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
            request_key=int(requests.key[request]) & KEY_MASK if request >= 0 else None,
            more=len(rows) - 1,
        )

    def _commit(self, piece: int, begin_ns: int, end_ns: int) -> Evidence:
        commits = self._window.commits
        device_key = self._window.pieces.device_key[piece]
        # What was served does not tell its file system: a commit must be the only one then.
        here = (commits.device_key == device_key) | (device_key == UNTOLD)
        at_work = (commits.begin_ns <= begin_ns) & (commits.end_ns >= end_ns)
        begins = np.abs(commits.begin_ns - end_ns) <= ROUNDED_NS
        rows = np.flatnonzero(here & (at_work | begins))
        if not len(rows) or (device_key == UNTOLD and len(rows) > 1):
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
