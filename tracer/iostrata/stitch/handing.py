# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: what stacked devices were asked for in, the kernel threads that handed it on out.

Device mapper and md may hand a bio on in a thread of their own, and through several: dm-crypt's
kcryptd encrypts it and lets dmcrypt_write go, which queues what came of it on the device below.
What a suspended device, or a mirror with a dead leg, was given, it keeps until a program comes.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from iostrata.columns import AsOf, Ints, at, joined, one_of, overlapping
from iostrata.stitch.bios import DEPTH, Bios
from iostrata.stitch.blockio import MOST
from iostrata.stitch.kinds import Kinds
from iostrata.stitch.requests import Requests
from iostrata.stitch.serving import Lines, Service, in_line
from iostrata.stitch.upkeep import Hands
from iostrata.stitch.wakeup import Sleeps, at_rest, by_interrupt
from iostrata.trace.layout import WAKE_THREAD

TAKEN_OVER_NS: Final = 10_000_000
"""Who comes to a CPU so much later than another one of its pool came to the work, that one had not
waited for: it is told as it runs, and how far a loss reaches back rests on it."""
HELD_NS: Final = 1_000_000
"""Who lets something go that was kept for so long is told by name (LONG_SLEEP_NS, wakeup.bpf.c)."""


def handers(bios: Bios, sleeps: Sleeps, kinds: Kinds, owner: Ints) -> tuple[Service, Service]:
    """Who queued below what came of a bio, and who had let that one go. ``owner``: of each bio.

    And programs that had let the first of these go, until then: of what had no request yet.
    """
    bio = np.flatnonzero((bios.parent >= 0) & (owner >= 0))
    above = bios.parent[bio]
    last = Service(owner[bio], bios.tid[bio], bios.begin_ns[above], bios.begin_ns[bio])
    found, by = _back(last, bios.tid[above], np.zeros(len(bio), np.int64), sleeps, kinds)
    bare = (bios.request[above] < 0) & (bios.device_key[above] != bios.device_key[bio])
    rows = np.flatnonzero((by.tid > 0) & (by.end_ns - by.begin_ns >= HELD_NS) & bare)
    rows = rows[kinds.of(by.tid[rows], by.end_ns[rows]) == 0]
    rows = rows[~one_of(by.tid[rows], bios.tid)]
    return found, Service(*(column[rows] for column in vars(by).values()))


def keepers(hands: Hands, owner: Ints) -> Service:
    """Who kept bios waiting in stacked devices, as far as it did that for what it did there for
    itself. ``owner``: of each bio."""
    of, since = owner[hands.above], np.maximum(hands.since_ns, hands.begin_ns)
    rows = np.flatnonzero(of >= 0)
    return Service(of[rows], hands.tid[rows], since[rows], hands.end_ns[rows])


def starters(
    lines: Lines, requests: Requests, needed_ns: Ints, sleeps: Sleeps, kinds: Kinds
) -> Service:
    """The worker of a loop device until it began, and who had let it go: ``owner`` a request's row.

    A worker of the kernel's pool that is let go lets the next one go when it has a CPU. Until it
    has, others of the pool may come to what it was let go for. ``needed_ns``: as ``needed_until``
    has it.
    """
    work, (request, run) = lines.work, in_line(lines, requests, needed_ns)
    begin = work.begin_ns[run]
    since = np.maximum(requests.issue_ns[request], work.since_ns[run])
    last = Service(request, work.tid[run], since, begin)
    other_work = np.ones(len(run), np.int64)
    those = let_go(last, requests.issuer[request], other_work, sleeps, kinds)
    return Service(**joined([those, let_go_for_it(last, sleeps, kinds)]))


