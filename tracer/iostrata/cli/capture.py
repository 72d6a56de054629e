# SPDX-License-Identifier: Apache-2.0
"""A directory for a recording, and the recording made in it: what run, record and bench share."""

from __future__ import annotations

import pwd
import shutil
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec import structs

from iostrata.cli.story import Story, described
from iostrata.errors import CommandNotFound, NothingToAnalyse, UsageError
from iostrata.record import (
    Echoes,
    Local,
    Outcome,
    Plan,
    Request,
    Target,
    carried_mounts,
    check_ebpf,
    check_target,
    found_command,
    record,
    record_machines,
    servers,
    signal_name,
    write_connections,
    write_echoes,
)
from iostrata.recording import (
    FILE_NAME,
    RecordedMachine,
    check_own,
    discard,
    facts_in,
    give,
    holds_events,
    remove_recording,
    replaced,
    runs_in,
    withdraw,
    write_recording_json,
)

MACHINE: Final = RecordedMachine(name="local", role="local", directory="local")


def checked(request: Request) -> Request:
    """It, with its program found; all that can be known to fail before anything is written."""
    _check_workload(request)
    check_target(request.target)
    check_ebpf()
    return _found(request)


def checked_plan(plan: Plan) -> Request:
    """As ``checked``, of what is on this machine."""
    _check_workload(plan.request)
    here = [machine.name for machine in plan.machines if isinstance(machine.transport, Local)]
    if here:
        check_ebpf()
    if plan.workload in here:
        check_target(plan.request.target)
        return _found(plan.request)
    return plan.request


def _found(request: Request) -> Request:
    """Its command's program, and its user, are on this machine."""
    if request.user is not None:
        try:
            pwd.getpwnam(request.user)
        except KeyError as error:
            raise UsageError(
                f"--user {request.user}: there is no such user", "getent passwd lists them"
            ) from error
    return replace(request, command=found_command(request.command))


def _check_workload(request: Request) -> None:
    if not request.command and not request.target:
        raise UsageError(
            "there is nothing to record: no command and no filter",
            "give a command after --, or one of --pid, --comm, --cgroup, --device, --all",
        )
    if request.user is not None and not request.command:
        raise UsageError("--user is whose the command is, and there is none", "leave it out")


def capture(
    request: Request, story: Story, ping: bool = False, older: Sequence[Path] = ()
) -> Outcome:
    """Records into ``request.directory``, which gets recording.json and the trace beside it.

    recording.json is there from the start: a recording that is cut short is one, too.
    ``ping``: with echoes to NFS servers meanwhile. ``older``: directories of recordings that it
    takes the place of, as of the one in its own.
    """
    with _kept(request.directory, older, story):
        return _capture(request, story, ping)


def _capture(request: Request, story: Story, ping: bool) -> Outcome:
    directory = request.directory
    created = datetime.now(UTC).isoformat(timespec="seconds")
    command = request.command or None
    write_recording_json(directory, (MACHINE,), created=created, command=command)
    trace = directory / MACHINE.directory
    with _echoing(trace, story) if ping else nullcontext():
        outcome = record(replace(request, directory=trace), story)
    write_connections(trace, carried_mounts())
    write_recording_json(
        directory,
        (structs.replace(MACHINE, facts=facts_in(trace)),),
        created=created,
        command=command,
        exit_status=outcome.exit_status,
    )
    _tell_end(outcome, story)
    return outcome


def capture_machines(
    plan: Plan, story: Story, ping: bool = False, older: Sequence[Path] = ()
) -> Outcome:
    """Records all machines of the plan into the directory of its request; ``ping``: from here.
    ``older``: as of ``capture``."""
    here = [machine.name for machine in plan.machines if isinstance(machine.transport, Local)]
    if ping and not here:
        story.warn("--ping: this machine, which would send it, is not recorded")
    directory = plan.request.directory
    echoing = _echoing(directory / here[0], story) if ping and here else nullcontext()
    with _kept(directory, older, story), echoing:
        outcome = record_machines(plan, story)
    _tell_end(outcome, story)
    return outcome


@contextmanager
def _kept(directory: Path, older: Sequence[Path], story: Story) -> Iterator[None]:
    """What was refused before anything was recorded leaves nothing that a retry would meet, and
    what was there before; what was recorded belongs to who asked for it."""
    try:
        with replaced(directory, older):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            # Somebody else may have been quicker.
            check_own(directory)
            try:
                yield
            except KeyboardInterrupt:
                discard(directory)
                story.say("ended before anything was recorded")
                raise
            except BaseException:
                withdraw(directory)
                raise
    finally:
        give(directory)


