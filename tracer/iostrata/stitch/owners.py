# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: which piece a thread works for at a time.

In order: the piece that is the thread's own system call; the command of another machine
that a target's worker says it is at; the piece whose request a worker synchronises
(io_uring worker, direct I/O completion) or runs otherwise; the piece whose request the
thread is submitting.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import (
    NEVER,
    AsOf,
    Containing,
    Ints,
    at,
    changes,
    joined,
    one_of,
    order_of,
    pair_key,
    ranges,
)
from iostrata.stitch.completions import completions
from iostrata.stitch.kinds import kinds_of
from iostrata.stitch.links import completed_last, submission_of, submissions_in
from iostrata.stitch.opcodes import URING_CHANGES, URING_READS, URING_WRITES
from iostrata.stitch.requests import reads_data
from iostrata.stitch.runs import runs_of
from iostrata.stitch.syncs import SYNCS, WHOLE, Syncs, at_it_until
from iostrata.stitch.taken import handed_at
from iostrata.stitch.wakeup import sleeps_of
from iostrata.stitch.window import Columns, Window, whole
from iostrata.trace.layout import THREAD_WORKER

# At which command a target's worker is, or at which operation an OSD's thread.
WORK = ("nvmet_work", "target_work", "osd_work")


@dataclass(frozen=True, eq=False)
class Submitting:
    """A submitter's time for each request, from when it came to it on: thread and piece.

    ``whole``: it was done there, if it went through the page cache: nothing of it came later.
    """

    tid: Ints
    begin_ns: Ints
    end_ns: Ints
    piece: Ints
    whole: NDArray[np.bool_]


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
        self.submitting = own = _submitting(window, requests)
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


def _submitting(window: Window, requests: Ints) -> Submitting:
    """Until it hands the request over, submits the next one, or returns from its call."""
    if not len(requests):
        return Submitting(requests, requests, requests, requests, requests > 0)
    pieces = window.pieces
    key, begin = pieces.request_key[requests], pieces.begin_ns[requests]
    uring = submissions_in(window, "tid", "opcode")
    blocks, start = _of_batches(window)
    found = AsOf(blocks["iocb_key"], blocks["enter_ns"]).at_or_after(key, begin)
    aio = at(start, np.where(at(blocks["enter_ns"], found) == begin, found, -1))
    after = at(uring["time_ns"], submission_of(window, key, begin))
    linked = np.flatnonzero((after >= 0) & (after < begin))
    if len(linked):
        # What a worker completed, that goes on with.
        last = completed_last(window, pieces.tid[requests[linked]], begin[linked])
        after[linked] = np.where(last == begin[linked], last, -1)
    submitted = np.where(after >= 0, after, aio)
    known = np.flatnonzero((submitted >= 0) & (submitted <= pieces.end_ns[requests]))
    requests, begin = requests[known], submitted[known]
    tid, end = pieces.tid[requests], pieces.end_ns[requests]
    handed = window.columns("io_uring_queue_async_work", "tid")
    # What it submits besides is another's, whether that is one of these pieces or not.
    data = one_of(uring["opcode"], (*URING_WRITES, *URING_READS, *URING_CHANGES))
    for other, time in (
        (tid, begin),
        (handed["tid"], handed["time_ns"]),
        (uring["tid"][data], uring["time_ns"][data] - 1),
        (blocks["tid"][start >= 0], start[start >= 0] - 1),
    ):
        following = at(time, AsOf(other, time).at_or_after(tid, begin + 1))
        end = np.minimum(end, np.where(following >= 0, following, NEVER))
    calls = window.columns("syscall", "tid", "enter_ns")
    inside = Containing(calls["tid"], calls["enter_ns"], calls["time_ns"]).find(tid, begin)
    # None of a thread of the kernel (SQPOLL), nor of what an older recording was told of.
    end = np.minimum(end, np.where(inside >= 0, at(calls["time_ns"], inside), NEVER))
    # io_submit's is told with its blocks only.
    returned = np.where(after[known] < 0, at(blocks["time_ns"], found[known]), NEVER)
    end = np.minimum(end, np.maximum(returned, begin))
    end = _polling(window, tid, begin, end)
    whole = (after[known] < 0) & (end > begin)
    if window.reads is not None:
        direct, of_aio = window.reads.direct[requests], whole
        # It has nothing to do behind its bios; the submitter may wait in that call for others'.
        # A write may have: one that makes its file longer is synchronised by who submits it.
        bios = window.columns("block_bio_queue", "tid")
        last = at(bios["time_ns"], AsOf(bios["tid"], bios["time_ns"]).at_or_before(tid, end))
        returned = np.where(inside >= 0, at(calls["time_ns"], inside), NEVER)
        went_on = np.where(direct | (end < returned), end, begin)
        left = np.where(last >= begin, last, went_on)
        done = _done_at_once(window, pieces.request_key[requests], tid, begin)
        at_once = ~direct & (done >= 0) & (done <= returned)
        # What libaio reads through the page cache, its call waits for; io_uring's waits for none.
        end = np.where(of_aio & ~direct, end, np.where(at_once, np.minimum(end, done), left))
        whole = at_once | of_aio
    return Submitting(tid, begin, end, requests, whole)


