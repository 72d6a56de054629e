# SPDX-License-Identifier: Apache-2.0
"""Dump: a Trace to text, one line an event in order of time.

``SECONDS.NANOSECONDS CPU TID POINT FIELD=VALUE ...`` with the points' and
fields' own names; identities and flags in hex, devices and calls by name, and
``op=`` after a block event's flags as blktrace writes them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iostrata.foreign import kept, shown
from iostrata.trace import layout
from iostrata.trace.metadata import EVENT_HEADER, is_hex
from iostrata.trace.points import Points
from iostrata.trace.read import Trace

CHUNK_EVENTS = 1 << 16
NAME_WIDTH = max(map(len, layout.POINTS))
CALLS = {
    value: name.removeprefix("CALL_").lower()
    for name, value in vars(layout).items()
    if name.startswith("CALL_")
}
THREADS = {
    value: name.removeprefix("THREAD_").lower()
    for name, value in vars(layout).items()
    if name.startswith("THREAD_")
}
UNSEEN = {
    value: name.removeprefix("UNSEEN_").lower()
    for name, value in vars(layout).items()
    if name.startswith("UNSEEN_")
}
DEVICES = frozenset({"dev", "old_dev", "root_dev"})

OPERATION_MASK = 0xFF
OPERATIONS = {0: "R", 1: "W", 2: "F", 3: "D", 5: "DE"}
REQ_SYNC, REQ_META, REQ_FUA, REQ_PREFLUSH, REQ_RAHEAD = (1 << bit for bit in (11, 12, 17, 18, 19))

Column = NDArray[Any]
Decode = Callable[[Any], str]


def dump(
    trace: Trace,
    *,
    points: Collection[str] | None = None,
    tids: Collection[int] | None = None,
    begin_ns: int | None = None,
    end_ns: int | None = None,
    limit: int | None = None,
) -> Iterator[str]:
    """One line an event, without newlines; at most ``limit`` of those that pass the filters.

    ``begin_ns``/``end_ns``: CLOCK_MONOTONIC, both ends included.
    """
    chosen = [
        found
        for name, found in trace.points.items()
        if len(found) and (points is None or name in points)
    ]
    lines = (
        line
        for ranges in chunks(chosen, begin_ns, end_ns)
        for line in chunk_lines(trace, ranges, tids)
    )
    return islice(lines, None if limit is None else min(limit, sys.maxsize))


def tells_of(trace: Trace, tid: int) -> bool:
    """Whether any event is of a thread, whatever number that is."""
    if tid >= 1 << 32:
        return False
    return any((found["tid"] == tid).any() for found in trace.points.values() if len(found))


Ranges = list[tuple[Points, int, int]]


def chunks(points: list[Points], begin_ns: int | None, end_ns: int | None) -> Iterator[Ranges]:
    """Ranges of each point's events that together follow one another in time.

    About CHUNK_EVENTS events each; events of the same nanosecond stay together.
    """
    times = [found.time_ns for found in points]
    nothing = [0] * len(times)
    everything = [len(column) for column in times]
    at = nothing if begin_ns is None else cut(times, nothing, everything, begin_ns - 1)
    last = everything if end_ns is None else cut(times, nothing, everything, end_ns)
    while any(begin < end for begin, end in zip(at, last, strict=True)):
        until = chunk_end(times, at, last)
        ranges = list(zip(points, at, until, strict=True))
        yield [(found, begin, end) for found, begin, end in ranges if begin < end]
        at = until


def chunk_end(times: list[NDArray[np.uint64]], at: list[int], last: list[int]) -> list[int]:
    """Where each point's range of the next chunk ends: the latest time that keeps it small."""
    low = min(
        int(column[begin])
        for column, begin, end in zip(times, at, last, strict=True)
        if begin < end
    )
    high = max(
        int(column[end - 1])
        for column, begin, end in zip(times, at, last, strict=True)
        if begin < end
    )
    until = cut(times, at, last, high)
    while low < high and sum(until) - sum(at) > CHUNK_EVENTS:
        middle = (low + high) // 2
        shorter = cut(times, at, last, middle)
        if sum(shorter) - sum(at) > CHUNK_EVENTS:
            high, until = middle, shorter
        elif sum(shorter) - sum(at) >= CHUNK_EVENTS // 2 or low == middle:
            return shorter if sum(shorter) > sum(at) else until
        else:
            low = middle
    return until


