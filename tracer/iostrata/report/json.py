# SPDX-License-Identifier: Apache-2.0
"""Report stage: a Summary as JSON, schema ``iostrata.breakdown/1``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import asdict

from iostrata import model
from iostrata.cgroups import container_of
from iostrata.report import verdict
from iostrata.report.breakdown import (
    Bin,
    Breakdown,
    Clock,
    Cost,
    Crossing,
    Excess,
    Figures,
    Group,
    LayerExcess,
    LayerFigures,
    LeftOver,
    NotObserved,
    OverTime,
    Part,
    Quality,
    RowOverTime,
    SegmentExcess,
    SegmentFigures,
    Selection,
    Served,
    Slow,
    Sum,
    Table,
    Tail,
    Total,
    Typical,
    Unseen,
    WaitSite,
    Waker,
    Writes,
)
from iostrata.report.document import counts, picoseconds, rounded_ns, rounded_share, text
from iostrata.report.sections import headed


def render(summary: model.Summary) -> str:
    return text(document(summary))


def document(summary: model.Summary) -> Breakdown:
    return Breakdown(
        writes=Writes(summary.overall.count, counts(summary.left_out)),
        **asdict(_table(summary.overall)),
        grouped_by=summary.grouped_by,
        groups=[
            Group(group.name, group.count, **asdict(_table(group))) for group in summary.groups
        ],
        quality=_quality(summary.quality),
        verdict=verdict.sentences(summary),
        histogram=[_bin(one) for one in summary.histogram] or UNSET,
        over_time=_over_time(summary.over_time) if summary.over_time else UNSET,
        op=UNSET if summary.op is model.Op.SYNC else summary.op.value,
        served=[
            Served(one.name, one.count, rounded_share(one.share), rounded_ns(one.mean_ns))
            for one in summary.served
        ]
        or UNSET,
    )


def _bin(found: model.Bin) -> Bin:
    return Bin(
        from_ns=int(found.low),
        to_ns=int(found.high),
        writes=found.count,
        share=rounded_share(found.share),
        up_to=rounded_share(found.up_to),
        mean_ns=None if found.mean_ns is None else rounded_ns(found.mean_ns),
        most_in=found.layer.name if found.layer else None,
        most_in_share=rounded_share(found.layer_share),
    )


def _over_time(found: model.OverTime) -> OverTime:
    return OverTime(
        edges_s=[round(edge, 9) for edge in found.edges_s],
        writes_per_s=[round(value or 0.0, 3) for value in found.writes_per_s.values],
        mean_ns=[None if ns is None else rounded_ns(ns) for ns in found.mean_ns.values],
        layers=[
            RowOverTime(
                course.name,
                [None if part is None else rounded_share(part) for part in course.values],
            )
            for course in found.shares
        ],
    )


def printed_means_ps(table: model.Table) -> tuple[list[int], int]:
    """The rows' means and the residual's in thousandths of a nanosecond, with the printed sum made
    exact.

    Rounding each mean for print may leave a few thousandths over. They go into the residual, or
    into the largest row where there is none; a larger difference is no rounding and is printed as
    it is.
    """
    rows = [picoseconds(row.figures.mean_ns) for row in table.rows]
    residual = picoseconds(table.residual.mean_ns)
    over = picoseconds(table.total.mean_ns) - sum(rows) - residual
    if abs(over) > len(rows) + 2:
        return rows, residual
    if table.residual.mean_ns or not rows:
        return rows, residual + over
    rows[rows.index(max(rows))] += over
    return rows, residual


def _table(table: model.Table) -> Table:
    total = table.total
    means_ps, residual_ps = printed_means_ps(table)
    residual = {**_figures(table.residual), "mean_ns": residual_ps / 1000}
    segments = [
        SegmentFigures(row.segment, row.machine, **_figures(row.figures)) for row in table.segments
    ]
    return Table(
        total_ns=Total(
            mean=rounded_ns(total.mean_ns),
            p50=rounded_ns(total.p50_ns),
            p95=rounded_ns(total.p95_ns),
            p99=rounded_ns(total.p99_ns),
            max=rounded_ns(total.max_ns),
        ),
        layers=[
            LayerFigures(
                *_layer(row.layer),
                behind=_behind(row.behind),
                **_figures(row.figures) | {"mean_ns": mean_ps / 1000},
            )
            for row, mean_ps in zip(table.rows, means_ps, strict=True)
        ],
        residual=Figures(**residual),
        segments=segments if headed(row.layer for row in table.rows) else UNSET,
        tail=_tail(table.tail) if table.tail else None,
        operators=[Sum(name=one.name, **_figures(one.figures)) for one in table.operators] or UNSET,
    )


def _behind(parts: Sequence[model.Part]) -> list[Part] | UnsetType:
    return [
        Part(
            mean_ns=rounded_ns(part.mean_ns),
            share=rounded_share(part.share),
            **_who(part.who),
        )
        for part in parts
    ] or UNSET


def _who(who: model.Who) -> dict[str, Any]:
    return {
        "process": who.process,
        "cgroup": who.cgroup or UNSET,
        "container": container_of(who.cgroup) or UNSET,
        "virtual_machine": who.vm or UNSET,
    }


def _tail(tail: model.Tail) -> Tail:
    segments = [
        SegmentExcess(row.segment, row.machine, **_excess(row.excess)) for row in tail.segments
    ]
    return Tail(
        slow=Slow(tail.slow, tail.slow_from_ns),
        typical=Typical(tail.typical, tail.typical_from_ns, tail.typical_to_ns),
        total=Excess(**_excess(tail.total)),
        layers=[LayerExcess(*_layer(row.layer), **_excess(row.excess)) for row in tail.rows],
        residual=Excess(**_excess(tail.residual)),
        segments=segments if headed(row.layer for row in tail.rows) else UNSET,
    )


def _layer(layer: model.Layer) -> tuple[str, str, str]:
    return layer.name, layer.machine, layer.segment


def _figures(figures: model.Figures) -> dict[str, Any]:
    return {
        "mean_ns": rounded_ns(figures.mean_ns),
        "p50_ns": rounded_ns(figures.p50_ns),
        "p95_ns": rounded_ns(figures.p95_ns),
        "p99_ns": rounded_ns(figures.p99_ns),
        "max_ns": rounded_ns(figures.max_ns),
        "share": rounded_share(figures.share),
    }


def _excess(excess: model.Excess) -> dict[str, Any]:
    return {
        "typical_ns": rounded_ns(excess.typical_ns),
        "slow_ns": rounded_ns(excess.slow_ns),
        "excess_ns": rounded_ns(excess.excess_ns),
        "share": rounded_share(excess.share),
        "leads": excess.leads,
    }


def _quality(quality: model.Quality) -> Quality:
    return Quality(
        lost=counts(quality.lost),
        damage=list(quality.damage),
        plain_writes=quality.plain_writes,
        ties=counts(quality.ties),
        not_observed=[
            NotObserved(gap.where, gap.reason, gap.merged_into) for gap in quality.not_observed
        ],
        unsure_syncs=quality.unsure_syncs or UNSET,
        partial_syncs=quality.partial_syncs or UNSET,
        apart=list(quality.apart) or UNSET,
        virtual=list(quality.virtual) or UNSET,
        connections=list(quality.connections) or UNSET,
        background=[LeftOver(**vars(left)) for left in quality.background] or UNSET,
        left_over=[LeftOver(**vars(left)) for left in quality.left_over] or UNSET,
        left_over_share=rounded_share(quality.left_over_share) if quality.left_over else UNSET,
        crossings=[_crossing(crossing) for crossing in quality.crossings] or UNSET,
        unfollowed=quality.unfollowed if quality.crossings else UNSET,
        selection=Selection(quality.selection.of, list(quality.selection.by))
        if quality.selection
        else UNSET,
        hidden={name: rounded_ns(ns) for name, ns in quality.hidden.items()} or UNSET,
        sites=[WaitSite(s.machine, s.site, rounded_ns(s.time_ns)) for s in quality.sites] or UNSET,
        unseen=[Unseen(u.machine, u.count, rounded_ns(u.time_ns)) for u in quality.unseen] or UNSET,
        wakers=[
            Waker(
                machine=w.who.machine,
                mean_ns=rounded_ns(w.time_ns),
                device=w.device or UNSET,
                recorded=w.recorded,
                **_who(w.who),
            )
            for w in quality.wakers
        ]
        or UNSET,
        cost=_cost(quality.cost) if quality.cost else None,
    )


def _crossing(crossing: model.Crossing) -> Crossing:
    return Crossing(
        hop=crossing.hop,
        upper=crossing.upper,
        lower=crossing.lower,
        asked=crossing.asked,
        followed=crossing.followed,
        ambiguous=crossing.ambiguous,
        clock=Clock(
            source=crossing.clock,
            bound_ns=crossing.bound_ns,
            drift_ppm=round(float(crossing.drift_ppm), 6),
            contradiction=crossing.contradiction or None,
        ),
        bypassed=list(crossing.bypassed) or UNSET,
        readdressed=crossing.readdressed or UNSET,
        by=UNSET if crossing.by == "key" else crossing.by,
    )


def _cost(cost: model.Cost) -> Cost:
    return Cost(
        events=cost.events,
        duration_ns=cost.duration_ns,
        events_per_s=round(cost.events_per_s, 3),
        bpf_ns=cost.bpf_ns,
        recorder_cpu_ns=cost.recorder_cpu_ns,
    )
