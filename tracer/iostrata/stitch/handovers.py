# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: who works for an asynchronous request in, its time between them out."""

from __future__ import annotations

import numpy as np

from iostrata.columns import NEVER, AsOf, Containing, Ints, at, one_of
from iostrata.layers import RANK
from iostrata.stitch.bios import Bios
from iostrata.stitch.completed_by import completed_by
from iostrata.stitch.completions import completions
from iostrata.stitch.drained import drained
from iostrata.stitch.draining import are_kept, woken_last
from iostrata.stitch.enters import enters_in
from iostrata.stitch.halted import halted
from iostrata.stitch.handing import ahead_of_it, let_go_for_it
from iostrata.stitch.kinds import kinds_of
from iostrata.stitch.links import block_of, submission_of, submissions_in
from iostrata.stitch.occupied import Handed, followed
from iostrata.stitch.opcodes import AIO_WRITES, URING_WRITES
from iostrata.stitch.owners import Owners, handed_over
from iostrata.stitch.pools import Pools
from iostrata.stitch.runs import Runs
from iostrata.stitch.serving import OWN, WORKER, Service, short_of_cpu
from iostrata.stitch.spans import SpanList
from iostrata.stitch.submitting import Submitting
from iostrata.stitch.turns import Numbers
from iostrata.stitch.unsaid import surely_at
from iostrata.stitch.unseen import unseen
from iostrata.stitch.wakeup import CAUSE, Sleeps
from iostrata.stitch.window import Window, whole


def submitted(spans: SpanList, window: Window, submitting: Submitting, bios: Bios) -> None:
    """A submitter is at one request after the other: until it queued its last bio, or handed it
    over."""
    handed = window.columns("io_uring_queue_async_work", "tid")
    tid = np.concatenate([bios.tid, handed["tid"]])
    did_ns = np.concatenate([bios.queue_ns, handed["time_ns"]])
    last = at(did_ns, AsOf(tid, did_ns).at_or_before(submitting.tid, submitting.end_ns))
    spans.add(submitting.piece, "syscall", submitting.begin_ns, last)


def next_of(runs: Runs, sleeps: Sleeps) -> Ints:
    """Since when what each of io_uring's workers went on with had been its next; 0: nothing."""
    if not len(runs.tid):
        return np.zeros(len(sleeps), np.int64)
    run = Containing(runs.tid, runs.next_ns, runs.end_ns).find(sleeps.tid, sleeps.on_ns)
    return np.maximum(at(runs.next_ns, run), 0)


