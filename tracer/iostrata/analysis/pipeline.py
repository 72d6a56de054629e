# SPDX-License-Identifier: Apache-2.0
"""A recording in, its Breakdown out: read, align, stitch, attribute."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.analysis.earned import Earned, earned
from iostrata.analysis.left_out import FOR_OTHERS, UNFINISHED, for_others, left_out_of
from iostrata.analysis.leftovers import Audits, left_over
from iostrata.analysis.names import names_of
from iostrata.analysis.nothing import no_write_found, none_found
from iostrata.analysis.path import Path, path_of
from iostrata.analysis.quality import quality_of
from iostrata.analysis.sites import Sites
from iostrata.analysis.transfers import (
    check_recorded,
    faults_of,
    other_ops,
    with_served,
)
from iostrata.analysis.unsure import partial_syncs, unsure_syncs
from iostrata.analysis.who import Names, told_in
from iostrata.attribute import joined_writes
from iostrata.columns import Ints, distinct, one_of
from iostrata.crew import each
from iostrata.hops import HOPS, Graph, Hop, Node, graph_of, units_of_served
from iostrata.model import Behind, Breakdown, Layer, Op, Unseen, WaitSite, Writes
from iostrata.recording import Recording
from iostrata.stitch import Pieces, Units, direct_of, reads_of, units_of, windows
from iostrata.trace import Trace, inode_numbers, realtime_of
from iostrata.trace.layout import THREAD_TARGET, THREAD_WORKER

NO_ROWS: Final = np.zeros(0, np.int64)
KEPT_BYTES: Final = 16 << 20


@dataclass(frozen=True, eq=False)
class Top:
    """A machine's writes. ``kept``: rows of the units to analyse, by begin time.

    ``first``: row of the first of them in the ``Writes`` of all tops.
    """

    node: Node
    units: Units
    pieces: Pieces
    kept: Ints
    first: int = 0

    @property
    def trace(self) -> Trace:
        return self.node.trace

    def units_of(self, rows: Ints) -> Ints:
        """The units of those rows of the ``Writes`` that are this top's."""
        mine = (rows >= self.first) & (rows < self.first + len(self.kept))
        return self.kept[rows[mine] - self.first]


@dataclass(frozen=True)
class Prepared:
    """The machines of the writes' way and the writes, before anything is stitched.

    ``writes``: those kept of all tops, top by top. ``unsure_syncs``: those of them before which
    calls were lost; ``partial_syncs``: those before which not all calls were recorded. ``op``:
    what they are.
    """

    path: Path
    tops: tuple[Top, ...]
    writes: Writes
    left_out: Mapping[str, int]
    plain_writes: int
    unsure_syncs: int
    partial_syncs: int
    op: Op = Op.SYNC

    def top_of(self, row: int) -> Top:
        """Whose write one of the ``Writes`` is."""
        return next(top for top in reversed(self.tops) if row >= top.first)


def nobody(share: float) -> None:
    """Hears how much is done."""


def analyse(
    recording: Recording,
    op: Op = Op.SYNC,
    jobs: int = 1,
    heard: Callable[[float], None] = nobody,
) -> Breakdown:
    """Where each synchronous write of the recording, or each read, spent its time.

    ``jobs``: by so many processes; whatever their number, the result is the same. ``heard``: is
    told now and then which part of what was read is done, from 0 to 1.

    Errors: RecordingError, NothingToAnalyse, UsageError.
    """
    return breakdown_of(prepare(recording, op), jobs, heard)


def _keep_memory() -> None:
    """Has glibc keep what a window lets go of for the next one, up to twice ``KEPT_BYTES``.

    It gives back less once anything so large was freed (mallopt(3): the dynamic threshold).
    Without that the kernel hands out the same pages anew in every window, zeroed one by one:
    a sixth of the time.
    """
    np.empty(KEPT_BYTES, np.uint8)


