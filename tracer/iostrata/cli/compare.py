# SPDX-License-Identifier: Apache-2.0
"""iostrata compare: runs of two sides, layer by layer, with confidence."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from iostrata.attribute import FEWEST_RUNS, Run, Wanted, chosen, run_of
from iostrata.attribute import compare as compared
from iostrata.cli import filters, options
from iostrata.cli.output import check_directory, put
from iostrata.cli.present import STDOUT, terminal_width, told
from iostrata.cli.sides import sides
from iostrata.crew import apart
from iostrata.errors import STATUS_LOSSES, STATUS_REGRESSION, NothingToAnalyse, UsageError
from iostrata.foreign import shown
from iostrata.model import Comparison, Op
from iostrata.recording import open_recording
from iostrata.report import comparison, comparison_json
from iostrata.shelf import answered, bytes_of, known

MOST_BYTES: Final = 2 << 30
"""Recordings of so much together are analysed at once: what each needs is less."""


def compare(
    recordings: Annotated[
        list[str],
        typer.Argument(
            metavar="A... [--] B...",
            help="Recordings to compare with, those to judge; a directory of recordings "
            "is all of them. -- between the sides, unless each is one name.",
        ),
    ],
    fail_above: Annotated[
        str,
        typer.Option(
            "--fail-above",
            metavar="PERCENT",
            show_default=False,
            help="Exit with status 9 for a regression above this: 10%.",
        ),
    ] = "",
    by: Annotated[
        options.By | None,
        typer.Option(
            "--by",
            metavar="WHAT",
            help=f"Compare each group by itself: {options.GROUPS}.",
            show_default=False,
        ),
    ] = None,
    since: filters.Since = "",
    until: filters.Until = "",
    process: filters.Process = None,
    to_file: filters.File = None,
    slower_than: filters.SlowerThan = "",
    op: options.OneOp = options.Operations.SYNC,
    json: options.JsonOnly = "",
    jobs: options.Jobs = 0,
    no_cache: options.NoCache = False,
) -> int:
    """Compare runs of two sides, layer by layer, with confidence.

    Give several runs of each side, five if you can: `iostrata record --repeat 5`
    makes them. Figures are means over a side's runs, and every change from A to B
    comes with its confidence interval, from how runs of one side differ among
    themselves. All intervals of the table hold together in 95% of comparisons,
    so of two sides that are alike, not one line in all of the table is called
    slower or faster more often than in 5%.

    A change whose interval includes 0 is noise where it is small all the same,
    and unclear where it may be large. "of A" is the change as a part of A's mean
    total (for p50 and p99: of A's own), so the layers add up to it. The line
    "detectable" says which changes so many runs find in 4 of 5 cases.

    If one side was recorded after the other, what drifted meanwhile is in the
    change, too: intervals are wider then, so that it is not taken for one. Runs
    by turns need no such allowance, and find smaller changes:

    \b
      for n in 1 2 3 4 5; do
        sudo iostrata record -o before/$n -- ./old
        sudo iostrata record -o after/$n -- ./new
      done; iostrata compare before after

    With one run a side there is no verdict: writes of one run have their disk,
    their neighbours and their minute in common, so how the next run would
    differ is not known. The intervals are then of what varies within the two.

    Of reads (--op read) it says beside the layers what served them, A and B side
    by side.

    A regression is a change for the worse that is proven, and above the limit:
    of the total, its p50 or p99, or what a layer adds to the total.

    \b
      iostrata compare before after
      iostrata compare before/1 before/2 before/3 -- after/*
      iostrata compare before after --op read
      iostrata compare before after --by method --fail-above 10%
      iostrata compare before after --json - | jq .regressions
    """
    check_directory(json)
    limit = _limit(fail_above)
    of_a, of_b = sides(recordings)
    wanted = filters.wanted(since, until, process, to_file, slower_than)
    if limit is not None and min(len(of_a), len(of_b)) < FEWEST_RUNS:
        raise UsageError(
            "--fail-above needs several runs of each side: one cannot tell a change from chance",
            "record them with --repeat 5, or leave --fail-above out",
        )
    group = by.value if by else ""
    wish = _Wish(group, wanted, Op(op.value), jobs, not no_cache)
    runs = _runs([*of_a, *of_b], wish)
    a, b = runs[: len(of_a)], runs[len(of_a) :]
    result = compared(a, b, group, limit)
    _check_common(result)
    if json == STDOUT:
        sys.stdout.write(comparison_json.render(result))
    else:
        put(json, comparison_json.render(result))
        width = terminal_width()
        console = Console(file=sys.stdout, width=width, highlight=False, soft_wrap=True)
        names = comparison.Names(*([shown(str(path)) for path in side] for side in (of_a, of_b)))
        console.print(comparison.render(result, names, width), end="")
    if result.regressions:
        return STATUS_REGRESSION
    qualities = (*result.quality_a, *result.quality_b)
    return STATUS_LOSSES if any(one.doubtful for one in qualities) else 0


@dataclass(frozen=True)
class _Wish:
    """What is asked of each recording. ``teller``: the process that says how far it is."""

    by: str
    wanted: Wanted
    op: Op
    jobs: int
    cached: bool
    teller: int = field(default_factory=os.getpid)

    @property
    def question(self) -> str:
        return f"run {self.by!r} {self.wanted!r}"


def _runs(paths: Sequence[Path], wish: _Wish) -> list[Run]:
    """Several at once, each by a process of its own, as far as there is room for them."""
    opened = [open_recording(path) for path in paths]
    new = [
        one for one in opened if not wish.cached or known(one, wish.op, wish.question, Run) is None
    ]
    room = MOST_BYTES // max([1, *map(bytes_of, new)])
    at_once = max(min(wish.jobs, len(new), room), 1)
    if at_once > 1:
        # Else each of them would load it.
        import_module("iostrata.analysis")
    share = replace(wish, jobs=max(wish.jobs // at_once, 1))
    return list(apart(lambda path: _run(path, share), paths, at_once))


def _run(path: Path, wish: _Wish) -> Run:
    """Only figures are kept of each: many runs need hardly more memory than a few."""
    recording = open_recording(path)

    def run() -> Run:
        try:
            quiet = os.getpid() != wish.teller
            found = told(recording, wish.op, wish.jobs, wish.cached, quiet)
        except NothingToAnalyse as none:
            raise NothingToAnalyse(f"{path}: {none}", none.hint) from none
        return run_of(chosen(found, wish.wanted), wish.by, recording.created)

    found = answered(recording, wish.op, wish.question, Run, run, wish.cached)
    return replace(found, place=str(path.resolve()))


def _limit(text: str) -> float | None:
    if not text:
        return None
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        percent = -1.0
    if not 0 <= percent < float("inf"):
        raise UsageError(f"--fail-above {text}: that is no percentage", "--fail-above 10%")
    return percent / 100


def _check_common(result: Comparison) -> None:
    if not result.groups:
        by = result.grouped_by
        only = [", ".join(names) for names in (result.only_a, result.only_b)]
        raise UsageError(
            f"the two sides have no {by} in common (A: {only[0]}; B: {only[1]})",
            "leave --by out, or group by something else",
        )
