# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: spans that wait for what only one can have at a time in, who had it meanwhile out.

A CPU has one task at a time, as the scheduler tells. A device may work on many requests,
and does not tell in which order: at each instant the one that was issued first of those
in flight is ahead of all others, and who asked for it is whom the rest is behind. A journal
commits for all who changed something at once: each has as much of that as it changed. What
was not seen is told of nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from iostrata import native
from iostrata.columns import NEVER, AsOf, Containing, Ints, at, one_of, order_of, outside
from iostrata.layers import STACK
from iostrata.stitch.behind import Behind, Kinds, Parts, Turns, during, in_one, most_of
from iostrata.stitch.bios import DEPTH, Bios, Carried
from iostrata.stitch.blockio import flushes_for
from iostrata.stitch.cpus import Queues
from iostrata.stitch.handles import commit_of, every_commit, handled, served
from iostrata.stitch.journal import Commits
from iostrata.stitch.people import IDLE, NOBODY, People
from iostrata.stitch.requests import OP_WRITE, Requests
from iostrata.stitch.serving import LoopWork, loop_work_of
from iostrata.stitch.spans import Spans
from iostrata.stitch.wakeup import Sleeps, by_interrupt
from iostrata.stitch.window import Window

WORKERS: Final = np.array([rank.row == "wakeup.worker" for rank in STACK])
QUEUES: Final = np.array([rank.row == "wakeup.runqueue" for rank in STACK])
LOCKS: Final = np.array([rank.row == "lock" for rank in STACK])
JOURNALS: Final = np.array(["journal." in rank.name for rank in STACK])
QUOTAS: Final = np.array([rank.row == "throttle.cpu" for rank in STACK])
LIMITS: Final = np.array([rank.row == "throttle.io" for rank in STACK])
DEVICES: Final = np.array([rank.name.startswith("device.") for rank in STACK])
BEFORE_DEVICES: Final = np.array(
    [rank.name.startswith(("block.", "lower.block.")) for rank in STACK]
)
STACKED: Final = np.array([rank.row == "block.stacked" for rank in STACK])
BEFORE_DEVICES[STACKED] = False
DISKS: Final = DEVICES | BEFORE_DEVICES | STACKED
UNASKED: Final = WORKERS | QUEUES | LOCKS | JOURNALS | QUOTAS | LIMITS | BEFORE_DEVICES
"""Ranks that are of something else than what was asked of a device or a machine."""
TOLD: Final = (QUEUES, WORKERS, DISKS, JOURNALS, LOCKS, QUOTAS, LIMITS)
"""Kinds of what is told of, from number 1 on; 0 is no kind."""
QUEUE: Final = 1
DISK: Final = 3
JOURNAL: Final = 4
KIND: Final = np.arange(1, len(TOLD) + 1).dot(TOLD).astype(np.uint8)
"""Of each rank."""

PAGE: Final = 4096
"""The least that a page cache writes down, on most machines."""

Tell = Callable[[Spans, Ints | None], list[Parts]]
"""Of spans of one kind, and ``whose`` (as in ``Behind.of``): the parts that some are known to be
behind."""


@dataclass(frozen=True)
class Every:
    """All of a window's spans of one kind: how many, and which, where that is asked."""

    count: int
    spans: Callable[[], Spans]


@dataclass(frozen=True)
class Numbers:
    """What ``Spans.of`` are from which number on: at first requests and calls, then these.

    ``thread``: threads that held locks, or worked for the write, by their tid.
    """

    sleep: int
    commit: int
    bio: int
    thread: int


@dataclass(frozen=True, eq=False)
class Waited:
    """What ``Spans.of`` are of.

    ``root``: of each of the ``bios``, the row of the whole one; ``commit``: that it is part of,
    -1: of none.
    """

    numbers: Numbers
    sleeps: Sleeps
    requests: Requests
    bios: Bios
    root: Ints
    commit: Ints
    carried: Carried


