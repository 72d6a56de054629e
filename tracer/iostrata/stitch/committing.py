# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: COMMITs that the kernel makes behind direct writes in, whose each is out.

Of older recordings, which do not tell that by a key (``keyed``). What an asynchronous request
writes past the page cache in several WRITEs is unstable. When the last of them is answered, a
worker of the kernel's makes a COMMIT for that request, behind which it is complete
(nfs_direct_write_complete of fs/nfs/direct.c).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from iostrata.columns import Ints, order_of, pair_key
from iostrata.stitch.calls import Pieces
from iostrata.stitch.rpc import Calls
from iostrata.trace.layout import NFS_COMMIT, NFS_WRITE

UNSTABLE: Final = 0
"""Of a WRITE: it is not on disk when it is answered, as far as it asks for."""


def owners_of_commits(pieces: Pieces, calls: Calls, owner: Ints) -> Ints:
    """The piece of each call, -1: none, where the others' are known.

    Each request has one, of its file, made behind its WRITEs and answered before it is complete.
    Those that wait for one have them in the order of their WRITEs, as these are worked off: two
    that were let go of at once may have each other's, made at once. None where one may be for
    WRITEs that are nobody's.
    """
    commits = np.flatnonzero((calls.operation == NFS_COMMIT) & (owner < 0))
    writes = np.flatnonzero((calls.operation == NFS_WRITE) & (calls.stable == UNSTABLE))
    asks = (owner[writes] >= 0) & (pieces.request_key[owner[writes]] != 0)
    others, writes = writes[owner[writes] < 0], writes[asks]
    if not len(commits) or not len(writes):
        return owner
    # Of each piece, its WRITE that ended last.
    writes = writes[order_of(owner[writes], calls.end_ns[writes])]
    last = writes[np.append(np.flatnonzero(np.diff(owner[writes])), len(writes) - 1)]
    call = np.concatenate([last, others, commits])
    written = len(last) + len(others)
    time = np.concatenate([calls.end_ns[call[:written]], calls.begin_ns[commits]])
    file = pair_key(calls.device_key, calls.inode)
    found, waiting = owner.copy(), dict[int, list[int]]()
    for row in order_of(time).tolist():
        one = call[row]
        able = waiting.setdefault(int(file[one]), [])
        if row < written:
            able.append(int(owner[one]))
            continue
        if -1 in able:
            able.clear()
        able[:] = [piece for piece in able if pieces.end_ns[piece] >= calls.begin_ns[one]]
        whose = next((n for n in able if pieces.end_ns[n] >= calls.end_ns[one]), -1)
        if whose >= 0:
            able.remove(whose)
        found[one] = whose
    return found
