# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: asynchronous requests in, for which piece each is run: itself, or none; or that
which it is in a chain of io_uring with.

A write that nothing makes durable by itself is no piece. Linked before a sync it is waited for
as a part of that: the sync begins when it is complete. So it is where it is under way as a sync is
submitted that is drained (IOSQE_IO_DRAIN).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, at, order_of
from iostrata.stitch.completions import completion_of, completions
from iostrata.stitch.links import block_of, submission_of, submissions_in
from iostrata.stitch.opcodes import RWF_OF_DRAINED, RWF_OF_LINKED
from iostrata.stitch.taken import handed_at
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
        own_key, begin = pieces.request_key[requests], pieces.begin_ns[requests]
        row = submission_of(window, own_key, begin)
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
        piece = np.where(same, at(own, following), -1)
        drains = (flags & RWF_OF_DRAINED) != 0
        if drains.any():
            piece = np.where(piece < 0, _drained(window, (tid, key, time), drains, own), piece)
        blocks = window.columns("aio_submit", "iocb_key", "enter_ns")
        block = block_of(window, own_key, begin)
        of = np.full(len(blocks["enter_ns"]), -1)
        of[block[block >= 0]] = requests[block >= 0]
        self._submitted = AsOf(
            np.append(key, blocks["iocb_key"]), np.append(time, blocks["enter_ns"])
        )
        self._piece = np.append(piece, of)

    def find(self, key: Ints, time_ns: Ints) -> Ints:
        """Of requests by their keys, at a time after they were submitted."""
        piece = at(self._piece, self._submitted.at_or_before(key, time_ns))
        return np.where(at(self._end_ns, piece) >= time_ns, piece, -1)

    def know(self, key: Ints, time_ns: Ints) -> NDArray[np.bool_]:
        """Whether that was submitted by anybody that is recorded, of a piece or not."""
        found: NDArray[np.bool_] = self._submitted.at_or_before(key, time_ns) >= 0
        return found


def _drained(
    window: Window, submitted: tuple[Ints, Ints, Ints], drains: NDArray[np.bool_], own: Ints
) -> Ints:
    """Of submissions (thread, key, when), in order, the first drained piece behind each that waits
    for it; -1: none does. ``own``: of each, the piece that it is itself.

    It is complete before that is handed over, or is another ring's.
    """
    tid, key, time = submitted
    done = completions(window, "request_key")
    row = completion_of(key, time, done["request_key"], done["time_ns"])
    done_ns = at(done["time_ns"], row)
    place = np.where((own >= 0) & drains, np.arange(len(own)), len(own))
    following = np.minimum.accumulate(place[::-1])[::-1]
    following = np.where(following < len(own), following, -1)
    handed_ns = handed_at(window, at(key, following), at(done_ns, following))
    waits = (at(tid, following) == tid) & (done_ns > at(time, following)) & (done_ns <= handed_ns)
    return np.where(waits, at(own, following), -1)
