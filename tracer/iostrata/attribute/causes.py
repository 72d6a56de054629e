# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: the rows of a table in, the few causes out that a verdict can name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from iostrata.attribute.figures import figures
from iostrata.attribute.who import Own, leader, together
from iostrata.columns import Ints
from iostrata.layers import ROWS
from iostrata.model import Breakdown, Cause, Layer, Row, Sum, Tail

CAUSES: Final = {row.name: row.cause for row in ROWS}
# Of these it is told why, and not who.
REASONED: Final = frozenset(row.name for row in ROWS if row.reasoned)
QUEUED: Final = frozenset(row.name for row in ROWS if row.queued)
# Above them is the guest, below them what serves the host.
HYPERVISOR: Final = "hypervisor"
KERNEL: Final = frozenset({HYPERVISOR, "host OS"})
OF_HOST: Final = frozenset(row.name for row in ROWS if row.of_host)
# Asked of a guest's disks, and of whoever serves its file system, and tied to nothing that the host
# did.
UNTIED: Final = frozenset({"hypervisor and below", "file server"})
GUEST: Final = "guest OS"
DEVICE: Final = "device"
UNFOLLOWED: Final = "unfollowed"


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
                behind=leader(together(_kept_by_others(own)), own_processes, share),
            )
        )
    return tuple(sorted(found, key=lambda cause: -cause.share))


def _kept_by_others(rows: Iterable[Row]) -> Iterator[Row]:
    return (row for row in rows if row.layer.row not in REASONED)


def operators(breakdown: Breakdown, writes: Ints, total_mean_ns: float) -> tuple[Sum, ...]:
    """What a host's monitor would show of some writes (row indices), if it was recorded.

    Law: GAVG = KAVG + DAVG + unfollowed, for each write; QAVG is a part of KAVG. Nothing tells
    where what was asked of a host was while nothing of it was found there: that is a part of GAVG
    only, and of it where there is some. The guest's own rows and the residual are in none of them.
    """
    layers = breakdown.layers
    hosts = {layer.machine for layer in layers if layer.segment == HYPERVISOR}
    if not hosts:
        return ()
    kernel = [
        layer.segment in KERNEL or (layer.row in OF_HOST and layer.machine in hosts)
        for layer in layers
    ]
    unknown = [
        layer.segment in UNTIED or (layer.row == UNFOLLOWED and layer.machine in hosts)
        for layer in layers
    ]
    below = [
        not (mine or other) and layer.segment != GUEST
        for layer, mine, other in zip(layers, kernel, unknown, strict=True)
    ]
    queued = [mine and layer.row in QUEUED for layer, mine in zip(layers, kernel, strict=True)]

    def total(name: str, some: Iterable[bool]) -> Sum:
        rows = np.flatnonzero(list(some))
        return Sum(name, figures(breakdown.time_ns[rows][:, writes].sum(axis=0), total_mean_ns))

    all_three = map(any, zip(kernel, below, unknown, strict=True))
    found = (
        total("GAVG", all_three), total("KAVG", kernel), total("QAVG", queued),
        total("DAVG", below), total(UNFOLLOWED, unknown),
    )  # fmt: skip
    return found if found[-1].figures.mean_ns else found[:-1]


def _cause(layer: Layer) -> str:
    return CAUSES.get(layer.row) or layer.segment
