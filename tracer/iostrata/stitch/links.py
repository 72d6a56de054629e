# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: io_uring's chains in, when what is linked began, and by which event it was
submitted, out.

What is linked (IOSQE_IO_LINK) behind another request is submitted with it, but begins when that is
complete. The writes straight before a sync that it makes durable are part of it: it begins with the
first of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Containing, Ints, at, columns_of, one_of, order_of
from iostrata.stitch.calls import PLAIN, SYNC_FILE_RANGE_WAITS, method_of_write
from iostrata.stitch.completions import UNLINKED, completion_of, completions, files_of
from iostrata.stitch.opcodes import (
    RWF_OF_LINKED,
    RWF_OF_SILENT,
    URING_FSYNC,
    URING_SYNC_FILE_RANGE,
    URING_WRITES,
)
from iostrata.stitch.taken import taken_up
from iostrata.stitch.window import Columns, Window, whole
from iostrata.trace import Trace
from iostrata.trace.layout import CALL_IO_URING_ENTER

SUBMIT: Final = "io_uring_submit_req"
TOLD: Final = ("tid", "request_key", "opcode", "rwf")


@dataclass(frozen=True, eq=False)
class Links:
    """Submissions of requests that began behind them, one row each: in order of time.

    ``row``: of the event, among the trace's; ``submitted``: the event, its ``TOLD``.
    """

    row: Ints
    begin_ns: Ints
    submitted: Columns


def links_of(trace: Trace) -> Links:
    """Those of all of a trace."""
    return whole(trace).once(_links)


def submissions_in(window: Window, *fields: str) -> Columns:
    """The window's submissions, of ``TOLD``; before them, those of what begins in it only."""
    told, links = window.columns(SUBMIT, *fields), links_of(window.trace)
    early = links.submitted["time_ns"] < window.begin_ns
    early &= (links.begin_ns >= window.begin_ns) & (links.begin_ns <= window.end_ns)
    if not early.any():
        return told
    return {
        name: np.concatenate([links.submitted[name][early], column])
        for name, column in told.items()
    }


def block_of(window: Window, key: Ints, begin_ns: Ints) -> Ints:
    """By which control block of libaio (row of ``aio_submit``) requests were submitted that began
    at a time, as their call did; -1: not seen."""
    blocks = window.columns("aio_submit", "iocb_key", "enter_ns")
    found = AsOf(blocks["iocb_key"], blocks["enter_ns"]).at_or_after(key, begin_ns)
    return np.where(at(blocks["enter_ns"], found) == begin_ns, found, -1)


def submission_of(window: Window, key: Ints, begin_ns: Ints) -> Ints:
    """By which of ``submissions_in`` (row) requests were submitted that began at a time; -1: not
    seen.

    They began then, or with the call that submits; or later, where they are linked.
    """
    submitted = submissions_in(window, "request_key")
    found = AsOf(submitted["request_key"], submitted["time_ns"]).at_or_after(key, begin_ns)
    links = links_of(window.trace)
    if not len(links.row):
        return found
    linked = AsOf(links.submitted["request_key"], links.begin_ns).at_or_before(key, begin_ns)
    linked = np.where(at(links.begin_ns, linked) == begin_ns, linked, -1)
    time = at(links.submitted["time_ns"], linked)
    row = AsOf(submitted["request_key"], submitted["time_ns"]).at_or_before(key, time)
    return np.where(linked >= 0, row, found)


def completed_last(window: Window, tid: Ints, time_ns: Ints) -> Ints:
    """When threads completed a request last before some times; -1: never. What is linked to that
    they go on with."""
    events = (completions(window, "tid"), window.columns(UNLINKED, "tid"))
    ended = {name: np.concatenate([one[name] for one in events]) for name in ("tid", "time_ns")}
    return at(ended["time_ns"], AsOf(ended["tid"], ended["time_ns"]).at_or_before(tid, time_ns))


def linked_behind(submitted: Columns, call: Ints) -> Ints:
    """What each submission is linked behind (row), -1: nothing that is recorded. ``call``: by which
    each was made.

    A chain ends with the call that submits it, whatever its last request says.
    """
    order = order_of(submitted["tid"], submitted["time_ns"])
    tid, flags, call = submitted["tid"][order], submitted["rwf"][order], call[order]
    linked = (flags[:-1] & RWF_OF_LINKED) != 0
    linked &= (tid[1:] == tid[:-1]) & (call[1:] == call[:-1])
    found = np.full(len(order), -1)
    found[order[1:]] = np.where(linked, order[:-1], -1)
    return found


