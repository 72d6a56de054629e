# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: what a stacked device that has requests of its own clones for those below it.

Device mapper's multipath makes of each of its requests one for a path, at the same place; the
clones' bios are queued nowhere (blk_rq_prep_clone, blk_insert_cloned_request), so that nothing but
place and time says what they are for.
"""

from __future__ import annotations

import numpy as np

from iostrata.columns import AsOf, Ints, at, joined, one_of, order_of, pair_key
from iostrata.stitch.begun import QUEUED, Begun, Ends, alive
from iostrata.stitch.requests import Requests
from iostrata.trace import Facts

NOBODY = 0
"""Whoever runs when a clone is issued: it is the request's above."""


def with_cloned(begun: Begun, requests: Requests, ends: Ends, facts: Facts) -> Begun:
    """What began, with a bio for each clone, in order of time: it is for the request that the clone
    was made of."""
    clone, above = _cloned(begun, requests, ends, facts)
    if not len(clone):
        return begun
    none, zero, flush = np.full(len(clone), -1), np.zeros_like(clone), requests.flush[clone]
    more = Begun(
        kind=np.full(len(clone), QUEUED),
        key=np.where(flush, requests.key[clone], requests.bio_key[clone]),
        tid=np.full(len(clone), NOBODY),
        time_ns=requests.issue_ns[clone],
        device_key=requests.device_key[clone],
        sector=requests.sector[clone],
        size_bytes=requests.size_bytes[clone],
        flags=requests.operation[clone],
        kernel_thread=np.ones_like(clone),
        above_key=requests.key[above],
        held=zero,
        data_tid=zero,
        parent_key=none,
        old_device_key=none,
        old_sector=none,
        handed_ns=none,
        until_ns=requests.complete_ns[clone],
    )
    every = Begun(**joined([begun, more]))
    return every.rows(order_of(every.time_ns))


def _cloned(begun: Begun, requests: Requests, ends: Ends, facts: Facts) -> tuple[Ints, Ints]:
    """Rows of the requests that carry no bio which is known, each with the one above that had its
    place meanwhile; a flush has none, and is a flush's."""
    found = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    for block in facts.blocks.values():
        # Most are on nothing: their requests need not be looked for.
        if block.backing or not block.lower_keys:
            continue
        own = np.flatnonzero(requests.device_key == block.device_key)
        if not len(own):
            continue
        below = np.array([facts.disk_of(key) for key in block.lower_keys])
        rows = np.flatnonzero(one_of(requests.device_key, below))
        bio = AsOf(begun.key, begun.time_ns).at_or_before(
            requests.bio_key[rows], requests.issue_ns[rows]
        )
        known = alive(begun, ends, bio, requests.issue_ns[rows]) & ~requests.flush[rows]
        known &= at(begun.device_key, bio) == requests.device_key[rows]
        rows = rows[~known]
        place = pair_key(requests.sector, requests.size_bytes)
        last = AsOf(place[own], requests.issue_ns[own])
        above = at(own, last.at_or_before(place[rows], requests.issue_ns[rows]))
        same = (above >= 0) & (at(requests.complete_ns, above) >= requests.complete_ns[rows])
        same &= at(requests.operation, above) == requests.operation[rows]
        found.append((rows[same], above[same]))
    return np.concatenate([one for one, _ in found]), np.concatenate([one for _, one in found])
