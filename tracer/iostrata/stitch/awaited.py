# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: sleeps and what ended them in, who waited for which commits out.

An edge leads from an activity to who waited for it, and is given by a key: a transaction,
a buffer of the log, the thread that let the sleeper go, or the request that had just ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final, Literal

import numpy as np

from iostrata.columns import (
    AsOf,
    Ints,
    at,
    changes,
    joined,
    one_of,
    order_of,
    overlapping,
    pair_key,
    ranges,
)
from iostrata.stitch.bios import Bios
from iostrata.stitch.owners import Owners
from iostrata.stitch.requests import Requests
from iostrata.stitch.spans import Edges
from iostrata.stitch.stacked import Workers
from iostrata.stitch.syncs import Syncs
from iostrata.stitch.upkeep import Upkeep
from iostrata.stitch.wakers import Explained, Tied
from iostrata.stitch.wakeup import Sleeps
from iostrata.stitch.window import Window

MOST: Final = 16
"""So many commits at each end of a wait are waited for: those between are others'."""

SIDES: Final[tuple[Literal["left"], Literal["right"]]] = "left", "right"


def numbered(rows: Ints, first: int) -> Ints:
    """Rows as numbers from ``first`` on; -1 stays: mostly all are, and so the same."""
    return np.where(rows >= 0, rows + first, -1) if rows.max(initial=-1) >= 0 else rows


class Waiting:
    """Who waits for commits, by number: pieces, and requests through the syncs of a worker.

    ``of_sync``, ``of_sleep``: of each sync and sleep, -1: nobody who is known.
    """

    def __init__(
        self,
        window: Window,
        owners: Owners,
        workers: Workers,
        requests: Requests,
        sleeps: Sleeps,
        piece_of_sleep: Ints,
    ) -> None:
        self._owners, self._workers = owners, workers
        self._first = len(window.pieces.begin_ns) + len(window.commits)
        self.end_ns = np.concatenate(
            [window.pieces.end_ns, window.commits.end_ns, requests.complete_ns]
        )
        self.of_sync = owners.syncs.piece.copy()
        self.of_sync[workers.sync] = workers.request + self._first
        self.of_sleep = self._or_request(piece_of_sleep, sleeps.tid, sleeps.on_ns)

    def find(self, tid: Ints, time_ns: Ints) -> Ints:
        """Whom a thread works for at a time."""
        return self._or_request(self._owners.find(tid, time_ns), tid, time_ns)

    def _or_request(self, piece: Ints, tid: Ints, time_ns: Ints) -> Ints:
        if not len(self._workers.request):
            return piece
        request = self._workers.request_of(tid, time_ns)
        return np.where(piece >= 0, piece, numbered(request, self._first))


def edges_of_commits(
    window: Window,
    owners: Owners,
    waiting: Waiting,
    sleeps: Sleeps,
    explained: Explained,
    commit_of_bio: Ints,
    batches: Edges,
) -> Edges:
    """Who waited for which commits, and when; all by number. ``batches``: for those of a store."""
    parts = (
        _by_transaction(window, owners.syncs, waiting.of_sync, sleeps),
        _by_log_write(window, waiting),
        _by_waker(window, sleeps, waiting.of_sleep),
        _by_completion(explained, commit_of_bio),
        edges_of(explained.commits, explained.commits.row),
        batches,
    )
    edges = Edges(**joined(parts))
    edges = replace(edges, activity=edges.activity + len(window.pieces.begin_ns))
    # A commit waits for others through what they are made of.
    first, beyond = len(window.pieces.begin_ns), len(window.pieces.begin_ns) + len(window.commits)
    return edges.rows(np.flatnonzero((edges.write < first) | (edges.write >= beyond)))


def _by_transaction(window: Window, syncs: Syncs, waiter: Ints, sleeps: Sleeps) -> Edges:
    """By key: the jbd2 transaction that the synced file waited for, and those before it.

    Where it was seen who ended a sleep, that tells of which a commit was the cause.
    """
    commits = window.commits
    by_transaction = AsOf(commits.device_key * (1 << 32) + commits.transaction, commits.begin_ns)
    waited_until = np.full(len(syncs.tid), -1)
    for wanted in (syncs.exit_transaction, syncs.enter_transaction):
        found = by_transaction.at_or_before(syncs.device_key * (1 << 32) + wanted, syncs.end_ns)
        end = at(commits.end_ns, found)
        waited = (wanted > 0) & (end > syncs.begin_ns) & (end <= syncs.end_ns)
        waited_until = np.where(waited & (waited_until < 0), end, waited_until)
    waits = np.flatnonzero((waited_until >= 0) & (waiter >= 0))
    row, commit = overlapping(
        syncs.device_key[waits], syncs.begin_ns[waits], waited_until[waits] + 1,
        commits.device_key, commits.since_ns, commits.end_ns, MOST,
    )  # fmt: skip
    sync = waits[row]
    if not len(sleeps):
        return Edges(commit, waiter[sync], syncs.begin_ns[sync], syncs.end_ns[sync])
    unseen = np.flatnonzero(sleeps.waker < 0)
    pair, sleep = overlapping(
        syncs.tid[sync], syncs.begin_ns[sync], syncs.end_ns[sync],
        sleeps.tid[unseen], sleeps.off_ns[unseen], sleeps.on_ns[unseen],
    )  # fmt: skip
    off, on = sleeps.off_ns[unseen[sleep]], sleeps.on_ns[unseen[sleep]]
    return Edges(commit[pair], waiter[sync[pair]], off, on)


