# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: calls of the NFS client in, which asynchronous request each is of by its place out.

Of older recordings, which do not tell that by its key (``keyed``). Whatever thread makes them: one
that submits several requests at once, or a worker of io_uring that runs one after the other, says
at most in between at which of them it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, at, order_of, pair_key
from iostrata.stitch.calls import Pieces, appends, are_direct
from iostrata.stitch.links import SUBMIT, block_of, submission_of, submissions_in
from iostrata.stitch.rpc import Calls
from iostrata.stitch.window import Window
from iostrata.trace.layout import NFS_READ, NFS_WRITE

TOLD = ("inode", "dev", "offset_bytes", "size_bytes", "open_flags", "rwf")


def owners_by_place(window: Window, calls: Calls, owner: Ints) -> Ints:
    """The piece of each call, -1: none, where that is known by the threads that made them.

    A request that passes the page cache has calls of its own, one behind the other, as many as it
    takes from its place to its end. What it does not reach is not its own.
    """
    kind = NFS_WRITE if window.reads is None else NFS_READ
    rows, requests = np.flatnonzero(calls.operation == kind), _requests(window.pieces)
    if not len(rows) or not len(requests):
        return owner
    places = _places_of(window, requests)
    rows = rows[order_of(calls.tid[rows], calls.begin_ns[rows])]
    made = calls.rows(rows)
    file, offset = pair_key(made.device_key, made.inode), made.offset_bytes
    known = np.flatnonzero(places.known)
    starts = pair_key(pair_key(places.device_key, places.inode), places.offset_bytes)[known]
    begun = AsOf(starts, window.pieces.begin_ns[known])
    first = at(known, begun.at_or_before(pair_key(file, offset), made.begin_ns))
    first = np.where(places.hold(first, made), first, -1)
    new = first >= 0
    new[0] = True
    new[1:] |= (made.tid[1:] != made.tid[:-1]) | (file[1:] != file[:-1])
    new[1:] |= offset[1:] != (offset + made.size_bytes)[:-1]
    found = first[new][np.cumsum(new) - 1]
    found = np.where(places.hold(found, made), found, -1)
    own = owner[rows]
    # Two may write to one place at a time: each thread's own, then.
    apart = places.known[own] & (own >= 0) & ~places.hold(own, made)
    told = owner.copy()
    told[rows] = np.where((own < 0) | apart, found, own)
    return told


def _requests(pieces: Pieces) -> Ints:
    return np.flatnonzero(pieces.request_key != 0)


@dataclass(frozen=True, eq=False)
class _Places:
    """Where each of ``pieces`` writes or reads past the page cache, if that is ``known``.

    ``size_bytes`` 0: it is not known how much.
    """

    pieces: Pieces
    known: NDArray[np.bool_]
    device_key: Ints
    inode: Ints
    offset_bytes: Ints
    size_bytes: Ints

    def hold(self, piece: Ints, calls: Calls) -> NDArray[np.bool_]:
        """Whether each piece, -1: none, may have made the call."""
        size, since = self.size_bytes[piece], calls.offset_bytes - self.offset_bytes[piece]
        held: NDArray[np.bool_] = (piece >= 0) & self.known[piece] & (since >= 0)
        held &= (size == 0) | (since + calls.size_bytes <= size)
        held &= (self.device_key[piece] == calls.device_key) & (self.inode[piece] == calls.inode)
        held &= self.pieces.begin_ns[piece] <= calls.begin_ns
        return held & (self.pieces.end_ns[piece] >= calls.end_ns)


def _places_of(window: Window, requests: Ints) -> _Places:
    pieces = window.pieces
    key, begin = pieces.request_key[requests], pieces.begin_ns[requests]
    submitted = window.columns(SUBMIT, *TOLD)
    # What was submitted before the window is not told of here.
    early = len(submissions_in(window)["time_ns"]) - len(submitted["time_ns"])
    row = np.maximum(submission_of(window, key, begin) - early, -1)
    row = np.where(at(submitted["time_ns"], row) <= pieces.end_ns[requests], row, -1)
    blocks = window.columns("aio_submit", *TOLD)
    block = block_of(window, key, begin)
    told = {
        name: np.where(row >= 0, at(submitted[name], row), at(blocks[name], block)) for name in TOLD
    }
    flags = told["open_flags"]
    known = ((row >= 0) | (block >= 0)) & (told["inode"] > 0) & (told["offset_bytes"] >= 0)
    known &= are_direct(window.trace, flags) & ~appends(flags, told["rwf"])
    every = {name: np.zeros(len(pieces), np.int64) for name in TOLD}
    for name, column in every.items():
        column[requests] = told[name]
    are_known = np.zeros(len(pieces), np.bool_)
    are_known[requests] = known
    return _Places(
        pieces, are_known, every["dev"], every["inode"], every["offset_bytes"], every["size_bytes"]
    )
