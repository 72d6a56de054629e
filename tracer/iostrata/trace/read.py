# SPDX-License-Identifier: Apache-2.0
"""The trace stage's verb: one machine's directory of a recording to a Trace.

Damage never stops the reading: what is damaged is left out, named in
``Trace.damage`` and becomes a window in ``Trace.losses``.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from iostrata.crew import by_threads
from iostrata.errors import RecordingError
from iostrata.foreign import shown
from iostrata.trace import layout
from iostrata.trace.fact_files import absent_facts, read_facts
from iostrata.trace.facts import Facts
from iostrata.trace.file_systems import FileSystems
from iostrata.trace.files import FACTS, read_small
from iostrata.trace.losses import (
    Cut,
    Losses,
    early_end,
    find_losses,
    full_tables,
    lost_by_point,
    missed,
    missed_by_program,
    read_cut,
    read_refused,
)
from iostrata.trace.metadata import Clock, Metadata, parse
from iostrata.trace.origin import by_recorder, tells_loss_times, unread
from iostrata.trace.points import Points
from iostrata.trace.sleeps import damage_of, slept_of, without_impossible
from iostrata.trace.stream import (
    RECORDER_CPU,
    SINCE_BEGIN,
    UNKNOWN_COUNT,
    UNKNOWN_CPU,
    UNTIL_END,
    Gap,
    Stream,
    stream_cpu,
)
from iostrata.trace.stream_files import first_time, read_once, read_stream
from iostrata.trace.times import Expected, devices, time_fields


@dataclass(frozen=True, eq=False)
class Trace:
    """One machine's recorded events.

    ``points``: by name; every point that this version or the recording knows
    is there, if only with no events. ``lost_by_point``: events that a ring
    refused, and hits that the kernel skipped a program for (``program:NAME``).
    ``unknown``: events that this version knows nothing of, by name or number.
    ``damage``: one line a defect. ``begin_ns``/``end_ns``:
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


def read_trace(
    directory: Path,
    machine: str = "local",
    jobs: int = 1,
    kept_bytes: int = 0,
    grows: bool = True,
    *,
    alone: bool = False,
) -> Trace:
    """The trace in a machine's directory, read by so many threads; RecordingError if it cannot be
    read at all. ``kept_bytes``: so much of its files stays mapped while there is memory.
    ``grows``: it may be recorded to meanwhile. ``alone``: no other machine is looked at.
    """
    metadata = read_metadata(directory)
    streams, damage = read_streams(directory, metadata, jobs, kept_bytes, grows)
    return assemble(directory, machine, metadata, streams, damage, alone=alone)


def assemble(
    directory: Path,
    machine: str,
    metadata: Metadata,
    streams: list[Stream],
    damage: Sequence[str],
    *,
    whole: bool = True,
    alone: bool = False,
) -> Trace:
    """What was read of a directory as a Trace. ``whole``: all of every stream was. ``alone``: no
    other machine is looked at."""
    told = collect_points(metadata, streams)
    begin_ns = min((stream.begin_ns for stream in streams if stream.packet_count), default=0)
    end_ns = max((stream.end_ns for stream in streams if stream.packet_count), default=0)
    cpus = metadata.env.get("machine_cpus")
    # By the times of all events, which are the points' once those are looked at.
    cut = read_cut(told, streams, cpus, begin_ns) if whole else Cut()
    points, contradicted = without_impossible(told)
    facts, facts_damage = read_facts(directory / FACTS)
    if by_recorder(metadata.env):
        facts_damage += absent_facts(directory / FACTS)
    refused = read_refused(points["loss"])
    skipped = missed(points["miss"], alone=alone)
    return Trace(
        machine=machine,
        directory=directory,
        env=metadata.env,
        clock=metadata.clock,
        points=points,
        losses=find_losses(
            streams,
            refused,
            skipped,
            (*cut.gaps, *contradicted),
            begin_ns,
            end_ns,
            exact=tells_loss_times(metadata.env),
        ),
        lost_by_point={
            **lost_by_point(streams, refused, metadata.points),
            **missed_by_program(skipped),
        },
        unknown=unknown_events(metadata, streams),
        streams=tuple(streams),
        damage=(
            *damage,
            *damage_of(told, points),
            *cut.damage,
            *full_tables(points["full"]),
            *early_end(points["end"]),
            *unread(metadata.env),
            *facts_damage,
        ),
        facts=replace(facts, met=FileSystems(points["file_system"]).met),
        begin_ns=begin_ns,
        end_ns=end_ns,
        event_count=sum(stream.event_count for stream in streams),
    )


