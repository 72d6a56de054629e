# SPDX-License-Identifier: Apache-2.0
"""iostrata record: record this machine, to be analysed later."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from iostrata.cli import options
from iostrata.cli.capture import capture, check, failed, prepare, target
from iostrata.cli.story import Story
from iostrata.record import Request


def record(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where the recording goes.")
    ],
    command: options.Command = None,
    force: options.Force = False,
    pid: options.Pid = None,
    comm: options.Comm = None,
    cgroup: options.Cgroup = None,
    device: options.Device = None,
    everything: options.Everything = False,
    duration: options.Duration = 0,
    detail: options.Detail = False,
    stats: options.Stats = False,
    buffer: options.Buffer = 0,
    quiet: options.Quiet = False,
) -> int:
    """Record this machine into a directory, for replay.

    As `iostrata run`, without the analysis. A recording can be copied to any
    machine and analysed there without root.

    \b
      sudo iostrata record -o /var/tmp/db --comm postgres --duration 10
      iostrata replay /var/tmp/db
    """
    request = Request(
        directory=output,
        command=tuple(command or ()),
        target=target(pid, comm, cgroup, device, everything),
        detail=detail,
        stats=stats,
        duration_s=duration,
        buffer_kib=buffer,
    )
    check(request)
    prepare(output, force)
    with Story(quiet, alone=not command) as story:
        outcome = capture(request, story)
        story.say(f"to analyse it: iostrata replay {output}")
    return failed(outcome)
