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

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import NEVER, AsOf, Containing, Ints, at, joined
from iostrata.layers import RANK
from iostrata.stitch.audit import Audit, activities_of, audit
from iostrata.stitch.awaited import Waiting, edges_of_commits, numbered
from iostrata.stitch.behind import Behind
from iostrata.stitch.bios import DEPTH, Bios, Carried, bios_of
from iostrata.stitch.blockio import Awaited, flushes_awaited, spans_of_bios
from iostrata.stitch.completing import completing
from iostrata.stitch.elsewhere import spans_elsewhere
from iostrata.stitch.endings import endings_of
from iostrata.stitch.fast import of_fast_commits
from iostrata.stitch.fuse import calls_of, spans_of_daemon
from iostrata.stitch.handing import handers, starters
from iostrata.stitch.handovers import handovers, next_of, submitted
from iostrata.stitch.held import Asking, asked_for
from iostrata.stitch.journal import Commits, phases
from iostrata.stitch.kinds import kinds_of
from iostrata.stitch.librbd import spans_of_images, waiting_for_images
from iostrata.stitch.links import submission_of, submissions_in
from iostrata.stitch.osd import awaited as awaited_of_osds
from iostrata.stitch.osd import (
    edges_of_batches,
    handed_of,
    spans_of_store,
    steps_of,
    transactions_of,
)
from iostrata.stitch.others import AHEAD, READ, Others
from iostrata.stitch.owners import Owners, Syncs
from iostrata.stitch.pages import PAGE_CACHE, awaited, own_reads, read_at_once
from iostrata.stitch.people import told
from iostrata.stitch.pushes import asleep_for_log, pushes
from iostrata.stitch.reconnects import Downs, downs_of
from iostrata.stitch.requests import Requests, requests_of
from iostrata.stitch.rpc import (
    Hindered,
    owners_of_calls,
    spans_of_calls,
    waits_of,
)
from iostrata.stitch.serving import (
    begun,
    completers,
    in_turn,
    issuers,
    late_for,
    log_writers,
    loop_work_of,
    needed_until,
    of_loops,
    request_served,
    short_of_cpu,
    submitters,
)
from iostrata.stitch.spans import Edges, Ranks, SpanList, Spans, follow, seen_as
from iostrata.stitch.stacked import Stack, seen_from_above, workers_of
from iostrata.stitch.stages import stages_of
from iostrata.stitch.turns import Numbers, Waited, behind_of
from iostrata.stitch.wakers import Wakers
from iostrata.stitch.wakeup import Sleeps, run_queue, sleeps_of
from iostrata.stitch.window import Window, whole
from iostrata.trace.layout import NFS_READ


@dataclass(frozen=True, eq=False)
class Asked:
    """What the window's spans may have asked of a device or of another machine.

    ``key`` and ``begin_ns`` together tell one from all others of the trace: the
    request's pointer and its issue, the call's pointer and when it was sent.
    ``handed_ns``: since when it was waited for, before it was sent; NEVER: not before.
    """

    key: Ints
    begin_ns: Ints
    handed_ns: Ints


@dataclass(frozen=True)
class Stitched:
    """Spans by the window's pieces (``owner`` is the row), and how requests were tied: ``ties``,
    and ``tied_to``: to which of these pieces those were that are of one.

    ``asked``: what ``spans.of`` are rows of; beyond it, as ``Numbers`` has them. ``audit``: what
    else went on meanwhile; ``idle_of``: of which piece each row of its ``idle`` is. ``behind``: who
    had what spans waited for, None: it is not told. ``served``: of each piece that is a read, from
    where (a code into ``SERVED``); empty: they are none.
    """

    spans: Spans
    asked: Asked
    ties: Counter[str]
    tied_to: Ints
    audit: Audit
    idle_of: Ints
    behind: Behind | None
    served: Ints


