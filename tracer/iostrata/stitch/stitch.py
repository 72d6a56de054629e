# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: one machine's events in, its synchronous writes and their spans out.

Everything hangs on *activities*: stretches of one thread's time that serve a
purpose (a piece of a write, a journal commit). Events belong to the activity of
their thread at their time; activities belong to writes by edges (a piece to its
own write, a commit to every write that waited for it).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.layers import RANK
from iostrata.stitch.blockio import spans_of_bios, windows
from iostrata.stitch.calls import Pieces, Units, units_of_calls
from iostrata.stitch.join import AsOf, Containing, Ints, integers, overlapping
from iostrata.stitch.journal import Commits, commits_of, phases
from iostrata.stitch.requests import Bios, Requests, bios_of, requests_of
from iostrata.stitch.spans import Edges, SpanList, Spans, follow
from iostrata.stitch.wakeup import Sleeps, interrupts, run_queue, sleeps_of
from iostrata.trace.read import Trace

TARGET: Final = 1  # enum thread_kind of bpf/events.h


@dataclass(frozen=True)
class Stitched:
    """Units with their spans (``spans.owner`` is the unit's row) and how they were tied."""

    units: Units
    spans: Spans
    plain_writes: int
    ties: Mapping[str, int]


@dataclass(frozen=True)
class Activities:
    """Stretches of a thread's time: pieces of units first, then commits."""

    tid: Ints
    begin_ns: Ints
    end_ns: Ints
    pieces: int

    @cached_property
    def _containing(self) -> Containing:
        return Containing(self.tid, self.begin_ns, self.end_ns)

    def find(self, tid: Ints, time_ns: Ints) -> Ints:
        """The activity of each thread at each time, -1: none."""
        return self._containing.find(tid, time_ns)


def stitch(trace: Trace) -> Stitched:
    """Ties one machine's events into synchronous writes."""
    units, pieces, plain_writes = units_of_calls(trace.points["syscall"])
    commits = commits_of(trace)
    activities = Activities(
        tid=np.concatenate([pieces.tid, commits.tid]),
        begin_ns=np.concatenate([pieces.begin_ns, commits.begin_ns]),
        end_ns=np.concatenate([pieces.end_ns, commits.end_ns]),
        pieces=len(pieces.tid),
    )
    requests = requests_of(trace)
    bios = bios_of(trace, requests)
    bio_owner = activities.find(bios.tid, bios.queue_ns)
    stacked, lower_of = _stacking(trace, bios)
    sleeps = sleeps_of(trace.points["sched_resume"])
    sleep_owner = activities.find(sleeps.tid, sleeps.on_ns)

    spans = SpanList()
    spans.extend(spans_of_bios(bios, requests, bio_owner, bio_owner >= activities.pieces, stacked))
    lower, lower_tied = _lower_devices(bios, requests, bio_owner, stacked, lower_of)
    spans.extend(lower)
    spans.extend(phases(commits, activities.pieces + np.arange(len(commits))))
    spans.extend(run_queue(sleeps, sleep_owner))
    committing = sleeps.rows(np.flatnonzero(sleep_owner >= activities.pieces))
    spans.extend(
        interrupts(committing, sleep_owner[sleep_owner >= activities.pieces], spans.collect())[0]
    )

    edges = _edges(trace, pieces, commits, activities, sleeps, sleep_owner)
    written = SpanList()
    written.extend(follow(spans.collect(), edges))
    _piece_spans(written, trace, pieces, activities)
    _journal_starts(written, edges, pieces, commits, activities, sleeps)

    in_piece = np.flatnonzero((sleep_owner >= 0) & (sleep_owner < activities.pieces))
    own = sleeps.rows(in_piece)
    unit = pieces.unit[sleep_owner[in_piece]] if len(in_piece) else in_piece
    asleep = np.where(own.asleep, unit, -1)
    written.add(asleep, "blocked", own.off_ns, own.wake_ns)
    loose = np.flatnonzero((bio_owner < 0) & bios.kernel_thread & ~lower_tied)
    timed, timed_bios = _tied_by_time(trace, units, own, asleep, bios, requests, loose)
    written.extend(timed)
    woken, ended = interrupts(own, unit, written.collect())
    written.extend(woken)
    threads = trace.points["thread"]
    targets = integers(threads["subject_tid"])[integers(threads["kind"]) == TARGET]
    by_peer = (ended < 0) & np.isin(own.waker, targets) & (own.waker != own.tid)
    written.add(np.where(by_peer, asleep, -1), "lock", own.off_ns, own.wake_ns)
    ties = {
        "key": int(np.count_nonzero(bio_owner >= 0)),
        "time": timed_bios + int(np.count_nonzero(lower_tied)),
    }
    return Stitched(units, written.collect(), plain_writes, ties)


