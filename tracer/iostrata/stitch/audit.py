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

from iostrata.columns import Ints, integers, joined, overlapping, pair_key
from iostrata.layers import RANK
from iostrata.stitch.bios import Bios
from iostrata.stitch.calls import EVERY_DEVICE
from iostrata.stitch.requests import Requests
from iostrata.stitch.rpc import Calls
from iostrata.stitch.spans import Spans
from iostrata.stitch.wakeup import Sleeps
from iostrata.stitch.window import Window
from iostrata.trace import Facts
from iostrata.trace.layout import NFS_COMMIT, THREAD_SERVER, THREAD_TARGET, THREAD_VMM

KINDS: Final = ("request", "flush", "WRITE call", "COMMIT call", "journal commit")
REQUEST, FLUSH, WRITE_CALL, COMMIT_CALL, COMMIT = range(len(KINDS))

# Ranks of what a write itself has under way below its machine's software.
UNDER_WAY: Final = np.array(
    [name.startswith(("device.", "timed.d", "timed.m", "timed.f", "rpc.call")) for name in RANK]
)
# What was served does not tell its device.
UNTOLD: Final = 0


@dataclass(frozen=True)
class Activities:
    """What went on: one row each. Times in ns.

    ``kind``: code into ``KINDS``. ``key``: with ``begin_ns``, which one. ``place``: the
    disk, or the mount of a call. ``used``: part of a write. ``foreign``: known to be
    another's: of a thread that is no kernel's, or that serves somebody else.
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


@dataclass(frozen=True)
class Waits:
    """Intervals of pieces; ``activity``: the row of what went on meanwhile, -1: its own."""

    piece: Ints
    activity: Ints
    begin_ns: Ints
    end_ns: Ints

    def __len__(self) -> int:
        return len(self.piece)

    def rows(self, rows: Ints) -> Waits:
        return Waits(**{name: column[rows] for name, column in vars(self).items()})


@dataclass(frozen=True)
class Audit:
    """One window of one machine's events.

    ``used``: identities of what the window's writes consist of. ``unused``: the others.
    ``waits``: sleeps of its pieces (numbered within the window) during unused ones;
    ``own``: what those pieces had under way themselves.
    """

    machine: str
    facts: Facts
    used: Ints
    unused: Activities
    waits: Waits
    own: Waits


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
    commits, facts = window.commits, window.trace.facts
    commit_is_used = np.isin(np.arange(len(commits)), commits_used)
    own = np.zeros(len(requests.key) + len(calls), np.bool_)
    own[spans.of[spans.of >= 0]] = True
    carried = np.flatnonzero(bios.request >= 0)
    of_commit = np.zeros(len(requests.key), np.bool_)
    others = np.zeros(len(requests.key), np.bool_)
    outside = ~bios.kernel_thread | np.isin(bios.tid, _others(window))
    of_commit[bios.request[carried[commit_of_bio[carried] >= 0]]] = True
    others[bios.request[carried[outside[carried]]]] = True
    others |= _flushes_for(bios, requests, np.flatnonzero(outside & bios.wants_flush))
    # A commit is told of as one; so are the requests that it consists of.
    others |= of_commit
    parts = (
        Activities(
            np.where(requests.flush, FLUSH, REQUEST), requests.key, requests.issue_ns,
            requests.complete_ns, requests.device_key, own[: len(requests.key)], others,
        ),
        Activities(
            np.where(calls.operation == NFS_COMMIT, COMMIT_CALL, WRITE_CALL), calls.key,
            calls.begin_ns, calls.end_ns, calls.device_key, own[len(requests.key) :],
            np.isin(calls.tid, _others(window)),
        ),
        Activities(
            np.full(len(commits), COMMIT), pair_key(commits.device_key, commits.transaction),
            commits.begin_ns, commits.end_ns, _disks(facts, commits.device_key), commit_is_used,
            np.zeros(len(commits), np.bool_),
        ),
    )  # fmt: skip
    return Activities(**joined(parts))


def _others(window: Window) -> Ints:
    """Threads whose own work is told apart from any other's."""
    threads = window.trace.points["thread"]
    told = np.isin(integers(threads["kind"]), (THREAD_TARGET, THREAD_VMM, THREAD_SERVER))
    tids: Ints = np.unique(integers(threads["subject_tid"])[told])
    return tids


def _flushes_for(bios: Bios, requests: Requests, rows: Ints) -> NDArray[np.bool_]:
    """Which requests are flushes that ran while one of some bios asked for one."""
    found = np.zeros(len(requests.key), np.bool_)
    rows = rows[bios.life_end_ns[rows] >= 0]
    flushes = np.flatnonzero(requests.flush)
    _, flush = overlapping(
        bios.device_key[rows], bios.queue_ns[rows], bios.life_end_ns[rows],
        requests.device_key[flushes], requests.issue_ns[flushes], requests.complete_ns[flushes],
    )  # fmt: skip
    found[flushes[flush]] = True
    return found


def _disks(facts: Facts, keys: Ints) -> Ints:
    unique, place = np.unique(keys, return_inverse=True)
    disks: Ints = np.array([facts.disk_of(int(key)) for key in unique], np.int64)[place]
    return disks


def audit(window: Window, sleeps: Sleeps, owner: Ints, found: Activities, spans: Spans) -> Audit:
    """``owner``: of each sleep among the window's pieces. ``spans``: of those pieces."""
    identity = pair_key(found.key, found.begin_ns)
    unused = found.rows(np.flatnonzero(~found.used))
    asleep = np.flatnonzero(sleeps.asleep & (owner >= 0))
    loose = np.flatnonzero(~unused.foreign)
    loose, whose = _seen_from(window, unused.place[loose], loose)
    row, other = overlapping(
        window.pieces.device_key[owner[asleep]], sleeps.off_ns[asleep], sleeps.wake_ns[asleep],
        whose, unused.begin_ns[loose], unused.end_ns[loose],
    )  # fmt: skip
    sleep, activity = asleep[row], loose[other]
    waits = Waits(
        owner[sleep],
        activity,
        np.maximum(unused.begin_ns[activity], sleeps.off_ns[sleep]),
        np.minimum(unused.end_ns[activity], sleeps.wake_ns[sleep]),
    )
    own = spans.where(UNDER_WAY[spans.rank] & np.isin(spans.owner, waits.piece))
    return Audit(
        window.trace.machine,
        window.trace.facts,
        identity[found.used],
        unused,
        waits,
        Waits(own.owner, np.full(len(own), -1), own.begin_ns, own.end_ns),
    )


def _seen_from(window: Window, places: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Rows with the device of each kind of pieces for which their place is on the way down."""
    parts = [(rows[:0], rows[:0])]
    for key in np.unique(window.pieces.device_key).tolist():
        below = np.array(sorted(window.trace.facts.below(key)), np.int64)
        mine = rows if key in (UNTOLD, EVERY_DEVICE) else rows[np.isin(places, below)]
        parts.append((mine, np.full(len(mine), key)))
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])
