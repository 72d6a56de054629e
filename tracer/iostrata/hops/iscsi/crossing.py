# SPDX-License-Identifier: Apache-2.0
"""Hop iscsi: what a command spent between initiator and target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, at, overlapping
from iostrata.hops.carried import (
    Part,
    all_of,
    begun_of,
    carried,
    handed_of,
    more_sent,
    next_of,
    there_of,
    until_answered,
)
from iostrata.hops.hop import Held, Link, Pairs
from iostrata.hops.iscsi.serves import BEGIN, READY, arrivals_of
from iostrata.stitch import Spans, sleeps_of, whole

ASK: Final = "target_asked"
HANDED: Final = "iscsi_handed"


def crossing_of(link: Link, held: Held) -> Spans:
    """A command is there as its data is; where nothing is told of that, since the target's thread
    was woken for it. The response is on its way once it is with the connection."""
    row, pair = link.paired(held.ask)
    serve = link.pairs.serve[pair]
    first, begin, woken = held.first_ns.copy(), link.begin_ns.copy(), _woken(link, serve)
    mine = np.flatnonzero((woken >= 0) & (link.pairs.since_ns[pair] < begin[serve]))
    begin[serve[mine]] = woken[mine]
    np.minimum.at(first, row[mine], woken[mine])
    held = replace(until_answered(link, held), first_ns=first)
    link = replace(link, begin_ns=begin)
    bursts, handed = _bursts(link, held), handed_of(link, held, HANDED)
    return carried(link, held, "target.queue", _asked_for, bursts, *handed)


def completed(link: Link) -> Pairs:
    """A thread that was woken before the command was sent was woken for something else, of which
    there may be no event: it is at the command since it read it."""
    pairs = link.pairs
    told, woken = link.asks.told_ns[pairs.ask], _woken(link, pairs.serve)
    elsewhere = (woken >= 0) & (woken < told - link.clock.bound_ns)
    read = link.begin_ns[pairs.serve]
    return replace(pairs, since_ns=np.where(elsewhere, read, pairs.since_ns))


def unseen_arrivals(link: Link) -> tuple[int, int]:
    """How many commands came to a thread that did not sleep, without a word of when they did, and
    for how long in all (ns), since they were sent and until they were read, that one had no CPU: it
    may have kept them waiting."""
    pairs = link.pairs
    told, read = link.asks.told_ns[pairs.ask], link.begin_ns[pairs.serve]
    sleeps = sleeps_of(whole(link.lower.trace))
    runnable = np.where(sleeps.asleep, sleeps.wake_ns, sleeps.off_ns)
    begin, end = link.clock.to_upper(runnable), link.clock.to_upper(sleeps.on_ns)
    asleep, server = np.flatnonzero(sleeps.asleep), link.lower.pieces.tid[link.serves.piece]
    slept = AsOf(sleeps.tid[asleep], sleeps.on_ns[asleep])
    last = slept.at_or_before(server[pairs.serve], link.serves.begin_ns[pairs.serve])
    before = (last >= 0) & (at(begin[asleep], last) < told - link.clock.bound_ns)
    awake = np.flatnonzero(before & (told >= 0) & ~_came(link, pairs.serve))
    tid = server[pairs.serve[awake]]
    row, wait = overlapping(tid, told[awake], read[awake], sleeps.tid, begin, end)
    row = awake[row]
    late = np.minimum(read[row], end[wait]) - np.maximum(told[row], begin[wait])
    return len(awake), int(late.sum())


def _woken(link: Link, serve: Ints) -> Ints:
    """When who read some commands was woken, in the upper's clock, -1: it was at it, or waited for
    data of the command after that, or it is told when that came in."""
    if not len(serve):
        return serve
    pieces, piece = link.lower.pieces, link.serves.piece[serve]
    tid, on = pieces.tid[piece], pieces.begin_ns[piece]
    sleeps = sleeps_of(link.meanwhile(int(on.min()) - 1, int(on.max()) + 2))
    sleeps = sleeps.rows(np.flatnonzero(sleeps.asleep))
    slept = AsOf(sleeps.tid, sleeps.on_ns).at_or_before(tid, on)
    known = (on < link.serves.begin_ns[serve]) & (at(sleeps.on_ns, slept) == on)
    known &= ~_came(link, serve)
    return np.where(known, link.clock.to_upper(at(sleeps.wake_ns, slept)), -1)


def _came(link: Link, serve: Ints) -> NDArray[np.bool_]:
    """Of which serves it is told when their last data came in: they begin as that did."""
    told = arrivals_of(whole(link.lower.trace))
    return np.isin(link.serves.begin_ns[serve], told.get(READY, ()))


def _asked_for(link: Link, serve: Ints) -> tuple[Ints, Ints]:
    """When those commands were there, with what came unasked, and read, of which the target asked
    for more data."""
    if not len(serve):
        return serve, serve
    window = all_of(link)
    told = [READY] * (READY in window.trace.points[BEGIN].fields)
    command = begun_of(link, serve, BEGIN, "command_key", *told)
    done = window.columns("target_cmd_complete", "command_key", "r2t_count")
    last = AsOf(done["command_key"], done["time_ns"]).at_or_before(command.key, command.end_ns)
    asked = (at(done["time_ns"], last) == command.end_ns) & (at(done["r2t_count"], last) > 0)
    asked &= command.first >= 0
    read = at(command.begun["time_ns"], command.first)
    came = at(command.begun[READY], command.first) if told else read
    ask = window.columns(ASK, "request_key", READY)
    first = AsOf(ask["request_key"], ask["time_ns"]).at_or_after(command.key, read)
    made = at(ask["time_ns"], first)
    made = np.where(made <= command.end_ns, made, -1)
    came = np.where(made >= 0, at(ask[READY], first), came)
    read = np.where(made >= 0, made, read)
    times = link.clock.to_upper(np.where(came > 0, came, read)), link.clock.to_upper(read)
    return np.where(asked, times[0], -1), np.where(asked, times[1], -1)


def _bursts(link: Link, held: Held) -> Iterator[Part]:
    """Of each time that more data was asked for: the target's time until it had, and the
    initiator's, until it sent that."""
    if not len(held.ask):
        return
    target, (row, serve) = whole(link.lower.trace), link.served(held.ask)
    key = link.lower.pieces.request_key[link.serves.piece[serve]]
    asks = target.columns(ASK, "request_key", READY)
    sent = next_of(target.columns("target_sent", "command_key"), "command_key", asks)
    begin, end = link.clock.to_upper(there_of(asks)), link.clock.to_upper(sent)
    told, there = link.asks.told_ns[held.ask[row]], link.begin_ns[serve]
    of, burst = overlapping(key, told, there, asks["request_key"], begin, end)
    until = np.minimum(there[of], held.end_ns[row[of]])
    yield row[of], "target.queue", np.maximum(begin[burst], told[of]), np.minimum(end[burst], until)
    yield more_sent(link, held, "iscsi_asked", HANDED)
