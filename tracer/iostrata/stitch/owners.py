# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: which piece a thread works for at a time.

In order: the piece that is the thread's own system call; the command of another machine
that a target's worker says it is at; the piece whose request a worker synchronises
(io_uring worker, direct I/O completion) or runs otherwise; the piece whose request the
thread is submitting.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import (
    NEVER,
    AsOf,
    Containing,
    Ints,
    at,
    joined,
    one_of,
    order_of,
    pair_key,
)
from iostrata.stitch.kinds import kinds_of
from iostrata.stitch.runs import runs_of
from iostrata.stitch.submitting import submitting_of
from iostrata.stitch.syncs import SYNCS, WHOLE, Syncs, at_it_until
from iostrata.stitch.taken import handed_at
from iostrata.stitch.window import Window, whole

# At which command a target's worker is, or at which operation an OSD's thread.
WORK = ("nvmet_work", "target_work", "osd_work")


class Owners:
    """Looks up the piece (row, -1: none) that a thread works for.

    ``work``: the rows of ``syncs`` for asynchronous requests that are in none of ``runs``;
    ``carried_out``: the commands of another machine that a worker was seen at.
    """

    def __init__(self, window: Window) -> None:
        pieces = window.pieces
        calls = np.flatnonzero(pieces.request_key == 0)
        # Mostly all of them are.
        some = calls if len(calls) < len(pieces) else slice(None)
        self._calls = Containing(pieces.tid[some], pieces.begin_ns[some], pieces.end_ns[some])
        self._call_rows = None if isinstance(some, slice) else calls
        self._stages: list[tuple[Containing, Ints]] = []
        self.carried_out = np.zeros(0, np.int64)
        if any(len(window.trace.points[point]) for point in WORK):
            containing, self.carried_out = _carried_out(window)
            self._stages.append((containing, self.carried_out))
        requests = np.flatnonzero(pieces.request_key != 0)
        self.submitting = own = submitting_of(window, requests)
        if len(requests):
            self._stages.append((Containing(own.tid, own.begin_ns, own.end_ns), own.piece))
        self.syncs = self._syncs(window)
        self.runs = runs_of(window, requests, self.syncs)
        # A worker of io_uring is at the request before it syncs, and after.
        told = pair_key(self.runs.tid, self.runs.piece)[self.runs.own]
        work = (self.syncs.worker >= 0) & ~one_of(pair_key(self.syncs.tid, self.syncs.worker), told)
        self.work = np.flatnonzero(work)
        if len(requests):
            self._stages.insert(-1, self._workers(window))

    def find(self, tid: Ints, time_ns: Ints) -> Ints:
        """The piece of each thread at each time."""
        piece = self._calls.find(tid, time_ns)
        if self._call_rows is not None:
            piece = at(self._call_rows, piece)
        for containing, rows in self._stages:
            piece = np.where(piece >= 0, piece, at(rows, containing.find(tid, time_ns)))
        return piece

    def _syncs(self, window: Window) -> Syncs:
        pieces = window.pieces
        keyed = np.flatnonzero(pieces.request_key != 0)
        by_request = AsOf(pieces.request_key[keyed], pieces.begin_ns[keyed])
        parts: list[Syncs] = []
        open_ended: list[NDArray[np.bool_]] = []
        for point in SYNCS:
            whole = point in WHOLE
            extra = ("enter_ns", "enter_transaction", "exit_transaction") if whole else ()
            events = window.columns(point, "tid", "dev", "inode", "request_key", *extra)
            time, key = events["time_ns"], events["request_key"]
            if parts and not len(time):
                continue
            begin = events.get("enter_ns", time)
            worker = np.full(len(time), -1)
            if len(keyed):
                worker = at(keyed, by_request.at_or_before(key, begin))
                worker = np.where((key != 0) & (at(pieces.end_ns, worker) >= begin), worker, -1)
            piece = np.where(key != 0, worker, self.find(events["tid"], begin))
            none = np.zeros(len(time), np.int64)
            end = time
            if not whole:
                # xfs and btrfs have no point at the return: their sync ends with the piece, or
                # before, as who submits a request goes on to the next.
                end = np.minimum(at(pieces.end_ns, piece), self._submitted(events["tid"], begin))
            parts.append(
                Syncs(
                    events["tid"], begin, end, events["dev"], events["inode"], piece, worker,
                    events.get("enter_transaction", none), events.get("exit_transaction", none),
                )
            )  # fmt: skip
            open_ended.append((worker >= 0) & (not whole))
        syncs, rows = Syncs(**joined(parts)), np.flatnonzero(np.concatenate(open_ended))
        if len(rows):
            end = syncs.end_ns.copy()
            end[rows] = at_it_until(window, syncs, rows)
            syncs = replace(syncs, end_ns=end)
        return syncs

    def _submitted(self, tid: Ints, time_ns: Ints) -> Ints:
        """Until when each thread is at the request that it submits at a time; NEVER: at none."""
        own = self.submitting
        found = Containing(own.tid, own.begin_ns, own.end_ns).find(tid, time_ns)
        return np.where(found >= 0, at(own.end_ns, found), NEVER)

    def _workers(self, window: Window) -> tuple[Containing, Ints]:
        """A worker's time for a request: from being handed it, or done with the one before."""
        syncs = Syncs(**{name: column[self.work] for name, column in vars(self.syncs).items()})
        handed = handed_over(window, syncs.piece, syncs.tid, syncs.begin_ns)
        begin = np.where(handed >= 0, handed, syncs.begin_ns)
        tid = np.concatenate([syncs.tid, self.runs.tid])
        begin = np.concatenate([begin, self.runs.next_ns])
        end = np.concatenate([syncs.end_ns, self.runs.end_ns])
        piece = np.concatenate([syncs.piece, self.runs.piece])
        order = order_of(tid, np.concatenate([syncs.begin_ns, self.runs.begin_ns]))
        tid, begin, end, piece = tid[order], begin[order], end[order], piece[order]
        same = tid[1:] == tid[:-1]
        begin[1:][same] = np.maximum(begin[1:][same], end[:-1][same])
        return Containing(tid, begin, end), piece


