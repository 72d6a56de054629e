# SPDX-License-Identifier: Apache-2.0
"""Hops of messages: asks as they were waited for in, their way there and back out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, at, overlapping
from iostrata.hops.hop import Asks, Held, Link
from iostrata.hops.ways import parts_of
from iostrata.stitch import Columns, SpanList, Spans, Window, sleeps_of, whole

AskedFor = Callable[[Link, Ints], tuple[Ints, Ints]]
"""Of some serves, when the command was there, and when it was read, in the upper one's clock; -1:
it was not asked for more data."""


Part = tuple[Ints, str, Ints, Ints]
"""Rows of ``Held`` (-1: of none), a rank, and its begin and end, in the upper one's clock."""


def carried(
    link: Link,
    held: Held,
    queue: str,
    asked_for: AskedFor | None = None,
    bursts: Iterable[Part] = (),
    handed_ns: Ints | None = None,
    sender: Ints | None = None,
) -> Spans:
    """Before it is sent, and once the answer is there, it is the asker's own.

    ``queue``: the rank of what is there until somebody begins to carry it out. ``asked_for``: where
    the lower machine may ask for more data. That makes a way of its own: there, once the command
    is; then that is in the queue until somebody reads it; and until all is there, there is a row
    for that, but for what is told of each time that some was asked for (``bursts``).
    ``handed_ns``: of each ask, when all that goes with it was with the connection, if that is told;
    it was by when it was there, and before ``sender``, the thread that did it, had no CPU any more
    to do so. An answer that never came was not on its way: nothing is known of
    what was waited for then.
    """
    spans, owner, asks = SpanList(), np.arange(len(held.ask)), link.asks.rows(held.ask)
    told, (answered, heard) = asks.told_ns, heard_of(asks)
    row, serve = link.served(held.ask)
    begin, limit = np.maximum(link.begin_ns[serve], told[row]), held.end_ns[row]
    first, last = held.first_ns.copy(), np.clip(held.last_ns, told, heard)
    if asked_for:
        came, read = asked_for(link, serve)
        mine = np.flatnonzero(came >= 0)
        np.minimum.at(first, row[mine], came[mine])
        asker, since = np.where(came >= 0, row, -1), np.maximum(read, told[row])
        spans.add(asker, queue, np.maximum(came, told[row]), np.minimum(since, limit))
        spans.add(asker, "network.r2t", since, np.minimum(begin, limit))
    for part in bursts:
        spans.add(*part)
    first = np.clip(first, told, heard)
    sent = told
    if handed_ns is not None:
        sent = np.clip(handed_ns, told, first)
        if sender is not None:
            late = np.flatnonzero(handed_ns > first)
            sent[late] = np.maximum(told[late], _ran_until(link, sender[late], first[late]))
        spans.add(owner, "initiator.send", np.maximum(told, held.begin_ns), sent)
    there = np.maximum(sent, held.begin_ns), np.minimum(first, held.end_ns)
    back = np.maximum(last, held.begin_ns), np.minimum(heard, held.end_ns)
    spans.add(owner, "network.there", *there)
    spans.add(np.where(answered, owner, -1), "network.back", *back)
    spans.add(np.where(answered, -1, owner), "unfollowed", *back)
    for rank, since_ns, until_ns in parts_of(link.ways, held.ask, there, back):
        spans.add(owner, rank, since_ns, until_ns)
    taken = link.clock.to_upper(link.lower.pieces.begin_ns[link.serves.piece[serve]])
    spans.add(row, queue, begin, np.minimum(taken, limit))
    return spans.collect()


def _ran_until(link: Link, tid: Ints, time_ns: Ints) -> Ints:
    """When some threads of the upper machine had a CPU last, at or before some times."""
    if not len(tid):
        return time_ns
    sleeps = sleeps_of(whole(link.upper))
    last = AsOf(sleeps.tid, sleeps.off_ns).at_or_before(tid, time_ns)
    off = (last >= 0) & (at(sleeps.on_ns, last) > time_ns)
    return np.where(off, at(sleeps.off_ns, last), time_ns)


