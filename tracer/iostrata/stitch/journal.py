# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: journal events in, commits with their phases out.

The phases follow fs/jbd2/commit.c: start_commit, locking (T_LOCKED: open handles
must end), flushing (T_FLUSH: ordered data), logging (T_COMMIT: log blocks and the
commit record), end_commit. A commit of XFS is the write of one log buffer
(iclog); it has a logging phase only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iostrata.columns import (
    AsOf,
    Containing,
    Ints,
    at,
    columns_of,
    integers,
    joined,
    one_of,
    order_of,
    pair_key,
)
from iostrata.stitch.spans import SpanList, Spans
from iostrata.trace import Trace


@dataclass(frozen=True, eq=False)
class Commits:
    """Journal commits that began and ended in the recording: one row each.

    ``tid``: the thread that commits, whose every bio is the commit's (-1: no thread
    of its own); ``waker``: the thread that wakes who waited; ``bio_key``: of the log
    write (XFS, else 0); ``writer``: the thread that is at it until it has queued that bio, at
    ``handed_ns`` (-1: none is known); ``device_key``: the file system's; ``identity``: what a
    waiter names (XFS: buffer and lsn, else 0); ``since_ns``: when its thread was let go to
    begin, else ``begin_ns``; ``flushing_ns``, ``logging_ns``:
    when that phase began, -1 where not seen. ``store``: 1: the log of an OSD's store, to which many
    transactions are written at once; it has no phases.
    """

    tid: Ints
    waker: Ints
    bio_key: Ints
    writer: Ints
    handed_ns: Ints
    identity: Ints
    device_key: Ints
    transaction: Ints
    since_ns: Ints
    begin_ns: Ints
    end_ns: Ints
    flushing_ns: Ints
    logging_ns: Ints
    store: Ints

    def __len__(self) -> int:
        return len(self.tid)

    def rows(self, rows: Ints) -> Commits:
        return Commits(**{name: column[rows] for name, column in vars(self).items()})


def commits_of(trace: Trace) -> Commits:
    """The commits of every journal that the trace knows."""
    kinds = (_of_jbd2(trace), _of_xfs(trace), _of_bluestore(trace))
    return Commits(**joined(kinds))


def commit_at(commits: Commits, tid: Ints, time_ns: Ints) -> Ints:
    """What each thread was committing at a time, -1: nothing."""
    return Containing(commits.tid, commits.since_ns, commits.end_ns).find(tid, time_ns)


def _of_jbd2(trace: Trace) -> Commits:
    """Pairs the points of each commit by journal and transaction id."""
    started = trace.points["jbd2_start_commit"]
    begin, transaction = integers(started["time_ns"]), integers(started["transaction"])
    identity = pair_key(integers(started["journal_key"]), transaction)

    def after(point: str) -> Ints:
        events = trace.points[point]
        times = integers(events["time_ns"])
        keys = pair_key(integers(events["journal_key"]), integers(events["transaction"]))
        return at(times, AsOf(keys, times).at_or_after(identity, begin))

    end = after("jbd2_end_commit")
    whole = np.flatnonzero(end >= 0)
    none = np.zeros(len(whole), np.int64)
    return Commits(
        tid=integers(started["tid"])[whole],
        waker=integers(started["tid"])[whole],
        bio_key=none,
        writer=none - 1,
        handed_ns=none - 1,
        identity=none,
        device_key=integers(started["dev"])[whole],
        transaction=transaction[whole],
        since_ns=begin[whole],
        begin_ns=begin[whole],
        end_ns=end[whole],
        flushing_ns=after("jbd2_commit_flushing")[whole],
        logging_ns=after("jbd2_commit_logging")[whole],
        store=none,
    )


def _of_xfs(trace: Trace) -> Commits:
    """Pairs the write of each log buffer with its end by buffer and lsn."""
    begun, done = (
        columns_of(trace.points[point], "tid", "iclog_key", "lsn", "bio_key", "dev")
        for point in ("xlog_iclog_sync", "xlog_iclog_sync_done")
    )
    identity = pair_key(begun["iclog_key"], begun["lsn"])
    found = AsOf(pair_key(done["iclog_key"], done["lsn"]), done["time_ns"]).at_or_after(
        identity, begun["time_ns"]
    )
    whole = np.flatnonzero(found >= 0)
    begin, last = begun["time_ns"][whole], found[whole]
    none = np.full(len(whole), -1)
    handed = _queued(trace, begun["bio_key"][whole], begin, done["time_ns"][last])
    return Commits(
        tid=none,
        waker=done["tid"][last],
        bio_key=begun["bio_key"][whole],
        writer=np.where(handed >= 0, begun["tid"][whole], -1),
        handed_ns=handed,
        identity=identity[whole],
        device_key=begun["dev"][whole],
        transaction=none,
        since_ns=begin,
        begin_ns=begin,
        end_ns=done["time_ns"][last],
        flushing_ns=begin,
        logging_ns=begin,
        store=np.zeros(len(whole), np.int64),
    )


def _queued(trace: Trace, bio_key: Ints, begin_ns: Ints, end_ns: Ints) -> Ints:
    """When each bio was queued behind a time, -1: not before another."""
    if not len(bio_key):
        return bio_key
    bios = columns_of(trace.points["block_bio_queue"], "bio_key")
    logs = np.flatnonzero(one_of(bios["bio_key"], bio_key))
    time = bios["time_ns"][logs]
    found = at(time, AsOf(bios["bio_key"][logs], time).at_or_after(bio_key, begin_ns))
    return np.where(found < end_ns, found, -1)


def _of_bluestore(trace: Trace) -> Commits:
    """Each time that the thread which writes the log had it durable, since the time before.

    Of the first, since it said what it would write. Other threads do so without saying.
    """
    synced = columns_of(trace.points["bluestore_synced"], "tid")
    told = columns_of(trace.points["bluestore_submit"], "tid")
    order = order_of(synced["tid"], synced["time_ns"])
    tid, end = synced["tid"][order], synced["time_ns"][order]
    same = np.append([False], tid[1:] == tid[:-1])[: len(tid)]
    before = np.where(same, np.append([0], end[:-1])[: len(tid)], 0)
    first = AsOf(told["tid"], told["time_ns"]).at_or_after(tid, before)
    said = at(told["time_ns"], first)
    rows = np.flatnonzero((first >= 0) & (said <= end))
    begin, none = np.where(same, before, said)[rows], np.zeros(len(rows), np.int64)
    return Commits(
        tid=tid[rows],
        waker=tid[rows],
        bio_key=none,
        writer=none - 1,
        handed_ns=none - 1,
        identity=none,
        device_key=none,
        transaction=none - 1,
        since_ns=begin,
        begin_ns=begin,
        end_ns=end[rows],
        flushing_ns=none - 1,
        logging_ns=none - 1,
        store=none + 1,
    )


def phases(commits: Commits) -> Spans:
    """The phases of each commit (``owner``, ``of``: its row); one not seen is in that before."""
    spans, activity = SpanList(), np.where(commits.store > 0, -1, np.arange(len(commits)))
    logging = np.where(commits.logging_ns >= 0, commits.logging_ns, commits.end_ns)
    flushing = np.where(commits.flushing_ns >= 0, commits.flushing_ns, logging)
    spans.add(activity, "journal.start", commits.since_ns, commits.begin_ns, activity)
    spans.add(activity, "journal.locking", commits.begin_ns, flushing, activity)
    spans.add(activity, "journal.flushing", flushing, logging, activity)
    spans.add(activity, "journal.logging", logging, commits.end_ns, activity)
    return spans.collect()
