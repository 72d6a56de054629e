# SPDX-License-Identifier: Apache-2.0
"""A recording in, its Breakdown out: read, align, stitch, attribute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.analysis.leftovers import left_over
from iostrata.analysis.path import Path, path_of
from iostrata.analysis.quality import left_out_of, quality_of
from iostrata.attribute import attribute
from iostrata.columns import integers
from iostrata.errors import NothingToAnalyse
from iostrata.hops import lift, units_of_served
from iostrata.layers import UNFOLLOWED
from iostrata.model import Breakdown, Layer, Writes
from iostrata.recording import Recording
from iostrata.stitch import (
    Audit,
    Pieces,
    Units,
    units_of,
    windows,
)
from iostrata.stitch.calls import ENGINES, EVERY_DEVICE, METHODS
from iostrata.trace.layout import THREAD_TARGET
from iostrata.trace.read import Trace
from iostrata.trace.wallclock import realtime_of

# In which order machines are taken for the one with the workload.
TOPMOST: Final = ("guest", "local", "host", "server")


@dataclass(frozen=True)
class Material:
    """The traces of a write's path and its writes, before anything is stitched.

    ``trace``: of the machine with the workload. ``kept``: rows of the units to
    analyse, by begin time; ``writes``: the same, as columns.
    """

    path: Path
    trace: Trace
    units: Units
    pieces: Pieces
    kept: NDArray[np.int64]
    writes: Writes
    left_out: Mapping[str, int]
    plain_writes: int


def analyse(recording: Recording) -> Breakdown:
    """Where each synchronous write of the recording spent its time.

    Errors: RecordingError, NothingToAnalyse.
    """
    return breakdown_of(prepare(recording))


def breakdown_of(found: Material) -> Breakdown:
    """Where each of the writes spent its time."""
    credit, ties, audits = _credit(found)
    layers, time_ns = _layers(credit, found)
    residual = found.writes.latency_ns - time_ns.sum(axis=0)
    lost = [layer.row == UNFOLLOWED for layer in layers]
    left, background, asleep_ns = left_over(audits)
    quality = replace(
        quality_of(found.path, found.plain_writes, ties),
        unfollowed=int(np.count_nonzero(time_ns[lost].any(axis=0))),
        left_over=left,
        background=background,
        left_over_share=asleep_ns / max(int(found.writes.latency_ns.sum()), 1),
    )
    return Breakdown(found.writes, layers, time_ns, residual, found.left_out, quality)


def prepare(recording: Recording) -> Material:
    """The recording's writes, and what their events are in; errors as ``analyse``."""
    machines = list(zip(recording.traces(), (m.role for m in recording.machines), strict=True))
    machines.sort(key=lambda machine: TOPMOST.index(machine[1]))
    for top in machines:
        units, pieces, floor, unfinished, plain_writes = _units(top[0])
        if len(units):
            break
    trace = top[0]
    path = path_of(top, [machine for machine in machines if machine is not top], pieces, floor)
    placed = {member.trace.machine for member in path.members}
    path = replace(
        path,
        apart=(*path.apart, *_notes(recording, placed)),
        interrupted=tuple(
            f"{each.name}: {each.note}"
            for each in recording.machines
            if each.note and each.name in placed
        ),
    )
    left_out, kept = left_out_of(path, units, unfinished)
    if not len(kept):
        damage = quality_of(path, plain_writes, {}).damage
        raise NothingToAnalyse(*_nothing(left_out, plain_writes, damage))
    writes = _writes(trace, units, kept)
    return Material(path, trace, units, pieces, kept, writes, left_out, plain_writes)


def _notes(recording: Recording, placed: Collection[str]) -> Iterator[str]:
    """What went wrong with machines that have no place on the path."""
    for machine in recording.machines:
        if machine.note and machine.name not in placed:
            yield f"{machine.name}: {machine.note}"
    for machine in recording.absent:
        yield f"{machine.name}: its trace is not here: {machine.note or 'it was not fetched'}"


def _units(trace: Trace) -> tuple[Units, Pieces, str, int, int]:
    """Synchronous writes, their pieces and floor; how many did not end here, and plain ones."""
    served = None if _has_workload(trace) else units_of_served(trace)
    if served:
        return *served, 0, 0
    units, pieces, unfinished, plain_writes = units_of(trace)
    return units, pieces, "syscall", unfinished, plain_writes


def _has_workload(trace: Trace) -> bool:
    return bool((integers(trace.points["thread"]["kind"]) == THREAD_TARGET).any())


