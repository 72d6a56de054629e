# SPDX-License-Identifier: Apache-2.0
"""Hop fuse: a machine's trace in, the requests that its daemons took up and answered out."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, at, changes, columns_of, one_of, order_of, pair_key
from iostrata.hops.hop import Serves
from iostrata.stitch import FUSE_REQUEST, Calls, Pieces, fuse_calls_of, whole
from iostrata.trace import Trace

# FSYNC, FSYNCDIR and SYNCFS of enum fuse_opcode (linux/fuse.h).
SYNCS: Final = (20, 30, 50)
NOBODY: Final = -1


def serves_of(lower: Trace) -> tuple[Serves, Pieces]:
    """A piece is the time of the thread that answered, from when the request was taken up.

    Of a thread that had several at once it is not known for which it did what: those pieces are
    nobody's.
    """
    calls = fuse_calls_of(whole(lower))
    taken = taken_up(lower, calls)
    rows = np.flatnonzero(taken >= 0)
    calls, taken = calls.rows(rows), taken[rows]
    number, none = np.arange(len(calls)), np.zeros(len(calls), np.int64)
    tid = np.where(at_once(calls.end_tid, taken, calls.end_ns), NOBODY, calls.end_tid)
    pieces = Pieces(number, tid, taken, calls.end_ns, none, none)
    serves = Serves(
        begin_ns=taken,
        end_ns=calls.end_ns,
        key=calls.key,
        group=calls.device_key,
        shared=np.zeros(len(calls), np.bool_),
        piece=number,
        agent=none,
        flush=one_of(calls.operation - FUSE_REQUEST, SYNCS),
        offset_bytes=calls.offset_bytes,
        size_bytes=calls.size_bytes,
    )
    return serves, pieces


def at_once(tid: Ints, begin_ns: Ints, end_ns: Ints) -> NDArray[np.bool_]:
    """Which of some threads' intervals share time with another one of the same thread."""
    order = order_of(tid, begin_ns)
    tid, begin, end = tid[order], begin_ns[order], end_ns[order]
    # One running maximum for all: each thread's times are moved behind the last one's.
    first = changes(tid)
    moved = (np.cumsum(first) - 1) * (int(end.max(initial=0)) + 1)
    before = np.maximum.accumulate(end + moved) - moved
    found = np.zeros(len(tid), np.bool_)
    found[1:] = ~first[1:] & (begin[1:] < before[:-1])
    found[:-1] |= ~first[1:] & (end[:-1] > begin[1:])
    several = np.zeros(len(tid), np.bool_)
    several[order] = found
    return several


def taken_up(lower: Trace, calls: Calls) -> Ints:
    """When a daemon took each request up, -1: it is not known.

    What was spliced bears no number: it is what the thread answered next, unless it took
    several before it answered one.
    """
    takes = columns_of(lower.points["fuse_take"], "tid", "unique", "dev")
    time, unique, dev = takes["time_ns"], takes["unique"], takes["dev"]
    known = np.flatnonzero(unique != 0)
    read = AsOf(pair_key(unique, dev)[known], time[known]).at_or_before(calls.key, calls.end_ns)
    read = at(known, read)
    last = AsOf(pair_key(takes["tid"], dev), time).at_or_before(
        pair_key(calls.end_tid, calls.device_key), calls.end_ns
    )
    once = np.bincount(last[last >= 0], minlength=len(time)) == 1
    spliced = (last >= 0) & (at(unique, last) == 0) & (at(once.astype(np.int64), last) > 0)
    when = at(time, np.where(read >= 0, read, np.where(spliced, last, -1)))
    return np.where(when >= calls.send_ns, when, -1)
