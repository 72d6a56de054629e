# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: spans that wait for what only one can have at a time in, who had it meanwhile out.

A CPU has one task at a time, as the scheduler tells. A device may work on many requests,
and does not tell in which order: at each instant the one that was issued first of those
in flight is ahead of all others, and who asked for it is whom the rest is behind. A journal
commits for all who changed something at once: each has as much of that as it changed. What
was not seen is told of nobody.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from iostrata.columns import AsOf, Ints, at, outside, overlapping
from iostrata.layers import RANK, STACK
from iostrata.stitch.behind import Behind, Parts, Turns, during, in_order
from iostrata.stitch.bios import DEPTH, Bios, Carried
from iostrata.stitch.blockio import flushes_for
from iostrata.stitch.cpus import cpus_of, cpus_waited_for
from iostrata.stitch.handles import commit_of, every_commit, handled
from iostrata.stitch.people import IDLE, People
from iostrata.stitch.requests import Requests
from iostrata.stitch.spans import Spans
from iostrata.stitch.wakeup import Sleeps
from iostrata.stitch.window import Window
from iostrata.trace.layout import WAKE_INTERRUPT

WORKERS: Final = np.array([rank.row == "wakeup.worker" for rank in STACK])
QUEUES: Final = WORKERS | np.array([rank.row == "wakeup.runqueue" for rank in STACK])
LOCKS: Final = np.array([rank.row == "lock" for rank in STACK])
JOURNALS: Final = np.array(["journal." in rank.name for rank in STACK])
QUOTAS: Final = np.array([rank.row == "throttle.cpu" for rank in STACK])
LIMITS: Final = np.array([rank.row == "throttle.io" for rank in STACK])
DEVICES: Final = np.array([rank.name.startswith("device.") for rank in STACK])
BEFORE_DEVICES: Final = np.array(
    [rank.name.startswith(("block.", "lower.block.", "lower.queue")) for rank in STACK]
)
BEFORE_DEVICES[RANK["block.stacked"]] = False
DISKS: Final = DEVICES | BEFORE_DEVICES | np.array([rank.row == "block.stacked" for rank in STACK])
UNASKED: Final = QUEUES | LOCKS | JOURNALS | QUOTAS | LIMITS | BEFORE_DEVICES
"""Ranks that are of something else than what was asked of a device or a machine."""


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
    parts = [
        *_behind_cpus(window, spans, waited, people),
        *_behind_disks(window, spans, waited, people, logged),
        during(*_waits_for_commits(spans, waited), _commits(window, waited, people, logged)),
        _held(spans, waited, people),
        *_limited(window, spans, waited, people),
    ]
    return in_order(parts, people)


def _written(waited: Waited, count: int, people: People) -> Ints:
    """Of each commit: whose data it writes before its log."""
    bios = waited.bios
    rows = np.flatnonzero((waited.commit >= 0) & (bios.data_tid > 0))
    who = people.threads(bios.data_tid[rows], bios.queue_ns[rows])
    return people.crowds(count, waited.commit[rows], who, bios.size_bytes[rows])


def _behind_cpus(window: Window, spans: Spans, waited: Waited, people: People) -> list[Parts]:
    """Who had the CPUs that threads had to wait for; kernel workers that had one, themselves."""
    numbers, sleeps = waited.numbers, waited.sleeps
    queued = QUEUES[spans.rank] & (spans.of >= numbers.sleep) & (spans.of < numbers.commit)
    span = np.flatnonzero(queued)
    work = np.flatnonzero(WORKERS[spans.rank] & (spans.of >= numbers.thread))
    tid, begin, end = spans.of[work] - numbers.thread, spans.begin_ns[work], spans.end_ns[work]
    # What is at work for a write, others may take the CPU from.
    row, kept = overlapping(tid, begin, end, sleeps.tid, sleeps.runnable_ns, sleeps.on_ns)
    off = np.maximum(begin[row], sleeps.runnable_ns[kept])
    on = np.minimum(end[row], sleeps.on_ns[kept])
    worker, since, until = outside(begin, end, row, off, on)
    sleep = np.append(spans.of[span] - numbers.sleep, kept)
    begin, end = np.append(spans.begin_ns[span], off), np.append(spans.end_ns[span], on)
    wait, cpu, begin, end = cpus_waited_for(window, begin, end, sleep, sleeps)
    waits = np.append(span, work[row])[wait], cpu, begin, end
    return [
        during(*waits, cpus_of(window, sleeps, people)),
        (work[worker], since, until, people.threads(tid[worker], since)),
    ]


def _held(spans: Spans, waited: Waited, people: People) -> Parts:
    """Which spans waited for a lock that a known process had: all of each."""
    span = np.flatnonzero(LOCKS[spans.rank] & (spans.of >= waited.numbers.thread))
    begin = spans.begin_ns[span]
    who = people.threads(spans.of[span] - waited.numbers.thread, begin)
    return span, begin, spans.end_ns[span], who


