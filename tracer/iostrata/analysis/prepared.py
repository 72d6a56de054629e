# SPDX-License-Identifier: Apache-2.0
"""A recording in, the machines of its writes' way and those writes out: nothing is stitched yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np

from iostrata.analysis.heap import give_back, keep_memory
from iostrata.analysis.left_out import (
    NO_DISK,
    ROOM,
    THEIR_OWN,
    for_others,
    left_out_of,
    sides_of,
    take_unasked,
)
from iostrata.analysis.names import names_of
from iostrata.analysis.nothing import no_write_found, none_found
from iostrata.analysis.path import Path, path_of
from iostrata.analysis.quality import quality_of
from iostrata.analysis.transfers import check_recorded, other_ops
from iostrata.analysis.unsure import partial_syncs, unsure_syncs
from iostrata.attribute import joined_writes
from iostrata.columns import Ints, are_all, compact, distinct, one_of, pair_key
from iostrata.crew import both
from iostrata.hops import HOPS, Graph, Hop, Node, graph_of, made_for_guests, units_of_served
from iostrata.large import in_files, large_in_files
from iostrata.model import Op, Writes
from iostrata.recording import Recording
from iostrata.stitch import (
    Pieces,
    Section,
    Transferred,
    Units,
    direct_of,
    reads_of,
    units_of,
    windows,
)
from iostrata.trace import Trace, inode_numbers, realtime_of
from iostrata.trace.layout import THREAD_TARGET, THREAD_VMM, THREAD_WORKER

HOST: Final = "host"
"""The role of a machine that runs others."""


@dataclass(frozen=True, eq=False)
class Top:
    """A machine's writes. ``kept``: rows of its ``units``, so many, to analyse, by begin time.

    ``first``: row of the first of them in the ``Writes`` of all tops. ``sides``: of each piece, on
    which side of the losses it began; None: there are none.
    """

    node: Node
    pieces: Pieces
    units: int
    kept: Ints
    first: int
    sides: Ints | None

    @property
    def trace(self) -> Trace:
        return self.node.trace

    @cached_property
    def windows(self) -> tuple[Section, ...]:
        """Which of the pieces are stitched together, in order of time."""
        return tuple(windows(self.pieces, self.sides))

    def units_of(self, rows: Ints) -> Ints:
        """The units of those rows of the ``Writes`` that are this top's."""
        return self.kept[self._mine(rows) - self.first]

    def write_of_piece(self) -> Ints:
        """Of each of the pieces, which row of the ``Writes`` it is of, -1: of none."""
        if not self.first and are_all(self.kept, self.units):
            return self.pieces.unit
        every = self.first + np.arange(len(self.kept))
        return self.write_of_unit(every)[self.pieces.unit]

    def write_of_unit(self, rows: Ints) -> Ints:
        """Of each unit, which of those rows of the ``Writes`` it is, -1: none."""
        write, mine = np.full(self.units, -1), self._mine(rows)
        write[self.kept[mine - self.first]] = mine
        return write

    def _mine(self, rows: Ints) -> Ints:
        return rows[(rows >= self.first) & (rows < self.first + len(self.kept))]


@dataclass(frozen=True, eq=False)
class _Found:
    """All that a machine did, before it is known what of it is analysed."""

    node: Node
    units: Units
    pieces: Pieces
    durable: bool = False
    """What its own processes made durable, or asked to be."""

    @property
    def trace(self) -> Trace:
        return self.node.trace


@dataclass(frozen=True)
class Prepared:
    """The machines of the writes' way and the writes, before anything is stitched.

    ``writes``: those kept of all tops, top by top. ``unsure_syncs``: those of them before which
    calls were lost; ``partial_syncs``: those before which not all calls were recorded. ``lost_ns``:
    how long those took that a loss may have touched. ``op``: what they are. ``unasked``: how many
    others made who were not asked for, by reason.
    """

    path: Path
    tops: tuple[Top, ...]
    writes: Writes
    left_out: Mapping[str, int]
    plain_writes: int
    unsure_syncs: int
    partial_syncs: int
    lost_ns: Ints
    op: Op = Op.SYNC
    unasked: Mapping[str, int] = field(default_factory=dict)

    def top_of(self, row: int) -> Top:
        """Whose write one of the ``Writes`` is."""
        return next(top for top in reversed(self.tops) if row >= top.first)


