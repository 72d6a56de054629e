# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: a window of one machine's events in, the spans of its pieces out.

Everything hangs on *activities*: stretches of one thread's time that serve a
purpose (a piece of a write, a worker's share of one, a journal commit). Events
belong to the activity of their thread at their time; activities belong to pieces
by edges: a piece to itself, a commit to every piece that waited for it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.layers import RANK
from iostrata.stitch.blockio import spans_of_bios, windows_of
from iostrata.stitch.join import AsOf, Containing, Ints, at, integers, overlapping
from iostrata.stitch.journal import phases
from iostrata.stitch.requests import Bios, Requests, bios_of, requests_of
from iostrata.stitch.spans import Edges, SpanList, Spans, follow
from iostrata.stitch.wakeup import Sleeps, interrupts, run_queue, sleeps_of
from iostrata.stitch.window import Window
from iostrata.trace.read import Trace

TARGET: Final = 1  # enum thread_kind of bpf/events.h


@dataclass(frozen=True)
class Stitched:
    """Spans by the window's pieces (``owner`` is the row), and how requests were tied."""

    spans: Spans
    ties: Counter[str]


def stitch(window: Window) -> Stitched:
    """Ties the events of a window to the pieces of its writes."""
    pieces, commits = window.pieces, window.commits
    own = Containing(pieces.tid, pieces.begin_ns, pieces.end_ns)
    committing = Containing(commits.tid, commits.begin_ns, commits.end_ns)

    requests, completed = requests_of(window)
    bios = bios_of(window, requests, completed)
    piece_of_bio = own.find(bios.tid, bios.queue_ns)
    commit_of_bio = committing.find(bios.tid, bios.queue_ns)
    stacked, lower_of = _stacking(window.trace, bios)
    sleeps = sleeps_of(window)
    piece_of_sleep = own.find(sleeps.tid, sleeps.on_ns)

    spans = SpanList()
    _calls(spans, window, own)
    plain = np.zeros(len(bios), np.bool_)
    spans.extend(spans_of_bios(bios, requests, piece_of_bio, plain, stacked))
    spans.extend(run_queue(sleeps, piece_of_sleep))
    lower, tied_below = _lower_devices(bios, requests, piece_of_bio, stacked, lower_of)
    spans.extend(lower)

    edges = _edges(window, own, sleeps, piece_of_sleep)
    if len(commits):
        spans.extend(
            follow(_commit_spans(window, bios, requests, commit_of_bio, stacked, sleeps), edges)
        )
        _journal_starts(spans, window, edges, sleeps)

    mine = np.flatnonzero(piece_of_sleep >= 0)
    sleeps, owner = sleeps.rows(mine), piece_of_sleep[mine]
    asleep = np.where(sleeps.asleep, owner, -1)
    spans.add(asleep, "blocked", sleeps.off_ns, sleeps.wake_ns)
    keyed = (piece_of_bio >= 0) | (commit_of_bio >= 0)
    loose = np.flatnonzero(~keyed & bios.kernel_thread & ~tied_below)
    by_time = _tied_by_time(spans, window, sleeps, asleep, bios, requests, loose)
    woken, ended = interrupts(sleeps, owner, spans.collect())
    spans.extend(woken)
    by_peer = (ended < 0) & np.isin(sleeps.waker, _targets(window.trace))
    by_peer &= sleeps.waker != sleeps.tid
    spans.add(np.where(by_peer, asleep, -1), "lock", sleeps.off_ns, sleeps.wake_ns)
    ties = Counter(
        key=int(np.count_nonzero(keyed)), time=by_time + int(np.count_nonzero(tied_below))
    )
    return Stitched(spans.collect(), ties)


def _targets(trace: Trace) -> Ints:
    threads = trace.points["thread"]
    return integers(threads["subject_tid"])[integers(threads["kind"]) == TARGET]


def _calls(spans: SpanList, window: Window, own: Containing) -> None:
    """The floor of the stack: the calls themselves, and the file system's sync inside them."""
    pieces = window.pieces
    spans.add(np.arange(len(pieces)), "syscall", pieces.begin_ns, pieces.end_ns)
    synced = window.columns("ext4_sync_file", "tid", "enter_ns")
    piece = own.find(synced["tid"], synced["time_ns"])
    spans.add(piece, "fs", synced["enter_ns"], synced["time_ns"])
    for point in ("xfs_file_fsync", "btrfs_sync_file"):
        entered = window.columns(point, "tid")
        piece = own.find(entered["tid"], entered["time_ns"])
        # No point at the file system's return: its sync ends with the call.
        spans.add(piece, "fs", entered["time_ns"], at(pieces.end_ns, piece))


def _commit_spans(
    window: Window,
    bios: Bios,
    requests: Requests,
    commit_of_bio: Ints,
    stacked: Ints,
    sleeps: Sleeps,
) -> Spans:
    """What went on inside each commit; ``owner`` is the commit's row."""
    commits = window.commits
    spans = SpanList()
    spans.extend(phases(commits))
    journal = np.ones(len(bios), np.bool_)
    spans.extend(spans_of_bios(bios, requests, commit_of_bio, journal, stacked))
    owner = Containing(commits.tid, commits.begin_ns, commits.end_ns).find(sleeps.tid, sleeps.on_ns)
    spans.extend(run_queue(sleeps, owner))
    spans.extend(interrupts(sleeps, owner, spans.collect())[0])
    return spans.collect()


def _edges(window: Window, own: Containing, sleeps: Sleeps, piece_of_sleep: Ints) -> Edges:
    """Which pieces waited for which commits, and when."""
    commits = window.commits
    # By key: the transaction that the synced file waited for, and those before it.
    synced = window.columns(
        "ext4_sync_file", "tid", "enter_ns", "dev", "enter_transaction", "exit_transaction"
    )
    time, enter, device = synced["time_ns"], synced["enter_ns"], synced["dev"]
    piece = own.find(synced["tid"], time)
    by_transaction = AsOf(commits.device_key * (1 << 32) + commits.transaction, commits.begin_ns)
    waited_until = np.full(len(time), -1)
    for column in ("exit_transaction", "enter_transaction"):
        found = by_transaction.at_or_before(device * (1 << 32) + synced[column], time)
        end = at(commits.end_ns, found)
        waited = (synced[column] > 0) & (end > enter) & (end <= time) & (waited_until < 0)
        waited_until = np.where(waited, end, waited_until)
    waits = np.flatnonzero((waited_until >= 0) & (piece >= 0))
    row, commit = overlapping(
        device[waits], enter[waits], waited_until[waits] + 1,
        commits.device_key, commits.begin_ns, commits.end_ns,
    )  # fmt: skip
    sync = waits[row]

    # By key: the thread that woke a sleeper was committing a journal until then.
    woken = np.flatnonzero(
        (piece_of_sleep >= 0) & sleeps.asleep & np.isin(sleeps.waker, commits.tid)
    )
    row, other = overlapping(
        sleeps.waker[woken], sleeps.off_ns[woken], sleeps.wake_ns[woken],
        commits.tid, commits.begin_ns, commits.end_ns,
    )  # fmt: skip
    sleep = woken[row]
    return Edges(
        activity=np.concatenate([commit, other]),
        write=np.concatenate([piece[sync], piece_of_sleep[sleep]]),
        begin_ns=np.concatenate([enter[sync], sleeps.off_ns[sleep]]),
        end_ns=np.concatenate([time[sync], sleeps.wake_ns[sleep]]),
    )


def _journal_starts(spans: SpanList, window: Window, edges: Edges, sleeps: Sleeps) -> None:
    """Asleep for a commit that has not begun yet: from falling asleep to its start."""
    begin = window.commits.begin_ns[edges.activity]
    tid = window.pieces.tid[edges.write]
    sleep = Containing(sleeps.tid, sleeps.off_ns, sleeps.on_ns).find(tid, begin)
    off = at(sleeps.off_ns, sleep)
    asleep = (at(sleeps.wake_ns, sleep) > 0) & (off >= edges.begin_ns)
    spans.add(np.where(asleep, edges.write, -1), "journal.start", off, begin)


def _stacking(trace: Trace, bios: Bios) -> tuple[Ints, dict[int, Ints]]:
    """Devices that pass requests on, and the recorded devices below each of them."""
    seen = set(np.unique(bios.device_key).tolist())
    lower_of: dict[int, Ints] = {}
    for block in trace.facts.blocks.values():
        below = {trace.facts.disk_of(key) for key in block.lower_keys} & seen
        if below and block.device_key in seen:
            lower_of[block.device_key] = np.array(sorted(below))
    return np.array(sorted(lower_of), np.int64), lower_of


def _lower_devices(
    bios: Bios, requests: Requests, owner: Ints, stacked: Ints, lower_of: dict[int, Ints]
) -> tuple[Spans, NDArray[np.bool_]]:
    """Bios that kernel threads queued below a stacked device while it had a bio of ours.

    Nothing but time ties them (a loop device's worker writes a file), but the time is
    that of the one request above, not of the whole write.
    """
    spans, tied = SpanList(), np.zeros(len(bios), np.bool_)
    begin, end = windows_of(bios, requests)
    for device in stacked:
        above = np.flatnonzero((bios.device_key == device) & (owner >= 0) & (end >= 0))
        below = np.flatnonzero(
            np.isin(bios.device_key, lower_of[int(device)]) & (owner < 0) & bios.kernel_thread
        )
        row, other = overlapping(
            np.zeros(len(above), np.int64), begin[above], end[above],
            np.zeros(len(below), np.int64), bios.queue_ns[below], bios.life_end_ns[below],
        )  # fmt: skip
        upper, lower = above[row], below[other]
        tied[lower] = True
        alone = _one_by_one(bios, lower, requests)
        at_upper = upper[alone.owner]
        deep = alone.rank >= RANK["device.flush"]
        spans.add(
            owner[at_upper],
            np.where(deep, alone.rank, RANK["lower.queue"]).astype(np.int8),
            np.maximum(alone.begin_ns, begin[at_upper]),
            np.minimum(alone.end_ns, end[at_upper]),
        )
    return spans.collect(), tied


_TIMED: Final = {
    RANK["device.data"]: RANK["timed.data"],
    RANK["device.journal"]: RANK["timed.journal"],
    RANK["device.flush"]: RANK["timed.flush"],
}


def _tied_by_time(
    spans: SpanList,
    window: Window,
    sleeps: Sleeps,
    asleep: Ints,
    bios: Bios,
    requests: Requests,
    loose: Ints,
) -> int:
    """Kernel threads' bios that no key ties, while a write slept on the same disk.

    They rank below everything tied by a key: they only claim time that would
    otherwise be unattributed. Returns how many bios that were.
    """
    rows = np.flatnonzero(asleep >= 0)
    keys, place = np.unique(window.pieces.device_key, return_inverse=True)
    disks = np.array([window.trace.facts.disk_of(int(key)) for key in keys], np.int64)[place]
    row, other = overlapping(
        disks[asleep[rows]], sleeps.off_ns[rows], sleeps.wake_ns[rows],
        bios.device_key[loose], bios.queue_ns[loose], bios.life_end_ns[loose],
    )  # fmt: skip
    sleep, bio = rows[row], loose[other]
    alone = _one_by_one(bios, bio, requests)
    rank = np.full(len(alone), RANK["timed.queue"], np.int8)
    for keyed, timed in _TIMED.items():
        rank[alone.rank == keyed] = timed
    at_sleep = sleep[alone.owner]
    spans.add(
        asleep[at_sleep],
        rank,
        np.maximum(alone.begin_ns, sleeps.off_ns[at_sleep]),
        np.minimum(alone.end_ns, sleeps.wake_ns[at_sleep]),
    )
    return len(np.unique(bio))


def _one_by_one(bios: Bios, rows: Ints, requests: Requests) -> Spans:
    """Spans of some bios; ``owner`` is the position in ``rows``."""
    none = np.zeros(len(rows), np.bool_)
    return spans_of_bios(
        bios.rows(rows), requests, np.arange(len(rows)), none, np.zeros(0, np.int64)
    )
