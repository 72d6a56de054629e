# SPDX-License-Identifier: Apache-2.0
"""Redaction of a whole recording: its machines, and what recording.json says of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from iostrata.recording.kept import kept_as
from iostrata.recording.recording import ROLES, RecordedMachine, Recording, write_recording_json
from iostrata.trace import Pseudonyms, redact_trace

NOTE: Final = "what went wrong was redacted"


def redact(recording: Recording, directory: Path) -> None:
    """Writes it anew into an empty directory, without names of files, processes, hosts, control
    groups and commands: what they were is in no byte of it. Errors: RecordingError, OSError.
    """
    names = Pseudonyms()
    known = _named((*recording.machines, *recording.absent))
    for machine in recording.machines:
        target = directory / known[machine.name].directory
        source = recording.path / machine.directory
        redact_trace(source, target, names)
        facts = kept_as(target, source, machine.facts)
        known[machine.name] = replace(known[machine.name], facts=facts)
    write_recording_json(
        directory,
        tuple(known[machine.name] for machine in recording.machines),
        created=recording.created,
        exit_status=recording.exit_status,
        absent=tuple(known[machine.name] for machine in recording.absent),
    )


def _named(machines: Iterable[RecordedMachine]) -> dict[str, RecordedMachine]:
    """By its name, each machine with one that says its part only: ``server``, ``server2``."""
    found: dict[str, RecordedMachine] = {}
    counts: dict[str, int] = {}
    for machine in machines:
        # Which anybody may have written, and is a directory's name here.
        role = machine.role if machine.role in ROLES else "machine"
        counts[role] = counts.get(role, 0) + 1
        name = role if counts[role] == 1 else f"{role}{counts[role]}"
        note = NOTE if machine.note else ""
        found[machine.name] = replace(
            machine, name=name, role=role, directory=name, note=note, facts={}
        )
    return found