def _limited(window: Window, spans: Spans, waited: Waited, people: People) -> list[Parts]:
    """Which spans a control group's limit kept: all of each."""
    of = spans.of
    cpu = np.flatnonzero(QUOTAS[spans.rank] & (of >= waited.numbers.sleep))
    quota = waited.sleeps.limit[of[cpu] - waited.numbers.sleep]
    disk = np.flatnonzero(LIMITS[spans.rank] & (of >= waited.numbers.bio))
    bio = of[disk] - waited.numbers.bio
    held = window.columns("block_bio_held", "bio_key", "cgroup")
    told = AsOf(held["bio_key"], held["time_ns"])
    event = told.at_or_before(waited.bios.key[bio], waited.bios.queue_ns[bio])
    group = np.where(event >= 0, at(held["cgroup"], event), 0)
    return [
        (span, spans.begin_ns[span], spans.end_ns[span], who)
        for span, who in (
            (cpu, people.limits("cpu.max", quota)),
            (disk, people.limits("io.max", group)),
        )
    ]


def _waits_for_commits(spans: Spans, waited: Waited) -> Parts:
    span = np.flatnonzero(JOURNALS[spans.rank] & (spans.of >= waited.numbers.commit))
    commit = spans.of[span] - waited.numbers.commit
    return span, commit, spans.begin_ns[span], spans.end_ns[span]


def _commits(window: Window, waited: Waited, people: People, logged: Ints) -> Turns:
    """Who had each of the window's commits (the place), since its thread was let go to begin it.

    While it waits for open handles, who ended the last of them: that one had been open all
    the time. Then whose data it writes, and who changed what it logs (``logged``), for whom
    all else is, and what comes before it (the journal's superblock).
    """
    commits, sleeps, row = window.commits, waited.sleeps, np.arange(len(window.commits))
    logging = np.where(commits.logging_ns >= 0, commits.logging_ns, commits.end_ns)
    flushing = np.where(commits.flushing_ns >= 0, commits.flushing_ns, logging)
    slept = AsOf(sleeps.tid, sleeps.on_ns)
    last = slept.at_or_before(commits.tid, flushing)
    itself = at(sleeps.context, last) != WAKE_INTERRUPT
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


def _behind_disks(
    window: Window, spans: Spans, waited: Waited, people: People, logged: Ints
) -> list[Parts]:
    """Who asked for what was ahead; a flush that was for the write, too, is all the write's."""
    span, disk, begin, end = _waits_for_disks(spans, waited.requests)
    turns, turn_of = _disks(waited, people, logged)
    flush = _own_flush(window, spans, waited)[span]
    own = _whose(waited, people, logged, flush, begin)
    turn = np.where((flush >= 0) & (own >= 0), turn_of[spans.of[span]], -1)
    since = np.maximum(begin, at(turns.begin_ns, turn))
    until = np.minimum(end, at(turns.end_ns, turn))
    mine = np.flatnonzero((turn >= 0) & (until > since))
    since, until = since[mine], until[mine]
    row, begin, end = outside(begin, end, mine, since, until)
    return [
        (span[mine], since, until, own[mine]),
        during(span[row], disk[row], begin, end, turns),
    ]


def _own_flush(window: Window, spans: Spans, waited: Waited) -> Ints:
    """Of each span of a flush: the bio of its write, or of a commit, that the flush was for.

    -1: none that is known.
    """
    bio, flush = flushes_for(waited.bios, waited.requests)
    tid = waited.bios.tid[bio]
    commits = np.flatnonzero(waited.commit[bio] >= 0)
    piece = window.pieces.tid[spans.owner]
    found = np.full(len(spans), -1)
    for rows, key, wanted in ((slice(None), tid, piece), (commits, tid[commits] * 0, piece * 0)):
        last = AsOf(key, flush[rows]).at_or_before(wanted, spans.of)
        same = (found < 0) & (last >= 0) & (at(flush[rows], last) == spans.of)
        found = np.where(same, at(bio[rows], last), found)
    return found


def _waits_for_disks(spans: Spans, requests: Requests) -> Parts:
    span = np.flatnonzero(DISKS[spans.rank] & (spans.of >= 0))
    span = span[spans.of[span] < len(requests.key)]
    disk = requests.device_key[spans.of[span]]
    return span, disk, spans.begin_ns[span], spans.end_ns[span]


def _disks(waited: Waited, people: People, logged: Ints) -> tuple[Turns, Ints]:
    """Who asked for the request that was ahead of all others of its disk; and of each request,
    which row that is, -1: it never was."""
    requests, bio = waited.requests, _asked_by(waited)
    order = np.lexsort((requests.issue_ns, requests.device_key))
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
