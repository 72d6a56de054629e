# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: spans that wait for what only one can have at a time in, who had it meanwhile out.

A CPU has one task at a time, as the scheduler tells. A device may work on many requests,
and does not tell in which order: at each instant the one that was issued first of those
in flight is ahead of all others, and who asked for it is whom the rest is behind. A journal
commits for all who changed something at once: each has as much of that as it changed. What
was not seen is told of nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, at, order_of, outside
from iostrata.layers import RANK, STACK
from iostrata.stitch.behind import Behind, Parts, Turns, during, in_one, most_of
from iostrata.stitch.bios import DEPTH, Bios, Carried
from iostrata.stitch.blockio import flushes_for
from iostrata.stitch.cpus import Queues
from iostrata.stitch.handles import commit_of, every_commit, handled
from iostrata.stitch.people import IDLE, People
from iostrata.stitch.requests import Requests
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
    [rank.name.startswith(("block.", "lower.block.", "lower.queue")) for rank in STACK]
)
BEFORE_DEVICES[[RANK["block.stacked"], RANK["lower.block.stacked"]]] = False
DISKS: Final = DEVICES | BEFORE_DEVICES | np.array([rank.row == "block.stacked" for rank in STACK])
UNASKED: Final = WORKERS | QUEUES | LOCKS | JOURNALS | QUOTAS | LIMITS | BEFORE_DEVICES
"""Ranks that are of something else than what was asked of a device or a machine."""

Tell = Callable[[Spans], list[Parts]]
"""Of some of a window's spans: the parts that some are known to be behind."""


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
    told = (
        _cpus(window, spans, waited, people),
        _disks(window, spans, waited, people, logged),
        _journals(window, spans, waited, people, logged),
        _locks(waited, people),
        _limits(window, waited, people),
    )

    def find(rows: Ints) -> list[Parts]:
        # Mostly it is told of all: what was found for how many turns are told, is known then.
        every = np.array_equal(rows, np.arange(len(spans)))
        some = spans if every else spans.rows(rows)
        return [part for tell in told for part in tell(some)]

    return Behind(people, find)


def _written(waited: Waited, count: int, people: People) -> Ints:
    """Of each commit: whose data it writes before its log."""
    bios = waited.bios
    rows = np.flatnonzero((waited.commit >= 0) & (bios.data_tid > 0))
    who = people.threads(bios.data_tid[rows], bios.queue_ns[rows])
    return people.crowds(count, waited.commit[rows], who, bios.size_bytes[rows])


def _queued(spans: Spans, numbers: Numbers) -> NDArray[np.bool_]:
    own = (spans.of >= numbers.sleep) & (spans.of < numbers.commit)
    queued: NDArray[np.bool_] = QUEUES[spans.rank] & own
    return queued


def _cpus(window: Window, spans: Spans, waited: Waited, people: People) -> Tell:
    """Who had the CPUs that threads had to wait for; of kernel workers at work, themselves."""
    numbers, sleeps = waited.numbers, waited.sleeps
    queues = Queues(window, sleeps, people)

    def rows(spans: Spans) -> Ints:
        return np.flatnonzero(_queued(spans, numbers))

    whole, every = spans, rows(spans)
    most = most_of(len(every), lambda: queues.waits(spans.of[every] - numbers.sleep))

    def tell(spans: Spans) -> list[Parts]:
        span = every if spans is whole else rows(spans)
        sleep = spans.of[span] - numbers.sleep
        wait, begin, end, who = queues.during(sleep, spans.begin_ns[span], spans.end_ns[span], most)
        work = np.flatnonzero(WORKERS[spans.rank] & (spans.of >= numbers.thread))
        since = spans.begin_ns[work]
        worker = people.threads(spans.of[work] - numbers.thread, since)
        return [(span[wait], begin, end, who), (work, since, spans.end_ns[work], worker)]

    return tell


def _locks(waited: Waited, people: People) -> Tell:
    """Which spans waited for a lock that a known process had: all of each."""

    def tell(spans: Spans) -> list[Parts]:
        span = np.flatnonzero(LOCKS[spans.rank] & (spans.of >= waited.numbers.thread))
        begin = spans.begin_ns[span]
        who = people.threads(spans.of[span] - waited.numbers.thread, begin)
        return [(span, begin, spans.end_ns[span], who)]

    return tell


def _limits(window: Window, waited: Waited, people: People) -> Tell:
    """Which spans a control group's limit kept: all of each."""
    held = window.columns("block_bio_held", "bio_key", "cgroup")
    held_by = AsOf(held["bio_key"], held["time_ns"])

    def tell(spans: Spans) -> list[Parts]:
        of = spans.of
        cpu = np.flatnonzero(QUOTAS[spans.rank] & (of >= waited.numbers.sleep))
        quota = waited.sleeps.limit[of[cpu] - waited.numbers.sleep]
        disk = np.flatnonzero(LIMITS[spans.rank] & (of >= waited.numbers.bio))
        bio = of[disk] - waited.numbers.bio
        event = held_by.at_or_before(waited.bios.key[bio], waited.bios.queue_ns[bio])
        group = np.where(event >= 0, at(held["cgroup"], event), 0)
        return [
            (span, spans.begin_ns[span], spans.end_ns[span], who)
            for span, who in (
                (cpu, people.limits("cpu.max", quota)),
                (disk, people.limits("io.max", group)),
            )
        ]

    return tell


