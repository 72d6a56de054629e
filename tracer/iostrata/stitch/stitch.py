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

from iostrata.columns import AsOf, Containing, Ints, at, integers, joined, overlapping, pair_key
from iostrata.layers import RANK
from iostrata.stitch.audit import Audit, activities_of, audit
from iostrata.stitch.blockio import one_by_one, spans_of_bios
from iostrata.stitch.journal import phases
from iostrata.stitch.owners import Owners, Syncs
from iostrata.stitch.requests import Bios, Requests, bios_of, requests_of
from iostrata.stitch.rpc import calls_of, owners_of_calls, spans_of_calls
from iostrata.stitch.spans import Edges, SpanList, Spans, follow
from iostrata.stitch.stacked import Below, stacking
from iostrata.stitch.stages import stages_of
from iostrata.stitch.wakeup import CAUSE, Sleeps, interrupts, run_queue, sleeps_of
from iostrata.stitch.window import Columns, Window
from iostrata.trace.layout import THREAD_TARGET, THREAD_WORKER
from iostrata.trace.read import Trace

# A waker that completed a request this long before did other things in between.
COMPLETION_NS: Final = 50_000


@dataclass(frozen=True)
class Asked:
    """What the window's spans may have asked of a device or of another machine.

    ``key`` and ``begin_ns`` together tell one from all others of the trace: the
    request's pointer and its issue, the call's pointer and when it was sent.
    """

    key: Ints
    begin_ns: Ints


@dataclass(frozen=True)
class Stitched:
    """Spans by the window's pieces (``owner`` is the row), and how requests were tied.

    ``asked``: what ``spans.of`` are rows of. ``audit``: what else went on meanwhile.
    """

    spans: Spans
    asked: Asked
    ties: Counter[str]
    audit: Audit


def stitch(window: Window) -> Stitched:
    """Ties the events of a window to the pieces of its writes."""
    owners = Owners(window)
    requests, completed = requests_of(window)
    bios = bios_of(window, requests, completed)
    piece_of_bio = owners.find(bios.tid, bios.queue_ns)
    commit_of_bio = _commit_of_bio(window, bios)
    stacked, lower_of = stacking(window.trace.facts, bios.device_key)
    sleeps = sleeps_of(window)
    piece_of_sleep = owners.find(sleeps.tid, sleeps.on_ns)

    spans = SpanList()
    _calls(spans, window, owners.syncs)
    journal = commit_of_bio >= 0
    spans.extend(spans_of_bios(bios, requests, piece_of_bio, journal, stacked))
    calls = calls_of(window)
    spans.extend(spans_of_calls(calls, owners_of_calls(calls, owners), len(requests.key)))
    spans.extend(run_queue(sleeps, piece_of_sleep))
    keyed = (piece_of_bio >= 0) | (commit_of_bio >= 0)
    below = Below(bios, requests, ~keyed & bios.kernel_thread, journal, lower_of)
    spans.extend(below.spans_of(piece_of_bio))
    commits_used = np.zeros(0, np.int64)
    if len(window.commits):
        commit_of_completion = _commit_of_completion(completed, bios, commit_of_bio)
        edges = _edges(window, owners, sleeps, piece_of_sleep, completed, commit_of_completion)
        inside = SpanList()
        inside.extend(_commit_spans(window, bios, requests, commit_of_bio, stacked, sleeps))
        inside.extend(below.spans_of(commit_of_bio))
        spans.extend(follow(inside.collect(), edges))
        commits_used = edges.activity
        _journal_starts(spans, window, edges, sleeps)

    mine = np.flatnonzero(piece_of_sleep >= 0)
    sleeps, owner = sleeps.rows(mine), piece_of_sleep[mine]
    asleep = np.where(sleeps.asleep, owner, -1)
    spans.add(asleep, "blocked", sleeps.off_ns, sleeps.wake_ns)
    loose = np.flatnonzero(~keyed & bios.kernel_thread & ~below.tied)
    by_time = _tied_by_time(spans, window, sleeps, asleep, bios, requests, loose)
    woken, ended = interrupts(sleeps, owner, spans.collect())
    spans.extend(woken)
    for_log = _asleep_for_log(window, owners.syncs, sleeps, owner)
    spans.add(np.where((ended < 0) & for_log, asleep, -1), "journal.start",
              sleeps.off_ns, sleeps.wake_ns)  # fmt: skip
    by_peer = (ended < 0) & np.isin(sleeps.waker, _peers(window.trace))
    by_peer &= sleeps.waker != sleeps.tid
    spans.add(np.where(by_peer, asleep, -1), "lock", sleeps.off_ns, sleeps.wake_ns)
    _handovers(spans, window, owners.syncs)
    ties = Counter(
        key=int(np.count_nonzero(keyed)), time=by_time + int(np.count_nonzero(below.tied))
    )
    asked = Asked(
        np.concatenate([requests.key, calls.key]),
        np.concatenate([requests.issue_ns, calls.send_ns]),
    )
    spans.extend(stages_of(window, requests, spans.collect()))
    found = spans.collect()
    went_on = activities_of(window, bios, requests, commit_of_bio, calls, commits_used, found)
    return Stitched(found, asked, ties, audit(window, sleeps, owner, went_on, found))