def stitch(window: Window) -> Stitched:
    """Ties the events of a window to the pieces of its writes."""
    sleeps, owners = sleeps_of(window), Owners(window)
    window = replace(window, commits=begun(window.commits, sleeps))
    requests, completed = requests_of(window)
    bios, carried = bios_of(window, requests, completed)
    workers = workers_of(owners.syncs, requests, window.trace.facts)
    asking = asked_for(window, bios, owners)
    asker = np.where(asking.piece >= 0, asking.piece, owners.find(asking.tid, asking.time_ns))
    asked_by = np.where(bios.read & ~own_reads(window, asker), -1, asker)
    of_commit = _commit_of_bio(window, bios, asking)
    piece_of_bio, commit_of_bio = bios.of_root(asked_by), bios.of_root(of_commit)
    keyed = (piece_of_bio >= 0) | (commit_of_bio >= 0)
    stack = Stack(bios, requests, workers, keyed, window.trace.facts)
    bios, root = stack.bios, stack.bios.root
    asker, piece_of_bio, commit_of_bio = (
        bios.of_root(column) for column in (asker, piece_of_bio, commit_of_bio)
    )
    piece_of_sleep = owners.find(sleeps.tid, sleeps.on_ns)

    spans = SpanList()
    _calls(spans, window, owners.syncs)
    submitted(spans, window, owners.submitting, bios)
    spans.add(owners.runs.piece, "syscall", owners.runs.begin_ns, owners.runs.end_ns)
    journal = commit_of_bio >= 0
    logged = journal | of_fast_commits(window, bios)
    owned = (piece_of_bio >= 0) | journal | (bios.of_root(bios.above) >= 0)
    flushes = flushes_awaited(bios, np.flatnonzero(owned), requests)
    spans.extend(
        spans_of_bios(bios, requests, carried, flushes, piece_of_bio, logged, stack.stacked)
    )
    calls = calls_of(window)
    hindered = Hindered(waits_of(window, calls), whole(window.trace).once(_downs))
    caller = owners_of_calls(calls, owners)
    reading = calls.operation == NFS_READ
    caller = np.where(reading & ~own_reads(window, caller), -1, caller)
    caller = waiting_for_images(window, calls, caller)
    transactions = transactions_of(window)
    stored, held = awaited_of_osds(transactions, calls, caller)
    steps = steps_of(window, transactions, stored, calls, caller)
    spans.extend(spans_of_store(stored))
    spans.extend(spans_elsewhere(window, transactions))
    spans.extend(spans_of_images(window))
    spans.extend(spans_of_calls(held, caller, len(requests.key), hindered))
    numbers = _numbers(len(requests.key) + len(calls), sleeps, window.commits, bios)
    held_back = np.flatnonzero((asking.since_ns >= 0) & (bios.parent < 0))
    limited = (asking.since_ns[held_back], bios.queue_ns[held_back], held_back + numbers.bio)
    spans.add(piece_of_bio[held_back], "throttle.io", *limited)
    first_sleep = numbers.sleep
    next_ns = next_of(owners.runs, sleeps)
    left = sleeps.since(next_ns) if next_ns.any() else sleeps
    spans.extend(run_queue(left, piece_of_sleep, first_sleep))
    spans.extend(short_of_cpu(steps, sleeps, first_sleep, "wakeup.runqueue"))
    spans.extend(spans_of_daemon(window, owners, sleeps, piece_of_sleep))
    # A worker that slept already did not sleep for what came next.
    piece_of_sleep = np.where(next_ns > sleeps.off_ns, -1, piece_of_sleep)
    commits_used = np.zeros(0, np.int64)
    first_commit = len(window.pieces.begin_ns)
    first_request = first_commit + len(window.commits)
    of_request = numbered(bios.of_root(bios.above), first_request)
    activity_of_bio = np.where(commit_of_bio >= 0, commit_of_bio + first_commit, of_request)
    waiting = Waiting(window, owners, workers, requests, sleeps, piece_of_sleep)
    work, needed = loop_work_of(window), needed_until(bios, requests, sleeps)
    served = numbered(request_served(work, requests, needed, sleeps), first_request)
    commit = _commit_of(window, sleeps.tid, sleeps.on_ns)
    # Asleep with nothing to do, it was not at it yet.
    idle = (commit >= 0) & (sleeps.wake_ns <= at(window.commits.since_ns, commit))
    committing = numbered(commit, first_commit)
    for_it = np.where(waiting.of_sleep >= 0, waiting.of_sleep, served)
    owner_of_sleep = np.where(committing >= 0, committing, for_it)
    # What most is made of by now takes the most room.
    window.forget()
    endings = endings_of(window, bios, carried, requests, completed, calls)
    threads = whole(window.trace).once(kinds_of)
    ends = completing(work, bios, requests, completed, sleeps, window.trace)
    explained = Wakers(window, sleeps, threads, endings, bios, numbers, asker).explain(
        np.where(idle, -1, owner_of_sleep), ends.waits(first_request), carried,
        (piece_of_bio, activity_of_bio),
    )  # fmt: skip
    del endings, completed
    window.forget()
    served = np.zeros(0, np.int64)
    if window.reads is not None:
        found_reads = awaited(
            window, bios, calls, sleeps, piece_of_sleep, owners, (piece_of_bio, caller), explained
        )
        explained, served = found_reads.explained, found_reads.served
        own = (served == PAGE_CACHE) & (window.reads.size_bytes > 0) & (not window.serves)
        cached = np.flatnonzero(own & (window.pieces.request_key == 0))
        began, ended = window.pieces.begin_ns[cached], window.pieces.end_ns[cached]
        spans.add(cached, "read.cached", began, ended)
        at_once = read_at_once(owners)
        spans.extend(at_once.where(own[at_once.owner]))
    others = Others(
        window,
        owners,
        bios,
        root,
        requests,
        carried,
        journal,
        logged,
        stack.stacked,
        calls,
        hindered,
    )
    waits = others.spans_of(explained, (piece_of_bio, activity_of_bio))
    spans.extend(waits.where(waits.owner < first_commit))
    issued = issuers(bios, carried, flushes, requests, piece_of_bio)
    spans.extend(late_for(issued, sleeps, first_sleep))
    for short in (
        submitters(bios, carried, requests, piece_of_bio),
        handers(bios, sleeps, threads, piece_of_bio),
    ):
        spans.extend(short_of_cpu(short, sleeps, first_sleep))
    if (activity_of_bio >= 0).any() or len(window.commits) or len(work.tid):
        edges = edges_of_commits(
            window, owners, waiting, sleeps, explained, commit_of_bio, edges_of_batches(stored)
        )
        commits_used = edges.activity - first_commit
        own = edges.rows(np.flatnonzero(edges.write < first_commit))
        tid = window.pieces.tid[own.write]
        spans.extend(_journal_starts(window, own, tid, sleeps, sleeps.tid, numbers))
        inside, own = SpanList(), edges.rows(np.flatnonzero(edges.write >= first_request))
        inside.add(activity_of_bio[held_back], "throttle.io", *limited)
        inside.extend(_journal_starts(window, own, own.write, sleeps, for_it, numbers))
        inside.extend(
            _activity_spans(
                window, bios, requests, carried, flushes, activity_of_bio, stack, numbers
            )
        )
        inside.extend(
            run_queue(
                sleeps, np.where(owner_of_sleep >= first_commit, owner_of_sleep, -1), first_sleep
            )
        )
        inside.extend(waits.where(waits.owner >= first_commit))
        asleep = np.where(sleeps.asleep & (for_it >= first_request), for_it, -1)
        inside.add(asleep, "blocked", sleeps.off_ns, sleeps.wake_ns)
        loops = of_loops(work, workers, requests, needed)
        inside.extend(short_of_cpu(loops.numbered(first_request), sleeps, first_sleep))
        del loops
        inside.extend(ends.late(first_request))
        for short in (
            starters(work, requests, needed, sleeps, threads).numbered(first_request),
            ends.service().numbered(first_request),
            submitters(bios, carried, requests, activity_of_bio),
            handers(bios, sleeps, threads, activity_of_bio),
        ):
            inside.extend(short_of_cpu(short, sleeps, first_sleep))
        for late in (
            completers(requests, stack.stacked, ends.request).numbered(first_request),
            log_writers(window.commits).numbered(first_commit),
            issuers(bios, carried, flushes, requests, activity_of_bio),
        ):
            inside.extend(late_for(late, sleeps, first_sleep))
        # A bio can be both: XFS's log is written by who syncs.
        above, kinds = stack.edges(
            requests, carried, (piece_of_bio, activity_of_bio), logged, first_request
        )
        beside, kinds_beside = others.edges(explained.bios, first_request)
        above = Edges(**joined([above, beside]))
        kinds = np.append(kinds, kinds_beside)
        after = in_turn(work, sleeps, for_it, requests, needed, first_request)
        edges = Edges(**joined([edges, after]))
        spans.extend(_up(inside.collect(), edges, above, kinds, first_commit))
        del inside, edges, above, waits

    asleep = np.where(sleeps.asleep, piece_of_sleep, -1)
    spans.add(asleep, "blocked", sleeps.off_ns, sleeps.wake_ns)
    for_log = asleep_for_log(window, owners.syncs, sleeps, piece_of_sleep)
    if len(for_log):
        caused = explained.ended[for_log] | ~threads.ended(sleeps.rows(for_log))
        pushes(spans, sleeps, piece_of_sleep, for_log[~caused])
    handovers(spans, window, owners, sleeps, numbers)
    tied = (piece_of_bio >= 0) | (activity_of_bio >= 0)
    ties = Counter(key=int(np.count_nonzero(tied)) - stack.by_time, time=stack.by_time)
    tied_to = piece_of_bio[piece_of_bio >= 0]
    asked = Asked(
        np.concatenate([requests.key, calls.key]),
        np.concatenate([requests.issue_ns, calls.send_ns]),
        np.concatenate([np.full(len(requests.key), NEVER), handed_of(calls)]),
    )
    spans.extend(stages_of(window, requests, spans))
    found = spans.collect()
    went_on = activities_of(window, bios, requests, commit_of_bio, calls, commits_used, found)
    behind = None
    if told(window.trace):
        waited = Waited(numbers, sleeps, requests, bios, root, commit_of_bio, carried)
        behind = behind_of(window, found, waited)
    audited, idle_of = audit(window, sleeps, piece_of_sleep, went_on, found, explained.beyond)
    return Stitched(found, asked, ties, tied_to, audited, idle_of, behind, served)


