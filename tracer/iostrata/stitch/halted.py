# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: io_uring's chains in, while who was to go on with each was elsewhere out.

What is complete is taken by its submitter, in the task work that lets what is linked behind it
begin. A signal, a freezer, or a quota behind its calls, stops that; the disk goes on. And a ring
may let it do so in its calls of io_uring_enter only (IORING_SETUP_DEFER_TASKRUN).
"""

from __future__ import annotations

import numpy as np

from iostrata.columns import AsOf, Ints, at, one_of, overlapping, pair_key
from iostrata.stitch.calls import are_direct
from iostrata.stitch.chains import Chains
from iostrata.stitch.completions import completions
from iostrata.stitch.enters import enters_in
from iostrata.stitch.links import submissions_in
from iostrata.stitch.opcodes import RWF_OF_LINKED
from iostrata.stitch.pools import Pools
from iostrata.stitch.runs import Runs
from iostrata.stitch.serving import Service
from iostrata.stitch.spans import SpanList
from iostrata.stitch.taken import handed_at
from iostrata.stitch.unsaid import unsaid
from iostrata.stitch.wakeup import Sleeps
from iostrata.stitch.window import Window


def halted(
    spans: SpanList,
    window: Window,
    requests: Ints,
    pools: Pools,
    runs: Runs,
    sleeps: Sleeps,
    ends: AsOf,
    ended_ns: Ints,
) -> tuple[Service, Service]:
    """Adds when pieces waited for who was, or for workers that said nothing of what they ran.

    When they needed that one to go on, whatever it was at; and when those workers, of whom that one
    is named.

    ``requests``: the pieces that are requests; ``ended_ns``: when anything ended that one waited
    for, and ``ends``: that by piece and time.
    """
    submitted = submissions_in(window, "rwf")
    if not (submitted["rwf"] & RWF_OF_LINKED).any():
        none = Service(*np.zeros((4, 0), np.int64))
        return none, none
    pieces = window.pieces
    done = completions(window, "request_key", "tid", "open_flags")
    piece = Chains(window, requests).find(done["request_key"], done["time_ns"])
    # Its own is collected with it.
    part = (piece >= 0) & (at(pieces.request_key, piece) != done["request_key"])
    rows = np.flatnonzero(part & (at(pieces.tid, piece) == done["tid"]))
    piece, tid, taken_ns = piece[rows], done["tid"][rows], done["time_ns"][rows]
    since_ns = at(ended_ns, ends.at_or_before(piece, taken_ns))
    calls = window.once(enters_in)
    handed_ns = handed_at(window, done["request_key"][rows], taken_ns)
    # One that says that it is at it is through with it only then, be it on its CPU; but disks end
    # what goes past the page cache.
    run = AsOf(runs.piece, runs.end_ns).at_or_before(piece, taken_ns)
    by_it = at(runs.handed_ns, run) >= np.maximum(handed_ns, pieces.begin_ns[piece])
    by_it &= ~are_direct(window.trace, done["open_flags"][rows])
    since_ns = np.where(by_it, np.maximum(since_ns, at(runs.until_ns, run)), since_ns)
    # What one ran without a word may have been complete before anything tells that it is.
    silent = np.flatnonzero((handed_ns >= pieces.begin_ns[piece]) & (since_ns < handed_ns))
    ends_of = unsaid(window, pools, sleeps, tid[silent], taken_ns[silent])
    kept_ns, since_ns[silent] = ends_of.kept_ns, ends_of.complete_ns
    ran_from_ns = pools.run_from(tid[silent], handed_ns[silent], since_ns[silent])
    found = ran_from_ns < since_ns[silent]
    kept_ns = np.where(found, since_ns[silent], kept_ns)
    workers = Service(piece[silent], tid[silent], handed_ns[silent], kept_ns)
    begun_ns = np.where(found, ran_from_ns, kept_ns)
    spans.add(workers.owner, "wakeup.worker", workers.begin_ns, begun_ns)
    spans.add(workers.owner, "syscall", begun_ns, workers.end_ns)
    known = np.flatnonzero((since_ns >= pieces.begin_ns[piece]) & (since_ns < taken_ns))
    piece, tid, since_ns, taken_ns = (one[known] for one in (piece, tid, since_ns, taken_ns))
    enter_ns = at(calls.enter_ns, calls.submitting(tid, taken_ns))
    away = np.flatnonzero(enter_ns > since_ns)
    spans.add(piece[away], "wakeup.reap", since_ns[away], enter_ns[away])
    for rank, (stopped, begin_ns, end_ns) in _stops(window).items():
        row, stop = overlapping(tid, since_ns, taken_ns, stopped, begin_ns, end_ns)
        begin = np.maximum(begin_ns[stop], since_ns[row])
        spans.add(piece[row], rank, begin, np.minimum(end_ns[stop], taken_ns[row]))
    return Service(piece, tid, since_ns, taken_ns), workers


def _stops(window: Window) -> dict[str, tuple[Ints, Ints, Ints]]:
    """By the rank of who waits for them meanwhile: threads, from when to when each was stopped."""
    stopped = window.columns("sched_stopped", "subject_tid", "since_ns")
    kept = window.columns("sched_throttled", "subject_tid", "since_ns")
    ran = window.columns("sched_resume", "subject_tid")
    # In a call it is told of how long it had no CPU, as it runs again.
    at_rest = ~one_of(
        pair_key(kept["time_ns"], kept["subject_tid"]),
        pair_key(ran["time_ns"], ran["subject_tid"]),
    )
    return {
        "wakeup.reap": (stopped["subject_tid"], stopped["since_ns"], stopped["time_ns"]),
        "throttle.cpu": (
            kept["subject_tid"][at_rest], kept["since_ns"][at_rest], kept["time_ns"][at_rest]
        ),
    }  # fmt: skip
