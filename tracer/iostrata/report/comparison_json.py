# SPDX-License-Identifier: Apache-2.0
"""Report stage: a Comparison as JSON, schema ``iostrata.comparison/2``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from iostrata import model
from iostrata.report.document import (
    Count,
    Ns,
    Share,
    counts,
    place,
    rounded_ns,
    rounded_share,
    text,
)


class Change(Struct, frozen=True, kw_only=True):
    """From A to B, means over the runs of each; the confidence interval: ``low_ns`` to ``high_ns``.

    It is null where there are too few writes. ``share``: of A's total mean; for a percentile, of
    A's own; ``detectable``: the least rise that so many runs would find, likewise. ``verdict``:
    the interval excludes 0 (``slower``, ``faster``); it does not, and any change is below
    ``small`` (``noise``), or may be above (``unclear``); all runs agree (``same``). Both are null
    where a side has one run.
    """

    a_ns: Ns
    b_ns: Ns
    change_ns: Ns
    low_ns: Ns | None
    high_ns: Ns | None
    share: Share
    detectable: Share | None
    verdict: Literal["slower", "faster", "noise", "unclear", "same"] | None


class LayerChange(Change, frozen=True):
    """``unlike``: not all runs observed it. ``unattributed`` has no machine and no segment."""

    layer: str
    machine: str | None
    segment: str | None
    unlike: bool


class Served(Struct, frozen=True):
    """The reads of which one place is the furthest that they waited for.

    ``a``, ``b``: their part of all reads, means over the runs of each side; ``change``: from A to
    B; ``runs_a``, ``runs_b``: of each run. ``mean_a_ns``, ``mean_b_ns``: how long one took; null
    where a side has none.
    """

    name: str
    a: Share
    b: Share
    change: Share
    runs_a: list[Share]
    runs_b: list[Share]
    mean_a_ns: Ns | None
    mean_b_ns: Ns | None


class Group(Struct, frozen=True):
    """Writes of one kind in all runs.

    ``needed_runs``: of each side, to find a change of the total of ``small``; null: not known, or
    hundreds. ``served``: of reads only, most of A first.
    """

    name: str
    writes_a: Count
    writes_b: Count
    needed_runs: Count | None
    total: Change
    p50: Change
    p99: Change
    layers: list[LayerChange]
    served: list[Served] | UnsetType = UNSET


class Beside(Struct, frozen=True):
    """The own rows of the one machine of ``side`` are those of ``machine``, which writes on the
    other side."""

    side: Literal["a", "b"]
    machine: str


class Regression(Struct, frozen=True):
    """``row``: ``total``, ``p50``, ``p99`` or a layer."""

    group: str
    row: str
    share: Share


class Counts(Struct, frozen=True):
    """Of each side."""

    a: Count
    b: Count


class Damage(Struct, frozen=True):
    """A line a defect."""

    a: list[str]
    b: list[str]


class LeftOut(Struct, frozen=True):
    """Writes that were not analysed, by reason, of all runs of each side."""

    a: dict[str, Count]
    b: dict[str, Count]


class Comparison(Struct, frozen=True, tag_field="schema", tag="iostrata.comparison/2"):
    """Runs of two sides, layer by layer.

    ``confidence``: that all intervals hold; ``power``: how probably what is ``detectable`` is
    found; ``judged``: both sides have several runs. ``only_a``, ``only_b``: groups that the other
    has not; ``not_in_all``: those that some runs of a side have; ``mixes``: columns of which the
    two hold different parts; ``one_after_the_other``: no run of a side was made between those of
    the other. ``small``: the share below which a change does not matter; ``limit``: that above
    which a real change for the worse is a regression. ``lost``: events. ``op``: what all of it is
    of instead, whatever "writes" says: ``read``, ``direct``. ``left_over``: sides with a run of
    whose time too much went by beside what is part of no write. Only there if there are any:
    ``left_out``; ``selected``, what holds for the writes that were compared; ``beside``, whose rows
    bear another machine's name; ``on_both``: how many runs of A are runs of B.
    """

    confidence: float
    power: float
    grouped_by: str
    runs: Counts
    judged: bool
    groups: list[Group]
    only_a: list[str]
    only_b: list[str]
    not_in_all: list[str]
    mixes: list[str]
    one_after_the_other: bool
    small: float
    limit: float | None
    regressions: list[Regression]
    lost: Counts
    damage: Damage
    op: str | UnsetType = UNSET
    left_over: list[Literal["a", "b"]] | UnsetType = UNSET
    left_out: LeftOut | UnsetType = UNSET
    selected: list[str] | UnsetType = UNSET
    beside: Beside | UnsetType = UNSET
    on_both: Count | UnsetType = UNSET


def render(comparison: model.Comparison) -> str:
    return text(document(comparison))


def document(comparison: model.Comparison) -> Comparison:
    a, b = comparison.quality_a, comparison.quality_b
    return Comparison(
        confidence=comparison.confidence,
        power=comparison.power,
        grouped_by=comparison.grouped_by,
        runs=Counts(comparison.runs_a, comparison.runs_b),
        judged=comparison.judged,
        groups=[_group(group) for group in comparison.groups],
        only_a=list(comparison.only_a),
        only_b=list(comparison.only_b),
        not_in_all=list(comparison.not_in_all),
        mixes=list(comparison.mixes),
        one_after_the_other=comparison.one_after_the_other,
        small=comparison.small,
        limit=comparison.limit,
        regressions=[
            Regression(one.group, one.row, rounded_share(one.share))
            for one in comparison.regressions
        ],
        lost=Counts(_lost(a), _lost(b)),
        damage=Damage(_damage(a), _damage(b)),
        op=UNSET if comparison.op is model.Op.SYNC else comparison.op.value,
        left_over=_left_over(a, b) or UNSET,
        left_out=LeftOut(counts(comparison.left_out_a), counts(comparison.left_out_b))
        if comparison.left_out_a or comparison.left_out_b
        else UNSET,
        selected=list(comparison.selected) or UNSET,
        beside=_beside(comparison.beside),
        on_both=comparison.on_both or UNSET,
    )


def _beside(beside: model.Beside | None) -> Beside | UnsetType:
    return Beside("a" if beside.side == "a" else "b", beside.machine) if beside else UNSET


def _lost(side: Sequence[model.Quality]) -> int:
    return sum(sum(quality.lost.values()) for quality in side)


def _left_over(a: Sequence[model.Quality], b: Sequence[model.Quality]) -> list[Literal["a", "b"]]:
    doubtful: dict[Literal["a", "b"], bool] = {
        "a": any(one.too_much_left_over for one in a),
        "b": any(one.too_much_left_over for one in b),
    }
    return [name for name, found in doubtful.items() if found]


def _damage(side: Sequence[model.Quality]) -> list[str]:
    return [defect for quality in side for defect in quality.damage]


def _group(group: model.ComparedGroup) -> Group:
    return Group(
        name=group.name,
        writes_a=group.count_a,
        writes_b=group.count_b,
        needed_runs=group.needed_runs,
        total=Change(**_change(group.total, group.known)),
        p50=Change(**_change(group.p50, group.known)),
        p99=Change(**_change(group.p99, group.known)),
        layers=[
            LayerChange(*place(row.layer), unlike=row.unlike, **_change(row.change, group.known))
            for row in group.rows
        ],
        served=[_served(one) for one in group.served] or UNSET,
    )


def _served(one: model.ChangeServed) -> Served:
    a, b = one.a, one.b
    return Served(
        name=a.name,
        a=rounded_share(a.share),
        b=rounded_share(b.share),
        change=rounded_share(one.change),
        runs_a=[rounded_share(part) for part in a.shares],
        runs_b=[rounded_share(part) for part in b.shares],
        mean_a_ns=None if a.mean_ns is None else rounded_ns(a.mean_ns),
        mean_b_ns=None if b.mean_ns is None else rounded_ns(b.mean_ns),
    )


def _change(change: model.Change, known: bool) -> dict[str, Any]:
    return {
        "a_ns": rounded_ns(change.a_ns),
        "b_ns": rounded_ns(change.b_ns),
        "change_ns": rounded_ns(change.change_ns),
        "low_ns": rounded_ns(change.low_ns) if known else None,
        "high_ns": rounded_ns(change.high_ns) if known else None,
        "share": rounded_share(change.share),
        "detectable": rounded_share(change.detectable) if change.verdict else None,
        "verdict": change.verdict or None,
    }
