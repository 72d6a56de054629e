# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: sleeps in, what each waited for out, by who ended it.

A sleeper is let go by a completion, in an interrupt or in the thread that read it;
or by a thread, which then let something go. What that thread did while the other
slept is what the other waited for: its time on the CPU and off it, and where it slept
itself, what *its* waker did, and so on, back in time until the sleep began. What
nobody was seen to cause is told of nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata import native
from iostrata.columns import AsOf, Containing, Ints, ascend, at, coded, joined, one_of, order_of
from iostrata.stitch.bios import Bios, Carried
from iostrata.stitch.calls import ENTERED
from iostrata.stitch.chain import FOLLOWED, Chain, Deeds
from iostrata.stitch.endings import SOON_NS, Endings
from iostrata.stitch.fuse import chosen
from iostrata.stitch.kinds import Kinds
from iostrata.stitch.serving import WORKER, Service, short_of_cpu
from iostrata.stitch.spans import SpanList, Spans
from iostrata.stitch.turns import Numbers
from iostrata.stitch.wakeup import Sleeps, at_rest, without_cpu
from iostrata.stitch.window import Window
from iostrata.trace import Facts
from iostrata.trace.layout import (
    THREAD_HELPER,
    THREAD_JOURNAL,
    THREAD_WORKER,
    WAKE_INTERRUPT,
    WAKE_THREAD,
    WAKE_TIMER,
    WAKE_UNKNOWN,
)

CPUS: Final = 1 << 16
THREADS: Final = 1 << 32
# The context of a thread that did not wake anybody then, but was at what it let go of later.
STILL: Final = -1
Rows = tuple[Ints, AsOf]
"""Rows to look up, and what they are of."""
CALLS: Final = (
    *((point, "enter_ns") for point in (*ENTERED, "btrfs_beside")), ("svc_call", "receive_ns")
)  # fmt: skip
"""Points of calls, or of what is taken for one, and when each began."""
NOTHING: Final = np.zeros(0, np.int64), AsOf(np.zeros(0, np.int64), np.zeros(0, np.int64))


def _places(facts: Facts, key: int) -> Ints:
    return np.array(sorted(facts.below(int(key))), np.int64)


def _anywhere(key: int) -> bool:
    """What did not tell its device, or has none of its own (btrfs, NFS), may be on any."""
    return key < 1 << 20


@dataclass(frozen=True, eq=False)
class Slept:
    """Owners that waited for the end of sleeps (rows), and from when on."""

    owner: Ints
    sleep: Ints
    begin_ns: Ints

    def where(self, keep: NDArray[np.bool_]) -> Slept:
        if keep.all():
            return self
        return Slept(self.owner[keep], self.sleep[keep], self.begin_ns[keep])


@dataclass(frozen=True, eq=False)
class Waits:
    """From when to when an owner waited for what a thread was about to let go.

    ``sleep``: the row of the sleep that it all began with. ``other_work``: as Sleeps have it, of
    the waker.
    """

    owner: Ints
    sleep: Ints
    begin_ns: Ints
    end_ns: Ints
    waker: Ints
    cpu: Ints
    context: Ints
    other_work: Ints

    def __len__(self) -> int:
        return len(self.owner)

    def where(self, keep: NDArray[np.bool_]) -> Waits:
        if keep.all():
            return self
        rows = np.flatnonzero(keep)
        return Waits(**{name: column.take(rows) for name, column in vars(self).items()})


@dataclass(frozen=True, eq=False)
class Tied:
    """What owners waited for: row of a bio, call or commit, and from when to when."""

    owner: Ints
    row: Ints
    begin_ns: Ints
    end_ns: Ints

    def rows(self, rows: Ints) -> Tied:
        return Tied(**{name: column[rows] for name, column in vars(self).items()})


