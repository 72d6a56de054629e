# SPDX-License-Identifier: Apache-2.0
"""iostrata run: record this machine, print the table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console

import iostrata
from iostrata.attribute import Run, run_of, series
from iostrata.cli import options
from iostrata.cli.capture import (
    capture,
    checked,
    failed,
    replaces,
    series_of,
    target,
    temporary,
)
from iostrata.cli.present import EACH, Wishes, present, terminal_width
from iostrata.cli.story import Story, complain
from iostrata.errors import STATUS_LOSSES, NothingToAnalyse, UsageError
from iostrata.model import Op
from iostrata.record import Request
from iostrata.report import series as series_report


def run(
    command: options.Command = None,
    output: options.Output = None,
    keep: options.Keep = False,
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
    op: options.RunOp = options.Operations.SYNC,
    no_names: options.NoNames = False,
    compress: options.Compress = False,
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

    With --op read the table is of the reads instead: what they waited for, and
    how many of them the page cache, readahead and the device served. With --op
    direct it is of what is read and written with O_DIRECT, by whatever engine.

    \b
      sudo iostrata run --op read --by served -- fio job.fio

    One recording says nothing of how the next would differ. --repeat makes
    several and prints one table of them all: of each row the mean, the interval
    that holds the mean of all such runs, the least and the most of them. With -o
    they are kept side by side, as `iostrata record --repeat` leaves them:

    \b
      sudo iostrata run --repeat 5 -o before -- fio job.fio
      sudo iostrata run --repeat 5 -o after -- fio job.fio
      iostrata compare before after
    """
    wishes = Wishes(by.value if by else "", json, csv, tail, who, histogram, over_time, op=op.value)
    request = Request(
        directory=Path(),
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
    )
    request = checked(request)
    if repeat > 1:
        _check_series(wishes)
        return _series(request, Runs(repeat, output, keep, force, quiet, ping), wishes.by)
    with Story(quiet, alone=not command, limit_s=duration) as story:
        if output:
            request = replace(request, directory=output)
            return _run(request, story, wishes, ping, replaces(output, force))
        with temporary(story, keep) as directory:
            return _run(replace(request, directory=directory), story, wishes, ping)


@dataclass(frozen=True)
class Runs:
    """How many, where, and how they are told of."""

    count: int
    output: Path | None
    keep: bool
    force: bool
    quiet: bool
    ping: bool


def _check_series(wishes: Wishes) -> None:
    if wishes.op == EACH:
        raise UsageError(
            "--repeat prints one table of all runs, of one kind", "give --op sync, read or direct"
        )
    if replace(wishes, by="", op=Op.SYNC.value) != Wishes(""):
        raise UsageError(
            "--repeat prints one table of all runs, and of other reports --by only",
            "give -o DIR, then ask each run by `iostrata replay DIR/1`",
        )


def _series(request: Request, runs: Runs, by: str) -> int:
    """One run after the other; the first that fails is the last."""
    story = Story(runs.quiet)
    with ExitStack() as stack:
        place = nullcontext(runs.output) if runs.output else temporary(story, runs.keep)
        directory = stack.enter_context(place)
        found: list[Run] = []
        several = series_of(request, directory, runs.count, runs.force, runs.quiet)
        for own, older in stack.enter_context(closing(several)):
            alone, limit = not request.command, request.duration_s
            with Story(runs.quiet, alone=alone, limit_s=limit) as running:
                outcome = capture(own, running, runs.ping, older)
            if status := failed(outcome):
                return status
            recording = iostrata.open(own.directory)
            found.append(run_of(recording.analyse(request.op), by, recording.created))
        result = series(found)
        if not result.groups:
            word = result.op.word
            raise NothingToAnalyse(f"no group of {word}s is in every run", "leave --by out")
        width = terminal_width()
        console = Console(file=sys.stdout, width=width, highlight=False, soft_wrap=True)
        console.print(series_report.render(result, width), end="")
        if runs.output:
            story.say(f"to compare it with others: iostrata compare {directory} OTHER")
    return STATUS_LOSSES if any(one.doubtful for one in result.quality) else 0


def _run(
    request: Request, story: Story, wishes: Wishes, ping: bool, older: Sequence[Path] = ()
) -> int:
    outcome = capture(request, story, ping, older)
    story.stop()
    try:
        status = present(request.directory, wishes)
    except NothingToAnalyse as error:
        if not failed(outcome):
            raise
        complain(str(error), error.hint)
        status = 0
    return failed(outcome) or status
