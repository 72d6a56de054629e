# SPDX-License-Identifier: Apache-2.0
"""Recording: a path given by the user to the machines recorded there and their traces."""

from __future__ import annotations

import dataclasses
import json
import re
import stat
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from iostrata.errors import RecordingError
from iostrata.foreign import shown
from iostrata.recording.kept import Fact, changed
from iostrata.trace import Trace, read_small, read_trace, write_whole

FILE_NAME = "recording.json"
ANALYSIS: Final = ".analysis-{}"
SUMMARIES: Final = ".summaries-{}"
"""What was made of one, by the kind of its writes, is kept beside it."""
FORMAT_NAME = "iostrata.recording"
FORMAT_VERSION = 1
ROLES = frozenset({"local", "guest", "host", "server"})
MOST_MACHINES: Final = 64
"""Each is held against each other one: twice as many take four times as long."""
# A machine's directory is named like it.
MACHINE_NAME = re.compile(r"(?!recording\.json$)[A-Za-z0-9][\w.-]*", re.ASCII)


class RecordedMachine(msgspec.Struct, frozen=True, omit_defaults=True):
    """``directory``: of its trace, beside recording.json.

    ``note``: what went wrong while it was recorded, such as a connection that was lost.
    ``facts``: what they were when all was there; empty: it was interrupted, or is an older one.
    """

    name: str
    role: str
    directory: str
    note: str = ""
    facts: Mapping[str, Fact] = {}


class RecordingFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """recording.json, as documented in the format's description."""

    format: str
    created: str
    machines: tuple[RecordedMachine, ...]
    command: tuple[str, ...] | None = None
    exit_status: int | None = None
    absent: tuple[RecordedMachine, ...] = ()


KEPT_BYTES: Final = 384 << 20
"""So much of all streams stays mapped, so that what is looked at again is there at once."""


class Format(msgspec.Struct):
    format: str


@dataclass(frozen=True)
class Recording:
    """``command``, ``exit_status``, ``created``: empty where a recorder was run by hand.

    ``absent``: machines that were recorded, and whose traces could not be fetched.
    """

    path: Path
    machines: tuple[RecordedMachine, ...]
    command: tuple[str, ...] | None = None
    exit_status: int | None = None
    created: str = ""
    absent: tuple[RecordedMachine, ...] = ()

    def traces(self, jobs: int = 1) -> list[Trace]:
        """Every machine's trace, in the order of ``machines``, each read by so many threads."""
        return [self.trace(machine, jobs) for machine in self.machines]

    def trace(self, machine: RecordedMachine, jobs: int = 1) -> Trace:
        directory = self.path / machine.directory
        kept_bytes = KEPT_BYTES // len(self.machines)
        # Of what is complete, facts were told.
        grows = not machine.facts
        alone = len(self.machines) == 1
        trace = read_trace(directory, machine.name, jobs, kept_bytes, grows, alone=alone)
        wrong = changed(directory, machine.facts).items()
        defects = [f"facts/{shown(name)}: {what}" for name, what in wrong]
        # What every recorder writes is missed without having been told of, too.
        every = tuple(dict.fromkeys((*trace.damage, *defects)))
        return dataclasses.replace(trace, damage=every) if defects else trace


def open_recording(path: Path) -> Recording:
    """A recording's directory, or one machine's in it; RecordingError if it is neither."""
    try:
        if not stat.S_ISDIR(path.stat().st_mode):
            raise NotADirectoryError
        file = path / FILE_NAME
        if file.exists():
            return read_recording_json(file)
        if (path / "metadata").exists():
            return Recording(path, (_alone(path.resolve()),))
    except OSError as error:
        raise unreadable(path, error) from error
    name = shown(str(path))
    if runs := runs_in(path):
        raise RecordingError(
            f"{name} is no recording: it holds {len(runs)}",
            f"give one of them, such as {shown(str(runs[0]))}; only `iostrata compare` takes them "
            "all",
        )
    raise RecordingError(
        f"{name} is no recording: it has neither {FILE_NAME} nor a trace's metadata",
        "give the directory that `iostrata record -o` made, not one above or below it",
    )


def _alone(directory: Path) -> RecordedMachine:
    """A machine's directory without its recording; what its facts were, the recording around it
    says, where there is one."""
    alone = RecordedMachine("local", "local", ".")
    try:
        found = decode(directory.parent / FILE_NAME)
    except (OSError, RecordingError):
        return alone
    told = (one for one in found.machines if directory.parent / one.directory == directory)
    return replace(alone, facts=next((one.facts for one in told), {}))


def runs_in(directory: Path) -> list[Path]:
    """The recordings right below a directory that is none itself, by name; perhaps none."""
    if not directory.is_dir() or (directory / FILE_NAME).exists():
        return []
    return sorted(child for child in directory.iterdir() if (child / FILE_NAME).is_file())


