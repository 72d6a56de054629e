# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: calls that submit several requests in, what each waited for at the others out.

What goes through the page cache is written and made durable by who submits it (libaio's, and XFS's
of io_uring): whatever comes behind it in the same call waits for that, and with libaio whatever was
done before, too, as the call returns behind all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import NEVER, AsOf, Containing, Ints, at, overlapping
from iostrata.stitch.links import block_of, submission_of, submissions_in
from iostrata.stitch.serving import Service, short_of_cpu
from iostrata.stitch.spans import Edges, SpanList, Spans, follow
from iostrata.stitch.submitting import Submitting
from iostrata.stitch.wakeup import Sleeps
from iostrata.stitch.window import Window


def submitted_until(window: Window, requests: Ints, submitting: Submitting) -> Ints:
    """Until when each of some pieces was its submitter's to do; -1: not told."""
    left = np.full(len(window.pieces), NEVER)
    # What is only begun there is on its way behind that, whatever else that call does.
    begun = np.flatnonzero(~submitting.inline)
    left[submitting.piece[begun]] = submitting.end_ns[begun]
    until: Ints = np.minimum(window.once(_called_until), left)[requests]
    return until


def unseen_in_calls(
    spans: SpanList, window: Window, requests: Ints, submitting: Submitting
) -> None:
    """Adds when submitters were amid calls in which they left the CPU and nobody saw it, and at
    some pieces or before these: whatever no layer claims of that, they may have slept."""
    told = window.columns("sched_hidden", "tid", "enter_ns")
    if not told["enter_ns"].any():
        return
    pieces, left = window.pieces, np.full(len(window.pieces), -1)
    left[submitting.piece] = submitting.end_ns
    begin = pieces.begin_ns[requests]
    until = np.maximum(np.maximum(window.once(_called_until), left)[requests], begin)
    amid = np.flatnonzero(told["enter_ns"])
    tid, enter, time = (told[name][amid] for name in ("tid", "enter_ns", "time_ns"))
    row, call = overlapping(pieces.tid[requests], begin, until, tid, enter, time)
    begin = np.maximum(begin[row], enter[call])
    spans.add(requests[row], "blocked", begin, np.minimum(until[row], time[call]))


def _called_until(window: Window) -> Ints:
    """When each piece that is a request was on its way as far as its submitter tells: io_uring's
    one by one, those of a call of libaio's as that returns; -1: not told."""
    pieces, until = window.pieces, np.full(len(window.pieces), -1)
    requests = np.flatnonzero(pieces.request_key != 0)
    begin, key = pieces.begin_ns[requests], pieces.request_key[requests]
    blocks = window.columns("aio_submit")["time_ns"]
    uring = submissions_in(window, "request_key")["time_ns"]
    told = np.maximum(
        at(blocks, block_of(window, key, begin)), at(uring, submission_of(window, key, begin))
    )
    until[requests] = np.minimum(told, pieces.end_ns[requests])
    return until


def others_of_calls(
    spans: SpanList, window: Window, submitting: Submitting, sleeps: Sleeps, first: int
) -> None:
    """Adds what submitters of pieces slept and waited for amid the calls that submit these.

    ``spans``: of pieces, as far as it is known; ``first``: the number of the first sleep.
    """
    if not window.pieces.request_key.any():
        return
    waiting, behind = _waiting(window, submitting)
    row, sleep = _asleep(waiting, sleeps)
    if not len(row):
        return
    known = spans.collect()
    if behind[row].any():
        waiting = _done(waiting, behind, known, submitting)
        row, sleep = _asleep(waiting, sleeps)
    begin = np.maximum(waiting.begin_ns[row], sleeps.off_ns[sleep])
    until = np.minimum(waiting.end_ns[row], sleeps.runnable_ns[sleep])
    spans.add(waiting.owner[row], "blocked", begin, until)
    spans.extend(short_of_cpu(waiting, sleeps, first, "wakeup.runqueue"))
    # Who slept was at one of them: what that one did meanwhile is what the others waited for.
    own = submitting
    at_work = Containing(own.tid, own.begin_ns, own.end_ns).find(sleeps.tid[sleep], begin)
    some = np.flatnonzero(at_work >= 0)
    row, at_work = np.unique(np.stack([row[some], at_work[some]]), axis=1)
    begin = np.maximum(waiting.begin_ns[row], own.begin_ns[at_work])
    until = np.minimum(waiting.end_ns[row], own.end_ns[at_work])
    spans.extend(follow(known, Edges(own.piece[at_work], waiting.owner[row], begin, until)))


def _asleep(waiting: Service, sleeps: Sleeps) -> tuple[Ints, Ints]:
    return overlapping(
        waiting.tid, waiting.begin_ns, waiting.end_ns, sleeps.tid, sleeps.off_ns, sleeps.on_ns
    )


def _waiting(window: Window, submitting: Submitting) -> tuple[Service, NDArray[np.bool_]]:
    """When submitters were amid the calls that submit pieces and not at these: before they came to
    each, and of libaio's behind that, and which of both."""
    pieces = window.pieces
    requests = np.flatnonzero(pieces.request_key != 0)
    until, begin = window.once(_called_until)[requests], pieces.begin_ns[requests]
    reached, left = np.full(len(pieces), NEVER), np.full(len(pieces), NEVER)
    reached[submitting.piece], left[submitting.piece] = submitting.begin_ns, submitting.end_ns
    reached, left = reached[requests], left[requests]
    since, until = (
        np.concatenate(both)
        for both in ((begin, np.minimum(left, until)), (np.minimum(reached, until), until))
    )
    some = np.flatnonzero(until > since)
    owner = np.concatenate([requests, requests])[some]
    return Service(owner, pieces.tid[owner], since[some], until[some]), some >= len(requests)


def _done(
    waiting: Service, behind: NDArray[np.bool_], spans: Spans, submitting: Submitting
) -> Service:
    """As far as they waited for nothing else: what was only begun there is on its way until its
    last span in that call is over."""
    pending = np.ones(int(waiting.owner.max()) + 1, np.bool_)
    pending[submitting.piece[submitting.inline & (submitting.piece < len(pending))]] = False
    rows = np.flatnonzero(behind & pending[waiting.owner])
    last = AsOf(spans.owner, spans.end_ns).at_or_before(waiting.owner[rows], waiting.end_ns[rows])
    begin = waiting.begin_ns.copy()
    begin[rows] = np.maximum(begin[rows], at(spans.end_ns, last))
    some = np.flatnonzero(begin < waiting.end_ns)
    return Service(waiting.owner[some], waiting.tid[some], begin[some], waiting.end_ns[some])