def prepare(recording: Recording, op: Op = Op.SYNC, jobs: int = 1) -> Prepared:
    """The recording's writes, or reads, and what their events are in; errors as ``analyse``.

    ``jobs``: read by so many threads.
    """
    keep_memory()
    large_in_files()
    traces = recording.traces(jobs)
    if in_files():
        give_back()
    left_out: Counter[str] = Counter()
    plain_writes = 0
    check_recorded(traces, op)
    graph = graph_of(traces, reads=op is not Op.SYNC)
    if op is Op.SYNC:
        tops, plain_writes = _tops(graph, left_out, jobs)
    else:
        tops = _transfer_tops(graph, op, left_out)
    unasked = take_unasked(left_out)
    roles = [machine.role for machine in recording.machines]
    notes = [machine.note for machine in recording.machines]
    path = path_of(graph, roles, notes, [top.trace for top in tops])
    path = replace(path, interrupted=(*path.interrupted, *_absent(recording)))
    kept: list[Top] = []
    writes: list[Writes] = []
    lost: list[Ints] = []
    count = unsure = partial = 0
    for top in tops:
        reasons, rows, lost_ns = left_out_of(graph, top.trace, top.units, durable=top.durable)
        left_out.update(reasons)
        lost.append(lost_ns)
        if not len(rows):
            continue
        sides = sides_of(graph, top.trace, top.pieces)
        kept.append(Top(top.node, top.pieces, len(top.units), rows, count, sides))
        units = top.units.rows(rows)
        writes.append(_beside_windows(kept[-1], units, graph, jobs))
        count += len(rows)
        if op is Op.SYNC:
            unsure += unsure_syncs(top.trace, units)
            partial += partial_syncs(top.trace, units)
    if not kept:
        quality = quality_of(path, plain_writes, {})
        envs = [trace.env for trace in traces]
        if op is not Op.SYNC:
            raise none_found(op, left_out, quality, envs)
        empty = [
            trace.machine
            for trace, role in zip(traces, roles, strict=True)
            if role == HOST and THREAD_VMM not in trace.points["thread"].values("kind")
        ]
        raise no_write_found(left_out, quality, other_ops(traces), empty, envs)
    whole = joined_writes(writes) if len(writes) > 1 else writes[0]
    if in_files():
        give_back()
    return Prepared(
        path, tuple(kept), whole, dict(left_out), plain_writes, unsure, partial,
        np.concatenate(lost), op, unasked,
    )  # fmt: skip


def _transfer_tops(graph: Graph, op: Op, left_out: Counter[str]) -> list[_Found]:
    """Each machine with what read, or passed the page cache by.

    Where those who have guests' disks did more of it, for guests that were not recorded, than all
    programs of the machines for themselves (a command that only waits reads its libraries), with
    what these did. Adds to ``left_out`` what is none of it, or did not end here, by reason; and
    what those who serve others did for none of these, as on machines that did nothing for
    themselves if none did.
    """
    transfers_of = reads_of if op is Op.READ else direct_of
    made = {trace: transfers_of(trace) for trace in graph.machines}
    asked = {link.lower.trace for link in graph.links if link.hop.way == "hypervisor"}
    hosts = [trace for trace in graph.machines if trace not in asked]
    served = ((trace, made_for_guests(trace, transfers_of)) for trace in hosts)
    guests = {trace: found for trace, found in served if found}
    if _count(guests) > _count(made):
        left_out += +Counter({THEIR_OWN: _count(made)})
        made |= {trace: found for trace, found in guests.items() if len(found.units)}
    own = {trace for trace, found in made.items() if len(found.units)}
    tops = []
    for trace, found in made.items():
        left_out.update(found.none)
        if trace in own or not own:
            left_out.update(for_others(graph, trace, found.for_others))
            node = graph.node(trace, found.pieces, "syscall", found.reads)
            tops.append(_Found(node, found.units, found.pieces))
    return tops


def _count(made: Mapping[Trace, Transferred]) -> int:
    return sum(len(found.units) for found in made.values())


def _tops(graph: Graph, left_out: Counter[str], jobs: int) -> tuple[list[_Found], int]:
    """Each machine with synchronous writes; how many plain ones there are.

    Without any, what machines did for others: first of all for those not recorded. What a machine
    with a workload does for itself alone is no write of another's. Adds to ``left_out`` what did
    not end here, and what those who serve others did for none of these.
    """
    working = [trace for trace in graph.machines if _has_workload(trace)]
    tops, plain_writes = _tops_of(graph, working, left_out, jobs)
    tops += _tops_by_library(graph)
    plain_writes += sum(hop.plain(trace) for trace in graph.machines for hop in HOPS if hop.own)
    if any(len(top.units) for top in tops):
        return [top for top in tops if len(top.units)], plain_writes
    asked = {(link.lower.trace.machine, link.hop.name) for link in graph.links}
    served = [
        (trace, hop, *found)
        for trace in graph.machines
        for hop in HOPS
        if not (hop.own or hop.overlaps or (hop.within and _has_workload(trace)))
        if (found := units_of_served(hop, trace))
    ]
    first = [one for one in served if (one[0].machine, one[1].name) not in asked]
    for trace, hop, units, pieces, rooms in first or [_for_others(graph, *one) for one in served]:
        left_out += Counter({NO_DISK: hop.to_no_disk(trace), ROOM: rooms})
        tops.append(_Found(graph.node(trace, pieces, hop.floor), units, pieces))
    if not tops:
        tops, plain_writes = _tops_of(graph, graph.machines, left_out, jobs)
    return tops, plain_writes


