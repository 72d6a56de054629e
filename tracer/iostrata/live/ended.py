# SPDX-License-Identifier: Apache-2.0
"""Live: events of calls and requests in, how many made something durable, by what they were, out.

Of a busy second only a part is analysed, but of all of it these are counted. A kind is a method
and about how long its call, or its request, took: of a write that was analysed it is known how many
ended like it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import (
    NEVER,
    AsOf,
    Ints,
    are_all,
    at,
    distinct,
    one_of,
    order_of,
    records,
    some_records,
)
from iostrata.model import Writes
from iostrata.stitch import (
    IO_URING,
    LIBAIO,
    METHODS,
    Told,
    completion_of,
    completion_of_copied,
    enters_of,
    process_of,
    requested_durably,
    servers_of,
    simply_durable,
)
from iostrata.trace import Keep, Snapshot, Trace

UNKNOWN: Final = -1
"""The kind of a write that neither a system call nor a request ended, or a rare one."""
EARLIER: Final = -2
"""Of one whose request was complete, and counted, in the interval before."""
LENGTHS: Final = 64
CALL: Final = 0
DONE: Final = 0x80
"""Of a request, its completion."""
DURABLE: Final = np.dtype(
    [("time_ns", "<i8"), ("begin_ns", "<i8"), ("key", "<i8"), ("size_bytes", "<i8"),
     ("tid", "<u4"), ("tgid", "<u4"), ("method", "<i4"), ("step", "<i4")]
)  # fmt: skip
"""A call that has ended, a request that was submitted (``step``: its engine), or is complete."""


class Kind(NamedTuple):
    """How many calls there were of it, and for how long in all."""

    calls: int
    time_ns: int


def _calls(calls: NDArray[Any]) -> NDArray[np.void]:
    rows, method = simply_durable(calls)
    found = np.zeros(len(rows), DURABLE)
    found["begin_ns"], found["method"] = calls["enter_ns"][rows], method
    for name in ("time_ns", "tgid"):
        found[name] = calls[name][rows]
    return found


def _requests(
    point: str, step: int, begin: str, key: str, size: str, events: NDArray[Any]
) -> NDArray[np.void]:
    some, method = requested_durably(point, events)
    found = np.zeros(len(some), DURABLE)
    found["method"], found["step"] = method, step
    rows = slice(None) if are_all(some, len(events)) else some
    told = {"time_ns": "time_ns", "tid": "tid", "begin_ns": begin, "key": key, "size_bytes": size}
    for name, column in told.items():
        found[name] = events[column][rows]
    return found


def _told_by(point: str, step: int, begin: str, key: str, size: str) -> tuple[str, Keep]:
    return point, partial(_requests, point, step, begin, key, size)


KEPT: Final[Mapping[str, Keep]] = dict([
    ("syscall", _calls),
    _told_by("io_uring_submit_req", IO_URING, "time_ns", "request_key", "size_bytes"),
    _told_by("io_uring_complete", IO_URING | DONE, "time_ns", "request_key", "result"),
    _told_by("aio_submit", LIBAIO, "enter_ns", "iocb_key", "size_bytes"),
    _told_by("aio_complete", LIBAIO | DONE, "time_ns", "iocb_key", "result"),
])  # fmt: skip
"""What is kept of events, by their points: of those that made something durable, ``DURABLE``."""


class UnderWay:
    """Requests that were submitted, and are not complete yet."""

    def __init__(self) -> None:
        self._begun = {engine: np.zeros(0, DURABLE) for engine in (IO_URING, LIBAIO)}

    def ended(self, told: NDArray[np.void]) -> NDArray[np.void]:
        """Of what is told next, the calls, and the requests that are complete with it."""
        step = np.ascontiguousarray(told["step"])
        found = [some_records(told, step == CALL)]
        for engine, before in self._begun.items():
            begun = records([before, some_records(told, step == engine)])
            done = np.flatnonzero(step == engine | DONE)
            if not len(begun):
                continue
            mine, theirs = _told(begun), _told(told, done)
            if engine == LIBAIO:
                row, _ = completion_of_copied(mine, theirs)
            else:
                row = completion_of(mine.key, mine.time_ns, theirs.key, theirs.time_ns)
            over = row >= 0
            ended = some_records(begun, over)
            row = done[row[over]]
            ended["time_ns"] = told["time_ns"][row]
            ended["method"] = told["method"][row] + engine * len(METHODS)
            found.append(ended)
            # Of one without a completion, whose key is used again, none is told any more.
            again = AsOf(mine.key, mine.time_ns).following() < NEVER
            self._begun[engine] = some_records(begun, ~over & ~again)
        return records(found)


def _told(rows: NDArray[np.void], some: Ints | slice = slice(None)) -> Told:
    columns = (rows[name][some] for name in ("key", "begin_ns", "size_bytes"))
    return Told(*map(np.ascontiguousarray, columns))


class Ended:
    """``ended``: in the time of a snapshot, looked at or not; ``before``: in that of the last."""

    def __init__(
        self, ended: NDArray[np.void], before: NDArray[np.void], snapshot: Snapshot
    ) -> None:
        ended = _own(ended, snapshot.trace)
        self._kind, self._took_ns = _kinds(ended), ended["time_ns"] - ended["begin_ns"]
        old, new = (_during(rows, snapshot) for rows in (before, ended))
        some = records([old, new])
        kind = np.append(np.full(len(old), EARLIER), _kinds(new))
        # What it took is told by its completion; who waited for that has it with a call.
        calls = enters_of(snapshot.trace)
        call = calls.collecting(some["tid"].astype(np.int64), some["time_ns"])
        call[some["step"] != IO_URING] = -1
        end_ns = np.where(call >= 0, at(calls.end_ns, call), some["time_ns"])
        order = order_of(end_ns, some["begin_ns"])
        self._end_ns, self._looked = end_ns[order], kind[order]

    def kinds(self) -> dict[int, Kind]:
        """All that there are."""
        found = {}
        for number in distinct(self._kind).tolist():
            took_ns = self._took_ns[self._kind == number]
            found[number] = Kind(len(took_ns), int(took_ns.sum()))
        return found

    def kind_of(self, writes: Writes) -> Ints:
        """Of those that were looked at: of those that end at once, the first to begin is the first
        that was asked for."""
        order = order_of(writes.end_ns, writes.begin_ns)
        end_ns = writes.end_ns[order]
        row = np.searchsorted(self._end_ns, end_ns)
        row += np.arange(len(row)) - np.searchsorted(end_ns, end_ns)
        row = np.minimum(row, len(self._end_ns))
        told = np.append(self._end_ns, -1)[row] == end_ns
        found = np.full(len(row), UNKNOWN)
        found[order] = np.where(told, np.append(self._looked, UNKNOWN)[row], UNKNOWN)
        return found


def _own(rows: NDArray[np.void], trace: Trace) -> NDArray[np.void]:
    """Without what processes that serve others made durable."""
    others = servers_of(trace)
    if not len(others):
        return rows
    asked = process_of(trace, rows["tid"].astype(np.int64), rows["time_ns"])
    process = np.where(rows["step"] == CALL, rows["tgid"], asked)
    return some_records(rows, ~one_of(process, others))


def _during(rows: NDArray[np.void], snapshot: Snapshot) -> NDArray[np.void]:
    time_ns = rows["time_ns"]
    return some_records(rows, (time_ns >= snapshot.begin_ns) & (time_ns <= snapshot.end_ns))


def _kinds(rows: NDArray[np.void]) -> Ints:
    """None is twice as long as another of its kind."""
    took_ns = np.maximum(rows["time_ns"] - rows["begin_ns"], 1)
    kinds: Ints = rows["method"] * LENGTHS + np.log2(took_ns).astype(np.int64)
    return kinds
