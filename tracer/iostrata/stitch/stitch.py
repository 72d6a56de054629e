# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: a window of one machine's events in, the spans of its pieces out.

Everything hangs on *activities*: stretches of one thread's time that serve a
purpose (a piece of a write, a worker's share of one, a journal commit, what is below a
request on a loop device). Events belong to the activity of their thread at their time;
activities belong to pieces by edges: a piece to itself, a commit to every piece that
waited for it, a request to whoever's bios it carried. A commit can be waited for below a
loop device, too, so that edges lead from activity to activity. All are numbered as one:
pieces first, then commits, then requests.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Containing, Ints, at, integers, joined, overlapping, pair_key
from iostrata.layers import RANK
from iostrata.stitch.audit import Audit, activities_of, audit
from iostrata.stitch.bios import DEPTH, Bios, Carried, bios_of, roots
from iostrata.stitch.blockio import spans_of_bios
from iostrata.stitch.journal import phases
from iostrata.stitch.owners import Owners, Syncs
from iostrata.stitch.requests import Requests, requests_of
from iostrata.stitch.rpc import calls_of, owners_of_calls, spans_of_calls
from iostrata.stitch.spans import Edges, SpanList, Spans, follow
from iostrata.stitch.stacked import Stack, Workers, seen_from_above, workers_of
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
    bios, carried = bios_of(window, requests, completed)
    workers = workers_of(owners.syncs, requests, window.trace.facts)
    root = roots(bios.parent)
    piece_of_bio = owners.find(bios.tid, bios.begin_ns)[root]
    commit_of_bio = _commit_of_bio(window, bios)[root]
    keyed = (piece_of_bio >= 0) | (commit_of_bio >= 0)
    stack = Stack(bios, requests, workers, keyed, window.trace.facts)
    bios, root = stack.bios, stack.root
    piece_of_bio, commit_of_bio = piece_of_bio[root], commit_of_bio[root]
    sleeps = sleeps_of(window)
    piece_of_sleep = owners.find(sleeps.tid, sleeps.on_ns)

    spans = SpanList()
    _calls(spans, window, owners.syncs)
    journal = commit_of_bio >= 0
    spans.extend(spans_of_bios(bios, requests, carried, piece_of_bio, journal, stack.stacked))
    calls = calls_of(window)
    spans.extend(spans_of_calls(calls, owners_of_calls(calls, owners), len(requests.key)))
    spans.extend(run_queue(sleeps, piece_of_sleep))
    commits_used = np.zeros(0, np.int64)
    first_commit = len(window.pieces.begin_ns)
    first_request = first_commit + len(window.commits)
    of_request = _numbered(bios.above[root], first_request)
    activity_of_bio = np.where(commit_of_bio >= 0, commit_of_bio + first_commit, of_request)
    if (activity_of_bio >= 0).any() or len(window.commits):
        commit_of_completion = _commit_of_completion(completed, bios, commit_of_bio)
        waiting = Waiting(window, owners, workers, requests, sleeps, piece_of_sleep)
        edges = _edges(window, owners, waiting, sleeps, completed, commit_of_completion)
        commits_used = edges.activity - first_commit
        _journal_starts(spans, window, edges, sleeps)
        inside = _activity_spans(
            window, bios, requests, carried, activity_of_bio, stack, sleeps, waiting
        )
        # A bio can be both: XFS's log is written by who syncs.
        above, kinds = stack.edges(
            requests, carried, (piece_of_bio, activity_of_bio), journal, first_request
        )
        spans.extend(_up(inside, edges, above, kinds, first_commit))

    mine = np.flatnonzero(piece_of_sleep >= 0)
    sleeps, owner = sleeps.rows(mine), piece_of_sleep[mine]
    asleep = np.where(sleeps.asleep, owner, -1)
    spans.add(asleep, "blocked", sleeps.off_ns, sleeps.wake_ns)
    loose = ~keyed[root] & bios.kernel_thread & (bios.above[root] < 0)
    by_time = _tied_by_waker(
        spans, window, sleeps, asleep, bios, requests, carried, completed, loose, stack.stacked
    )
    woken, ended = interrupts(sleeps, owner, spans.collect())
    spans.extend(woken)
    for_log = _asleep_for_log(window, owners.syncs, sleeps, owner)
    spans.add(np.where((ended < 0) & for_log, asleep, -1), "journal.start",
              sleeps.off_ns, sleeps.wake_ns)  # fmt: skip
    by_peer = (ended < 0) & np.isin(sleeps.waker, _peers(window.trace))
    by_peer &= sleeps.waker != sleeps.tid
    spans.add(np.where(by_peer, asleep, -1), "lock", sleeps.off_ns, sleeps.wake_ns)
    _handovers(spans, window, owners.syncs)
    tied = (piece_of_bio >= 0) | (activity_of_bio >= 0)
    ties = Counter(key=int(np.count_nonzero(tied)) - stack.by_time, time=by_time + stack.by_time)
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


