# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: calls of the NFS client in, which request each is of by its key out.

What is written or read past the page cache leads to the request that waits for it, whatever thread
makes the call: a worker that does not say at which request it is, one that submits several at once,
or the kernel's that commits what their WRITEs left unstable.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, at
from iostrata.stitch.chains import Chains
from iostrata.stitch.rpc import Calls
from iostrata.stitch.window import Window


def owners_by_key(window: Window, calls: Calls, owner: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """The piece of each call, -1: none, where that is known by the threads that made them; and
    which calls are for what is known to be no piece.

    A key is of what was submitted with it last. What was not submitted here (a system call's write,
    a loop device's) has those that its thread makes, and whatever has the same key.
    """
    rows, foreign = np.flatnonzero(calls.request_key), np.zeros(len(calls), np.bool_)
    if not len(rows):
        return owner, foreign
    chains = Chains(window, np.flatnonzero(window.pieces.request_key != 0))
    key, begin = calls.request_key[rows], calls.begin_ns[rows]
    known, piece = chains.know(key, begin), chains.find(key, begin)
    foreign[rows] = known & (piece < 0)
    piece = np.where(known, piece, owner[rows])
    made = np.flatnonzero(~known & (piece >= 0))
    same = at(piece[made], AsOf(key[made], begin[made]).at_or_before(key, begin))
    rest = (piece < 0) & (at(window.pieces.end_ns, same) >= begin)
    told = owner.copy()
    told[rows] = np.where(rest, same, piece)
    return told, foreign
