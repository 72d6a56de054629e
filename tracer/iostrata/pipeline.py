# SPDX-License-Identifier: Apache-2.0
"""A recording in, its Breakdown out: read, stitch, attribute."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from iostrata.attribute import attribute
from iostrata.errors import NothingToAnalyse, RecordingError
from iostrata.layers import ROWS, STACK
from iostrata.model import Breakdown, Layer, Writes
from iostrata.quality import left_out_of, quality_of
from iostrata.recording import Recording
from iostrata.stitch import (
    Pieces,
    Units,
    commits_of,
    stitch,
    together,
    units_of_calls,
    units_of_requests,
    windows,
)
from iostrata.stitch.calls import ENGINES, METHODS
from iostrata.stitch.join import integers
from iostrata.trace.read import Trace


@dataclass(frozen=True)
class Material:
    """One machine's trace and its writes, before anything is stitched.

    ``kept``: rows of the units to analyse, by begin time; ``writes``: the same, as columns.
    """

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
    credit, ties = _credit(found.trace, found.units, found.pieces)
    layers, time_ns = _layers(credit, found.kept, found.trace.machine)
    residual = found.writes.latency_ns - time_ns.sum(axis=0)
    quality = quality_of(found.trace, found.plain_writes, ties)
    return Breakdown(found.writes, layers, time_ns, residual, found.left_out, quality)


def prepare(recording: Recording) -> Material:
    """The recording's writes, and what their events are in; errors as ``analyse``."""
    trace = _only(recording)
    calls, call_pieces, plain_writes = units_of_calls(trace.points["syscall"])
    requests, request_pieces, unfinished = units_of_requests(trace)
    units, pieces = together((calls, call_pieces), (requests, request_pieces))
    left_out, kept = left_out_of(trace, units, unfinished)
    if not len(kept):
        raise NothingToAnalyse(*_nothing(left_out, plain_writes))
    writes = _writes(trace, units, kept)
    return Material(trace, units, pieces, kept, writes, left_out, plain_writes)


def _credit(
    trace: Trace, units: Units, pieces: Pieces
) -> tuple[dict[str, NDArray[np.int64]], Counter[str]]:
    """ns of each row of the table in each unit, for the rows that any unit was in."""
    credit: dict[str, NDArray[np.int64]] = {}
    ties: Counter[str] = Counter()
    for rows, window in windows(trace, pieces, commits_of(trace)):
        stitched = stitch(window)
        own = attribute(stitched.spans, window.pieces.begin_ns, window.pieces.end_ns, len(STACK))
        for rank in np.flatnonzero(own.any(axis=1)):
            row = STACK[rank].row
            if row is not None:
                time = credit.setdefault(row, np.zeros(len(units), np.int64))
                np.add.at(time, pieces.unit[rows], own[rank])
        ties += stitched.ties
    return credit, ties


def _layers(
    credit: Mapping[str, NDArray[np.int64]], kept: NDArray[np.int64], machine: str
) -> tuple[tuple[Layer, ...], NDArray[np.int64]]:
    """The rows that a kept unit was in, in the order of the table, and their times."""
    times = {row: credit[row.name][kept] for row in ROWS if row.name in credit}
    times = {row: time for row, time in times.items() if time.any()}
    layers = tuple(Layer(row.name, row.segment, machine, row.meaning) for row in times)
    return layers, np.array(list(times.values()), np.int64).reshape(len(layers), len(kept))


def _only(recording: Recording) -> Trace:
    traces = recording.traces()
    if len(traces) != 1:
        raise RecordingError(
            f"{recording.path} holds {len(traces)} machines, and this version analyses one",
            "replay one machine's directory by itself",
        )
    return traces[0]


def _nothing(left_out: Mapping[str, int], plain_writes: int) -> tuple[str, str]:
    if left_out:
        reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        return (
            f"every synchronous write had to be left out: {reasons}",
            "record again, with a larger --buffer if events were lost",
        )
    plain = f" ({plain_writes} plain ones)" if plain_writes else ""
    return (
        f"the recording holds no synchronous write{plain}",
        "only O_SYNC or O_DSYNC writes, fsync, fdatasync, sync_file_range and msync count; "
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
    names["file_system"], codes["file_system"] = _coded(device, trace.facts.file_system)
    names["device"], codes["device"] = _coded(device, trace.facts.device_name)
    return Writes(
        machine=trace.machine,
        begin_ns=units.begin_ns[kept],
        end_ns=units.end_ns[kept],
        latency_ns=units.latency_ns[kept],
        tid=units.tid[kept],
        tgid=units.tgid[kept],
        size_bytes=units.size_bytes[kept],
        pieces=units.pieces[kept],
        device_key=device,
        inode=units.inode[kept],
        offset_bytes=units.offset_bytes[kept],
        codes=codes,
        names=names,
    )


def _coded(
    values: NDArray[np.int64], name: Callable[[int], str]
) -> tuple[tuple[str, ...], NDArray[np.int16]]:
    unique, codes = np.unique(values, return_inverse=True)
    return tuple(name(int(value)) for value in unique), codes.astype(np.int16)


def _process_names(trace: Trace) -> dict[int, str]:
    threads = trace.points["thread"]
    tgids, comms = integers(threads["tgid"]), threads["comm"]
    leads = integers(threads["subject_tid"]) == tgids
    named = {
        int(tgid): bytes(comm).decode(errors="replace")
        for tgid, comm in zip(tgids, comms, strict=True)
    }
    named.update(
        (int(tgid), bytes(comm).decode(errors="replace"))
        for tgid, comm in zip(tgids[leads], comms[leads], strict=True)
    )
    return named