def let_go_for_it(last: Service, sleeps: Sleeps, kinds: Kinds) -> Service:
    """Idle workers that were let go while work was there for their pool, until they had a CPU.

    ``last``: who took it up at last, and from when on it was there.
    """
    idle = np.flatnonzero(at_rest(sleeps, np.arange(len(sleeps))))
    pool = kinds.pool_of(sleeps.tid[idle], sleeps.on_ns[idle])
    idle, pool = idle[pool >= 0], pool[pool >= 0]
    wake, on = sleeps.wake_ns[idle], sleeps.on_ns[idle]
    row, one = overlapping(
        kinds.pool_of(last.tid, last.end_ns), last.begin_ns, last.end_ns, pool, wake, on, MOST
    )
    soon = on[one] - last.end_ns[row] <= TAKEN_OVER_NS
    row, one = row[soon], one[soon]
    return Service(
        last.owner[row],
        sleeps.tid[idle[one]],
        np.maximum(wake[one], last.begin_ns[row]),
        np.minimum(on[one], last.end_ns[row]),
    )


def ahead_of_it(last: Service, sleeps: Sleeps, kinds: Kinds) -> Service:
    """Workers of a CPU's pool that were kept from running in the midst of something: until they
    sleep or are through with it, no other is let go (nr_running, kernel/workqueue.c).

    ``last``: as ``let_go_for_it`` has it.
    """
    kept = np.flatnonzero(~sleeps.asleep)
    pool = kinds.bound_pool_of(sleeps.tid[kept], sleeps.on_ns[kept])
    kept, pool = kept[pool >= 0], pool[pool >= 0]
    off, on = sleeps.off_ns[kept], sleeps.on_ns[kept]
    row, one = overlapping(
        kinds.bound_pool_of(last.tid, last.end_ns), last.begin_ns, last.end_ns, pool, off, on, MOST
    )
    return Service(
        last.owner[row],
        sleeps.tid[kept[one]],
        np.maximum(off[one], last.begin_ns[row]),
        np.minimum(on[one], last.end_ns[row]),
    )


def let_go(
    last: Service, asked_by: Ints, other_work: Ints, sleeps: Sleeps, kinds: Kinds
) -> Service:
    """Threads of the kernel that were at it one after the other, back from the last.

    Each is at it from when it was let go, or when it was asked for (``last.begin_ns``), until it
    let the next one go. ``asked_by``: the thread that asked for it, which is none of them.
    ``other_work``: 1: the last one is at another work than the one that it had slept in: who let
    it go then is nothing to this.
    """
    return _back(last, asked_by, other_work, sleeps, kinds)[0]


def _back(
    last: Service, asked_by: Ints, other_work: Ints, sleeps: Sleeps, kinds: Kinds
) -> tuple[Service, Service]:
    """``let_go``; and of each row of ``last`` who had let the first of them go, as itself, and
    when; 0: there is none, or it is not told."""
    by = Service(last.owner, np.zeros(len(last), np.int64), last.begin_ns, last.end_ns.copy())
    if not len(last):
        return last, by
    found, row = [Service(*[np.zeros(0, np.int64)] * 4)], np.arange(len(last))
    woken = np.flatnonzero(sleeps.asleep)
    awake = AsOf(sleeps.tid[woken], sleeps.on_ns[woken])
    owner, tid, since, until = last.owner, last.tid, last.begin_ns, last.end_ns
    for _ in range(DEPTH):
        on = np.flatnonzero((tid != asked_by) & (until > since) & kinds.are_helpers(tid, until))
        if not len(on):
            break
        owner, asked_by, tid, since, until, other_work, row = (
            column[on] for column in (owner, asked_by, tid, since, until, other_work, row)
        )
        sleep = at(woken, awake.at_or_before(tid, until))
        wake = at(sleeps.wake_ns, sleep)
        found.append(Service(owner, tid, np.maximum(wake, since), until))
        other = ((other_work > 0) | (at(sleeps.met, sleep) > 0)) & ~at_rest(sleeps, sleep)
        itself = ~by_interrupt(at(sleeps.context, sleep)) & ~other
        tid, until = np.where(itself, at(sleeps.waker, sleep), -1), wake
        other_work = at(sleeps.waker_other_work, sleep)
        told = itself & (at(sleeps.context, sleep) == WAKE_THREAD) & (tid != asked_by)
        by.tid[row], by.end_ns[row] = np.where(told, tid, 0), until
    return Service(**joined(found)), by
