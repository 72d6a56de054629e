# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: what was observed and its spans in, what belongs to no write out.

Each request, flush, call of the NFS client and journal commit is part of a write,
or of nobody here: background. Background that runs on a write's own device, mount
or journal while that write sleeps, with nothing of its own under way there, may be
what it waits for although nothing ties them: it is *left over*, and that is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import (
    Ints,
    ascend,
    distinct,
    integers,
    joined,
    meets,
    one_of,
    order_of,
    pair_key,
)
from iostrata.layers import STACK, Depth
from iostrata.stitch.bios import Bios
from iostrata.stitch.calls import EVERY_DEVICE
from iostrata.stitch.requests import Requests
from iostrata.stitch.rpc import FUSE_REQUEST, NINEP_REQUEST, OSD_REQUEST, Calls
from iostrata.stitch.spans import Spans
from iostrata.stitch.wakeup import Sleeps
from iostrata.stitch.window import Window, whole
from iostrata.trace import Facts
from iostrata.trace.layout import (
    NFS_COMMIT,
    NFS_READ,
    NFS_WRITE,
    THREAD_FUSE,
    THREAD_SERVER,
    THREAD_TARGET,
    THREAD_VMM,
)

KINDS: Final = (
    "request", "flush", "WRITE call", "COMMIT call", "journal commit", "READ call", "FUSE request",
    "9p request", "OSD operation",
)  # fmt: skip
(
    REQUEST, FLUSH, WRITE_CALL, COMMIT_CALL, COMMIT, READ_CALL, FUSE_CALL, NINEP_CALL, COPY,
) = range(len(KINDS))  # fmt: skip
KIND_OF_CALL: Final = {NFS_WRITE: WRITE_CALL, NFS_COMMIT: COMMIT_CALL, NFS_READ: READ_CALL}

# What these do is told apart from what any other does.
APART: Final = (THREAD_TARGET, THREAD_VMM, THREAD_SERVER, THREAD_FUSE)
# Ranks of what a write itself has under way below its machine's software.
UNDER_WAY: Final = np.array(
    [rank.wakes and rank.depth in (Depth.BY_TIME, Depth.AWAY, Depth.DEVICE) for rank in STACK]
)
# What was served does not tell its device.
UNTOLD: Final = 0


@dataclass(frozen=True, eq=False)
class Activities:
    """What went on: one row each. Times in ns.

    ``kind``: code into ``KINDS``. ``key``: with ``begin_ns``, which one. ``place``: the
    disk, of a call the mount, of a commit the file system's device. ``used``: part of a
    write. ``foreign``: of what is not, known to be another's: of a thread that is no kernel's,
    or that serves somebody else, or a read.
    """

    kind: Ints
    key: Ints
    begin_ns: Ints
    end_ns: Ints
    place: Ints
    used: NDArray[np.bool_]
    foreign: NDArray[np.bool_]

    def rows(self, rows: Ints) -> Activities:
        return Activities(**{name: column[rows] for name, column in vars(self).items()})


@dataclass(frozen=True, eq=False)
class Idle:
    """When pieces slept with nothing of their own under way.

    ``device_key``: of the piece's file. Intervals of one piece share no instant.
    """

    device_key: Ints
    begin_ns: Ints
    end_ns: Ints

    def __len__(self) -> int:
        return len(self.device_key)

    def rows(self, rows: Ints) -> Idle:
        return Idle(**{name: column[rows] for name, column in vars(self).items()})


@dataclass(frozen=True, eq=False)
class Audit:
    """One window of one machine's events.

    ``used``: identities of what the window's writes consist of. ``unused``: the others.
    ``idle``: of its pieces, as far as anything unused was going on meanwhile.
    """

    machine: str
    facts: Facts
    used: Ints
    unused: Activities
    idle: Idle


def activities_of(
    window: Window,
    bios: Bios,
    requests: Requests,
    commit_of_bio: Ints,
    calls: Calls,
    commits_used: Ints,
    spans: Spans,
) -> Activities:
    """All that went on in a window. ``spans``: of its pieces; ``commits_used``: rows."""
    commits = window.commits
    commit_is_used = one_of(np.arange(len(commits)), commits_used)
    own = np.zeros(len(requests.key) + len(calls), np.bool_)
    own[spans.of[spans.of.view(np.uint64) < len(own)]] = True
    carried = np.flatnonzero(bios.request >= 0)
    of_commit = np.zeros(len(requests.key), np.bool_)
    others = np.zeros(len(requests.key), np.bool_)
    apart = whole(window.trace).once(_others)
    outside = ~bios.kernel_thread | one_of(bios.tid, apart)
    of_commit[bios.request[carried[commit_of_bio[carried] >= 0]]] = True
    others[bios.request[carried[outside[carried]]]] = True
    # Of what is part of a write, nobody asks whose else it may be.
    flushes = np.flatnonzero(requests.flush & ~own[: len(requests.key)])
    if len(flushes):
        asking = np.flatnonzero(outside & bios.wants_flush & (bios.life_end_ns >= 0))
        others[flushes[_ran_for(bios, asking, requests, flushes)]] = True
    # A commit is told of as one; so are the requests that it consists of.
    others |= of_commit | requests.read
    parts = (
        Activities(
            np.where(requests.flush, FLUSH, REQUEST), requests.key, requests.issue_ns,
            requests.complete_ns, requests.device_key, own[: len(requests.key)], others,
        ),
        Activities(
            _kinds_of_calls(calls), calls.key,
            calls.begin_ns, calls.end_ns, calls.device_key, own[len(requests.key) :],
            one_of(calls.tid, apart),
        ),
        Activities(
            np.full(len(commits), COMMIT), pair_key(commits.device_key, commits.transaction),
            commits.begin_ns, commits.end_ns, commits.device_key, commit_is_used,
            np.zeros(len(commits), np.bool_),
        ),
    )  # fmt: skip
    return Activities(**joined(parts))