def behind_of(window: Window, spans: Spans, waited: Waited) -> Behind:
    people, commits = People(window.trace), every_commit(window)
    logged = handled(window, commits, people)
    waited = replace(waited, commit=commit_of(waited.bios, waited.root, commits, waited.commit))
    work = loop_work_of(window)
    if len(work.tid):
        waited = replace(waited, bios=_served(waited, work))
        logged = _through_loops(window, waited, people, commits, work, logged)
    kinds, counts = _kinds(spans, waited)

    def every(kind: int) -> Every:
        return Every(counts[kind], lambda: spans.rows(np.flatnonzero(kinds == kind)))

    told = (
        _queues(window, every(QUEUE), waited, people),
        _threads(waited, people),
        _disks(window, every(DISK), waited, people, logged),
        _journals(window, every(JOURNAL), waited, people, logged),
        _threads(waited, people),
        _quotas(waited, people),
        _limits(window, waited, people),
    )

    def find(rows: Ints, whose: Ints | None) -> Iterator[Parts]:
        asked = kinds[rows]
        for kind, tell in enumerate(told, 1):
            place = np.flatnonzero(asked == kind)
            if not len(place):
                continue
            some, alike = spans.rows(rows[place]), None if whose is None else whose[place]
            for span, begin, end, who in tell(some, alike):
                yield place[span], begin, end, who

    return Behind(people, find, kinds)


def _kinds(spans: Spans, waited: Waited) -> tuple[Kinds, Sequence[int]]:
    """Of each span its kind, and how many are of each: by its rank, and what it is of."""
    numbers, requests = waited.numbers, len(waited.requests.key)
    sleep, commit, bio, thread = numbers.sleep, numbers.commit, numbers.bio, numbers.thread
    of = (
        (NEVER, NEVER), (sleep, commit), (thread, NEVER), (0, requests), (commit, NEVER),
        (thread, NEVER), (sleep, NEVER), (bio, NEVER),
    )  # fmt: skip
    first, last = np.array(of, np.int64).T
    if native.LIBRARY is not None:
        kinds, counts = native.kinds_of(spans.rank, spans.of, KIND, first, last)
        return kinds, counts.tolist()
    kinds = KIND[spans.rank]
    kinds[(spans.of < first[kinds]) | (spans.of >= last[kinds])] = 0
    return kinds, np.bincount(kinds, minlength=len(of)).tolist()


def _written(waited: Waited, count: int, people: People) -> Ints:
    """Of each commit: whose data it writes before its log."""
    bios = waited.bios
    rows = np.flatnonzero((waited.commit >= 0) & (bios.data_tid > 0))
    who = people.threads(bios.data_tid[rows], bios.queue_ns[rows])
    return people.crowds(count, waited.commit[rows], who, bios.size_bytes[rows])


def _queues(window: Window, every: Every, waited: Waited, people: People) -> Tell:
    """Who had the CPUs that threads had to wait for."""
    first = waited.numbers.sleep
    queues = Queues(window, waited.sleeps, people)
    most = most_of(every.count, lambda: queues.waits(every.spans().of - first))

    def tell(spans: Spans, whose: Ints | None) -> list[Parts]:
        times = spans.begin_ns, spans.end_ns
        return [queues.during(spans.of - first, *times, most, whose)]

    return tell


def _threads(waited: Waited, people: People) -> Tell:
    """Of what a known thread did, or kept from others: all of each span is that one's."""

    def tell(spans: Spans, _: Ints | None) -> list[Parts]:
        who = people.threads(spans.of - waited.numbers.thread, spans.begin_ns)
        return [_all_of(spans, who)]

    return tell


def _quotas(waited: Waited, people: People) -> Tell:
    """Which spans a control group's limit kept from running: all of each."""

    def tell(spans: Spans, _: Ints | None) -> list[Parts]:
        quota = waited.sleeps.limit[spans.of - waited.numbers.sleep]
        return [_all_of(spans, people.limits("cpu.max", quota))]

    return tell


