# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: workers of io_uring in, when they ran which request.

A worker's own event says at which request it is, when it first does anything else that is
recorded: a bio, or leaving the CPU. Older recordings have none: there, whoever completed a
request ran it. So it is with the writes that a sync is linked behind, which may do nothing of
that. A ring that defers its completions has them all from the submitter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import (
    NEVER,
    AsOf,
    Ints,
    at,
    distinct,
    joined,
    one_of,
    order_of,
    pair_key,
)
from iostrata.stitch.chains import Chains
from iostrata.stitch.completions import completions
from iostrata.stitch.links import completed_last, submissions_in
from iostrata.stitch.syncs import Syncs
from iostrata.stitch.taken import handed_at, taken_up, untold_in
from iostrata.stitch.wakeup import sleeps_of
from iostrata.stitch.window import Window


@dataclass(frozen=True, eq=False)
class Runs:
    """Requests that a worker ran: one row each time.

    ``handed_ns``: handed over to the workers; ``next_ns``: from when on it was this one's next;
    ``begin_ns``: when that went on with it, be it behind what it says nothing of; ``said_ns``: when
    it said so, if that is later. ``until_ns``: by when it was through with it, if that may be later
    than ``end_ns``. ``own``: it is the piece itself, not what that is
    linked behind.
    """

    tid: Ints
    handed_ns: Ints
    next_ns: Ints
    begin_ns: Ints
    said_ns: Ints
    end_ns: Ints
    until_ns: Ints
    piece: Ints
    own: NDArray[np.bool_]

    def rows(self, rows: Ints) -> Runs:
        return Runs(**{name: column[rows] for name, column in vars(self).items()})


def runs_of(window: Window, requests: Ints, syncs: Syncs) -> Runs:
    """Those of some pieces; of which syncs are for, these tell where no worker does."""
    if not len(requests):
        return Runs(*(requests,) * 8, requests > 0)
    chains = Chains(window, requests)
    said = _said(window, chains)
    told = _told(window, said, syncs)
    others = requests[~one_of(requests, np.concatenate([told.piece[told.own], syncs.worker]))]
    pieces = window.pieces
    own = _completed(window, pieces.request_key[others], pieces.begin_ns[others], others)
    found = Runs(**joined([told, own, _linked(window, chains, said)]))
    begin = pieces.begin_ns[found.piece]
    # What a piece waits for that it is linked behind, but that is no part of it, was run before it.
    rows = np.flatnonzero(found.end_ns > begin)
    if len(rows) < len(begin):
        found, begin = found.rows(rows), begin[rows]
    return replace(
        found,
        handed_ns=np.maximum(found.handed_ns, begin),
        next_ns=np.maximum(found.next_ns, begin),
        begin_ns=np.maximum(found.begin_ns, begin),
        said_ns=np.maximum(found.said_ns, begin),
    )


@dataclass(frozen=True, eq=False)
class _Said:
    """What workers said: who, at which piece, when, and when they last were at it for sure not."""

    tid: Ints
    key: Ints
    piece: Ints
    time_ns: Ints
    until_ns: Ints


def _said(window: Window, chains: Chains) -> _Said:
    """In order of thread and time; only what is of the chains' pieces."""
    pieces = window.pieces
    work = window.columns("io_uring_work", "tid", "request_key")
    order = order_of(work["tid"], work["time_ns"])
    tid, key, time = (work[name][order] for name in ("tid", "request_key", "time_ns"))
    piece = chains.find(key, time)
    until = at(pieces.end_ns, piece)
    same = np.flatnonzero(tid[1:] == tid[:-1])
    until[same] = np.minimum(until[same], time[same + 1])
    known = np.flatnonzero(piece >= 0)
    return _Said(tid[known], key[known], piece[known], time[known], until[known])


def _told(window: Window, said: _Said, syncs: Syncs) -> Runs:
    tid, time = said.tid, said.time_ns
    end, until = _ends(window, said, syncs)
    handed = handed_at(window, said.key, time)
    piece_ns = window.pieces.begin_ns[said.piece]
    own = window.pieces.request_key[said.piece] == said.key
    handed = np.where(handed >= piece_ns, handed, time)
    # Without that it is the next one of who completed what it is linked behind.
    linked = own & (handed == time) & (completed_last(window, tid, time) == piece_ns)
    handed = np.where(linked, piece_ns, handed)
    following = handed.copy()
    same = np.flatnonzero(tid[1:] == tid[:-1])
    following[same + 1] = np.maximum(following[same + 1], end[same])
    # It has not been off the CPU since it took the request: it would have said so.
    resumes = window.columns("sched_resume", "subject_tid")
    since = AsOf(resumes["subject_tid"], resumes["time_ns"]).at_or_before(tid, time)
    begin = np.maximum(following, at(resumes["time_ns"], since))
    return Runs(tid, handed, following, begin, np.maximum(begin, time), end, until, said.piece, own)


