# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: io_uring's workers in, what a thread's pool of them was short of out.

Whoever of them is free takes what is there next: what is handed over waits for any of them, and
for the thread that lets them go.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import (
    NEVER,
    AsOf,
    Ints,
    Union,
    at,
    changes,
    distinct,
    joined,
    numbers,
    one_of,
    order_of,
    overlapping,
)
from iostrata.stitch.blockio import MOST
from iostrata.stitch.calls import are_direct
from iostrata.stitch.completions import completions
from iostrata.stitch.links import submissions_in
from iostrata.stitch.opcodes import URING_FSYNC, URING_READS, URING_SYNC_FILE_RANGE
from iostrata.stitch.serving import Service
from iostrata.stitch.taken import untold_in, workers_of
from iostrata.stitch.wakeup import Sleeps
from iostrata.stitch.window import NO_COMMITS, NO_PIECES, Window, whole
from iostrata.trace.layout import WAKE_TIMER

# The state of a worker that has nothing to do.
IDLE: Final = 1
# What writes nothing is in nobody's turn (io_prep_async_work, io_uring/io_uring.c).
TAKES_NO_TURN: Final = (URING_FSYNC, URING_SYNC_FILE_RANGE, *URING_READS)
GENERATIONS: Final = 8
"""Of workers that were made by workers, each by one that said nothing of what it was at."""