def read_metadata(directory: Path) -> Metadata:
    path = directory / "metadata"
    try:
        text = read_small(path).decode(errors="surrogateescape")
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
    # A command's words may be any bytes; all else is ASCII.
    if not text.isascii() and "iostrata_format" not in text:
        raise RecordingError(
            f"{path} is no text: it is damaged, or not iostrata's",
            "restore the file; without it the events cannot be read",
        )
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


def read_streams(
    directory: Path,
    metadata: Metadata,
    jobs: int = 1,
    kept_bytes: int = 0,
    grows: bool = True,
) -> tuple[list[Stream], list[str]]:
    """Every stream of the directory, the CPUs' in order, then the recorder's."""
    streams: list[Stream] = []
    paths, damage = read_once(
        [
            path
            for path in sorted(directory.iterdir(), key=stream_order)
            if path.name != "metadata" and not path.name.startswith(".") and not path.is_dir()
        ]
    )
    expected = expected_of(paths, metadata)

    def read(path: Path) -> Stream | OSError:
        try:
            return read_stream(path, metadata.uuid, expected, kept_bytes // len(paths), grows)
        except OSError as error:
            # That is no damage of the recording's.
            if error.errno == errno.ENOMEM:
                raise
            return error

    # What the recorder has counted is in the files by then: of one that grows, it is read first.
    counts = [path for path in paths if stream_cpu(path.name) == RECORDER_CPU]
    others = [path for path in paths if path not in counts]
    found = {path: read(path) for path in counts}
    found |= dict(zip(others, by_threads(read, others, jobs), strict=True))
    for path in paths:
        stream = found[path]
        if isinstance(stream, OSError):
            damage.append(f"{shown(path.name)}: cannot be read ({stream.strerror})")
            streams.append(lost_stream(path.name))
        elif stream.packet_count or stream_cpu(path.name) is not None:
            streams.append(stream)
            damage += stream.damage
        else:
            damage.append(f"{shown(path.name)}: no stream of this trace")
    if absent := absent_cpus(metadata.env, streams):
        more = f" and {len(absent) - 1} more" * (len(absent) > 1)
        damage.append(f"cpu_{absent[0]}{more}: missing")
        lost = [lost_stream(f"cpu_{cpu}") for cpu in absent]
        streams = sorted(streams + lost, key=lambda stream: stream_order(Path(stream.name)))
    return streams, damage


def absent_cpus(env: Mapping[str, str | int], streams: Sequence[Stream]) -> list[int]:
    """CPUs that have no file: of each that may come, the recorder makes one as it begins."""
    cpus = env.get("machine_cpus")
    if not by_recorder(env) or not isinstance(cpus, int):
        return []
    there = {stream.cpu for stream in streams}
    return [cpu for cpu in range(cpus) if cpu not in there]


def expected_of(paths: Sequence[Path], metadata: Metadata) -> Expected:
    """What the events of some stream files must be like."""
    first = UNTIL_END
    for path in paths:
        with suppress(OSError):
            first = min(first, first_time(path, metadata.uuid))
    known = metadata.points, metadata.dtypes
    begin_ns = first if first < UNTIL_END else 0
    return Expected(time_fields(*known), begin_ns, devices(*known), slept_of(*known))


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
        name: Points(name, number, layout.DTYPES[name], [], known=False)
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
