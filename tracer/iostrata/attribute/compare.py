# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: two Breakdowns in, what changed between them, and how surely, out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.attribute.bootstrap import FEWEST_BLOCKS, RESAMPLES, Floats, Resampled
from iostrata.attribute.selection import LayerKey, layers_of, times_of
from iostrata.attribute.summarise import grouping
from iostrata.columns import Ints
from iostrata.layers import ROWS
from iostrata.model import (
    Breakdown,
    Change,
    ChangeRow,
    ComparedGroup,
    Comparison,
    Layer,
    Quality,
    Regression,
    Writes,
)

CONFIDENCE: Final = 0.99
SEEDS: Final = (1, 2)
MIX_COLUMNS: Final = ("method", "size", "device")
MIX_DIFFERENCE: Final = 0.05


@dataclass(frozen=True)
class Sample:
    """The writes of one group in one recording: parts (layers, then residual) and latency."""

    parts_ns: NDArray[np.int64]
    latency_ns: Ints

    def __len__(self) -> int:
        return len(self.latency_ns)


def compare(a: Breakdown, b: Breakdown, by: str = "", limit: float | None = None) -> Comparison:
    """Every group of ``by`` that both have; ``by`` empty: all writes together.

    ``limit``: as a part of A's total, 0.1 for 10 %. Errors: UsageError.
    """
    layers = layers_of((a, b))
    unlike = _unlike(a.quality, b.quality)
    rows_a, rows_b = _groups(a.writes, by), _groups(b.writes, by)
    groups = tuple(
        _group(name, _sample(a, rows_a[name], layers), _sample(b, rows_b[name], layers),
               layers, unlike)
        for name in rows_a
        if name in rows_b
    )  # fmt: skip
    return Comparison(
        confidence=CONFIDENCE,
        resamples=RESAMPLES,
        grouped_by=by,
        groups=groups,
        only_a=tuple(name for name in rows_a if name not in rows_b),
        only_b=tuple(name for name in rows_b if name not in rows_a),
        mixes=tuple(_mixes(a.writes, b.writes, by)),
        limit=limit,
        regressions=() if limit is None else tuple(_regressions(groups, limit)),
        quality_a=a.quality,
        quality_b=b.quality,
    )


def _groups(writes: Writes, by: str) -> dict[str, Ints]:
    if not by:
        return {"all": np.arange(len(writes))}
    codes, names = grouping(writes, by)
    return {names[code]: np.flatnonzero(codes == code) for code in np.unique(codes)}


def _sample(breakdown: Breakdown, writes: Ints, layers: dict[LayerKey, Layer]) -> Sample:
    parts = np.vstack([times_of(breakdown, layers), breakdown.residual_ns])
    return Sample(parts[:, writes], breakdown.writes.latency_ns[writes])


def _group(
    name: str, a: Sample, b: Sample, layers: dict[LayerKey, Layer], unlike: tuple[str, ...]
) -> ComparedGroup:
    # The total is a row like the others, so that it is drawn together with its parts.
    drawn_a, drawn_b = (
        Resampled(np.vstack([sample.parts_ns, sample.latency_ns]), seed)
        for sample, seed in zip((a, b), SEEDS, strict=True)
    )
    judged = min(len(a), len(b)) >= FEWEST_BLOCKS
    drawn = drawn_b.means() - drawn_a.means()
    means_a, means_b = a.parts_ns.sum(axis=1) / len(a), b.parts_ns.sum(axis=1) / len(b)
    mean_a, mean_b = (float(sample.latency_ns.sum()) / len(sample) for sample in (a, b))
    rows = tuple(
        ChangeRow(
            layer,
            _change(float(means_a[number]), float(means_b[number]), drawn[number], mean_a, judged),
            layer is not None and any(layer.name.startswith(prefix) for prefix in unlike),
        )
        for number, layer in enumerate((*layers.values(), None))
        if layer is None or a.parts_ns[number].any() or b.parts_ns[number].any()
    )

    def at(percent: float) -> Change:
        values = [
            float(np.percentile(sample.latency_ns, percent, method="inverted_cdf"))
            for sample in (a, b)
        ]
        draws = [
            one.percentiles(sample.latency_ns, percent)
            for one, sample in ((drawn_a, a), (drawn_b, b))
        ]
        return _change(values[0], values[1], draws[1] - draws[0], values[0], judged)

    total = _change(mean_a, mean_b, drawn[-1], mean_a, judged)
    return ComparedGroup(name, len(a), len(b), judged, total, at(50), at(99), rows)


def _change(a_ns: float, b_ns: float, drawn: Floats, base_ns: float, judged: bool) -> Change:
    beyond = (1 - CONFIDENCE) / 2 * 100
    low, high = (float(edge) for edge in np.percentile(drawn, (beyond, 100 - beyond)))
    change = b_ns - a_ns
    return Change(
        a_ns=a_ns,
        b_ns=b_ns,
        change_ns=change,
        low_ns=low,
        high_ns=high,
        share=change / base_ns if base_ns else 0.0,
        real=judged and (low > 0 or high < 0),
    )


def _unlike(a: Quality, b: Quality) -> tuple[str, ...]:
    """Rows (or prefixes of them) that only one of the recordings could tell apart (law 4)."""
    gaps_a = {gap.layer: gap for gap in a.not_observed}
    gaps_b = {gap.layer: gap for gap in b.not_observed}
    names = {row.name for row in ROWS}
    found: list[str] = []
    for layer in gaps_a.keys() ^ gaps_b.keys():
        gap = (gaps_a | gaps_b)[layer]
        # "block.Q2G to I2D" is a range of rows: all of the block layer's.
        prefix = f"{layer.partition('.')[0]}." if " to " in layer else layer
        found += [prefix, *(word for word in gap.merged_into.split() if word in names)]
    return tuple(sorted(set(found)))


def _mixes(a: Writes, b: Writes, by: str) -> Iterator[str]:
    for column in MIX_COLUMNS:
        parts = [
            {name: len(rows) / len(writes) for name, rows in _groups(writes, column).items()}
            for writes in (a, b)
        ]
        apart = (abs(parts[0].get(n, 0) - parts[1].get(n, 0)) for n in parts[0] | parts[1])
        if column != by and max(apart) > MIX_DIFFERENCE:
            yield column


def _regressions(groups: tuple[ComparedGroup, ...], limit: float) -> Iterator[Regression]:
    for group in groups:
        named = [("total", group.total), ("p50", group.p50), ("p99", group.p99)]
        named += [
            (row.layer.name if row.layer else "unattributed", row.change)
            for row in group.rows
            if not row.unlike
        ]
        for name, change in named:
            if change.real and change.share > limit:
                yield Regression(group.name, name, change.share)
