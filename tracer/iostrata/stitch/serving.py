# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: what kernel threads did for writes in, when those had no CPU for it out.

A request goes no further than the thread that serves it: the worker of its loop device,
the one that issues it (its own, or kblockd), the one that completes it (ksoftirqd, XFS's
log). While that one is runnable and another task has the CPU, the write waits for this.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from iostrata import native
from iostrata.columns import (
    AsOf,
    Containing,
    Ints,
    at,
    distinct,
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
    ``since_ns``: when the device's run before it had ended.
    """

    tid: Ints
    device_key: Ints
    since_ns: Ints
    begin_ns: Ints
    end_ns: Ints
    alone: NDArray[np.bool_]

    def rows(self, rows: Ints) -> LoopWork:
        return LoopWork(**{name: column[rows] for name, column in vars(self).items()})


def loop_work_of(window: Window) -> LoopWork:
    runs = window.columns("loop_work", "tid", "dev", "enter_ns")
    order = order_of(runs["dev"], runs["enter_ns"])
    dev, begin, end = runs["dev"][order], runs["enter_ns"][order], runs["time_ns"][order]
    same = dev[1:] == dev[:-1]
    meets = same & (begin[1:] < end[:-1])
    alone = np.ones(len(dev), np.bool_)
    alone[1:][meets] = alone[:-1][meets] = False
    since = np.zeros(len(dev), np.int64)
    since[1:][same] = end[:-1][same]
    return LoopWork(runs["tid"][order], dev, since, begin, end, alone)


def of_loops(work: LoopWork, workers: Workers, requests: Requests, needed_ns: Ints) -> Service:
    """``owner``: row of the request on a loop device. ``needed_ns``: as ``needed_until`` has it."""
    work = work.rows(np.flatnonzero(work.alone))
    loops = np.flatnonzero(one_of(requests.device_key, work.device_key))
    row, run = overlapping(
        requests.device_key[loops], requests.issue_ns[loops], requests.complete_ns[loops],
        work.device_key, work.begin_ns, work.end_ns,
    )  # fmt: skip
    request = loops[row]
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


def needed_until(bios: Bios, handed_ns: Ints, requests: Requests, sleeps: Sleeps) -> Ints:
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
    handed, tid = at(handed_ns, last), at(bios.tid, last)
    woken = np.flatnonzero(sleeps.asleep)
    slept = AsOf(sleeps.tid[woken], sleeps.off_ns[woken]).at_or_after(tid, handed)
    sleep = at(woken, slept)
    off, wake = at(sleeps.off_ns, sleep), at(sleeps.wake_ns, sleep)
    following = AsOf(bios.tid, bios.begin_ns).at_or_after(tid, handed + 1)
    went_on = (following >= 0) & (at(bios.begin_ns, following) < off)
    waits = (sleep >= 0) & ~went_on & (off < ended) & (wake >= ended) & (wake - ended <= SOON_NS)
    needs = (handed < 0) | requests.flush | waits
    return np.where(needs, requests.complete_ns, handed)


def request_served(work: LoopWork, requests: Requests, needed_ns: Ints, sleeps: Sleeps) -> Ints:
    """Of each sleep, the request that a loop device's worker was at then, -1: none.

    It takes them up in turn: the first that still needs it (``needed_ns``: as ``needed_until`` has
    it).
    """
    found, work = np.full(len(sleeps), -1), work.rows(np.flatnonzero(work.alone))
    if not len(work.tid):
        return found
    run = Containing(work.tid, work.begin_ns, work.end_ns).find(sleeps.tid, sleeps.on_ns)
    inside = sleeps.asleep & (run >= 0) & (sleeps.off_ns >= at(work.begin_ns, run))
    device = at(work.device_key, run)
    for key in distinct(device[inside]).tolist():
        rows = np.flatnonzero(requests.device_key == key)
        mine = np.flatnonzero(inside & (device == key))
        if not len(rows):
            continue
        reach = np.maximum.accumulate(needed_ns[rows])
        place = np.searchsorted(reach, sleeps.on_ns[mine])
        mine, request = mine[place < len(rows)], rows[place[place < len(rows)]]
        there = requests.issue_ns[request] <= sleeps.off_ns[mine]
        there &= needed_ns[request] >= sleeps.on_ns[mine]
        found[mine[there]] = request[there]
    return found


def in_turn(
    work: LoopWork, sleeps: Sleeps, owner: Ints, requests: Requests, needed_ns: Ints, first: int
) -> Edges:
    """Who waited while the worker of its loop device slept for another, which it took up before.

    ``owner``: of each sleep. ``needed_ns``: as ``needed_until`` has it. ``first``: the number of
    the first request among owners and activities.
    """
    work = work.rows(np.flatnonzero(work.alone))
    mine = np.flatnonzero(sleeps.asleep & (owner >= first))
    run = Containing(work.tid, work.begin_ns, work.end_ns).find(
        sleeps.tid[mine], sleeps.on_ns[mine]
    )
    mine = mine[(run >= 0) & (sleeps.off_ns[mine] >= at(work.begin_ns, run))]
    owner = owner - first
    loops = np.flatnonzero(one_of(requests.device_key, work.device_key))
    pair, other = overlapping(
        requests.device_key[owner[mine]], sleeps.off_ns[mine], sleeps.on_ns[mine],
        requests.device_key[loops], requests.issue_ns[loops], requests.complete_ns[loops],
    )  # fmt: skip
    sleep, request = mine[pair], loops[other]
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
