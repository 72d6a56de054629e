# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: a trace with losses in, how far these reach beyond the times that they have out.

How far is what a lost event is for:

- What a loop device's worker did is told when its run ends, for all that it served in it: where
  that is lost, nobody knows who served those before.
- What was asked of a stacked device before a loss ends, and was complete behind that, kept others
  waiting there, who are not told for what; so does a commit, and a request of io_uring.
- What a worker passes on in turn is for who asked first: as long as any who may have is there. And
  where an array has its stripes is told by all that it passes on.
- A call is told when it ends: where that is lost, nobody knows what its thread had before that.
- A thread is named once, for as long as it lives. What else it did may say what it is (see
  ``kinds``); one of which nothing does is nobody that is known, whomever it lets go.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from iostrata.columns import (
    NEVER,
    AsOf,
    Containing,
    Ints,
    Union,
    at,
    changes,
    distinct,
    in_order,
    meets,
    one_of,
    order_of,
    pair_key,
)
from iostrata.stitch.arrays import agreed, arrays_of, is_mirror
from iostrata.stitch.calls import ENTERED
from iostrata.stitch.completions import completion_of, completions
from iostrata.stitch.handing import TAKEN_OVER_NS
from iostrata.stitch.kinds import kinds_of
from iostrata.stitch.opcodes import RWF_OF_SILENT
from iostrata.stitch.pools import of_nobody
from iostrata.stitch.requests import Requests, requests_of
from iostrata.stitch.serving import loop_work_of
from iostrata.stitch.upkeep import is_of_snapshot
from iostrata.stitch.wakeup import Sleeps, at_rest, sleeps_of
from iostrata.stitch.window import NO_COMMITS, NO_PIECES, Columns, Window, whole
from iostrata.trace import Trace
from iostrata.trace.layout import (
    THREAD_BESIDE,
    THREAD_DAEMON,
    THREAD_FUSE,
    THREAD_LIBRBD,
    THREAD_SERVER,
    THREAD_TARGET,
    THREAD_VMM,
    WAKE_INTERRUPT,
    WAKE_THREAD,
)

COMMITS: Final = (
    ("jbd2_start_commit", "jbd2_end_commit", ("journal_key", "transaction")),
    ("xlog_iclog_sync", "xlog_iclog_sync_done", ("iclog_key", "lsn")),
)
"""Points of a commit's begin and end, and what both name it by."""

CALLERS: Final = (
    THREAD_TARGET, THREAD_VMM, THREAD_SERVER, THREAD_DAEMON, THREAD_FUSE, THREAD_LIBRBD,
    THREAD_BESIDE,
)  # fmt: skip
"""Kinds of threads that may be in a call."""

BEHIND_POOLS: Final = ("kvm_exit", "aio_submit", "io_uring_submit_req")
"""Points of what waits for any of several workers."""

Reach = tuple[Ints, Ints]
"""From when to when; both included."""


def reach_of(trace: Trace) -> Union:
    """When calls are beside a loss that may not touch them, and so explained by what is left."""
    return whole(trace).once(_reach)


def _reach(window: Window) -> Union:
    trace, lost = window.trace, window.trace.losses.apart
    parts = [(np.zeros(0, np.int64),) * 2]
    if len(lost.begins):
        # One of its own: what is read here nobody needs again.
        window = Window(trace, NO_PIECES, NO_COMMITS, window.begin_ns, window.end_ns)
        parts += [_of_commits(window, lost, *names) for names in COMMITS]
        blocks = trace.facts.blocks.values()
        stacked = [block.device_key for block in blocks if block.lower_keys or block.backing]
        parts += _of_stacked(window, lost, stacked) if stacked else ()
        parts += _of_turns(window, lost)
        parts += _of_one_at_a_time(window, lost)
        if trace.points["sched_woken"].known or len(trace.points["kvm_exit"]):
            parts += _of_unnamed(window, lost, stacked)
        parts += [_of_asynchronous(window, lost), _of_calls(window, lost)]
    begins, ends = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    some = ends > begins
    return Union(begins[some], ends[some])


