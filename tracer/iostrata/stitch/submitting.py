# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: asynchronous requests in, when who submitted each was at it out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import (
    NEVER,
    AsOf,
    Containing,
    Ints,
    at,
    changes,
    one_of,
    order_of,
    pair_key,
)
from iostrata.stitch.calls import PLAIN, are_direct, method_of_write
from iostrata.stitch.completions import completions
from iostrata.stitch.draining import are_kept
from iostrata.stitch.kinds import kinds_of
from iostrata.stitch.links import block_of, completed_last, submission_of, submissions_in
from iostrata.stitch.opcodes import AIO_READS, AIO_WRITES, URING_CHANGES, URING_READS, URING_WRITES
from iostrata.stitch.requests import reads_data
from iostrata.stitch.syncs import SYNCS, WHOLE
from iostrata.stitch.wakeup import sleeps_of
from iostrata.stitch.window import Columns, Window, whole
from iostrata.trace.layout import THREAD_WORKER

UNTIED: Final = -2
"""As a time: nothing ties a block to what its call did."""


@dataclass(frozen=True, eq=False)
class Submitting:
    """A submitter's time for each request, from when it came to it on: thread and piece.

    ``whole``: it was done there, if it went through the page cache: nothing of it came later.
    ``inline``: of libaio's, that it did, and was.
    """

    tid: Ints
    begin_ns: Ints
    end_ns: Ints
    piece: Ints
    whole: NDArray[np.bool_]
    inline: NDArray[np.bool_]


def submitting_of(window: Window, requests: Ints) -> Submitting:
    """Until it hands the request over, submits the next one, or returns from its call."""
    if not len(requests):
        none = requests > 0
        return Submitting(requests, requests, requests, requests, none, none)
    pieces = window.pieces
    key, begin = pieces.request_key[requests], pieces.begin_ns[requests]
    uring = submissions_in(window, "tid", "opcode")
    found = block_of(window, key, begin)
    seen = found >= 0
    batches = _of_batches(window, found[seen], pieces.end_ns[requests[seen]])
    blocks, start = batches.blocks, batches.start_ns
    aio = at(start, found)
    after = at(uring["time_ns"], submission_of(window, key, begin))
    linked = np.flatnonzero((after >= 0) & (after < begin))
    if len(linked):
        # What a worker completed, that goes on with.
        last = completed_last(window, pieces.tid[requests[linked]], begin[linked])
        after[linked] = np.where(last == begin[linked], last, -1)
    submitted = np.where(after >= 0, after, aio)
    known = np.flatnonzero((submitted >= 0) & (submitted <= pieces.end_ns[requests]))
    requests, begin = requests[known], submitted[known]
    tid, end = pieces.tid[requests], pieces.end_ns[requests]
    handed = window.columns("io_uring_queue_async_work", "tid")
    # What it submits besides is another's, whether that is one of these pieces or not.
    data = one_of(uring["opcode"], (*URING_WRITES, *URING_READS, *URING_CHANGES))
    for other, time in (
        (tid, begin),
        (handed["tid"], handed["time_ns"]),
        (uring["tid"][data], uring["time_ns"][data] - 1),
        (blocks["tid"][start >= 0], start[start >= 0] - 1),
    ):
        following = at(time, AsOf(other, time).at_or_after(tid, begin + 1))
        end = np.minimum(end, np.where(following >= 0, following, NEVER))
    calls = window.columns("syscall", "tid", "enter_ns")
    inside = Containing(calls["tid"], calls["enter_ns"], calls["time_ns"]).find(tid, begin)
    # None of a thread of the kernel (SQPOLL), nor of what an older recording was told of.
    end = np.minimum(end, np.where(inside >= 0, at(calls["time_ns"], inside), NEVER))
    # io_submit's is told with its blocks only.
    returned = np.where(after[known] < 0, at(blocks["time_ns"], found[known]), NEVER)
    end = np.minimum(end, np.maximum(returned, begin))
    block = np.where(after[known] < 0, found[known], -1)
    end = np.where(at(batches.passed.astype(np.int64), block) > 0, begin, end)
    end = _polling(window, requests, tid, begin, end)
    whole = (after[known] < 0) & (end > begin)
    if window.reads is not None:
        direct, of_aio = window.reads.direct[requests], whole
        # It has nothing to do behind its bios; the submitter may wait in that call for others'.
        # A write may have: one that makes its file longer is synchronised by who submits it.
        bios = window.columns("block_bio_queue", "tid")
        last = at(bios["time_ns"], AsOf(bios["tid"], bios["time_ns"]).at_or_before(tid, end))
        returned = np.where(inside >= 0, at(calls["time_ns"], inside), NEVER)
        went_on = np.where(direct | (end < returned), end, begin)
        left = np.where(last >= begin, last, went_on)
        done = _done_at_once(window, pieces.request_key[requests], tid, begin)
        at_once = ~direct & (done >= 0) & (done <= returned)
        # What libaio reads through the page cache, its call waits for; io_uring's waits for none.
        end = np.where(of_aio & ~direct, end, np.where(at_once, np.minimum(end, done), left))
        whole = at_once | of_aio
    return Submitting(
        tid, begin, end, requests, whole, at(batches.inline.astype(np.int64), block) > 0
    )