def _peers(trace: Trace) -> Ints:
    """The workload's threads, and those of io_uring that work for them."""
    threads = trace.points["thread"]
    kind = integers(threads["kind"])
    peers: Ints = integers(threads["subject_tid"])[np.isin(kind, (THREAD_TARGET, THREAD_WORKER))]
    return peers


def _calls(spans: SpanList, window: Window, syncs: Syncs) -> None:
    """The floor of the stack: the calls themselves, and the file system's sync inside them.

    An asynchronous request has no floor: what no layer claims of it is unattributed.
    """
    pieces = window.pieces
    calls = np.flatnonzero(pieces.request_key == 0)
    spans.add(calls, window.floor, pieces.begin_ns[calls], pieces.end_ns[calls])
    spans.add(syncs.piece, "fs", syncs.begin_ns, syncs.end_ns)
    requests = np.flatnonzero(pieces.request_key != 0)
    if len(requests):
        # What the submitter itself did for the request before it was on its way.
        begin = pieces.begin_ns[requests]
        for point, key, start in (
            ("aio_submit", "iocb_key", "enter_ns"),
            ("io_uring_submit_req", "request_key", "time_ns"),
        ):
            submitted = window.columns(point, *{key, start} - {"time_ns"})
            found = AsOf(submitted[key], submitted[start]).at_or_after(
                pieces.request_key[requests], begin
            )
            until = np.minimum(at(submitted["time_ns"], found), pieces.end_ns[requests])
            spans.add(requests, "syscall", begin, until)


def _commit_of_bio(window: Window, bios: Bios) -> Ints:
    """By the committing thread, or by the log write's own bio."""
    commits = window.commits
    by_thread = Containing(commits.tid, commits.begin_ns, commits.end_ns)
    commit = by_thread.find(bios.tid, bios.queue_ns)
    logs = np.flatnonzero(commits.bio_key != 0)
    by_key = AsOf(commits.bio_key[logs], commits.begin_ns[logs])
    log = at(logs, by_key.at_or_before(bios.key, bios.queue_ns))
    return np.where(at(commits.end_ns, log) >= bios.queue_ns, log, commit)


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
    # Ordered mode writes data before the log, with neither the flag nor the name of a journal.
    journal = bios.meta | bios.wants_flush
    spans.extend(spans_of_bios(bios, requests, commit_of_bio, journal, stacked))
    owner = Containing(commits.tid, commits.begin_ns, commits.end_ns).find(sleeps.tid, sleeps.on_ns)
    spans.extend(run_queue(sleeps, owner))
    spans.extend(interrupts(sleeps, owner, spans.collect())[0])
    return spans.collect()