def _of_stacked(window: Window, lost: Union, devices: list[int]) -> Iterator[Reach]:
    """Of devices that are on others or on a file, those that have requests."""
    requests, done = requests_of(window)
    for device in devices:
        if device in requests.disks:
            yield _of_requests(window, lost, device, requests, done)
            yield _of_runs(window, lost, device, requests)


def _of_requests(
    window: Window, lost: Union, device: int, requests: Requests, done: Columns
) -> Reach:
    """Back to the first that was not complete when a loss began, on to the last that had begun."""
    begin, end = lost.begins.copy(), lost.ends.copy()
    _reach_back(begin, lost, *_left(window, device, requests))
    ended = np.ones(len(done["time_ns"]), np.bool_)
    ended[requests.completion[requests.completion >= 0]] = False
    mine = np.flatnonzero(ended & (done["dev"] == device))
    key, time = done["request_key"][mine], done["time_ns"][mine]
    # What asked for a flush as well, and had no data, is complete with no issue of its own.
    events = window.columns("block_rq_issue", "request_key", "size_bytes")
    row = AsOf(events["request_key"], events["time_ns"]).at_or_nearest(key, time)
    own = (done["size_bytes"][mine] > 0) | ((row >= 0) & (at(events["size_bytes"], row) == 0))
    since = np.where(row >= 0, at(events["time_ns"], row), 0)
    since = np.where(since <= time, since, 0)
    _reach_on(end, lost, since[own], time[own])
    # One that is told to have been issued within a loss, nobody looks for behind that.
    paired = np.flatnonzero(requests.device_key == device)
    _reach_on(end, lost, requests.issue_ns[paired], requests.complete_ns[paired])
    return begin, end


def _of_turns(window: Window, lost: Union) -> Iterator[Reach]:
    """Of devices whose bios are told apart by all that are there: whose workers hand on empty
    flushes in turn, for as long as any is under way; and arrays of which too little is left to tell
    where their stripes are."""
    handed = window.columns("block_bio_remap", "tid", "old_dev", "size_bytes")
    arrays = arrays_of(window.trace)
    queued = window.columns("block_bio_queue", "dev", "sector", "size_bytes")
    for device in distinct(handed["old_dev"]).tolist():
        begin, end, tid = _asked_there(window, lost, device)
        flushes = (handed["old_dev"] == device) & (handed["size_bytes"] == 0)
        mine = queued["dev"] == device
        asked = queued["sector"][mine], queued["size_bytes"][mine]
        if device in arrays and not agreed(arrays[device].layouts, *asked):
            yield begin, end
        elif not one_of(handed["tid"][flushes], tid).all():
            busy = Union(begin, end)
            some = meets(busy.begins, busy.ends, lost.begins, lost.ends + 1)
            yield busy.begins[some], busy.ends[some]


def _of_one_at_a_time(window: Window, lost: Union) -> Iterator[Reach]:
    """On to the end of what may have begun below a snapshot, or a mirror, before a loss was over:
    whoever comes before that waits until it is noted what was copied before, or is written."""
    facts = window.trace.facts
    below = {
        facts.disk_of(key)
        for block in facts.blocks.values()
        if is_of_snapshot(block, facts.blocks) or is_mirror(block)
        for key in (block.device_key, *block.lower_keys, *block.store_keys)
    }
    if not below:
        return
    queued = window.columns("block_bio_queue", "bio_key")
    begun = AsOf(queued["bio_key"], queued["time_ns"])
    for point in ("block_rq_complete", "block_bio_complete"):
        done = window.columns(point, "bio_key", "dev")
        mine = (done["bio_key"] != 0) & one_of(done["dev"], list(below))
        key, over = done["bio_key"][mine], done["time_ns"][mine]
        row = begun.at_or_before(key, over)
        end = lost.ends.copy()
        _reach_on(end, lost, np.where(row >= 0, at(queued["time_ns"], row), 0), over)
        yield lost.begins, end