def _polling(window: Window, requests: Ints, tid: Ints, begin_ns: Ints, end_ns: Ints) -> Ints:
    """Until when submitters were at requests, where that is ``end_ns`` at the latest: the kernel's
    own thread (SQPOLL) waits for none, and looks for more behind it. Of what it did nothing else
    for, and slept for no disk, nobody knows when it went on; with what is kept until others are
    complete, at once."""
    polls = whole(window.trace).once(kinds_of).of(tid, begin_ns) == THREAD_WORKER
    if not polls.any():
        return end_ns
    points = ("block_bio_queue", "io_uring_queue_async_work", *SYNCS)
    told = [window.columns(point, "tid") for point in points]
    sleeps = sleeps_of(window)
    inside = np.flatnonzero(sleeps.asleep & ~sleeps.interruptible)
    told.append({"tid": sleeps.tid[inside], "time_ns": sleeps.on_ns[inside]})
    by, time = (np.concatenate([one[name] for one in told]) for name in ("tid", "time_ns"))
    last = at(time, AsOf(by, time).at_or_before(tid, end_ns))
    kept = are_kept(window, requests)
    return np.where(polls, np.where(kept, begin_ns, np.maximum(last, begin_ns)), end_ns)


def _done_at_once(window: Window, key: Ints, tid: Ints, begin_ns: Ints) -> Ints:
    """When requests of io_uring were complete, -1: not before their submitter slept."""
    completed = completions(window, "request_key", "tid")
    found = AsOf(completed["request_key"], completed["time_ns"]).at_or_after(key, begin_ns)
    done = np.where(at(completed["tid"], found) == tid, at(completed["time_ns"], found), -1)
    resumes = window.columns("sched_resume", "subject_tid", "off_ns", "wake_ns")
    slept = np.flatnonzero(resumes["wake_ns"] > 0)
    off = AsOf(resumes["subject_tid"][slept], resumes["off_ns"][slept])
    off_ns = at(resumes["off_ns"][slept], off.at_or_after(tid, begin_ns))
    return np.where((off_ns >= 0) & (off_ns < done), -1, done)


@dataclass(frozen=True, eq=False)
class _Batches:
    """Control blocks (``blocks``, columns), and when io_submit came to each (``start_ns``), -1:
    nothing tells. ``passed``: it only had it queued, and was at none of it; ``inline``: it was done
    there, through the page cache."""

    blocks: Columns
    start_ns: Ints
    passed: NDArray[np.bool_]
    inline: NDArray[np.bool_]


