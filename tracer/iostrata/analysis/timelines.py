# SPDX-License-Identifier: Apache-2.0
"""Pipeline: a recording and a choice of its writes in, their timelines out.

Only the windows that hold chosen writes are stitched, each whole, so that a
timeline shows what the table counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from iostrata.analysis.pipeline import Material, prepare
from iostrata.analysis.quality import quality_of
from iostrata.attribute.choice import Choice, Chosen
from iostrata.attribute.selection import ALL, Wanted
from iostrata.attribute.timeline import segments
from iostrata.columns import Ints
from iostrata.hops import lift
from iostrata.hops.evidence import Witnesses
from iostrata.model import Lane, Quality, Step, Timeline
from iostrata.recording import Recording
from iostrata.stitch import windows


@dataclass(frozen=True)
class Seen:
    """``quality``: what may be missing; its ``ties`` are not counted."""

    timelines: tuple[Timeline, ...]
    quality: Quality


def timelines(recording: Recording, choice: Choice, wanted: Wanted = ALL) -> Seen:
    """Errors: RecordingError, NothingToAnalyse, UsageError."""
    found = prepare(recording)
    quality = quality_of(found.path, found.plain_writes, {})
    return Seen(timelines_of(found, choice, wanted), quality)


def timelines_of(found: Material, choice: Choice, wanted: Wanted = ALL) -> tuple[Timeline, ...]:
    """In the order of the choice, among the wanted ones. Errors: NothingToAnalyse, UsageError."""
    chosen = choice.of(found.writes, wanted.rows(found.writes))
    steps = _steps_of_units(found, found.kept[[one.row for one in chosen]])
    return tuple(_timeline(found, one, steps[int(found.kept[one.row])]) for one in chosen)


def _steps_of_units(found: Material, units: Ints) -> dict[int, list[Step]]:
    """Steps of each unit, ``called_ns`` still as ``begin_ns``; times absolute."""
    steps: dict[int, list[Step]] = {int(unit): [] for unit in units}
    wanted = np.isin(found.pieces.unit, units)
    for rows in windows(found.pieces):
        mine = np.flatnonzero(wanted[rows])
        if len(mine):
            for piece, step in _steps(found, rows, mine):
                steps[int(found.pieces.unit[rows[piece]])].append(step)
    return steps


def _steps(found: Material, rows: Ints, pieces: Ints) -> Iterable[tuple[int, Step]]:
    lifted = lift(found.path.top, rows)
    witnesses = Witnesses(found.path.top, lifted)
    begins, ends = found.pieces.begin_ns[rows], found.pieces.end_ns[rows]
    spans = lifted.spans.where(np.isin(lifted.spans.owner, pieces))
    held = segments(spans, begins, ends)
    held = held.where(np.isin(held.owner, pieces))
    for owner, rank, begin, end in zip(
        held.owner.tolist(),
        held.rank.tolist(),
        held.begin_ns.tolist(),
        held.end_ns.tolist(),
        strict=True,
    ):
        layer = found.path.layers[rank] if rank >= 0 else None
        evidence = witnesses.of(owner, rank, begin, end)
        if begin == begins[owner]:
            evidence = replace(evidence, call=witnesses.call(owner))
        yield owner, Step(layer, begin, end, begin, evidence)


def _timeline(found: Material, chosen: Chosen, steps: list[Step]) -> Timeline:
    writes, row = found.writes, chosen.row
    begin, latency = int(writes.begin_ns[row]), int(writes.latency_ns[row])
    realtime = None if writes.realtime_ns is None else int(writes.realtime_ns[row])
    rows = np.flatnonzero(found.pieces.unit == found.kept[row])
    starts, ends = np.sort(found.pieces.begin_ns[rows]), np.sort(found.pieces.end_ns[rows])
    # Before each call the caller had been away for its begin less what was called until then.
    called = np.cumsum(np.append(0, (ends - starts)[:-1]))
    away = starts - begin - called
    relative = []
    for step in sorted(steps, key=lambda step: step.begin_ns):
        call = int(np.searchsorted(starts, step.begin_ns, side="right")) - 1
        since, until = step.begin_ns - begin, step.end_ns - begin
        relative.append(Step(step.layer, since, until, since - int(away[call]), step.evidence))
    return Timeline(
        number=row + 1,
        of=len(writes),
        why=chosen.why,
        machine=writes.machine,
        names={name: writes.names[name][codes[row]] for name, codes in writes.codes.items()},
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


def _lanes(found: Material, steps: list[Step], latency_ns: int) -> tuple[Lane, ...]:
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