def _downs(window: Window) -> Downs:
    return downs_of(window.trace)


def _calls(spans: SpanList, window: Window, syncs: Syncs) -> None:
    """The floor of the stack: the calls themselves, and the file system's sync inside them.

    An asynchronous request has no floor: what no layer claims of it is unattributed. A server's
    has: from its begin to its end it is in nobody else's hands.
    """
    pieces = window.pieces
    floored = (pieces.request_key == 0) | window.serves
    calls = np.where(floored, np.arange(len(pieces)), -1)
    spans.add(calls, window.floor, pieces.begin_ns, pieces.end_ns)
    spans.add(syncs.piece, "fs", syncs.begin_ns, syncs.end_ns)
    hidden = _left_unseen(window, floored)
    spans.add(hidden, "blocked", pieces.begin_ns[hidden], pieces.end_ns[hidden])
    requests = np.flatnonzero(pieces.request_key != 0)
    if len(requests):
        # What the submitter itself did for the request before it was on its way.
        begin = pieces.begin_ns[requests]
        key, end = pieces.request_key[requests], pieces.end_ns[requests]
        blocks = window.columns("aio_submit", "iocb_key", "enter_ns")
        block = AsOf(blocks["iocb_key"], blocks["enter_ns"]).at_or_after(key, begin)
        uring = submissions_in(window, "request_key")
        for submitted, found in ((blocks, block), (uring, submission_of(window, key, begin))):
            until = np.minimum(at(submitted["time_ns"], found), end)
            spans.add(requests, "syscall", begin, until)


