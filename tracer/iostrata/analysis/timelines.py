# SPDX-License-Identifier: Apache-2.0
"""Pipeline: a recording and a choice of its writes in, their timelines out.

Only the windows that hold chosen writes are stitched, each whole, so that a
timeline shows what the table counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from msgspec import structs

from iostrata.analysis.beside import Beside
from iostrata.analysis.path import Path
from iostrata.analysis.prepared import Prepared, Top, prepare
from iostrata.analysis.quality import quality_of
from iostrata.analysis.transfers import are_reads, served_from
from iostrata.analysis.who import TOLD, Names, told_apart
from iostrata.attribute import ALL, Choice, Chosen, Wanted, process_name, segments
from iostrata.columns import Ints, in_order, one_of, rows_of
from iostrata.hops import Lifted, Witnesses
from iostrata.model import Lane, Op, Seen, Step, Timeline
from iostrata.recording import Recording


@dataclass
class _Told:
    """Of one unit: its steps, ``called_ns`` still as ``begin_ns``, times absolute; ``served``:
    of a read, from where."""

    steps: list[Step] = field(default_factory=list)
    served: str = ""


def timelines(recording: Recording, choice: Choice, wanted: Wanted = ALL, op: Op = Op.SYNC) -> Seen:
    """Errors: RecordingError, NothingToAnalyse, UsageError."""
    found = prepare(recording, op)
    shown, beside = _timelines(found, choice, wanted)
    return Seen(shown, beside.told(quality_of(found.path, found.plain_writes, {})))


def timelines_of(found: Prepared, choice: Choice, wanted: Wanted = ALL) -> tuple[Timeline, ...]:
    """In the order of the choice, among the wanted ones. Errors: NothingToAnalyse, UsageError."""
    return _timelines(found, choice, wanted)[0]


def _timelines(
    found: Prepared, choice: Choice, wanted: Wanted
) -> tuple[tuple[Timeline, ...], Beside]:
    """And what is left over beside them: it is in the same windows."""
    chosen = choice.of(found.writes, wanted.rows(found.writes, found.op))
    rows = np.array([one.row for one in chosen], np.int64)
    beside = Beside(found, rows)
    told = [_told_of_units(beside, number) for number in range(len(found.tops))]
    pieces = [_pieces_of(top, rows) for top in found.tops]
    reading, timelines = are_reads(found.writes), []
    for one in chosen:
        top = found.top_of(one.row)
        unit = int(top.kept[one.row - top.first])
        number = found.tops.index(top)
        mine = told[number][unit]
        if not reading[one.row]:
            mine.served = ""
        timelines.append(_timeline(found, top, one, pieces[number][unit], mine))
    return tuple(timelines), beside


def _pieces_of(top: Top, rows: Ints) -> dict[int, Ints]:
    """Of each unit of some of the ``Writes``, which of the top's pieces it consists of."""
    unit = top.pieces.unit
    mine = np.flatnonzero(one_of(unit, top.units_of(rows)))
    return {number: mine[some] for number, some in rows_of(unit[mine]).items()}


def _told_of_units(beside: Beside, number: int) -> dict[int, _Told]:
    """Of the units of one of the tops; what is left over beside them is noted."""
    found, top = beside.found, beside.found.tops[number]
    units = top.units_of(beside.rows)
    told = {int(unit): _Told() for unit in units}
    wanted = np.isin(top.pieces.unit, units)
    for window, section in enumerate(top.windows):
        rows, mine = section.rows, np.flatnonzero(section.told(wanted, nothing=False))
        if not len(mine):
            continue
        lifted, beside.audits[number, window] = beside.lift((number, window))
        unit = top.pieces.unit[rows]
        for piece, step in _steps(found.path, top, rows, mine, lifted):
            told[int(unit[piece])].steps.append(step)
        for piece in mine.tolist() if found.op is not Op.SYNC else ():
            told[int(unit[piece])].served = served_from(found.path, int(lifted.served[piece]))
    return told