def breakdown_of(
    found: Prepared, jobs: int = 1, heard: Callable[[float], None] = nobody
) -> Breakdown:
    """Where each of the writes spent its time. ``jobs``, ``heard``: as for ``analyse``."""
    credit = _credit(found, jobs, heard)
    layers, time_ns = _layers(credit, found)
    residual = found.writes.latency_ns - time_ns.sum(axis=0)
    left, background, asleep_ns = left_over(credit.audits)
    all_ns = max(int(found.writes.latency_ns.sum()), 1)
    shares = {
        (layer.machine, layer.row): int(times.sum()) / all_ns
        for layer, times in zip(layers, time_ns, strict=True)
    }
    quality = replace(
        quality_of(found.path, found.plain_writes, credit.ties, shares),
        unsure_syncs=found.unsure_syncs,
        partial_syncs=found.partial_syncs,
        unfollowed=int(np.count_nonzero(credit.missed)),
        hidden={machine: ns / len(found.writes) for machine, ns in credit.hidden.items()},
        sites=tuple(
            WaitSite(machine, site, ns / len(found.writes))
            for (machine, site), ns in credit.sites.most_common()
            if ns
        ),
        unseen=tuple(
            Unseen(machine, count, ns / len(found.writes))
            for machine, told in credit.unseen.items()
            for count, ns in [told.tolist()]
        ),
        left_over=left,
        background=background,
        left_over_share=asleep_ns / all_ns,
    )
    behind = _behind(credit, layers, found)
    writes = found.writes
    if found.op is Op.READ:
        writes = with_served(writes, credit.served, found.path)
        gaps = (*quality.not_observed, *faults_of(found.path))
        quality = replace(quality, not_observed=gaps)
    return Breakdown(writes, layers, time_ns, residual, found.left_out, quality, behind, found.op)


def prepare(recording: Recording, op: Op = Op.SYNC) -> Prepared:
    """The recording's writes, or reads, and what their events are in; errors as ``analyse``."""
    _keep_memory()
    traces = recording.traces()
    left_out: Counter[str] = Counter()
    plain_writes = 0
    check_recorded(traces, op)
    graph = graph_of(traces, reads=op is not Op.SYNC)
    if op is Op.SYNC:
        tops, plain_writes = _tops(graph, left_out)
    else:
        tops = _transfer_tops(graph, op, left_out)
    roles = [machine.role for machine in recording.machines]
    notes = [machine.note for machine in recording.machines]
    path = path_of(graph, roles, notes, [top.trace for top in tops])
    path = replace(path, apart=(*path.apart, *_absent(recording)))
    kept: list[Top] = []
    count = 0
    for top in tops:
        reasons, rows = left_out_of(graph, top.trace, top.units)
        left_out.update(reasons)
        kept.append(replace(top, kept=rows, first=count))
        count += len(rows)
    kept = [top for top in kept if len(top.kept)]
    if not kept:
        quality = quality_of(path, plain_writes, {})
        if op is not Op.SYNC:
            raise none_found(op, left_out, quality.damage)
        raise no_write_found(left_out, quality, other_ops(traces))
    unsure = sum(unsure_syncs(top.trace, top.units, top.kept) for top in kept)
    partial = sum(partial_syncs(top.trace, top.units, top.kept) for top in kept)
    if op is not Op.SYNC:
        unsure = partial = 0
    return Prepared(
        path, tuple(kept), _writes(kept), dict(left_out), plain_writes, unsure, partial, op
    )


def _transfer_tops(graph: Graph, op: Op, left_out: Counter[str]) -> list[Top]:
    """Each machine with what read, or passed the page cache by.

    Adds to ``left_out`` what is none of it, or did not end here, by reason.
    """
    tops = []
    for trace in graph.machines:
        found = reads_of(trace) if op is Op.READ else direct_of(trace)
        units, pieces, reads, without_end, nothing = found
        left_out.update(nothing + Counter({UNFINISHED: without_end}))
        node = graph.node(trace, pieces, "syscall", reads)
        tops.append(Top(node, units, pieces, NO_ROWS))
    return [top for top in tops if len(top.units)] or tops