def _left_unseen(window: Window, floored: NDArray[np.bool_]) -> Ints:
    """The calls (of the pieces) in which a thread left the CPU and nobody saw it: whatever no layer
    claims of such a one, it may have slept."""
    told = window.columns("sched_hidden", "tid")
    if not len(told["tid"]):
        return told["tid"]
    calls = np.flatnonzero(floored)
    tid, end = window.pieces.tid[calls], window.pieces.end_ns[calls]
    last = AsOf(told["tid"], told["time_ns"]).at_or_before(tid, end)
    return calls[at(told["time_ns"], last) > window.pieces.begin_ns[calls]]


def _commit_of(window: Window, tid: Ints, time_ns: Ints) -> Ints:
    """What each thread was committing at a time, -1: nothing."""
    commits = window.commits
    return Containing(commits.tid, commits.since_ns, commits.end_ns).find(tid, time_ns)


def _commit_of_bio(window: Window, bios: Bios, asking: Asking) -> Ints:
    """By the committing thread, or by the log write's own bio."""
    commits = window.commits
    if not len(commits):
        return np.full(len(bios), -1)
    queue_ns = np.where(asking.since_ns >= 0, asking.time_ns, bios.queue_ns)
    commit = _commit_of(window, asking.tid, queue_ns)
    logs = np.flatnonzero(commits.bio_key != 0)
    by_key = AsOf(commits.bio_key[logs], commits.begin_ns[logs])
    log = at(logs, by_key.at_or_before(bios.key, bios.queue_ns))
    return np.where(at(commits.end_ns, log) >= bios.queue_ns, log, commit)


