# SPDX-License-Identifier: Apache-2.0
"""Pipeline: some of a recording's writes in, what was left over while they slept out (law 9).

Whoever looks at single writes is told what may have been theirs, and is in none of their rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import numpy as np

from iostrata.analysis.left_out import below
from iostrata.analysis.leftovers import Audits, left_over
from iostrata.analysis.prepared import Prepared, Top
from iostrata.columns import Ints, Union, overlapping
from iostrata.crew import each
from iostrata.hops import lift
from iostrata.model import Quality
from iostrata.stitch import Audit, Idle


def beside(found: Prepared, rows: Ints, quality: Quality, jobs: int = 1) -> Quality:
    """``quality``, with what was left over while those writes (rows) slept, and only then.

    Their windows alone are stitched, by ``jobs`` processes; with their neighbours, in whose writes
    it may be, if anything is to be told.
    """
    audits = _audits(found, rows, jobs, neighbours=False)
    if left_over(audits)[0]:
        audits = _audits(found, rows, jobs, neighbours=True)
    left, _, asleep_ns = left_over(audits)
    latency_ns = max(int(found.writes.latency_ns[rows].sum()), 1)
    return replace(quality, left_over=left, left_over_share=asleep_ns / latency_ns)


def _audits(found: Prepared, rows: Ints, jobs: int, *, neighbours: bool) -> Audits:
    return Audits([
        audit
        for top in found.tops
        if len(units := top.units_of(rows))
        for audit in _audits_of(found, top, units, jobs, neighbours)
    ])  # fmt: skip


def _audits_of(
    found: Prepared, top: Top, units: Ints, jobs: int, neighbours: bool
) -> Iterator[Audit]:
    pieces = top.pieces
    mine = np.isin(pieces.unit, units)
    while_mine = {
        trace.machine: Union(begin_ns, end_ns)
        for trace, begin_ns, end_ns in below(
            found.path.graph, top.trace, pieces.begin_ns[mine], pieces.end_ns[mine]
        )
    }
    every = top.windows
    holding = np.array([mine[rows].any() for rows in every])
    if neighbours:
        holding |= np.append(holding[1:], False) | np.append(False, holding[:-1])

    def window(number: int) -> list[Audit]:
        rows = every[number]
        return [
            replace(audit, idle=_within(audit.idle, while_mine[audit.machine]))
            for audit in lift(found.path.graph, top.node, rows, told=mine[rows]).audits
        ]

    yield from chain.from_iterable(each(window, np.flatnonzero(holding).tolist(), jobs))


def _within(idle: Idle, times: Union) -> Idle:
    """As far as it is within those times."""
    one, other = np.zeros(len(idle), np.int64), np.zeros(len(times.begins), np.int64)
    row, within = overlapping(one, idle.begin_ns, idle.end_ns, other, times.begins, times.ends)
    return Idle(
        idle.device_key[row],
        np.maximum(idle.begin_ns[row], times.begins[within]),
        np.minimum(idle.end_ns[row], times.ends[within]),
    )