def _tops(graph: Graph, left_out: Counter[str]) -> tuple[list[Top], int]:
    """Each machine with synchronous writes; how many plain ones there are.

    Without any, what machines did for others: first of all for those not recorded. What a machine
    with a workload does for itself alone is no write of another's. Adds to ``left_out`` what did
    not end here, and what those who serve others did for none of these.
    """
    working = [trace for trace in graph.machines if _has_workload(trace)]
    tops, plain_writes = _tops_of(graph, working, left_out)
    if any(len(top.units) for top in tops):
        return [top for top in tops if len(top.units)], plain_writes
    asked = {(link.lower.trace.machine, link.hop.name) for link in graph.links}
    served = [
        (trace, hop, *found)
        for trace in graph.machines
        for hop in HOPS
        if not (hop.overlaps or (hop.within and _has_workload(trace)))
        if (found := units_of_served(hop, trace))
    ]
    first = [one for one in served if (one[0].machine, one[1].name) not in asked]
    for trace, hop, units, pieces in first or [_for_others(graph, *one) for one in served]:
        tops.append(Top(graph.node(trace, pieces, hop.floor), units, pieces, NO_ROWS))
    if not tops:
        tops, plain_writes = _tops_of(graph, graph.machines, left_out)
    return tops, plain_writes


def _tops_of(
    graph: Graph, machines: Sequence[Trace], left_out: Counter[str]
) -> tuple[list[Top], int]:
    """Machines with their own synchronous writes, be there any or not."""
    tops, plain_writes = [], 0
    for trace in machines:
        found = units_of(trace)
        node = graph.node(trace, found.pieces, "syscall")
        tops.append(Top(node, found.units, found.pieces, NO_ROWS))
        others = for_others(graph, trace, found.for_others) if len(found.units) else 0
        left_out += found.cut + Counter({UNFINISHED: found.unfinished, FOR_OTHERS: others})
        plain_writes += found.plain
    return tops, plain_writes


def _for_others(
    graph: Graph, trace: Trace, hop: Hop, units: Units, pieces: Pieces
) -> tuple[Trace, Hop, Units, Pieces]:
    """Without what was asked by one of the machines, which all serve one another."""
    left = np.ones(len(units), np.bool_)
    for link in graph.links:
        if link.hop is hop and link.lower.trace is trace:
            left[link.pairs.serve] = False
    rows = np.flatnonzero(left)
    units = Units(**{name: column[rows] for name, column in vars(units).items()})
    return trace, hop, units, replace(pieces.rows(rows), unit=np.arange(len(rows)))


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


@dataclass(frozen=True, eq=False)
class _Credit:
    """What the windows of all tops come to.

    ``time_ns``: of each place of the path's layers, in each of the writes. ``hidden``: ns
    that writes waited for a machine too, while they waited longer for something else.
    ``missed``: of each write, whether something of it was found on no machine.
    ``sites``: ns that they slept for no cause that was observed, by where. ``unseen``: by machine,
    of how many sleeps nobody was seen to end them, and their ns. ``behind``: writes,
    their place, who was behind it (of ``names``) and ns; in parts. ``served``: of each
    read, from where, -1: it is none.
    """

    time_ns: dict[int, Ints]
    ties: Counter[str]
    audits: Audits
    hidden: Counter[str]
    sites: Sites
    unseen: dict[str, Ints]
    missed: NDArray[np.bool_]
    behind: tuple[list[Ints], list[Ints], list[Ints], list[Ints]]
    names: Names
    served: Ints


