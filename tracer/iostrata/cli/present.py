# SPDX-License-Identifier: Apache-2.0
"""A recording in, its reports out: the table on standard output, others where asked for."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from dataclasses import replace as replace_wishes
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from msgspec.structs import replace
from rich.console import Console

from iostrata.attribute import ALL, Wanted, chosen, histogram, over_time, regrouped, summarise
from iostrata.cli.output import check_directory, put
from iostrata.cli.story import Story, complain
from iostrata.crew import cpus
from iostrata.errors import STATUS_LOSSES, NothingToAnalyse, UsageError
from iostrata.model import Bin, Breakdown, Op, OverTime, Summary
from iostrata.recording import Recording, open_recording
from iostrata.report import REPORTS, spread, table
from iostrata.shelf import analysed, answered, known

if TYPE_CHECKING:
    from iostrata.analysis import Prepared

T = TypeVar("T")
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
    asked = _Asked(open_recording(recording), Op(wishes.op), wishes)
    return _show(asked, asked.summary())


def _present_each(recording: Path, wishes: Wishes) -> int:
    """A table of each kind that there is; of what there is none of, a line says why."""
    statuses: list[int] = []
    missing: list[NothingToAnalyse] = []
    for op in Op:
        only_of_reads = wishes.by == "served" and op is Op.SYNC
        own = replace_wishes(wishes, op=op.value, by="" if only_of_reads else wishes.by)
        asked = _Asked(open_recording(recording), op, own)
        try:
            summary = asked.summary()
        except NothingToAnalyse as none:
            missing.append(none)
            continue
        if statuses:
            sys.stdout.write("\n")
        statuses.append(_show(asked, summary))
    if not statuses:
        raise missing[0]
    for one in missing:
        complain(str(one), one.hint)
    return max(statuses)


@dataclass(eq=False)
class _Asked:
    """What is asked of a recording: what was answered before needs no Breakdown of it."""

    recording: Recording
    op: Op
    wishes: Wishes

    def summary(self) -> Summary:
        summary = self._answered(self._by(self.wishes.by), Summary, self._summary)
        if not self.wishes.histogram:
            return summary
        question = f"histogram {self.wishes.wanted!r}"
        bins = self._answered(question, tuple[Bin, ...], lambda: histogram(self._breakdown))
        return replace(summary, histogram=bins)

    def over_time(self, intervals: int) -> OverTime:
        question = f"over time {self.wishes.wanted!r} {intervals}"
        return self._answered(question, OverTime, lambda: over_time(self._breakdown, intervals))

    def _answered(self, question: str, kind: type[T], ask: Callable[[], T]) -> T:
        return answered(self.recording, self.op, question, kind, ask, self.wishes.cached)

    def _by(self, by: str) -> str:
        return f"summary {by!r} {self.wishes.wanted!r}"

    def _summary(self) -> Summary:
        by = self.wishes.by
        other = known(self.recording, self.op, self._by(""), Summary) if by else None
        if other and self.wishes.cached:
            return regrouped(other, self._breakdown, by)
        return summarise(self._breakdown, by, self.wishes.jobs)

    @cached_property
    def _breakdown(self) -> Breakdown:
        found = told(self.recording, self.op, self.wishes.jobs, self.wishes.cached)
        return chosen(found, self.wishes.wanted)


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
    story = Story(quiet, alone=True)
    try:
        return analysed(recording, op, jobs, cached, story.analysed, found)
    finally:
        story.stop()


def _show(asked: _Asked, summary: Summary) -> int:
    wishes = asked.wishes
    # The table is printed even where a file cannot be written.
    try:
        if wishes.json or wishes.csv:
            _write_files(_with_course(asked, summary, table.WIDTH), wishes)
    finally:
        if wishes.table:
            shown = _with_course(asked, summary, terminal_width())
            print_table(shown, wishes.tail, wishes.who)
    return STATUS_LOSSES if summary.quality.doubtful else 0


def _with_course(asked: _Asked, summary: Summary, width: int) -> Summary:
    """In as many stretches of time as there is room for; a file is the same on any terminal."""
    if not asked.wishes.over_time:
        return summary
    return replace(summary, over_time=asked.over_time(spread.intervals(width)))


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
