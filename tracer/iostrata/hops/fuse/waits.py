# SPDX-License-Identifier: Apache-2.0
"""Hop fuse: the daemon's threads that could have taken a request up, and had no CPU."""

from __future__ import annotations

import numpy as np

from iostrata.columns import AsOf, at, columns_of
from iostrata.hops.hop import Context, Held, Link
from iostrata.hops.waits import waits_of
from iostrata.stitch import SpanList, behind_cpus, sleeps_of


def waiting_of(link: Link, held: Held) -> Context | None:
    """The thread that took each request up, from when it was let go for it until it ran."""
    row, pair = link.paired(held.ask)
    piece = link.serves.piece[link.pairs.serve[pair]]
    taken = link.lower.pieces.begin_ns[piece]
    if not len(taken):
        return None
    # Who takes a request up need not be who answers it.
    takes = columns_of(link.lower.trace.points["fuse_take"], "tid")
    none = np.zeros(len(taken), np.int64)
    take = AsOf(np.zeros(len(takes["tid"]), np.int64), takes["time_ns"]).at_or_before(none, taken)
    tid = at(takes["tid"], take)
    window = link.meanwhile(int(held.begin_ns.min()), int(taken.max()) + 1)
    sleeps = sleeps_of(window)
    last = AsOf(sleeps.tid, sleeps.on_ns).at_or_before(tid, taken)
    # One that was at another request when it could not run was late for that.
    answers = columns_of(link.lower.trace.points["fuse_request"], "tid")
    busy = np.concatenate([answers["time_ns"], takes["time_ns"]])
    who = np.concatenate([answers["tid"], takes["tid"]])
    before = at(busy, AsOf(who, busy).at_or_before(tid, taken - 1))
    last = np.where(before <= at(sleeps.runnable_ns, last), last, -1)
    waits, spans = waits_of(sleeps, "wakeup.runqueue"), SpanList()
    begin = np.maximum(at(waits.begin_ns, last), held.begin_ns[row])
    until = np.minimum(at(waits.end_ns, last), held.end_ns[row])
    spans.add(np.where(last >= 0, row, -1), "wakeup.runqueue", begin, until, last)
    return Context(spans.collect(), waits, behind_cpus(window, sleeps), window)
