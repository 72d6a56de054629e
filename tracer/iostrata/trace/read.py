# SPDX-License-Identifier: Apache-2.0
"""The trace stage's verb: one machine's directory of a recording to a Trace.

Damage never stops the reading: what is damaged is left out, named in
``Trace.damage`` and becomes a window in ``Trace.losses``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from iostrata.errors import RecordingError
from iostrata.trace import layout
from iostrata.trace.facts import Facts, read_facts
from iostrata.trace.metadata import Clock, Metadata, parse
from iostrata.trace.points import Points
from iostrata.trace.stream import (
    RECORDER_CPU,
    SINCE_BEGIN,
    UNKNOWN_COUNT,
    UNKNOWN_CPU,
    UNTIL_END,
    Gap,
    Stream,
    read_stream,
    stream_cpu,
)

UNKNOWN_POINT = "unknown"


@dataclass(frozen=True)
class Losses:
    """Windows in which events of a CPU are missing, in order of ``begin_ns``.

    int64 columns; ends included. ``count`` -1: nobody knows how many (a packet
    is damaged or missing). ``cpu`` 65535: the recorder's own stream.
    """

    begin_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    cpu: NDArray[np.int64]
    count: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.begin_ns)


@dataclass(frozen=True)
class Trace:
    """One machine's recorded events.

    ``points``: by name; every point that this version or the recording knows
    is there, if only with no events. ``lost_by_point``: events that a ring
    refused. ``unknown``: events that this version knows nothing of, by name
    or number. ``damage``: one line a defect. ``begin_ns``/``end_ns``:
    CLOCK_MONOTONIC, 0 if there are no packets.
    """

    machine: str
    directory: Path
    env: Mapping[str, str | int]
    clock: Clock
    points: Mapping[str, Points]
    losses: Losses
    lost_by_point: Mapping[str, int]
    unknown: Mapping[str, int]
    streams: tuple[Stream, ...]
    damage: tuple[str, ...]
    facts: Facts
    begin_ns: int
    end_ns: int
    event_count: int


def read_trace(directory: Path, machine: str = "local") -> Trace:
    """The trace in a machine's directory; RecordingError if it cannot be read at all."""
    metadata = read_metadata(directory)
    streams, damage = read_streams(directory, metadata.uuid)
    points = collect_points(metadata, streams)
    facts, defects = read_facts(directory / "facts")
    begin_ns = min((stream.begin_ns for stream in streams if stream.packet_count), default=0)
    end_ns = max((stream.end_ns for stream in streams if stream.packet_count), default=0)
    lost = read_lost(points["loss"])
    gaps = [gap for stream in streams for gap in stream.gaps] + late_gaps(streams, lost)
    return Trace(
        machine=machine,
        directory=directory,
        env=metadata.env,
        clock=metadata.clock,
        points=points,
        losses=losses(gaps, begin_ns, end_ns),
        lost_by_point=lost_by_point(streams, lost, metadata),
        unknown=unknown_events(metadata, streams),
        streams=tuple(streams),
        damage=(*damage, *defects),
        facts=facts,
        begin_ns=begin_ns,
        end_ns=end_ns,
        event_count=sum(stream.event_count for stream in streams),
    )


def read_metadata(directory: Path) -> Metadata:
    path = directory / "metadata"
    try:
        text = path.read_text()
    except FileNotFoundError:
        raise RecordingError(
            f"{directory} holds no trace: it has no file metadata",
            "give the directory that `iostrata record -o` made, or a machine's directory in it",
        ) from None
    except OSError as error:
        raise RecordingError(
            f"{path} cannot be read: {error.strerror}",
            "check its permissions, or read it as its owner",
        ) from error
    except UnicodeDecodeError as error:
        raise RecordingError(
            f"{path} is no text: it is damaged, or not iostrata's",
            "restore the file; without it the events cannot be read",
        ) from error
    if not text.strip():
        raise RecordingError(
            f"{path} is empty",
            "the recorder was stopped before it began to "
            "record, or the disk was full: record again",
        )
    try:
        return parse(text)
    except RecordingError as error:
        raise RecordingError(f"{path}: {error}", error.hint) from error