def _limits(window: Window, waited: Waited, people: People) -> Tell:
    """Which spans a control group's limit kept from being queued: all of each."""
    held = window.columns("block_bio_held", "bio_key", "cgroup")
    held_by = AsOf(held["bio_key"], held["time_ns"])

    def tell(spans: Spans, _: Ints | None) -> list[Parts]:
        bio = spans.of - waited.numbers.bio
        # Of one life, all are of one group; what is left of it is told of later than its queueing.
        until = np.maximum(waited.bios.queue_ns[bio], waited.bios.life_end_ns[bio])
        event = held_by.at_or_before(waited.bios.key[bio], until)
        group = np.where(event >= 0, at(held["cgroup"], event), 0)
        return [_all_of(spans, people.limits("io.max", group))]

    return tell


def _all_of(spans: Spans, who: Ints) -> Parts:
    return np.arange(len(spans)), spans.begin_ns, spans.end_ns, who


def _journals(window: Window, every: Every, waited: Waited, people: People, logged: Ints) -> Tell:
    """Who had the commits that were waited for."""
    turns = in_one(_commits(window, waited, people, logged))
    most = most_of(every.count, lambda: every.count)

    def tell(spans: Spans, whose: Ints | None) -> list[Parts]:
        span, commit = np.arange(len(spans)), spans.of - waited.numbers.commit
        return [during(span, commit, spans.begin_ns, spans.end_ns, turns, most, whose)]

    return tell


def _commits(window: Window, waited: Waited, people: People, logged: Ints) -> Turns:
    """Who had each of the window's commits (the place), since its thread was let go to begin it.

    While it waits for open handles, who ended the last of them: that one had been open all
    the time. Then whose data it writes, and who changed what it logs (``logged``), for whom
    all else is, and what comes before it (the journal's superblock).
    """
    commits, sleeps, row = window.commits, waited.sleeps, np.arange(len(window.commits))
    logging = np.where(commits.logging_ns >= 0, commits.logging_ns, commits.end_ns)
    flushing = np.where(commits.flushing_ns >= 0, commits.flushing_ns, logging)
    slept = sleeps.resumed
    last = slept.at_or_before(commits.tid, flushing)
    itself = ~by_interrupt(at(sleeps.context, last))
    inside = itself & (at(sleeps.waker, last) > 0) & (at(sleeps.wake_ns, last) > commits.begin_ns)
    woken = np.where(inside, at(sleeps.wake_ns, last), commits.begin_ns)
    asleep = np.where(inside, np.maximum(at(sleeps.off_ns, last), commits.begin_ns), woken)
    holder = people.threads(at(sleeps.waker, last), woken)
    written = _written(waited, len(logged), people)
    written = np.where(written >= 0, written, logged)[row]
    logged = logged[row]
    turns = (
        (commits.since_ns, commits.begin_ns, logged),
        (commits.begin_ns, asleep, logged),
        (asleep, woken, holder),
        (woken, flushing, logged),
        (flushing, logging, written),
        (logging, commits.end_ns, logged),
    )
    begin, end, who = (np.concatenate(columns) for columns in zip(*turns, strict=True))
    place, some = np.tile(row, len(turns)), np.flatnonzero(end > begin)
    return Turns(place[some], begin[some], end[some], who[some])


def _disks(window: Window, every: Every, waited: Waited, people: People, logged: Ints) -> Tell:
    """Who asked for what was ahead; a flush that was for the write, too, is all the write's."""
    turns, turn_of = _turns_of_disks(waited, people, logged)
    ahead, own_flush = in_one(turns), _OwnFlushes(window, waited)
    requests = waited.requests

    def for_it(spans: Spans) -> Parts:
        """What was for the write, too."""
        place = np.flatnonzero(requests.flush[spans.of])
        flush = own_flush.of(spans.owner[place], spans.of[place])
        place, flush = place[flush >= 0], flush[flush >= 0]
        request, begin, end = spans.of[place], spans.begin_ns[place], spans.end_ns[place]
        own = _whose(waited, people, logged, flush, begin)
        turn = np.where(own >= 0, turn_of[request], -1)
        since = np.maximum(begin, at(turns.begin_ns, turn))
        until = np.minimum(end, at(turns.end_ns, turn))
        mine = np.flatnonzero((turn >= 0) & (until > since))
        return place[mine], since[mine], until[mine], own[mine]

    most = most_of(every.count, lambda: every.count + len(for_it(every.spans())[0]))

    def tell(spans: Spans, whose: Ints | None) -> list[Parts]:
        own = mine, since, until, _ = for_it(spans)
        row, begin, end = outside(spans.begin_ns, spans.end_ns, mine, since, until)
        disk = requests.device_key[spans.of[row]]
        alike = None if whose is None else whose[row]
        return [own, during(row, disk, begin, end, ahead, most, alike)]

    return tell


