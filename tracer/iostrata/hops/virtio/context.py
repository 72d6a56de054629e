# SPDX-License-Identifier: Apache-2.0
"""Hop virtio: what kept the guest's own code from running, and who or what was behind that."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from iostrata.columns import AsOf, Containing, Ints, at, distinct, joined, overlapping, pair_key
from iostrata.hops.hop import Context, Link
from iostrata.hops.virtio.vcpus import vcpus_of
from iostrata.hops.waits import waits_of
from iostrata.layers import RANK, exit_name, is_idle
from iostrata.stitch import (
    Behind,
    Columns,
    Parts,
    SpanList,
    Spans,
    Window,
    behind_cpus,
    sleeps_of,
)

Cpus = tuple[Ints, Ints, Ints, Ints]
"""Stretches of pieces on a virtual CPU: row of the piece, virtual CPU, begin and end."""


def context_of(link: Link, window: Window) -> Context | None:
    """The virtual CPUs that the pieces ran on: out of guest mode, or without a CPU."""
    begin, end = link.clock.to_lower(np.array([window.begin_ns, window.end_ns])).tolist()
    host = link.meanwhile(begin, end)
    spans, vcpus = SpanList(), vcpus_of(link.upper, link.lower.trace, link.monitors)
    if vcpus is None:
        return None
    cpus = _vcpus_of(window, vcpus)
    exits = host.columns("kvm_exit", "exit_ns", "tid", "tgid", "vcpu", "reason", "isa")
    mine = np.isin(exits["tgid"], link.monitors)
    some = np.flatnonzero(mine & ~is_idle(exits["isa"], exits["reason"]))
    left = {name: column[some] for name, column in exits.items()}
    vcpu_of = AsOf(exits["tid"], exits["time_ns"])
    sleeps = sleeps_of(host)
    # A virtual CPU enters guest mode soon after it runs again.
    found = vcpu_of.at_or_after(sleeps.tid, sleeps.on_ns)
    rows = np.flatnonzero(at(mine.astype(np.int64), found) > 0)
    waits = waits_of(sleeps.rows(rows), "vcpu.runqueue")
    _keep(spans, link, cpus, "vcpu.runqueue",
          exits["vcpu"][found[rows]], waits.begin_ns, waits.end_ns, waits.owner)  # fmt: skip
    behind = behind_cpus(host, sleeps.rows(rows))
    number = np.arange(len(some)) + len(waits)
    _keep(spans, link, cpus, "kvm.exit",
          left["vcpu"], left["exit_ns"], left["time_ns"], number)  # fmt: skip
    if not behind:
        return Context(spans.collect(), waits, None, host)
    lower = Spans(**joined([waits, _spans_of(left)]))
    return Context(spans.collect(), lower, _with_reasons(behind, len(waits), left), host)


def _spans_of(exits: Columns) -> Spans:
    nobody = np.full(len(exits["vcpu"]), -1)
    rank = np.full(len(nobody), RANK["kvm.exit"], np.int16)
    return Spans(nobody, rank, exits["exit_ns"], exits["time_ns"], nobody)


def _with_reasons(behind: Behind, waits: int, exits: Columns) -> Behind:
    """Who is behind the waits, which come first, and why each of the exits was."""
    people = behind.people
    kinds, kind = np.unique(pair_key(exits["isa"], exits["reason"]), return_inverse=True)
    _, first = np.unique(kind, return_index=True)
    names = [
        people.number(f"exit {exit_name(isa, reason)}", 0)
        for isa, reason in zip(
            exits["isa"][first].tolist(), exits["reason"][first].tolist(), strict=True
        )
    ]
    why = np.array(names, np.int64)[kind] if len(kinds) else kind

    def find(rows: Ints, whose: Ints | None) -> Iterator[Parts]:
        waiting = np.flatnonzero(rows < waits)
        own = None if whose is None else whose[waiting]
        for span, begin, end, who in behind.find(rows[waiting], own):
            yield waiting[span], begin, end, who
        place = np.flatnonzero(rows >= waits)
        left = rows[place] - waits
        yield place, exits["exit_ns"][left], exits["time_ns"][left], why[left]

    return Behind(people, find)


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
    count = int(vcpus.max(initial=0)) + 1
    pairs = distinct((row * count + vcpu)[(row >= 0) & (vcpu >= 0)])
    row, vcpu = pairs // count, pairs % count
    return row, vcpu, pieces.begin_ns[row], pieces.end_ns[row]


def _keep(
    spans: SpanList,
    link: Link,
    cpus: Cpus,
    rank: str,
    vcpu: Ints,
    begin_ns: Ints,
    end_ns: Ints,
    of: Ints | None = None,
) -> None:
    """What a virtual CPU did is what kept every piece that was on it."""
    piece, cpu, since, until = cpus
    begin, end = link.clock.to_upper(begin_ns), link.clock.to_upper(end_ns)
    row, other = overlapping(cpu, since, until, vcpu, begin, end)
    number = None if of is None else of[other]
    spans.add(piece[row], rank, begin[other], end[other], number)