def _numbered(rows: Ints, first: int) -> Ints:
    """Rows as numbers from ``first`` on; -1 stays."""
    return np.where(rows >= 0, rows + first, -1)


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
        request = self._workers.request_of(tid, time_ns)
        return np.where(piece >= 0, piece, _numbered(request, self._first))


def _activity_spans(
    window: Window,
    bios: Bios,
    requests: Requests,
    carried: Carried,
    activity_of_bio: Ints,
    stack: Stack,
    sleeps: Sleeps,
    waiting: Waiting,
) -> Spans:
    """What went on inside each commit and below each request; ``owner`` is its number."""
    commits, first_commit = window.commits, len(window.pieces.begin_ns)
    in_commit = (activity_of_bio >= 0) & (activity_of_bio < first_commit + len(commits))
    spans, ran = SpanList(), phases(commits)
    spans.add(ran.owner + first_commit, ran.rank, ran.begin_ns, ran.end_ns)
    # Ordered mode writes data before the log, with neither the flag nor the name of a journal.
    journal = in_commit & (bios.meta | bios.wants_flush[stack.root])
    spans.extend(spans_of_bios(bios, requests, carried, activity_of_bio, journal, stack.stacked))
    owner = Containing(commits.tid, commits.begin_ns, commits.end_ns).find(sleeps.tid, sleeps.on_ns)
    below = np.where(waiting.of_sleep >= first_commit, waiting.of_sleep, -1)
    owner = np.where(owner >= 0, owner + first_commit, below)
    spans.extend(run_queue(sleeps, owner))
    spans.extend(interrupts(sleeps, owner, spans.collect())[0])
    return spans.collect()


def _up(inside: Spans, edges: Edges, above: Edges, kinds: Ints, first_commit: int) -> Spans:
    """The activities' spans as the pieces', by as many edges as it takes.

    ``above``, ``kinds``: as ``Stack.edges`` has them.
    """
    of_kind = [
        (kind, above.rows(np.flatnonzero(kinds == kind))) for kind in np.unique(kinds).tolist()
    ]
    result = SpanList()
    for _ in range(DEPTH):
        found = SpanList()
        found.extend(follow(inside, edges))
        for kind, some in of_kind:
            lower = seen_from_above(follow(inside, some))
            rank = np.where(lower.rank == RANK["device.data"], kind, lower.rank).astype(np.int16)
            found.extend(replace(lower, rank=rank))
        inside = found.collect()
        result.extend(inside.where(inside.owner < first_commit))
        inside = inside.where(inside.owner >= first_commit)
        if not len(inside):
            break
    return result.collect()


def _edges(
    window: Window,
    owners: Owners,
    waiting: Waiting,
    sleeps: Sleeps,
    completed: Columns,
    commit_of_completion: Ints,
) -> Edges:
    """Who waited for which commits, and when; all by number."""
    parts = (
        _by_transaction(window, owners.syncs, waiting.of_sync),
        _by_log_write(window, waiting),
        _by_waker(window, sleeps, waiting.of_sleep),
        _by_completion(sleeps, waiting.of_sleep, completed, commit_of_completion),
    )
    edges = Edges(**joined(parts))
    return replace(edges, activity=edges.activity + len(window.pieces.begin_ns))