def _piece_spans(written: SpanList, trace: Trace, pieces: Pieces, activities: Activities) -> None:
    """The floor of the stack: the calls themselves, the time between them, the sync inside them."""
    written.add(pieces.unit, "syscall", pieces.begin_ns, pieces.end_ns)
    order = np.lexsort((pieces.begin_ns, pieces.unit))
    unit, begin, end = pieces.unit[order], pieces.begin_ns[order], pieces.end_ns[order]
    same = np.where(unit[1:] == unit[:-1], unit[1:], -1)
    written.add(same, "outside", end[:-1], begin[1:])

    def unit_of(tid: Ints, time: Ints) -> tuple[Ints, Ints]:
        piece = activities.find(tid, time)
        piece = np.where(piece < activities.pieces, piece, -1)
        row = np.maximum(piece, 0)
        return (
            (np.where(piece >= 0, pieces.unit[row], -1), pieces.end_ns[row])
            if len(pieces.unit)
            else (piece, time)
        )

    synced = trace.points["ext4_sync_file"]
    unit, _ = unit_of(integers(synced["tid"]), integers(synced["time_ns"]))
    written.add(unit, "fs", integers(synced["enter_ns"]), integers(synced["time_ns"]))
    for point in ("xfs_file_fsync", "btrfs_sync_file"):
        entered = trace.points[point]
        begin = integers(entered["time_ns"])
        unit, end = unit_of(integers(entered["tid"]), begin)
        # No point at the file system's return: its sync ends with the call.
        written.add(unit, "fs", begin, end)


def _edges(
    trace: Trace,
    pieces: Pieces,
    commits: Commits,
    activities: Activities,
    sleeps: Sleeps,
    sleep_owner: Ints,
) -> Edges:
    """Pieces work for their own unit; commits for those that waited for them."""
    piece_rows = np.arange(activities.pieces)
    parts = [(piece_rows, pieces.unit, pieces.begin_ns, pieces.end_ns)]

    # By key: the transaction that the synced file waited for, and those before it.
    synced = trace.points["ext4_sync_file"]
    time, enter = integers(synced["time_ns"]), integers(synced["enter_ns"])
    device = integers(synced["dev"])
    piece = activities.find(integers(synced["tid"]), time)
    last_end = np.full(len(time), -1)
    for column in ("exit_transaction", "enter_transaction"):
        wanted = integers(synced[column])
        keys = device * (1 << 32) + wanted
        commit_keys = commits.device_key * (1 << 32) + commits.transaction
        found = AsOf(commit_keys, commits.begin_ns).at_or_before(keys, time)
        end = np.where(found >= 0, commits.end_ns[found], -1) if len(commits) else found
        waited = (wanted > 0) & (end > enter) & (end <= time)
        last_end = np.where((last_end < 0) & waited, end, last_end)
    waits = np.flatnonzero((last_end >= 0) & (piece >= 0) & (piece < activities.pieces))
    row, commit = overlapping(
        device[waits], enter[waits], last_end[waits] + 1,
        commits.device_key, commits.begin_ns, commits.end_ns,
    )  # fmt: skip
    waiting = waits[row]
    parts.append(
        (activities.pieces + commit, pieces.unit[piece[waiting]], enter[waiting], time[waiting])
    )

    # By key: the thread that woke a sleeper was committing a journal until then.
    committers = np.unique(commits.tid)
    woken = np.flatnonzero(
        (sleep_owner >= 0)
        & (sleep_owner < activities.pieces)
        & sleeps.asleep
        & np.isin(sleeps.waker, committers)
    )
    row, commit = overlapping(
        sleeps.waker[woken], sleeps.off_ns[woken], sleeps.wake_ns[woken],
        commits.tid, commits.begin_ns, commits.end_ns,
    )  # fmt: skip
    waiting = woken[row]
    parts.append(
        (
            activities.pieces + commit,
            pieces.unit[sleep_owner[waiting]] if len(waiting) else waiting,
            sleeps.off_ns[waiting],
            sleeps.wake_ns[waiting],
        )
    )
    return Edges(*(np.concatenate([part[n] for part in parts]) for n in range(4)))


