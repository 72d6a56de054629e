# SPDX-License-Identifier: Apache-2.0
"""Report stage: a Comparison as JSON, schema ``iostrata.comparison/1``.

::

    {"schema": "iostrata.comparison/1",
     "confidence": 0.99, "resamples": n, "grouped_by": "" | "method" | ...,
     "groups": [{"name", "writes_a", "writes_b", "judged": true | false,
                 "total": {"a_ns", "b_ns", "change_ns", "low_ns", "high_ns", "share", "real"},
                 "p50": {the same}, "p99": {the same},
                 "layers": [{"layer", "machine", "segment", "unlike", the same seven}, ...]}, ...],
     "only_a": [group, ...], "only_b": [group, ...], "mixes": [column, ...],
     "limit": null | 0.1,
     "regressions": [{"group", "row", "share"}, ...],
     "lost": {"a": n, "b": n}, "damage": {"a": [line, ...], "b": [line, ...]}}

Layer ``unattributed`` is on machine null, in segment null. ``share`` is of A's total
mean, of A's own percentile for ``p50`` and ``p99``. ``real``: the confidence interval,
from ``low_ns`` to ``high_ns``, excludes 0. ``unlike``: only one recording observed it.
"""

from __future__ import annotations

import json
from typing import Any, Final

from iostrata.model import Change, ChangeRow, ComparedGroup, Comparison

SCHEMA: Final = "iostrata.comparison/1"


def render(comparison: Comparison) -> str:
    document = {
        "schema": SCHEMA,
        "confidence": comparison.confidence,
        "resamples": comparison.resamples,
        "grouped_by": comparison.grouped_by,
        "groups": [_group(group) for group in comparison.groups],
        "only_a": list(comparison.only_a),
        "only_b": list(comparison.only_b),
        "mixes": list(comparison.mixes),
        "limit": comparison.limit,
        "regressions": [
            {"group": one.group, "row": one.row, "share": round(one.share, 6)}
            for one in comparison.regressions
        ],
        "lost": {
            "a": sum(comparison.quality_a.lost.values()),
            "b": sum(comparison.quality_b.lost.values()),
        },
        "damage": {
            "a": list(comparison.quality_a.damage),
            "b": list(comparison.quality_b.damage),
        },
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _group(group: ComparedGroup) -> dict[str, Any]:
    return {
        "name": group.name,
        "writes_a": group.count_a,
        "writes_b": group.count_b,
        "judged": group.judged,
        "total": _change(group.total),
        "p50": _change(group.p50),
        "p99": _change(group.p99),
        "layers": [_row(row) for row in group.rows],
    }


def _row(row: ChangeRow) -> dict[str, Any]:
    return {
        "layer": row.layer.name if row.layer else "unattributed",
        "machine": row.layer.machine if row.layer else None,
        "segment": row.layer.segment if row.layer else None,
        "unlike": row.unlike,
        **_change(row.change),
    }


def _change(change: Change) -> dict[str, float | bool]:
    return {
        "a_ns": round(change.a_ns, 3),
        "b_ns": round(change.b_ns, 3),
        "change_ns": round(change.change_ns, 3),
        "low_ns": round(change.low_ns, 3),
        "high_ns": round(change.high_ns, 3),
        "share": round(change.share, 6),
        "real": change.real,
    }