def handed_over(window: Window, piece: Ints, tid: Ints, begin_ns: Ints) -> Ints:
    """When each piece was handed over to io_uring's workers, of which the thread that began with it
    is one; -1: it was not. One of the kernel's pools was asked by whoever completed a transfer."""
    time = handed_at(window, window.pieces.request_key[piece], begin_ns)
    time = np.where(time >= window.pieces.begin_ns[piece], time, -1)
    return np.where(whole(window.trace).once(kinds_of).are_helpers(tid, begin_ns), -1, time)


def _carried_out(window: Window) -> tuple[Containing, Ints]:
    """A target's worker is at what it says, until it says something else or that is complete.

    Who has read a command to carry it out itself is at it since, and may have no CPU to say so.
    """
    pieces = window.pieces
    told = [window.columns(point, "tid", "request_key") for point in WORK]
    work = {name: np.concatenate([one[name] for one in told]) for name in told[0]}
    begin = work["time_ns"]
    following = at(begin, AsOf(work["tid"], begin).at_or_after(work["tid"], begin + 1))
    piece = AsOf(pieces.request_key, pieces.begin_ns).at_or_before(work["request_key"], begin)
    end = np.where(following >= 0, following, NEVER)
    end = np.minimum(end, at(pieces.end_ns, piece))
    before = AsOf(work["tid"], begin).at_or_before(work["tid"], begin - 1)
    idle = at(work["request_key"], before) <= 0
    own = idle & (piece >= 0) & (at(pieces.tid, piece) == work["tid"])
    # What was put aside meanwhile, none was at.
    taken = AsOf(work["request_key"], begin).at_or_before(work["request_key"], begin - 1)
    own &= at(begin, taken) < at(pieces.begin_ns, piece)
    # It ran again then, having slept until there was something to do.
    since = np.maximum(at(pieces.begin_ns, piece) + 1, at(begin, before))
    since = np.where(own, np.minimum(since, begin), begin)
    rows = np.flatnonzero((piece >= 0) & (work["request_key"] != 0) & (end > begin))
    return Containing(work["tid"][rows], since[rows], end[rows]), piece[rows]
