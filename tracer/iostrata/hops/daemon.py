# SPDX-License-Identifier: Apache-2.0
"""Hops to daemons: machines' traces in, what a program that serves a disk from a file did out.

It is seen in its system calls only: each is known by its place in the file.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, at, order_of
from iostrata.hops.hop import READ_MARK, Held, Hop, Link, Serves
from iostrata.hops.processes import processes_of, read_by, served_by, some_of, to_no_disk
from iostrata.stitch import Pieces, Reads, SpanList, Spans, sleeps_of, whole
from iostrata.trace import Trace
from iostrata.trace.layout import THREAD_DAEMON


class Daemon(Hop):
    """``server``: the program's name; ``there``, ``back``: the ranks of the way to it and back."""

    server: ClassVar[bytes]
    there: ClassVar[str]
    back: ClassVar[str]
    follows_reads = True

    def serves(self, lower: Trace) -> tuple[Serves, Pieces]:
        return serves_of(lower, self.server, self.reads)

    def to_no_disk(self, lower: Trace) -> int:
        return to_no_disk(lower, processes_of(lower, THREAD_DAEMON, self.server))

    def read(self, link: Link) -> Reads:
        return reads_of(link.lower.trace, self.server)

    def crossing(self, link: Link, held: Held) -> Spans:
        return crossing_of(link, held, self.there, self.back)


def serves_of(lower: Trace, name: bytes, reads: bool = False) -> tuple[Serves, Pieces]:
    """A write, with the sync that follows it for the same request; a flush; ``reads``: a read.

    ``name``: the program's.
    """
    serves, pieces, write = _served(lower, name, reads)
    if not len(serves):
        return serves, pieces
    syncs = np.flatnonzero(write >= 0)
    serves.end_ns[write[syncs]] = serves.end_ns[syncs]
    pieces.end_ns[write[syncs]] = pieces.end_ns[syncs]
    return some_of(serves, pieces, np.flatnonzero(write < 0))


def reads_of(lower: Trace, name: bytes) -> Reads:
    """What each piece of these, with reads, read."""
    found = read_by(lower, processes_of(lower, THREAD_DAEMON, name))
    return found.rows(np.flatnonzero(_served(lower, name, reads=True)[2] < 0))


def crossing_of(link: Link, held: Held, there: str, back: str) -> Spans:
    """What the driver does before it has sent, and once it has the reply, is its own.

    What the program does before the first call and after the last is on the way. ``there``,
    ``back``: its ranks.
    """
    asks = link.asks.rows(held.ask)
    sent, answered = asks.told_ns, asks.heard_ns
    first = np.where(held.first_ns >= 0, np.clip(held.first_ns, sent, answered), answered)
    last = np.where(held.last_ns >= 0, np.clip(held.last_ns, first, answered), answered)
    spans, row = SpanList(), np.arange(len(held.ask))
    spans.add(row, there, np.maximum(sent, held.begin_ns), np.minimum(first, held.end_ns))
    spans.add(row, back, np.maximum(last, held.begin_ns), np.minimum(answered, held.end_ns))
    return spans.collect()


def _served(lower: Trace, name: bytes, reads: bool) -> tuple[Serves, Pieces, Ints]:
    """Each call, also of each the write that it is a part of, -1: it is by itself."""
    serves, pieces = served_by(lower, processes_of(lower, THREAD_DAEMON, name), reads, disks=True)
    return serves, pieces, _synced_by(lower, serves, pieces) if len(serves) else serves.key


def _synced_by(lower: Trace, serves: Serves, pieces: Pieces) -> Ints:
    """Of each sync the write just before it that it is a part of, -1: it answers a flush.

    A thread that has answered a request sleeps until the next one comes.
    """
    order = order_of(pieces.tid, serves.begin_ns)
    before = np.full(len(order), -1)
    before[order[1:]] = order[:-1]
    same: NDArray[np.bool_] = (before >= 0) & (at(pieces.tid, before) == pieces.tid)
    write = ~serves.flush & ((serves.group & READ_MARK) == 0)
    follows = same & serves.flush & write[before]
    sleeps = sleeps_of(whole(lower))
    slept = AsOf(sleeps.tid[sleeps.asleep], sleeps.off_ns[sleeps.asleep])
    off = at(sleeps.off_ns[sleeps.asleep], slept.at_or_before(pieces.tid, serves.begin_ns - 1))
    return np.where(follows & (off < at(serves.end_ns, before)), before, -1)