def _edges(
    window: Window,
    owners: Owners,
    sleeps: Sleeps,
    piece_of_sleep: Ints,
    completed: Columns,
    commit_of_completion: Ints,
) -> Edges:
    """Which pieces waited for which commits, and when."""
    parts = (
        _by_transaction(window, owners.syncs),
        _by_log_write(window, owners),
        _by_waker(window, sleeps, piece_of_sleep),
        _by_completion(sleeps, piece_of_sleep, completed, commit_of_completion),
    )
    return Edges(**joined(parts))


def _by_transaction(window: Window, syncs: Syncs) -> Edges:
    """By key: the jbd2 transaction that the synced file waited for, and those before it."""
    commits = window.commits
    by_transaction = AsOf(commits.device_key * (1 << 32) + commits.transaction, commits.begin_ns)
    waited_until = np.full(len(syncs.tid), -1)
    for wanted in (syncs.exit_transaction, syncs.enter_transaction):
        found = by_transaction.at_or_before(syncs.device_key * (1 << 32) + wanted, syncs.end_ns)
        end = at(commits.end_ns, found)
        waited = (wanted > 0) & (end > syncs.begin_ns) & (end <= syncs.end_ns)
        waited_until = np.where(waited & (waited_until < 0), end, waited_until)
    waits = np.flatnonzero((waited_until >= 0) & (syncs.piece >= 0))
    row, commit = overlapping(
        syncs.device_key[waits], syncs.begin_ns[waits], waited_until[waits] + 1,
        commits.device_key, commits.begin_ns, commits.end_ns,
    )  # fmt: skip
    sync = waits[row]
    return Edges(commit, syncs.piece[sync], syncs.begin_ns[sync], syncs.end_ns[sync])


def _by_log_write(window: Window, owners: Owners) -> Edges:
    """By key: the log buffer of XFS that the thread says it waits for."""
    commits, pieces = window.commits, window.pieces
    waits = window.columns("xlog_iclog_wait_on", "tid", "iclog_key", "lsn")
    identity = pair_key(waits["iclog_key"], waits["lsn"])
    logs = np.flatnonzero(commits.identity != 0)
    by_identity = AsOf(commits.identity[logs], commits.end_ns[logs])
    commit = at(logs, by_identity.at_or_after(identity, waits["time_ns"]))
    piece = owners.find(waits["tid"], waits["time_ns"])
    rows = np.flatnonzero((commit >= 0) & (piece >= 0))
    commit, piece = commit[rows], piece[rows]
    return Edges(commit, piece, waits["time_ns"][rows], pieces.end_ns[piece])


def _by_waker(window: Window, sleeps: Sleeps, piece_of_sleep: Ints) -> Edges:
    """By key: the thread that woke a sleeper was committing a journal until then."""
    commits = window.commits
    woken = np.flatnonzero(
        (piece_of_sleep >= 0) & sleeps.asleep & np.isin(sleeps.waker, commits.waker)
    )
    row, commit = overlapping(
        sleeps.waker[woken], sleeps.off_ns[woken], sleeps.wake_ns[woken],
        commits.waker, commits.begin_ns, commits.end_ns,
    )  # fmt: skip
    sleep = woken[row]
    return Edges(commit, piece_of_sleep[sleep], sleeps.off_ns[sleep], sleeps.wake_ns[sleep])


def _commit_of_completion(completed: Columns, bios: Bios, commit_of_bio: Ints) -> Ints:
    """The commit whose bio each completion is of, -1: of none."""
    by_bio = AsOf(bios.key, bios.queue_ns)
    return at(commit_of_bio, by_bio.at_or_before(completed["bio_key"], completed["time_ns"]))