def _numbers(first: int, sleeps: Sleeps, commits: Commits, bios: Bios) -> Numbers:
    commit = first + len(sleeps)
    bio = commit + len(commits)
    return Numbers(sleep=first, commit=commit, bio=bio, thread=bio + len(bios))


def _activity_spans(
    window: Window,
    bios: Bios,
    requests: Requests,
    carried: Carried,
    flushes: Awaited,
    activity_of_bio: Ints,
    stack: Stack,
    numbers: Numbers,
) -> Spans:
    """What went on inside each commit and below each request; ``owner`` is its number."""
    commits, first_commit = window.commits, len(window.pieces.begin_ns)
    in_commit = (activity_of_bio >= 0) & (activity_of_bio < first_commit + len(commits))
    spans, ran = SpanList(), phases(commits)
    number = ran.of + numbers.commit
    spans.add(ran.owner + first_commit, ran.rank, ran.begin_ns, ran.end_ns, number)
    # Ordered mode writes data before the log, with neither the flag nor the name of a journal.
    log = at(commits.store, np.where(in_commit, activity_of_bio - first_commit, -1)) > 0
    journal = in_commit & (bios.meta | bios.of_root(bios.wants_flush) | log)
    spans.extend(
        spans_of_bios(bios, requests, carried, flushes, activity_of_bio, journal, stack.stacked)
    )
    return spans.collect()


def _up(inside: Spans, edges: Edges, above: Edges, kinds: Ints, first_commit: int) -> Spans:
    """The activities' spans as the pieces', by as many edges as it takes.

    ``above``, ``kinds``: as ``Stack.edges`` has them.
    """
    every = Edges(**joined([edges, above]))
    kind = np.concatenate([np.full(len(edges.write), -1), kinds])

    def seen(ranks: Ranks, below: int) -> Ranks:
        if below < 0:
            return ranks
        lower = seen_from_above(ranks)
        lower = np.where(lower == RANK["device.data"], below, lower)
        return np.where(lower == READ, AHEAD, lower) if below == AHEAD else lower

    as_seen = seen_as(kind, seen)

    result, met = SpanList(), set()
    for _ in range(DEPTH):
        inside = follow(inside, every, as_seen)
        if len(kinds):
            # One request below is behind many, of which many are for one who waits above.
            inside = inside.once()
        result.extend(inside.where(inside.owner < first_commit))
        inside = inside.where(inside.owner >= first_commit)
        # What waits for itself (XFS's log, that is written by who syncs) goes round for ever.
        mark = b"".join(column.tobytes() for column in vars(inside).values())
        if not len(inside) or mark in met:
            break
        met.add(mark)
    return result.collect()


def _journal_starts(
    window: Window, edges: Edges, waiter: Ints, sleeps: Sleeps, sleeper: Ints, numbers: Numbers
) -> Spans:
    """Asleep for a commit whose thread had not been let go to begin it.

    ``waiter``: who sleeps there, of each edge to a commit; ``sleeper``: who it is, of each sleep.
    """
    spans, commit = SpanList(), edges.activity - len(window.pieces.begin_ns)
    begin = window.commits.since_ns[commit]
    sleep = Containing(sleeper, sleeps.off_ns, sleeps.on_ns).find(waiter, begin)
    off = at(sleeps.off_ns, sleep)
    asleep = (at(sleeps.wake_ns, sleep) > 0) & (off >= edges.begin_ns)
    owner = np.where(asleep, edges.write, -1)
    spans.add(owner, "journal.start", off, begin, commit + numbers.commit)
    return spans.collect()
