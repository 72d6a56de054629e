# SPDX-License-Identifier: Apache-2.0
"""Hops: whom a program that serves a disk from a file served in, without its other clients out.

Others may have the same file for their disk, whom nobody records: what they write or read is at
places that this machine did not ask for meanwhile. A sync has no place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints, distinct, integers, joined, one_of, overlapping
from iostrata.hops.blocks import SECTOR_BYTES
from iostrata.hops.hop import READ_MARK, Link, Pairs
from iostrata.hops.images import image_files_of
from iostrata.stitch import OP_READ, requests_of, whole

RIVAL: Final = 2
"""A process of which that many times less was asked for than of another is for somebody else."""


def of_this_client(link: Link) -> Pairs:
    """The link's pairs, without syncs of processes that serve others, each one its own client.

    Where one process serves several, a sync is a flush's if none beside it can be: else nothing
    tells whose it is. An image that is not raw has syncs, and writes elsewhere, of its own.
    """
    pairs, asks, serves = link.pairs, link.asks, link.serves
    flush = asks.shared[pairs.ask]
    images = integers(list(image_files_of(link.lower.trace)))
    kept, doubted = np.ones(len(flush), np.bool_), np.zeros(len(asks), np.bool_)
    for disk in distinct(asks.group[pairs.ask[~flush]] & ~READ_MARK).tolist():
        mine = (asks.group & ~READ_MARK) == disk
        keyed, asked_for = _asked_for(link, mine)
        others = _others(serves.agent[keyed], asked_for)
        rows = np.flatnonzero(flush & mine[pairs.ask])
        kept[rows] = ~one_of(serves.agent[pairs.serve[rows]], others)
        rows = rows[kept[rows]]
        # Whose a process is that only syncs, nothing tells where others are there, too.
        untold = ~one_of(serves.agent[pairs.serve[rows]], serves.agent[keyed])
        strange = ~asked_for & ~one_of(serves.agent[keyed], others)
        strange &= ~one_of(serves.group[keyed] & ~READ_MARK, images)
        if strange.any() or (len(others) and untold.any()):
            kept[rows] = _sole(link, rows)
            doubted[asks.shared & mine] = True
    doubted[pairs.ask[kept & flush]] = False
    return Pairs(
        pairs.ask[kept], pairs.serve[kept], pairs.since_ns[kept], pairs.crossing,
        pairs.ambiguous | doubted,
    )  # fmt: skip


def _asked_for(link: Link, mine: NDArray[np.bool_]) -> tuple[Ints, NDArray[np.bool_]]:
    """What was done, while this machine asked a disk for anything, to the file that the disk is:
    rows of the serves, and which of them are at a place that it then asked for.

    ``mine``: of the asks, those of the disk.
    """
    pairs, asks, serves = link.pairs, link.asks, link.serves
    asked = _places_of(link, mine)
    tied = mine[pairs.ask] & ~asks.shared[pairs.ask]
    files = distinct(serves.group[pairs.serve[tied]] & ~READ_MARK)
    before, behind = link.clock.slack
    begin, end = asked.begin_ns - behind, asked.end_ns - before
    keyed = ~serves.shared & one_of(serves.group & ~READ_MARK, files)
    keyed &= (link.begin_ns < end.max()) & (link.end_ns > begin.min())
    serve = np.flatnonzero(keyed)
    one, other = overlapping(
        asked.mark, begin, end,
        serves.group[serve] & READ_MARK, link.begin_ns[serve], link.end_ns[serve],
    )  # fmt: skip
    another = serve[other]
    first = np.maximum(asked.offset_bytes[one], serves.offset_bytes[another])
    until = np.minimum(asked.offset_bytes[one] + asked.size_bytes[one],
                       serves.offset_bytes[another] + serves.size_bytes[another])  # fmt: skip
    found = np.zeros(len(serve), np.bool_)
    found[other[first < until]] = True
    return serve, found


@dataclass(frozen=True, eq=False)
class _Places:
    """What a disk was asked for; ``mark``: READ_MARK, of what reads."""

    begin_ns: Ints
    end_ns: Ints
    mark: Ints
    offset_bytes: Ints
    size_bytes: Ints


def _places_of(link: Link, mine: NDArray[np.bool_]) -> _Places:
    """Also of requests whose connection ended: they may have been carried out before that.

    ``mine``: of the asks, those of the disk.
    """
    asks = link.asks.rows(np.flatnonzero(mine & ~link.asks.shared))
    places = _Places(
        asks.begin_ns, asks.end_ns, asks.group & READ_MARK, asks.offset_bytes, asks.size_bytes
    )
    if not len(link.upper.points["block_rq_requeue"]):
        return places
    requests = requests_of(whole(link.upper))[0]
    disks = distinct(requests.device_key[one_of(requests.key, distinct(asks.identity))])
    back = np.flatnonzero(requests.returned & ~requests.flush & one_of(requests.device_key, disks))
    given = _Places(
        requests.issue_ns[back],
        requests.complete_ns[back],
        np.where(requests.operation[back] == OP_READ, READ_MARK, 0),
        requests.sector[back] * SECTOR_BYTES,
        requests.size_bytes[back],
    )
    return _Places(**joined([places, given]))


def _others(agent: Ints, asked_for: NDArray[np.bool_]) -> Ints:
    """The processes that serve other clients: this one asked for little of what they did."""
    processes, number = np.unique(agent, return_inverse=True)
    share = np.bincount(number, asked_for) / np.maximum(np.bincount(number), 1)
    others: Ints = processes[RIVAL * share <= share.max(initial=0)]
    return others


def _sole(link: Link, rows: Ints) -> NDArray[np.bool_]:
    """Which of some pairs of flushes are the only ones that can have been all of theirs: the sync
    began once it was asked for, and was over when that was heard of."""
    pairs, asks = link.pairs, link.asks
    ask, serve = pairs.ask[rows], pairs.serve[rows]
    before, behind = link.clock.slack
    sent = np.where(asks.told_ns[ask] >= 0, asks.told_ns[ask], asks.begin_ns[ask])
    heard = np.where(asks.heard_ns[ask] >= 0, asks.heard_ns[ask], asks.end_ns[ask])
    inside = (link.begin_ns[serve] + behind >= sent) & (link.end_ns[serve] + before <= heard)
    count = np.bincount(ask[inside], minlength=len(asks))
    sole: NDArray[np.bool_] = inside & (count[ask] == 1)
    return sole