class Pools:
    """Looks at all workers of a thread that submits together: each such one has its own."""

    def __init__(self, window: Window, sleeps: Sleeps) -> None:
        self._window = window
        self._workers = workers_of(window)
        rows = np.flatnonzero(one_of(sleeps.tid, self._workers))
        self._every, self._sleeps = sleeps, sleeps.rows(rows[order_of(sleeps.tid[rows])])
        handed = window.columns(
            "io_uring_queue_async_work", "tid", "request_key", "inode", "dev", "opcode",
            "open_flags",
        )  # fmt: skip
        self._handed, self._handed_ns = AsOf(handed["tid"], handed["time_ns"]), handed["time_ns"]
        self._all_handed = handed
        said = window.columns("io_uring_work", "tid", "request_key")
        self._said, self._key = AsOf(said["tid"], said["time_ns"]), said["request_key"]
        self._said_by, self._said_ns = said["tid"], said["time_ns"]
        self._unions: dict[int, Union] = {}
        self._silences: dict[int, Union] = {}

    def run_by(self, tid: Ints, handed_ns: Ints) -> Ints:
        """By when what threads handed over at some times had been run; NEVER: that is not known.

        A worker that is through with a request without leaving its CPU, and without a bio that is
        queued (a limit holds that back), does not say that it ran it. When none of them has
        anything to do, all that was there before has been run; and when it has been taken up, and
        each of them was at something else since.
        """
        since, found = self._there_from(tid, handed_ns), np.full(len(tid), NEVER)
        taken = self._taken_by(tid, handed_ns)
        for one in distinct(tid).tolist():
            rows = np.flatnonzero(tid == one)
            ends = np.append(self._union(one).ends, NEVER)
            found[rows] = ends[np.searchsorted(ends, since[rows])]
            rows = rows[taken[rows] < found[rows]]
            found[rows] = np.minimum(found[rows], self._all_else_by(one, taken[rows]))
        return found

    def may_have_run(self, tid: Ints, handed_ns: Ints, until_ns: Ints) -> tuple[Ints, Ints]:
        """Between which times a worker may have been at what threads handed over at some times, and
        was run by others without a word: none that had a CPU said what else it was at."""
        begin_ns, end_ns = handed_ns.copy(), until_ns.copy()
        for one in distinct(tid).tolist():
            rows, silence = np.flatnonzero(tid == one), self._silence(one)
            first = np.searchsorted(silence.ends, handed_ns[rows], side="right")
            last = np.searchsorted(silence.begins, until_ns[rows]) - 1
            begin_ns[rows] = np.maximum(np.append(silence.begins, NEVER)[first], handed_ns[rows])
            end_ns[rows] = np.minimum(np.append(silence.ends, -1)[last], until_ns[rows])
        known = begin_ns < end_ns
        return np.where(known, begin_ns, handed_ns), np.where(known, end_ns, until_ns)

    def told_of(self, tid: Ints, handed_ns: Ints) -> tuple[Ints, Ints]:
        """Until when a worker was at what threads handed over at some times, and by when at nothing
        or something else, as it said; -1, NEVER: none did."""
        row = self._handed.at_or_before(tid, handed_ns)
        at_it_ns, until_ns = (at(column, row) for column in self._told)
        return at_it_ns, np.where(row < 0, NEVER, until_ns)

    def in_turn(self, tid: Ints, handed_ns: Ints) -> Ints:
        """Until when workers were at writes that threads had handed over before what they did at
        some times, and that it has to wait for: those of its file, of which one has its turn at a
        time; -1: none is told of."""
        return at(self._before, self._handed.at_or_before(tid, handed_ns))

    def may_be_before(self, tid: Ints, handed_ns: Ints, other_ns: Ints) -> NDArray[np.bool_]:
        """Which of what threads handed over at some times may be run before what they did at
        others: they are taken in their order, but for what has to wait for its turn."""
        row, other = (self._handed.at_or_before(tid, one) for one in (handed_ns, other_ns))
        first, queue = np.append(self._first, False), np.append(self._in_turn, 0)
        in_order = (first[row] & first[other]) | (queue[row] == queue[other])
        found: NDArray[np.bool_] = (handed_ns < other_ns) | ~in_order
        return found

    def are_workers(self, tid: Ints) -> NDArray[np.bool_]:
        """Which threads run what is handed over."""
        return one_of(tid, self._workers)

    def run_from(self, tid: Ints, handed_ns: Ints, ran_ns: Ints) -> Ints:
        """Since when a worker ran what threads had handed over at some times, and it was run by
        others without a word; these others: nothing tells.

        One only of a thread's workers had anything to do, and had been idle before. It was at
        nothing else, as of all that was handed over meanwhile others are told of; nor did it begin
        with one of those: it had nothing to do any more, or let the submitter go.
        """
        found, (busy, begin_ns, end_ns) = ran_ns.copy(), self._busy
        # It says at what it is if it sleeps, but of what is not recorded.
        asleep = np.flatnonzero(self._sleeps.asleep)
        off_ns = self._sleeps.off_ns[asleep]
        slept = AsOf(self._sleeps.tid[asleep], off_ns)
        rest = np.flatnonzero(self._idle)
        rests = AsOf(self._sleeps.tid[rest], self._sleeps.off_ns[rest])
        rests_ns, wake_ns = self._sleeps.off_ns[rest], self._every.wake_ns
        wakes = AsOf(self._every.waker, wake_ns)
        for thread in distinct(tid).tolist():
            own = np.flatnonzero(one_of(self._thread_of(busy), (thread, -1)))
            rows = np.flatnonzero(tid == thread)
            row, one = overlapping(
                np.zeros(len(rows), np.int64), handed_ns[rows], ran_ns[rows],
                np.zeros(len(own), np.int64), begin_ns[own], end_ns[own], MOST,
            )  # fmt: skip
            single = np.bincount(row, minlength=len(rows))[row] == 1
            row, one = rows[row[single]], own[one[single]]
            worker, since_ns, until_ns = busy[one], begin_ns[one], ran_ns[row]
            on = self._sleeps.resumed.at_or_after(worker, since_ns + 1)
            on_ns = np.maximum(at(self._sleeps.on_ns, on), handed_ns[row])
            said = self._said.at_or_before(worker, until_ns - 1)
            silent = (on >= 0) & (on_ns < until_ns) & (at(self._said_ns, said) <= since_ns)
            silent &= at(off_ns, slept.at_or_before(worker, until_ns - 1)) <= since_ns
            through = at(rests_ns, rests.at_or_before(worker, until_ns)) == until_ns
            through |= at(wake_ns, wakes.at_or_before(worker, until_ns)) == until_ns
            silent &= through
            handed = self._all_handed["tid"] == thread
            untold = np.sort(self._handed_ns[handed & self._window.once(untold_in)])
            # Who hands it over says so before it lets the worker go, which had rested since then.
            rested_ns = np.where(self._new[on], 0, at(self._sleeps.off_ns, on))
            since = np.searchsorted(untold, np.minimum(rested_ns, handed_ns[row]))
            known = silent & (np.searchsorted(untold, until_ns) - since == 1)
            found[row[known]] = on_ns[known]
        return found

    @cached_property
    def _new(self) -> NDArray[np.bool_]:
        """Of which of the sleeps nothing tells that the worker had been there before: it may have
        been made for what was handed over already."""
        return changes(self._sleeps.tid)

    def _taken_by(self, tid: Ints, handed_ns: Ints) -> Ints:
        """By when what threads handed over at some times had been taken up, NEVER: nothing tells.

        A worker was at something then that was handed over later: they take them in their order.
        Of a file that is written they pass over what has to wait for its turn, and take with what
        is before it what was handed over later (io_get_next_work, io_wq_insert_work of
        io_uring/io-wq.c): it is something of the same file, or neither had anything before it.
        """
        handed, some = self._all_handed, np.flatnonzero(self._key != 0)
        by_key = AsOf(handed["request_key"], handed["time_ns"])
        row = by_key.at_or_before(self._key[some], self._said_ns[some])
        said_ns, row = self._said_ns[some][row >= 0], row[row >= 0]
        asked = self._handed.at_or_before(tid, handed_ns)
        if not len(row) or not len(asked):
            return np.full(len(tid), NEVER)
        found = _first_of_later(self._in_turn, handed["time_ns"], row, said_ns, asked)
        since_ns = np.maximum(handed["time_ns"], self._turn_ns)
        of_file = _first_of_later(self._queue, handed["time_ns"], row, said_ns, asked, since_ns)
        found = np.minimum(found, of_file)
        first = self._first
        row, said_ns = row[first[row]], said_ns[first[row]]
        of_any = _first_of_later(numbers(handed["tid"]), handed["time_ns"], row, said_ns, asked)
        return np.where((asked >= 0) & first[asked], np.minimum(found, of_any), found)

    @cached_property
    def _turn_ns(self) -> Ints:
        """Since when what was handed over had no turn to wait for."""
        handed, (every, turn_ns) = self._all_handed, whole(self._window.trace).once(_turns)
        return at(turn_ns, every.at_or_before(handed["request_key"], handed["time_ns"]))

    @cached_property
    def _first(self) -> NDArray[np.bool_]:
        """Which of what was handed over had none then."""
        found: NDArray[np.bool_] = self._turn_ns <= self._handed_ns
        return found

    @cached_property
    def _in_turn(self) -> Ints:
        """The queue of what has its turn in that, and for each other its own: it may be run before
        what was handed over sooner, and waits for its turn."""
        alone = one_of(self._all_handed["opcode"], TAKES_NO_TURN)
        return np.where(alone, -1 - np.arange(len(alone)), self._queue)

    @cached_property
    def _queue(self) -> Ints:
        """What was handed over, by thread and file."""
        return numbers(*(self._all_handed[name] for name in ("tid", "dev", "inode")))

    def _all_else_by(self, thread: int, time_ns: Ints) -> Ints:
        """From some times on, by when each of a thread's workers had been off its CPU at something
        else, or at nothing: it says what it is at as it leaves that. Those made later do not count.
        """
        found, (busy, begin_ns, end_ns) = time_ns.copy(), self._busy
        for one in distinct(busy[one_of(self._thread_of(busy), (thread, -1))]).tolist():
            own = busy == one
            since = np.searchsorted(np.sort(begin_ns[own]), time_ns, side="right") - 1
            until = np.append(np.sort(end_ns[own]), 0)[since]
            at_work = np.flatnonzero((since >= 0) & (until > time_ns))
            sleeps = np.flatnonzero(self._sleeps.tid == one)
            after = np.searchsorted(self._sleeps.on_ns[sleeps], time_ns[at_work], side="right")
            off_ns = np.append(self._sleeps.off_ns[sleeps], NEVER)[after]
            # Nor was one that said then what else it was at.
            said = self._said.at_or_before(np.full(len(at_work), one), time_ns[at_work])
            off_ns = np.where(at(self._said_ns, said) == time_ns[at_work], 0, off_ns)
            found[at_work] = np.maximum(found[at_work], off_ns)
        return found

    def short_of(self, last: Service) -> Service:
        """Who needed a CPU while something was there for a thread's workers: any of those, and that
        one, to let one go. ``last``: who took it up at last, or the thread, and from when on it was
        there."""
        if not len(self._workers):
            return Service(*np.zeros((4, 0), np.int64))
        theirs = Service(**joined([self._without_cpu, self._letting_go]))
        thread = self._thread_of(last.tid)
        row, one = overlapping(
            thread, last.begin_ns, last.end_ns,
            theirs.owner, theirs.begin_ns, theirs.end_ns, MOST,
        )  # fmt: skip
        # When one had a CPU at last is told then: no more than of the request itself.
        soon = theirs.end_ns[one] <= self._window.pieces.end_ns[last.owner[row]]
        known = np.flatnonzero((thread[row] >= 0) & soon)
        row, one = row[known], one[known]
        return Service(
            last.owner[row],
            theirs.tid[one],
            np.maximum(theirs.begin_ns[one], last.begin_ns[row]),
            np.minimum(theirs.end_ns[one], last.end_ns[row]),
        )

    def _thread_of(self, tid: Ints) -> Ints:
        """Whose workers some are, -1: that is not known; of any other thread, itself."""
        workers, threads = whole(self._window.trace).once(_whose)
        place = np.searchsorted(workers, tid)
        place = np.where(at(workers, np.where(place < len(workers), place, -1)) == tid, place, -1)
        return np.where(one_of(tid, self._workers), at(threads, place), tid)

    def _there_from(self, tid: Ints, handed_ns: Ints) -> Ints:
        """When workers could have known of requests: who hands one over says so first, and then
        lets one of them go, if any is idle."""
        following = self._handed.at_or_after(tid, handed_ns + 1)
        next_ns = np.where(following >= 0, at(self._handed_ns, following), NEVER)
        wake_ns = self._sleeps.wake_ns
        woken = at(wake_ns, AsOf(self._sleeps.waker, wake_ns).at_or_after(tid, handed_ns))
        return np.where((woken >= 0) & (woken < next_ns), woken, handed_ns)

    @cached_property
    def _at_one(self) -> NDArray[np.bool_]:
        """In which of the workers' sleeps they were at a request."""
        last = self._said.at_or_before(self._sleeps.tid, self._sleeps.off_ns)
        found: NDArray[np.bool_] = (last >= 0) & (at(self._key, last) != 0)
        return found

    @cached_property
    def _idle(self) -> NDArray[np.bool_]:
        """In which of their sleeps they had nothing to do."""
        idle: NDArray[np.bool_] = self._sleeps.asleep & (self._sleeps.state == IDLE)
        return idle & ~self._at_one

    @cached_property
    def _free(self) -> Ints:
        """Behind which of their sleeps they were to begin with something, or may have been."""
        sleeps = self._sleeps
        following = self._said.at_or_after(sleeps.tid, sleeps.on_ns)
        begins = ~sleeps.asleep & ~self._at_one & (following >= 0)
        begins &= at(self._key, following) != 0
        return np.flatnonzero(self._idle | begins)

    @cached_property
    def _without_cpu(self) -> Service:
        """Workers that were to begin with something, or were kept from going on: no other is let
        go before they sleep (nr_running, io_uring/io-wq.c), be they at something, at what they say
        nothing of, or through with it. ``owner``: whose they are."""
        some = self._sleeps.rows(np.flatnonzero(self._idle | ~self._sleeps.asleep))
        return Service(self._thread_of(some.tid), some.tid, some.runnable_ns, some.on_ns)

    @cached_property
    def _letting_go(self) -> Service:
        """Threads that let an idle worker of theirs go, or made one, until they did.

        That is asked of them by a worker that falls asleep while more is there: at the latest by
        the last one before. Where there is none, or they had handed something over since they ran
        again, it was for what they had handed over.
        """
        thread, since_ns, asker, first = self._askers
        before = self._every.resumed.at_or_before(thread, since_ns)
        handed_ns = self._handed_last(thread, since_ns)
        asked_ns = np.where(first, handed_ns, at(self._sleeps.off_ns, asker))
        rows = np.flatnonzero((asked_ns >= 0) & (handed_ns < at(self._every.on_ns, before)))
        return Service(thread[rows], thread[rows], asked_ns[rows], since_ns[rows])

    def had_let_go(self, tid: Ints, begin_ns: Ints) -> tuple[Ints, Ints, Ints]:
        """By which worker's falling asleep those were let go that began with something at some
        times, -1: not known; since when nobody else had been, and until when it did not do so.

        One that has nobody let go, as an idle one seems to be let go already (it is awake, but had
        looked before: io_acct_activate_free_worker, io_uring/io-wq.c), leaves what is there to the
        next that falls asleep, or is through.
        """
        thread, let_go_ns, asker, _ = self._askers
        free = self._free
        last = AsOf(self._sleeps.tid[free], self._sleeps.on_ns[free]).at_or_before(tid, begin_ns)
        asker = np.where(last >= 0, at(asker, last), -1)
        thread, at_ns = at(thread, last), at(let_go_ns, last)
        others = AsOf(self._askers[0], let_go_ns)
        since_ns = at(let_go_ns, others.at_or_before(thread, at_ns - 1))
        asked_ns = at(self._sleeps.off_ns, asker)
        # What is handed over has somebody let go as well.
        known = (asker >= 0) & (self._handed_last(thread, at_ns) < asked_ns)
        return np.where(known, at(self._sleeps.tid, asker), -1), since_ns, asked_ns

    def _handed_last(self, thread: Ints, time_ns: Ints) -> Ints:
        return at(self._handed_ns, self._handed.at_or_before(thread, time_ns))

    @cached_property
    def _askers(self) -> tuple[Ints, Ints, Ints, NDArray[np.bool_]]:
        """Of each that is free: whose it is, when it was let go, and, if that thread did, which of
        its others (sleep, -1: none) had fallen asleep last before, at something; and whether it did
        and none had."""
        free = self._sleeps.rows(self._free)
        thread, since_ns = self._thread_of(free.tid), free.runnable_ns
        made = (changes(self._sleeps.tid) & ~self._sleeps.asleep)[self._free]
        by_it = (thread >= 0) & (made | (free.asleep & (free.waker == thread)))
        at_one = np.flatnonzero(self._sleeps.asleep & self._at_one)
        off_ns, of = self._sleeps.off_ns[at_one], self._thread_of(self._sleeps.tid[at_one])
        last = AsOf(of, off_ns).at_or_before(thread, since_ns)
        return thread, since_ns, np.where(by_it, at(at_one, last), -1), by_it & (last < 0)

    @cached_property
    def _told(self) -> tuple[Ints, Ints]:
        """Of all that was handed over, until when a worker was at it, by what that said; and by
        when at nothing or something else: -1, NEVER: none said so."""
        handed, some = self._all_handed, np.flatnonzero(self._key != 0)
        by_key = AsOf(handed["request_key"], handed["time_ns"])
        row = by_key.at_or_before(self._key[some], self._said_ns[some])
        some, row = some[row >= 0], row[row >= 0]
        # It left its CPU at nothing else until it said so.
        following = self._said.at_or_after(self._said_by[some], self._said_ns[some] + 1)
        next_ns = np.where(following >= 0, at(self._said_ns, following), NEVER)
        last = self._sleeps.resumed.at_or_before(self._said_by[some], next_ns - 1)
        at_it_ns = np.maximum(at(self._sleeps.on_ns, last), self._said_ns[some])
        since_ns, until_ns = np.full(len(self._handed_ns), -1), np.full(len(self._handed_ns), -1)
        np.maximum.at(since_ns, row, at_it_ns)
        np.maximum.at(until_ns, row, next_ns)
        return since_ns, np.where(until_ns < 0, NEVER, until_ns)

    @cached_property
    def _before(self) -> Ints:
        """Of each that was handed over, until when a worker was at another one of its queue that
        was before it, -1: none said so. What goes past the page cache has no turn."""
        handed, (until_ns, _) = self._all_handed, self._told
        turns = ~one_of(handed["opcode"], TAKES_NO_TURN) & (handed["inode"] != 0)
        turns &= ~are_direct(self._window.trace, handed["open_flags"])
        rows, found = np.flatnonzero(turns), np.full(len(until_ns), -1)
        rows = rows[order_of(self._queue[rows], self._handed_ns[rows])]
        if len(rows):
            queue, first_ns = self._queue[rows], int(self._handed_ns.min())
            until_ns = np.maximum(until_ns[rows] - first_ns, -1)
            shift = queue * (int(until_ns.max()) + 2)
            before = np.append(-1, np.maximum.accumulate(until_ns + shift)[:-1] - shift[:-1])
            told = ~changes(queue) & (before >= 0)
            found[rows] = np.where(told, before + first_ns, -1)
        return found

    def _silence(self, thread: int) -> Union:
        """When any of a thread's workers may have been at what it said nothing of: it had a CPU."""
        if thread not in self._silences:
            self._silences[thread] = self._of(thread, self._unsaid)
        return self._silences[thread]

    @cached_property
    def _unsaid(self) -> tuple[Ints, Ints, Ints]:
        """Whenever a worker had a CPU, but what it is at as it leaves that, since it said so: that
        is what it was at all the time, if it had said so before."""
        sleeps = self._sleeps
        tid, first = sleeps.tid, changes(sleeps.tid)
        last = np.append(first[1:], True)[: len(tid)]
        off_ns = np.where(last, NEVER, np.append(sleeps.off_ns[1:], NEVER)[: len(tid)])
        ended = last & self._idle & (sleeps.context == WAKE_TIMER)
        # Of one that was not born here nobody knows what it did before.
        earlier = np.flatnonzero(first & sleeps.asleep)
        worker = np.concatenate([tid[~ended], tid[earlier]])
        begin_ns = np.concatenate([sleeps.on_ns[~ended], np.zeros(len(earlier), np.int64)])
        end_ns = np.concatenate([off_ns[~ended], sleeps.off_ns[earlier]])
        said = self._said.at_or_before(worker, end_ns)
        at_one = (said >= 0) & (at(self._key, said) != 0)
        end_ns = np.where(at_one, np.maximum(at(self._said_ns, said), begin_ns), end_ns)
        some = np.flatnonzero(end_ns > begin_ns)
        return worker[some], begin_ns[some], end_ns[some]

    def _union(self, thread: int) -> Union:
        """When any of a thread's workers had something to do, or may have."""
        if thread not in self._unions:
            self._unions[thread] = self._of(thread, self._busy)
        return self._unions[thread]

    def _of(self, thread: int, spans: tuple[Ints, Ints, Ints]) -> Union:
        """What of workers' spans is of a thread's: one of which it is not known whose it is may be
        anyone's."""
        worker, begin_ns, end_ns = spans
        rows = np.flatnonzero(one_of(self._thread_of(worker), (thread, -1)))
        return Union(begin_ns[rows], end_ns[rows])

    @cached_property
    def _busy(self) -> tuple[Ints, Ints, Ints]:
        """Whenever a worker may have been at something: which, from when to when."""
        sleeps = self._sleeps
        tid, rest = sleeps.tid, np.flatnonzero(self._idle)
        first = np.flatnonzero(changes(tid))
        # Of one that was not born here nobody knows what it did before.
        born = np.where(sleeps.asleep[first], 0, sleeps.off_ns[first])
        worker = np.concatenate([tid[first], tid[rest]])
        rests_ns = np.concatenate([np.full(len(first), -1), sleeps.off_ns[rest]])
        begin = np.concatenate([born, sleeps.wake_ns[rest]])
        # It ends when its last sleep has lasted as long as an idle one is kept.
        last = np.append(first[1:], len(tid))[: len(first)] - 1
        ended = one_of(rest, last) & (sleeps.context[rest] == WAKE_TIMER)
        order = order_of(worker, rests_ns)
        ends = np.append(np.zeros(len(first), np.bool_), ended)[order]
        worker, begin = worker[order], begin[order]
        end = np.append(rests_ns[order][1:], NEVER)[: len(order)]
        end[np.flatnonzero(changes(worker))[1:] - 1] = NEVER
        busy = np.flatnonzero((end > begin) & ~ends)
        return worker[busy], begin[busy], end[busy]


