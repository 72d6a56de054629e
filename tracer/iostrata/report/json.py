# SPDX-License-Identifier: Apache-2.0
"""Report stage: a Summary as JSON, schema ``iostrata.breakdown/1``.

::

    {"schema": "iostrata.breakdown/1",
     "writes": {"analysed": n, "left_out": {reason: n}},
     "total_ns": {"mean", "p50", "p95", "p99", "max"},
     "layers": [{"layer", "machine", "segment",
                 "mean_ns", "p50_ns", "p95_ns", "p99_ns", "max_ns", "share"}, ...],
     "residual": {"mean_ns", "p50_ns", "p95_ns", "p99_ns", "max_ns", "share"},
     "segments": [{"segment", "machine", the same six}, ...],
     "grouped_by": "method",
     "tail": null | {"slow": {"writes": n, "from_ns": n},
                     "typical": {"writes": n, "from_ns": n, "to_ns": n},
                     "total": {"typical_ns", "slow_ns", "excess_ns", "share", "leads"},
                     "layers": [{"layer", "machine", "segment", the same five}, ...],
                     "residual": {the same five},
                     "segments": [{"segment", "machine", the same five}, ...]},
     "groups": [{"name", "writes", "total_ns", "layers", "residual", "segments", "tail"}, ...],
     "quality": {"lost": {"machine:point": n}, "damage": [line, ...], "plain_writes": n,
                 "ties": {how: n},
                 "not_observed": [{"layer", "reason", "merged_into"}, ...],
                 "crossings": [{"hop", "upper", "lower", "asked", "followed", "ambiguous",
                                "clock": {"source", "bound_ns", "drift_ppm", "contradiction"}},
                               ...],
                 "apart": [line, ...], "virtual": [line, ...],
                 "background": [{"machine", "kind", "place", "count", "time_ns"}, ...],
                 "left_over": [{the same five}, ...], "left_over_share": n,
                 "cost": null | {"events", "duration_ns", "events_per_s",
                                 "bpf_ns": null | n, "recorder_cpu_ns": null | n}}}

Times are nanoseconds, printed to a thousandth. ``share`` is of the total's mean,
0..1, and may be negative for the residual, which is signed. ``layers`` are in
the order of the stack. As printed (read them as decimals), the means of the
layers plus the mean of the residual are the mean of the total, exactly.

``segments`` are sums of the layers, write by write; only there, and in the tail, if the write went
through several machines, or into one that was not recorded. ``crossings`` say how
one machine's requests were followed to the next, and how far their clocks may be
off (``bound_ns``); ``apart`` names machines that were not tied to the others, ``virtual``
disks that a machine serves which was not recorded. Each is only there if there are any.
``background`` is what is part of no write, with its own time; ``left_over`` what of it went on
at a write's own place while that slept with nothing of its own under way, with the writes' time,
and ``left_over_share`` that time as a part of all latencies. They, too, are only there if needed.
``contradiction`` is null or one line.

``tail``: means of the slowest 1 % of the writes beside those of the writes
between p45 and p55; ``excess_ns`` is the difference, ``share`` the part of the
total's, ``leads`` how many of the slow writes exceed the typical mean by most in
this layer. Null where there are fewer than 20 writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from iostrata.model import Cost, Crossing, Excess, Figures, Quality, Summary, Table, Tail
from iostrata.report.sections import headed

SCHEMA: Final = "iostrata.breakdown/1"


def render(summary: Summary) -> str:
    return json.dumps(document(summary), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def document(summary: Summary) -> dict[str, Any]:
    """The schema's document, before it is text."""
    return {
        "schema": SCHEMA,
        "writes": {
            "analysed": summary.overall.count,
            "left_out": _sorted(summary.left_out),
        },
        **_table(summary.overall),
        "grouped_by": summary.grouped_by,
        "groups": [
            {"name": group.name, "writes": group.count, **_table(group)} for group in summary.groups
        ],
        "quality": _quality(summary.quality),
    }


def printed_residual_ps(table: Table) -> int:
    """The residual's mean in thousandths of a nanosecond, with the printed sum made exact.

    Rounding each mean for print may leave a few thousandths over. They go into
    the residual; a larger difference is no rounding and is printed as it is.
    """
    layers = [_picoseconds(row.figures.mean_ns) for row in table.rows]
    exact = _picoseconds(table.total.mean_ns) - sum(layers)
    rounded = _picoseconds(table.residual.mean_ns)
    return exact if abs(exact - rounded) <= len(layers) + 2 else rounded


def _picoseconds(ns: float) -> int:
    return round(ns * 1000)


def _ns(ns: float) -> float:
    return _picoseconds(ns) / 1000


