# SPDX-License-Identifier: Apache-2.0
"""iostrata record: record one machine or several, to be analysed later."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from iostrata.cli import options
from iostrata.cli.capture import (
    capture,
    capture_machines,
    checked,
    checked_plan,
    failed,
    replaces,
    series_of,
    target,
)
from iostrata.cli.machines import plan
from iostrata.cli.story import Story
from iostrata.errors import UsageError
from iostrata.record import Request


def record(
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Where the recording goes.")
    ],
    command: options.Command = None,
    machine: Annotated[
        list[str] | None,
        typer.Option(
            "--machine",
            metavar="NAME[:ROLE]=HOW",
            show_default=False,
            help="Record this machine; HOW is local or ssh:DESTINATION (root's). Repeatable.",
        ),
    ] = None,
    workload_on: Annotated[
        str,
        typer.Option(
            "--workload-on",
            metavar="NAME",
            show_default=False,
            help="The machine that runs the command, else the first --machine.",
        ),
    ] = "",
    repeat: options.Repeat = 1,
    force: options.Force = False,
    pid: options.Pid = None,
    comm: options.Comm = None,
    cgroup: options.Cgroup = None,
    device: options.Device = None,
    everything: options.Everything = False,
    duration: options.Duration = 0,
    user: options.User = None,
    detail: options.Detail = False,
    why: options.Why = False,
    who: options.RecordWho = False,
    op: options.RecordOp = options.Operations.SYNC,
    packets: options.Packets = None,
    no_names: options.NoNames = False,
    compress: options.Compress = False,
    ping: options.Ping = False,
    stats: options.Stats = False,
    buffer: options.Buffer = 0,
    quiet: options.Quiet = False,
) -> int:
    """Record one machine or several into a directory, for replay.

    As `iostrata run`, without the analysis. A recording can be copied to any
    machine and analysed there without root.

    \b
      sudo iostrata record -o /var/tmp/db --comm postgres --duration 10
      iostrata replay /var/tmp/db

    Several machines that a write crosses are recorded together: the command (or
    filter) is for one of them; of the others, what they do for it is recorded:
    QEMU's threads, the kernel's NFS server. The recorder is copied to them by
    ssh, with your configuration and keys, and removed at the end. ROLE is guest,
    host or server (a machine so named needs none), or local.

    \b
      sudo iostrata record -o /var/tmp/vm \\
        --machine guest=ssh:root@vm1 --machine host=local \\
        --machine nas:server=ssh:root@nas --workload-on guest -- fio job.fio

    --op read records every read of a file as well, on every machine: that costs
    more, as programs read much. --op direct records those with O_DIRECT only.

    \b
      sudo iostrata record -o /var/tmp/db --op read -- fio job.fio
      iostrata replay /var/tmp/db --op read

    --compress writes a seventh of the bytes, as cpu_N.zst. All of iostrata reads
    it; for others, `zstd -d --rm DIR/*/cpu_*.zst` makes the plain files of it.

    --packets 2049 tells which part of the way between two machines took its
    time, by the packets of NFS: the client, a guest's virtual network card, a
    machine between the two (record it, too), the wire, or the server. It looks
    at every packet that these machines send and receive.

    One recording says nothing of how the next would differ. --repeat makes
    several, each from the recorder's start to its end, and ends with the first
    that fails:

    \b
      sudo iostrata record -o before --repeat 5 -- fio job.fio
      sudo iostrata record -o after --repeat 5 -- fio job.fio
      iostrata compare before after
    """
    request = Request(
        directory=output,
        command=tuple(command or ()),
        target=target(pid, comm, cgroup, device, everything),
        user=user,
        detail=detail,
        why=why,
        who=who,
        names=not no_names,
        compress=compress,
        stats=stats,
        duration_s=duration,
        buffer_kib=buffer,
        op=op.value,
        packets=tuple(packets or ()),
    )
    if workload_on and not machine:
        raise UsageError("--workload-on is for several machines", "name them with --machine")
    several = plan(request, machine, workload_on) if machine else None
    request = checked_plan(several) if several else checked(request)
    if repeat == 1:
        older = replaces(output, force)
        return _record(request, machine or (), workload_on, quiet, ping, older)
    with closing(series_of(request, output, repeat, force, quiet)) as runs:
        for own, older in runs:
            if status := _record(own, machine or (), workload_on, quiet, ping, older):
                return status
    Story(quiet).say(f"to compare it with others: iostrata compare {output} OTHER")
    return 0


def _record(
    request: Request,
    machines: Sequence[str],
    workload_on: str,
    quiet: bool,
    ping: bool,
    older: Sequence[Path] = (),
) -> int:
    with Story(quiet, alone=not request.command, limit_s=request.duration_s) as story:
        if machines:
            outcome = capture_machines(plan(request, machines, workload_on), story, ping, older)
        else:
            outcome = capture(request, story, ping, older)
        story.say(f"to analyse it: iostrata replay {request.directory}")
    return failed(outcome)
