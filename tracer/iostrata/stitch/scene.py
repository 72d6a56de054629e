# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: a window in, its threads, disks and calls, and whose each is, out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints, at
from iostrata.layers import RANK
from iostrata.stitch.awaited import Waiting, numbered
from iostrata.stitch.blockio import Awaited
from iostrata.stitch.deferred import deferred
from iostrata.stitch.disks import Disks, disks_of
from iostrata.stitch.interrupts import KNOWN, UNTOLD, Interrupts, interrupts
from iostrata.stitch.journal import commit_at
from iostrata.stitch.owners import Owners
from iostrata.stitch.pools import Pools
from iostrata.stitch.remote import Remote, remote_of
from iostrata.stitch.requests import requests_of
from iostrata.stitch.serving import (
    begun,
    issuers,
    late_for,
    needed_until,
    request_served,
    short_of_cpu,
    submitters,
)
from iostrata.stitch.spans import SpanList
from iostrata.stitch.turns import Numbers
from iostrata.stitch.wakeup import Sleeps, sleeps_of
from iostrata.stitch.window import Columns, Window

LOWER: Final = "lower.throttle.io"
LIMITED: Final = RANK[LOWER], RANK["throttle.io"]
"""Of what is below a stacked device, or else in it meanwhile, and of others."""


@dataclass(frozen=True, eq=False)
class Scene:
    """All that went on in a window. ``numbers``: of what was waited for."""

    window: Window
    sleeps: Sleeps
    owners: Owners
    pools: Pools
    disks: Disks
    remote: Remote
    interrupts: tuple[Interrupts, ...]
    numbers: Numbers

    def limited(self, owner: Ints) -> SpanList:
        """How long a limit held back what somebody (``owner``: of each bio) waited for."""
        disks, held = self.disks, self.disks.held
        until, below = disks.bios.queue_ns[held], disks.bios.lowered[held]
        spans = self._held_back(owner, held, disks.held_ns, until, below)
        spans.extend(self.rests(owner))
        late = deferred(disks, owner)
        if late:
            number = late.held + self.numbers.bio
            spans.add(owner[late.bio], LOWER, late.begin_ns, late.end_ns, number)
        return spans

    def rests(self, owner: Ints) -> SpanList:
        """The same, of what was left of those that were split."""
        rests = self.disks.rests
        below = self.disks.bios.lowered[rests.bio] | rests.mapped
        return self._held_back(owner, rests.bio, rests.since_ns, rests.until_ns, below)

    def _held_back(
        self, owner: Ints, bio: Ints, since_ns: Ints, until_ns: Ints, below: NDArray[np.bool_]
    ) -> SpanList:
        spans, rank = SpanList(), np.where(below, *LIMITED).astype(np.int16)
        spans.add(owner[bio], rank, since_ns, until_ns, bio + self.numbers.bio)
        return spans

    def unserved(self, owner: Ints, flushes: Awaited | None = None) -> SpanList:
        """How long who asked for a request for what somebody (``owner``: of each bio) waited for,
        issued it, or handles its disk's interrupts, had no CPU. ``flushes``: as ``Disks.spans_of``
        has them."""
        disks, sleeps, number, spans = self.disks, self.sleeps, self.numbers.sleep, SpanList()
        bios, carried, requests = disks.bios, disks.carried, disks.requests
        flushes = disks.flushes if flushes is None else flushes
        issued = issuers(bios, carried, flushes, requests, owner)
        spans.extend(late_for(issued, sleeps, number))
        asked = submitters(bios, carried, requests, owner)
        spans.extend(short_of_cpu(asked, sleeps, number))
        for threads in self.interrupts:
            for known, rank in ((True, KNOWN), (False, UNTOLD)):
                needed = threads.needed(owner, carried, flushes, known=known)
                if threads.unmet:
                    spans.add(needed.owner, rank, needed.begin_ns, needed.end_ns)
                else:
                    spans.extend(short_of_cpu(needed, sleeps, number, rank))
        return spans


def scene_of(window: Window) -> tuple[Scene, Columns]:
    """Also returns the completions of requests, which are needed once more."""
    sleeps, owners = sleeps_of(window), Owners(window)
    pools = Pools(window, sleeps)
    window = replace(window, commits=begun(window.commits, sleeps))
    requests, completed = requests_of(window)
    disks = disks_of(window, owners, pools, sleeps, requests, completed)
    remote = remote_of(window, owners)
    sleep = len(requests.key) + len(remote.calls)
    commit = sleep + len(sleeps)
    bio = commit + len(window.commits)
    numbers = Numbers(sleep=sleep, commit=commit, bio=bio, thread=bio + len(disks.bios))
    threads = interrupts(requests, completed, disks.stack.stacked, sleeps, window.trace)
    return Scene(window, sleeps, owners, pools, disks, remote, threads, numbers), completed


@dataclass(frozen=True, eq=False)
class Asleep:
    """Who slept for whom: of each sleep, -1: for nobody.

    ``piece``: the piece that it was for; ``owner``: whoever it was for, by number: piece, commit,
    or request below; ``beside``: the same, but for no commit; ``idle``: whether its thread had
    nothing to do yet for whom it is. ``needed_ns``: until when each request may need the worker of
    its loop device.
    """

    piece: Ints
    owner: Ints
    beside: Ints
    idle: NDArray[np.bool_]
    waiting: Waiting
    needed_ns: Ints


def asleep_of(scene: Scene, piece: Ints) -> Asleep:
    """``piece``: of each sleep, whose it is."""
    window, disks, sleeps = scene.window, scene.disks, scene.sleeps
    waiting = Waiting(window, scene.owners, disks.workers, disks.requests, sleeps, piece)
    needed = needed_until(disks.lines, disks.bios, disks.handed_ns, disks.requests, sleeps)
    served = numbered(
        request_served(disks.lines, needed, disks.requests, sleeps), disks.first_request
    )
    commit = commit_at(window.commits, sleeps.tid, sleeps.on_ns)
    # Asleep with nothing to do, it was not at it yet.
    idle = (commit >= 0) & (sleeps.wake_ns <= at(window.commits.since_ns, commit))
    committing = numbered(commit, disks.first_commit)
    beside = np.where(waiting.of_sleep >= 0, waiting.of_sleep, served)
    return Asleep(
        piece=piece,
        owner=np.where(committing >= 0, committing, beside),
        beside=beside,
        idle=idle,
        waiting=waiting,
        needed_ns=needed,
    )