def read_recording_json(file: Path) -> Recording:
    found = decode(file)
    if not found.machines:
        raise RecordingError(
            f"{file} names no machine", "the recording was stopped before it began: record again"
        )
    check_number(str(file), len(found.machines))
    for machine in found.machines:
        check_machine(file, machine)
    machines = tuple(map(_named, found.machines))
    check_apart(file, machines)
    return Recording(
        file.parent,
        machines,
        found.command,
        found.exit_status,
        shown(found.created),
        tuple(map(_named, found.absent)),
    )


def _named(machine: RecordedMachine) -> RecordedMachine:
    """In letters only: all of it is printed."""
    name, role, note = map(shown, (machine.name, machine.role, machine.note))
    return replace(machine, name=name, role=role, note=note)


def decode(file: Path) -> RecordingFile:
    """Whatever machines it names. RecordingError: it is none of ours, or broken."""
    try:
        # A word of a command that is no UTF-8 has halves of surrogate pairs, as JSON may.
        data = json.loads(read_small(file))
        check_format(file, msgspec.convert(data, Format).format)
        return msgspec.convert(data, RecordingFile)
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise RecordingError(
            f"{file} is broken: {error}",
            "restore it, or give the directory of one machine in the recording",
        ) from error


def check_format(file: Path, text: str) -> None:
    name, _, version = text.partition("/")
    if name != FORMAT_NAME or not version.isdecimal():
        raise RecordingError(
            f"{file} is of another program: its format is {text!r}",
            "give the directory that `iostrata record -o` made",
        )
    if int(version) > FORMAT_VERSION:
        raise RecordingError(
            f"{file} has format {version}; this iostrata reads up to {FORMAT_VERSION}",
            "upgrade iostrata",
        )


def check_machine(file: Path, machine: RecordedMachine) -> None:
    """A machine's directory lies within the recording, whatever the file says."""
    inside = file.parent / machine.directory
    if not _is_within(inside, file.parent):
        raise RecordingError(
            f"{file}: machine {machine.name} is outside of the recording: {machine.directory!r}",
            "keep its directory beside recording.json",
        )
    if not inside.is_dir():
        raise RecordingError(
            f"{file}: the trace of machine {machine.name} is missing: {inside}",
            "copy the whole recording, with every directory in it",
        )


def _is_within(path: Path, directory: Path) -> bool:
    """Once all links are followed; what leads nowhere is not."""
    try:
        return path.resolve().is_relative_to(directory.resolve())
    except (ValueError, RuntimeError):  # a NUL; a link to itself, before Python 3.13
        return False


def check_number(what: str, count: int) -> None:
    if count > MOST_MACHINES:
        raise RecordingError(
            f"{what}: {count} machines, more than {MOST_MACHINES}, are not analysed together",
            "`iostrata join` those that serve one another to a recording",
        )


def check_apart(file: Path, machines: Sequence[RecordedMachine]) -> None:
    """Rows are told apart by the machines' names, and no trace is of two of them."""
    places = [str((file.parent / machine.directory).resolve()) for machine in machines]
    for what, found in (("name", [machine.name for machine in machines]), ("directory", places)):
        value, count = Counter(found).most_common(1)[0]
        if count > 1:
            raise RecordingError(
                f"{file}: {count} machines have one {what}, {value}",
                f"give each machine a {what} of its own",
            )


def unreadable(path: Path, error: OSError) -> RecordingError:
    name = shown(str(path))
    if isinstance(error, FileNotFoundError):
        return RecordingError(
            f"{name} does not exist", "give the directory that `iostrata record -o` made"
        )
    if isinstance(error, NotADirectoryError):
        return RecordingError(
            f"{name} is a file; a recording is a directory",
            "give the directory that the file is in",
        )
    return RecordingError(
        f"{name} cannot be read: {error.strerror}", "check its permissions, or read it as its owner"
    )


def write_recording_json(
    directory: Path,
    machines: tuple[RecordedMachine, ...],
    *,
    created: str,
    command: tuple[str, ...] | None = None,
    exit_status: int | None = None,
    absent: tuple[RecordedMachine, ...] = (),
) -> None:
    """``created``: ISO 8601. The machines' traces lie in ``directory`` already, or will."""
    found = RecordingFile(
        f"{FORMAT_NAME}/{FORMAT_VERSION}", created, machines, command, exit_status, absent
    )
    text = json.dumps(msgspec.to_builtins(found), indent=2, ensure_ascii=False)
    # Halves of surrogate pairs become the escapes that JSON has for them.
    write_whole(directory / FILE_NAME, f"{text}\n".encode(errors="backslashreplace"))