def _turns(window: Window) -> tuple[AsOf, Ints]:
    """What was handed over, by request and time; and of each, since when it had no turn to wait
    for, as all that its thread had handed over before, and writes to the same file, was complete;
    or it does not write: 0. Of all that a trace has: a window may begin in between.

    That another file has its turn with it, by chance, nothing tells.
    """
    # One of its own: what is read here nobody needs again.
    window = Window(window.trace, NO_PIECES, NO_COMMITS, window.begin_ns, window.end_ns)
    fields = ("request_key", "tid", "dev", "inode", "opcode")
    handed = window.columns("io_uring_queue_async_work", *fields)
    key, time_ns = handed["request_key"], handed["time_ns"]
    turn_ns = np.zeros(len(key), np.int64)
    rows = np.flatnonzero(~one_of(handed["opcode"], TAKES_NO_TURN))
    queue = numbers(*(handed[name][rows] for name in ("tid", "dev", "inode")))
    order = order_of(queue, time_ns[rows])
    rows, queue = rows[order], queue[order]
    if len(rows):
        done = completions(window, "request_key")
        row = AsOf(done["request_key"], done["time_ns"]).at_or_after(key[rows], time_ns[rows])
        end_ns = np.where(row >= 0, at(done["time_ns"], row), int(time_ns.max()) + 1)
        # The last of all before to be complete; queue by queue.
        shift = queue * (int(end_ns.max() - time_ns.min()) + 1)
        last_ns = np.append(0, np.maximum.accumulate(end_ns + shift)[:-1]) - shift
        turn_ns[rows] = np.where(changes(queue), 0, last_ns)
    return AsOf(key, time_ns), turn_ns