def _steps(
    path: Path, top: Top, rows: Ints, pieces: Ints, lifted: Lifted
) -> Iterable[tuple[int, Step]]:
    witnesses = Witnesses(path.graph, lifted)
    begins, ends = top.pieces.begin_ns[rows], top.pieces.end_ns[rows]
    names = Names()
    own = lifted.spans.where(np.isin(lifted.spans.owner, pieces))
    apart = told_apart(own, lifted.views, names)
    held = segments(apart.spans, begins, ends)
    held = held.where(np.isin(held.owner, pieces))
    for owner, level, begin, end in zip(
        held.owner.tolist(),
        held.rank.tolist(),
        held.begin_ns.tolist(),
        held.end_ns.tolist(),
        strict=True,
    ):
        rank, number = (int(apart.ranks[level]), int(apart.who[level])) if level >= 0 else (-1, 0)
        layer = path.layer_of(rank)
        evidence = witnesses.of(owner, rank, begin, end)
        if number and layer and layer.row in TOLD:
            evidence = structs.replace(evidence, who=names.whom(number))
        if begin == begins[owner]:
            evidence = structs.replace(evidence, call=witnesses.call(owner))
        yield owner, Step(layer, begin, end, begin, evidence)


def _timeline(found: Prepared, top: Top, chosen: Chosen, rows: Ints, told: _Told) -> Timeline:
    """``rows``: of the top's pieces, those that the write consists of."""
    writes, row = found.writes, chosen.row
    begin, latency = int(writes.begin_ns[row]), int(writes.latency_ns[row])
    realtime = None if writes.realtime_ns is None else int(writes.realtime_ns[row])
    starts, ends = in_order(top.pieces.begin_ns[rows]), in_order(top.pieces.end_ns[rows])
    # Before each call the caller had been away for its begin less what was called until then.
    called = np.cumsum(np.append(0, (ends - starts)[:-1]))
    away = starts - begin - called
    own = process_name(writes.names["process"][writes.codes["process"][row]])
    relative = []
    for step in sorted(told.steps, key=lambda step: step.begin_ns):
        call = int(np.searchsorted(starts, step.begin_ns, side="right")) - 1
        since, until = step.begin_ns - begin, step.end_ns - begin
        evidence = step.evidence
        if evidence.who and evidence.who.process == own:
            evidence = structs.replace(evidence, who=None)
        relative.append(Step(step.layer, since, until, since - int(away[call]), evidence))
    return Timeline(
        op=found.op,
        served=told.served,
        number=row + 1,
        of=len(writes),
        why=chosen.why,
        machine=top.trace.machine,
        names={
            name: writes.names[name][codes[row]]
            for name, codes in writes.codes.items()
            if name != "machine"
        },
        tid=int(writes.tid[row]),
        size_bytes=int(writes.size_bytes[row]),
        inode=int(writes.inode[row]),
        offset_bytes=int(writes.offset_bytes[row]),
        begin_ns=begin,
        realtime_ns=realtime,
        latency_ns=latency,
        caller_ns=int(writes.end_ns[row]) - begin - latency,
        calls_ns=tuple(called.tolist()),
        lanes=_lanes(found, relative, latency),
        steps=tuple(relative),
    )


def _lanes(found: Prepared, steps: list[Step], latency_ns: int) -> tuple[Lane, ...]:
    """In the order of the table; what is unattributed comes last."""
    times: dict[str, int] = {}
    layers = {step.layer.name: step.layer for step in steps if step.layer}
    for step in steps:
        name = step.layer.name if step.layer else ""
        times[name] = times.get(name, 0) + step.end_ns - step.begin_ns
    names = [layer.name for layer in found.path.in_order() if layer.name in times]
    names += [""] if "" in times else []
    return tuple(
        Lane(layers.get(name), times[name], times[name] / latency_ns if latency_ns else 0.0)
        for name in names
    )