def until_answered(link: Link, held: Held) -> Held:
    """What is complete is the lower machine's until the answer is with the connection."""
    row, serve = link.served(held.ask)
    last, ends_ns = held.last_ns.copy(), link.lower.pieces.end_ns[link.serves.piece[serve]]
    np.maximum.at(last, row, link.clock.to_upper(ends_ns))
    return replace(held, last_ns=last)


def handed_of(link: Link, held: Held, point: str) -> tuple[Ints, Ints]:
    """When all that goes with each ask was with the connection, by that point, -1: not told; and
    which thread did it.

    That may be after the answer: of a sender that has no CPU to say so.
    """
    asks, every = link.asks, link.asks.rows(held.ask)
    handed = whole(link.upper).columns(point, "tid", "request_key")
    found = AsOf(handed["request_key"], handed["time_ns"])
    first = found.at_or_after(every.identity, every.told_ns)
    # The request's place is another's then.
    until = AsOf(asks.identity, asks.told_ns).following()[held.ask]
    mine = (first >= 0) & (at(handed["time_ns"], first) < until)
    return np.where(mine, at(handed["time_ns"], first), -1), at(handed["tid"], first)


def more_sent(link: Link, held: Held, ask: str, handed: str) -> Part:
    """Of each time that the upper machine was asked for more data, its own until that was with the
    connection, by those two points."""
    window, every = whole(link.upper), link.asks.rows(held.ask)
    told = "ready_ns" in link.upper.points[ask].fields
    asked = window.columns(ask, "request_key", *["ready_ns"] * told)
    since = there_of(asked) if told else asked["time_ns"]
    sent = next_of(window.columns(handed, "request_key"), "request_key", asked)
    of, burst = overlapping(
        every.identity, every.told_ns, held.end_ns, asked["request_key"], since, sent
    )
    begin, end = np.maximum(since[burst], every.told_ns[of]), held.end_ns[of]
    return of, "initiator.send", begin, np.minimum(sent[burst], end)


def there_of(read: Columns) -> Ints:
    """Since when what was read is there: before it was, if that is known."""
    ready, time = read["ready_ns"], read["time_ns"]
    return np.where((ready > 0) & (ready < time), ready, time)


def next_of(hits: Columns, key: str, asked: Columns) -> Ints:
    """When what was asked for was done; what was not seen, at once."""
    found = AsOf(hits[key], hits["time_ns"]).at_or_after(asked["request_key"], asked["time_ns"])
    return np.where(found >= 0, at(hits["time_ns"], found), asked["time_ns"])


def all_of(link: Link) -> Window:
    """The lower machine's, for as long as anything was asked of it."""
    upper = np.array([int(link.asks.begin_ns.min()), int(link.asks.end_ns.max())])
    return link.meanwhile(*link.clock.to_lower(upper).tolist())


@dataclass(frozen=True, eq=False)
class Begun:
    """Commands as the target knew them: ``first``: of each, the row of ``begun`` that tells of its
    begin, -1: none does."""

    key: Ints
    end_ns: Ints
    begun: Columns
    first: Ints


def begun_of(link: Link, serve: Ints, point: str, key: str, *fields: str) -> Begun:
    """Those of some serves, by the point that tells of begins, its key and more of its fields."""
    begun = all_of(link).columns(point, key, *fields)
    end_ns = link.serves.end_ns[serve]
    mine = link.lower.pieces.request_key[link.serves.piece[serve]]
    first = AsOf(begun[key], begun["time_ns"]).at_or_before(mine, end_ns)
    return Begun(mine, end_ns, begun, first)


def heard_of(asks: Asks) -> tuple[NDArray[np.bool_], Ints]:
    """Which of some asks were answered, and when; of the others, when that was given up."""
    answered = asks.heard_ns >= 0
    return answered, np.where(answered, asks.heard_ns, asks.end_ns)