def cut(
    times: list[NDArray[np.uint64]], at: list[int], last: list[int], until_ns: int
) -> list[int]:
    """How far each point's events reach until a time, which is included."""
    if until_ns < 0:
        return at
    return [
        begin + int(np.searchsorted(column[begin:end], np.uint64(until_ns), "right"))
        for column, begin, end in zip(times, at, last, strict=True)
    ]


def chunk_lines(trace: Trace, ranges: Ranges, tids: Collection[int] | None) -> list[str]:
    lines: list[str] = []
    keys = []
    for found, begin, end in ranges:
        columns: dict[str, Column] = found.columns(*found.fields, begin=begin, end=end)
        cpus, slots = found.source(begin, end)
        if tids is not None:
            kept = np.isin(columns["tid"], list(tids))
            columns = {name: column[kept] for name, column in columns.items()}
            cpus, slots = cpus[kept], slots[kept]
        lines += point_lines(trace, found.name, columns)
        keys.append((slots, cpus, columns["time_ns"]))
    order = np.lexsort([np.concatenate(parts) for parts in zip(*keys, strict=True)])
    return [lines[index] for index in order.tolist()]


def point_lines(trace: Trace, point: str, columns: dict[str, Column]) -> list[str]:
    seconds, nanoseconds = np.divmod(columns["time_ns"], np.uint64(1_000_000_000))
    formats = ["%7d.%09d %3d %7d", f"{point:<{NAME_WIDTH}}"]
    values = [seconds, nanoseconds, columns["cpu"], columns["tid"]]
    texts = [column.tolist() for column in values]
    for field, column in columns.items():
        if field in EVENT_HEADER:
            continue
        decode = decoder(trace, point, field, column)
        formats.append(f"{field}={'%s' if decode else '0x%x' if is_hex(field) else '%d'}")
        texts.append(decoded(column, decode) if decode else column.tolist())
        if field == "flags" and point.startswith("block_"):
            formats.append("op=%s")
            texts.append(decoded(column, operation))
    return list(map(" ".join(formats).__mod__, zip(*texts, strict=True)))


def decoder(trace: Trace, point: str, field: str, column: Column) -> Decode | None:
    """How a field's numbers become names; None for those that stay numbers."""
    if field in DEVICES:
        return trace.facts.device_name
    if field == "call":
        return lambda value: CALLS.get(value, str(value))
    if field == "kind":
        kinds = UNSEEN if point == "unseen" else THREADS
        return lambda value: kinds.get(value, str(value))
    if field == "lost_point":
        names = {found.number: name for name, found in trace.points.items()}
        return lambda value: names.get(value, str(value))
    if column.dtype.kind not in "iu":
        return text
    return None


def decoded(column: Column, decode: Decode) -> list[str]:
    """Each value's text; a value is decoded once however often it is there."""
    values, where = np.unique(column, return_inverse=True)
    texts = [decode(value) for value in values.tolist()]
    return [texts[index] for index in where.tolist()]


def text(value: bytes) -> str:
    """A char array up to its first NUL, in quotes; what cannot be printed is escaped."""
    inside = kept(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{shown(inside)}"'


def operation(flags: int) -> str:
    """A block operation's flags as the kernel's own tracing abbreviates them: ``WS``, ``FF``.

    Linux: blk_fill_rwbs(); PREFLUSH first, FUA after the operation.
    """
    marks = ((REQ_FUA, "F"), (REQ_RAHEAD, "A"), (REQ_SYNC, "S"), (REQ_META, "M"))
    return "".join(
        [
            "F" if flags & REQ_PREFLUSH else "",
            OPERATIONS.get(flags & OPERATION_MASK, "N"),
            *(mark for bit, mark in marks if flags & bit),
        ]
    )
