# SPDX-License-Identifier: Apache-2.0
"""iostrata import: what bpftrace printed, by a script of ours, becomes a recording."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from iostrata.cli import options
from iostrata.cli.capture import MACHINE, check, clear, existing
from iostrata.cli.import_json import render
from iostrata.cli.story import Story
from iostrata.errors import STATUS_LOSSES, UsageError
from iostrata.recording import give, withdraw, write_recording_json
from iostrata.script import Brought, bring, script
from iostrata.units import duration


def import_(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="What the script printed there.", show_default=False
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="DIR", help="Where the recording goes.", show_default=False
        ),
    ] = None,
    force: options.Force = False,
    diskstats: Annotated[
        Path | None,
        typer.Option(
            "--diskstats", metavar="FILE", show_default=False,
            help="That machine's /proc/diskstats or /proc/partitions, if bpftrace cut it short.",
        ),
    ] = None,
    mountinfo: Annotated[
        Path | None,
        typer.Option(
            "--mountinfo", metavar="FILE", show_default=False,
            help="That machine's /proc/PID/mountinfo, likewise, or of the processes recorded.",
        ),
    ] = None,
    show_script: Annotated[
        bool, typer.Option("--script", help="Print the script, iostrata.bt, and nothing else.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="What it became as JSON, on standard output.")
    ] = False,
    quiet: options.Quiet = False,
) -> int:  # fmt: skip
    """Make a recording of what bpftrace recorded.

    For machines on which no foreign binary may run, but bpftrace (0.17 or later)
    does: the script is text, and prints lines. It stops at Ctrl-C; a name or a
    PID behind it leaves only that program's writes.

    \b
      iostrata import --script > iostrata.bt
      scp iostrata.bt root@db:
      ssh root@db nice -n 19 bpftrace iostrata.bt postgres > out.txt
      iostrata import out.txt -o DIR
      iostrata replay DIR

    It is coarser than `iostrata record`, as the lines below the table say, and
    costs the recorded programs more. Exit status 7: lines are missing.
    """
    if show_script:
        sys.stdout.write(script())
        return 0
    if file is None or output is None:
        raise UsageError("what is to be imported, and where to?", "iostrata import FILE -o DIR")
    check(output, force)
    os.umask(0o077)  # what is recorded is nobody else's to read
    with Story(quiet) as story:
        # An older recording goes when there is one to take its place, which may be of a file in it.
        with TemporaryDirectory(prefix="iostrata-", dir=existing(output)) as place:
            brought = bring(file, Path(place) / MACHINE.directory, diskstats, mountinfo)
            clear(output)
            (Path(place) / MACHINE.directory).rename(output / MACHINE.directory)
        try:
            created = datetime.fromtimestamp(brought.created_ns // 1_000_000_000, UTC)
            write_recording_json(output, (MACHINE,), created=created.isoformat())
        except BaseException:
            withdraw(output)
            raise
        finally:
            give(output)
        for warning in _warnings(brought):
            story.warn(warning)
        story.say(f"{brought.events} events in {duration(brought.duration_ns)}")
        story.say(f"to analyse it: iostrata replay {output}")
    if json:
        sys.stdout.write(render(brought, str(output)))
    return STATUS_LOSSES if brought.lost or brought.bad or not brought.whole else 0


def _warnings(brought: Brought) -> Iterator[str]:
    if brought.bad:
        yield f"{brought.bad} lines could not be read, the first is line {brought.first_bad}"
    if brought.lost:
        yield (
            f"{brought.lost} events are missing; BPFTRACE_PERF_RB_PAGES=1024 before bpftrace, or a "
            "name or PID behind the script, leaves less to lose"
        )
    if not brought.whole:
        yield "bpftrace did not end by itself: what came last may be missing"
    for name in brought.cut:
        option = "--diskstats" if name == "partitions" else "--mountinfo"
        yield f"bpftrace printed a part of /proc's {name} only: give a copy of it by {option}"