def _by_completion(
    sleeps: Sleeps, piece_of_sleep: Ints, completed: Columns, commit_of_completion: Ints
) -> Edges:
    """By thread and time: who woke the sleeper had just completed a request of the commit.

    So ends the wait for a block that the log is being written from (BH_Shadow of
    fs/jbd2/transaction.c), which nothing else tells of.
    """
    woken = np.flatnonzero((piece_of_sleep >= 0) & sleeps.asleep)
    wake = sleeps.wake_ns[woken]
    done = AsOf(completed["tid"], completed["time_ns"])
    last = done.at_or_before(sleeps.waker[woken], wake)
    soon = wake - at(completed["time_ns"], last) <= COMPLETION_NS
    commit = np.where(soon, at(commit_of_completion, last), -1)
    rows = np.flatnonzero(commit >= 0)
    sleep = woken[rows]
    return Edges(commit[rows], piece_of_sleep[sleep], sleeps.off_ns[sleep], sleeps.wake_ns[sleep])


def _journal_starts(spans: SpanList, window: Window, edges: Edges, sleeps: Sleeps) -> None:
    """Asleep for a commit that has not begun yet: from falling asleep to its start."""
    begin = window.commits.begin_ns[edges.activity]
    tid = window.pieces.tid[edges.write]
    sleep = Containing(sleeps.tid, sleeps.off_ns, sleeps.on_ns).find(tid, begin)
    off = at(sleeps.off_ns, sleep)
    asleep = (at(sleeps.wake_ns, sleep) > 0) & (off >= edges.begin_ns)
    spans.add(np.where(asleep, edges.write, -1), "journal.start", off, begin)


def _asleep_for_log(window: Window, syncs: Syncs, sleeps: Sleeps, owner: Ints) -> NDArray[np.bool_]:
    """Sleeps inside a sync of XFS before its thread wrote or awaited a log buffer.

    The kernel has no point where a thread waits for the push of the committed
    item list, but nothing else stands between the sync and the log write.
    """
    logged = [window.columns(p, "tid") for p in ("xlog_iclog_sync", "xlog_iclog_wait_on")]
    tid = np.concatenate([columns["tid"] for columns in logged])
    time = np.concatenate([columns["time_ns"] for columns in logged])
    if not len(tid):
        return np.zeros(len(owner), np.bool_)
    following = at(time, AsOf(tid, time).at_or_after(sleeps.tid, sleeps.on_ns))
    inside = Containing(syncs.tid, syncs.begin_ns, syncs.end_ns).find(sleeps.tid, sleeps.off_ns)
    same = (inside >= 0) & (at(syncs.piece, inside) == owner)
    before: NDArray[np.bool_] = same & (following >= 0) & (following <= at(syncs.end_ns, inside))
    return before


def _handovers(spans: SpanList, window: Window, syncs: Syncs) -> None:
    """Asynchronous requests: until a worker began, and until the caller had the result."""
    pieces = window.pieces
    requests = np.flatnonzero(pieces.request_key != 0)
    if not len(requests):
        return
    collected = spans.collect()
    cause = collected.where(CAUSE[collected.rank] | (collected.rank == RANK["fs"]))
    ends = AsOf(cause.owner, cause.end_ns)
    work = np.flatnonzero(syncs.worker >= 0)
    begin = syncs.begin_ns[work]
    before = at(cause.end_ns, ends.at_or_before(syncs.worker[work], begin))
    since = np.maximum(before, pieces.begin_ns[syncs.worker[work]])
    spans.add(syncs.worker[work], "wakeup.worker", since, begin)
    end = pieces.end_ns[requests]
    last = at(cause.end_ns, ends.at_or_before(requests, end))
    spans.add(np.where(last >= 0, requests, -1), "wakeup.reap", last, end)


_TIMED: Final = {
    RANK["device.data"]: RANK["timed.data"],
    RANK["device.meta"]: RANK["timed.meta"],
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
    alone = one_by_one(bios, bio, requests)
    rank = np.full(len(alone), RANK["timed.queue"], np.int16)
    for keyed, timed in _TIMED.items():
        rank[alone.rank == keyed] = timed
    at_sleep = sleep[alone.owner]
    spans.add(
        asleep[at_sleep],
        rank,
        np.maximum(alone.begin_ns, sleeps.off_ns[at_sleep]),
        np.minimum(alone.end_ns, sleeps.wake_ns[at_sleep]),
        alone.of,
    )
    return len(np.unique(bio))
