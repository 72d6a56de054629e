# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: io_uring's drained requests in, what they waited for before they began out.

What is drained (IOSQE_IO_DRAIN) begins when all that its ring was given before is complete, and its
submitter has taken that: then it is handed over to a worker. Until then it waits for what those
wait for, and so does what its ring is given meanwhile.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from iostrata.columns import NEVER, AsOf, Ints, at, changes, merged, order_of, outside, overlapping
from iostrata.stitch.completions import completion_of, completions
from iostrata.stitch.draining import drains_in, woken_last
from iostrata.stitch.enters import enters_in
from iostrata.stitch.links import linked_behind, submission_of, submissions_in
from iostrata.stitch.runs import Runs
from iostrata.stitch.serving import Service
from iostrata.stitch.spans import Edges, SpanList, follow
from iostrata.stitch.taken import handed_at
from iostrata.stitch.wakeup import Sleeps
from iostrata.stitch.window import Window

MOST_BEFORE: Final = 64
"""So many requests are followed at each end of a wait for those before: each takes room."""


def drained(spans: SpanList, window: Window, requests: Ints, runs: Runs, sleeps: Sleeps) -> Service:
    """Adds what drained pieces waited for while others before them were under way; when they needed
    their submitter, to take what was complete and to begin with them.

    ``requests``: the pieces that are requests; ``spans``: of all pieces.
    """
    held = window.once(drains_in)
    if not held.any():
        return Service(*np.zeros((4, 0), np.int64))
    pieces, submitted = window.pieces, submissions_in(window, "request_key")
    row = submission_of(window, pieces.request_key[requests], pieces.begin_ns[requests])
    requests, row = requests[row >= 0], row[row >= 0]
    key, time = submitted["request_key"], submitted["time_ns"]
    told = completions(window, "request_key", "tid")
    done = completion_of(key, time, told["request_key"], told["time_ns"])
    done_ns = at(told["time_ns"], done)
    order = order_of(time[row])
    requests, row = requests[order], row[order]
    tid, end_ns = pieces.tid[requests], done_ns[row]
    begin_ns, ran_ns = _begun(window, requests, row, runs, end_ns)
    since_ns, drains = pieces.begin_ns[requests], held[row]
    ran_ns = np.where(drains, ran_ns, since_ns)
    waits = np.flatnonzero(drains & (begin_ns > since_ns))
    others = np.flatnonzero((end_ns > ran_ns) & (ran_ns >= 0))
    one, other = overlapping(
        tid[waits], since_ns[waits], begin_ns[waits], tid[others], ran_ns[others],
        end_ns[others], MOST_BEFORE,
    )  # fmt: skip
    one, other = waits[one], others[other]
    # What another ring of its thread was given is not over by then, but by chance.
    before = np.flatnonzero((other < one) & (end_ns[other] <= begin_ns[one]))
    one, other = one[before], other[before]
    since, until = np.maximum(ran_ns[other], since_ns[one]), end_ns[other]
    one, other, since, until = _last(one, other, since, until)
    found = spans.collect()
    spans.extend(follow(found, Edges(requests[other], requests[one], since, until)))
    place = np.searchsorted(waits, one)
    # What it makes durable may have been run by then.
    first_ns, last_ns = since_ns[waits], begin_ns[waits]
    own = _run_for(requests[waits], runs, first_ns, last_ns)
    busy = (np.append(*pair) for pair in zip((place, since, until), own, strict=True))
    place, since, until = merged(*busy)
    left, since, until = outside(first_ns, last_ns, place, since, until)
    left = waits[left]
    known = np.flatnonzero(until > since)
    left, since, until = left[known], since[known], until[known]
    calls = window.once(enters_in)
    enter_ns = at(calls.enter_ns, calls.submitting(tid[left], until))
    # It had something to take then; a read, or a timer, that was not over is not told of.
    taken = AsOf(told["tid"], told["time_ns"]).at_or_before(tid[left], until)
    away = np.flatnonzero((enter_ns > since) & (at(told["time_ns"], taken) >= enter_ns))
    spans.add(requests[left[away]], "wakeup.reap", since[away], enter_ns[away])
    # Nor is it needed before anything is there.
    needed = woken_last(sleeps, tid[left], since, until)
    needed[away] = since[away]
    some = np.flatnonzero(needed >= 0)
    return Service(requests[left[some]], tid[left[some]], needed[some], until[some])


def _run_for(pieces: Ints, runs: Runs, since_ns: Ints, until_ns: Ints) -> tuple[Ints, Ints, Ints]:
    """From when to when workers had what was run for pieces within some times: which piece's."""
    always = np.zeros(len(pieces), np.int64)
    place = AsOf(pieces, always).at_or_before(runs.piece, np.zeros(len(runs.piece), np.int64))
    since = np.maximum(runs.handed_ns, at(since_ns, place))
    until = np.minimum(runs.end_ns, at(until_ns, place))
    some = np.flatnonzero((place >= 0) & (until > since))
    return place[some], since[some], until[some]


def _begun(
    window: Window, requests: Ints, row: Ints, runs: Runs, end_ns: Ints
) -> tuple[Ints, Ints]:
    """When each request was handed over, or what it is linked behind was; and when anything was
    that is part of it; -1: never. ``row``: of ``submissions_in``."""
    submitted = submissions_in(window, "tid", "rwf")
    handed = handed_at(window, window.pieces.request_key[requests], end_ns)
    handed = np.where(handed >= window.pieces.begin_ns[requests], handed, NEVER)
    first = np.full(len(window.pieces), NEVER)
    np.minimum.at(first, runs.piece, runs.handed_ns)
    first = np.minimum(handed, first[requests])
    # Of a chain, one of which is drained, all are: the first is handed over.
    call = window.once(enters_in).submitting(submitted["tid"], submitted["time_ns"])
    linked = linked_behind(submitted, call)[row] >= 0
    begun = np.where(linked | (handed == NEVER), first, handed)
    return np.where(begun < NEVER, begun, -1), np.where(first < NEVER, first, -1)


def _last(one: Ints, other: Ints, since: Ints, until: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Of others at once, that which ends last is what is waited for: each until one of those
    begins."""
    order = order_of(one, -until, since)
    one, other, since, until = (column[order] for column in (one, other, since, until))
    if not len(one):
        return one, other, since, until
    number = np.cumsum(changes(one)) - 1
    shift = number * (int(until.max() - since.min()) + 1)
    least = np.minimum.accumulate(since - shift) + shift
    before = np.append(until[:1], least[:-1])
    until = np.where(changes(one), until, np.minimum(before, until))
    known = np.flatnonzero(until > since)
    known = known[order_of(one[known], since[known])]
    return one[known], other[known], since[known], until[known]