@contextmanager
def _echoing(trace: Path, story: Story) -> Iterator[None]:
    """Echoes while its body records; they become a fact of the trace that it made."""
    echoes = Echoes(servers)
    with echoes:
        yield
    if trace.is_dir():
        write_echoes(trace, echoes.found)
    if echoes.refusal:
        story.warn(f"--ping: {echoes.refusal}")
    elif not echoes.found:
        story.warn("--ping: this machine mounts nothing from an NFS server")
    elif all(echo.round_trip_ns is None for echo in echoes.found):
        story.warn(f"--ping: no answer from {echoes.found[0].address}: is ICMP filtered?")


def _tell_end(outcome: Outcome, story: Story) -> None:
    story.say(f"recorded {described(outcome.last)}" if outcome.last else "recorded")
    if outcome.exit_status:
        story.say(f"the command ended with status {_named(outcome.exit_status)}")


def _named(exit_status: int) -> str:
    """With the signal that ended it, if one may have: a shell says the same of what it ran."""
    name = signal_name(exit_status - 128)
    return f"{exit_status} ({name})" if name else str(exit_status)


ANOTHER: Final = "give another directory, or --force"


def clear(directory: Path) -> None:
    """Removes an older recording from it, and makes it if need be."""
    if (directory / FILE_NAME).is_file():
        remove_recording(directory)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)


def existing(directory: Path) -> Path:
    """Itself or the nearest one above it that exists: on the file system where it will be."""
    return next(place for place in (directory, *directory.absolute().parents) if place.is_dir())


def check(directory: Path, force: bool, hint: str = ANOTHER) -> None:
    """Whether it can be made a place for a recording. Errors: UsageError."""
    if directory.is_symlink() and not directory.exists():
        raise UsageError(
            f"{directory} is a link to {directory.readlink()}, which does not exist",
            "give a directory that does not exist yet",
        )
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file", "give a directory that does not exist yet")
    check_own(directory)
    if directory.is_dir() and any(directory.iterdir()):
        if not (directory / FILE_NAME).is_file():
            raise UsageError(
                f"{directory} is not empty, and no recording", "give another directory"
            )
        if not force:
            raise UsageError(f"{directory} holds a recording already", hint)


def replaces(directory: Path, force: bool) -> list[Path]:
    """Whose place a recording there takes beside that of an older one there: all of a series'
    (``--repeat``), if nothing else is there. Errors: UsageError."""
    runs = [run for run in runs_in(directory) if run.name.isdigit()]
    if not runs or {*directory.iterdir()} - {*runs}:
        check(directory, force)
        return []
    if not force:
        raise UsageError(f"{directory} holds {len(runs)} recordings already", ANOTHER)
    check_own(directory)
    return runs


def series_of(
    request: Request, directory: Path, count: int, force: bool, quiet: bool
) -> Generator[tuple[Request, list[Path]]]:
    """The same for each of so many runs, side by side in ``directory``, as its turn comes; and
    which older recordings it takes the place of: the first one, of all there are. Closed before
    anything was recorded, it leaves no directory that was not there."""
    older = runs_in(directory)
    if older and not force:
        raise UsageError(f"{directory} holds {len(older)} recordings already", ANOTHER)
    if not older or {*directory.iterdir()} - {*older}:
        check(directory, force)
    older.append(directory)
    was_there = directory.exists()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    give(directory)
    try:
        for number in range(1, count + 1):
            Story(quiet).say(f"run {number} of {count}")
            place = directory / f"{number:0{len(str(count))}}"
            check(place, force)
            yield replace(request, directory=place), older
            older = []
    finally:
        if not was_there:
            with suppress(OSError):
                directory.rmdir()


def target(
    pids: list[int] | None,
    comms: list[str] | None,
    cgroups: list[str] | None,
    devices: list[str] | None,
    everything: bool,
) -> Target:
    """The filter options of the command line."""
    return Target(
        tuple(pids or ()),
        tuple(comms or ()),
        tuple(cgroups or ()),
        tuple(devices or ()),
        everything,
    )


def failed(outcome: Outcome) -> int:
    """The command's own failure, or the signal that cut it short; 0: it went well."""
    if outcome.exit_status is None:
        return 0
    return 128 + outcome.interrupted_by if outcome.interrupted_by else outcome.exit_status


@contextmanager
def temporary(story: Story, keep: bool) -> Iterator[Path]:
    """A directory that goes when its result was printed, and stays, named, when it was not."""
    directory = Path(tempfile.mkdtemp(prefix="iostrata-"))
    try:
        yield directory
    except (NothingToAnalyse, CommandNotFound):
        _remove(directory, story, keep)
        raise
    except BaseException:
        _remove(directory, story, keep or holds_events(directory / MACHINE.directory))
        raise
    _remove(directory, story, keep)


def _remove(directory: Path, story: Story, keep: bool) -> None:
    if keep:
        story.tell(f"the recording is kept: iostrata replay {directory}")
    else:
        shutil.rmtree(directory, ignore_errors=True)
