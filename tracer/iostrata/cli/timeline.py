# SPDX-License-Identifier: Apache-2.0
"""iostrata timeline: single writes, instant by instant."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console

from iostrata.attribute import Choice, percentile
from iostrata.cli import filters, options
from iostrata.cli.output import check_directory, put
from iostrata.cli.present import STDOUT, has_blocks, terminal_width
from iostrata.errors import STATUS_LOSSES, UsageError
from iostrata.model import Op, Seen
from iostrata.recording import open_recording
from iostrata.report import timeline_json, waterfall
from iostrata.shelf import answered


def timeline(
    recording: options.Recording,
    slowest: Annotated[
        int | None,
        typer.Option("--slowest", metavar="N", min=1, help="The N slowest writes."),
    ] = None,
    near: Annotated[
        list[str] | None,
        typer.Option("--near", metavar="P", help="The write at this percentile: p50, p99.9, max."),
    ] = None,
    number: Annotated[
        list[int] | None,
        typer.Option("--id", metavar="K", help="The K-th write of the recording, from 1."),
    ] = None,
    by: Annotated[
        options.By | None,
        typer.Option(
            "--by",
            metavar="WHAT",
            help=f"Choose from each group by itself: {options.GROUPS}.",
            show_default=False,
        ),
    ] = None,
    since: filters.Since = "",
    until: filters.Until = "",
    process: filters.Process = None,
    to_file: filters.File = None,
    slower_than: filters.SlowerThan = "",
    op: options.OneOp = options.Operations.SYNC,
    steps: Annotated[
        int,
        typer.Option("--steps", metavar="N", min=0, help="List the N longest steps of each."),
    ] = waterfall.STEPS,
    json: options.JsonOnly = "",
    no_cache: options.NoCache = False,
) -> int:
    """Show single writes as waterfalls.

    By default the median write, the one at p99, and the slowest. Each layer has
    a strip, on which time goes from left to right: the higher a character, the
    more of its time the layer held. Below are the steps in order of time, and
    what was behind each: size at disk:sector or at an offset in the file, rq =
    the kernel's request pointer (as in iostrata dump), transaction = the
    journal's, xid and ports = of a remote call, unique = of a file system's
    request of its daemon (FUSE). Between two machines: by which hop, and how
    far their clocks may be off. The caller's own time between the calls of a
    write is cut out of the strips.

    \b
      iostrata timeline /var/tmp/db
      iostrata timeline /var/tmp/db --slowest 5 --steps 0
      iostrata timeline /var/tmp/db --near p99 --by method
      iostrata timeline /var/tmp/db --process postgres --from 30s --to 35s
      iostrata timeline /var/tmp/db --op read --slowest 3
      iostrata timeline /var/tmp/db --id 4711 --json - | jq .writes
    """
    check_directory(json)
    if by is options.By.SERVED:
        raise UsageError(
            "--by served: what served a read is known only once it was looked at by itself",
            "choose by another --by: each read that is shown says what served it",
        )
    wanted = filters.wanted(since, until, process, to_file, slower_than)
    percentiles = tuple(percentile(text) for text in near or ())
    if not (slowest or percentiles or number):
        slowest, percentiles = 1, (50.0, 99.0)
    choice = Choice(slowest or 0, percentiles, tuple(number or ()), by.value if by else "")
    opened, kind = open_recording(recording), Op(op.value)

    def looked() -> Seen:
        # Which is not loaded for what is known.
        from iostrata.analysis import timelines  # noqa: PLC0415

        return timelines(opened, choice, wanted, kind)

    question = f"timelines {choice!r} {wanted!r}"
    seen = answered(opened, kind, question, Seen, looked, not no_cache)
    if json == STDOUT:
        sys.stdout.write(timeline_json.render(seen.timelines, seen.quality))
    else:
        put(json, timeline_json.render(seen.timelines, seen.quality))
        width = terminal_width()
        console = Console(file=sys.stdout, width=width, highlight=False, soft_wrap=True)
        shown = waterfall.render(seen.timelines, seen.quality, width, has_blocks(), steps)
        console.print(shown, end="")
    return STATUS_LOSSES if seen.quality.doubtful else 0
