# SPDX-License-Identifier: Apache-2.0
"""Report stage: timelines as JSON, schema ``iostrata.timeline/1``.

::

    {"schema": "iostrata.timeline/1",
     "writes": [{"id": n, "of": n, "why", "machine", "method", "process", "file_system",
                 "device", "tid", "size_bytes", "inode", "offset_bytes",
                 "begin_ns", "realtime_ns": null | n, "latency_ns", "caller_ns",
                 "layers": [{"layer", "machine", "segment", "time_ns"}, ...],
                 "steps": [{"layer", "machine", "segment", "begin_ns", "end_ns",
                            "call", "device", "sector", "size_bytes", "request_key",
                            "transaction", "more", "offset_bytes", "xid", "connection",
                            "hop", "bound_ns"}, ...]}, ...],
     "quality": {"lost": {"machine:point": n}, "damage": [line, ...]}}

``begin_ns`` of a write is CLOCK_MONOTONIC, of a step it counts from the begin of
its write. Steps neither overlap nor leave a gap within a call: their durations
add up to ``latency_ns``. Layer ``unattributed`` is on machine null, in segment null.
Keys that are not known are left out; ``request_key`` is hexadecimal text;
``connection`` is the client's port << 16 | the server's. Steps between two machines
have the ``hop``, and how far their clocks' relation may be off (``bound_ns``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from iostrata.model import Evidence, Layer, Quality, Timeline

SCHEMA: Final = "iostrata.timeline/1"


def render(timelines: Sequence[Timeline], quality: Quality) -> str:
    document = {
        "schema": SCHEMA,
        "writes": [_write(timeline) for timeline in timelines],
        "quality": {"lost": dict(quality.lost), "damage": list(quality.damage)},
    }
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _write(timeline: Timeline) -> dict[str, Any]:
    return {
        "id": timeline.number,
        "of": timeline.of,
        "why": timeline.why,
        "machine": timeline.machine,
        **timeline.names,
        "tid": timeline.tid,
        "size_bytes": timeline.size_bytes,
        "inode": timeline.inode,
        "offset_bytes": timeline.offset_bytes,
        "begin_ns": timeline.begin_ns,
        "realtime_ns": timeline.realtime_ns,
        "latency_ns": timeline.latency_ns,
        "caller_ns": timeline.caller_ns,
        "layers": [{**_layer(lane.layer), "time_ns": lane.time_ns} for lane in timeline.lanes],
        "steps": [
            {
                **_layer(step.layer),
                "begin_ns": step.begin_ns,
                "end_ns": step.end_ns,
                **_evidence(step.evidence),
            }
            for step in timeline.steps
        ],
    }


def _layer(layer: Layer | None) -> dict[str, str | None]:
    if layer is None:
        return {"layer": "unattributed", "machine": None, "segment": None}
    return {"layer": layer.name, "machine": layer.machine, "segment": layer.segment}


def _evidence(evidence: Evidence) -> dict[str, Any]:
    known = {name: value for name, value in asdict(evidence).items() if value is not None}
    if evidence.request_key is not None:
        known["request_key"] = f"{evidence.request_key:x}"
    if not evidence.more:
        del known["more"]
    return known
