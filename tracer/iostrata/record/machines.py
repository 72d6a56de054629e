# SPDX-License-Identifier: Apache-2.0
"""Record stage: a Plan of machines in, one recording of them all and its Outcome out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from iostrata.errors import IostrataError, RecorderError
from iostrata.record.duties import ALL, SERVING
from iostrata.record.interruption import Answer, Interruption
from iostrata.record.local import Local
from iostrata.record.member import Member, Planned
from iostrata.record.mounts import carried_mounts, write_connections
from iostrata.record.place import KEPT
from iostrata.record.recorder import Outcome, Request, Target
from iostrata.record.requirements import blind_spots
from iostrata.record.status import Progress
from iostrata.recording import RecordedMachine, facts_in, write_recording_json

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


class RecordingListener(Protocol):
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


def record_machines(plan: Plan, listener: RecordingListener) -> Outcome:
    """Records all machines while the command (or the duration) of the plan's request lasts.

    A machine that is lost midway costs its tail: it is told to the listener and noted in
    recording.json. A signal ends what is done then: the recording, the waiting for recorders to
    end, the fetching, the tidying. Errors: KeyboardInterrupt, before anything was begun;
    IostrataError, when nothing was begun, or when the workload's machine is the one that was
    lost, or not fetched; then what there is was saved all the same.
    """
    members = [Member(machine) for machine in plan.machines]
    (workload,) = (member for member in members if member.name == plan.workload)
    created = datetime.now(UTC).isoformat(timespec="seconds")
    with Interruption() as signals:
        try:
            write_recording(plan, members, created)
            prepare(members, listener)
            start(plan, workload, members, listener)
            signals.answer = Answer.COUNT
            workload.go()
            listener.ready()
            follow(workload, members, signals, listener)
            stop(plan, workload, members, signals)
            fetch(plan.request.directory, workload, members, signals, listener)
            outcome = _outcome(plan, workload, members, signals.received)
            write_recording(plan, members, created, outcome.exit_status)
        finally:
            tidy(members, signals, listener)
    if error := workload.error():
        raise type(error)(f"machine {workload.name}: {error}", error.hint)
    if not workload.fetched:
        raise RecorderError(
            f"machine {workload.name}: nothing of the workload is in the recording, as its trace "
            "was not fetched",
            "copy it, and the others, to one place, and use iostrata join",
        )
    return outcome


def prepare(members: Sequence[Member], listener: RecordingListener) -> None:
    """Every machine is checked and has a recorder that works there; all at once."""
    listener.say(f"preparing {', '.join(member.name for member in members)}")
    _each(Member.check, members)
    for first, second in _twins(members):
        listener.warn(f"{first.name} and {second.name} are the same machine, booted once")
    _each(Member.install, members)


def start(
    plan: Plan, workload: Member, members: Sequence[Member], listener: RecordingListener
) -> None:
    """All of them record, and have told their clocks; the command can begin."""
    own = replace(plan.request, duties=ALL)
    others = replace(plan.request, command=(), target=Target(), duties=SERVING, duration_s=0)
    if own.op == "direct":
        # What passes the page cache of one machine may be in that of the next.
        others = replace(others, op="read")
    for member in members:
        member.start(own if member is workload else others)
    _wait(
        lambda: all(each.running for each in members) and any(each.starting for each in members),
        members, READY_LIMIT_S * plan.slowness,
    )  # fmt: skip
    for member in sorted(members, key=lambda member: member.running):
        member.check_visibility()
        for text in blind_spots(member.planned.role, member.visibility):
            listener.warn(f"machine {member.name}: {text}")
    for member in members:
        member.ask_clock(MANY)
        member.check_running()


def follow(
    workload: Member, members: Sequence[Member], signals: Interruption, listener: RecordingListener
) -> None:
    """Until the workload's machine has ended its recording, or a signal came."""
    second_at = time.monotonic() + 1
    while workload.running and not signals.received:
        workload.hear(POLL_S)
        for member in members:
            member.hear(0)
            if member is not workload and member.see_loss():
                listener.warn(f"machine {member.name}: {member.note}")
        if time.monotonic() >= second_at:
            second_at += 1
            for member in members:
                member.ask_clock(FEW)
            listener.heard({each.name: each.status.last for each in members if each.status.last})