def _links(window: Window) -> Links:
    trace = window.trace
    flags = columns_of(trace.points[SUBMIT], "rwf")["rwf"]
    if not (flags & RWF_OF_LINKED).any() and not len(trace.points[UNLINKED]):
        nothing = np.zeros(0, np.int64)
        return Links(nothing, nothing, dict.fromkeys(("time_ns", *TOLD), nothing))
    files = ("inode", "dev", "open_flags")
    submitted = columns_of(trace.points[SUBMIT], *TOLD, *files)
    completed = completions(window, "request_key", *files)
    key, time = submitted["request_key"], submitted["time_ns"]
    done = completion_of(key, time, completed["request_key"], completed["time_ns"])
    known = files_of(submitted, completed, done)
    calls = columns_of(trace.points["syscall"], "tid", "enter_ns", "call")
    rows = np.flatnonzero(calls["call"] == CALL_IO_URING_ENTER)
    enter = calls["enter_ns"][rows]
    inside = Containing(calls["tid"][rows], enter, calls["time_ns"][rows])
    call = inside.find(submitted["tid"], time)
    behind = linked_behind(submitted, call)
    complete, unlinked = at(completed["time_ns"], done), _unlinked(trace, submitted)
    # What is not recorded is in between.
    behind[unlinked >= 0] = -1
    since = np.maximum(_ended(window, submitted, complete, behind), unlinked)
    # Nothing tells of two rings of one thread of the kernel: what was linked is not complete yet.
    since = np.where((complete >= 0) & (since > complete), -1, since)
    begin = np.maximum(time, since)
    first = _first(behind, _part(submitted, known, behind))
    # The call that submits a request is part of it.
    moved = np.flatnonzero((begin > time)[first])
    told = {name: submitted[name][moved] for name in ("time_ns", *TOLD)}
    return Links(moved, begin[first][moved], told)


def _ended(window: Window, submitted: Columns, complete_ns: Ints, behind: Ints) -> Ints:
    """When what each submission is linked behind was complete; -1: nothing tells.

    Of what tells of its failure only, and has told of none, it was when this one was taken up.
    """
    ended = at(complete_ns, behind)
    silent = (behind >= 0) & (ended < 0) & ((submitted["rwf"][behind] & RWF_OF_SILENT) != 0)
    rows = np.flatnonzero(silent)
    if len(rows):
        key, time = submitted["request_key"][rows], submitted["time_ns"][rows]
        ended[rows] = taken_up(window, key, time).begin_ns
    return ended


def _unlinked(trace: Trace, submitted: Columns) -> Ints:
    """When what is not recorded, and each submission was linked behind, was complete; -1: never."""
    key, time = submitted["request_key"], submitted["time_ns"]
    told = columns_of(trace.points[UNLINKED], "request_key")
    row = AsOf(told["request_key"], told["time_ns"]).at_or_after(key, time)
    since = at(told["time_ns"], row)
    return np.where(since < AsOf(key, time).following(), since, -1)


def _part(submitted: Columns, known: Columns, behind: Ints) -> NDArray[np.bool_]:
    """Of which of the submissions what they are linked behind is a part, or may be of the sync that
    they are before: a write, to the same file, that nothing makes durable by itself."""
    opcode, rwf = submitted["opcode"], submitted["rwf"]
    plain = one_of(opcode, URING_WRITES) & (method_of_write(known["open_flags"], rwf) == PLAIN)
    waits = (opcode == URING_SYNC_FILE_RANGE) & ((rwf & SYNC_FILE_RANGE_WAITS) != 0)
    found: NDArray[np.bool_] = (behind >= 0) & plain[behind]
    found &= plain | (opcode == URING_FSYNC) | waits
    for name in ("inode", "dev"):
        found &= known[name] == known[name][behind]
    return found


def _first(behind: Ints, part: NDArray[np.bool_]) -> Ints:
    """The first of which each submission consists (row)."""
    first = np.where(part, behind, np.arange(len(behind)))
    while not np.array_equal(further := first[first], first):
        first = further
    return first
