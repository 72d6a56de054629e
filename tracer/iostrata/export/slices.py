# SPDX-License-Identifier: Apache-2.0
"""Export: some of a recording's writes in, their spans and segments out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iostrata.attribute import segments
from iostrata.columns import Ints, changes

if TYPE_CHECKING:
    from iostrata.analysis import Beside
    from iostrata.stitch import Audit, Spans


@dataclass(frozen=True)
class Slices:
    """``owner`` of both is the row of the write in ``Writes``; in order of owner and time.

    ``spans``: what was at work, overlapping, ``Spans.of`` as in ``Lifted``, but told
    apart between windows; ``segments``: who held the time, exclusive, rank -1 for nobody.
    ``audits``: what was left over in the windows that were stitched, as ``Beside`` has it.
    """

    spans: Spans
    segments: Spans
    audits: dict[tuple[int, int], list[Audit]]


def slices_of(beside: Beside, rows: Ints) -> Slices:
    """Spans and segments of some of the writes that ``beside`` tells of.

    Only the windows that hold them are stitched.
    """
    # Whoever has prepared a recording has loaded it.
    from iostrata.stitch import SpanList  # noqa: PLC0415

    spans, parts, count = SpanList(), SpanList(), 0
    audits: dict[tuple[int, int], list[Audit]] = {}
    for number, top in enumerate(beside.found.tops):
        write_of_piece, pieces = top.write_of_unit(rows)[top.pieces.unit], top.pieces
        for window, section in enumerate(top.windows):
            place, owner = section.rows, section.told(write_of_piece, -1)
            if not (owner >= 0).any():
                continue
            lifted, audits[number, window] = beside.lift((number, window))
            own = lifted.spans.where(owner[lifted.spans.owner] >= 0)
            held = segments(own, pieces.begin_ns[place], pieces.end_ns[place])
            numbers = np.where(own.of >= 0, own.of + count, -1)
            spans.add(owner[own.owner], own.rank, own.begin_ns, own.end_ns, numbers)
            parts.add(owner[held.owner], held.rank, held.begin_ns, held.end_ns)
            count += sum(len(view.spans) for view in lifted.views)
    return Slices(_in_order(spans.collect()), _in_order(parts.collect()), audits)


def _in_order(spans: Spans) -> Spans:
    """By owner, begin, longest first; each only once."""
    spans = spans.rows(_order(spans))
    columns = (spans.owner, spans.rank, spans.begin_ns, spans.end_ns)
    return spans.where(np.logical_or.reduce([changes(column) for column in columns]))


def _order(spans: Spans) -> Ints:
    """Few of an owner begin at once: only those need more than one number to be sorted by."""
    if not len(spans):
        return spans.owner
    first, last = int(spans.begin_ns.min()), int(spans.begin_ns.max())
    most, begin = last - first + 1, spans.begin_ns - first
    if most * (int(spans.owner.max()) + 1) >= 1 << 63:
        return np.lexsort((spans.rank, -spans.end_ns, spans.begin_ns, spans.owner))
    number = spans.owner * most + begin
    order = np.argsort(number, kind="stable")
    new = changes(number[order])
    alike = np.flatnonzero(~(new & np.append(new[1:], True)))
    rows = order[alike]
    order[alike] = rows[np.lexsort((spans.rank[rows], -spans.end_ns[rows], number[rows]))]
    return order
