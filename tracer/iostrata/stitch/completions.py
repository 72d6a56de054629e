# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: io_uring's events in, which requests were completed when out.

Where a ring has no room for a completion, the kernel keeps it, and tells of the ring and of what
the program calls the request (``user_data``), which programs may call several alike: what nothing
tells apart is tied to none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from iostrata.columns import AsOf, Ints, at, columns_of, distinct, one_of, order_of
from iostrata.stitch.window import Columns, Window, whole
from iostrata.trace import Trace

POINT: Final = "io_uring_complete"
KEPT: Final = "io_uring_cqe_overflow"
# Of what is not recorded, if something that is was linked behind it.
UNLINKED: Final = "io_uring_unlinked"
# What a request's submission tells as its completion does.
ALIKE: Final = ("request_key", "inode", "dev", "open_flags", "opcode", "size_bytes", "rwf")


@dataclass(frozen=True, eq=False)
class Kept:
    """Completions that the kernel kept. ``done``: those of which it is known whose they are, as
    columns of ``io_uring_complete``; ``unsure``: rows of submissions that others may be of."""

    done: Columns
    unsure: Ints


def completions(window: Window, *fields: str) -> Columns:
    """As of the point ``io_uring_complete``; behind them, those for which a ring had no room."""
    told = window.columns(POINT, *fields)
    done = kept(window.trace).done
    if not len(done["time_ns"]):
        return told
    rows = (done["time_ns"] >= window.begin_ns) & (done["time_ns"] <= window.end_ns)
    return {name: np.concatenate([column, done[name][rows]]) for name, column in told.items()}


def completion_of(key: Ints, begin_ns: Ints, done_key: Ints, done_ns: Ints) -> Ints:
    """The row that tells of each submission's completion, -1: none does.

    Of one without a completion of its own, what follows is of the next one with its key.
    """
    done = AsOf(done_key, done_ns).at_or_after(key, begin_ns)
    following = AsOf(key, begin_ns).following()
    return np.where(at(done_ns, done) > following, -1, done)


def files_of(submitted: Columns, completed: Columns, done: Ints) -> Columns:
    """The files of submissions, by their completions (row): they need not be known before."""
    return {
        name: np.where(
            (submitted[name] != 0) | (done < 0), submitted[name], at(completed[name], done)
        )
        for name in ("inode", "dev", "open_flags")
    }


def kept(trace: Trace) -> Kept:
    """Of all of a trace."""
    return whole(trace).once(_kept)


def _kept(window: Window) -> Kept:
    trace = window.trace
    events = trace.points[KEPT]
    if not len(events):
        nothing = np.zeros(0, np.int64)
        return Kept(dict.fromkeys(("time_ns", "tid", "result", *ALIKE), nothing), nothing)
    full = columns_of(events, "tid", "completion_tag", "result")
    begun = columns_of(trace.points["io_uring_submit_req"], "result", *ALIKE)
    done = columns_of(trace.points[POINT], "request_key")
    key, time = begun["request_key"], begun["time_ns"]
    told = completion_of(key, time, done["request_key"], done["time_ns"])
    tag = begun["result"] & 0xFFFF_FFFF
    rows = np.flatnonzero((told < 0) & one_of(tag, distinct(full["completion_tag"])))
    until = AsOf(key, time).following()[rows]
    event, unsure = _whose(tag[rows], time[rows], until, full["completion_tag"], full["time_ns"])
    tied = np.flatnonzero(event >= 0)
    event = event[tied]
    columns = {name: begun[name][rows[tied]] for name in ALIKE}
    columns |= {name: full[name][event] for name in ("time_ns", "tid", "result")}
    return Kept(columns, rows[unsure])


def _whose(
    tag: Ints, begin_ns: Ints, until_ns: Ints, full_tag: Ints, full_ns: Ints
) -> tuple[Ints, Ints]:
    """The completion (row) that is the only one that each request's can be, -1: there is none; and
    the requests (rows) that are under way when there is one that may be another's.

    In order of time: what has its completion takes no other one's. There are few of these.
    """
    found, unsure = np.full(len(tag), -1), np.zeros(len(tag), np.bool_)
    order = order_of(np.append(tag, full_tag), np.append(begin_ns, full_ns))
    flying: dict[int, list[int]] = {}
    last: dict[int, int] = {}
    for row in order.tolist():
        if row < len(tag):
            flying.setdefault(int(tag[row]), []).append(row)
            continue
        event = row - len(tag)
        name, now = int(full_tag[event]), int(full_ns[event])
        able = [one for one in flying.get(name, ()) if until_ns[one] > now]
        before = last.pop(name, -1)
        if not able and before >= 0 and until_ns[before] > now:
            # Of the two, one is of a request that is not recorded.
            found[before], unsure[before] = -1, True
        if len(able) == 1:
            found[able[0]], last[name] = event, able[0]
            able = []
        unsure[able] = True
        flying[name] = able
    return found, np.flatnonzero(unsure & (found < 0))
