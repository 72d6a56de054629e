# SPDX-License-Identifier: Apache-2.0
"""Live: beats in, the Moment that is shown out."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np

from iostrata.attribute.selection import joined, select
from iostrata.attribute.summarise import tabulate
from iostrata.columns import Ints
from iostrata.live.beat import Beat
from iostrata.model import Breakdown, Moment

MOST_BEATS: Final = 120


class History:
    """The last beats. ``beats``: how many of them the table is of; the strips are of all."""

    def __init__(self, beats: int) -> None:
        self._tabled = beats
        self._beats: deque[Beat] = deque(maxlen=MOST_BEATS)

    def add(self, beat: Beat) -> None:
        self._beats.append(beat)

    def names(self, column: str) -> tuple[str, ...]:
        """The names in a column of codes (``method``, ...), most frequent first."""
        counts: Counter[str] = Counter()
        for beat in self._beats:
            if beat.breakdown:
                writes = beat.breakdown.writes
                found = np.bincount(writes.codes[column], minlength=len(writes.names[column]))
                counts.update(dict(zip(writes.names[column], found.tolist(), strict=True)))
        return tuple(name for name, count in counts.most_common() if count)

    def moment(self, chosen: Mapping[str, str]) -> Moment:
        """Of the writes that have the chosen name in each of these columns."""
        parts = [_chosen(beat.breakdown, chosen) for beat in self._beats]
        recent = list(self._beats)[-self._tabled :]
        some = [part for part in parts[-self._tabled :] if part is not None]
        looked_ns = sum(beat.end_ns - beat.begin_ns for beat in recent)
        skipped_ns = sum(beat.skipped_ns for beat in recent)
        whole = joined(some) if some else None
        return Moment(
            table=tabulate(whole, "all", np.arange(len(whole.writes))) if whole else None,
            seconds=(looked_ns + skipped_ns) / 1e9,
            sampled=looked_ns / (looked_ns + skipped_ns) if looked_ns else 1.0,
            writes_per_s=tuple(
                len(part.writes) / (beat.end_ns - beat.begin_ns) * 1e9 if part else 0.0
                for beat, part in zip(self._beats, parts, strict=True)
            ),
            strips=_strips(parts),
            chosen=chosen,
            lost=recent[-1].lost if recent else {},
        )


def _chosen(breakdown: Breakdown | None, chosen: Mapping[str, str]) -> Breakdown | None:
    if breakdown is None or not chosen:
        return breakdown
    rows = np.flatnonzero(np.logical_and.reduce([*_masks(breakdown, chosen)]))
    return select(breakdown, rows) if len(rows) else None


def _masks(breakdown: Breakdown, chosen: Mapping[str, str]) -> Iterator[Ints]:
    writes = breakdown.writes
    for column, name in chosen.items():
        names = writes.names[column]
        yield writes.codes[column] == (names.index(name) if name in names else -1)


def _strips(
    parts: list[Breakdown | None],
) -> dict[tuple[str, str], tuple[float | None, ...]]:
    """Mean ns a write of each layer in each beat; ``total`` and ``unattributed`` as well."""
    rows: dict[tuple[str, str], list[float | None]] = {}
    for number, part in enumerate(parts):
        if part is None:
            continue
        means = dict(zip(part.layers, part.time_ns.mean(axis=1).tolist(), strict=True))
        held = {(layer.machine, layer.name): mean for layer, mean in means.items()}
        held["", "total"] = float(part.writes.latency_ns.mean())
        held["", "unattributed"] = float(part.residual_ns.mean())
        for key, mean in held.items():
            rows.setdefault(key, [None] * len(parts))[number] = mean
    return {key: tuple(strip) for key, strip in rows.items()}
