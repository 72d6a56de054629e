# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: io_uring's chains in, for which piece each request of one is run.

A write that nothing makes durable by itself is no piece. Linked before a sync it is waited for
as a part of that: the sync begins when it is complete.
"""

from __future__ import annotations

import numpy as np

from iostrata.columns import AsOf, Ints, at, order_of
from iostrata.stitch.links import submission_of, submissions_in
from iostrata.stitch.opcodes import RWF_OF_LINKED
from iostrata.stitch.window import Window


class Chains:
    """Looks up the piece (row, -1: none) for which a request is run."""

    def __init__(self, window: Window, requests: Ints) -> None:
        """``requests``: the pieces that are requests."""
        pieces = window.pieces
        self._end_ns = pieces.end_ns
        submitted = submissions_in(window, "tid", "request_key", "rwf")
        order = order_of(submitted["tid"], submitted["time_ns"])
        tid, key, time, flags = (
            submitted[name][order] for name in ("tid", "request_key", "time_ns", "rwf")
        )
        row = submission_of(window, pieces.request_key[requests], pieces.begin_ns[requests])
        of = np.full(len(key), -1)
        of[row[row >= 0]] = requests[row >= 0]
        own = of[order]
        # A chain goes on behind each request that is linked to the thread's next one.
        new = np.ones(len(key), np.bool_)
        new[1:] = ((flags[:-1] & RWF_OF_LINKED) == 0) | (tid[1:] != tid[:-1])
        chain = np.cumsum(new, dtype=np.int64)
        place = np.where(own >= 0, np.arange(len(own)), len(own))
        following = np.minimum.accumulate(place[::-1])[::-1]
        following = np.where(following < len(own), following, -1)
        same = at(chain, following) == chain
        self._submitted = AsOf(key, time)
        self._piece = np.where(same, at(own, following), -1)

    def find(self, key: Ints, time_ns: Ints) -> Ints:
        """Of requests by their keys, at a time after they were submitted."""
        piece = at(self._piece, self._submitted.at_or_before(key, time_ns))
        return np.where(at(self._end_ns, piece) >= time_ns, piece, -1)
