# SPDX-License-Identifier: Apache-2.0
"""A recording in, its Breakdown out: read, stitch, attribute."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from iostrata.attribute import attribute
from iostrata.errors import NothingToAnalyse, RecordingError
from iostrata.layers import ROWS, STACK
from iostrata.model import Breakdown, Layer, Writes
from iostrata.quality import left_out_of, quality_of
from iostrata.recording import Recording
from iostrata.stitch import Stitched, stitch
from iostrata.stitch.calls import ENGINES, METHODS
from iostrata.stitch.join import integers
from iostrata.trace.read import Trace


def analyse(recording: Recording) -> Breakdown:
    """Where each synchronous write of the recording spent its time.

    Errors: RecordingError, NothingToAnalyse.
    """
    trace = _only(recording)
    stitched = stitch(trace)
    left_out, kept = left_out_of(trace, stitched.units)
    writes = _writes(trace, stitched, kept)
    if not len(kept):
        raise NothingToAnalyse(*_nothing(stitched, left_out))
    units = stitched.units
    credit = attribute(stitched.spans, units.begin_ns, units.end_ns, len(STACK))[:, kept]
    layers, time_ns = _by_row(credit, trace.machine)
    residual = writes.latency_ns - time_ns.sum(axis=0)
    quality = quality_of(trace, stitched)
    return Breakdown(writes, layers, time_ns, residual, left_out, quality)


def _only(recording: Recording) -> Trace:
    traces = recording.traces()
    if len(traces) != 1:
        raise RecordingError(
            f"{recording.path} holds {len(traces)} machines, and this version analyses one",
            "replay one machine's directory by itself",
        )
    return traces[0]


def _nothing(stitched: Stitched, left_out: Mapping[str, int]) -> tuple[str, str]:
    if left_out:
        reasons = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        return (
            f"every synchronous write had to be left out: {reasons}",
            "record again, with a larger --buffer if events were lost",
        )
    plain = f" ({stitched.plain_writes} plain ones)" if stitched.plain_writes else ""
    return (
        f"the recording holds no synchronous write{plain}",
        "only O_SYNC or O_DSYNC writes, fsync, fdatasync, sync_file_range and msync count; "
        "check that the filter names the process that makes them",
    )


def _by_row(credit: NDArray[np.int64], machine: str) -> tuple[tuple[Layer, ...], NDArray[np.int64]]:
    """Ranks folded into the table's rows; rows that no write was in are left out."""
    layers, times = [], []
    for row in ROWS:
        ranks = [number for number, rank in enumerate(STACK) if rank.row == row.name]
        time = credit[ranks].sum(axis=0)
        if time.any():
            layers.append(Layer(row.name, row.segment, machine, row.meaning))
            times.append(time)
    return tuple(layers), np.array(times, np.int64).reshape(len(layers), credit.shape[1])


def _writes(trace: Trace, stitched: Stitched, kept: NDArray[np.int64]) -> Writes:
    units = stitched.units
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
