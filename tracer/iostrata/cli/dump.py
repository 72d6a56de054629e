# SPDX-License-Identifier: Apache-2.0
"""iostrata dump: a recording's events as text."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from iostrata.cli import options
from iostrata.cli.story import complain
from iostrata.errors import STATUS_LOSSES, UsageError
from iostrata.recording import open_recording
from iostrata.trace import Trace, layout, tells_of
from iostrata.trace import dump as lines_of


def dump(
    recording: options.Recording,
    point: Annotated[
        list[str] | None,
        typer.Option("--point", metavar="NAME", help="Only events of this point."),
    ] = None,
    tid: Annotated[
        list[int] | None,
        typer.Option("--tid", metavar="TID", min=0, help="Only events of this thread."),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option("--limit", metavar="N", min=0, help="At most this many, of each machine."),
    ] = None,
) -> int:
    """Print a recording's events, one line each.

    In order of time, with the points' and fields' own names.

    \b
      iostrata dump /var/tmp/db | less
      iostrata dump /var/tmp/db --point block_rq_issue --point block_rq_complete
    """
    for name in point or ():
        if name not in layout.POINTS:
            raise UsageError(f"there is no point {name}", f"one of {', '.join(layout.POINTS)}")
    traces = open_recording(recording).traces()
    for one in tid or ():
        if not any(tells_of(trace, one) for trace in traces):
            raise UsageError(
                f"no event is of thread {one}",
                "`iostrata dump DIR --point thread` has whom there is something of, as subject_tid",
            )
    status = 0
    for trace in traces:
        for line in lines_of(trace, points=point, tids=tid, limit=limit):
            sys.stdout.write(f"{line}\n")
        status = _defects(trace) or status
    return status


def _defects(trace: Trace) -> int:
    for defect in trace.damage:
        complain(defect)
    for point, count in trace.lost_by_point.items():
        if count:
            complain(f"{count} events lost: {trace.machine}:{point}")
    return STATUS_LOSSES if trace.damage or any(trace.lost_by_point.values()) else 0
