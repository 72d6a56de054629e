# SPDX-License-Identifier: Apache-2.0
"""Hops: sleeps of the lower machine's threads in, while they waited for a CPU out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from iostrata.columns import AsOf, Ints, at, joined, overlapping
from iostrata.hops.hop import Context, Held, Link
from iostrata.layers import RANK
from iostrata.stitch import (
    Behind,
    Parts,
    Service,
    Sleeps,
    SpanList,
    Spans,
    Window,
    behind_cpus,
    short_of_cpu,
    sleeps_of,
)


def waits_of(sleeps: Sleeps, rank: str) -> Spans:
    """One a sleep, in their order, in the lower machine's clock."""
    row = np.arange(len(sleeps))
    ranks = np.full(len(row), RANK[rank], np.int16)
    return Spans(row, ranks, sleeps.runnable_ns, sleeps.on_ns, np.full(len(row), -1))


def taken_late(
    link: Link, held: Held, take: tuple[Ints, Ints, Ints], busy: tuple[Ints, Ints], queue: Ints
) -> Context | None:
    """Threads of a daemon that had no CPU to take a request up.

    ``take``: row of ``held``, and which thread took it up, when (lower clock). ``busy``: threads,
    and when they took up or answered any: one that was at another request when it could not run was
    late for that. ``queue``: threads that only hand requests on: they are late for all of them.
    """
    row, tid, taken = take
    if not len(taken):
        return None
    begin = int(link.clock.to_lower(np.array([held.begin_ns.min()]))[0])
    window = link.meanwhile(begin, int(taken.max()) + 1)
    sleeps = sleeps_of(window)
    last = AsOf(sleeps.tid, sleeps.on_ns).at_or_before(tid, taken)
    before = at(busy[1], AsOf(*busy).at_or_before(tid, taken - 1))
    mine = np.flatnonzero((last >= 0) & (before <= at(sleeps.runnable_ns, last)))
    row, last = row[mine], last[mine]
    lower, behind = _queued(window, sleeps)
    handing = np.flatnonzero(np.isin(sleeps.tid, queue))
    since, until = (link.clock.to_upper(ns[handing]) for ns in (sleeps.runnable_ns, sleeps.on_ns))
    one = np.zeros(max(len(held.ask), len(handing)), np.int64)
    asked, hander = overlapping(
        one[: len(held.ask)], held.begin_ns, held.first_ns, one[: len(handing)], since, until
    )
    row, last = np.append(row, asked), np.append(last, handing[hander])
    row, of = np.append(row, row), np.append(last, last + len(sleeps))
    since, until = link.clock.to_upper(lower.begin_ns[of]), link.clock.to_upper(lower.end_ns[of])
    first = np.minimum(held.first_ns, held.end_ns)[row]
    spans = SpanList()
    spans.add(
        row, lower.rank[of], np.maximum(since, held.begin_ns[row]), np.minimum(until, first), of
    )
    return Context(spans.collect(), lower, behind, window)


def without_cpu(link: Link, held: Held, window: Window, needed: Service) -> Context:
    """How long threads were runnable without a CPU while they were needed.

    ``needed``: by which rows of ``held``, when (lower clock); ``window``: of the lower machine,
    meanwhile.
    """
    sleeps = sleeps_of(window)
    lower, behind = _queued(window, sleeps)
    spans = short_of_cpu(needed, sleeps, 0, "wakeup.runqueue")
    kept = spans.rank == RANK["throttle.cpu"]
    since, until = link.clock.to_upper(spans.begin_ns), link.clock.to_upper(spans.end_ns)
    spans = replace(
        spans,
        begin_ns=np.maximum(since, held.begin_ns[spans.owner]),
        end_ns=np.minimum(until, held.end_ns[spans.owner]),
        of=spans.of + kept * len(sleeps),
    )
    return Context(spans.where(spans.begin_ns < spans.end_ns), lower, behind, window)


def _queued(window: Window, sleeps: Sleeps) -> tuple[Spans, Behind | None]:
    """Of all sleeps first the waits for a CPU, then what a quota held back of each before."""
    waits = waits_of(sleeps, "wakeup.runqueue")
    waits, kept = replace(waits, begin_ns=sleeps.released_ns), waits_of(sleeps, "throttle.cpu")
    kept = replace(kept, end_ns=sleeps.released_ns)
    found = behind_cpus(window, sleeps)
    if not found:
        return Spans(**joined([waits, kept])), None
    whose, count = found, max(len(sleeps), 1)

    def find(rows: Ints, alike: Ints | None) -> Iterable[Parts]:
        return whose.find(rows % count, alike)

    return Spans(**joined([waits, kept])), Behind(whose.people, find)