def _of_batches(window: Window, own: Ints, end_ns: Ints) -> _Batches:
    """A call that submits one block is that block's from its entry on. In a batch only order ties
    them to what the call did. If it synced as often as there are blocks that it had to sync, it
    came to what is behind one as that was synced; or else to the first that transfers data at once,
    and to the n-th where the n-th bio begins, if there are as many of these, each of which is for
    all that came of it, or where the first of it is, if they are for as much in all. What transfers
    none it had queued before it came to what is behind. If all is done in the call, and nobody has
    one before it returns, they wait for all that it does: else the first of pieces' blocks
    (``own``, whose ends are ``end_ns``) has that.
    """
    blocks = window.columns("aio_submit", "tid", "enter_ns", "iocb_key", "order", "opcode",
                            "open_flags", "rwf", "size_bytes")  # fmt: skip
    by_call = order_of(blocks["tid"], blocks["enter_ns"])
    tid, enter = blocks["tid"][by_call], blocks["enter_ns"][by_call]
    new = changes(tid) | changes(enter)
    batch = np.empty(len(tid), np.int64)
    batch[by_call] = np.cumsum(new) - 1
    tid, enter = tid[new], enter[new]
    count = np.bincount(batch, minlength=len(tid))
    in_turn = order_of(batch, blocks["order"])
    # Of what reads there are blocks where its bios count, too.
    reads = bool(window.trace.env.get("reads"))
    until = np.zeros(len(tid), np.int64)
    until[batch] = blocks["time_ns"]
    bios = window.columns("block_bio_queue", "tid", "size_bytes", "flags", "bio_key", "dev")
    calls = Containing(tid, enter, until)
    call = calls.find(bios["tid"], bios["time_ns"])
    counts = (bios["size_bytes"] > 0) & (reads | ~reads_data(bios["flags"]))
    counts &= ~_handed_down(window, bios, at(enter, call))
    data = np.flatnonzero((call >= 0) & counts)
    data = data[order_of(call[data])]
    carried = np.bincount(call[data], minlength=len(tid))
    # What a limit held back has no bio among those that others have there.
    transfers = one_of(blocks["opcode"], (*AIO_WRITES, *AIO_READS))
    transfers &= ~_held_back(window, blocks) | (carried == 0)[batch]
    # Its place among those that are recorded: a call may have others.
    place_of = np.empty(len(batch), np.int64)
    place_of[in_turn] = _before(transfers[in_turn], batch[in_turn])
    first = np.cumsum(carried) - carried
    direct = are_direct(window.trace, blocks["open_flags"])
    # What goes through the page cache has bios of its log's as well, or none.
    cached = np.bincount(batch, one_of(blocks["opcode"], AIO_WRITES) & ~direct) > 0
    result, told = _results(window, blocks)
    carries, place = bios["size_bytes"][data], first[batch] + place_of
    asked = np.bincount(batch, transfers, len(tid)).astype(np.int64)
    one_each = carried == asked
    # A hole has none, and another may have two.
    enough = at(carries, np.minimum(place, len(data) - 1)) >= result
    np.logical_and.at(one_each, batch, enough | ~transfers)
    row = np.where(one_each[batch], place, -1)
    if (carried > asked).any():
        size = np.where(transfers, blocks["size_bytes"], 0)
        # How much a vector is for, what came of it tells.
        size = np.where(transfers & (size == 0), np.maximum(result, 0), size)[in_turn]
        begun = np.empty(len(batch), np.int64)
        begun[in_turn] = _begun_with(
            size, transfers[in_turn], batch[in_turn], carries, call[data], len(tid)
        )
        row = np.where(begun >= 0, begun, row)
    last = row >= (first + carried)[batch]
    start = np.where(last, until[batch], at(bios["time_ns"], at(data, np.where(last, -1, row))))
    # What it does before the first one's bio, such as waiting for the file's lock, is for that one.
    nth = np.empty(len(batch), np.int64)
    nth[in_turn] = _before(np.ones(len(batch), np.bool_), batch[in_turn])
    start = np.where((place_of == 0) & (nth == blocks["order"]), enter[batch], start)
    start = np.where((row < 0) | cached[batch], -1, start)
    alone = count[batch] == 1
    passed = (start >= 0) & ~transfers & ~alone
    inline = transfers & ~direct
    if not alone.all():
        # By whoever submits it, if that writes it at all.
        durable = one_of(blocks["opcode"], AIO_WRITES) & ~(told & (result <= 0))
        durable &= method_of_write(blocks["open_flags"], blocks["rwf"]) != PLAIN
        tries = [durable & ~direct]
        # What is written directly is synced by workers behind that; but on btrfs there, too.
        if (durable & direct).any():
            tries.insert(0, durable)
        for synced in tries:
            before = np.empty(len(batch), np.int64)
            before[in_turn] = _before(synced[in_turn], batch[in_turn])
            came = _behind_syncs(window, calls, batch, synced, before)
            came = np.where(came == -1, enter[batch], came)
            tied = came != UNTIED
            start = np.where(tied, np.where(came == NEVER, until[batch], came), start)
            passed = np.where(tied, ~synced & ~alone, passed)
            inline |= tied & synced
        none = np.bincount(batch, (start >= 0) | direct) == 0
        np.logical_and.at(none, batch[own], end_ns >= until[batch[own]])
        is_own = np.zeros(len(batch), np.bool_)
        is_own[own] = True
        # Syncs in front of all that is transferred are queued at once, and those behind that at
        # last; when those amid it are, nobody knows: they have that call's time as all have it.
        ahead, behind = place_of == 0, place_of == asked[batch]
        queued = none[batch] & ~transfers & ~alone & (ahead | behind)
        start = np.where(queued, np.where(ahead, enter[batch], until[batch]), start)
        passed |= queued
        rest = in_turn[(none[batch] & transfers & is_own)[in_turn]]
        rest = rest[changes(batch[rest])]
        start[rest] = enter[batch[rest]]
    return _Batches(blocks, np.where(alone, blocks["enter_ns"], start - passed), passed, inline)