def _by_transaction(window: Window, syncs: Syncs, waiter: Ints) -> Edges:
    """By key: the jbd2 transaction that the synced file waited for, and those before it."""
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
        commits.device_key, commits.begin_ns, commits.end_ns,
    )  # fmt: skip
    sync = waits[row]
    return Edges(commit, waiter[sync], syncs.begin_ns[sync], syncs.end_ns[sync])


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
    woken = np.flatnonzero((waiter >= 0) & sleeps.asleep & np.isin(sleeps.waker, commits.waker))
    row, commit = overlapping(
        sleeps.waker[woken], sleeps.off_ns[woken], sleeps.wake_ns[woken],
        commits.waker, commits.begin_ns, commits.end_ns,
    )  # fmt: skip
    sleep = woken[row]
    return Edges(commit, waiter[sleep], sleeps.off_ns[sleep], sleeps.wake_ns[sleep])


def _commit_of_completion(completed: Columns, bios: Bios, commit_of_bio: Ints) -> Ints:
    """The commit whose bio each completion is of, -1: of none."""
    by_bio = AsOf(bios.key, bios.queue_ns)
    return at(commit_of_bio, by_bio.at_or_before(completed["bio_key"], completed["time_ns"]))


def _by_completion(
    sleeps: Sleeps, waiter: Ints, completed: Columns, commit_of_completion: Ints
) -> Edges:
    """By thread and time: who woke the sleeper had just completed a request of the commit.

    So ends the wait for a block that the log is being written from (BH_Shadow of
    fs/jbd2/transaction.c), which nothing else tells of.
    """
    woken = np.flatnonzero((waiter >= 0) & sleeps.asleep)
    wake = sleeps.wake_ns[woken]
    done = AsOf(completed["tid"], completed["time_ns"])
    last = done.at_or_before(sleeps.waker[woken], wake)
    soon = wake - at(completed["time_ns"], last) <= COMPLETION_NS
    commit = np.where(soon, at(commit_of_completion, last), -1)
    rows = np.flatnonzero(commit >= 0)
    sleep = woken[rows]
    return Edges(commit[rows], waiter[sleep], sleeps.off_ns[sleep], sleeps.wake_ns[sleep])


def _journal_starts(spans: SpanList, window: Window, edges: Edges, sleeps: Sleeps) -> None:
    """Asleep for a commit that has not begun yet: from falling asleep to its start."""
    first_commit = len(window.pieces.begin_ns)
    edges = edges.rows(np.flatnonzero(edges.write < first_commit))
    begin = window.commits.begin_ns[edges.activity - first_commit]
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


def _tied_by_waker(
    spans: SpanList,
    window: Window,
    sleeps: Sleeps,
    asleep: Ints,
    bios: Bios,
    requests: Requests,
    carried: Carried,
    completed: Columns,
    loose: NDArray[np.bool_],
    stacked: Ints,
) -> int:
    """Kernel threads' bios that no key ties, where their completion woke a write's sleep.

    The witness is who woke the sleeper: a thread, or an interrupt on it, that had just
    completed such a bio's request on the write's disk. They rank below everything tied by
    a key: they only claim time that would otherwise be unattributed. Returns how many bios
    that were.
    """
    rows = np.flatnonzero(asleep >= 0)
    wake = sleeps.wake_ns[rows]
    last = AsOf(completed["tid"], completed["time_ns"]).at_or_before(sleeps.waker[rows], wake)
    time = at(completed["time_ns"], last)
    bio = AsOf(bios.key, bios.begin_ns).at_or_before(at(completed["bio_key"], last), time)
    root = at(roots(bios.parent), bio)
    ended = (root >= 0) & (time >= sleeps.off_ns[rows]) & (wake - time <= COMPLETION_NS)
    ended &= at(loose.astype(np.int64), root) > 0
    keys, place = np.unique(window.pieces.device_key, return_inverse=True)
    disks = np.array([window.trace.facts.disk_of(int(key)) for key in keys], np.int64)[place]
    ended &= disks[asleep[rows]] == at(bios.device_key, root)
    rows, root = rows[ended], root[ended]
    mine = np.isin(roots(bios.parent), root)
    alone = spans_of_bios(
        bios, requests, carried, np.where(mine, roots(bios.parent), -1),
        np.zeros(len(bios), np.bool_), stacked,
    )  # fmt: skip
    rank = np.full(len(alone), RANK["timed.queue"], np.int16)
    for keyed, timed in _TIMED.items():
        rank[alone.rank == keyed] = timed
    waits = Edges(root, asleep[rows], sleeps.off_ns[rows], sleeps.wake_ns[rows])
    spans.extend(follow(replace(alone, rank=rank), waits))
    return len(np.unique(root))
