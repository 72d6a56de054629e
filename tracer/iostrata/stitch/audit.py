# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: what was observed and its spans in, what belongs to no write out.

Each request, flush, call of the NFS client and journal commit is part of a write,
or of nobody here: background. Background that runs on a write's own device, mount
or journal while that write sleeps, with nothing of its own under way there, in a queue or
held back by a limit, and while whom it waits for does not lack a CPU, may be what it waits
for although nothing ties them: it is *left over*, and that is said.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata import native
from iostrata.columns import (
    Containing,
    Ints,
    ascend,
    at,
    distinct,
    integers,
    joined,
    meets,
    one_of,
    order_of,
    pair_key,
    rows_of,
)
from iostrata.layers import STACK, Depth
from iostrata.stitch.bios import Bios
from iostrata.stitch.calls import EVERY_DEVICE
from iostrata.stitch.fuse import served_of
from iostrata.stitch.remote import Remote
from iostrata.stitch.requests import Requests
from iostrata.stitch.rpc import FUSE_REQUEST, NINEP_REQUEST, OSD_REQUEST
from iostrata.stitch.spans import Spans
from iostrata.stitch.stacked import Workers
from iostrata.stitch.turns import BEFORE_DEVICES, LIMITS, QUEUES, QUOTAS, STACKED
from iostrata.stitch.wakeup import Sleeps
from iostrata.stitch.window import Window, whole
from iostrata.trace import Facts
from iostrata.trace.layout import (
    NFS_COMMIT,
    NFS_OTHER,
    NFS_READ,
    NFS_WRITE,
    THREAD_FUSE,
    THREAD_SERVER,
    THREAD_TARGET,
    THREAD_VMM,
)

KINDS: Final = (
    "request", "flush", "WRITE call", "COMMIT call", "journal commit", "READ call", "FUSE request",
    "9p request", "OSD operation", "other call",
)  # fmt: skip
(
    REQUEST, FLUSH, WRITE_CALL, COMMIT_CALL, COMMIT, READ_CALL, FUSE_CALL, NINEP_CALL, COPY,
    OTHER_CALL,
) = range(len(KINDS))  # fmt: skip
KIND_OF_CALL: Final = {
    NFS_WRITE: WRITE_CALL, NFS_COMMIT: COMMIT_CALL, NFS_READ: READ_CALL, NFS_OTHER: OTHER_CALL,
}  # fmt: skip

# What these do is told apart from what any other does.
APART: Final = (THREAD_TARGET, THREAD_VMM, THREAD_SERVER, THREAD_FUSE)
# Ranks of what a write itself has in a queue, or under way below its machine's software, of what a
# limit keeps from it, and of whom it waits for having no CPU.
UNDER_WAY: Final = (
    BEFORE_DEVICES
    | LIMITS
    | QUEUES
    | QUOTAS
    | [rank.wakes and rank.depth in (Depth.BY_TIME, Depth.AWAY, Depth.DEVICE) for rank in STACK]
)
ASLEEP, BUSY, HANDED_ON = range(3)
# What was served does not tell its device.
UNTOLD: Final = 0
# Added to a file system that a daemon serves: what that waits for is anywhere, but with no other
# file system's daemon. It may be, while the thread is in a call on that one: then that is told.
SERVED: Final = 1 << 32
NONE: Final = np.zeros(0, np.int64)


@dataclass(frozen=True, eq=False)
class Activities:
    """What went on: one row each. Times in ns.

    ``kind``: code into ``KINDS``. ``key``: with ``begin_ns``, which one. ``place``: the
    disk, of a call the mount, of a commit the file system's device. ``foreign``: known to be
    another's: of a thread that is no kernel's, or that serves somebody else, for another request,
    or a read.
    """

    kind: Ints
    key: Ints
    begin_ns: Ints
    end_ns: Ints
    place: Ints
    foreign: NDArray[np.bool_]

    @property
    def mounts(self) -> set[int]:
        """The file systems whose daemons were asked for any."""
        return {*distinct(self.place[self.kind == FUSE_CALL]).tolist()}

    def rows(self, rows: Ints) -> Activities:
        return Activities(**{name: column[rows] for name, column in vars(self).items()})


