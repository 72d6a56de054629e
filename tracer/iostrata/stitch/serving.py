# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: what kernel threads did for writes in, when those had no CPU for it out.

A request goes no further than the thread that serves it: the worker of its loop device,
the one that issues it (its own, or kblockd), the one that completes it (ksoftirqd, XFS's
log). While that one is runnable and another task has the CPU, the write waits for this.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from iostrata import native
from iostrata.columns import (
    AsOf,
    Containing,
    Ints,
    at,
    changes,
    coded,
    joined,
    one_of,
    order_of,
    overlapping,
)
from iostrata.stitch.bios import Bios, Carried
from iostrata.stitch.blockio import Awaited
from iostrata.stitch.endings import SOON_NS
from iostrata.stitch.journal import Commits
from iostrata.stitch.requests import Requests
from iostrata.stitch.spans import NO_SPANS, Edges, Spans
from iostrata.stitch.stacked import Workers
from iostrata.stitch.wakeup import Sleeps, without_cpu
from iostrata.stitch.window import Window

# Whoever serves, a worker that lets go whom it serves, and who is to go on itself.
SERVED, WORKER, OWN = "served.wakeup.runqueue", "handed.wakeup.runqueue", "wakeup.runqueue"


@dataclass(frozen=True, eq=False)
class Service:
    """From when to when an owner needed a kernel thread to have a CPU: one row each."""

    owner: Ints
    tid: Ints
    begin_ns: Ints
    end_ns: Ints

    def __len__(self) -> int:
        return len(self.owner)

    def numbered(self, first: int) -> Service:
        """With owners counted from ``first`` on."""
        return replace(self, owner=self.owner + first)


def short_of_cpu(service: Service, sleeps: Sleeps, first: int, rank: str = SERVED) -> Spans:
    """All the time that the threads were runnable without a CPU: as ``without_cpu`` has it."""
    if not len(service):
        return NO_SPANS
    row, sleep = (_meanwhile if native.LIBRARY is None else _meanwhile_in_c)(service, sleeps)
    if not len(row):
        return NO_SPANS
    needed = service.owner[row], service.begin_ns[row], service.end_ns[row]
    return without_cpu(sleeps, sleep, *needed, first, rank)


def _meanwhile(service: Service, sleeps: Sleeps) -> tuple[Ints, Ints]:
    """Rows of both: the waits for a CPU, at the ends of sleeps, that overlap with what a thread was
    needed for; thread by thread."""
    known = np.flatnonzero(one_of(sleeps.tid, service.tid))
    row, sleep = overlapping(
        service.tid, service.begin_ns, service.end_ns,
        sleeps.tid[known], sleeps.runnable_ns[known], sleeps.on_ns[known],
    )  # fmt: skip
    return row, known[sleep]


def _meanwhile_in_c(service: Service, sleeps: Sleeps) -> tuple[Ints, Ints]:
    needed = (service.tid, service.begin_ns, service.end_ns)
    row, sleep = native.overlap_waits(sleeps.resumed.lookup, sleeps.runnable_ns, *needed)
    order = order_of(service.tid[row])
    return row[order], sleep[order]


def late_for(service: Service, sleeps: Sleeps, first: int) -> Spans:
    """How long the threads had waited for a CPU when they came to it at last, at ``end_ns``.

    As ``without_cpu`` has it.
    """
    if not len(service):
        return NO_SPANS
    sleep = sleeps.resumed.at_or_before(service.tid, service.end_ns)
    needed = service.owner, service.begin_ns, service.end_ns
    return without_cpu(sleeps, sleep, *needed, first, SERVED)


def begun(commits: Commits, sleeps: Sleeps) -> Commits:
    """The commits with ``since_ns``: when the journal's idle thread was let go to begin them."""
    if not len(commits):
        return commits
    idle = np.flatnonzero(sleeps.interruptible)
    last = AsOf(sleeps.tid[idle], sleeps.on_ns[idle]).at_or_before(commits.tid, commits.begin_ns)
    woken = at(sleeps.wake_ns[idle], last)
    before = AsOf(commits.tid, commits.end_ns).at_or_before(commits.tid, commits.begin_ns)
    # What was asked for while it was still committing, it goes on with at once.
    at_once = (last < 0) | (woken < at(commits.end_ns, before))
    return replace(commits, since_ns=np.where(at_once, commits.begin_ns, woken))