def _first_of_later(
    queue: Ints,
    handed_ns: Ints,
    said: Ints,
    said_ns: Ints,
    asked: Ints,
    since_ns: Ints | None = None,
) -> Ints:
    """When the first was said of all in the same queue that was handed over later than each of
    some, or than ``since_ns``; NEVER: none was. ``queue``: of all that was handed over, of which
    ``said``, ``asked``: -1: none, are rows."""
    if not len(said):
        return np.full(len(asked), NEVER)
    order = order_of(queue[said], handed_ns[said])
    said, said_ns = said[order], said_ns[order]
    # The first that was said of all that was handed over from each on; queue by queue.
    shift = queue[said] * (int(said_ns.max() - said_ns.min()) + 1)
    first_ns = np.minimum.accumulate((said_ns + shift)[::-1])[::-1] - shift
    of = AsOf(queue[said], handed_ns[said])
    after_ns = at(handed_ns if since_ns is None else since_ns, asked)
    later = of.at_or_after(at(queue, asked), after_ns + 1)
    return np.where((asked >= 0) & (later >= 0), at(first_ns, later), NEVER)


def of_nobody(window: Window) -> Ints:
    """Workers of which nothing tells whose they are."""
    workers = workers_of(window)
    return workers[~one_of(workers, whole(window.trace).once(_whose)[0])]


