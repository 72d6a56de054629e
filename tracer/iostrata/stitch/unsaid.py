# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: what workers of io_uring ran without a word in, until when it was with them for
sure, and since when complete, out.

A ring that defers its completions (IORING_SETUP_DEFER_TASKRUN) has them from its submitter, in the
order in which workers were through with them: so each is bounded by those before and behind it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from iostrata.columns import (
    NEVER,
    AsOf,
    Ints,
    at,
    changes,
    numbers,
    one_of,
    order_of,
    overlapping,
)
from iostrata.stitch.blockio import MOST
from iostrata.stitch.completions import completions
from iostrata.stitch.enters import Enters, enters_in
from iostrata.stitch.links import submissions_in
from iostrata.stitch.opcodes import RWF_OF_LINKED
from iostrata.stitch.pools import Pools
from iostrata.stitch.runs import Runs
from iostrata.stitch.taken import handed_at, untold_in
from iostrata.stitch.wakeup import Sleeps
from iostrata.stitch.window import Window

HANDED: Final = "io_uring_queue_async_work"


@dataclass(frozen=True, eq=False)
class Unsaid:
    """One row each. ``kept_ns``: not complete before; ``complete_ns``: no later than that. Between
    them nothing tells which it was."""

    kept_ns: Ints
    complete_ns: Ints


def unsaid(window: Window, pools: Pools, sleeps: Sleeps, tid: Ints, taken_ns: Ints) -> Unsaid:
    """Of what threads took as complete at some times, and workers had been handed."""
    if not len(tid):
        return Unsaid(tid, tid)
    calls, done = window.once(enters_in), completions(window, "request_key", "tid", "rwf")
    call = calls.submitting(done["tid"], done["time_ns"])
    # What is taken in no call may be of several rings.
    group = numbers(done["tid"], np.where(call >= 0, call, -1 - np.arange(len(call))))
    mine = AsOf(done["tid"], done["time_ns"]).at_or_before(tid, taken_ns)
    rows = np.flatnonzero(one_of(group, group[mine]))
    rows = rows[order_of(group[rows], done["time_ns"][rows])]
    done, call, group = {name: one[rows] for name, one in done.items()}, call[rows], group[rows]
    kept_ns, complete_ns = _each(window, pools, calls, sleeps, done, call)
    # Of all in one call, each was complete no sooner than those before it.
    base_ns = int(kept_ns.min())
    shift = np.cumsum(changes(group)) * (int(complete_ns.max()) - base_ns + 1) - base_ns
    kept_ns = np.maximum.accumulate(kept_ns + shift) - shift
    complete_ns = np.minimum.accumulate((complete_ns + shift)[::-1])[::-1] - shift
    row = AsOf(done["tid"], done["time_ns"]).at_or_before(tid, taken_ns)
    return Unsaid(np.minimum(kept_ns, complete_ns)[row], complete_ns[row])


def surely_at(window: Window, pools: Pools, runs: Runs) -> Ints:
    """Since when workers were for sure at each that they said to be at: behind what they completed;
    and not before they said so, if one may have been at another request until then, without a word.
    """
    done = completions(window, "request_key", "tid")
    last = AsOf(done["tid"], done["time_ns"]).at_or_before(runs.tid, runs.said_ns)
    sure_ns = np.maximum(runs.begin_ns, at(done["time_ns"], last))
    handed, untold = window.columns(HANDED, "tid", "request_key"), window.once(untold_in)
    rows = np.flatnonzero(untold)
    runs_of = window.pieces.tid[runs.piece]
    late = np.flatnonzero((runs.said_ns > sure_ns) & one_of(runs_of, handed["tid"][rows]))
    if not len(late):
        return sure_ns
    tid, key, handed_ns = (handed[name][rows] for name in ("tid", "request_key", "time_ns"))
    row = AsOf(done["request_key"], done["time_ns"]).at_or_after(key, handed_ns)
    # Whom a worker completes that is at that until then.
    rows = np.flatnonzero((row < 0) | (at(done["tid"], row) == tid))
    tid, handed_ns, row = tid[rows], handed_ns[rows], row[rows]
    until_ns = np.where(row < 0, NEVER, at(done["time_ns"], row))
    begun_ns, ended_ns = pools.may_have_run(tid, handed_ns, until_ns)
    ended_ns = np.minimum(ended_ns, pools.run_by(tid, handed_ns))
    run, other = overlapping(
        runs_of[late], sure_ns[late], runs.said_ns[late], tid, begun_ns, ended_ns, MOST
    )
    whose, own_ns = runs_of[late[run]], runs.handed_ns[late[run]]
    ahead = pools.may_be_before(whose, handed_ns[other], own_ns)
    ahead |= np.bincount(run, minlength=len(late))[run] >= 2 * MOST
    behind = late[run[ahead]]
    sure_ns[behind] = runs.said_ns[behind]
    return sure_ns


