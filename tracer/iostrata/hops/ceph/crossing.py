# SPDX-License-Identifier: Apache-2.0
"""Hop ceph: operations as they were waited for in, their way to an OSD and back out."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from iostrata.columns import AsOf, Ints, at
from iostrata.hops.carried import carried
from iostrata.hops.ceph.again import known_since
from iostrata.hops.hop import Held, Link
from iostrata.stitch import SpanList, Spans, sleeps_of, whole

TASK_INTERRUPTIBLE: Final = 1


def crossing_of(link: Link, held: Held) -> Spans:
    """A message is with the OSD since a thread of its messenger was woken for it.

    Until it can have been on its way to that very process, nothing is known of it.
    """
    row, serve = link.served(held.ask)
    if not len(row):
        return carried(link, held, "osd.queue")
    arrived = _arrived(link, serve, link.asks.told_ns[held.ask[row]])
    begin, first = link.begin_ns.copy(), held.first_ns.copy()
    begin[serve] = arrived
    first[row] = arrived
    link = replace(link, begin_ns=begin)
    handed = _handed(link, held.ask)
    ask, told_ns = held.ask[row], link.asks.told_ns.copy()
    since = known_since(link, ask, serve)
    spans = SpanList()
    spans.add(row, "unfollowed", np.maximum(told_ns[ask], held.begin_ns[row]),
              np.minimum(since, held.end_ns[row]))  # fmt: skip
    told_ns[ask] = since
    link = replace(link, asks=replace(link.asks, told_ns=told_ns))
    spans.extend(carried(link, replace(held, first_ns=first), "osd.queue", handed_ns=handed))
    return spans.collect()


def _handed(link: Link, ask: Ints) -> Ints:
    """When the kernel's messenger had sent all that there was, since it began with each operation;
    -1: not told, as of OSDs and libraries."""
    window, asks = whole(link.upper), link.asks.rows(ask)
    begun = window.columns("rbd_message", "request_key", "connection_key")
    first = AsOf(begun["request_key"], begun["time_ns"]).at_or_after(asks.identity, asks.told_ns)
    known = (first >= 0) & (at(begun["time_ns"], first) == asks.told_ns)
    handed = window.columns("rbd_handed", "connection_key")
    last = AsOf(handed["connection_key"], handed["time_ns"])
    found = last.at_or_after(at(begun["connection_key"], first), at(begun["time_ns"], first))
    return np.where(known & (found >= 0), at(handed["time_ns"], found), -1)


def _arrived(link: Link, serve: Ints, told_ns: Ints) -> Ints:
    """Of some serves, in the upper machine's clock.

    It is the first that the thread read since it slept, and was sent before the thread was woken;
    otherwise it came while the thread was at something else, and is known to be there once read.
    """
    read_ns, begin = link.serves.begin_ns[serve], link.begin_ns[serve]
    limits = link.clock.to_lower(np.array([told_ns.min(), begin.max()])).tolist()
    slack = link.clock.bound_ns
    window = link.meanwhile(limits[0] - slack - 1, limits[1] + 2)
    messages, sleeps = window.columns("osd_message", "tid", "op_key"), sleeps_of(window)
    # One for a page, or for want of a CPU, is none that a message ends.
    sleeps = sleeps.rows(np.flatnonzero(sleeps.asleep & (sleeps.state & TASK_INTERRUPTIBLE > 0)))
    op = link.lower.pieces.request_key[link.serves.piece[serve]]
    mine = AsOf(messages["op_key"], messages["time_ns"]).at_or_before(op, read_ns)
    tid = at(messages["tid"], mine)
    before = AsOf(messages["tid"], messages["time_ns"]).at_or_before(tid, read_ns - 1)
    sleep = AsOf(sleeps.tid, sleeps.on_ns).at_or_before(tid, read_ns)
    known = (mine >= 0) & (at(messages["time_ns"], mine) == read_ns)
    known &= (sleep >= 0) & (at(sleeps.on_ns, sleep) > at(messages["time_ns"], before))
    woken = link.clock.to_upper(at(sleeps.wake_ns, sleep))
    return np.where(known & (woken >= told_ns - slack), np.maximum(woken, told_ns), begin)