def _whose(window: Window) -> tuple[Ints, Ints]:
    """Workers, in order, and of each who submitted what it was at last; or made it, or made the
    worker that did. Of all that a trace has: what is before a loss is told to no window behind it.
    """
    # One of its own: what is read here nobody needs again.
    window = Window(window.trace, NO_PIECES, NO_COMMITS, window.begin_ns, window.end_ns)
    told = window.columns("thread", "tid", "subject_tid")
    # The thread that submits for a process (SQPOLL) has a pool of its own, whoever made it.
    by_another = told["tid"] != told["subject_tid"]
    made = np.flatnonzero(by_another & one_of(told["subject_tid"], workers_of(window)))
    said = window.columns("io_uring_work", "tid", "request_key")
    # What one was at, or had been at before it went idle.
    some = np.flatnonzero(said["request_key"] != 0)
    submitted = submissions_in(window, "tid", "request_key")
    by_key = AsOf(submitted["request_key"], submitted["time_ns"])
    row = by_key.at_or_before(said["request_key"][some], said["time_ns"][some])
    parts = (
        (told["subject_tid"][made], told["tid"][made]),
        (said["tid"][some[row >= 0]], submitted["tid"][row[row >= 0]]),
    )
    worker, thread = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = order_of(worker)
    worker, thread = worker[order], thread[order]
    last = np.flatnonzero(np.append(changes(worker)[1:], True)[: len(worker)])
    worker, thread = worker[last], thread[last]
    for _ in range(GENERATIONS):
        place = np.minimum(np.searchsorted(worker, thread), max(len(worker) - 1, 0))
        thread = np.where(at(worker, place) == thread, at(thread, place), thread)
    return worker, thread
