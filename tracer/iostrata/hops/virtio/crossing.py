# SPDX-License-Identifier: Apache-2.0
"""Hop virtio: from the guest's driver to the host's system call, and back."""

from __future__ import annotations

import numpy as np

from iostrata.columns import Ints, at, columns_of, overlapping
from iostrata.hops.hop import Held, Link
from iostrata.stitch import SpanList, Spans, sleeps_of


def crossing_of(link: Link, held: Held) -> Spans:
    """In the order of events; what was not seen is in the row before it."""
    spans, row = SpanList(), np.arange(len(held.ask))
    asks = link.asks.rows(held.ask)
    begin, end, told, heard = (
        asks.begin_ns,
        asks.end_ns,
        asks.told_ns,
        asks.heard_ns,
    )
    first = np.where(held.first_ns >= 0, held.first_ns, end)
    last = np.where(held.last_ns >= 0, held.last_ns, end)
    # What the clocks' relation leaves open does not change the order of things.
    slack = link.clock.bound_ns
    told = np.where((told >= 0) & (told <= first + slack), np.minimum(told, first), begin)
    heard = np.where(heard >= last - slack, np.maximum(heard, last), end)
    injected = _injected(link, last, heard)
    spans.add(row, "virtio.submit", begin, told)
    spans.add(row, "vmm.submit", told, last)
    spans.add(row, "vmm.complete", last, injected)
    spans.add(row, "kvm.inject", injected, heard)
    spans.add(row, "virtio.interrupt", heard, end)
    _waiting_threads(spans, link, told, injected)
    return _clipped(spans.collect(), held)


def _injected(link: Link, after: Ints, before: Ints) -> Ints:
    """The first interrupt that the VMM asked for in between; ``before`` where none was seen."""
    if not len(after):
        return before
    begin, end = link.clock.to_lower(np.array([after.min(), before.max()])).tolist()
    # One more on each side: the way to the other clock and back is rounded.
    events = link.meanwhile(begin - 1, end + 1).columns("kvm_msi", "tgid")
    known = np.isin(events["tgid"], np.append(link.agents, 0))
    asked = np.sort(link.clock.to_upper(events["time_ns"][known]))
    found = np.searchsorted(asked, after, side="left")
    time = at(asked, np.where(found < len(asked), found, -1))
    return np.where((time >= after) & (time <= before), time, before)


def _waiting_threads(spans: SpanList, link: Link, told: Ints, injected: Ints) -> None:
    """Threads of the VMM, but its virtual CPUs, that wait for a CPU while it has the request."""
    if not len(told):
        return
    limits = np.array([told.min(), injected.max()])
    host = link.meanwhile(*link.clock.to_lower(limits).tolist())
    vcpus = host.columns("kvm_exit", "tid")["tid"]
    sleeps = sleeps_of(host)
    threads = columns_of(link.lower.trace.points["thread"], "subject_tid", "tgid")
    mine = threads["subject_tid"][np.isin(threads["tgid"], link.agents)]
    rows = np.flatnonzero(np.isin(sleeps.tid, mine) & ~np.isin(sleeps.tid, vcpus))
    sleeps = sleeps.rows(rows)
    begin = link.clock.to_upper(sleeps.runnable_ns)
    end = link.clock.to_upper(sleeps.on_ns)
    none = np.zeros(max(len(told), len(begin)), np.int64)
    row, other = overlapping(none[: len(told)], told, injected, none[: len(begin)], begin, end)
    spans.add(
        row,
        "vmm.runqueue",
        np.maximum(begin[other], told[row]),
        np.minimum(end[other], injected[row]),
    )


def _clipped(spans: Spans, held: Held) -> Spans:
    clipped = SpanList()
    clipped.add(
        spans.owner,
        spans.rank,
        np.maximum(spans.begin_ns, held.begin_ns[spans.owner]),
        np.minimum(spans.end_ns, held.end_ns[spans.owner]),
    )
    return clipped.collect()