@dataclass(frozen=True, eq=False)
class Idle:
    """When pieces slept with nothing of their own under way.

    ``device_key``: of the piece's file; of what was served, of the file that its thread was in a
    call on, if it was, else ``UNTOLD``, or ``SERVED`` and more. ``stacked``: a stacked device, as a
    loop device, has requests of its own. Intervals of one piece share no instant.
    """

    device_key: Ints
    stacked: NDArray[np.bool_]
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
    ``idle``: of its pieces, as far as anything unused was going on meanwhile. ``beyond``: how many
    waits were behind more others than are followed.
    """

    machine: str
    facts: Facts
    used: Ints
    unused: Activities
    idle: Idle
    beyond: int


@dataclass(frozen=True, eq=False)
class WentOn:
    """``used``: identities of what is part of a write; ``unused``: the others."""

    used: Ints
    unused: Activities


def activities_of(
    window: Window,
    bios: Bios,
    requests: Requests,
    workers: Workers,
    commit_of_bio: Ints,
    remote: Remote,
    commits_used: Ints,
    spans: Spans,
) -> WentOn:
    """All that went on in a window. ``spans``: of its pieces; ``commits_used``: rows."""
    commits, calls, count = window.commits, remote.calls, len(requests.key)
    own = _asked(spans.of, count + len(calls))
    identities = (
        (own[:count], requests.key, requests.issue_ns),
        (own[count:], calls.key, calls.begin_ns),
        (
            one_of(np.arange(len(commits)), commits_used),
            pair_key(commits.device_key, commits.transaction), commits.begin_ns,
        ),
    )  # fmt: skip
    used = [pair_key(key[some], begin[some]) for some, key, begin in identities]
    request, call, commit = (np.flatnonzero(~some) for some, _, _ in identities)
    parts = (
        Activities(
            np.where(requests.flush[request], FLUSH, REQUEST), requests.key[request],
            requests.issue_ns[request], requests.complete_ns[request],
            requests.device_key[request],
            _foreign(window, bios, requests, workers, commit_of_bio, own[:count])[request],
        ),
        Activities(
            _kinds_of_calls(calls.operation[call]), calls.key[call], calls.begin_ns[call],
            calls.end_ns[call], calls.device_key[call],
            remote.foreign[call] | one_of(calls.tid[call], _apart(window)),
        ),
        Activities(
            np.full(len(commit), COMMIT), identities[2][1][commit], commits.begin_ns[commit],
            commits.end_ns[commit], commits.device_key[commit], np.zeros(len(commit), np.bool_),
        ),
    )  # fmt: skip
    return WentOn(np.concatenate(used), Activities(**joined(parts)))


def _asked(of: Ints, count: int) -> NDArray[np.bool_]:
    """Which of so many anything is of."""
    if native.LIBRARY is not None:
        return native.marked(of, count)
    found = np.zeros(count, np.bool_)
    found[of[of.view(np.uint64) < count]] = True
    return found


def _foreign(
    window: Window,
    bios: Bios,
    requests: Requests,
    workers: Workers,
    commit_of_bio: Ints,
    used: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Which of the requests that are not ``used`` are known to be another's; of the others, nobody
    asks whose else they may be.

    A commit is told of as one; so are the requests that it consists of. So is what a loop device's
    request consists of, its syncs' too, if that is recorded; else it is another's.
    """
    found, apart = requests.read.copy(), _apart(window)

    def outside(rows: Ints) -> NDArray[np.bool_]:
        apart_from_writes: NDArray[np.bool_] = ~bios.kernel_thread[rows] | bios.for_loop[rows]
        apart_from_writes |= workers.is_apart(bios.tid[rows], bios.begin_ns[rows])
        return apart_from_writes | one_of(bios.tid[rows], apart)

    # Behind the last one is what has none.
    unused = np.append(~used, False)
    carried = np.flatnonzero(unused[bios.request])
    others = outside(carried) | (commit_of_bio[carried] >= 0)
    found[bios.request[carried[others]]] = True
    flushes = np.flatnonzero(requests.flush & unused[:-1])
    if len(flushes):
        asking = np.flatnonzero(bios.wants_flush & (bios.life_end_ns >= 0))
        asking = asking[outside(asking)]
        found[flushes[_ran_for(bios, asking, requests, flushes)]] = True
    return found


def _kinds_of_calls(operations: Ints) -> Ints:
    kinds = np.full(len(operations), WRITE_CALL)
    kinds[operations >= FUSE_REQUEST] = FUSE_CALL
    kinds[operations >= NINEP_REQUEST] = NINEP_CALL
    kinds[operations >= OSD_REQUEST] = COPY
    for operation, kind in KIND_OF_CALL.items():
        kinds[operations == operation] = kind
    return kinds


def _apart(window: Window) -> Ints:
    return whole(window.trace).once(_others)


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


