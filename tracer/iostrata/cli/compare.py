# SPDX-License-Identifier: Apache-2.0
"""iostrata compare: two recordings, layer by layer, with confidence."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from iostrata.analysis import analyse
from iostrata.attribute.compare import compare as compared
from iostrata.cli import options
from iostrata.cli.output import check_directory, put
from iostrata.cli.present import STDOUT, terminal_width
from iostrata.errors import STATUS_LOSSES, STATUS_REGRESSION, UsageError
from iostrata.model import Comparison
from iostrata.recording import open_recording
from iostrata.report import comparison, comparison_json


def compare(
    before: Annotated[Path, typer.Argument(metavar="A", help="The recording to compare with.")],
    after: Annotated[Path, typer.Argument(metavar="B", help="The recording to judge.")],
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
        typer.Option("--by", help="Compare each group by itself.", show_default=False),
    ] = None,
    json: options.JsonOnly = "",
) -> int:
    """Compare two recordings layer by layer, with confidence.

    Every change from A to B comes with its 99% confidence interval: 4000
    resamples of a block bootstrap, which draws stretches of neighbouring writes
    together, with a fixed seed, so that the answer is always the same. A change
    whose interval includes 0 is called noise. "of A" is the change as a part of
    A's mean total (for p50 and p99: of A's own), so the layers add up to it.

    A regression is a change for the worse that is no noise and above the limit:
    of the total, its p50 or p99, or what a layer adds to the total.

    The intervals know how writes vary within each recording, not how one run
    differs from the next: compare two recordings of the same thing first.

    \b
      iostrata compare before after
      iostrata compare before after --by method --fail-above 10%
      iostrata compare before after --json - | jq .regressions
    """
    check_directory(json)
    limit = _limit(fail_above)
    breakdown = analyse(open_recording(before))
    result = compared(breakdown, analyse(open_recording(after)), by.value if by else "", limit)
    _check_common(result)
    if json == STDOUT:
        sys.stdout.write(comparison_json.render(result))
    else:
        put(json, comparison_json.render(result))
        width = terminal_width()
        console = Console(file=sys.stdout, width=width, highlight=False, soft_wrap=True)
        names = comparison.Names(str(before), str(after))
        console.print(comparison.render(result, names, width), end="")
    if result.regressions:
        return STATUS_REGRESSION
    qualities = (result.quality_a, result.quality_b)
    return STATUS_LOSSES if any(one.doubtful for one in qualities) else 0


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
            f"the two recordings have no {by} in common (A: {only[0]}; B: {only[1]})",
            "leave --by out, or group by something else",
        )