def _asked_there(window: Window, lost: Union, device: int) -> tuple[Ints, Ints, Ints]:
    """Bios on a device that has no requests: from when to when they were under way at most, and
    who queued them."""
    queued = window.columns("block_bio_queue", "bio_key", "dev", "tid")
    mine = np.flatnonzero(queued["dev"] == device)
    key, begin = queued["bio_key"][mine], queued["time_ns"][mine]
    done = window.columns("block_bio_complete", "bio_key", "dev")
    own = np.flatnonzero(done["dev"] == device)
    ended, over = done["bio_key"][own], done["time_ns"][own]
    by_key, by_end = AsOf(key, begin), AsOf(ended, over)
    end = at(over, by_end.at_or_after(key, begin))
    again = by_key.following()
    end = np.minimum(np.where(end >= 0, end, window.trace.end_ns), again)
    # Of what was begun in a loss only the end is left.
    row = by_key.at_or_before(ended, over)
    begun = np.flatnonzero((row < 0) | (at(end, row) != over))
    since = np.searchsorted(lost.begins, over[begun]) - 1
    since_ns = np.where(since >= 0, at(lost.begins, since), 0)
    return (
        np.concatenate([begin, since_ns]),
        np.concatenate([end, over[begun]]),
        queued["tid"][mine],
    )


def _left(window: Window, device: int, requests: Requests) -> Reach:
    """Requests that were not seen to end: since when they were under way, and until when at most,
    as their pointer is another's then."""
    left = requests.unended.issue_ns[requests.unended.device_key == device]
    events = window.columns("block_rq_issue", "request_key", "dev")
    rows = np.flatnonzero((events["dev"] == device) & one_of(events["time_ns"], left))
    again = AsOf(events["request_key"], events["time_ns"]).following()
    return events["time_ns"][rows], again[rows]


def _of_runs(window: Window, lost: Union, device: int, requests: Requests) -> Reach:
    """Back to the begin of a worker's run that may be lost, on to the end of one that began in it.

    It began when the run before it had ended, and something was left to do. And others of its pool
    may have been let go before the loss for what one came to that was sooner, and run in it.
    """
    begin, end = lost.begins.copy(), lost.ends.copy()
    work = loop_work_of(window)
    mine = np.flatnonzero(work.device_key == device)
    begun_ns, ended_ns = work.begin_ns[mine], work.end_ns[mine]
    if not len(mine):
        return begin, end
    begin -= TAKEN_OVER_NS
    _reach_on(end, lost, begun_ns, ended_ns)
    _reach_back(begin, lost, begun_ns, ended_ns)
    ended = in_order(ended_ns)
    before = np.searchsorted(ended, lost.begins) - 1
    last = np.where(before >= 0, ended[before], 0)
    mine = np.flatnonzero(requests.device_key == device)
    left, again = _left(window, device, requests)
    issue = np.concatenate([requests.issue_ns[mine], left])
    over = np.concatenate([requests.complete_ns[mine], np.minimum(_until(lost, left), again)])
    order = order_of(issue)
    issue, over = issue[order], np.maximum.accumulate(over[order])
    begun = np.searchsorted(issue, last, side="right")
    still = (begun > 0) & (at(over, begun - 1) > last)
    following = np.append(issue, NEVER)[begun]
    since = np.where(still, last, np.maximum(following, last))
    return np.minimum(begin, since), end


def _of_commits(
    window: Window, lost: Union, started: str, ended: str, names: tuple[str, str]
) -> Reach:
    """Back to the begin of one whose end is lost, if that may not have been before the next one's
    begin; on to the end of one whose begin is."""
    begin, end = lost.begins.copy(), lost.ends.copy()
    first, last = (window.columns(point, *names) for point in (started, ended))
    begun, over = (AsOf(_named(events, names), events["time_ns"]) for events in (first, last))
    unended = over.at_or_after(_named(first, names), first["time_ns"]) < 0
    # Each journal, and each buffer of a log, is at one at a time.
    again = AsOf(first[names[0]], first["time_ns"]).following()
    _reach_back(begin, lost, first["time_ns"][unended], again[unended])
    unbegun = last["time_ns"][begun.at_or_before(_named(last, names), last["time_ns"]) < 0]
    _reach_on(end, lost, np.zeros_like(unbegun), unbegun)
    return begin, end


