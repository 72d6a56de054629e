# SPDX-License-Identifier: Apache-2.0
"""Export: writes in, named columns out, one row a span.

``write`` (the id of `iostrata export --parquet`), ``kind``, ``machine``, ``layer``,
``begin_ns``, ``end_ns`` (CLOCK_MONOTONIC of the machine with the workload). Of kind
``work``: what was at work for the write, overlapping. Of kind ``held``: who held the
time; these rows cover each call of the write, so they add up to its latency.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from iostrata.crew import each
from iostrata.export.rows import Column
from iostrata.export.slices import slices_of

if TYPE_CHECKING:
    from iostrata.analysis import Beside, Prepared
    from iostrata.stitch import Audit, Spans

WRITES_AT_ONCE: Final = 50_000
KINDS: Final = ("work", "held")
UNATTRIBUTED: Final = "unattributed"


def batches(beside: Beside, jobs: int = 1) -> Iterator[list[Column]]:
    """The spans of the writes that ``beside`` tells of, a few at a time; first of one kind, then of
    the other.

    What was left over in their windows is put there. ``jobs``: by so many processes.
    """
    found, wanted = beside.found, beside.rows
    named = np.array([layer is not None for layer in found.path.layers])

    def batch(first: int) -> tuple[list[Column], list[Column], dict[tuple[int, int], list[Audit]]]:
        slices = slices_of(beside, wanted[first : first + WRITES_AT_ONCE])
        spans = slices.spans.where(named[found.path.place_of(slices.spans.rank)])
        work, held = _columns(found, spans, kind=0), _columns(found, slices.segments, kind=1)
        return work, held, slices.audits

    for work, held, audits in each(batch, range(0, len(wanted), WRITES_AT_ONCE), jobs):
        beside.audits.update(audits)
        yield work
        yield held


def _columns(found: Prepared, spans: Spans, kind: int) -> list[Column]:
    layers = [layer for layer in found.path.layers if layer]
    names = (*dict.fromkeys(layer.row for layer in layers), UNATTRIBUTED)
    machines = tuple(dict.fromkeys([*found.writes.machines, *(layer.machine for layer in layers)]))
    # The last place is that of rank -1, too: nobody.
    ranks = [*found.path.layers, None]
    name = _codes(names.index(layer.row if layer else UNATTRIBUTED) for layer in ranks)
    machine = _codes(machines.index(layer.machine) if layer else -1 for layer in ranks)
    place = found.path.place_of(spans.rank)
    whose = machine[place]
    # What nobody held is of the machine that wrote.
    nobody = np.flatnonzero(whose < 0)
    whose[nobody] = found.writes.codes["machine"][spans.owner[nobody]]
    return [
        Column("write", spans.owner + 1),
        Column("kind", np.full(len(spans), kind, np.int32), KINDS),
        Column("machine", whose, machines),
        Column("layer", name[place], names),
        Column("begin_ns", spans.begin_ns),
        Column("end_ns", spans.end_ns),
    ]


def _codes(numbers: Iterable[int]) -> NDArray[np.int32]:
    """As wide as Arrow has them."""
    return np.array(list(numbers), np.int32)
