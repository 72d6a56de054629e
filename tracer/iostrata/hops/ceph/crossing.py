# SPDX-License-Identifier: Apache-2.0
"""Hop ceph: operations as they were waited for in, their way to an OSD and back out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, at, pair_key
from iostrata.hops.carried import carried
from iostrata.hops.ceph.again import known_since
from iostrata.hops.ceph.messenger import Read, read_of
from iostrata.hops.hop import Held, Link
from iostrata.layers import RANK
from iostrata.stitch import NO_COMMITS, NO_PIECES, SpanList, Spans, Window, whole


def crossing_of(link: Link, held: Held) -> Spans:
    """A message is with an OSD once it was read whole, an answer with who reads it since that one
    was woken for it.

    Until it can have been on its way to that very process, nothing is known of it.
    """
    row, serve = link.served(held.ask)
    if not len(row):
        return carried(link, held, "osd.queue")
    ask = held.ask[row]
    arrived = _arrived(link, serve, link.asks.told_ns[ask])
    there, library = _heard(link, serve, ask)
    heard_ns = link.asks.heard_ns.copy()
    heard_ns[ask] = there
    begin, first = link.begin_ns.copy(), held.first_ns.copy()
    begin[serve] = arrived
    first[row] = arrived
    link = replace(link, begin_ns=begin)
    handed = _handed(link, held.ask)
    told_ns = link.asks.told_ns.copy()
    since = known_since(link, ask, serve)
    spans = SpanList()
    spans.add(row, "unfollowed", np.maximum(told_ns[ask], held.begin_ns[row]),
              np.minimum(since, held.end_ns[row]))  # fmt: skip
    own = np.where(library, RANK["librbd.heard"], RANK["osd.heard"])
    read_ns = np.minimum(link.asks.heard_ns[ask], held.end_ns[row])
    spans.add(row, own, np.maximum(there, held.begin_ns[row]), read_ns)
    told_ns[ask] = since
    link = replace(link, asks=replace(link.asks, told_ns=told_ns, heard_ns=heard_ns))
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
    """When what was asked for some serves was there, in the upper machine's clock."""
    _, read = asked_of(link, serve, told_ns)
    since = np.minimum(link.clock.to_upper(read.whole_ns), link.begin_ns[serve])
    return np.maximum(since, told_ns)


def asked_of(link: Link, serve: Ints, told_ns: Ints) -> tuple[Window, Read]:
    """The messages that asked for some serves, and the lower machine meanwhile, until these were
    taken up. ``told_ns``: in the upper machine's clock."""
    told, read_ns = link.clock.to_lower(told_ns), link.serves.begin_ns[serve]
    pieces = link.lower.pieces.rows(link.serves.piece[serve])
    begin, end = _around(link, told, np.maximum(read_ns, pieces.begin_ns))
    window = link.meanwhile(begin, end)
    return window, read_of(window, link.clock.bound_ns, pieces.request_key, told, read_ns)


def _heard(link: Link, serve: Ints, ask: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """When some asks' answers were there, and whether the library read them.

    The kernel's client tells so itself.
    """
    read_ns, sent, key = link.asks.heard_ns[ask], link.end_ns[serve], link.asks.identity[ask]
    begin, end = _around(link, sent, read_ns)
    window = Window(link.upper, NO_PIECES, NO_COMMITS, max(begin, 0), end)
    there = read_of(window, link.clock.bound_ns, key, sent, read_ns).begun_ns
    answered = window.columns("librbd_answered", "number", "tgid")
    found = AsOf(pair_key(answered["number"], answered["tgid"]), answered["time_ns"])
    library = at(answered["time_ns"], found.at_or_before(key, read_ns)) == read_ns
    return np.clip(there, np.minimum(sent, read_ns), read_ns), library


def _around(link: Link, sent_ns: Ints, read_ns: Ints) -> tuple[int, int]:
    return int(sent_ns.min()) - link.clock.bound_ns - 1, int(read_ns.max()) + 2