def _journal_starts(
    written: SpanList,
    edges: Edges,
    pieces: Pieces,
    commits: Commits,
    activities: Activities,
    sleeps: Sleeps,
) -> None:
    """Asleep for a commit that has not begun yet: from falling asleep to its start."""
    rows = np.flatnonzero(edges.activity >= activities.pieces)
    if not len(rows) or not len(sleeps):
        return
    begin = commits.begin_ns[edges.activity[rows] - activities.pieces]
    # The unit's thread: that of any of its pieces.
    tid = np.zeros(int(pieces.unit.max()) + 1, np.int64)
    tid[pieces.unit] = pieces.tid
    sleep = Containing(sleeps.tid, sleeps.off_ns, sleeps.on_ns).find(tid[edges.write[rows]], begin)
    asleep = (sleep >= 0) & sleeps.asleep[sleep] & (sleeps.off_ns[sleep] >= edges.begin_ns[rows])
    written.add(
        np.where(asleep, edges.write[rows], -1), "journal.start", sleeps.off_ns[sleep], begin
    )


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
    begin, end = windows(bios, requests)
    flushed = np.where(bios.wants_flush, bios.queue_ns, begin)
    for device in stacked:
        above = np.flatnonzero((bios.device_key == device) & (owner >= 0) & (end >= 0))
        below = np.flatnonzero(
            np.isin(bios.device_key, lower_of[int(device)]) & (owner < 0) & bios.kernel_thread
        )
        one = np.zeros(len(above), np.int64), np.zeros(len(below), np.int64)
        row, other = overlapping(
            one[0], flushed[above], end[above],
            one[1], bios.queue_ns[below], bios.life_end_ns[below],
        )  # fmt: skip
        upper, lower = above[row], below[other]
        tied[lower] = True
        alone = spans_of_bios(
            bios_rows(bios, lower), requests, np.arange(len(lower)),
            np.zeros(len(lower), np.bool_), np.zeros(0, np.int64),
        )  # fmt: skip
        at = upper[alone.owner]
        deep = alone.rank >= RANK["device.flush"]
        spans.add(
            owner[at],
            np.where(deep, alone.rank, RANK["lower.queue"]).astype(np.int8),
            np.maximum(alone.begin_ns, flushed[at]),
            np.minimum(alone.end_ns, end[at]),
        )
    return spans.collect(), tied


def bios_rows(bios: Bios, rows: Ints) -> Bios:
    """Some of the bios, in the order of ``rows``."""
    return Bios(**{name: column[rows] for name, column in vars(bios).items()})


_TIMED = {
    RANK["device.data"]: RANK["timed.data"],
    RANK["device.journal"]: RANK["timed.journal"],
    RANK["device.flush"]: RANK["timed.flush"],
}


def _tied_by_time(
    trace: Trace,
    units: Units,
    sleeps: Sleeps,
    asleep: Ints,
    bios: Bios,
    requests: Requests,
    loose: Ints,
) -> tuple[Spans, int]:
    """Kernel threads' bios that no key ties, while a write slept on the same disk.

    They rank below everything tied by a key: they only claim time that would
    otherwise be unattributed.
    """
    spans = SpanList()
    rows = np.flatnonzero(asleep >= 0)
    keys, place = np.unique(units.device_key, return_inverse=True)
    disks = np.array([trace.facts.disk_of(int(key)) for key in keys], np.int64)[place]
    row, other = overlapping(
        disks[asleep[rows]], sleeps.off_ns[rows], sleeps.wake_ns[rows],
        bios.device_key[loose], bios.queue_ns[loose], bios.life_end_ns[loose],
    )  # fmt: skip
    sleep, bio = rows[row], loose[other]
    alone = spans_of_bios(
        bios_rows(bios, bio), requests, np.arange(len(bio)),
        np.zeros(len(bio), np.bool_), np.zeros(0, np.int64),
    )  # fmt: skip
    rank = np.full(len(alone), RANK["timed.queue"], np.int8)
    for keyed, timed in _TIMED.items():
        rank[alone.rank == keyed] = timed
    at = sleep[alone.owner]
    spans.add(
        asleep[at],
        rank,
        np.maximum(alone.begin_ns, sleeps.off_ns[at]),
        np.minimum(alone.end_ns, sleeps.wake_ns[at]),
    )
    return spans.collect(), len(np.unique(bio))