def _credit(
    found: Material,
) -> tuple[dict[int, NDArray[np.int64]], Counter[str], list[Audit]]:
    """ns in each unit of each rank of the path that any unit was in; ties; what else went on."""
    pieces = found.pieces
    credit: dict[int, NDArray[np.int64]] = {}
    ties: Counter[str] = Counter()
    audits: list[Audit] = []
    for rows in windows(pieces):
        lifted = lift(found.path.top, rows)
        held = attribute(lifted.spans, pieces.begin_ns[rows], pieces.end_ns[rows])
        for rank, own in held.items():
            if rank not in credit:
                credit[rank] = np.zeros(len(found.units), np.int64)
            np.add.at(credit[rank], pieces.unit[rows], own)
        ties += lifted.ties
        audits += lifted.audits
    return credit, ties, audits


def _layers(
    credit: Mapping[int, NDArray[np.int64]], found: Material
) -> tuple[tuple[Layer, ...], NDArray[np.int64]]:
    """The layers that a kept unit was in, in the order of the table, and their times."""
    times: dict[Layer, NDArray[np.int64]] = {}
    for rank, time in credit.items():
        if layer := found.path.layers[rank]:
            times[layer] = times.get(layer, 0) + time[found.kept]
    times = {layer: time for layer, time in times.items() if time.any()}
    layers = tuple(layer for layer in found.path.in_order() if layer in times)
    columns = np.array([times[layer] for layer in layers], np.int64)
    return layers, columns.reshape(len(layers), len(found.kept))


def _nothing(
    left_out: Mapping[str, int], plain_writes: int, damage: Sequence[str]
) -> tuple[str, str]:
    if left_out:
        reasons = ", ".join(f"{reason} ({count})" for reason, count in left_out.items())
        return (
            f"every synchronous write had to be left out: {'; '.join([reasons, *damage])}",
            "copy the recording anew, whole and readable, or record again"
            if damage
            else "record again, with a larger --buffer if events were lost",
        )
    plain = f" ({plain_writes} plain ones)" if plain_writes else ""
    return (
        f"the recording holds no synchronous write{plain}",
        "only O_SYNC or O_DSYNC writes, fsync and its like, sync and msync count; "
        "check that the filter names the process that makes them",
    )


def _writes(trace: Trace, units: Units, kept: NDArray[np.int64]) -> Writes:
    device = units.device_key[kept]
    names, codes = {}, {}
    method = units.engine[kept] * len(METHODS) + units.method[kept]
    labels = [f"{engine}{name}" for engine in ENGINES for name in METHODS]
    names["method"], codes["method"] = _coded(method, lambda code: labels[code])
    comms = _process_names(trace)
    names["process"], codes["process"] = _coded(
        units.tgid[kept], lambda tgid: f"{comms.get(tgid, '?')} ({tgid})"
    )
    names["file_system"], codes["file_system"] = _coded(device, _or_all(trace.facts.file_system))
    names["device"], codes["device"] = _coded(device, _or_all(trace.facts.device_name))
    return Writes(
        machine=trace.machine,
        begin_ns=units.begin_ns[kept],
        end_ns=units.end_ns[kept],
        latency_ns=units.latency_ns[kept],
        tid=units.tid[kept],
        tgid=units.tgid[kept],
        size_bytes=units.size_bytes[kept],
        durable_writes=units.durable_writes[kept],
        pieces=units.pieces[kept],
        device_key=device,
        inode=units.inode[kept],
        offset_bytes=units.offset_bytes[kept],
        codes=codes,
        names=names,
        realtime_ns=realtime_of(trace, units.begin_ns[kept]),
    )


def _coded(
    values: NDArray[np.int64], name: Callable[[int], str]
) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    unique, codes = np.unique(values, return_inverse=True)
    return tuple(name(int(value)) for value in unique), codes.astype(np.int32)


def _or_all(name_of: Callable[[int], str]) -> Callable[[int], str]:
    return lambda key: "all" if key == EVERY_DEVICE else name_of(key)


def _process_names(trace: Trace) -> dict[int, str]:
    """What the last event of each tells; where none does, what its first thread was named."""
    threads = trace.points["thread"]
    tgids, comms = integers(threads["tgid"]), threads["comm"]
    leads = integers(threads["subject_tid"]) == tgids
    told = [(tgids, comms), (tgids[leads], comms[leads])]
    if "process" in threads.fields:
        process = threads["process"]
        told.append((tgids[process != b""], process[process != b""]))
    return {
        int(tgid): bytes(name).decode(errors="replace")
        for owners, names in told
        for tgid, name in zip(owners, names, strict=True)
    }