def _held_back(window: Window, blocks: Columns) -> NDArray[np.bool_]:
    """Which blocks have a bio that a limit held back, as whoever let that go says of it."""
    if "request_key" not in window.trace.points["block_bio_held"].fields:
        return np.zeros(len(blocks["iocb_key"]), np.bool_)
    held, key = window.columns("block_bio_held", "request_key"), blocks["iocb_key"]
    asked = AsOf(key, blocks["enter_ns"])
    of = asked.at_or_before(held["request_key"], held["time_ns"])
    found = np.zeros(len(key), np.bool_)
    found[of[of >= 0]] = True
    return found


def _handed_down(window: Window, bios: Columns, since_ns: Ints) -> NDArray[np.bool_]:
    """Which bios are a stacked device's own, for one below, since some times: it tells of each
    before it queues that (dm_submit_bio_remap of drivers/md/dm.c)."""
    handed = window.columns("block_bio_remap", "bio_key", "dev")
    to = pair_key(handed["bio_key"], handed["dev"])
    last = AsOf(to, handed["time_ns"]).at_or_before(
        pair_key(bios["bio_key"], bios["dev"]), bios["time_ns"]
    )
    found: NDArray[np.bool_] = (last >= 0) & (at(handed["time_ns"], last) >= since_ns)
    return found


def _before(some: NDArray[np.bool_], batch: Ints) -> Ints:
    """How many of ``some`` blocks come before each one in its call; in turn."""
    before: Ints = np.cumsum(some) - some
    first = np.flatnonzero(changes(batch))
    return before - np.repeat(before[first], np.diff(np.append(first, len(batch))))


def _begun_with(
    size: Ints, transfers: NDArray[np.bool_], batch: Ints, carries: Ints, call: Ints, count: int
) -> Ints:
    """With which of the bios of so many calls each block begins, both in turn, or, where it
    transfers nothing, the next one; -1: those of its call are not for what its blocks ask for, or
    not told how much that is."""
    ends, all_ends = np.cumsum(size), np.cumsum(carries)
    asked, carried = np.zeros(count, np.int64), np.zeros(count, np.int64)
    np.add.at(asked, batch, size)
    np.add.at(carried, call, carries)
    # Of each block, how much its call's bios are for until it begins, behind those of other calls.
    place = ends - size + (np.cumsum(carried) - carried - (np.cumsum(asked) - asked))[batch]
    begins = all_ends - carries
    row = np.searchsorted(begins, place)
    begin = np.append(begins, all_ends[-1:])
    whole = asked == carried
    np.logical_and.at(whole, batch, ((size > 0) | ~transfers) & (begin[row] == place))
    return np.where(whole[batch], row, -1)


def _results(window: Window, blocks: Columns) -> tuple[Ints, NDArray[np.bool_]]:
    """What came of blocks (bytes, 0, or -errno), and of which that is told."""
    done = window.columns("aio_complete", "iocb_key", "result")
    # Another thread may have it before the call has returned.
    found = AsOf(done["iocb_key"], done["time_ns"]).at_or_after(
        blocks["iocb_key"], blocks["enter_ns"]
    )
    return at(done["result"], found), found >= 0


def _behind_syncs(
    window: Window, calls: Containing, batch: Ints, synced: NDArray[np.bool_], before: Ints
) -> Ints:
    """When calls came to their blocks, each behind so many syncs (``before``): the last of these
    was over, or, of a file system that does not tell that, the next one began.

    -1: as the call began; NEVER: as it returned; UNTIED: it has not synced as often as it should.
    """
    tid, begin, over = [], [], []
    for point in SYNCS:
        extra = ("enter_ns",) if point in WHOLE else ()
        told = window.columns(point, "tid", "request_key", *extra)
        own = np.flatnonzero(told["request_key"] == 0)
        time = told["time_ns"][own]
        tid.append(told["tid"][own])
        begin.append(told["enter_ns"][own] if extra else time)
        over.append(time if extra else np.full(len(own), -1))
    thread, since, until = (np.concatenate(parts) for parts in (tid, begin, over))
    call = calls.find(thread, since)
    order = order_of(call, since)[np.count_nonzero(call < 0) :]
    call, since, until = call[order], since[order], until[order]
    wanted = np.bincount(batch, synced).astype(np.int64)
    times = np.bincount(call, minlength=len(wanted))
    row = (np.cumsum(times) - times)[batch] + before
    following = np.where(before < times[batch], at(since, np.minimum(row, len(since) - 1)), NEVER)
    last = at(until, np.where(before > 0, np.minimum(row, len(until)) - 1, -1))
    came = np.where(before == 0, -1, np.where(last >= 0, last, following))
    return np.where((times == wanted)[batch] & (times[batch] > 0), came, UNTIED)
