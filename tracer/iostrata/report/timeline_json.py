# SPDX-License-Identifier: Apache-2.0
"""Report stage: timelines as JSON, schema ``iostrata.timeline/1``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import asdict

from iostrata import model
from iostrata.report.breakdown import LeftOver
from iostrata.report.document import Count, place, text


class LayerTime(Struct, frozen=True):
    """``unattributed`` has no machine and no segment."""

    layer: str
    machine: str | None
    segment: str | None
    time_ns: int


class Step(Struct, frozen=True):
    """One layer's uninterrupted hold, from the begin of its write, and the keys of its cause.

    A key that is not known is left out. ``sector``: of 512 bytes, on the disk ``device``.
    ``request_key``: the kernel's pointer, hexadecimal. ``transaction``: of the journal.
    ``more``: requests beside this one. ``offset_bytes``: in the file. ``connection``: of the
    call ``xid``, the client's port << 16 | the server's. ``unique``: the number of a file
    system's request of its daemon. ``hop``: between two machines, whose clocks' relation may be
    off by ``bound_ns``. ``behind``: another process that had what was waited for, in control
    group ``cgroup`` of version 2; ``idle``: nobody had.
    """

    layer: str
    machine: str | None
    segment: str | None
    begin_ns: int
    end_ns: int
    call: str | UnsetType = UNSET
    device: str | UnsetType = UNSET
    sector: int | UnsetType = UNSET
    size_bytes: int | UnsetType = UNSET
    request_key: str | UnsetType = UNSET
    transaction: int | UnsetType = UNSET
    more: Count | UnsetType = UNSET
    offset_bytes: int | UnsetType = UNSET
    xid: int | UnsetType = UNSET
    connection: int | UnsetType = UNSET
    unique: int | UnsetType = UNSET
    hop: str | UnsetType = UNSET
    bound_ns: int | UnsetType = UNSET
    behind: str | UnsetType = UNSET
    cgroup: str | UnsetType = UNSET


NAMES: Final = ("method", "process", "file_system", "device", "file")


class Write(Struct, frozen=True):
    """The ``id``-th ``of`` so many writes, chosen for ``why``.

    ``begin_ns``: CLOCK_MONOTONIC; ``realtime_ns``: since 1970. ``file``: its path when it was
    written, else its device and inode. ``caller_ns``: the caller's own time between the calls. The
    steps neither overlap nor leave a gap within a call: their durations add up to ``latency_ns``.
    ``op``: what it is instead of a synchronous write: ``read``, ``direct``. ``served``: of a read,
    the furthest place that it waited for.
    """

    id: Count
    of: Count
    why: str
    machine: str
    method: str
    process: str
    file_system: str
    device: str
    file: str
    tid: int
    size_bytes: int
    inode: int
    offset_bytes: int
    begin_ns: int
    realtime_ns: int | None
    latency_ns: int
    caller_ns: int
    layers: list[LayerTime]
    steps: list[Step]
    op: str | UnsetType = UNSET
    served: str | UnsetType = UNSET


class Quality(Struct, frozen=True):
    """``lost``: events by ``machine:point``. ``damage``: a line a defect of the recording.

    ``left_over``: what went on while these writes slept, and is part of no write.
    """

    lost: dict[str, Count]
    damage: list[str]
    left_over: list[LeftOver] | UnsetType = UNSET


class Timelines(Struct, frozen=True, tag_field="schema", tag="iostrata.timeline/1"):
    """Single writes, instant by instant."""

    writes: list[Write]
    quality: Quality


def render(timelines: Sequence[model.Timeline], quality: model.Quality) -> str:
    return text(document(timelines, quality))


def document(timelines: Sequence[model.Timeline], quality: model.Quality) -> Timelines:
    return Timelines(
        [_write(timeline) for timeline in timelines],
        Quality(
            dict(quality.lost),
            list(quality.damage),
            [LeftOver(**vars(left)) for left in quality.left_over] or UNSET,
        ),
    )


def _write(timeline: model.Timeline) -> Write:
    return Write(
        id=timeline.number,
        of=timeline.of,
        why=timeline.why,
        machine=timeline.machine,
        **{name: timeline.names[name] for name in NAMES},
        tid=timeline.tid,
        size_bytes=timeline.size_bytes,
        inode=timeline.inode,
        offset_bytes=timeline.offset_bytes,
        begin_ns=timeline.begin_ns,
        realtime_ns=timeline.realtime_ns,
        latency_ns=timeline.latency_ns,
        caller_ns=timeline.caller_ns,
        layers=[LayerTime(*place(lane.layer), lane.time_ns) for lane in timeline.lanes],
        steps=[
            Step(*place(step.layer), step.begin_ns, step.end_ns, **_evidence(step.evidence))
            for step in timeline.steps
        ],
        op=UNSET if timeline.op is model.Op.SYNC else timeline.op.value,
        served=timeline.served or UNSET,
    )


def _evidence(evidence: model.Evidence) -> dict[str, Any]:
    known = {name: value for name, value in asdict(evidence).items() if value is not None}
    if evidence.who:
        del known["who"]
        known["behind"] = evidence.who.process
        if evidence.who.cgroup:
            known["cgroup"] = evidence.who.cgroup
    if evidence.request_key is not None:
        known["request_key"] = f"{evidence.request_key:x}"
    if not evidence.more:
        del known["more"]
    return known
