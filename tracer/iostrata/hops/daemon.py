# SPDX-License-Identifier: Apache-2.0
"""Hops to daemons: machines' traces in, what a program that serves a disk from a file did out.

It is seen in its system calls only: each is known by its place in the file.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, at, distinct, one_of, order_of
from iostrata.hops.around import are_durable
from iostrata.hops.clients import of_this_client
from iostrata.hops.hop import READ_MARK, Held, Hop, Link, Pairs, Serves
from iostrata.hops.match import ROUNDING_NS
from iostrata.hops.processes import read_by, served_by, to_no_disk
from iostrata.stitch import Pieces, Reads, SpanList, Spans, processes_of, sleeps_of, whole
from iostrata.trace import Trace
from iostrata.trace.layout import THREAD_DAEMON


class Daemon(Hop):
    """``server``: the program's name; ``there``, ``back``: the ranks of the way to it and back;
    ``between``: of two of its calls."""

    server: ClassVar[bytes]
    there: ClassVar[str]
    between: ClassVar[str]
    back: ClassVar[str]
    follows_reads = True

    def serves(self, lower: Trace) -> tuple[Serves, Pieces]:
        processes = processes_of(lower, THREAD_DAEMON, self.server)
        return served_by(lower, processes, self.reads, disks=True)

    def to_no_disk(self, lower: Trace) -> int:
        return to_no_disk(lower, processes_of(lower, THREAD_DAEMON, self.server))

    def read(self, link: Link) -> Reads:
        lower = link.lower.trace
        return read_by(lower, processes_of(lower, THREAD_DAEMON, self.server))

    def completed(self, link: Link) -> Pairs:
        return completed_by(replace(link, pairs=of_this_client(link)))

    def crossing(self, link: Link, held: Held) -> Spans:
        return crossing_of(link, held, self.there, self.between, self.back)


def crossing_of(link: Link, held: Held, there: str, between: str, back: str) -> Spans:
    """What the driver does before it has sent, and once it has the reply, is its own.

    What the program does before the first call and after the last is on the way, and else its.
    ``there``, ``between``, ``back``: the ranks.
    """
    asks = link.asks.rows(held.ask)
    sent, answered = asks.told_ns, asks.heard_ns
    first = np.where(held.first_ns >= 0, np.clip(held.first_ns, sent, answered), answered)
    last = np.where(held.last_ns >= 0, np.clip(held.last_ns, first, answered), answered)
    spans, row = SpanList(), np.arange(len(held.ask))
    for rank, begin, end in ((there, sent, first), (between, first, last), (back, last, answered)):
        spans.add(row, rank, np.maximum(begin, held.begin_ns), np.minimum(end, held.end_ns))
    return spans.collect()


def completed_by(link: Link) -> Pairs:
    """The link's pairs, and the syncs that writes had behind them: those are no flush's.

    A write that has to be durable once it is complete says so (FUA), or its disk has no write cache
    as far as the upper machine knows. A program may sync behind each write unasked.
    """
    pairs, asks = link.pairs, link.asks
    keyed = ~asks.shared[pairs.ask] & ((asks.group[pairs.ask] & READ_MARK) == 0)
    ask, serve = pairs.ask[keyed], pairs.serve[keyed]
    sync = _syncs_behind(link)[serve]
    behind = sync >= 0
    # By some relation of the clocks that may be.
    behind &= at(link.end_ns, sync) + link.clock.slack[0] <= asks.end_ns[ask] + ROUNDING_NS
    wanted = are_durable(link.upper, asks.rows(ask))
    wanted |= _unasked(link, ask, serve, wanted)
    ask, serve, sync = (column[behind & wanted] for column in (ask, serve, sync))
    others = ~(asks.shared[pairs.ask] & np.isin(pairs.serve, sync))
    ask = np.concatenate([pairs.ask[others], ask])
    since = np.concatenate([pairs.since_ns[others], link.end_ns[serve]])
    serve = np.concatenate([pairs.serve[others], sync])
    order = order_of(ask, link.begin_ns[serve])
    return Pairs(ask[order], serve[order], since[order], pairs.crossing, pairs.ambiguous)


def _unasked(link: Link, ask: Ints, serve: Ints, asked: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which of some writes are of a disk whose program syncs behind each although nobody asked.

    ``asked``: of which somebody did. What is synced more often than the upper machine asked for, if
    it is nearer to each write than to none, is behind each.
    """
    asks, group, found = link.asks, link.asks.group[ask], np.zeros(len(ask), np.bool_)
    syncs = np.flatnonzero(link.serves.flush)
    for disk in distinct(group).tolist():
        mine = group == disk
        since, until = int(asks.begin_ns[ask[mine]].min()), int(asks.end_ns[ask[mine]].max())
        flushes = asks.shared & (asks.group == disk)
        flushes &= (asks.begin_ns < until) & (asks.end_ns > since)
        file = one_of(link.serves.group[syncs], distinct(link.serves.group[serve[mine]]))
        made = file & (link.begin_ns[syncs] < until) & (link.end_ns[syncs] > since)
        more = np.count_nonzero(made) - np.count_nonzero(flushes)
        more -= len(distinct(ask[mine & asked]))
        found |= mine & (2 * more > len(distinct(ask[mine & ~asked])))
    return found


def _syncs_behind(link: Link) -> Ints:
    """Of each serve that writes, the sync that its thread made behind it without having slept; -1:
    of others, and where there is none.

    A thread that has answered a request sleeps until the next one comes, if that is not there yet.
    """
    serves, pieces = link.serves, link.lower.pieces.rows(link.serves.piece)
    order = order_of(pieces.tid, serves.begin_ns)
    then = np.full(len(order), -1)
    then[order[:-1]] = order[1:]
    write = ~serves.flush & ((serves.group & READ_MARK) == 0)
    follows: NDArray[np.bool_] = write & (then >= 0) & (at(pieces.tid, then) == pieces.tid)
    follows &= serves.flush[then]
    sleeps = sleeps_of(whole(link.lower.trace))
    slept = AsOf(sleeps.tid[sleeps.asleep], sleeps.off_ns[sleeps.asleep])
    begin = np.where(follows, at(serves.begin_ns, then), 0)
    off = at(sleeps.off_ns[sleeps.asleep], slept.at_or_before(pieces.tid, begin - 1))
    return np.where(follows & (off < serves.end_ns), then, -1)