@dataclass(frozen=True, eq=False)
class LoopWork:
    """Runs of loop devices' workers: one row each, in order of device and time.

    ``alone``: no other worker of its device was at work meanwhile: it has one for each cgroup.
    ``since_ns``: when the device's run before it had ended; where it was not alone, its thread's.
    """

    tid: Ints
    device_key: Ints
    since_ns: Ints
    begin_ns: Ints
    end_ns: Ints
    alone: NDArray[np.bool_]

    @cached_property
    def of_thread(self) -> Containing:
        """Looks them up by thread and time."""
        return Containing(self.tid, self.begin_ns, self.end_ns)

    def slept_in(self, sleeps: Sleeps, rows: Ints) -> Ints:
        """The run that each of some sleeps (rows) was in, -1: none."""
        run = self.of_thread.find(sleeps.tid[rows], sleeps.on_ns[rows])
        return np.where(sleeps.off_ns[rows] >= at(self.begin_ns, run), run, -1)


def loop_work_of(window: Window) -> LoopWork:
    runs = window.columns("loop_work", "tid", "dev", "enter_ns")
    order = order_of(runs["dev"], runs["enter_ns"])
    tid, dev = runs["tid"][order], runs["dev"][order]
    begin, end = runs["enter_ns"][order], runs["time_ns"][order]
    alone, since = np.ones(len(dev), np.bool_), np.zeros(len(dev), np.int64)
    for rows in np.split(np.arange(len(dev)), np.flatnonzero(changes(dev))[1:]):
        later, before = rows[1:], rows[:-1]
        alone[later] = begin[later] >= np.maximum.accumulate(end[before])
        alone[before] &= begin[later] >= end[before]
        since[later] = end[before]
    last = AsOf(tid, end).at_or_before(tid, begin)
    since = np.where(alone, since, np.maximum(at(end, last), 0))
    return LoopWork(tid, dev, since, begin, end, alone)


@dataclass(frozen=True, eq=False)
class Lines:
    """Requests in lines, from which the workers of loop devices take them up: one row each, in
    order of line and issue.

    ``of_run``: of each run of the ``work`` the number of its line. What one that was alone could
    have taken up is in the device's; of others only what they are known to have taken up.
    ``taken``: of each of all requests, the run that is known to have, -1: none.
    """

    work: LoopWork
    of_run: Ints
    line: Ints
    request: Ints
    taken: Ints


def lines_of(
    window: Window, bios: Bios, workers: Workers, requests: Requests, sleeps: Sleeps
) -> Lines:
    """``bios``: with those requests above them that they themselves tell."""
    work = loop_work_of(window)
    if not len(work.tid):
        none = np.zeros(0, np.int64)
        return Lines(work, none, none, none, np.full(len(requests.key), -1))
    taken = _taken_up(work, bios, workers, requests, sleeps)
    devices, device = coded(work.device_key)
    of_run = np.where(work.alone, device, len(devices) + np.arange(len(device)))
    loops = np.flatnonzero(one_of(requests.device_key, devices))
    beside = np.flatnonzero(taken >= 0)
    beside = beside[~work.alone[taken[beside]]]
    of_device = np.searchsorted(devices, requests.device_key[loops])
    line = np.concatenate([of_device, of_run[taken[beside]]])
    request = np.concatenate([loops, beside])
    order = order_of(line, request)
    return Lines(work, of_run, line[order], request[order], taken)


def _taken_up(
    work: LoopWork, bios: Bios, workers: Workers, requests: Requests, sleeps: Sleeps
) -> Ints:
    """Of each request the run that took it up: whose thread asked below for what it is for, or
    synced, or slept until what a limit had held back of it was complete; -1: it is not known."""
    taken, above = np.full(len(requests.key), -1), bios.of_root(bios.above)
    below = np.flatnonzero((above >= 0) & ~bios.held)
    tid = np.concatenate([bios.tid[below], workers.tid])
    begin = np.concatenate([bios.begin_ns[below], workers.begin_ns])
    request = np.concatenate([above[below], workers.request])
    run = work.of_thread.find(tid, begin)
    mine = at(work.device_key, run) == requests.device_key[request]
    taken[request[mine]] = run[mine]
    if not ((above >= 0) & bios.held).any():
        return taken
    ended, slept = np.flatnonzero(bios.life_end_ns >= 0), np.flatnonzero(sleeps.asleep)
    run = work.slept_in(sleeps, slept)
    slept, run = slept[run >= 0], run[run >= 0]
    off, wake, on = sleeps.off_ns[slept], sleeps.wake_ns[slept], sleeps.on_ns[slept]
    # Whatever ended last before an interrupt lets one go is why.
    last = AsOf(np.zeros(len(ended), np.int64), bios.life_end_ns[ended])
    bio = at(ended, last.at_or_before(np.zeros(len(slept), np.int64), wake))
    request = np.where(at(bios.held.astype(np.int64), bio) > 0, at(above, bio), -1)
    its = (request >= 0) & (at(taken, request) < 0)
    its &= (off <= at(bios.queue_ns, bio)) & (on <= at(requests.complete_ns, request))
    its &= at(requests.device_key, request) == work.device_key[run]
    # Who lets one go as a worker, lets a lock go.
    its &= sleeps.interrupted[slept] | (work.of_thread.find(sleeps.waker[slept], wake) < 0)
    request, run = request[its], run[its]
    taken[request] = run
    taken[request[taken[request] != run]] = -1
    return taken