def _table(table: Table) -> dict[str, Any]:
    total = table.total
    return {
        "total_ns": {
            "mean": _ns(total.mean_ns),
            "p50": _ns(total.p50_ns),
            "p95": _ns(total.p95_ns),
            "p99": _ns(total.p99_ns),
            "max": _ns(total.max_ns),
        },
        "layers": [
            {
                "layer": row.layer.name,
                "machine": row.layer.machine,
                "segment": row.layer.segment,
                **_figures(row.figures),
            }
            for row in table.rows
        ],
        "residual": {
            **_figures(table.residual),
            "mean_ns": printed_residual_ps(table) / 1000,
        },
        **_segments(table),
        "tail": _tail(table.tail) if table.tail else None,
    }


def _segments(table: Table) -> dict[str, Any]:
    if not headed(row.layer for row in table.rows):
        return {}
    return {
        "segments": [
            {"segment": row.segment, "machine": row.machine, **_figures(row.figures)}
            for row in table.segments
        ]
    }


def _tail(tail: Tail) -> dict[str, Any]:
    return {
        "slow": {"writes": tail.slow, "from_ns": tail.slow_from_ns},
        "typical": {
            "writes": tail.typical,
            "from_ns": tail.typical_from_ns,
            "to_ns": tail.typical_to_ns,
        },
        "total": _excess(tail.total),
        "layers": [
            {
                "layer": row.layer.name,
                "machine": row.layer.machine,
                "segment": row.layer.segment,
                **_excess(row.excess),
            }
            for row in tail.rows
        ],
        "residual": _excess(tail.residual),
        **_tail_segments(tail),
    }


def _tail_segments(tail: Tail) -> dict[str, Any]:
    if not headed(row.layer for row in tail.rows):
        return {}
    return {
        "segments": [
            {"segment": row.segment, "machine": row.machine, **_excess(row.excess)}
            for row in tail.segments
        ]
    }


def _excess(excess: Excess) -> dict[str, float]:
    return {
        "typical_ns": _ns(excess.typical_ns),
        "slow_ns": _ns(excess.slow_ns),
        "excess_ns": _ns(excess.excess_ns),
        "share": round(excess.share, 6),
        "leads": excess.leads,
    }


def _figures(figures: Figures) -> dict[str, float]:
    return {
        "mean_ns": _ns(figures.mean_ns),
        "p50_ns": _ns(figures.p50_ns),
        "p95_ns": _ns(figures.p95_ns),
        "p99_ns": _ns(figures.p99_ns),
        "max_ns": _ns(figures.max_ns),
        "share": round(figures.share, 6),
    }


def _quality(quality: Quality) -> dict[str, Any]:
    return {
        "lost": _sorted(quality.lost),
        "damage": list[str](quality.damage),
        "plain_writes": quality.plain_writes,
        "ties": _sorted(quality.ties),
        "not_observed": _not_observed(quality),
        **_several(quality),
        "cost": _cost(quality.cost) if quality.cost else None,
    }


def _several(quality: Quality) -> dict[str, Any]:
    crossings = [_crossing(crossing) for crossing in quality.crossings]
    found: dict[str, Any] = {"apart": list[str](quality.apart)} if quality.apart else {}
    if quality.virtual:
        found["virtual"] = list[str](quality.virtual)
    for name, left in (("background", quality.background), ("left_over", quality.left_over)):
        if left:
            found[name] = [dict(vars(each)) for each in left]
    if quality.left_over:
        found["left_over_share"] = round(quality.left_over_share, 6)
    if crossings:
        found |= {"crossings": crossings, "unfollowed": quality.unfollowed}
    return found


def _crossing(crossing: Crossing) -> dict[str, Any]:
    return {
        "hop": crossing.hop,
        "upper": crossing.upper,
        "lower": crossing.lower,
        "asked": crossing.asked,
        "followed": crossing.followed,
        "ambiguous": crossing.ambiguous,
        "clock": {
            "source": crossing.clock,
            "bound_ns": crossing.bound_ns,
            "drift_ppm": round(crossing.drift_ppm, 6),
            "contradiction": crossing.contradiction or None,
        },
    }


def _not_observed(quality: Quality) -> Sequence[Mapping[str, str]]:
    return [
        {"layer": gap.layer, "reason": gap.reason, "merged_into": gap.merged_into}
        for gap in quality.not_observed
    ]


def _cost(cost: Cost) -> dict[str, Any]:
    return {
        "events": cost.events,
        "duration_ns": cost.duration_ns,
        "events_per_s": round(cost.events_per_s, 3),
        "bpf_ns": cost.bpf_ns,
        "recorder_cpu_ns": cost.recorder_cpu_ns,
    }


def _sorted(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: int(counts[name]) for name in sorted(counts)}