def handovers(
    spans: SpanList,
    window: Window,
    owners: Owners,
    pools: Pools,
    sleeps: Sleeps,
    numbers: Numbers,
) -> None:
    """Asynchronous requests: until a worker began, and until the caller had the result.

    Who asked a server collects nothing there.
    """
    pieces = window.pieces
    requests = np.flatnonzero(pieces.request_key != 0)
    if not len(requests):
        return
    spans.extend(unseen(window, owners.syncs, sleeps))
    collected = spans.collect()
    worked = one_of(collected.rank, (RANK["fs"], RANK["read.cached"]))
    cause = np.flatnonzero(CAUSE[collected.rank] | worked)
    ended_ns = collected.end_ns[cause]
    ends = AsOf(collected.owner[cause], ended_ns)
    syncs, runs = owners.syncs, owners.runs
    work = owners.work
    piece = np.concatenate([syncs.worker[work], runs.piece])
    begin = np.concatenate([syncs.begin_ns[work], runs.begin_ns])
    # Until it is handed over, the submitter is at it, if nothing else was before.
    handed = np.concatenate(
        [
            _asked(window, owners, syncs.worker[work], syncs.tid[work], syncs.begin_ns[work]),
            runs.handed_ns,
        ]
    )
    before = at(ended_ns, ends.at_or_before(piece, begin))
    # What it is linked behind was run for it, too.
    linked = AsOf(runs.piece, runs.end_ns).at_or_before(piece, begin)
    before = np.maximum(before, at(runs.until_ns, linked))
    since = np.where(before >= 0, np.maximum(before, pieces.begin_ns[piece]), handed)
    # Who hands it over may have no CPU to do so.
    hander = _handers(window, handed)
    needed, kept = since, np.flatnonzero(are_kept(window, piece))
    if len(kept):
        # Until its turn has come, it needs nobody to.
        turn = woken_last(sleeps, hander[kept], since[kept], handed[kept])
        needed = since.copy()
        needed[kept] = np.where(turn >= 0, turn, handed[kept])
    handing = Service(piece, hander, needed, handed)
    spans.extend(short_of_cpu(handing, sleeps, numbers.sleep, OWN))
    # It may be handed over long after that: until it is, no worker keeps it, unless one has just
    # run what is part of it, and goes on with it unasked.
    until_then = (handed < begin) & ((linked < 0) | (hander >= 0))
    since = np.where(until_then, np.maximum(since, handed), since)
    tid = np.concatenate([syncs.tid[work], runs.tid])
    # Asleep it had not been let go; then it waited for a CPU, or was still at something else.
    woken = np.flatnonzero(sleeps.asleep)
    sleep = at(woken, AsOf(sleeps.tid[woken], sleeps.on_ns[woken]).at_or_before(tid, begin))
    runnable = np.clip(at(sleeps.wake_ns, sleep), since, begin)
    on = np.clip(at(sleeps.on_ns, sleep), since, begin)
    handed_over = Handed(piece, tid, since, begin)
    through, (waiting, free, taken) = followed(handed_over, runnable, runs, sleeps, collected)
    spans.extend(through)
    # Who let it go only as it fell asleep again was waited for, too.
    asker, asked_since, asked_ns = pools.had_let_go(tid, begin)
    asked_since = np.maximum(since, asked_since)
    late = np.flatnonzero((asker >= 0) & (asked_ns > asked_since))
    before_it = Handed(piece[late], asker[late], asked_since[late], asked_ns[late])
    through, (row, *between) = followed(before_it, asked_ns[late], runs, sleeps, collected)
    spans.extend(through)
    asking = Service(before_it.piece[row], before_it.tid[row], *between)
    # Behind a sleep of its it was at work: it had or wanted a CPU.
    at_work = np.where(free > since[waiting], tid[waiting] + numbers.thread, -1)
    spans.add(piece[waiting], "wakeup.worker", free, taken, at_work)
    spans.add(piece, "wakeup.worker", on, begin, tid + numbers.thread)
    sure_ns = surely_at(window, pools, runs)
    spans.add(runs.piece, "wakeup.worker", runs.begin_ns, sure_ns, runs.tid + numbers.thread)
    threads = whole(window.trace).once(kinds_of)
    last = Service(piece, tid, since, begin)
    for waits in (
        Service(piece[waiting], tid[waiting], free, taken),
        Service(piece, tid, runnable, begin),
        asking,
        let_go_for_it(last, sleeps, threads),
        ahead_of_it(last, sleeps, threads),
        pools.short_of(last),
    ):
        spans.extend(short_of_cpu(waits, sleeps, numbers.sleep, WORKER))
    if window.serves:
        return
    going_on, workers = halted(spans, window, requests, pools, runs, sleeps, ends, ended_ns)
    spans.extend(short_of_cpu(pools.short_of(workers), sleeps, numbers.sleep, WORKER))
    end, ran = pieces.end_ns[requests], np.full(len(pieces), -1)
    np.maximum.at(ran, runs.piece, runs.until_ns)
    last = np.maximum(at(ended_ns, ends.at_or_before(requests, end)), ran[requests])
    known = np.flatnonzero(last >= 0)
    requests, last, end = requests[known], last[known], end[known]
    collector, enter_ns = _collectors(window, requests)
    completer, complete = _completers(window, requests)
    taken = np.where(complete >= 0, complete, end)
    worker, let_go_ns = completed_by(
        window, sleeps, requests, collector, enter_ns, since_ns=last, until_ns=taken
    )
    spans.add(requests, "wakeup.worker", last, let_go_ns, worker + numbers.thread)
    let_go = Service(requests, worker, last, let_go_ns)
    spans.extend(short_of_cpu(let_go, sleeps, numbers.sleep, WORKER))
    spans.add(requests, "wakeup.reap", let_go_ns, end)
    completer = np.where(completer != collector, completer, -1)
    for waits in (
        going_on,
        Service(requests, collector, let_go_ns, end),
        Service(requests, completer, let_go_ns, complete),
    ):
        spans.extend(short_of_cpu(waits, sleeps, numbers.sleep, OWN))
    beginning = drained(spans, window, np.flatnonzero(pieces.request_key != 0), runs, sleeps)
    spans.extend(short_of_cpu(beginning, sleeps, numbers.sleep, OWN))