def of_loops(lines: Lines, workers: Workers, requests: Requests, needed_ns: Ints) -> Service:
    """``owner``: row of the request on a loop device. ``needed_ns``: as ``needed_until`` has it."""
    request, run = in_line(lines, requests, requests.complete_ns)
    work = lines.work
    told = Service(
        request,
        work.tid[run],
        np.maximum(requests.issue_ns[request], work.since_ns[run]),
        np.minimum(needed_ns[request], work.end_ns[run]),
    )
    # Before v5.14 a loop device has a thread of its own, of which only the syncs are seen.
    begin = requests.issue_ns[workers.request]
    synced = Service(workers.request, workers.tid, begin, workers.end_ns)
    return Service(**joined([told, synced]))


def in_line(lines: Lines, requests: Requests, until_ns: Ints) -> tuple[Ints, Ints]:
    """Requests, and the runs that they waited for in line or were taken up in until a time."""
    work = lines.work
    row, run = overlapping(
        lines.line, requests.issue_ns[lines.request], until_ns[lines.request],
        lines.of_run, work.begin_ns, work.end_ns,
    )  # fmt: skip
    return lines.request[row], run


def needed_until(
    lines: Lines, bios: Bios, handed_ns: Ints, requests: Requests, sleeps: Sleeps
) -> Ints:
    """Until when each request may need the worker of its loop device.

    ``handed_ns``: when each bio was handed on, if a limit then held it back before it was queued.

    What direct I/O is on its way below needs it no more, unless the worker then sleeps until that
    is complete: so a file system has it do where the place is not aligned to its blocks.
    """
    direct = np.flatnonzero(bios.above >= 0)
    if not len(direct):
        return requests.complete_ns
    last, ended = np.full(len(requests.key), -1), np.full(len(requests.key), -1)
    direct = direct[order_of(bios.begin_ns[direct])]
    last[bios.above[direct]] = direct
    np.maximum.at(ended, bios.above[direct], bios.life_end_ns[direct])
    # Whoever hands on what a limit had held back is no worker of the device.
    taken_by = at(lines.work.tid, lines.taken)
    tid = np.where(taken_by >= 0, taken_by, at(bios.tid, last))
    handed = at(handed_ns, last)
    woken = np.flatnonzero(sleeps.asleep)
    slept = AsOf(sleeps.tid[woken], sleeps.off_ns[woken]).at_or_after(tid, handed)
    sleep = at(woken, slept)
    off, wake = at(sleeps.off_ns, sleep), at(sleeps.wake_ns, sleep)
    following = AsOf(bios.tid, bios.begin_ns).at_or_after(tid, handed + 1)
    went_on = (following >= 0) & (at(bios.begin_ns, following) < off)
    waits = (sleep >= 0) & ~went_on & (off < ended) & (wake >= ended) & (wake - ended <= SOON_NS)
    needs = (handed < 0) | requests.flush | waits
    return np.where(needs, requests.complete_ns, handed)


def request_served(lines: Lines, needed_ns: Ints, requests: Requests, sleeps: Sleeps) -> Ints:
    """Of each sleep, the request that a loop device's worker was at then, -1: none.

    It takes them up in turn: the first that still needs it (``needed_ns``: as ``needed_until`` has
    it). What it is known to take up later waits, too, for what nobody knows whose it is.
    """
    found = np.full(len(sleeps), -1)
    if not len(lines.line):
        return found
    mine = np.flatnonzero(sleeps.asleep)
    run = lines.work.slept_in(sleeps, mine)
    mine, run = mine[run >= 0], run[run >= 0]
    line = lines.of_run[run]
    # How long any so far needs it, of each line, as one number that ascends.
    needed = needed_ns[lines.request]
    times, many = np.sort(needed), len(needed) + 1
    reach = np.maximum.accumulate(lines.line * many + np.searchsorted(times, needed))
    place = np.searchsorted(reach, line * many + np.searchsorted(times, sleeps.on_ns[mine]))
    there = np.flatnonzero(place < len(reach))
    mine, run, line, place = mine[there], run[there], line[there], place[there]
    request = lines.request[place]
    issue = requests.issue_ns[request]
    there = (lines.line[place] == line) & (needed_ns[request] >= sleeps.on_ns[mine])
    later = (lines.taken[request] == run) & (issue < sleeps.on_ns[mine])
    there &= (issue <= sleeps.off_ns[mine]) | later
    found[mine[there]] = request[there]
    return found


