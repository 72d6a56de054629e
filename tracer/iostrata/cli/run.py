# SPDX-License-Identifier: Apache-2.0
"""iostrata run: record this machine, print the table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from iostrata.cli import options
from iostrata.cli.capture import capture, checked, failed, prepare, target, temporary
from iostrata.cli.present import Wishes, present
from iostrata.cli.story import Story, complain
from iostrata.errors import NothingToAnalyse
from iostrata.record import Request


def run(
    command: options.Command = None,
    output: options.Output = None,
    keep: options.Keep = False,
    force: options.Force = False,
    pid: options.Pid = None,
    comm: options.Comm = None,
    cgroup: options.Cgroup = None,
    device: options.Device = None,
    everything: options.Everything = False,
    duration: options.Duration = 0,
    user: options.User = "",
    detail: options.Detail = False,
    why: options.Why = False,
    no_names: options.NoNames = False,
    ping: options.Ping = False,
    stats: options.Stats = True,
    buffer: options.Buffer = 0,
    by: options.Grouping = None,
    tail: options.Tail = False,
    who: options.Who = False,
    histogram: options.Histogram = False,
    over_time: options.OverTime = False,
    json: options.Json = "",
    csv: options.Csv = "",
    quiet: options.Quiet = False,
) -> int:
    """Record this machine, print where its writes spent their time.

    Only the command and its children are recorded, and what the kernel does on
    their behalf. Without a command, a filter says what to record; Ctrl-C or
    --duration ends it. The recording is temporary unless -o or --keep is given.
    The exit status is the command's when it fails.

    \b
      sudo iostrata run -- pg_test_fsync -s 1
      sudo iostrata run --by size -- fio job.fio
      sudo iostrata run --comm postgres --duration 10 --by directory
      sudo iostrata run --comm postgres --duration 10 --json out.json
    """
    wishes = Wishes(by.value if by else "", json, csv, tail, who, histogram, over_time)
    request = Request(
        directory=Path(),
        command=tuple(command or ()),
        target=target(pid, comm, cgroup, device, everything),
        user=user,
        detail=detail,
        why=why,
        who=who,
        names=not no_names,
        stats=stats,
        duration_s=duration,
        buffer_kib=buffer,
    )
    request = checked(request)
    with Story(quiet, alone=not command, limit_s=duration) as story:
        if output:
            prepare(output, force)
            return _run(request, output, story, wishes, ping)
        with temporary(story, keep) as directory:
            return _run(request, directory, story, wishes, ping)


def _run(request: Request, directory: Path, story: Story, wishes: Wishes, ping: bool) -> int:
    outcome = capture(replace(request, directory=directory), story, ping)
    story.stop()
    try:
        status = present(directory, wishes)
    except NothingToAnalyse as error:
        if not failed(outcome):
            raise
        complain(str(error), error.hint)
        status = 0
    return failed(outcome) or status