def _asked(window: Window, owners: Owners, piece: Ints, tid: Ints, begin_ns: Ints) -> Ints:
    """Since when a worker (``tid``) was asked to sync, of a request that nothing is known to have
    ended for.

    Where the submitter asks, that is as it comes to it. Behind a transfer, whoever completes that
    does; who was not seen to, had not asked before the worker began.
    """
    key, since = window.pieces.request_key[piece], window.pieces.begin_ns[piece]
    at_once = np.zeros(len(piece), np.bool_)
    blocks, block = window.columns("aio_submit", "enter_ns", "opcode"), block_of(window, key, since)
    uring = submissions_in(window, "opcode")
    for opcode, time, found, transfers in (
        (blocks["opcode"], blocks["enter_ns"], block, AIO_WRITES),
        (uring["opcode"], uring["time_ns"], submission_of(window, key, since), URING_WRITES),
    ):
        seen = (found >= 0) & (at(time, found) <= begin_ns)
        at_once |= seen & ~one_of(at(opcode, found), transfers)
    at_once |= handed_over(window, piece, tid, begin_ns) >= 0
    came = np.full(len(window.pieces), -1)
    came[owners.submitting.piece] = owners.submitting.begin_ns
    of_block = block >= 0
    at_once &= ~of_block | (came[piece] >= 0)
    return np.where(at_once, np.where(of_block, np.maximum(came[piece], since), since), begin_ns)


def _handers(window: Window, handed_ns: Ints) -> Ints:
    """The threads that handed something over to io_uring's workers at some times, -1: none did."""
    told = window.columns("io_uring_queue_async_work", "tid")
    none = np.zeros(len(handed_ns), np.int64)
    found = AsOf(np.zeros(len(told["tid"]), np.int64), told["time_ns"]).at_or_before(
        none, handed_ns
    )
    return np.where(at(told["time_ns"], found) == handed_ns, at(told["tid"], found), -1)


def _collectors(window: Window, requests: Ints) -> tuple[Ints, Ints]:
    """The threads that took the results, -1: not known; and when the calls that did so began,
    ``NEVER``: it was none. io_uring's are their submitters, or who waited for those of the kernel's
    own."""
    pieces = window.pieces
    key, end = pieces.request_key[requests], pieces.end_ns[requests]
    submitted = submissions_in(window, "request_key")
    taken = window.columns("aio_complete", "iocb_key", "tid", "enter_ns")
    found = AsOf(taken["iocb_key"], taken["time_ns"]).at_or_before(key, end)
    # By a call: the kernel completes any where it happens to be.
    called = (at(taken["time_ns"], found) == end) & (at(taken["enter_ns"], found) > 0)
    of_uring = one_of(key, submitted["request_key"])
    calls, tid = window.once(enters_in), pieces.tid[requests]
    call = calls.collecting(tid, end)
    by_call = at(calls.end_ns, call) == end
    tid = np.where(by_call, at(calls.tid, call), tid)
    since = np.where(by_call, at(calls.enter_ns, call), NEVER)
    return (
        np.where(of_uring, tid, np.where(called, at(taken["tid"], found), -1)),
        np.where(of_uring, since, np.where(called, at(taken["enter_ns"], found), NEVER)),
    )


def _completers(window: Window, requests: Ints) -> tuple[Ints, Ints]:
    """The threads that said of io_uring's that they are complete, and when; -1: none that is told.

    That may be the kernel's thread that submits (SQPOLL), in its task work.
    """
    pieces = window.pieces
    key, end = pieces.request_key[requests], pieces.end_ns[requests]
    told = completions(window, "request_key", "tid")
    found = AsOf(told["request_key"], told["time_ns"]).at_or_before(key, end)
    found = np.where(at(told["time_ns"], found) > pieces.begin_ns[requests], found, -1)
    return at(told["tid"], found), at(told["time_ns"], found)
