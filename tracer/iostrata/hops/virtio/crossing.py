# SPDX-License-Identifier: Apache-2.0
"""Hop virtio: from the guest's driver to the host's system call, and back."""

from __future__ import annotations

import numpy as np

from iostrata.columns import Ints, at, in_order, overlapping
from iostrata.hops.hop import Context, Held, Link
from iostrata.hops.waits import waits_of
from iostrata.stitch import SpanList, Spans, behind_cpus, members_of, sleeps_of


def crossing_of(link: Link, held: Held) -> Spans:
    """In the order of events; what was not seen is in the row before it."""
    spans, row, asks = SpanList(), np.arange(len(held.ask)), link.asks.rows(held.ask)
    told, last, injected, heard = _stages(link, held)
    spans.add(row, "virtio.submit", asks.begin_ns, told)
    spans.add(row, "vmm.submit", told, last)
    spans.add(row, "vmm.complete", last, injected)
    spans.add(row, "kvm.inject", injected, heard)
    spans.add(row, "virtio.interrupt", heard, asks.end_ns)
    return _clipped(spans.collect(), held)


def _stages(link: Link, held: Held) -> tuple[Ints, Ints, Ints, Ints]:
    """When the device was told, its work was done, an interrupt asked for, and the guest had it."""
    asks = link.asks.rows(held.ask)
    begin, end, told, heard = asks.begin_ns, asks.end_ns, asks.told_ns, asks.heard_ns
    first = np.where(held.first_ns >= 0, held.first_ns, end)
    last = np.where(held.last_ns >= 0, held.last_ns, end)
    # What the clocks' relation leaves open does not change the order of things.
    slack = link.clock.bound_ns
    told = np.where((told >= 0) & (told <= first + slack), np.minimum(told, first), begin)
    heard = np.where(heard >= last - slack, np.maximum(heard, last), end)
    return told, last, _injected(link, last, heard), heard


def _injected(link: Link, after: Ints, before: Ints) -> Ints:
    """The first interrupt that the VMM asked for in between; ``before`` where none was seen."""
    if not len(after):
        return before
    begin, end = link.clock.to_lower(np.array([after.min(), before.max()])).tolist()
    # One more on each side: the way to the other clock and back is rounded.
    events = link.meanwhile(begin - 1, end + 1).columns("kvm_msi", "tgid")
    known = np.isin(events["tgid"], np.concatenate([link.agents, link.monitors, [0]]))
    asked = in_order(link.clock.to_upper(events["time_ns"][known]))
    found = np.searchsorted(asked, after, side="left")
    time = at(asked, np.where(found < len(asked), found, -1))
    return np.where((time >= after) & (time <= before), time, before)


def waiting_of(link: Link, held: Held) -> Context | None:
    """Threads of the VMM, but its virtual CPUs, that wait for a CPU while it has the request."""
    told, _, injected, _ = _stages(link, held)
    if not len(told):
        return None
    limits = np.array([told.min(), injected.max()])
    host = link.meanwhile(*link.clock.to_lower(limits).tolist())
    vcpus = host.columns("kvm_exit", "tid")["tid"]
    sleeps = sleeps_of(host)
    mine = members_of(link.lower.trace, link.agents)
    rows = np.flatnonzero(np.isin(sleeps.tid, mine) & ~np.isin(sleeps.tid, vcpus))
    sleeps, waits = sleeps.rows(rows), waits_of(sleeps.rows(rows), "vmm.runqueue")
    begin, end = link.clock.to_upper(waits.begin_ns), link.clock.to_upper(waits.end_ns)
    none = np.zeros(max(len(told), len(begin)), np.int64)
    row, other = overlapping(none[: len(told)], told, injected, none[: len(begin)], begin, end)
    begin, end = np.maximum(begin[other], told[row]), np.minimum(end[other], injected[row])
    spans = Spans(row, waits.rank[other], begin, end, waits.owner[other])
    return Context(_clipped(spans, held), waits, behind_cpus(host, sleeps), host)


def _clipped(spans: Spans, held: Held) -> Spans:
    clipped = SpanList()
    clipped.add(
        spans.owner,
        spans.rank,
        np.maximum(spans.begin_ns, held.begin_ns[spans.owner]),
        np.minimum(spans.end_ns, held.end_ns[spans.owner]),
        spans.of,
    )
    return clipped.collect()