def read_streams(directory: Path, uuid: bytes) -> tuple[list[Stream], list[str]]:
    """Every stream of the directory, the CPUs' in order, then the recorder's."""
    streams, damage = [], []
    for path in sorted(directory.iterdir(), key=stream_order):
        if path.name == "metadata" or path.name.startswith(".") or path.is_dir():
            continue
        try:
            stream = read_stream(path, uuid)
        except OSError as error:
            damage.append(f"{path.name}: cannot be read ({error.strerror})")
            streams.append(lost_stream(path.name))
            continue
        if stream.packet_count or stream_cpu(path.name) is not None:
            streams.append(stream)
            damage += stream.damage
        else:
            damage.append(f"{path.name}: no stream of this trace")
    return streams, damage


def lost_stream(name: str) -> Stream:
    """A stream of which nothing can be read: everything may be missing, at any time."""
    cpu = stream_cpu(name)
    stream = Stream(name, UNKNOWN_CPU if cpu is None else cpu)
    stream.gaps.append(Gap(SINCE_BEGIN, UNTIL_END, stream.cpu, UNKNOWN_COUNT))
    return stream


def stream_order(path: Path) -> tuple[int, str]:
    cpu = stream_cpu(path.name)
    return RECORDER_CPU + 1 if cpu is None else cpu, path.name


def collect_points(metadata: Metadata, streams: list[Stream]) -> dict[str, Points]:
    points = {
        name: Points(name, number, layout.DTYPES[name], [])
        for name, number in layout.POINTS.items()
        if name not in metadata.points
    }
    for name, number in metadata.points.items():
        parts = [(stream, stream.slots[number]) for stream in streams if number in stream.slots]
        points[name] = Points(name, number, metadata.dtypes[name], parts)
    return points


def unknown_events(metadata: Metadata, streams: list[Stream]) -> dict[str, int]:
    names = {number: name for name, number in metadata.points.items()}
    counts: dict[str, int] = {}
    for stream in streams:
        for number, slots in stream.slots.items():
            name = names.get(number, str(number))
            if name not in layout.POINTS:
                counts[name] = counts.get(name, 0) + len(slots)
    return counts


def read_lost(loss: Points) -> dict[tuple[int, int], int]:
    """Events refused, by CPU and point number: the last word of the recorder on each."""
    if not len(loss):
        return {}
    columns = loss.columns("cpu", "lost_point", "lost_count")
    return {
        (cpu, point): count
        for cpu, point, count in zip(
            columns["cpu"].tolist(),
            columns["lost_point"].tolist(),
            columns["lost_count"].tolist(),
            strict=True,
        )
    }


def lost_by_point(
    streams: list[Stream], lost: Mapping[tuple[int, int], int], metadata: Metadata
) -> dict[str, int]:
    names = {number: name for name, number in metadata.points.items()}
    counts: dict[str, int] = {}
    for (_, number), count in lost.items():
        if count:
            name = names.get(number, str(number))
            counts[name] = counts.get(name, 0) + count
    by_cpu = lost_by_cpu(lost)
    nameless = sum(max(0, stream.discarded - by_cpu.get(stream.cpu, 0)) for stream in streams)
    if nameless:
        counts[UNKNOWN_POINT] = nameless
    return counts


def lost_by_cpu(lost: Mapping[tuple[int, int], int]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for (cpu, _), count in lost.items():
        counts[cpu] = counts.get(cpu, 0) + count
    return counts


def late_gaps(streams: list[Stream], lost: Mapping[tuple[int, int], int]) -> list[Gap]:
    """What a CPU lost after its last packet, which only the recorder's own stream tells."""
    known = {stream.cpu: stream for stream in streams}
    gaps = []
    for cpu, count in lost_by_cpu(lost).items():
        stream = known.get(cpu)
        told, since_ns = (stream.discarded, stream.end_ns) if stream else (0, SINCE_BEGIN)
        if count > told:
            gaps.append(Gap(since_ns, UNTIL_END, cpu, count - told))
    return gaps


def losses(gaps: list[Gap], begin_ns: int, end_ns: int) -> Losses:
    rows = sorted(
        (max(gap.begin_ns, begin_ns), min(gap.end_ns, end_ns), gap.cpu, gap.count) for gap in gaps
    )
    table = np.array(rows, np.int64).reshape(-1, 4)
    return Losses(*np.ascontiguousarray(table.T))
