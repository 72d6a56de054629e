# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: the hop from a guest to the machine that runs it.

Its wire key is the place on the disk: sector * 512 in the guest is the offset in
a raw image's file, in a system call of the virtual machine monitor (VMM). A flush has
no place; the VMM makes one fdatasync of several of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from iostrata.columns import (
    AsOf,
    Containing,
    Ints,
    at,
    columns_of,
    joined,
    overlapping,
    pair_key,
)
from iostrata.layers.exits import is_idle
from iostrata.stitch.calls import Pieces
from iostrata.stitch.hop import Asks, Serves
from iostrata.stitch.lift import Held, Link
from iostrata.stitch.requests import OP_WRITE, Requests, requests_of
from iostrata.stitch.spans import SpanList, Spans
from iostrata.stitch.submissions import pieces_of, submissions_of
from iostrata.stitch.vcpus import vcpus_of
from iostrata.stitch.wakeup import sleeps_of
from iostrata.stitch.window import NO_COMMITS, NO_PIECES, Window, whole
from iostrata.trace.layout import (
    CALL_FDATASYNC,
    CALL_FSYNC,
    CALL_PWRITEV2,
    CALL_WRITE,
    THREAD_VMM,
)
from iostrata.trace.read import Trace

SECTOR_BYTES: Final = 512


class Virtio:
    """A block request of the guest, carried out by a thread of the VMM."""

    name = "virtio"
    floor = "syscall"

    def asks(self, upper: Trace) -> Asks:
        """Writes and flushes: what else a disk does (reads, zeroes) is no call that is recorded."""
        requests = requests_of(whole(upper))[0]
        told, heard = _told_and_heard(upper, requests)
        asks = Asks(
            identity=requests.key,
            begin_ns=requests.issue_ns,
            end_ns=requests.complete_ns,
            key=pair_key(requests.sector * SECTOR_BYTES, requests.size_bytes),
            group=requests.device_key,
            shared=requests.flush,
            told_ns=told,
            heard_ns=heard,
        )
        return asks.rows(np.flatnonzero(requests.flush | (requests.operation == OP_WRITE)))

    def serves(self, lower: Trace) -> tuple[Serves, Pieces]:
        """Every call and every request of a VMM that writes or makes durable."""
        parts = (_calls(lower), _requests(lower))
        serves = Serves(**joined([serves for serves, _ in parts]))
        pieces = Pieces(**joined([pieces for _, pieces in parts]))
        number = np.arange(len(serves))
        return replace(serves, piece=number), replace(pieces, unit=number)

    def crossing(self, link: Link, held: Held) -> Spans:
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

    def context(self, link: Link, window: Window) -> Spans:
        """The virtual CPUs that the pieces ran on: out of guest mode, or without a CPU."""
        begin, end = link.clock.to_lower(np.array([window.begin_ns, window.end_ns])).tolist()
        host = _meanwhile(link, begin, end)
        spans, vcpus = SpanList(), vcpus_of(link.upper, link.lower.trace, link.agents)
        if vcpus is None:
            return spans.collect()
        cpus = _vcpus_of(window, vcpus)
        exits = host.columns("kvm_exit", "exit_ns", "tid", "tgid", "vcpu", "reason", "isa")
        mine = np.isin(exits["tgid"], link.agents)
        rows = np.flatnonzero(mine & ~is_idle(exits["isa"], exits["reason"]))
        _keep(spans, link, cpus, "kvm.exit",
              exits["vcpu"][rows], exits["exit_ns"][rows], exits["time_ns"][rows])  # fmt: skip
        vcpu_of = AsOf(exits["tid"], exits["time_ns"])
        sleeps = sleeps_of(host)
        # A virtual CPU enters guest mode soon after it runs again.
        found = vcpu_of.at_or_after(sleeps.tid, sleeps.on_ns)
        rows = np.flatnonzero((found >= 0) & mine[found])
        _keep(spans, link, cpus, "vcpu.runqueue",
              exits["vcpu"][found[rows]], sleeps.runnable_ns[rows], sleeps.on_ns[rows])  # fmt: skip
        return spans.collect()


Cpus = tuple[Ints, Ints, Ints, Ints]
"""Stretches of pieces on a virtual CPU: row of the piece, virtual CPU, begin and end."""


def _calls(lower: Trace) -> tuple[Serves, Pieces]:
    calls = columns_of(
        lower.points["syscall"], "enter_ns", "tid", "tgid", "call", "dev", "inode",
        "offset_bytes", "result",
    )  # fmt: skip
    call = calls["call"]
    flush = (call == CALL_FSYNC) | (call == CALL_FDATASYNC)
    writes = (call >= CALL_WRITE) & (call <= CALL_PWRITEV2)
    of_vmm = np.isin(calls["tgid"], _processes(lower))
    rows = np.flatnonzero(of_vmm & (flush | writes) & (calls["result"] >= 0))
    calls, flush = {name: column[rows] for name, column in calls.items()}, flush[rows]
    none = np.zeros(len(rows), np.int64)
    serves = Serves(
        begin_ns=calls["enter_ns"],
        end_ns=calls["time_ns"],
        key=pair_key(calls["offset_bytes"], calls["result"]),
        group=pair_key(calls["inode"], calls["dev"]),
        shared=flush,
        piece=none,
        agent=calls["tgid"],
        flush=flush,
        offset_bytes=calls["offset_bytes"],
        size_bytes=np.where(flush, 0, calls["result"]),
    )
    return serves, Pieces(none, calls["tid"], serves.begin_ns, serves.end_ns, calls["dev"], none)