def _named(events: Columns, names: tuple[str, str]) -> Ints:
    return pair_key(*(events[name] for name in names))


def _until(lost: Union, time_ns: Ints) -> Ints:
    """When the first loss behind some times begins, else the time itself."""
    loss = np.searchsorted(lost.begins, time_ns)
    return np.where(loss < len(lost.begins), np.append(lost.begins, 0)[loss], time_ns)


def _reach_back(begin: Ints, lost: Union, begun_ns: Ints, end_ns: Ints | None = None) -> None:
    """To what had begun before a loss: the first one behind that, if it meets it at all."""
    loss = np.searchsorted(lost.begins, begun_ns)
    meets = loss < len(begin)
    if end_ns is not None:
        meets &= np.append(lost.begins, NEVER)[loss] <= end_ns
    np.minimum.at(begin, loss[meets], begun_ns[meets])


def _reach_on(end: Ints, lost: Union, begun_ns: Ints, end_ns: Ints) -> None:
    """To the end of what had begun before the last loss before it was over."""
    loss = np.searchsorted(lost.begins, end_ns, side="right") - 1
    meets = (loss >= 0) & (begun_ns <= at(lost.ends, loss))
    np.maximum.at(end, loss[meets], end_ns[meets])


def _of_asynchronous(window: Window, lost: Union) -> Reach:
    """On to the end of requests that were under way in a loss, and back to the first that was when
    it began, of threads that hand some over: who runs them has no time for others, which wait."""
    begin, end = lost.begins.copy(), lost.ends.copy()
    asked = window.columns("io_uring_submit_req", "request_key", "tid", "rwf")
    done = completions(window, "request_key")
    key, time = asked["request_key"], asked["time_ns"]
    by_key = AsOf(key, time)
    row = by_key.at_or_before(done["request_key"], done["time_ns"])
    _reach_on(end, lost, at(time, row), done["time_ns"])
    over = completion_of(key, time, done["request_key"], done["time_ns"])
    until = np.where(over >= 0, at(done["time_ns"], over), by_key.following())
    some = one_of(asked["tid"], distinct(window.columns("io_uring_queue_async_work", "tid")["tid"]))
    # Of one that tells of its failure only, nobody knows until when in the whole, either.
    some &= (over >= 0) | ((asked["rwf"] & RWF_OF_SILENT) == 0)
    _reach_back(begin, lost, time[some], until[some])
    return begin, end


def _of_calls(window: Window, lost: Union) -> Reach:
    """While others wait in their calls for one in a call that is told, or lost, from a loss on.

    It let them go before that, and was in no call that had ended by then, nor came to one.
    """
    kinds, sleeps = whole(window.trace).once(kinds_of), sleeps_of(window)
    tid, enter, end = _calls(window)
    within = Containing(tid, enter, end)
    rows = np.flatnonzero(sleeps.asleep & (sleeps.context == WAKE_THREAD) & (sleeps.waker > 0))
    rows = rows[one_of(kinds.of(sleeps.waker[rows], sleeps.wake_ns[rows]), CALLERS)]
    waker, wake = sleeps.waker[rows], sleeps.wake_ns[rows]
    following = AsOf(tid, enter).at_or_after(waker, wake)
    until = np.where(following >= 0, at(enter, following), NEVER)
    may = lost.begins[np.minimum(np.searchsorted(lost.begins, wake), len(lost.begins) - 1)]
    call = within.find(waker, wake)
    untold = (call < 0) | (at(end, call) >= may)
    rows = rows[(may >= wake) & (may <= until) & untold]
    off, by = sleeps.off_ns[rows], sleeps.tid[rows]
    waits = (within.find(by, off) >= 0) | ~one_of(kinds.of(by, off), CALLERS)
    return off[waits], sleeps.on_ns[rows[waits]]


