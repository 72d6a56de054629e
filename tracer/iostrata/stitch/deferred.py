# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: disks whose data a limit holds back below them in, what flushes wait for that out.

A disk begins no flush while it has data that one is for: for five seconds at most, whosever that is
(flush_data_in_flight and FLUSH_PENDING_TIMEOUT of block/blk-flush.c). A loop device's may be held
back on the disk below, by a limit that is none of who asks for the flush.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iostrata.columns import Ints, at, changes, order_of, overlapping
from iostrata.layers import RANK
from iostrata.stitch.blockio import between_flushes
from iostrata.stitch.disks import Disks


@dataclass(frozen=True, eq=False)
class Deferred:
    """``bio``: who asked for a flush; ``held``: the bio that was held back meanwhile."""

    bio: Ints
    held: Ints
    begin_ns: Ints
    end_ns: Ints


def deferred(disks: Disks, owner: Ints) -> Deferred | None:
    """Of the bios that have an owner (``owner``: of each, below 0: none)."""
    bios, requests = disks.bios, disks.requests
    held = np.concatenate([disks.held, disks.rests.bio])
    if not len(held):
        return None
    above = bios.of_root(bios.above)[held]
    flushed = np.zeros(len(requests.key), np.int64)
    flushed[disks.carried.request[bios.wants_flush[disks.carried.bio]]] = 1
    rows = np.flatnonzero(at(flushed, above) > 0)
    if not len(rows):
        return None
    held, device = held[rows], requests.device_key[above[rows]]
    since = np.concatenate([disks.held_ns, disks.rests.since_ns])[rows]
    until = np.concatenate([bios.queue_ns[disks.held], disks.rests.until_ns])[rows]
    order = order_of(device, since)
    held, device = held[order], device[order]
    since, until = _in_turn(device, since[order], until[order])
    asked = np.where(owner >= 0, np.arange(len(bios)), -1)
    waits = between_flushes(bios, requests, disks.carried, disks.flushes, asked)
    bio = waits.owner
    # Before data that no flush goes before, it is that which waits, for a request.
    issued = at(requests.issue_ns, bios.request[bio])
    for_flush = bios.begins_with_flush[bio] | (waits.begin_ns >= issued)
    row = np.flatnonzero(for_flush & (waits.rank != RANK["block.Q2G"]))
    bio, end = bio[row], waits.end_ns[row]
    begin = np.maximum(waits.begin_ns[row], bios.got_ns[bio])
    row, other = overlapping(bios.device_key[bio], begin, end, device, since, until)
    return Deferred(
        bio[row], held[other], np.maximum(begin[row], since[other]),
        np.minimum(end[row], until[other]),
    )  # fmt: skip


def _in_turn(device: Ints, since_ns: Ints, until_ns: Ints) -> tuple[Ints, Ints]:
    """Of times in order of device and begin what none before has: each instant once."""
    first = since_ns.min()
    place = np.cumsum(changes(device)) * (until_ns.max() - first + 1) - first
    before = np.maximum.accumulate(np.append(0, until_ns + place)[:-1]) - place
    return np.maximum(since_ns, before), np.maximum(until_ns, before)