def _ends(window: Window, said: _Said, syncs: Syncs) -> tuple[Ints, Ints]:
    """Done when the worker completes it, or has synced and lets the submitter go, which will; or
    with it: no sooner than the first, no later than the second, if it may have been at something
    else since, without a word."""
    completed = completions(window, "tid", "request_key")
    own = AsOf(completed["tid"], completed["time_ns"]).at_or_after(said.tid, said.time_ns)
    own = np.where(at(completed["request_key"], own) == said.key, own, -1)
    own_ns = at(completed["time_ns"], own)
    since = np.maximum(_synced(syncs, said), said.time_ns)
    freed = _freed(window, said, since)
    end = np.where(freed >= 0, freed, np.where(since > said.time_ns, since, said.until_ns))
    completes = (own_ns >= 0) & (own_ns <= said.until_ns)
    end = np.where(completes, own_ns, end)
    # It had no CPU amid it then, or was at it.
    resumes = window.columns("sched_resume", "subject_tid")
    last = AsOf(resumes["subject_tid"], resumes["time_ns"]).at_or_before(said.tid, end - 1)
    at_it_ns = np.maximum(said.time_ns, at(resumes["time_ns"], last))
    unsure = ~completes & (since == said.time_ns) & _beside_others(window, said, at_it_ns, end)
    sleeps = sleeps_of(window)
    itself = np.flatnonzero(sleeps.asleep)
    waking = AsOf(sleeps.waker[itself], sleeps.wake_ns[itself]).at_or_after(said.tid, at_it_ns)
    woken = at(itself, waking)
    wake_ns = at(sleeps.wake_ns, woken)
    its = (woken >= 0) & (at(sleeps.tid, woken) == window.pieces.tid[said.piece])
    until = np.where(its & unsure, np.minimum(wake_ns, end), end)
    # The instant that it ran again in is its own, too.
    return np.where(unsure, np.minimum(at_it_ns + 1, until), end), until


def _beside_others(
    window: Window, said: _Said, since_ns: Ints, until_ns: Ints
) -> NDArray[np.bool_]:
    """Whether a worker may have run another request of a piece's thread between some times, without
    a word: one that this thread completes, and had not yet."""
    handed = window.columns("io_uring_queue_async_work", "tid", "request_key")
    done = completions(window, "request_key", "tid")
    key = AsOf(done["request_key"], done["time_ns"])
    row = key.at_or_after(handed["request_key"], handed["time_ns"])
    theirs = window.once(untold_in) & ((row < 0) | (at(done["tid"], row) == handed["tid"]))
    thread, found = window.pieces.tid[said.piece], np.zeros(len(since_ns), np.bool_)
    for one in distinct(handed["tid"][theirs]).tolist():
        mine = np.flatnonzero(thread == one)
        others = np.flatnonzero(theirs & (handed["tid"] == one))
        taken_ns = np.where(row[others] < 0, NEVER, at(done["time_ns"], row[others]))
        given = np.searchsorted(np.sort(handed["time_ns"][others]), until_ns[mine])
        over = np.searchsorted(np.sort(taken_ns), since_ns[mine], side="right")
        found[mine] = given > over
    return found


def _synced(syncs: Syncs, said: _Said) -> Ints:
    """When workers were done with the syncs of what they are at, -1: none is told."""
    whose = pair_key(syncs.tid, syncs.worker)
    last = AsOf(whose, syncs.end_ns).at_or_before(pair_key(said.tid, said.piece), said.until_ns)
    return at(syncs.end_ns, last)


def _freed(window: Window, said: _Said, since_ns: Ints) -> Ints:
    """When workers let submitters go for the last time, -1: not behind that time.

    It is not done that does so and sleeps on for a disk: it has the submitter make another worker,
    as it begins to sleep (io_wq_worker_sleeping of io_uring/io-wq.c).
    """
    sleeps = sleeps_of(window)
    itself = np.flatnonzero(sleeps.asleep)
    waking = AsOf(sleeps.waker[itself], sleeps.wake_ns[itself])
    last = at(itself, waking.at_or_before(said.tid, said.until_ns))
    own = at(sleeps.tid, last) == window.pieces.tid[said.piece]
    freed = np.where(own, at(sleeps.wake_ns, last), -1)
    inside = np.flatnonzero(sleeps.asleep & ~sleeps.interruptible)
    waits = AsOf(sleeps.tid[inside], sleeps.on_ns[inside])
    waited = at(sleeps.on_ns[inside], waits.at_or_before(said.tid, said.until_ns))
    return np.where((freed > since_ns) & (freed > waited), freed, -1)


def _linked(window: Window, chains: Chains, said: _Said) -> Runs:
    """What pieces are linked behind, where the worker that ran it said nothing of it."""
    submitted = submissions_in(window, "request_key")
    key, since = submitted["request_key"], submitted["time_ns"]
    piece = chains.find(key, since)
    own = window.pieces.request_key[piece] == key
    told = one_of(pair_key(key, piece), pair_key(said.key, said.piece))
    rows = np.flatnonzero((piece >= 0) & ~own & ~told)
    return _completed(window, key[rows], since[rows], piece[rows])


def _completed(window: Window, key: Ints, since_ns: Ints, piece: Ints) -> Runs:
    """Runs of requests, submitted at some times, by the workers that completed them."""
    taken = taken_up(window, key, since_ns)
    known = np.flatnonzero((taken.worker >= 0) & (taken.end_ns <= window.pieces.end_ns[piece]))
    tid, following, end = taken.worker[known], taken.begin_ns[known], taken.end_ns[known]
    resumes = window.columns("sched_resume", "subject_tid", "off_ns")
    first = AsOf(resumes["subject_tid"], resumes["time_ns"]).at_or_after(tid, following)
    slept = (first >= 0) & (at(resumes["off_ns"], first) <= following)
    begin = np.where(slept, np.minimum(at(resumes["time_ns"], first), end), following)
    if len(window.trace.points["io_uring_work"]):
        # It would have said so if it had been off its CPU amid it; it may have been made since.
        last = AsOf(resumes["subject_tid"], resumes["time_ns"]).at_or_before(tid, end - 1)
        begin = np.maximum(begin, at(resumes["time_ns"], last))
    key, piece = key[known], piece[known]
    handed = np.maximum(handed_at(window, key, end), window.pieces.begin_ns[piece])
    own = window.pieces.request_key[piece] == key
    return Runs(tid, handed, following, begin, begin, end, end, piece, own)