def _calls(window: Window) -> tuple[Ints, Ints, Ints]:
    """Threads in calls, from when to when. Another that the kernel completes is in none. What
    servers' threads are in are the calls of their clients."""
    points = (
        *((point, "enter_ns") for point in (*ENTERED, "btrfs_beside")),
        ("aio_complete", "enter_ns"),
        ("svc_call", "dequeue_ns"),
    )
    told = [window.columns(point, "tid", since) for point, since in points]
    work = window.columns("target_work", "tid", "request_key")
    # It is told when one begins and when it ends; where that is lost, until the next one's begin.
    over = AsOf(work["tid"], work["time_ns"]).following()
    begun = work["request_key"] != 0
    tid = np.concatenate([*(one["tid"] for one in told), work["tid"][begun]])
    since = [one[name] for one, (_, name) in zip(told, points, strict=True)]
    enter = np.concatenate([*since, work["time_ns"][begun]])
    end = np.concatenate([*(one["time_ns"] for one in told), over[begun]])
    some = slice(None) if enter.all() else enter > 0
    return tid[some], enter[some], end[some]


def _of_unnamed(window: Window, lost: Union, stacked: list[int]) -> Iterator[Reach]:
    """While threads let others go of which nothing tells what they are, as their names are lost.

    Every thread that the recorder tells sleeps of, and every one of the kernel's that ends one, it
    names first; one older than ``sched_woken`` not the kernel's. Below a stacked device, and of a
    hypervisor's threads, it is also told of who works there while nobody waits for its end; and of
    asynchronous requests, who might have taken up what another one did.
    """
    kinds, sleeps = whole(window.trace).once(kinds_of), sleeps_of(window)
    named = distinct(kinds.tid)
    by_other = sleeps.asleep & (sleeps.context != WAKE_INTERRUPT) & (sleeps.waker > 0)
    # Whose sleeps are not told either is none of those.
    by_other &= one_of(sleeps.waker, distinct(sleeps.tid)) & ~one_of(sleeps.waker, named)
    since = np.where(at_rest(sleeps, np.arange(len(sleeps))), sleeps.wake_ns, sleeps.off_ns)
    yield since[by_other], sleeps.on_ns[by_other]
    if stacked or any(len(window.trace.points[point]) for point in BEHIND_POOLS):
        # Of the kernel's the name matters as well: whose pool's one is, and which CPU's.
        slept = ~one_of(sleeps.tid, kinds.named) & ~one_of(sleeps.tid, kinds.others)
        slept |= one_of(sleeps.tid, of_nobody(window))
        if slept.any():
            yield _awake(sleeps.rows(np.flatnonzero(slept)), sleeps, lost)


def _awake(own: Sleeps, sleeps: Sleeps, lost: Union) -> Reach:
    """From when threads were let go to work until they slept again."""
    own = own.rows(order_of(own.tid, own.on_ns))
    first = changes(own.tid)
    following = np.append(own.off_ns[1:], 0)
    # What it did last: let somebody go, as far as is told.
    woken = AsOf(sleeps.waker, sleeps.wake_ns)
    never = np.full(len(own), NEVER)
    last = np.maximum(at(sleeps.wake_ns, woken.at_or_before(own.tid, never)), own.on_ns)
    until = np.where(np.append(first[1:], True), last, following)
    since = np.where(own.asleep, own.wake_ns, own.off_ns)
    begun = np.searchsorted(lost.begins, own.off_ns[first], side="right") - 1
    behind = np.where(begun >= 0, at(lost.ends, begun), own.off_ns[first])
    return np.concatenate([since, behind]), np.concatenate([until, own.off_ns[first]])