@dataclass(frozen=True, eq=False)
class Explained:
    """``spans``: of the owners, what their wakers and those that they waited for did.

    ``ended``: of each sleep, whether anybody was seen to have caused its end. ``beyond``: how many
    waits were behind more than ``FOLLOWED`` others.
    """

    spans: Spans
    bios: Tied
    calls: Tied
    commits: Tied
    ended: NDArray[np.bool_]
    beyond: int


class Wakers:
    """Follows sleeps of a window to what ended them."""

    def __init__(
        self,
        window: Window,
        sleeps: Sleeps,
        kinds: Kinds,
        endings: Endings,
        bios: Bios,
        numbers: Numbers,
        asker: Ints,
    ) -> None:
        """``asker``: of each bio, the piece whose thread asked for it then, -1: none."""
        self._bios, self._numbers, self._asker = bios, numbers, asker
        self._sleeps, self._endings, self._commits = sleeps, endings, window.commits
        self._completed = np.flatnonzero(endings.bio >= 0)
        self._told = np.flatnonzero(endings.bio < 0)
        self._by_thread = self._by_tid(self._told)
        self._resumed = sleeps.resumed
        self._asking = asking(bios, sleeps)
        self._kinds = kinds
        self._window = window
        self._chosen = chosen(window, sleeps)
        keys, self._device_of_piece = coded(window.pieces.device_key)
        disks, self._disk_of_bio = coded(bios.device_key)
        self._may_be = np.array(
            [one_of(disks, _places(window.trace.facts, key)) | _anywhere(key) for key in keys]
        ).reshape(len(keys), len(disks))

    def explain(
        self, owner: Ints, others: Slept, carried: Carried, owners: Sequence[Ints]
    ) -> Explained:
        """``owner``: of each of the window's sleeps, -1: of none that matters.

        ``others``: who waited for the end of somebody else's. ``owners``: of each bio, as many as
        it can have.
        """
        sleeps = self._sleeps
        itself = np.flatnonzero(owner >= 0)
        slept = Slept(owner[itself], itself, sleeps.off_ns[itself])
        slept = Slept(**joined([slept, others]))
        slept = slept.where((sleeps.asleep & (sleeps.waker >= 0))[slept.sleep])
        rows = slept.sleep
        front = Waits(
            slept.owner, rows, slept.begin_ns,
            *(
                column.take(rows)
                for column in (
                    sleeps.wake_ns, sleeps.waker, sleeps.waker_cpu, sleeps.context,
                    sleeps.waker_other_work,
                )
            ),
        )  # fmt: skip
        spans, ended = SpanList(), np.zeros(len(sleeps), np.bool_)
        if (self._asking >= 0).any():
            ended[rows[self._asking[rows] >= 0]] = True
            front = self._awaiting(front, rows, spans)
        front = front.where(~self._collects(front))
        if native.LIBRARY is None:
            own = cache(lambda: self._own(carried, owners))
            ties, worked, beyond = self._followed(front, own, spans, ended)
        else:
            own_in_c = cache(lambda: self._own_in_c(carried, owners))
            ties, worked, beyond = self._followed_in_c(front, own_in_c, spans, ended)
        bios, calls, commits = ties
        worked = Service(**joined([worked, self._in_line(owner, owners)]))
        if len(worked):
            spans.extend(short_of_cpu(worked, sleeps, self._numbers.sleep, WORKER))
        return Explained(spans.collect(), bios, calls, commits, ended, beyond)

    def _in_line(self, owner: Ints, owners: Sequence[Ints]) -> Service:
        """Workers of the kernel's pools that came to what let a piece go when they were through
        with others' works, since its own requests were complete: it waited for their CPU then,
        whichever work they were at. Before one last had nothing to do, nothing was in line.

        What they slept for in those works is told of nobody else: a pool that may do several at
        once lets another worker go meanwhile.
        """
        sleeps, nobody = self._sleeps, Service(*np.zeros((4, 0), np.int64))
        if not ((sleeps.other_work > 0) | (sleeps.waker_other_work > 0)).any():
            return nobody
        let_go = (owner >= 0) & sleeps.asleep & (sleeps.context != WAKE_INTERRUPT)
        rows = np.flatnonzero(let_go & (sleeps.waker > 0))
        rows = rows[self._kinds.pool_of(sleeps.waker[rows], sleeps.wake_ns[rows]) >= 0]
        if not len(rows):
            return nobody
        of, tid, until = owner[rows], sleeps.waker[rows], sleeps.wake_ns[rows]
        done = np.zeros(len(rows), np.int64)
        for of_bio in owners:
            own = np.flatnonzero((of_bio >= 0) & (self._bios.life_end_ns >= 0))
            last = AsOf(of_bio[own], self._bios.life_end_ns[own]).at_or_before(of, until)
            done = np.maximum(done, at(self._bios.life_end_ns, at(own, last)))
        rest = np.flatnonzero(at_rest(sleeps, np.arange(len(sleeps))))
        rested = AsOf(sleeps.tid[rest], sleeps.on_ns[rest]).at_or_before(tid, until)
        since = np.maximum(done, at(sleeps.wake_ns, at(rest, rested)))
        some = np.flatnonzero((done > sleeps.off_ns[rows]) & (since < until))
        return Service(of[some], tid[some], since[some], until[some])

    def _followed(
        self, front: Waits, own: Callable[[], Rows], spans: SpanList, ended: NDArray[np.bool_]
    ) -> tuple[list[Tied], Service, int]:
        """What waits were for: bios, calls and commits; whom kernel workers worked for; and how
        many are not followed.

        Adds to ``spans`` what went on meanwhile, and to ``ended`` whose end was caused.
        """
        tied: dict[str, list[Tied]] = {kind: [_nothing()] for kind in ("bio", "call", "commit")}
        workers = [Service(*np.zeros((4, 0), np.int64))]
        for _ in range(FOLLOWED):
            if not len(front):
                break
            front = self._pausing(front, spans, ended)
            ending = self._ending_of(front, own)
            done = np.maximum(at(self._endings.since_ns, ending), front.begin_ns)
            spans.add(
                np.where(ending >= 0, front.owner, -1), "wakeup.interrupt", done, front.end_ns
            )
            for kind, parts in tied.items():
                parts.append(_tie(front, at(vars(self._endings)[kind], ending), done))
            ended[front.sleep[ending >= 0]] = True
            asked = self._asked(front, at(self._endings.bio, ending), spans)
            on = (ending < 0) & (front.context != WAKE_INTERRUPT)
            front = front.where(on)
            kinds = self._kinds.of(front.waker, front.end_ns)
            tied["commit"].append(self._commits_of(front.where(kinds == THREAD_JOURNAL)))
            if len(front):
                did = self._did(front, kinds, spans, ended, workers)
                asked = Waits(**joined([did, asked]))
            front = asked
        found = [Tied(**joined(parts)) for parts in tied.values()]
        return found, Service(**joined(workers)), len(front)

    def _followed_in_c(
        self, front: Waits, own: Callable[[], native.Own], spans: SpanList, ended: NDArray[np.bool_]
    ) -> tuple[list[Tied], Service, int]:
        """As ``_followed``."""
        context = self._sleeps.context
        interrupt, itself = context == WAKE_INTERRUPT, context == WAKE_THREAD
        tables = (
            self._on_cpu if interrupt.any() else NOTHING,
            self._of_thread if itself.any() else NOTHING,
            (self._told, self._by_thread) if len(self._told) else NOTHING,
        )
        chain = Chain(
            self._sleeps, self._asking, self._chosen, self._endings, self._bios, self._asker,
            self._disk_of_bio, self._device_of_piece, self._may_be, self._numbers, self._kinds,
            [_leading(table) for table in tables], self._resumed.lookup,
            AsOf(self._commits.waker, self._commits.begin_ns), self._commits.end_ns,
        )  # fmt: skip
        waits = tuple(vars(front).values())
        told = own() if (front.context == WAKE_UNKNOWN).any() else None
        found = chain.follow(waits, ended, told, None)
        if found is None:
            # Mostly what ended a sleep is known at once, and no thread needs to be followed.
            awake = _leading((self._woken, self._awake))
            # Of who slept until a timer of its own, or did not sleep, nobody asks.
            other = self._sleeps.asleep & ~(interrupt | itself | (context == WAKE_TIMER))
            on_thread = _leading(self._on_thread if other.any() else NOTHING)
            found = chain.follow(waits, ended, own(), Deeds(on_thread, awake, *self._calls))
            assert found is not None
        span_owner, rank, begin_ns, end_ns, of = found.spans
        spans.extend(Spans(span_owner, rank.astype(np.int16), begin_ns, end_ns, of))
        ties = [Tied(*columns) for columns in found.ties]
        return ties, Service(*found.services), found.beyond

    def _collects(self, front: Waits) -> NDArray[np.bool_]:
        """Who submitted requests and slept until a time limit: no request waits for that."""
        pieces = self._window.pieces
        if self._window.serves or not pieces.request_key.any():
            return np.zeros(len(front), np.bool_)
        piece = np.where(front.owner < len(pieces), front.owner, -1)
        own: NDArray[np.bool_] = at(pieces.tid, piece) == self._sleeps.tid[front.sleep]
        own &= (piece >= 0) & (front.context == WAKE_TIMER)
        own &= at(pieces.request_key, piece) != 0
        return own

    def _pausing(self, front: Waits, spans: SpanList, ended: NDArray[np.bool_]) -> Waits:
        """Without those who slept until a timer of their own: nothing was to let them go before.

        What a daemon chose to wait for is told of it (fuse.wait), however it ended.
        """
        paused = front.context == WAKE_TIMER
        owner = np.where(paused & ~self._chosen[front.sleep], front.owner, -1)
        spans.add(owner, "pause", front.begin_ns, front.end_ns)
        ended[front.sleep[paused]] = True
        return front.where(~paused)

    def _asked(self, front: Waits, bio: Ints, spans: SpanList) -> Waits:
        """Before it was asked for a request, its completion waited for who asked for it.

        What a limit had held back was asked for before: who hands it on, only does that.
        """
        queue, tid = at(self._bios.queue_ns, bio), at(self._bios.tid, bio)
        held = at(self._bios.held.astype(np.int64), bio) > 0
        spans.add(
            np.where(held, front.owner, -1), "throttle.io", front.begin_ns, queue,
            bio + self._numbers.bio,
        )  # fmt: skip
        still = np.full(len(front), STILL)
        before = Waits(
            front.owner, front.sleep, front.begin_ns, queue, tid, front.cpu, still, still * 0
        )  # fmt: skip
        return before.where((bio >= 0) & ~held & (queue > front.begin_ns))

    def _own_in_c(self, carried: Carried, owners: Sequence[Ints]) -> native.Own:
        """As ``_own``."""
        endings, rows = self._endings, self._completed
        times = endings.time_ns[rows]
        return native.Own.of(
            (endings.bio, endings.request),
            rows if ascend(times) else rows[order_of(times)],
            (carried.bio, carried.request),
            max(int(of.request.max(initial=-1)) + 1 for of in (endings, carried)),
            owners,
        )

    def _own(self, carried: Carried, owners: Sequence[Ints]) -> Rows:
        """Completions by owner and thread, and the ending of each: all whose data it carried."""
        endings = self._endings
        requests = max(int(of.request.max(initial=-1)) + 1 for of in (endings, carried))
        # Behind the last one is what is of none.
        of_request = np.full(requests + 1, -1)
        of_request[endings.request] = np.arange(len(endings.request))
        of_request[-1] = -1
        ending = of_request[carried.request]
        found = np.flatnonzero(ending >= 0)
        rows, bio = ending[found], carried.bio[found]
        # Mostly the bio that an ending names is all that it carried.
        named = np.zeros(len(endings.bio), np.bool_)
        named[rows[endings.bio[rows] == bio]] = True
        others = np.flatnonzero((endings.bio >= 0) & ~named)
        if len(others):
            rows = np.concatenate([others, rows])
            bio = np.concatenate([endings.bio[others], bio])
        parts = [(rows[:0], rows[:0])]
        for of_bio in owners:
            if of_bio.max(initial=-1) < 0:
                continue
            owner = of_bio[bio]
            known = np.flatnonzero(owner >= 0)
            parts.append((owner[known], rows[known]))
        owner, rows = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        order = order_of(rows)
        owner, rows = owner[order], rows[order]
        return rows, AsOf(owner * THREADS + endings.tid[rows], endings.time_ns[rows])

    def _is_possible(self, owner: Ints, ending: Ints) -> NDArray[np.bool_]:
        """Whether a piece may have waited for what ended: on its device, below that, or what it
        asked for itself (what is written may be a mapping of a file on another disk)."""
        bio = at(self._endings.bio, ending)
        piece = (owner < len(self._device_of_piece)) & (at(self._asker, bio) != owner)
        known = np.flatnonzero(piece & (bio >= 0))
        possible = np.ones(len(owner), np.bool_)
        possible[known] = self._may_be[
            self._device_of_piece[owner[known]], self._disk_of_bio[bio[known]]
        ]
        return possible

    def _ending_of(self, front: Waits, own: Callable[[], Rows]) -> Ints:
        """What the waker had just ended when it woke the sleeper, -1: nothing."""
        found, times = self._completed_by(front, own), self._endings.time_ns
        # An interrupt only completes; who was at what it let go of later had ended nothing yet.
        some = np.flatnonzero((front.context != WAKE_INTERRUPT) & (front.context != STILL))
        waker, end_ns, completed = front.waker[some], front.end_ns[some], found[some]
        resumed = at(self._sleeps.on_ns, self._resumed.at_or_before(waker, end_ns))
        # As itself, a thread of the workload or of a journal completes no request, and none
        # completes any while it is off the CPU.
        itself = np.flatnonzero((front.context[some] == WAKE_THREAD) & (completed >= 0))
        kind = self._kinds.of(waker[itself], end_ns[itself])
        cannot = (kind != 0) & (kind != THREAD_HELPER)
        cannot |= resumed[itself] > times[completed[itself]]
        completed[itself[cannot]] = -1
        told = at(self._told, self._by_thread.at_or_before(waker, end_ns))
        time = at(times, told)
        told = np.where((time < front.begin_ns[some]) | (time < resumed), -1, told)
        found[some] = np.where(at(times, told) >= at(times, completed), told, completed)
        return found

    def _completed_by(self, front: Waits, own: Callable[[], Rows]) -> Ints:
        """Which completion the waker had just made, if it was its, -1: none."""
        times, place = self._endings.time_ns, self._last_completed(front)
        possible = self._is_possible(front.owner, place)
        # Where the CPU is not known, the idle thread may be any: the owner's own come first.
        unknown = front.context == WAKE_UNKNOWN
        some = np.flatnonzero(unknown | ~possible)
        rows, by_owner = own()
        key = front.owner[some] * THREADS + front.waker[some]
        mine = np.full(len(front), -1)
        mine[some] = at(rows, by_owner.at_or_before(key, front.end_ns[some]))
        since = at(times, mine)
        soon = (since >= front.begin_ns) & (front.end_ns - since <= SOON_NS)
        completed = np.where(unknown & soon, mine, place)
        time = at(times, completed)
        late = (time < front.begin_ns) | (front.end_ns - time > SOON_NS)
        foreign = (completed != mine) & ~possible
        return np.where(late | foreign | (front.context == STILL), -1, completed)

    def _last_completed(self, front: Waits) -> Ints:
        """What its waker's CPU completed last where an interrupt let go, else the waker (row)."""
        found = np.full(len(front), -1)
        interrupt, itself = front.context == WAKE_INTERRUPT, front.context == WAKE_THREAD
        tables: tuple[tuple[NDArray[np.bool_], Ints, Callable[[], Rows]], ...] = (
            (interrupt, front.waker * CPUS + front.cpu, lambda: self._on_cpu),
            (itself, front.waker, lambda: self._of_thread),
            (~interrupt & ~itself, front.waker, lambda: self._on_thread),
        )
        for which, key, table in tables:
            if len(some := np.flatnonzero(which)):
                rows, last = table()
                found[some] = at(rows, last.at_or_before(key[some], front.end_ns[some]))
        return found

    @cached_property
    def _woken(self) -> Ints:
        return np.flatnonzero(self._sleeps.asleep)

    @cached_property
    def _awake(self) -> AsOf:
        return AsOf(self._sleeps.tid[self._woken], self._sleeps.on_ns[self._woken])

    @cached_property
    def _on_cpu(self) -> Rows:
        tid, cpu = self._endings.tid[self._completed], self._endings.cpu[self._completed]
        return self._completed, AsOf(tid * CPUS + cpu, self._endings.time_ns[self._completed])

    @cached_property
    def _on_thread(self) -> Rows:
        return self._completed, self._by_tid(self._completed)

    @cached_property
    def _of_thread(self) -> Rows:
        rows = self._completed[self._endings.itself[self._completed] > 0]
        return rows, self._by_tid(rows)

    def _by_tid(self, rows: Ints) -> AsOf:
        return AsOf(self._endings.tid[rows], self._endings.time_ns[rows])

    def _commits_of(self, front: Waits) -> Tied:
        """The commits that journal threads were at."""
        if not len(front):
            return _nothing()
        commits = self._commits
        commit = AsOf(commits.waker, commits.begin_ns).at_or_before(front.waker, front.end_ns)
        reaches = at(commits.end_ns, commit) > front.begin_ns
        return _tie(front, np.where(reaches, commit, -1), front.end_ns)

    @cached_property
    def _calls(self) -> tuple[Ints, Containing]:
        return _calls(self._window)

    def _did(
        self,
        front: Waits,
        kind: Ints,
        spans: SpanList,
        ended: NDArray[np.bool_],
        workers: list[Service],
    ) -> Waits:
        """Adds what wakers did as threads; returns what they themselves waited for before."""
        enter, calls = self._calls
        call = calls.find(front.waker, front.end_ns)
        helper = kind == THREAD_HELPER
        works = helper | (kind == THREAD_WORKER)
        sleep = self._last_sleep(front, helper)
        # What a helper did before it was first recorded is not known.
        known = (works & ~(helper & (sleep < 0))) | ((call >= 0) & (kind != THREAD_JOURNAL))
        known &= (front.waker > 0) & (front.waker != self._sleeps.tid[front.sleep])
        front, call, sleep = front.where(known), call[known], sleep[known]
        helper, works = helper[known], works[known]
        ended[front.sleep] = True
        off, on = at(self._sleeps.off_ns, sleep), at(self._sleeps.on_ns, sleep)
        runnable = at(self._sleeps.runnable_ns, sleep)
        asleep = at(self._sleeps.asleep.astype(np.int64), sleep) > 0
        idle = helper & at_rest(self._sleeps, sleep)
        # What a worker slept for in another work is nothing to whom it lets go in this one; that it
        # had no CPU then, or was not through with that work, is.
        other = (front.other_work > 0) | (at(self._sleeps.met, sleep) > 0)
        other &= asleep & helper & ~idle
        floor = np.where(other, runnable, np.where(works, -1, at(enter, call)))
        floor = np.maximum(front.begin_ns, floor)
        peer = np.where(helper, -1, front.owner)
        holder = front.waker + self._numbers.thread
        since = np.maximum(floor, runnable)
        spans.add(peer, "lock", np.maximum(floor, on), front.end_ns, holder)
        spans.extend(without_cpu(self._sleeps, sleep, peer, floor, on, self._numbers.sleep))
        some = np.flatnonzero(helper)
        worker = Service(front.owner[some], front.waker[some], since[some], front.end_ns[some])
        spans.add(worker.owner, "wakeup.worker", worker.begin_ns, worker.end_ns, holder[some])
        workers.append(worker)
        before = Waits(
            front.owner, front.sleep, np.where(idle, floor, np.maximum(floor, off)), runnable,
            at(self._sleeps.waker, sleep), at(self._sleeps.waker_cpu, sleep),
            at(self._sleeps.context, sleep), at(self._sleeps.waker_other_work, sleep),
        )  # fmt: skip
        slept = asleep & (runnable > floor)
        before = self._awaiting(before.where(slept), sleep[slept], spans)
        earlier = Waits(
            front.owner, front.sleep, floor, off, front.waker, front.cpu,
            np.full(len(front), STILL), at(self._sleeps.other_work, sleep),
        ).where(~idle & (off > floor))  # fmt: skip
        return Waits(**joined([before, earlier]))

    def _awaiting(self, front: Waits, sleep: Ints, spans: SpanList) -> Waits:
        """Without those who slept to get a request: whatever ended then, only made room for it."""
        bio = at(self._asking, sleep)
        if not (bio >= 0).any():
            return front
        spans.add(
            np.where(bio >= 0, front.owner, -1), "block.Q2G", front.begin_ns, front.end_ns,
            at(self._bios.request, bio),
        )  # fmt: skip
        return front.where(bio < 0)

    def _last_sleep(self, front: Waits, helper: NDArray[np.bool_]) -> Ints:
        """Of each waker. What a helper is for, it is for from when it was let go on: however often
        it was kept from its CPU since. It may have slept again while it was not recorded."""
        last = self._resumed.at_or_before(front.waker, front.end_ns)
        some = np.flatnonzero(helper)
        awake = self._awake.at_or_before(front.waker[some], front.end_ns[some])
        last[some] = np.where(awake >= 0, at(self._woken, awake), last[some])
        forgotten = self._kinds.forgotten_ns(front.waker, front.end_ns)
        return np.where(at(self._sleeps.on_ns, last) <= forgotten, -1, last)