def _kinds_of_calls(calls: Calls) -> Ints:
    kinds = np.full(len(calls), WRITE_CALL)
    kinds[calls.operation >= FUSE_REQUEST] = FUSE_CALL
    kinds[calls.operation >= NINEP_REQUEST] = NINEP_CALL
    kinds[calls.operation >= OSD_REQUEST] = COPY
    for operation, kind in KIND_OF_CALL.items():
        kinds[calls.operation == operation] = kind
    return kinds


def _others(window: Window) -> Ints:
    """Threads whose own work is told apart from any other's."""
    threads = window.trace.points["thread"]
    told = one_of(integers(threads["kind"]), APART)
    tids: Ints = distinct(integers(threads["subject_tid"])[told])
    return tids


def _ran_for(bios: Bios, rows: Ints, requests: Requests, flushes: Ints) -> NDArray[np.bool_]:
    """Which of some flushes ran while one of some bios asked for one."""
    found = np.zeros(len(flushes), np.bool_)
    for device in distinct(requests.device_key[flushes]).tolist():
        asking = rows[bios.device_key[rows] == device]
        mine = np.flatnonzero(requests.device_key[flushes] == device)
        queue, end = bios.queue_ns[asking], bios.life_end_ns[asking]
        if not ascend(queue):
            order = order_of(queue)
            queue, end = queue[order], end[order]
        reach = np.maximum.accumulate(end)
        begun = np.searchsorted(queue, requests.complete_ns[flushes[mine]])
        mine, begun = mine[begun > 0], begun[begun > 0]
        found[mine] = reach[begun - 1] > requests.issue_ns[flushes[mine]]
    return found


def audit(window: Window, sleeps: Sleeps, owner: Ints, found: Activities, spans: Spans) -> Audit:
    """``owner``: of each sleep among the window's pieces. ``spans``: of those pieces."""
    facts = window.trace.facts
    identity = pair_key(found.key, found.begin_ns)
    unused = found.rows(np.flatnonzero(~found.used))
    sleeping = np.flatnonzero(sleeps.asleep & (owner >= 0))
    if not len(unused.key):
        # Mostly all is part of a write: then nothing is left over.
        sleeping = sleeping[:0]
    off, wake, piece = sleeps.off_ns[sleeping], sleeps.wake_ns[sleeping], owner[sleeping]
    beside = np.flatnonzero(_beside(window, off, wake, piece, unused))
    idle = _idle(window, off[beside], wake[beside], piece[beside], spans)
    return Audit(window.trace.machine, facts, identity[found.used], unused, idle)


def _beside(
    window: Window, off_ns: Ints, wake_ns: Ints, owner: Ints, unused: Activities
) -> NDArray[np.bool_]:
    """During which sleeps anything unused went on that may have been waited for."""
    beside = np.zeros(len(owner), np.bool_)
    loose = unused.rows(np.flatnonzero(~unused.foreign))
    device = window.pieces.device_key[owner]
    for key in distinct(device).tolist() if len(loose.key) else ():
        below = loose.rows(np.flatnonzero(on_the_way(window.trace.facts, key, loose.place)))
        mine = np.flatnonzero(device == key)
        beside[mine] = meets(off_ns[mine], wake_ns[mine], below.begin_ns, below.end_ns)
    return beside


def on_the_way(facts: Facts, device_key: int, places: Ints) -> NDArray[np.bool_]:
    """Which places are on the way down from a file on a device."""
    if device_key in (UNTOLD, EVERY_DEVICE):
        return np.ones(len(places), np.bool_)
    return one_of(places, sorted(facts.below(device_key)))


def _idle(window: Window, off_ns: Ints, wake_ns: Ints, owner: Ints, spans: Spans) -> Idle:
    """The sleeps, each instant of a piece once, without what it had under way itself."""
    if not len(owner):
        return Idle(owner, owner, owner)
    known = np.zeros(len(window.pieces.begin_ns), np.bool_)
    known[owner] = True
    own = spans.where(UNDER_WAY[spans.rank] & known[spans.owner])
    piece = np.concatenate([owner, owner, own.owner, own.owner])
    time = np.concatenate([off_ns, wake_ns, own.begin_ns, own.end_ns])
    one, other = np.ones(len(owner), np.int64), np.ones(len(own), np.int64)
    asleep = np.concatenate([one, -one, 0 * other, 0 * other])
    busy = np.concatenate([0 * one, 0 * one, other, -other])
    order = order_of(piece, time)
    piece, time = piece[order], time[order]
    idle = (np.cumsum(asleep[order]) > 0) & (np.cumsum(busy[order]) == 0)
    # After a piece's last edge it neither sleeps nor has anything under way.
    begin = np.flatnonzero(idle)
    begin = begin[time[begin + 1] > time[begin]]
    return Idle(window.pieces.device_key[piece[begin]], time[begin], time[begin + 1])
