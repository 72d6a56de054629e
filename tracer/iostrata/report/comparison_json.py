# SPDX-License-Identifier: Apache-2.0
"""Report stage: a Comparison as JSON, schema ``iostrata.comparison/1``."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from iostrata import model
from iostrata.report.document import Count, Ns, Share, place, rounded_ns, rounded_share, text


class Change(Struct, frozen=True, kw_only=True):
    """From A to B. ``real``: the confidence interval, ``low_ns`` to ``high_ns``, excludes 0.

    ``share``: of A's total mean; for a percentile, of A's own.
    """

    a_ns: Ns
    b_ns: Ns
    change_ns: Ns
    low_ns: Ns
    high_ns: Ns
    share: Share
    real: bool


class LayerChange(Change, frozen=True):
    """``unlike``: one did not observe it. ``unattributed`` has no machine and no segment."""

    layer: str
    machine: str | None
    segment: str | None
    unlike: bool


class Group(Struct, frozen=True):
    """Writes of one kind in both. ``judged``: enough for the intervals to mean something."""

    name: str
    writes_a: Count
    writes_b: Count
    judged: bool
    total: Change
    p50: Change
    p99: Change
    layers: list[LayerChange]


class Regression(Struct, frozen=True):
    """``row``: ``total``, ``p50``, ``p99`` or a layer."""

    group: str
    row: str
    share: Share


class Lost(Struct, frozen=True):
    """Events."""

    a: Count
    b: Count


class Damage(Struct, frozen=True):
    """A line a defect."""

    a: list[str]
    b: list[str]


class Comparison(Struct, frozen=True, tag_field="schema", tag="iostrata.comparison/1"):
    """Two recordings, layer by layer.

    ``only_a``, ``only_b``: groups that the other has not; ``mixes``: columns of which the two hold
    different parts; ``limit``: the share above which a real change for the worse is a regression.
    """

    confidence: float
    resamples: Count
    grouped_by: str
    groups: list[Group]
    only_a: list[str]
    only_b: list[str]
    mixes: list[str]
    limit: float | None
    regressions: list[Regression]
    lost: Lost
    damage: Damage


def render(comparison: model.Comparison) -> str:
    return text(document(comparison))


def document(comparison: model.Comparison) -> Comparison:
    a, b = comparison.quality_a, comparison.quality_b
    return Comparison(
        confidence=comparison.confidence,
        resamples=comparison.resamples,
        grouped_by=comparison.grouped_by,
        groups=[_group(group) for group in comparison.groups],
        only_a=list(comparison.only_a),
        only_b=list(comparison.only_b),
        mixes=list(comparison.mixes),
        limit=comparison.limit,
        regressions=[
            Regression(one.group, one.row, rounded_share(one.share))
            for one in comparison.regressions
        ],
        lost=Lost(sum(a.lost.values()), sum(b.lost.values())),
        damage=Damage(list(a.damage), list(b.damage)),
    )


def _group(group: model.ComparedGroup) -> Group:
    return Group(
        name=group.name,
        writes_a=group.count_a,
        writes_b=group.count_b,
        judged=group.judged,
        total=Change(**_change(group.total)),
        p50=Change(**_change(group.p50)),
        p99=Change(**_change(group.p99)),
        layers=[
            LayerChange(*place(row.layer), unlike=row.unlike, **_change(row.change))
            for row in group.rows
        ],
    )


def _change(change: model.Change) -> dict[str, Any]:
    return {
        "a_ns": rounded_ns(change.a_ns),
        "b_ns": rounded_ns(change.b_ns),
        "change_ns": rounded_ns(change.change_ns),
        "low_ns": rounded_ns(change.low_ns),
        "high_ns": rounded_ns(change.high_ns),
        "share": rounded_share(change.share),
        "real": change.real,
    }
