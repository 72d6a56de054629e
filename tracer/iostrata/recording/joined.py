# SPDX-License-Identifier: Apache-2.0
"""Recordings of single machines in, one recording of all of them out; the old ones stay."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Final

import numpy as np

from iostrata.errors import RecordingError
from iostrata.recording.kept import Fact, kept_as
from iostrata.recording.ownership import asked_by
from iostrata.recording.recording import (
    MACHINE_NAME,
    RecordedMachine,
    Recording,
    check_number,
    write_recording_json,
)
from iostrata.trace import Trace, is_trace_file, read_trace, realtime_of, suspended_ns
from iostrata.units import duration

# Relates a machine's clock to that of whoever recorded it, which was not one for all.
EXCHANGE: Final = "exchange"


@dataclass(frozen=True)
class Part:
    """A machine of a recording, with the name and role that it is to have."""

    name: str
    role: str
    recording: Recording
    directory: str
    note: str = ""
    facts: Mapping[str, Fact] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        return self.recording.path / self.directory


def join(parts: Sequence[Part], directory: Path, unsynchronised: bool) -> list[str]:
    """Makes ``directory``, which is there and empty, the recording of all parts.

    Returns what is to be warned of. ``unsynchronised``: the machines' wall clocks do not
    tell whether they were recorded at the same time. Files are linked where they can be, and
    are the caller's.
    Errors: RecordingError: they are no recordings of one run.
    """
    check_number("join", len(parts))
    for part in parts:
        check_name(part)
    traces = [read_trace(part.path, part.name) for part in parts]
    check_machines(traces)
    if not unsynchronised:
        check_times(traces)
    recordings = {part.recording.path.resolve() for part in parts}
    with ExitStack() as undo:
        for part in parts:
            (directory / part.name).mkdir(0o700)
            undo.callback(shutil.rmtree, directory / part.name, ignore_errors=True)
            _copy(part.path, directory / part.name, with_exchange=len(recordings) == 1)
        _describe(parts, directory)
        undo.pop_all()
    return [*_suspended(traces), *_untimed(traces)]


def check_name(part: Part) -> None:
    """It becomes a directory's; whoever wrote the recording may have written any."""
    if not MACHINE_NAME.fullmatch(part.name):
        raise RecordingError(
            f"{part.path}: a machine cannot be named {part.name}",
            "give it another name: iostrata join guest=DIR host=DIR server=DIR -o DIR",
        )


def check_machines(traces: Sequence[Trace]) -> None:
    """Each is of another machine, or of another boot, which has clocks of its own."""
    for first, second in combinations(traces, 2):
        if first.machine == second.machine:
            raise RecordingError(*_one_name(first, second))
        if first.env.get("boot_id") and first.env["boot_id"] == second.env.get("boot_id"):
            raise RecordingError(
                f"{first.machine} and {second.machine} are the same machine, "
                f"{first.env.get('hostname')}: {first.directory} and {second.directory}",
                "give one recording of each machine",
            )


def _one_name(first: Trace, second: Trace) -> tuple[str, str]:
    places = f"{first.directory} and {second.directory}"
    if first.env.get("boot_id") == second.env.get("boot_id"):
        return f"{places} are both of {first.machine}", "give one recording of each machine"
    if first.env.get("hostname") == second.env.get("hostname"):
        return (
            f"{first.machine} was rebooted between {places}: its clock began anew",
            "join the one that was made with the other machines' recordings",
        )
    return (
        f"two machines are named {first.machine}: {places}",
        "give each a name: iostrata join guest=DIR host=DIR server=DIR -o DIR",
    )


def check_times(traces: Sequence[Trace]) -> None:
    """All were recorded at the same time, by their wall clocks, as far as those are known."""
    spans = [(trace, span) for trace in traces if (span := _span(trace))]
    for (first, one), (second, other) in combinations(spans, 2):
        apart_ns = max(one[0], other[0]) - min(one[1], other[1])
        if apart_ns > 0:
            raise RecordingError(
                f"{first.machine} and {second.machine} were not recorded at the same time: "
                f"{_clock(one)} and {_clock(other)}, {duration(apart_ns)} apart",
                "join recordings of one run; if only a machine's clock is wrong: --unsynchronised",
            )


def _span(trace: Trace) -> tuple[int, int] | None:
    times = realtime_of(trace, np.array([trace.begin_ns, trace.end_ns], np.int64))
    return None if times is None else (int(times[0]), int(times[1]))


def _clock(span: tuple[int, int]) -> str:
    begin, end = (datetime.fromtimestamp(time_ns / 1e9, UTC) for time_ns in span)
    return f"{begin:%Y-%m-%d %H:%M:%S} to {end:%H:%M:%S}"


def _untimed(traces: Sequence[Trace]) -> Iterator[str]:
    for trace in traces:
        if not _span(trace):
            yield f"{trace.machine} has no clock samples: when it was recorded is not known"


def _suspended(traces: Sequence[Trace]) -> Iterator[str]:
    for trace in traces:
        if asleep_ns := suspended_ns(trace):
            yield f"{trace.machine} was suspended for {duration(asleep_ns)} while it was recorded"


def _copy(source: Path, target: Path, with_exchange: bool) -> None:
    """What a recorder writes, and nothing that only leads to a file."""
    for path in sorted(source.rglob("*")):
        name = path.relative_to(source)
        if not is_trace_file(str(name)) or not stat.S_ISREG(path.lstat().st_mode):
            continue
        (target / name).parent.mkdir(exist_ok=True)
        if with_exchange or path.name != EXCHANGE:
            _link(path, target / name)


def _link(source: Path, target: Path) -> None:
    """One that stays another's by its first name is no use to who asked: a copy is."""
    asked = asked_by()
    try:
        if asked and source.lstat().st_uid != asked[0]:
            raise PermissionError
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _describe(parts: Sequence[Part], directory: Path) -> None:
    recordings = [part.recording for part in parts]
    workload = next((each for each in recordings if each.command), recordings[0])
    write_recording_json(
        directory,
        tuple(
            RecordedMachine(
                part.name,
                part.role,
                part.name,
                part.note,
                kept_as(directory / part.name, part.path, part.facts),
            )
            for part in parts
        ),
        created=min((each.created for each in recordings if each.created), default=""),
        command=workload.command,
        exit_status=workload.exit_status,
    )
