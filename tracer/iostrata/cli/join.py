# SPDX-License-Identifier: Apache-2.0
"""iostrata join: recordings of several machines become one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from iostrata.cli import options
from iostrata.cli.capture import check
from iostrata.cli.machines import named
from iostrata.cli.story import Story
from iostrata.errors import IostrataError, UsageError
from iostrata.recording import Part, RecordedMachine, Recording, give, open_recording, withdraw
from iostrata.recording import join as join_parts


def join(
    recordings: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME[:ROLE]=]DIR...",
            help="Recordings, or single machines in them.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where the new recording goes.")
    ],
    unsynchronised: Annotated[
        bool,
        typer.Option("--unsynchronised", help="The wall clocks are wrong: do not check by them."),
    ] = False,
    quiet: options.Quiet = False,
) -> int:
    """Join recordings of several machines, made by hand, into one.

    For machines that `iostrata record --machine` cannot enter: start the recorder
    on each, those without the workload first and with --path, then join what they
    recorded. ROLE is guest, host, server or local; a machine so named needs none.
    The recordings stay as they are.

    \b
      nas#     iostrata-record -o /var/tmp/nas --path --duration 60
      host#    iostrata-record -o /var/tmp/host --path --duration 60
      guest#   iostrata record -o /var/tmp/guest -- fio job.fio
      iostrata join guest=guest host=host nas:server=nas -o all
    """
    parts = [part for text in recordings for part in _parts(text)]
    if len(parts) < 2:
        raise UsageError("there is one machine, and nothing to join it with", "give several")
    _check_roles(parts)
    check(output, force=False, hint="give another directory")
    output.mkdir(mode=0o700, parents=True, exist_ok=True)
    with Story(quiet) as story:
        try:
            for warning in join_parts(parts, output, unsynchronised):
                story.warn(warning)
        except IostrataError:
            withdraw(output)
            raise
        finally:
            give(output)
        story.say(f"to analyse it: iostrata replay {output}")
    return 0


def _check_roles(parts: Sequence[Part]) -> None:
    alone = [str(part.path) for part in parts if part.role == "local"]
    if len(alone) > 1:
        raise UsageError(
            f"what part do {' and '.join(alone)} have in the path of a write?",
            "give each a role: iostrata join guest=DIR host=DIR nas:server=DIR -o DIR",
        )


def _parts(text: str) -> Iterator[Part]:
    """A directory alone keeps its machines' names."""
    if "=" not in text or Path(text).exists():
        recording = open_recording(Path(text))
        for machine in recording.machines:
            yield _part(recording, machine)
        return
    name, role, directory = named(text, "give DIR, NAME=DIR or NAME:ROLE=DIR")
    recording = open_recording(Path(directory))
    if len(recording.machines) > 1:
        raise UsageError(
            f"{text}: that recording has {len(recording.machines)} machines",
            f"give it without a name, or one machine in it, such as {directory}/"
            f"{recording.machines[0].directory}",
        )
    (machine,) = recording.machines
    yield _part(recording, machine, name, role)


def _part(recording: Recording, machine: RecordedMachine, name: str = "", role: str = "") -> Part:
    return Part(
        name or machine.name,
        role or machine.role,
        recording,
        machine.directory,
        machine.note,
        machine.facts,
    )
