# SPDX-License-Identifier: Apache-2.0
"""iostrata bench: pg_test_fsync's methods, each with its layers."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

import iostrata
from iostrata.bench import lines, measure, render, summarise_tests, test_file
from iostrata.cli import options
from iostrata.cli.capture import capture, check, failed, temporary
from iostrata.cli.output import put
from iostrata.cli.present import STDOUT, terminal_width
from iostrata.cli.story import Story
from iostrata.errors import STATUS_LOSSES, NothingToAnalyse, RecorderError
from iostrata.model import Summary
from iostrata.record import Answer, Interruption, Request, refusal
from iostrata.report import quality
from iostrata.workload import Phase, read_phases

PHASES: Final = "bench.jsonl"
DAY_S: Final = 86_400


def bench(
    seconds: Annotated[
        float,
        typer.Option(
            "--seconds", "-s", metavar="SECONDS", min=0.01, max=DAY_S, help="For each test."
        ),
    ] = 1,
    file: Annotated[
        Path, typer.Option("--file", "-f", metavar="FILE", help="What to write; always removed.")
    ] = Path("iostrata-bench.out"),
    record: Annotated[
        bool, typer.Option("--record/--no-record", help="Record, for the layers beside each row.")
    ] = True,
    output: options.Output = None,
    keep: options.Keep = False,
    force: options.Force = False,
    stats: options.Stats = False,
    json: options.JsonOnly = "",
    quiet: options.Quiet = False,
) -> int:
    """Time pg_test_fsync's methods, with each one's layers.

    Every way to write 8 or 16 kB synchronously, for some time each; as root,
    each is recorded, and the layers of an operation stand beside its time in us:

    \b
      cpu    in the system call and the file system, on the CPU
      journ  journal: waiting for its commit, its blocks on the device
      queue  block layer, until the device has the request
      data   the device writes data
      flush  the device flushes its cache
      wake   interrupt and run queue, until the program goes on
      net    on NFS: call sent until the reply
      other  the program's own time, other calls, unattributed

    \b
      sudo iostrata bench -f /mnt/new-disk/test.out
    """
    story = Story(quiet)
    if record and (refused := refusal()):
        story.say(f"no layers: {refused.why}")
        record = False
    with test_file(file) as path:
        if not record:
            with temporary(story, keep=False) as directory:
                return _plain(path, seconds, directory, json)
        if output:
            check(output, force)
            return _recorded(path, seconds, Request(output, stats=stats), story, json)
        with temporary(story, keep) as directory:
            return _recorded(path, seconds, Request(directory, stats=stats), story, json)


def _plain(file: Path, seconds: float, directory: Path, json: str) -> int:
    with Interruption() as interruption:
        # The terminal's Ctrl-C reaches the workload, too, which ends in good order.
        interruption.answer = Answer.REMEMBER
        status = subprocess.run(_workload(file, seconds, directory), check=False).returncode
    if phases := read_phases(directory / PHASES):
        _print(phases, None, json)
    return status


def _recorded(file: Path, seconds: float, request: Request, story: Story, json: str) -> int:
    directory = request.directory
    outcome = capture(replace(request, command=_workload(file, seconds, directory)), story)
    phases = read_phases(directory / PHASES)
    if not phases:
        story.say("it was ended before its first test was")
        return failed(outcome) or RecorderError.status
    try:
        summary = summarise_tests(iostrata.open(directory).analyse(), phases)
    except NothingToAnalyse as error:
        story.say(f"no layers: {error}")
        summary = None
    _print(phases, summary, json)
    lossy = summary is not None and summary.quality.doubtful
    return failed(outcome) or (STATUS_LOSSES if lossy else 0)


def _workload(file: Path, seconds: float, directory: Path) -> tuple[str, ...]:
    """What lies in the current directory, which may be anybody's, is no part of it (-P)."""
    module = "iostrata.workload"
    return (sys.executable, "-P", "-m", module, str(file), str(seconds), str(directory / PHASES))


def _print(phases: list[Phase], summary: Summary | None, json: str) -> None:
    measurements = measure(phases, summary)
    if json == STDOUT:
        sys.stdout.write(render(measurements, summary))
        return
    put(json, render(measurements, summary))
    width = terminal_width()
    console = Console(file=sys.stdout, width=width, highlight=False, soft_wrap=True)
    for line in lines(measurements, width):
        console.print(line, markup=False)
    if summary:
        console.print()
        for statement in quality.lines(summary, width):
            console.print(statement)
