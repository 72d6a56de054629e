# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: requests of io_uring in, of which of them a loss may have the call out whose
return their submitter had their completion with.

A call is told when it returns, and a request ends with the one that it is complete in: where that
returned in a loss, the request seems to have been complete in none, and ends too early. Who is told
to enter a call before the loss was in none that reaches so far. Nor is a thread of the kernel's
that submits for others (SQPOLL): it makes no calls, and who collects, by whatever way, is not told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import NEVER, AsOf, Ints, at, columns_of, distinct, one_of
from iostrata.stitch.enters import Enters, enters_of
from iostrata.stitch.kinds import kinds_of
from iostrata.stitch.window import whole
from iostrata.trace import Trace
from iostrata.trace.layout import CALL_FAULT, THREAD_WORKER

SUBMITS_NS: Final = 10_000_000
"""Longer than a call is at what it submits; it waits behind that."""


def may_return_in_loss(trace: Trace, tid: Ints, end_ns: Ints) -> NDArray[np.bool_]:
    """Whether the call may, of requests that threads (``tid``) submitted, and that end with a call
    or, in none that is told, when they are complete."""
    calls = columns_of(trace.points["syscall"], "tid", "enter_ns", "call")
    caller, enter = calls["tid"], calls["enter_ns"]
    enters = enters_of(trace)
    loss = trace.losses.next(end_ns)
    collected = at(enters.end_ns, enters.collecting(tid, end_ns)) == end_ns
    found: NDArray[np.bool_] = ~collected & (loss < NEVER)
    if not found.any():
        return found
    # A page may be missing within another call.
    outer = np.flatnonzero(calls["call"] != CALL_FAULT)
    entered = AsOf(caller[outer], enter[outer])
    outside = np.ones(len(tid), np.bool_)
    for who in _collectors(enters, tid):
        following = entered.at_or_after(who, end_ns)
        outside &= (who < 0) | ((following >= 0) & (at(enter[outer], following) <= loss))
    waits = np.concatenate([caller, enters.submitter])
    found &= ~outside & ~one_of(tid, _never_call(trace, distinct(tid), waits))
    return found


def _collectors(enters: Enters, tid: Ints) -> Iterator[Ints]:
    """Who may collect the requests of threads, one after the other, -1: none of whose: who
    submitted them, or all that waited for them."""
    others = enters.submitter != enters.tid
    yield np.where(one_of(tid, enters.submitter[others]), -1, tid)
    for who in distinct(enters.tid[others]).tolist():
        waited = enters.submitter[others & (enters.tid == who)]
        yield np.where(one_of(tid, waited), who, -1)


def _never_call(trace: Trace, tid: Ints, caller: Ints) -> Ints:
    """Which threads are the kernel's own: named so, or seen to submit behind the last loss, and in
    no call. Where that lasts until the end, before it for longer than a call submits."""
    kinds = whole(trace).once(kinds_of)
    named = kinds.of(tid, np.zeros(len(tid), np.int64)) == THREAD_WORKER
    submitted = columns_of(trace.points["io_uring_submit_req"], "tid")
    lost = trace.losses.apart
    last = lost.ends[lost.ends < trace.end_ns].max(initial=0)
    until = lost.begins[lost.ends >= trace.end_ns].min(initial=NEVER)
    rows = np.flatnonzero((submitted["time_ns"] > last) & (submitted["time_ns"] < until))
    if until < NEVER:
        who, time = submitted["tid"][rows], submitted["time_ns"][rows]
        first = time[AsOf(who, time).at_or_after(who, np.zeros_like(time))]
        rows = rows[time - first > SUBMITS_NS]
    own = distinct(submitted["tid"][rows])
    never: Ints = tid[~one_of(tid, caller) & (named | one_of(tid, own))]
    return never
