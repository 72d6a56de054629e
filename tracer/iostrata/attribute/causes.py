# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: the rows of a table in, the few causes out that a verdict can name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from iostrata.attribute.figures import figures
from iostrata.attribute.who import Own, leader, together
from iostrata.columns import Ints
from iostrata.layers import ROWS
from iostrata.model import Breakdown, Cause, Layer, Row, Sum, Tail

CAUSES: Final = {row.name: row.cause for row in ROWS}
QUEUED: Final = frozenset(row.name for row in ROWS if row.queued)
# Above them is the guest, below them what serves the host.
HYPERVISOR: Final = "hypervisor"
KERNEL: Final = frozenset({HYPERVISOR, "host OS"})
GUEST: Final = "guest OS"
DEVICE: Final = "device"


def causes(
    rows: Sequence[Row], tail: Tail | None, own_processes: Own = frozenset()
) -> tuple[Cause, ...]:
    """Each row is in one of them, so with the residual they are all of the total."""
    names = dict.fromkeys(_cause(row.layer) for row in rows)
    excess: dict[str, float] = dict.fromkeys(names, 0.0)
    for slow in tail.rows if tail else ():
        # A row may lead where no write took longer, and then is no part of the table.
        if _cause(slow.layer) in excess:
            excess[_cause(slow.layer)] += slow.excess.share
    found = []
    for name in names:
        own = [row for row in rows if _cause(row.layer) == name]
        share = sum(row.figures.share for row in own)
        found.append(
            Cause(
                name=name,
                declared=bool(CAUSES.get(own[0].layer.row)),
                share=share,
                tail_share=excess[name] if tail else None,
                most=max(own, key=lambda row: row.figures.mean_ns),
                device=any(row.layer.segment == DEVICE for row in own),
                behind=leader(together(own), own_processes, share),
            )
        )
    return tuple(sorted(found, key=lambda cause: -cause.share))


def operators(breakdown: Breakdown, writes: Ints, total_mean_ns: float) -> tuple[Sum, ...]:
    """What a host's monitor would show of some writes (row indices), if it was recorded.

    Law: GAVG = KAVG + DAVG, for each write; QAVG is a part of KAVG. The guest's own rows
    and the residual are in none of them.
    """
    layers = breakdown.layers
    if not any(layer.segment == HYPERVISOR for layer in layers):
        return ()
    kernel = [layer.segment in KERNEL for layer in layers]
    below = [layer.segment not in KERNEL | {GUEST} for layer in layers]
    queued = [layer.segment in KERNEL and layer.row in QUEUED for layer in layers]

    def total(name: str, some: Iterable[bool]) -> Sum:
        rows = np.flatnonzero(list(some))
        return Sum(name, figures(breakdown.time_ns[rows][:, writes].sum(axis=0), total_mean_ns))

    both = (one or other for one, other in zip(kernel, below, strict=True))
    return (
        total("GAVG", both), total("KAVG", kernel), total("QAVG", queued), total("DAVG", below),
    )  # fmt: skip


def _cause(layer: Layer) -> str:
    return CAUSES.get(layer.row) or layer.segment