def audit(
    window: Window, sleeps: Sleeps, owner: Ints, found: WentOn, spans: Spans, beyond: int
) -> tuple[Audit, Ints]:
    """And of which of the window's pieces each row of ``Audit.idle`` is.

    ``owner``: of each sleep among these pieces. ``spans``: of those.
    """
    loose, sleeping = found.unused.rows(np.flatnonzero(~found.unused.foreign)), NONE
    if len(loose.key):
        sleeping = np.flatnonzero(sleeps.asleep & (owner >= 0))
        off, wake, piece = sleeps.off_ns[sleeping], sleeps.wake_ns[sleeping], owner[sleeping]
        sleeping = sleeping[_beside(window, off, wake, piece, loose)]
    off, wake, piece = sleeps.off_ns[sleeping], sleeps.wake_ns[sleeping], owner[sleeping]
    idle, of = _idle(window, off, wake, piece, spans)
    trace = window.trace
    return Audit(trace.machine, trace.facts, found.used, found.unused, idle, beyond), of


def _beside(
    window: Window, off_ns: Ints, wake_ns: Ints, owner: Ints, loose: Activities
) -> NDArray[np.bool_]:
    """During which sleeps anything went on that may have been waited for: any of ``loose``."""
    beside = np.zeros(len(owner), np.bool_)
    ways = Ways(window.trace.facts, loose.place, loose.mounts)
    for key, mine in rows_of(_devices(window, owner, off_ns)).items():
        below = loose.rows(ways.down(key))
        beside[mine] = meets(off_ns[mine], wake_ns[mine], below.begin_ns, below.end_ns)
    return beside


class Ways:
    """What is on the way down from a file on a device."""

    def __init__(self, facts: Facts, places: Ints, mounts: Collection[int]) -> None:
        """``places``: where each of some activities is; ``mounts``: those that daemons serve."""
        self._facts, self._count, self._rows = facts, len(places), rows_of(places)
        self._mounts = mounts

    def down(self, device_key: int, stacked: bool = False) -> Ints:
        """The activities on the way, in no order.

        ``stacked``: those that whoever has requests of his own at a stacked device may wait for:
        they are below that.
        """
        if device_key in (UNTOLD, EVERY_DEVICE):
            return np.arange(self._count)
        if device_key >= SERVED:
            others = {*self._mounts} - {device_key - SERVED}
            return np.concatenate(
                [NONE, *(rows for place, rows in self._rows.items() if place not in others)]
            )
        below = self._facts.below(device_key)
        if stacked:
            below = below - self._facts.on_top(device_key)
        return np.concatenate([NONE, *(self._rows[key] for key in below if key in self._rows)])


def _idle(
    window: Window, off_ns: Ints, wake_ns: Ints, owner: Ints, spans: Spans
) -> tuple[Idle, Ints]:
    """The sleeps, each instant of a piece once, without what it had under way itself; and of which
    piece each is."""
    if not len(owner):
        return Idle(owner, np.zeros(0, np.bool_), owner, owner), owner
    known = np.zeros(len(window.pieces.begin_ns), np.bool_)
    known[owner] = True
    own = spans.where((UNDER_WAY | STACKED)[spans.rank] & known[spans.owner])
    piece = np.concatenate([owner, owner, own.owner, own.owner])
    time = np.concatenate([off_ns, wake_ns, own.begin_ns, own.end_ns])
    one, other = np.ones(len(owner), np.int64), np.ones(len(own), np.int64)
    step = np.concatenate([one, -one, other, -other])
    has = np.where(UNDER_WAY[own.rank], BUSY, HANDED_ON)
    what = np.concatenate([ASLEEP * one, ASLEEP * one, has, has])
    order = order_of(piece, time)
    piece, time, step, what = piece[order], time[order], step[order], what[order]
    asleep, busy, stacked = (
        np.cumsum(step * (what == one)) > 0 for one in (ASLEEP, BUSY, HANDED_ON)
    )
    # After a piece's last edge it neither sleeps nor has anything under way.
    begin = np.flatnonzero(asleep & ~busy)
    begin = begin[time[begin + 1] > time[begin]]
    of = piece[begin]
    found = Idle(_devices(window, of, time[begin]), stacked[begin], time[begin], time[begin + 1])
    return found, of


def _devices(window: Window, piece: Ints, time_ns: Ints) -> Ints:
    """What each of some pieces is on at a time, as ``Idle.device_key`` has it."""
    found = window.pieces.device_key[piece]
    untold = np.flatnonzero(found == UNTOLD)
    if len(untold):
        calls = window.columns("syscall", "tid", "enter_ns", "dev")
        inside = Containing(calls["tid"], calls["enter_ns"], calls["time_ns"])
        call = inside.find(window.pieces.tid[piece[untold]], time_ns[untold])
        mount = served_of(window)[piece[untold]]
        elsewhere = np.where(mount != UNTOLD, SERVED + mount, UNTOLD)
        device = at(calls["dev"], call)
        found[untold] = np.where(device > UNTOLD, device, elsewhere)
    return found
