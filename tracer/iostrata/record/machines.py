# SPDX-License-Identifier: Apache-2.0
"""Record stage: a Plan of machines in, one recording of them all and its Outcome out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from iostrata.errors import IostrataError
from iostrata.record.duties import ALL, SERVING
from iostrata.record.fitness import blind_spots
from iostrata.record.interruption import Answer, Interruption
from iostrata.record.local import Local
from iostrata.record.mounts import carried_mounts, write_connections
from iostrata.record.recorder import Outcome, Request, Target
from iostrata.record.station import Planned, Station
from iostrata.record.status import Progress
from iostrata.recording import Machine, write_recording_json

READY_LIMIT_S: Final = 180.0
END_LIMIT_S: Final = 60.0
POLL_S: Final = 0.1
# Clock probes of each machine: at the start and the end, and each second between.
MANY: Final = 20
FEW: Final = 3


@dataclass(frozen=True)
class Plan:
    """``request``: what is recorded of the workload's machine; its directory is the recording's.

    The other machines are recorded for what they do for it. ``workload``: a machine's name.
    ``slowness``: how many times as long as usual the machines may take to begin and to end.
    """

    request: Request
    machines: tuple[Planned, ...]
    workload: str
    slowness: float = 1.0


class Listener(Protocol):
    """Is told how the recording goes."""

    def say(self, text: str) -> None: ...

    def warn(self, text: str) -> None:
        """Something is wrong with a part of the recording."""
        ...

    def ready(self) -> None:
        """All machines record, and the command begins."""
        ...

    def heard(self, progress: Mapping[str, Progress]) -> None:
        """Each second: how far each machine is, by name."""
        ...


def record_machines(plan: Plan, listener: Listener) -> Outcome:
    """Records all machines while the command (or the duration) of the plan's request lasts.

    A machine that is lost midway costs its tail: it is told to the listener and noted in
    recording.json. Errors: IostrataError, when nothing was begun, or when the workload's
    machine is the one that was lost; then what there is was saved all the same.
    """
    stations = [Station(machine) for machine in plan.machines]
    (workload,) = (station for station in stations if station.name == plan.workload)
    created = datetime.now(UTC).isoformat(timespec="seconds")
    with Interruption() as signals:
        try:
            write_recording(plan, stations, created)
            prepare(stations, listener)
            start(plan, workload, stations, listener)
            signals.answer = Answer.REMEMBER
            workload.go()
            listener.ready()
            follow(workload, stations, signals, listener)
            stop(plan, workload, stations)
            fetch(plan.request.directory, workload, stations, listener)
            outcome = _outcome(plan, workload, stations, signals.received)
            write_recording(plan, stations, created, outcome.exit_status)
        finally:
            signals.answer = Answer.IGNORE
            _each(Station.tidy, stations)
    if error := workload.error():
        raise type(error)(f"machine {workload.name}: {error}", error.hint)
    return outcome


def prepare(stations: Sequence[Station], listener: Listener) -> None:
    """Every machine is checked and has a recorder that works there; all at once."""
    listener.say(f"preparing {', '.join(station.name for station in stations)}")
    _each(Station.check, stations)
    for first, second in _twins(stations):
        listener.warn(f"{first.name} and {second.name} are the same machine, booted once")
    _each(Station.install, stations)


def start(plan: Plan, workload: Station, stations: Sequence[Station], listener: Listener) -> None:
    """All of them record, and have told their clocks; the command can begin."""
    own = replace(plan.request, duties=ALL)
    others = replace(plan.request, command=(), target=Target(), duties=SERVING, duration_s=0)
    for station in stations:
        station.start(own if station is workload else others)
    for station in stations:
        station.wait_ready(READY_LIMIT_S * plan.slowness)
        for text in blind_spots(station.planned.role, station.sights):
            listener.warn(f"machine {station.name}: {text}")
    for station in stations:
        station.ask_clock(MANY)
        station.check_running()


def follow(
    workload: Station, stations: Sequence[Station], signals: Interruption, listener: Listener
) -> None:
    """Until the workload's machine has ended its recording, or a signal came."""
    second_at = time.monotonic() + 1
    while workload.running and not signals.received:
        workload.hear(POLL_S)
        for station in stations:
            station.hear(0)
            if station is not workload and station.see_loss():
                listener.warn(f"machine {station.name}: {station.note}")
        if time.monotonic() >= second_at:
            second_at += 1
            for station in stations:
                station.ask_clock(FEW)
            listener.heard({each.name: each.status.last for each in stations if each.status.last})


def stop(plan: Plan, workload: Station, stations: Sequence[Station]) -> None:
    """The workload's machine first: what the others do for it is recorded to the end."""
    workload.stop()
    workload.wait_end(END_LIMIT_S * plan.slowness)
    for station in stations:
        station.ask_clock(MANY)
        station.stop()
    for station in stations:
        station.wait_end(END_LIMIT_S * plan.slowness)


def fetch(
    directory: Path, workload: Station, stations: Sequence[Station], listener: Listener
) -> None:
    """Every trace, as far as it got, into the recording."""
    for station in stations:
        if station.see_loss() and station is not workload:
            listener.warn(f"machine {station.name}: {station.note}")
        before = station.note
        try:
            station.fetch(directory / station.name)
            if isinstance(station.planned.transport, Local):
                write_connections(directory / station.name, carried_mounts())
        except IostrataError as error:
            station.abandoned = True
            where = f"{station.planned.transport}:{station.directory}"
            listener.warn(f"{error}; what it recorded is in {where}")
            station.note = "; ".join(filter(None, [station.note, f"not fetched from {where}"]))
        if station.fetched and station.note != before:
            listener.warn(f"machine {station.name}: {station.note}")


def write_recording(
    plan: Plan, stations: Sequence[Station], created: str, exit_status: int | None = None
) -> None:
    """recording.json, which is there from the start: one that is cut short is a recording, too."""
    machines = [
        Machine(station.name, station.planned.role, station.name, station.note)
        for station in stations
    ]
    there = [
        machine
        for machine, station in zip(machines, stations, strict=True)
        if station.fetched or not station.session
    ]
    write_recording_json(
        plan.request.directory,
        tuple(there),
        created=created,
        command=plan.request.command or None,
        exit_status=exit_status,
        absent=tuple(machine for machine in machines if machine not in there),
    )


def _outcome(
    plan: Plan, workload: Station, stations: Iterable[Station], interrupted_by: int
) -> Outcome:
    last = [station.status.last for station in stations if station.status.last]
    total = Progress(
        sum(each.events for each in last),
        sum(each.lost for each in last),
        max((each.seconds for each in last), default=0.0),
    )
    exit_status = workload.status.done if plan.request.command else None
    return Outcome(exit_status, interrupted_by, total if last else None)


def _twins(stations: Sequence[Station]) -> list[tuple[Station, Station]]:
    return [
        (first, second)
        for number, first in enumerate(stations)
        for second in stations[number + 1 :]
        if first.boot_id and first.boot_id == second.boot_id
    ]


def _each(verb: Callable[[Station], None], stations: Sequence[Station]) -> None:
    """On all machines at once; the first error of any."""
    with ThreadPoolExecutor(len(stations)) as threads:
        list(threads.map(verb, stations))