def _polling(window: Window, tid: Ints, begin_ns: Ints, end_ns: Ints) -> Ints:
    """Until when submitters were at requests, where that is ``end_ns`` at the latest: the kernel's
    own thread (SQPOLL) waits for none, and looks for more behind it. Of what it did nothing else
    for, and slept for no disk, nobody knows when it went on."""
    polls = whole(window.trace).once(kinds_of).of(tid, begin_ns) == THREAD_WORKER
    if not polls.any():
        return end_ns
    points = ("block_bio_queue", "io_uring_queue_async_work", *SYNCS)
    told = [window.columns(point, "tid") for point in points]
    sleeps = sleeps_of(window)
    inside = np.flatnonzero(sleeps.asleep & ~sleeps.interruptible)
    told.append({"tid": sleeps.tid[inside], "time_ns": sleeps.on_ns[inside]})
    by, time = (np.concatenate([one[name] for one in told]) for name in ("tid", "time_ns"))
    last = at(time, AsOf(by, time).at_or_before(tid, end_ns))
    return np.where(polls, np.maximum(last, begin_ns), end_ns)


def _done_at_once(window: Window, key: Ints, tid: Ints, begin_ns: Ints) -> Ints:
    """When requests of io_uring were complete, -1: not before their submitter slept."""
    completed = completions(window, "request_key", "tid")
    found = AsOf(completed["request_key"], completed["time_ns"]).at_or_after(key, begin_ns)
    done = np.where(at(completed["tid"], found) == tid, at(completed["time_ns"], found), -1)
    resumes = window.columns("sched_resume", "subject_tid", "off_ns", "wake_ns")
    slept = np.flatnonzero(resumes["wake_ns"] > 0)
    off = AsOf(resumes["subject_tid"][slept], resumes["off_ns"][slept])
    off_ns = at(resumes["off_ns"][slept], off.at_or_after(tid, begin_ns))
    return np.where((off_ns >= 0) & (off_ns < done), -1, done)


def _of_batches(window: Window) -> tuple[Columns, Ints]:
    """The control blocks, and when io_submit came to each; -1 where nothing tells.

    A call that submits one block is that block's from its entry on. In a batch only order ties
    them to what the call did. If it synced as often as there are blocks, it came to the n-th as it
    had synced the one before; or else where the n-th bio begins, if there are as many of these.
    """
    blocks = window.columns("aio_submit", "tid", "enter_ns", "iocb_key", "order")
    by_call = order_of(blocks["tid"], blocks["enter_ns"])
    tid, enter = blocks["tid"][by_call], blocks["enter_ns"][by_call]
    new = changes(tid) | changes(enter)
    batch = np.empty(len(tid), np.int64)
    batch[by_call] = np.cumsum(new) - 1
    tid, enter = tid[new], enter[new]
    count = np.bincount(batch, minlength=len(tid))
    # Its place among those that are recorded: a call may have others.
    place_of = np.empty(len(batch), np.int64)
    place_of[order_of(batch, blocks["order"])] = ranges(count)
    # Of what reads there are blocks where its bios count, too.
    reads = bool(window.trace.env.get("reads"))
    until = np.zeros(len(tid), np.int64)
    until[batch] = blocks["time_ns"]
    bios = window.columns("block_bio_queue", "tid", "size_bytes", "flags")
    calls = Containing(tid, enter, until)
    call = calls.find(bios["tid"], bios["time_ns"])
    counts = (bios["size_bytes"] > 0) & (reads | ~reads_data(bios["flags"]))
    data = np.flatnonzero((call >= 0) & counts)
    data = data[order_of(call[data])]
    carried = np.bincount(call[data], minlength=len(tid))
    first = np.cumsum(carried) - carried
    place = np.minimum(first[batch] + place_of, max(len(data) - 1, 0))
    ordered = at(bios["time_ns"], at(data, place))
    ordered = np.where(carried[batch] == count[batch], ordered, -1)
    first, turn = _turns(window, calls, enter, count)
    synced = first[batch] >= 0
    ordered[synced] = turn[first[batch[synced]] + place_of[synced]]
    return blocks, np.where(count[batch] == 1, blocks["enter_ns"], ordered)


def _turns(window: Window, calls: Containing, enter_ns: Ints, count: Ints) -> tuple[Ints, Ints]:
    """Of calls that synced as often as they have blocks (``count``), the row of their first turn,
    -1: others; and of each turn, when it began: the sync before it was over, or, of a file system
    that does not tell that, its own began."""
    tid, begin, over = [], [], []
    for point in SYNCS:
        extra = ("enter_ns",) if point in WHOLE else ()
        told = window.columns(point, "tid", "request_key", *extra)
        own = np.flatnonzero(told["request_key"] == 0)
        time = told["time_ns"][own]
        tid.append(told["tid"][own])
        begin.append(told["enter_ns"][own] if extra else time)
        over.append(time if extra else np.full(len(own), -1))
    thread, since, until = (np.concatenate(parts) for parts in (tid, begin, over))
    call = calls.find(thread, since)
    order = order_of(call, since)[np.count_nonzero(call < 0) :]
    call, turn, until = call[order], since[order], until[order]
    turn[1:] = np.where(until[:-1] >= 0, until[:-1], turn[1:])
    new = changes(call)
    turn[new] = enter_ns[call[new]]
    times = np.bincount(call, minlength=len(count))
    return np.where(times == count, np.cumsum(times) - times, -1), turn
