# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: what an OSD of Ceph tells in, its operations that others did, untold, out.

In a pool with erasure coding others have a part each. They are asked, and answer, by messages of
which is not told; but whose thread is at one as an operation is done, waited for that. An OSD of a
cache tier may hand an operation on to others, as a client.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, at, overlapping
from iostrata.stitch.calls import Pieces
from iostrata.stitch.osd import OSD_OP, Transactions, messages_of
from iostrata.stitch.spans import NO_SPANS, SpanList, Spans
from iostrata.stitch.window import Window


@dataclass(frozen=True, eq=False)
class Elsewhere:
    """Pieces (rows) that waited for others, since when at the earliest, and until when.

    ``handed``: it was handed on as a whole; else these had parts of it.
    """

    piece: Ints
    since_ns: Ints
    until_ns: Ints
    handed: NDArray[np.bool_]


def elsewhere(window: Window, pieces: Pieces) -> Elsewhere:
    parts, handed = _in_parts(window, pieces), _handed_on(window, pieces)
    piece, since_ns, until_ns = (
        np.concatenate(columns) for columns in zip(parts, handed, strict=True)
    )
    kind = np.repeat([False, True], [len(parts[0]), len(handed[0])])
    return Elsewhere(piece, since_ns, until_ns, kind)


def spans_elsewhere(window: Window, transactions: Transactions) -> Spans:
    """As long as nothing is known of the OSD's own store any more."""
    if not len(window.trace.points["osd_message"]):
        return NO_SPANS
    spans, found = SpanList(), elsewhere(window, window.pieces)
    last = np.full(len(window.pieces), -1)
    np.maximum.at(last, transactions.piece, transactions.done_ns)
    since_ns = np.maximum(found.since_ns, last[found.piece])
    spans.add(found.piece, "osd.elsewhere", since_ns, found.until_ns)
    return spans.collect()


def _in_parts(window: Window, pieces: Pieces) -> tuple[Ints, Ints, Ints]:
    """Until a thread was at the message amid which it was done, of which nothing else is told."""
    replied = window.columns("osd_reply", "tid", "op_key")
    work = window.columns("osd_work", "tid", "request_key")
    told = window.columns("osd_message", "op_key")
    last = AsOf(work["tid"], work["time_ns"]).at_or_before(replied["tid"], replied["time_ns"])
    key, taken = at(work["request_key"], last), at(work["time_ns"], last)
    message = AsOf(told["op_key"], told["time_ns"]).at_or_before(key, taken)
    before = AsOf(work["request_key"], work["time_ns"]).at_or_before(key, taken - 1)
    # A place in memory is used again: of what was taken up before, no other is told.
    known = (message >= 0) & (at(work["time_ns"], before) < at(told["time_ns"], message))
    rows = np.flatnonzero((key > 0) & (key != replied["op_key"]) & ~known)
    mine = AsOf(pieces.request_key, pieces.begin_ns).at_or_before(
        replied["op_key"][rows], replied["time_ns"][rows]
    )
    fits = (mine >= 0) & (at(pieces.end_ns, mine) >= replied["time_ns"][rows])
    piece, until_ns = mine[fits], taken[rows[fits]]
    return piece, _rested(window, pieces, piece), until_ns


def _handed_on(window: Window, pieces: Pieces) -> tuple[Ints, Ints, Ints]:
    """Those that were never done here, while their OSD sent others something as a client."""
    sent = messages_of(window, "osd_written", OSD_OP)
    if not len(sent["time_ns"]):
        none = np.zeros(0, np.int64)
        return none, none, none
    told = window.columns("osd_message", "op_key", "tgid", "type")
    first = AsOf(told["op_key"], told["time_ns"]).at_or_before(pieces.request_key, pieces.begin_ns)
    replied = window.columns("osd_reply", "op_key")
    begun = window.columns("bluestore_begin", "op_key")
    own = (first >= 0) & (at(told["type"], first) == OSD_OP)
    for done in (replied, begun):
        found = AsOf(done["op_key"], done["time_ns"]).at_or_after(
            pieces.request_key, pieces.begin_ns
        )
        own &= (found < 0) | (at(done["time_ns"], found) > pieces.end_ns)
    rows = np.flatnonzero(own)
    process = at(told["tgid"], first)[rows]
    of, _ = overlapping(
        process, pieces.begin_ns[rows], pieces.end_ns[rows],
        sent["tgid"], sent["time_ns"], sent["time_ns"] + 1,
    )  # fmt: skip
    piece = rows[np.unique(of)]
    return piece, _rested(window, pieces, piece), pieces.end_ns[piece]


def _rested(window: Window, pieces: Pieces, piece: Ints) -> Ints:
    """When the thread that took some pieces up had done what it could."""
    work = window.columns("osd_work", "tid")
    begin = pieces.begin_ns[piece]
    found = AsOf(work["tid"], work["time_ns"]).at_or_after(pieces.tid[piece], begin + 1)
    rested = np.where(found >= 0, at(work["time_ns"], found), begin)
    return np.minimum(rested, pieces.end_ns[piece])
