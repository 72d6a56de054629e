# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: who waits for a worker that is at something else in, what that waits for out.

Writes to the page cache of one file have one worker of io_uring after the other (it hashes them):
while it sleeps for one, all behind it wait for the disk as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from iostrata.columns import Ints, one_of, order_of, outside, overlapping
from iostrata.layers import STACK, Depth
from iostrata.stitch.runs import Runs
from iostrata.stitch.spans import NO_SPANS, Edges, Spans, follow
from iostrata.stitch.wakeup import Sleeps

MOST_SLEEPS: Final = 64
"""So many of a worker's sleeps are followed at each end of a wait: each takes room.

Those between, in queues deeper than that, are told as the worker's.
"""
# Of each rank: what a sleeper may sleep for.
WAITED_FOR: Final = np.array([rank.depth > Depth.ASLEEP for rank in STACK])


@dataclass(frozen=True, eq=False)
class Handed:
    """Pieces that waited for a worker (``tid``), one row each time: ``since_ns`` until it began."""

    piece: Ints
    tid: Ints
    since_ns: Ints
    begin_ns: Ints


@dataclass(frozen=True, eq=False)
class _Asleep:
    """When workers slept at a piece: one row each time; ``story``: what for (``owner``: which)."""

    tid: Ints
    begin_ns: Ints
    end_ns: Ints
    piece: Ints
    story: Spans


def followed(
    handed: Handed, until_ns: Ints, runs: Runs, sleeps: Sleeps, spans: Spans
) -> tuple[Spans, tuple[Ints, Ints, Ints]]:
    """What the pieces waited for through their workers (``spans``: of all pieces); and what is left
    of their waits up to ``until_ns`` (row, from when to when): the worker had or wanted a CPU.
    """
    asleep = _asleep(_in_the_way(handed, runs), sleeps, spans)
    row, one = overlapping(handed.tid, handed.since_ns, handed.begin_ns, asleep.tid,
                           asleep.begin_ns, asleep.end_ns, MOST_SLEEPS)  # fmt: skip
    others = np.flatnonzero(asleep.piece[one] != handed.piece[row])
    row, one = row[others], one[others]
    begin = np.maximum(asleep.begin_ns[one], handed.since_ns[row])
    end = np.minimum(asleep.end_ns[one], handed.begin_ns[row])
    found = follow(asleep.story, Edges(one, handed.piece[row], begin, end))
    gap = np.minimum(begin, until_ns[row]), np.minimum(end, until_ns[row])
    return found, outside(handed.since_ns, until_ns, row, *gap)


def _in_the_way(handed: Handed, runs: Runs) -> Runs:
    """Those that others had to wait for."""
    row, run = overlapping(
        handed.tid, handed.since_ns, handed.begin_ns, runs.tid, runs.begin_ns, runs.end_ns,
        MOST_SLEEPS,
    )  # fmt: skip
    others = np.zeros(len(runs.tid), np.bool_)
    others[run[runs.piece[run] != handed.piece[row]]] = True
    rows = np.flatnonzero(others)
    return runs.rows(rows)


def _asleep(runs: Runs, sleeps: Sleeps, spans: Spans) -> _Asleep:
    sleeps = sleeps.rows(np.flatnonzero(sleeps.asleep & one_of(sleeps.tid, runs.tid)))
    times = sleeps.tid, sleeps.off_ns, sleeps.wake_ns
    run, sleep = overlapping(runs.tid, runs.begin_ns, runs.end_ns, *times)
    number = run * len(sleeps) + sleep
    order = order_of(number)
    story = NO_SPANS
    if len(run):
        whole = Edges(runs.piece, np.arange(len(runs.tid)), runs.begin_ns, runs.end_ns)
        story = follow(spans.where(WAITED_FOR[spans.rank]), whole)
        span, slept = overlapping(runs.tid[story.owner], story.begin_ns, story.end_ns, *times)
        place = np.searchsorted(number[order], story.owner[span] * len(sleeps) + slept)
        story = Spans(
            order[place],
            story.rank[span],
            np.maximum(story.begin_ns[span], sleeps.off_ns[slept]),
            np.minimum(story.end_ns[span], sleeps.wake_ns[slept]),
            story.of[span],
        )
    return _Asleep(
        tid=runs.tid[run],
        begin_ns=np.maximum(runs.begin_ns[run], sleeps.off_ns[sleep]),
        end_ns=np.minimum(runs.end_ns[run], sleeps.wake_ns[sleep]),
        piece=runs.piece[run],
        story=story,
    )