def _tops_of(
    graph: Graph, machines: Sequence[Trace], left_out: Counter[str], jobs: int
) -> tuple[list[_Found], int]:
    """Machines with their own synchronous writes, be there any or not."""
    tops, plain_writes = [], 0
    for trace in machines:
        found = units_of(trace, jobs)
        node = graph.node(trace, found.pieces, "syscall")
        tops.append(_Found(node, found.units, found.pieces, durable=True))
        left_out += found.cut
        if len(found.units):
            left_out += for_others(graph, trace, found.for_others)
        plain_writes += found.plain
    return tops, plain_writes


def _tops_by_library(graph: Graph) -> Iterator[_Found]:
    """What of a workload takes no system call."""
    for trace in graph.machines:
        for hop in HOPS:
            if hop.own and (found := units_of_served(hop, trace)):
                units, pieces, _ = found
                yield _Found(graph.node(trace, pieces, hop.floor), units, pieces)


def _for_others(
    graph: Graph, trace: Trace, hop: Hop, units: Units, pieces: Pieces, rooms: int
) -> tuple[Trace, Hop, Units, Pieces, int]:
    """Without what was asked by one of the machines, which all serve one another: whoever has
    asked what is followed has asked the rest of that, too, of which a loss has a part."""
    left = np.ones(len(units), np.bool_)
    for link in graph.links:
        if link.hop is hop and link.lower.trace is trace:
            own = one_of(link.serves.group, link.serves.group[link.pairs.serve])
            asked = link.lower.pieces.rows(link.serves.piece[own])
            left &= ~one_of(_identity(pieces), _identity(asked))
    kept = np.flatnonzero(left)
    units, pieces = units.rows(kept), replace(pieces.rows(kept), unit=np.arange(len(kept)))
    return trace, hop, units, pieces, rooms


def _identity(pieces: Pieces) -> Ints:
    return pair_key(pair_key(pieces.request_key, pieces.tid), pieces.begin_ns)


def _absent(recording: Recording) -> Iterator[str]:
    for machine in recording.absent:
        yield f"{machine.name}: its trace is not here: {machine.note or 'it was not fetched'}"


def _has_workload(trace: Trace) -> bool:
    """A thread that made calls of its own, or the kernel's one that does (SQPOLL) for a process
    that serves nobody."""
    threads = trace.points["thread"].integers("kind", "tgid", "subject_tid")
    kind, process = threads["kind"], threads["tgid"]
    serving = distinct(process[kind > THREAD_WORKER])
    of_process = (kind == THREAD_WORKER) & (process != threads["subject_tid"])
    return bool(((kind == THREAD_TARGET) | (of_process & ~one_of(process, serving))).any())


def _beside_windows(top: Top, units: Units, graph: Graph, jobs: int) -> Writes:
    """A machine's writes; meanwhile a second thread, if there is one, tells their windows apart."""
    writes, _ = both(
        lambda: _writes_of(top.trace, units, graph),
        lambda: top.windows if jobs > 1 else (),
        jobs,
    )
    return writes


def _writes_of(trace: Trace, units: Units, graph: Graph) -> Writes:
    """Most columns of a workload have one number: a device, a size."""
    links = [link for link in graph.links if link.upper is trace]
    hosts = [link for link in links if link.hop.way == "hypervisor"]
    names, codes = names_of(trace, units, hosts)
    return Writes(
        begin_ns=units.begin_ns,
        end_ns=units.end_ns,
        latency_ns=units.latency_ns,
        tid=compact(units.tid),
        tgid=compact(units.tgid),
        size_bytes=compact(units.size_bytes),
        durable_writes=compact(units.durable_writes),
        pieces=compact(units.pieces),
        device_key=compact(units.device_key),
        inode=compact(inode_numbers(trace.facts, units.device_key, units.inode)),
        offset_bytes=compact(units.offset_bytes),
        codes={name: compact(column) for name, column in codes.items()},
        names=names,
        realtime_ns=realtime_of(trace, units.begin_ns),
    )
