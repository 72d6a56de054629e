# SPDX-License-Identifier: Apache-2.0
"""A recording in, its reports out: the table on standard output, others where asked for."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from dataclasses import replace as replace_wishes
from pathlib import Path
from typing import Final

from msgspec.structs import replace
from rich.console import Console

from iostrata.analysis import Prepared, SoFar, analysed, summed_up
from iostrata.attribute import ALL, Wanted, chosen, histogram, over_time, summarise
from iostrata.cli.output import check_directory, put
from iostrata.cli.story import Story, complain
from iostrata.crew import cpus
from iostrata.errors import STATUS_LOSSES, NothingToAnalyse, UsageError
from iostrata.model import Breakdown, Op, Summary
from iostrata.recording import Recording, open_recording
from iostrata.report import REPORTS, spread, table

STDOUT: Final = "-"
EACH: Final = "all"
WIDEST: Final = 120


@dataclass(frozen=True)
class Wishes:
    """Which reports to write where: a file, ``-`` for standard output, or nothing."""

    by: str = "method"
    json: str = ""
    csv: str = ""
    tail: bool = False
    who: bool = False
    histogram: bool = False
    over_time: bool = False
    wanted: Wanted = ALL
    op: str = Op.SYNC.value
    jobs: int = field(default_factory=cpus)
    cached: bool = True

    def __post_init__(self) -> None:
        if self.op == EACH and (self.json or self.csv):
            raise UsageError(
                "--json and --csv are of one kind: --op all prints a table of each",
                "give --op sync, read or direct",
            )
        if self.json and self.json == self.csv != STDOUT:
            raise UsageError("--json and --csv cannot both be in one file", "give each its own")
        if self.json == self.csv == STDOUT:
            raise UsageError(
                "--json and --csv cannot both have standard output", "give one of them a file"
            )
        for name in (self.json, self.csv):
            check_directory(name)

    @property
    def table(self) -> bool:
        return STDOUT not in (self.json, self.csv)


def present(recording: Path, wishes: Wishes) -> int:
    """Analyses and reports; the exit status says whether anything was lost."""
    if wishes.op == EACH:
        return _present_each(recording, wishes)
    return _show(_found(recording, wishes), wishes)


def _present_each(recording: Path, wishes: Wishes) -> int:
    """A table of each kind that there is; of what there is none of, a line says why."""
    statuses: list[int] = []
    missing: list[NothingToAnalyse] = []
    for op in Op:
        only_of_reads = wishes.by == "served" and op is Op.SYNC
        own = replace_wishes(wishes, op=op.value, by="" if only_of_reads else wishes.by)
        try:
            found = _found(recording, own)
        except NothingToAnalyse as none:
            missing.append(none)
            continue
        if statuses:
            sys.stdout.write("\n")
        statuses.append(_show(found, own))
    if not statuses:
        raise missing[0]
    for one in missing:
        complain(str(one), one.hint)
    return max(statuses)


@dataclass(frozen=True, eq=False)
class _Found:
    """``breakdown``: where more is shown of it than the summary says."""

    summary: Summary
    breakdown: Breakdown | None = None


def _found(recording: Path, wishes: Wishes) -> _Found:
    opened, op = open_recording(recording), Op(wishes.op)
    if wishes.wanted == ALL and not (wishes.histogram or wishes.over_time):
        with _heard() as heard:
            return _Found(summed_up(opened, wishes.by, op, wishes.jobs, wishes.cached, heard))
    breakdown = chosen(told(opened, op, wishes.jobs, wishes.cached), wishes.wanted)
    summary = summarise(breakdown, wishes.by, wishes.jobs)
    if wishes.histogram:
        summary = replace(summary, histogram=histogram(breakdown))
    return _Found(summary, breakdown)


def told(
    recording: Recording,
    op: Op,
    jobs: int,
    cached: bool,
    quiet: bool = False,
    found: Prepared | None = None,
) -> Breakdown:
    """What a recording came to; how far it is until then is shown on a terminal.

    ``found``: what is known of it already.
    """
    with _heard(quiet) as heard:
        return analysed(recording, op, jobs, cached, heard, found)


@contextmanager
def _heard(quiet: bool = False) -> Iterator[Callable[[SoFar], None]]:
    """Whom to tell how far an analysis is."""
    story = Story(quiet, alone=True)
    try:
        yield story.analysed
    finally:
        story.stop()


def _show(found: _Found, wishes: Wishes) -> int:
    # The table is printed even where a file cannot be written.
    try:
        _write_files(_with_course(found, wishes, table.WIDTH), wishes)
    finally:
        if wishes.table:
            shown = _with_course(found, wishes, terminal_width())
            print_table(shown, wishes.tail, wishes.who)
    return STATUS_LOSSES if found.summary.quality.doubtful else 0


def _with_course(found: _Found, wishes: Wishes, width: int) -> Summary:
    """In as many stretches of time as there is room for; a file is the same on any terminal."""
    if found.breakdown is None or not wishes.over_time:
        return found.summary
    return replace(found.summary, over_time=over_time(found.breakdown, spread.intervals(width)))


def _write_files(summary: Summary, wishes: Wishes) -> None:
    files = {"json": wishes.json, "csv": wishes.csv}
    for report in REPORTS:
        name = files.get(report.name)
        if name == STDOUT:
            sys.stdout.write(report.render(summary))
        elif name:
            put(name, report.render(summary))


def print_table(summary: Summary, with_tail: bool = False, with_who: bool = False) -> None:
    """In the terminal's width and colours; 80 columns without colour anywhere else."""
    width = terminal_width()
    console = Console(file=sys.stdout, width=width, highlight=False, soft_wrap=True)
    console.print(table.render(summary, width, has_blocks(), with_tail, with_who), end="")


def terminal_width() -> int:
    if not sys.stdout.isatty():
        return table.WIDTH
    return min(shutil.get_terminal_size().columns, WIDEST)


def has_blocks() -> bool:
    try:
        "█▏".encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
