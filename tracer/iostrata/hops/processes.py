# SPDX-License-Identifier: Apache-2.0
"""Hops: a machine's trace in, what processes of its user space wrote for others out."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from iostrata.columns import Ints, columns_of, distinct, joined, pair_key
from iostrata.hops.hop import Serves
from iostrata.stitch import NO_PIECES, Pieces, pieces_of, submissions_of
from iostrata.trace import Trace
from iostrata.trace.layout import CALL_FDATASYNC, CALL_FSYNC, CALL_PWRITEV2, CALL_WRITE

_NONE, _NEVER = np.zeros(0, np.int64), np.zeros(0, np.bool_)
NO_SERVES: Final = Serves(_NONE, _NONE, _NONE, _NONE, _NEVER, _NONE, _NONE, _NEVER, _NONE, _NONE)


def processes_of(trace: Trace, kind: int, name: bytes = b"") -> Ints:
    """Those whose threads were recorded as of that kind, and have that name if one is given."""
    threads = trace.points["thread"]
    columns = columns_of(threads, "tgid", "kind")
    mine = columns["kind"] == kind
    if name:
        mine &= threads["comm"] == name
    return distinct(columns["tgid"][mine])


def served_by(lower: Trace, processes: Ints) -> tuple[Serves, Pieces]:
    """Each of their calls and requests, by the place in the file and the size."""
    if not len(processes):
        return NO_SERVES, NO_PIECES
    parts = (_calls(lower, processes), _requests(lower, processes))
    serves = Serves(**joined([serves for serves, _ in parts]))
    pieces = Pieces(**joined([pieces for _, pieces in parts]))
    number = np.arange(len(serves))
    return replace(serves, piece=number), replace(pieces, unit=number)


def _calls(lower: Trace, processes: Ints) -> tuple[Serves, Pieces]:
    calls = columns_of(
        lower.points["syscall"], "enter_ns", "tid", "tgid", "call", "dev", "inode",
        "offset_bytes", "result",
    )  # fmt: skip
    call = calls["call"]
    flush = (call == CALL_FSYNC) | (call == CALL_FDATASYNC)
    writes = (call >= CALL_WRITE) & (call <= CALL_PWRITEV2)
    own = np.isin(calls["tgid"], processes)
    rows = np.flatnonzero(own & (flush | writes) & (calls["result"] >= 0))
    calls, flush = {name: column[rows] for name, column in calls.items()}, flush[rows]
    none = np.zeros(len(rows), np.int64)
    serves = Serves(
        begin_ns=calls["enter_ns"],
        end_ns=calls["time_ns"],
        key=pair_key(calls["offset_bytes"], calls["result"]),
        group=pair_key(calls["inode"], calls["dev"]),
        shared=flush,
        piece=none,
        agent=calls["tgid"],
        flush=flush,
        offset_bytes=calls["offset_bytes"],
        size_bytes=np.where(flush, 0, calls["result"]),
    )
    return serves, Pieces(none, calls["tid"], serves.begin_ns, serves.end_ns, calls["dev"], none)


def _requests(lower: Trace, processes: Ints) -> tuple[Serves, Pieces]:
    """Those of aio=native and aio=io_uring."""
    found = submissions_of(lower)
    own = np.isin(found.tgid, processes)
    found = found.rows(np.flatnonzero(own & (found.end_ns >= 0) & (found.result >= 0)))
    serves = Serves(
        begin_ns=found.begin_ns,
        end_ns=found.end_ns,
        key=pair_key(found.offset_bytes, found.result),
        group=pair_key(found.inode, found.device_key),
        shared=found.flush,
        piece=np.zeros(len(found), np.int64),
        agent=found.tgid,
        flush=found.flush,
        offset_bytes=found.offset_bytes,
        size_bytes=np.where(found.flush, 0, found.result),
    )
    return serves, pieces_of(found)