def in_turn(
    lines: Lines, sleeps: Sleeps, owner: Ints, requests: Requests, needed_ns: Ints, first: int
) -> Edges:
    """Who waited while the worker of its loop device slept for another, which it took up before.

    ``owner``: of each sleep. ``needed_ns``: as ``needed_until`` has it. ``first``: the number of
    the first request among owners and activities.
    """
    mine = np.flatnonzero(sleeps.asleep & (owner >= first))
    run = lines.work.slept_in(sleeps, mine)
    mine, line, owner = mine[run >= 0], lines.of_run[run[run >= 0]], owner - first
    pair, other = overlapping(
        line, sleeps.off_ns[mine], sleeps.on_ns[mine],
        lines.line, requests.issue_ns[lines.request], requests.complete_ns[lines.request],
    )  # fmt: skip
    sleep, request = mine[pair], lines.request[other]
    later = requests.issue_ns[request] > requests.issue_ns[owner[sleep]]
    sleep, request = sleep[later], request[later]
    return Edges(
        owner[sleep] + first,
        request + first,
        np.maximum(sleeps.off_ns[sleep], requests.issue_ns[request]),
        np.minimum(sleeps.on_ns[sleep], needed_ns[request]),
    )


def issuers(
    bios: Bios, carried: Carried, awaited: Awaited, requests: Requests, owner: Ints
) -> Service:
    """Kernel threads that issued what others had queued. ``owner``: of each bio."""
    some, later = (
        np.flatnonzero(requests.issued_by[of] >= 0) for of in (carried.request, awaited.flush)
    )
    flushed, flush = awaited.bio[later], awaited.flush[later]
    behind = requests.issue_ns[flush] > bios.let_go_ns[flushed]
    bio = np.concatenate([carried.bio[some], flushed[behind]])
    request = np.concatenate([carried.request[some], flush[behind]])
    mine = owner[bio] >= 0
    bio, request = bio[mine], request[mine]
    return Service(
        owner[bio], requests.issued_by[request], bios.let_go_ns[bio], requests.issue_ns[request]
    )


def submitters(bios: Bios, carried: Carried, requests: Requests, owner: Ints) -> Service:
    """Threads that issued what they had queued themselves, or slept to get a request for it.

    ``owner``: of each bio.
    """
    same = bios.tid[carried.bio] == requests.issuer[carried.request]
    mine = np.flatnonzero((owner[carried.bio] >= 0) & same)
    asked = np.flatnonzero(bios.got_ns >= 0)
    asked = asked[owner[asked] >= 0]
    bio = np.concatenate([carried.bio[mine], asked])
    until = np.concatenate([requests.issue_ns[carried.request[mine]], bios.got_ns[asked]])
    return Service(owner[bio], bios.tid[bio], bios.let_go_ns[bio], until)


def completers(requests: Requests, stacked: Ints, told: Ints) -> Service:
    """``owner``: row of the request on a stacked device, which a kernel thread completed.

    ``told``: rows of which it is told since when nothing else was left of them.
    """
    mine = (requests.completed_by >= 0) & one_of(requests.device_key, stacked)
    mine[told] = False
    rows = np.flatnonzero(mine)
    return Service(
        rows, requests.completed_by[rows], requests.issue_ns[rows], requests.complete_ns[rows]
    )


def log_writers(commits: Commits) -> Service:
    """Who writes XFS's log, until the bio is queued. ``owner``: row of the commit."""
    rows = np.flatnonzero(commits.writer >= 0)
    return Service(rows, commits.writer[rows], commits.begin_ns[rows], commits.handed_ns[rows])


def log_enders(commits: Commits) -> Service:
    """The workers that end XFS's writes of the log. ``owner``: row of the commit."""
    rows = np.flatnonzero(commits.tid < 0)
    return Service(rows, commits.waker[rows], commits.begin_ns[rows], commits.end_ns[rows])