def asking(bios: Bios, sleeps: Sleeps) -> Ints:
    """Of each sleep, the bio that its thread slept to get a request for, -1: none."""
    got = np.flatnonzero(bios.got_ns >= 0)
    if not len(got):
        return np.full(len(sleeps), -1)
    last = AsOf(bios.tid[got], bios.queue_ns[got]).at_or_before(sleeps.tid, sleeps.off_ns)
    bio = at(got, last)
    return np.where(sleeps.asleep & (sleeps.on_ns <= at(bios.got_ns, bio)), bio, -1)


def _leading(table: Rows) -> native.Lookup:
    rows, last = table
    return last.lookup.leading_to(rows)


def _tie(front: Waits, row: Ints, end_ns: Ints) -> Tied:
    mine = np.flatnonzero(row >= 0)
    return Tied(front.owner[mine], row[mine], front.begin_ns[mine], end_ns[mine])


def _nothing() -> Tied:
    none = np.zeros(0, np.int64)
    return Tied(none, none, none, none)


def _calls(window: Window) -> tuple[Ints, Containing]:
    """When each call of a recorded thread began: of its own, or one that it served."""
    parts = []
    for point, began in CALLS:
        told = window.columns(point, "tid", began)
        parts.append((told["tid"], told[began], told["time_ns"]))
    tid, enter, leave = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return enter, Containing(tid, enter, leave)