def _requests(lower: Trace) -> tuple[Serves, Pieces]:
    """Those of aio=native and aio=io_uring."""
    found = submissions_of(lower)
    of_vmm = np.isin(found.tgid, _processes(lower))
    found = found.rows(np.flatnonzero(of_vmm & (found.end_ns >= 0) & (found.result >= 0)))
    serves = Serves(
        begin_ns=found.begin_ns,
        end_ns=found.end_ns,
        key=pair_key(found.offset_bytes, found.result),
        group=pair_key(found.inode, found.device_key),
        shared=found.flush,
        piece=np.zeros(len(found), np.int64),
        agent=found.tgid,
        flush=found.flush,
        offset_bytes=found.offset_bytes,
        size_bytes=np.where(found.flush, 0, found.result),
    )
    return serves, pieces_of(found)


def _processes(trace: Trace) -> Ints:
    threads = columns_of(trace.points["thread"], "tgid", "kind")
    return np.unique(threads["tgid"][threads["kind"] == THREAD_VMM])


def _told_and_heard(upper: Trace, requests: Requests) -> tuple[Ints, Ints]:
    """When the guest began to tell the device of each request, and took its interrupt."""
    added = columns_of(upper.points["virtio_add"], "queue_key", "request_key")
    add = AsOf(added["request_key"], added["time_ns"]).at_or_before(
        requests.key, requests.complete_ns
    )
    when = at(added["time_ns"], add)
    queue, known = at(added["queue_key"], add), when >= requests.issue_ns
    notified = columns_of(upper.points["virtio_notify"], "queue_key", "enter_ns")
    told = AsOf(notified["queue_key"], notified["enter_ns"]).at_or_after(queue, when)
    interrupted = columns_of(upper.points["virtio_interrupt"], "queue_key")
    heard = AsOf(interrupted["queue_key"], interrupted["time_ns"]).at_or_before(
        queue, requests.complete_ns
    )
    return (
        np.where(known, at(notified["enter_ns"], told), -1),
        np.where(known, at(interrupted["time_ns"], heard), -1),
    )


def _injected(link: Link, after: Ints, before: Ints) -> Ints:
    """The first interrupt that the VMM asked for in between; ``before`` where none was seen."""
    if not len(after):
        return before
    begin, end = link.clock.to_lower(np.array([after.min(), before.max()])).tolist()
    # One more on each side: the way to the other clock and back is rounded.
    events = _meanwhile(link, begin - 1, end + 1).columns("kvm_msi", "tgid")
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
    host = _meanwhile(link, *link.clock.to_lower(limits).tolist())
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


def _meanwhile(link: Link, begin_ns: int, end_ns: int) -> Window:
    """The lower machine's events of a time of its own."""
    return Window(link.lower.trace, NO_PIECES, NO_COMMITS, max(begin_ns, 0), end_ns)


def _vcpus_of(window: Window, vcpus: Ints) -> Cpus:
    """Where each piece ran: on each CPU that one of its thread's events was on."""
    pieces = window.pieces
    resumes = window.columns("sched_resume", "cpu", "subject_tid")
    returns = window.columns("syscall", "cpu", "tid")
    piece = Containing(pieces.tid, pieces.begin_ns, pieces.end_ns)
    parts = [
        (piece.find(tid, events["time_ns"]), events["cpu"])
        for events, tid in (
            (resumes, resumes["subject_tid"]),
            (returns, returns["tid"]),
        )
    ]
    row = np.concatenate([row for row, _ in parts])
    cpu = np.concatenate([cpu for _, cpu in parts])
    vcpu = at(vcpus, np.where(cpu < len(vcpus), cpu, -1))
    pairs = np.unique(np.stack([row, vcpu], axis=1)[(row >= 0) & (vcpu >= 0)], axis=0)
    return (
        pairs[:, 0],
        pairs[:, 1],
        pieces.begin_ns[pairs[:, 0]],
        pieces.end_ns[pairs[:, 0]],
    )


def _keep(
    spans: SpanList,
    link: Link,
    cpus: Cpus,
    rank: str,
    vcpu: Ints,
    begin_ns: Ints,
    end_ns: Ints,
) -> None:
    """What a virtual CPU did is what kept every piece that was on it."""
    piece, cpu, since, until = cpus
    begin, end = link.clock.to_upper(begin_ns), link.clock.to_upper(end_ns)
    row, other = overlapping(cpu, since, until, vcpu, begin, end)
    spans.add(piece[row], rank, begin[other], end[other])