class _OwnFlushes:
    """Which bio of its write, or of a commit, a flush was for."""

    def __init__(self, window: Window, waited: Waited) -> None:
        bio, flush = flushes_for(waited.bios, waited.requests)
        tid, nobody = waited.bios.tid[bio], np.zeros(len(bio), np.int64)
        commits = np.flatnonzero(waited.commit[bio] >= 0)
        self._tid = window.pieces.tid
        self._found = [
            (AsOf(key[rows], flush[rows]), bio[rows], flush[rows])
            for key, rows in ((tid, slice(None)), (nobody, commits))
        ]

    def of(self, piece: Ints, request: Ints) -> Ints:
        """Of some pieces and requests (rows); -1: none that is known."""
        found, tid = np.full(len(piece), -1), self._tid[piece]
        for (by_key, bio, flush), wanted in zip(self._found, (tid, tid * 0), strict=True):
            last = by_key.at_or_before(wanted, request)
            same = (found < 0) & (last >= 0) & (at(flush, last) == request)
            found = np.where(same, at(bio, last), found)
        return found


def _turns_of_disks(waited: Waited, people: People, logged: Ints) -> tuple[Turns, Ints]:
    """Who asked for the request that was ahead of all others of its disk; and of each request,
    which row that is, -1: it never was."""
    requests, (bio, kept_for) = waited.requests, _asked_by(waited)
    order = order_of(requests.device_key, requests.issue_ns)
    disk, issue = requests.device_key[order], requests.issue_ns[order]
    complete = requests.complete_ns[order]
    # One running maximum for all disks: each one's times are above those of the one before.
    number = np.cumsum(np.append(True, disk[1:] != disk[:-1])[: len(disk)])
    shift = number * (int(complete.max(initial=0)) + 1)
    # Until when all that was issued before was complete; below 0: nothing was.
    done = np.append(0, np.maximum.accumulate(complete + shift))[: len(disk)] - shift
    begin = np.maximum(issue, done)
    who = _whose(waited, people, logged, bio, requests.issue_ns)
    who = _kept(requests, kept_for, who, people)[order]
    ahead = np.flatnonzero((complete > begin) & (who >= 0))
    idle = np.flatnonzero((issue > done) & (done > 0))
    nobody = np.full(len(idle), people.number(IDLE, 0))
    turn_of = np.full(len(disk), -1)
    turn_of[order[ahead]] = np.arange(len(ahead))
    return Turns(
        np.concatenate([disk[ahead], disk[idle]]),
        np.concatenate([begin[ahead], done[idle]]),
        np.concatenate([complete[ahead], issue[idle]]),
        np.concatenate([who[ahead], nobody]),
    ), turn_of


def _served(waited: Waited, work: LoopWork) -> Bios:
    """Bios, of which those that are nobody's data, nor a commit's, are below the request that the
    loop device had whose worker queued them."""
    bios, requests = waited.bios, waited.requests
    rows = np.flatnonzero((bios.above < 0) & (bios.data_tid <= 0) & (waited.commit < 0))
    run = Containing(work.tid, work.begin_ns, work.end_ns).find(bios.tid[rows], bios.queue_ns[rows])
    rows, run = rows[run >= 0], run[run >= 0]
    last = AsOf(requests.device_key, requests.issue_ns).at_or_before(
        work.device_key[run], bios.queue_ns[rows]
    )
    above = bios.above.copy()
    above[rows] = np.where(at(requests.complete_ns, last) >= bios.queue_ns[rows], last, -1)
    return replace(bios, above=above)


