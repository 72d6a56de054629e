# SPDX-License-Identifier: Apache-2.0
"""A recording in, its reports out: the table on standard output, others where asked for."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

import iostrata
from iostrata.attribute import ALL, Wanted, chosen, summarise
from iostrata.cli.output import check_directory, put
from iostrata.errors import STATUS_LOSSES, UsageError
from iostrata.model import Summary
from iostrata.report import REPORTS, table

STDOUT: Final = "-"
WIDEST: Final = 120


@dataclass(frozen=True)
class Wishes:
    """Which reports to write where: a file, ``-`` for standard output, or nothing."""

    by: str = "method"
    json: str = ""
    csv: str = ""
    tail: bool = False
    who: bool = False
    wanted: Wanted = ALL

    def __post_init__(self) -> None:
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
    breakdown = chosen(iostrata.open(recording).analyse(), wishes.wanted)
    return write(summarise(breakdown, wishes.by), wishes)


def write(summary: Summary, wishes: Wishes) -> int:
    """The table is printed even where a file cannot be written."""
    try:
        _write_files(summary, wishes)
    finally:
        if wishes.table:
            print_table(summary, wishes.tail, wishes.who)
    return STATUS_LOSSES if summary.quality.doubtful else 0


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