def stop(plan: Plan, workload: Member, members: Sequence[Member], signals: Interruption) -> None:
    """The workload's machine first: what the others do for it is recorded to the end."""
    limit_s, before = END_LIMIT_S * plan.slowness, signals.count
    workload.stop()
    _wait(lambda: workload.running and signals.count == before, members, limit_s)
    workload.give_up()
    for member in members:
        member.ask_clock(MANY)
        member.stop()
    _wait(
        lambda: any(member.running for member in members) and signals.count == before,
        members, limit_s,
    )  # fmt: skip
    for member in members:
        member.give_up()


def _wait(waiting: Callable[[], bool], members: Sequence[Member], limit_s: float) -> None:
    """As long as it holds, and the limit at most; all recorders hear that we are meanwhile."""
    second_at = time.monotonic()
    deadline = second_at + limit_s
    while waiting() and time.monotonic() < deadline:
        for member in members:
            member.hear(POLL_S / len(members))
        if time.monotonic() >= second_at:
            second_at += 1
            for member in members:
                member.keep()


def fetch(
    directory: Path,
    workload: Member,
    members: Sequence[Member],
    signals: Interruption,
    listener: RecordingListener,
) -> None:
    """Every trace, as far as it got, into the recording; after a signal, those that are here."""
    count = signals.count
    for member in sorted(members, key=lambda member: member.planned.transport.is_far):
        if member.see_loss() and member is not workload:
            listener.warn(f"machine {member.name}: {member.note}")
        before = member.note
        try:
            _fetch(member, directory / member.name, signals, signals.count == count)
            if isinstance(member.planned.transport, Local):
                write_connections(directory / member.name, carried_mounts())
        except IostrataError as error:
            member.abandoned = True
            where = f"{member.planned.transport}:{member.directory}"
            until = f", for {KEPT}" if member.planned.transport.is_far else ""
            came = directory / member.name
            part = f", what came of it in {came}" if (came / "metadata").exists() else ""
            listener.warn(f"{error}; what it recorded is in {where}{until}{part}")
            member.note = "; ".join(filter(None, [member.note, f"not fetched from {where}"]))
        if member.note != before and not member.abandoned:
            listener.warn(f"machine {member.name}: {member.note}")


def _fetch(member: Member, trace: Path, signals: Interruption, patient: bool) -> None:
    try:
        if patient or not member.planned.transport.is_far:
            with signals.giving_up():
                member.fetch(trace)
            return
    except KeyboardInterrupt:
        signals.count += 1
    raise RecorderError(f"machine {member.name}: it was not waited for any longer")


def tidy(members: Sequence[Member], signals: Interruption, listener: RecordingListener) -> None:
    try:
        with signals.giving_up():
            _each(Member.tidy, members)
    except KeyboardInterrupt:
        signals.count += 1
    for member in members:
        if member.directory and not (member.tidied or member.abandoned):
            where = f"{member.planned.transport}:{member.directory}"
            until = f", for {KEPT}" if member.planned.transport.is_far else ""
            listener.warn(f"machine {member.name}: {where} may be left there{until}")


def write_recording(
    plan: Plan, members: Sequence[Member], created: str, exit_status: int | None = None
) -> None:
    """recording.json, which is there from the start: one that is cut short is a recording, too."""
    machines = [
        RecordedMachine(
            member.name,
            member.planned.role,
            member.name,
            member.note,
            facts_in(plan.request.directory / member.name) if member.fetched else {},
        )
        for member in members
    ]
    there = [
        machine
        for machine, member in zip(machines, members, strict=True)
        if member.fetched or not member.session
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
    plan: Plan, workload: Member, members: Iterable[Member], interrupted_by: int
) -> Outcome:
    last = [member.status.last for member in members if member.status.last]
    total = Progress(
        sum(each.events for each in last),
        sum(each.lost for each in last),
        max((each.seconds for each in last), default=0.0),
    )
    exit_status = workload.status.done if plan.request.command else None
    return Outcome(exit_status, interrupted_by, total if last else None)


def _twins(members: Sequence[Member]) -> list[tuple[Member, Member]]:
    return [
        (first, second)
        for number, first in enumerate(members)
        for second in members[number + 1 :]
        if first.boot_id and first.boot_id == second.boot_id
    ]


def _each(verb: Callable[[Member], None], members: Sequence[Member]) -> None:
    """On all machines at once; the first error of any. KeyboardInterrupt ends what they do."""
    with ThreadPoolExecutor(len(members)) as threads:
        begun = [threads.submit(verb, member) for member in members]
        try:
            for each in begun:
                each.result()
        except KeyboardInterrupt:
            while wait(begun, POLL_S).not_done:
                for member in members:
                    member.planned.transport.cut()
            raise