def _each(
    window: Window, pools: Pools, calls: Enters, sleeps: Sleeps, done: dict[str, Ints], call: Ints
) -> tuple[Ints, Ints]:
    """Between which times each of what is complete became so, by what is told of itself; of none
    that no worker was handed."""
    key, tid, taken_ns = (done[name] for name in ("request_key", "tid", "time_ns"))
    submitted, handed_ns = submissions_in(window, "request_key"), handed_at(window, key, taken_ns)
    of = AsOf(submitted["request_key"], submitted["time_ns"]).at_or_before(key, taken_ns)
    handed = (of >= 0) & (handed_ns >= at(submitted["time_ns"], of))
    first_ns = np.minimum(taken_ns, np.where(handed, handed_ns, taken_ns)).min()
    kept_ns, complete_ns = np.full(len(key), first_ns), taken_ns.copy()
    at_it_ns, until_ns = pools.told_of(tid, handed_ns)
    said = np.flatnonzero(handed & (at_it_ns >= handed_ns))
    kept_ns[said] = np.minimum(at_it_ns[said], taken_ns[said])
    complete_ns[said] = np.minimum(until_ns[said], taken_ns[said])
    silent = np.flatnonzero(handed & (at_it_ns < handed_ns))
    of, given_ns = tid[silent], handed_ns[silent]
    begun_ns, ended_ns = pools.may_have_run(of, given_ns, taken_ns[silent])
    kept_ns[silent] = np.maximum(begun_ns, pools.in_turn(of, given_ns))
    complete_ns[silent] = np.minimum(ended_ns, pools.run_by(of, given_ns))
    # Nor was it while who takes it slept in the call for that: what is complete lets it go.
    sleep = _let_go(calls, sleeps, tid, taken_ns, call)
    let_go_ns = at(sleeps.wake_ns, sleep)
    first = np.append(True, (sleep[1:] != sleep[:-1]) | (call[1:] != call[:-1]))[: len(sleep)]
    linked = ((done["rwf"] & RWF_OF_LINKED) != 0) & handed & (let_go_ns > handed_ns)
    kept_ns = np.where(linked, np.maximum(kept_ns, let_go_ns), kept_ns)
    # The first that it has then did.
    at_once = np.flatnonzero(linked & first & (sleep >= 0))
    at_once = at_once[pools.are_workers(sleeps.waker[sleep[at_once]])]
    complete_ns[at_once] = np.minimum(complete_ns[at_once], let_go_ns[at_once])
    return np.clip(kept_ns, first_ns, complete_ns), complete_ns


def _let_go(calls: Enters, sleeps: Sleeps, tid: Ints, time_ns: Ints, call: Ints) -> Ints:
    """Of the sleeps the last, before some times, of threads in the calls (row) that they are in
    then; -1: none. What is complete in another call may be another ring's.

    Of what something is linked behind, each is told of by letting them go, if nothing before did
    (io_req_local_work_add of io_uring/io_uring.c).
    """
    rows = np.flatnonzero(sleeps.interruptible & one_of(sleeps.tid, tid))
    last = at(rows, AsOf(sleeps.tid[rows], sleeps.wake_ns[rows]).at_or_before(tid, time_ns))
    inside = (last >= 0) & (call >= 0)
    inside &= at(sleeps.off_ns, last) >= at(calls.enter_ns, call)
    return np.where(inside, last, -1)
