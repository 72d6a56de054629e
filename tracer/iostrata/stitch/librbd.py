# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: what programs ask of disks of Ceph by its library (librbd) in, and its operations.

A request is answered in its own time, and made of operations on objects, whose numbers the OSDs
know. Which request one is of, its place on the disk tells: the library tells nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, at, overlapping, pair_key
from iostrata.stitch.rpc import LIBRBD_REQUEST, Calls, calls_elsewhere
from iostrata.stitch.spans import SpanList, Spans
from iostrata.stitch.window import Window

OBJECT_BYTES: Final = 1 << 22
"""What an object holds, unless its disk was made otherwise: then no operation is tied."""


@dataclass(frozen=True, eq=False)
class ImageRequests:
    """What was asked of disks: one row each, times in ns; ``end_ns`` -1: not answered."""

    key: Ints
    image: Ints
    tid: Ints
    tgid: Ints
    offset_bytes: Ints
    size_bytes: Ints
    flush: NDArray[np.bool_]
    begin_ns: Ints
    end_ns: Ints

    def __len__(self) -> int:
        return len(self.key)

    def rows(self, rows: Ints) -> ImageRequests:
        return ImageRequests(**{name: column[rows] for name, column in vars(self).items()})


@dataclass(frozen=True, eq=False)
class ImageOperations:
    """Operations that were answered: one row each, times in ns.

    ``osd``: which answered. ``waiting``: the request that is answered once it is, as a row of
    these, -1: not known, or none. ``early``: what it is of was answered before it.
    """

    number: Ints
    client: Ints
    osd: Ints
    tid: Ints
    tgid: Ints
    send_ns: Ints
    reply_ns: Ints
    waiting: Ints
    early: NDArray[np.bool_]

    @property
    def key(self) -> Ints:
        return pair_key(self.number, self.tgid)


def image_requests_of(window: Window) -> ImageRequests:
    asked = window.columns("librbd_request", "tid", "tgid", "request_key", "image_key",
                           "offset_bytes", "size_bytes", "flushes")  # fmt: skip
    done = window.columns("librbd_done", "request_key")
    found = AsOf(done["request_key"], done["time_ns"]).at_or_after(
        asked["request_key"], asked["time_ns"]
    )
    return ImageRequests(
        key=asked["request_key"],
        image=asked["image_key"],
        tid=asked["tid"],
        tgid=asked["tgid"],
        offset_bytes=asked["offset_bytes"],
        size_bytes=asked["size_bytes"],
        flush=asked["flushes"] > 0,
        begin_ns=asked["time_ns"],
        end_ns=np.where(found >= 0, at(done["time_ns"], found), -1),
    )


def image_operations_of(window: Window) -> ImageOperations:
    """Those that write. One that is sent again is the one sent last."""
    sent = window.columns("librbd_sent", "tid", "tgid", "number", "client", "object",
                          "offset_bytes", "size_bytes")  # fmt: skip
    answered = window.columns("librbd_answered", "tgid", "number", "osd_number")
    key = pair_key(sent["number"], sent["tgid"])
    answer = AsOf(pair_key(answered["number"], answered["tgid"]), answered["time_ns"])
    found = answer.at_or_after(key, sent["time_ns"])
    later = AsOf(key, sent["time_ns"]).at_or_after(key, sent["time_ns"] + 1)
    again = (later >= 0) & (at(found, later) == found)
    # Two clients of one process number theirs alike.
    mixed = found[again & (at(sent["client"], later) != sent["client"])]
    rows = np.flatnonzero((found >= 0) & ~again & ~np.isin(found, mixed))
    told, found = {name: column[rows] for name, column in sent.items()}, found[rows]
    requests, reply_ns = image_requests_of(window), answered["time_ns"][found]
    place = told["object"] * OBJECT_BYTES + told["offset_bytes"]
    waiting, early = _requests_of(requests, told["tgid"], told["time_ns"], place, reply_ns)
    return ImageOperations(
        number=told["number"],
        client=told["client"],
        osd=answered["osd_number"][found],
        tid=told["tid"],
        tgid=told["tgid"],
        send_ns=told["time_ns"],
        reply_ns=reply_ns,
        waiting=waiting,
        early=early,
    )


def _requests_of(
    requests: ImageRequests, tgid: Ints, send_ns: Ints, place: Ints, reply_ns: Ints
) -> tuple[Ints, NDArray[np.bool_]]:
    """Which requests wait for operations: a write to that place, from before it was sent until
    after it was answered; or a flush. And whether no write does.
    """
    until = np.where(requests.end_ns >= 0, requests.end_ns, np.iinfo(np.int64).max - 1)
    row, other = overlapping(tgid, reply_ns, reply_ns + 1, requests.tgid, requests.begin_ns, until)
    offset = place[row] - requests.offset_bytes[other]
    flushes = requests.flush[other]
    here = ~flushes & (offset >= 0) & (offset < requests.size_bytes[other])
    here &= requests.begin_ns[other] <= send_ns[row]
    count = np.bincount(row[here], minlength=len(place))
    write, flush = np.full(len(place), -1), np.full(len(place), -1)
    write[row[here]], flush[row[flushes]] = other[here], other[flushes]
    write[count > 1] = -1
    return np.where(count > 0, write, flush), count == 0


def image_calls_of(window: Window) -> Calls:
    """Each as a call of the thread that sent it; ``inode``: the request that waits for it."""
    made = image_operations_of(window)
    keys = image_requests_of(window).key
    return calls_elsewhere(
        key=made.key,
        tid=made.tid,
        xid=made.number,
        send_ns=made.send_ns,
        reply_ns=made.reply_ns,
        operation=np.full(len(made.number), LIBRBD_REQUEST),
        inode=np.where(made.waiting >= 0, at(keys, made.waiting), 0),
    )


def waiting_for_images(window: Window, calls: Calls, caller: Ints) -> Ints:
    """The piece that waits for each call: of the library's calls the request that does."""
    pieces = window.pieces
    piece = AsOf(pieces.request_key, pieces.begin_ns).at_or_before(calls.inode, calls.reply_ns)
    mine = (calls.inode != 0) & (at(pieces.end_ns, piece) >= calls.reply_ns)
    return np.where(calls.operation >= LIBRBD_REQUEST, np.where(mine, piece, -1), caller)


def spans_of_images(window: Window) -> Spans:
    """The floor of each request: it is with the library."""
    spans, pieces, requests = SpanList(), window.pieces, image_requests_of(window)
    found = AsOf(pieces.request_key, pieces.begin_ns).at_or_before(requests.key, requests.begin_ns)
    own = (found >= 0) & (at(pieces.begin_ns, found) == requests.begin_ns)
    spans.add(np.where(own, found, -1), "librbd", requests.begin_ns, requests.end_ns)
    return spans.collect()