def _by_log_write(window: Window, waiting: Waiting) -> Edges:
    """By key: the log buffer of XFS that the thread says it waits for."""
    commits = window.commits
    waits = window.columns("xlog_iclog_wait_on", "tid", "iclog_key", "lsn")
    identity = pair_key(waits["iclog_key"], waits["lsn"])
    logs = np.flatnonzero(commits.identity != 0)
    by_identity = AsOf(commits.identity[logs], commits.end_ns[logs])
    commit = at(logs, by_identity.at_or_after(identity, waits["time_ns"]))
    waiter = waiting.find(waits["tid"], waits["time_ns"])
    rows = np.flatnonzero((commit >= 0) & (waiter >= 0))
    commit, waiter = commit[rows], waiter[rows]
    return Edges(commit, waiter, waits["time_ns"][rows], waiting.end_ns[waiter])


def _by_waker(window: Window, sleeps: Sleeps, waiter: Ints) -> Edges:
    """By key: the thread that woke a sleeper was committing a journal until then."""
    commits = window.commits
    itself = sleeps.asleep & ~sleeps.interrupted
    woken = np.flatnonzero((waiter >= 0) & itself & one_of(sleeps.waker, commits.waker))
    row, commit = overlapping(
        sleeps.waker[woken], sleeps.off_ns[woken], sleeps.wake_ns[woken],
        commits.waker, commits.since_ns, commits.end_ns, MOST,
    )  # fmt: skip
    sleep = woken[row]
    return Edges(commit, waiter[sleep], sleeps.off_ns[sleep], sleeps.wake_ns[sleep])


def _by_completion(explained: Explained, commit_of_bio: Ints) -> Edges:
    """By key: what woke the sleeper had just completed a request of the commit.

    So ends the wait for a block that the log is being written from (BH_Shadow of
    fs/jbd2/transaction.c), which nothing else tells of.
    """
    return edges_of(explained.bios, at(commit_of_bio, explained.bios.row))


def edges_of(tied: Tied, activity: Ints) -> Edges:
    rows = np.flatnonzero(activity >= 0)
    return Edges(activity[rows], tied.owner[rows], tied.begin_ns[rows], tied.end_ns[rows])


def with_upkeep(tied: Tied, upkeep: Upkeep, bios: Bios, owners: Iterable[Ints]) -> Tied:
    """And what stacked devices did for themselves while they kept waiting what is somebody's, or
    what they waited for. ``owners``: by number, of each bio."""
    if not len(upkeep.bio):
        return tied
    root, parts = bios.root, [tied]
    for owner in owners:
        of = owner[upkeep.above]
        parts.append(
            Tied(of, upkeep.bio, upkeep.begin_ns, upkeep.end_ns).rows(np.flatnonzero(of >= 0))
        )
    # By the whole bios, as those are that were waited for.
    above = root[upkeep.above]
    order = order_of(above)
    first, last = (np.searchsorted(above[order], tied.row, side=side) for side in SIDES)
    one = np.repeat(np.arange(len(tied.row)), last - first)
    kept = upkeep.rows(order[np.repeat(first, last - first) + ranges(last - first)])
    parts.append(
        Tied(
            tied.owner[one],
            kept.bio,
            np.maximum(tied.begin_ns[one], kept.begin_ns),
            np.minimum(tied.end_ns[one], kept.end_ns),
        )
    )
    return Tied(**joined([parts[0], _once(Tied(**joined(parts[1:])))]))


def _once(tied: Tied) -> Tied:
    """Of an owner and what it waited for one row, since when it did first, until when last."""
    order = order_of(tied.owner, tied.row)
    tied = tied.rows(order)
    first = np.flatnonzero(changes(tied.owner) | changes(tied.row))
    if not len(first):
        return tied
    return Tied(
        tied.owner[first],
        tied.row[first],
        np.minimum.reduceat(tied.begin_ns, first),
        np.maximum.reduceat(tied.end_ns, first),
    )