def _through_loops(
    window: Window, waited: Waited, people: People, commits: Commits, work: LoopWork, logged: Ints
) -> Ints:
    """Who changed what each commit logs: of what loop devices' workers did, who asked those."""
    requests, (bio, _) = waited.requests, _asked_by(waited)
    row, request = served(window, requests, work)
    for _ in range(DEPTH):
        who = _whose(waited, people, logged, bio[request], requests.issue_ns[request])
        before, logged = logged, handled(window, commits, people, (row, who))
        if np.array_equal(before, logged):
            break
    return logged


def _asked_by(waited: Waited) -> tuple[Ints, Ints]:
    """The bio that each request was asked for by, -1: not known; and the flush (a request's row)
    for which it writes down what the page cache of a loop device's file held, -1: it does not.

    Of a flush, which the block layer makes itself: the last that asked for one. Of what is
    below a stacked device, the one above.
    """
    requests, bios, root, carried = waited.requests, waited.bios, waited.root, waited.carried
    bio = np.full(len(requests.key), -1)
    bio[carried.request[::-1]] = root[carried.bio[::-1]]
    data = (
        ~requests.flush & (at(bios.meta.astype(np.int64), bio) == 0) & (at(waited.commit, bio) < 0)
    )
    flushes, asked = np.flatnonzero(requests.flush), np.flatnonzero(bios.wants_flush)
    last = AsOf(bios.device_key[asked], bios.queue_ns[asked]).at_or_before(
        requests.device_key[flushes], requests.issue_ns[flushes]
    )
    bio[flushes] = at(root, at(asked, last))
    kept_for, flush = np.full(len(bio), -1), requests.flush.astype(np.int64)
    for _ in range(DEPTH if (bios.above >= 0).any() else 0):
        loop = at(bios.above, bio)
        first = data & (kept_for < 0) & (at(flush, loop) > 0)
        kept_for = np.where(first, loop, kept_for)
        above = at(bio, loop)
        bio = np.where(above >= 0, above, bio)
    return bio, kept_for


def _kept(requests: Requests, flush: Ints, who: Ints, people: People) -> Ints:
    """For whom requests are (``who``), where those that write down for a ``flush`` what the page
    cache held are of all who wrote to that device since the flush before, each by its size.

    What is more than those wrote, page by page, was written before anybody looked.
    """
    some = np.flatnonzero(flush >= 0)
    if not len(some):
        return who
    flushes = np.flatnonzero(requests.flush)
    disk = requests.device_key
    wrote = np.flatnonzero((requests.operation == OP_WRITE) & ~requests.flush)
    wrote = wrote[one_of(disk[wrote], disk[flush[some]])]
    following = AsOf(disk[flushes], requests.issue_ns[flushes]).at_or_after(
        disk[wrote], requests.complete_ns[wrote]
    )
    work, size = at(flushes, following), -(-requests.size_bytes[wrote] // PAGE) * PAGE
    left = np.bincount(flush[some], requests.size_bytes[some], minlength=len(who))
    known = work >= 0
    left -= np.bincount(work[known], size[known], minlength=len(who))
    more = np.flatnonzero(left > 0)
    crowd = people.crowds(
        len(who),
        np.concatenate([work, more]),
        np.concatenate([who[wrote], np.full(len(more), NOBODY)]),
        np.concatenate([size, left[more].astype(np.int64)]),
    )
    found = who.copy()
    found[some] = crowd[flush[some]]
    return found


def _whose(waited: Waited, people: People, logged: Ints, bio: Ints, time_ns: Ints) -> Ints:
    """For whom some bios are: whose data it is, who has a part in the commit, or who asked."""
    bios, commit = waited.bios, at(waited.commit, bio)
    data = np.where(bio >= 0, at(bios.data_tid, bio), 0)
    who = people.threads(np.where(data > 0, data, at(bios.tid, bio)), time_ns)
    crowd = at(logged, commit)
    return np.where((data <= 0) & (crowd >= 0), crowd, who)