def _credit(found: Prepared, jobs: int, heard: Callable[[float], None]) -> _Credit:
    missed = np.zeros(len(found.writes), np.bool_)
    unseen: dict[str, Ints] = defaultdict(lambda: np.zeros(2, np.int64))
    served = np.full(len(found.writes), -1)
    credit = _Credit(
        {}, Counter(), Audits(), Counter(), Counter(), unseen, missed, ([], [], [], []), Names(),
        served,
    )  # fmt: skip
    told = told_in(found.path)
    # Who is met first has the lower number, and of two at once the higher one holds the time.
    jobs = 1 if told else jobs
    every: list[tuple[Top, Ints, Ints]] = []
    for top in found.tops:
        write_of_unit = np.full(len(top.units), -1)
        write_of_unit[top.kept] = top.first + np.arange(len(top.kept))
        write = write_of_unit[top.pieces.unit]
        every += [(top, rows, write) for rows in windows(top.pieces)]

    def window(one: tuple[Top, Ints, Ints]) -> Earned:
        top, rows, write = one
        return earned(found.path, top.node, rows, write[rows], told, credit.names)

    done, of = 0, sum(len(rows) for _, rows, _ in every)
    heard(0.0)
    for (_, rows, _), one in zip(every, each(window, every, jobs), strict=True):
        _add_window(credit, one)
        done += len(rows)
        heard(done / of)
    return credit


def _add_window(credit: _Credit, one: Earned) -> None:
    for place, time in one.time_ns.items():
        if place not in credit.time_ns:
            credit.time_ns[place] = np.zeros(len(credit.missed), np.int64)
        credit.time_ns[place][one.writes] += time
    for part in one.behind:
        for parts, column in zip(credit.behind, part, strict=True):
            parts.append(column)
    sites, unseen = one.asleep
    credit.sites.update(sites)
    for machine, count, ns in unseen:
        credit.unseen[machine] += np.array([count, ns])
    credit.ties.update(+one.ties)
    credit.audits.extend(one.audits)
    reads, served = one.served
    credit.served[reads] = served
    credit.missed[one.missed] = True
    for machine, ns in one.hidden.items():
        credit.hidden[machine] += ns


def _behind(credit: _Credit, layers: Sequence[Layer], found: Prepared) -> Behind:
    """By layer instead of by place: several places may be of one."""
    columns = []
    for parts in credit.behind:
        columns.append(np.concatenate([NO_ROWS, *parts]))
        # What is joined is not kept twice.
        parts.clear()
    write, place, who, time = columns
    number = {layer: row for row, layer in enumerate(layers)}
    layer_of = [number.get(layer, -1) if layer else -1 for layer in found.path.layers]
    names, number_of = credit.names.distinct()
    return Behind(write, np.array(layer_of, np.int64)[place], number_of[who], time, names)


def _layers(credit: _Credit, found: Prepared) -> tuple[tuple[Layer, ...], NDArray[np.int64]]:
    """The layers that a write was in, in the order of the table, and their times."""
    times: dict[Layer, NDArray[np.int64]] = {}
    for place, time in credit.time_ns.items():
        if (layer := found.path.layers[place]) and time.any():
            times[layer] = times.get(layer, 0) + time
    layers = tuple(layer for layer in found.path.in_order() if layer in times)
    columns = np.array([times[layer] for layer in layers], np.int64)
    return layers, columns.reshape(len(layers), len(found.writes))


def _writes(tops: Sequence[Top]) -> Writes:
    """Those that are kept, top by top."""
    parts = [_writes_of(top) for top in tops]
    return joined_writes(parts) if len(parts) > 1 else parts[0]


def _writes_of(top: Top) -> Writes:
    trace, units, kept = top.trace, top.units, top.kept
    device = units.device_key[kept]
    names, codes = names_of(trace, units, kept)
    return Writes(
        begin_ns=units.begin_ns[kept],
        end_ns=units.end_ns[kept],
        latency_ns=units.latency_ns[kept],
        tid=units.tid[kept],
        tgid=units.tgid[kept],
        size_bytes=units.size_bytes[kept],
        durable_writes=units.durable_writes[kept],
        pieces=units.pieces[kept],
        device_key=device,
        inode=inode_numbers(trace.facts, device, units.inode[kept]),
        offset_bytes=units.offset_bytes[kept],
        codes=codes,
        names=names,
        realtime_ns=realtime_of(trace, units.begin_ns[kept]),
    )