def _journals(window: Window, spans: Spans, waited: Waited, people: People, logged: Ints) -> Tell:
    """Who had the commits that were waited for."""
    turns = in_one(_commits(window, waited, people, logged))

    def rows(spans: Spans) -> Ints:
        return np.flatnonzero(JOURNALS[spans.rank] & (spans.of >= waited.numbers.commit))

    whole, every = spans, rows(spans)
    most = most_of(len(every), lambda: len(every))

    def tell(spans: Spans) -> list[Parts]:
        span = every if spans is whole else rows(spans)
        commit = spans.of[span] - waited.numbers.commit
        return [during(span, commit, spans.begin_ns[span], spans.end_ns[span], turns, most)]

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


def _disks(window: Window, spans: Spans, waited: Waited, people: People, logged: Ints) -> Tell:
    """Who asked for what was ahead; a flush that was for the write, too, is all the write's."""
    turns, turn_of = _turns_of_disks(waited, people, logged)
    ahead, own_flush = in_one(turns), _OwnFlushes(window, waited)
    requests = waited.requests

    def rows(spans: Spans) -> Ints:
        asked = (spans.of >= 0) & (spans.of < len(requests.key))
        return np.flatnonzero(DISKS[spans.rank] & asked)

    def for_it(spans: Spans, span: Ints) -> Parts:
        """What was for the write, too: the places among its spans, from when to when, for whom."""
        flushes = np.flatnonzero(requests.flush[spans.of[span]])
        flush = own_flush.of(spans.owner[span[flushes]], spans.of[span[flushes]])
        place, flush = flushes[flush >= 0], flush[flush >= 0]
        rows = span[place]
        own = _whose(waited, people, logged, flush, spans.begin_ns[rows])
        turn = np.where(own >= 0, turn_of[spans.of[rows]], -1)
        since = np.maximum(spans.begin_ns[rows], at(turns.begin_ns, turn))
        until = np.minimum(spans.end_ns[rows], at(turns.end_ns, turn))
        mine = np.flatnonzero((turn >= 0) & (until > since))
        return place[mine], since[mine], until[mine], own[mine]

    whole, every, found = spans, rows(spans), list[Parts]()

    def waits() -> int:
        found.append(for_it(spans, every))
        return len(every) + len(found[0][0])

    most = most_of(len(every), waits)

    def tell(spans: Spans) -> list[Parts]:
        span = every if spans is whole else rows(spans)
        known = found and spans is whole
        mine, since, until, own = found[0] if known else for_it(spans, span)
        row, begin, end = outside(spans.begin_ns[span], spans.end_ns[span], mine, since, until)
        disk = requests.device_key[spans.of[span[row]]]
        return [
            (span[mine], since, until, own),
            during(span[row], disk, begin, end, ahead, most),
        ]

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
    requests, bio = waited.requests, _asked_by(waited)
    order = order_of(requests.device_key, requests.issue_ns)
    disk, issue = requests.device_key[order], requests.issue_ns[order]
    complete = requests.complete_ns[order]
    # One running maximum for all disks: each one's times are above those of the one before.
    number = np.cumsum(np.append(True, disk[1:] != disk[:-1])[: len(disk)])
    shift = number * (int(complete.max(initial=0)) + 1)
    # Until when all that was issued before was complete; below 0: nothing was.
    done = np.append(0, np.maximum.accumulate(complete + shift))[: len(disk)] - shift
    begin = np.maximum(issue, done)
    who = _whose(waited, people, logged, bio[order], issue)
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


def _asked_by(waited: Waited) -> Ints:
    """The bio that each request was asked for by, -1: not known.

    Of a flush, which the block layer makes itself: the last that asked for one. Of what is
    below a stacked device, the one above.
    """
    requests, bios, root, carried = waited.requests, waited.bios, waited.root, waited.carried
    bio = np.full(len(requests.key), -1)
    bio[carried.request[::-1]] = root[carried.bio[::-1]]
    flushes, asked = np.flatnonzero(requests.flush), np.flatnonzero(bios.wants_flush)
    last = AsOf(bios.device_key[asked], bios.queue_ns[asked]).at_or_before(
        requests.device_key[flushes], requests.issue_ns[flushes]
    )
    bio[flushes] = at(root, at(asked, last))
    for _ in range(DEPTH if (bios.above >= 0).any() else 0):
        above = at(bio, at(bios.above, bio))
        bio = np.where(above >= 0, above, bio)
    return bio


def _whose(waited: Waited, people: People, logged: Ints, bio: Ints, time_ns: Ints) -> Ints:
    """For whom some bios are: whose data it is, who has a part in the commit, or who asked."""
    bios, commit = waited.bios, at(waited.commit, bio)
    data = np.where(bio >= 0, at(bios.data_tid, bio), 0)
    who = people.threads(np.where(data > 0, data, at(bios.tid, bio)), time_ns)
    crowd = at(logged, commit)
    return np.where((data <= 0) & (crowd >= 0), crowd, who)
