# SPDX-License-Identifier: Apache-2.0
"""Writes to leave out, by reason: what is missing of them would make their numbers wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.analysis.unsure import headless_syncs
from iostrata.columns import NEVER, Containing, Ints, distinct, meets, one_of, order_of
from iostrata.hops import Graph, Link, beside
from iostrata.model import NotObserved, Op
from iostrata.stitch import (
    BEGUN,
    ENGINES,
    HANGING,
    LOST,
    NO_ROOM,
    OVER,
    RUNNING,
    UNCOLLECTED,
    UNFINISHED,
    Operations,
    Pieces,
    Transfers,
    Units,
    commits_of,
    may_return_in_loss,
    processes_of,
    reach_of,
)
from iostrata.trace import FileSystems, Trace, of_all
from iostrata.trace.layout import THREAD_FUSE, THREAD_TARGET
from iostrata.units import duration

FAILED = "the call failed"
BESIDE = "beside a loss"
FOR_OTHERS = "made by who serves others, for none of these"
OTHER_THREADS = "by other threads of the daemon, tied to none"
FOR_NONE_OF_THESE = "for none of these"
MEANWHILE = "while they had some of these, by other threads, tied to none"
OF_UNASKED: Final = (MEANWHILE, FOR_NONE_OF_THESE)
"""What daemons did that are recorded only as they serve who was asked for, and tied to nothing."""
ROOM = "room made in an image (fallocate)"
IN_MEMORY = "of files that are in memory only (tmpfs and the like)"
THEIR_OWN = "by programs of their own, fewer than for guests"
NO_DISK = "of files of who serves others that are no disk (opened to write only)"
WHAT_TO_DO: Final = {
    FAILED: "strace -f, or the program's own messages, say why its calls failed",
    IN_MEMORY: "write to a directory on a disk: findmnt -T DIRECTORY tells what one is on",
    LOST: "record again, with a larger --buffer",
    BESIDE: "record again, with a larger --buffer",
    FOR_OTHERS: "record whom they serve, too",
    RUNNING: "record until they end; iostrata dump has them, and since when, as syscall_cut",
    HANGING: "iostrata dump has whose as syscall_cut; /proc/TID/stack says what one waits for",
    UNFINISHED: "record until the program has ended: a request ends with its completion",
    NO_ROOM: "have it take its completions sooner, or its ring be larger (IORING_SETUP_CQSIZE); or "
    "give each request that is under way another user_data",
    OVER: "success that is not to be told (IOSQE_CQE_SKIP_SUCCESS) is not seen; nor, by an older "
    "recorder, a completion that a ring had no room for",
    UNCOLLECTED: "it reads libaio's ring by itself, which nothing tells of: have it collect with "
    "io_getevents (fio: without userspace_reap); or record until it has ended",
}

UNDECIDED = "calls that --device cannot decide about"
OF_SYNC = "calls of sync"
OF_COMPAT = "calls of 32-bit programs"
NEVER_RECORDED: Final = (UNDECIDED, OF_SYNC, OF_COMPAT)
"""Calls that may have been synchronous writes, of which the recorder counted how many."""

# So many, of so many that are analysed, and so much longer or shorter, are told of.
FEWEST: Final = 10
OF_NOTE: Final = 0.01
ALIKE: Final = 1.25

NOBODY_SAW: Final = (NO_ROOM, OVER, UNCOLLECTED)
"""Why writes are left out that had ended within the recording, and did not fail."""


def unseen_share(analysed: int, left_out: Mapping[str, int]) -> float:
    """Which part of the writes that ended nobody saw end."""
    unseen = sum(left_out.get(reason, 0) for reason in NOBODY_SAW)
    return unseen / max(analysed + unseen, 1)


def left_out_of(
    graph: Graph, trace: Trace, units: Units, *, durable: bool
) -> tuple[dict[str, int], Ints, Ints]:
    """How many of a machine's units must be left out, by reason; the rows of the others by begin
    time; and how long each took that a loss may have touched, ns.

    Law 3: a write that a loss may touch is not analysed, and it is counted. ``durable``: nor is
    one of a file that is on no disk: it makes nothing durable.
    """
    touched = _touched(graph, trace, units.begin_ns, units.end_ns)
    begun = units.begin_ns < trace.begin_ns
    reasons: dict[str, NDArray[np.bool_]] = {
        FAILED: units.failed,
        LOST: touched,
        BESIDE: _beside_losses(graph, trace, units.begin_ns, units.end_ns)
        | _cut(trace, units)
        | headless_syncs(trace, units),
        BEGUN: begun,
    }
    if durable:
        reasons[IN_MEMORY] = _in_memory(trace, units)
    for reason, some in _unseen(graph, trace, units.begin_ns, units.end_ns):
        reasons[reason] = reasons.get(reason, False) | some
    left_out: dict[str, int] = {}
    kept, lost = np.ones(len(units), np.bool_), np.zeros(len(units), np.bool_)
    for reason, some in reasons.items():
        if count := int(np.count_nonzero(some & kept)):
            left_out[reason] = count
        if reason in (LOST, BESIDE):
            lost |= some & kept
        kept &= ~some
    rows = np.flatnonzero(kept)
    return left_out, rows[order_of(units.begin_ns[rows])], units.latency_ns[lost]


def unlike(lost_ns: Ints, latency_ns: Ints, op: Op) -> Iterator[NotObserved]:
    """A line, where what a loss may have touched took longer, or less long, than what is analysed:
    a long one meets more of them."""
    if len(lost_ns) < max(FEWEST, OF_NOTE * len(latency_ns)):
        return
    theirs, ours = float(lost_ns.mean()), float(latency_ns.mean())
    if not ours / ALIKE < theirs < ours * ALIKE:
        what = (
            f"{len(lost_ns)} of those that are left out took {duration(theirs)} on average, and "
            f"the analysed ones {duration(ours)}"
        )
        yield NotObserved(f"{op.word}s beside losses", what, "")


def _in_memory(trace: Trace, units: Units) -> NDArray[np.bool_]:
    """Of a number that was several file systems', by what it was when the write ended."""
    facts, keys = trace.facts, distinct(units.device_key).tolist()
    again = [key for key in keys if facts.is_used_again(key)]
    in_memory = [key for key in keys if key not in again and facts.is_in_memory(key)]
    found: NDArray[np.bool_] = np.isin(units.device_key, in_memory)
    if again:
        rows = np.flatnonzero(np.isin(units.device_key, again))
        there = FileSystems(trace.points["file_system"])
        gone = np.array([facts.was_in_memory(kind) for kind in there.kinds])
        found[rows] = gone[there.at(units.device_key[rows], units.end_ns[rows])]
    return found


def for_others(graph: Graph, trace: Trace, made: Operations | Transfers) -> Counter[str]:
    """How much of what processes that serve others did is no part of what was followed, by reason.

    Of a thread that served several at once it is not known for which it did what: while one does,
    all may be for these.
    """
    part, aside = np.zeros(len(made), np.bool_), np.zeros(len(made), np.bool_)
    for link in graph.links:
        if link.lower.trace is not trace:
            continue
        pieces = link.lower.pieces.rows(distinct(link.serves.piece[link.pairs.serve]))
        told = pieces.rows(np.flatnonzero(pieces.tid >= 0))
        untold = pieces.rows(np.flatnonzero(pieces.tid < 0))
        part |= Containing(told.tid, told.begin_ns, told.end_ns).find(made.tid, made.begin_ns) >= 0
        part |= meets(made.begin_ns, made.end_ns, untold.begin_ns, untold.end_ns)
        if link.hop.within:
            aside[beside(trace, told, made.tgid, made.begin_ns, made.end_ns)[1]] = True
    unasked = one_of(made.tgid, _unasked(trace))
    reasons = {
        FOR_OTHERS: ~aside & ~unasked,
        OTHER_THREADS: aside & ~unasked,
        FOR_NONE_OF_THESE: ~aside & unasked,
        MEANWHILE: aside & unasked,
    }
    return +Counter({
        reason: int(np.count_nonzero(~part & some)) for reason, some in reasons.items()
    })  # fmt: skip


def take_unasked(left_out: Counter[str]) -> dict[str, int]:
    """Takes out what those did whom nobody asked for, by reason: of those who were, it is none."""
    reasons = [reason for reason in OF_UNASKED if reason in left_out]
    return {reason: left_out.pop(reason) for reason in reasons}


def by_the_unasked(made: Mapping[str, int], op: Op) -> Iterator[NotObserved]:
    """A line for what those made durable, or read, for none of the analysed."""
    if made:
        told = ", ".join(f"{count} {reason}" for reason, count in made.items())
        what = (
            f"{sum(made.values())} more {op.word}s of theirs, in no count here as they are "
            f"recorded for what they serve: {told}"
        )
        yield NotObserved("daemons", what, "")


def _unasked(trace: Trace) -> Ints:
    """The daemons of file systems that are recorded only as somebody recorded asked them.

    Of one that a name or a control group chose, too, that is not told if it did nothing else.
    """
    daemons, asked = (processes_of(trace, kind) for kind in (THREAD_FUSE, THREAD_TARGET))
    return daemons[:0] if of_all(trace.env) else daemons[~one_of(daemons, asked)]


def _touched(graph: Graph, trace: Trace, begin_ns: Ints, end_ns: Ints) -> NDArray[np.bool_]:
    """Which of the given times a loss on this machine, or on one below it, may fall into."""
    touched = np.zeros(len(begin_ns), np.bool_)
    for one, begin, end in below(graph, trace, begin_ns, end_ns, widened=True):
        touched |= one.losses.touch(_since(one, begin) if len(one.losses) else begin, end)
    return touched


def _beside_losses(graph: Graph, trace: Trace, begin_ns: Ints, end_ns: Ints) -> NDArray[np.bool_]:
    """Which of the given times are within the reach of a loss on this machine, or on one below."""
    reached = np.zeros(len(begin_ns), np.bool_)
    for one, begin, end in below(graph, trace, begin_ns, end_ns, widened=True):
        if len(one.losses):
            reach = reach_of(one)
            reached |= meets(_since(one, begin), end, reach.begins - 1, reach.ends + 1)
    return reached


def _cut(trace: Trace, units: Units) -> NDArray[np.bool_]:
    """Which of the units may end with a call that a loss has."""
    cut = np.zeros(len(units), np.bool_)
    rows = np.flatnonzero(units.engine == ENGINES.index("io_uring:"))
    if len(trace.losses) and len(rows):
        cut[rows] = may_return_in_loss(trace, units.tid[rows], units.end_ns[rows])
    return cut


def sides_of(graph: Graph, trace: Trace, pieces: Pieces) -> Ints | None:
    """Of each of a machine's pieces, how many losses had begun before it, and how many were over,
    there and on those below; None: there were none at all. What began with one number is between
    two, or in one.
    """
    begun = [
        one.losses.begun_by(begin) + one.losses.over_by(begin)
        for one, begin, _ in below(graph, trace, pieces.begin_ns, pieces.end_ns, widened=True)
        if len(one.losses)
    ]
    return np.sum(begun, axis=0) if begun else None


def _since(trace: Trace, begin_ns: Ints) -> Ints:
    """When the oldest commit began that was under way then: what is not known of it would be in
    its own rows, of whoever waits for its end."""
    commits = commits_of(trace)
    order = order_of(commits.begin_ns)
    begun = np.append(commits.begin_ns[order], NEVER)
    # The first of those that reach so far is the oldest.
    reach = np.maximum.accumulate(commits.end_ns[order])
    since: Ints = np.minimum(begin_ns, begun[np.searchsorted(reach, begin_ns, side="right")])
    return since


def below(
    graph: Graph, trace: Trace, begin_ns: Ints, end_ns: Ints, *, widened: bool = False
) -> Iterator[tuple[Trace, Ints, Ints]]:
    """Times of a machine on it and on each below it; ``widened``: by what the clocks may be off."""
    times = {trace.machine: (begin_ns, end_ns)}
    left = [trace]
    for one in left:
        begin, end = times[one.machine]
        yield one, begin, end
        for link in graph.links_of(one):
            if link.lower.trace.machine not in times:
                left.append(link.lower.trace)
                bound, down = link.clock.bound_ns if widened else 0, link.clock.to_lower
                times[link.lower.trace.machine] = down(begin - bound), down(end + bound)


def _unseen(
    graph: Graph, trace: Trace, begin_ns: Ints, end_ns: Ints
) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """By machine, which of the given times hold something asked of it that it has no trace of."""
    for one, begin, end in below(graph, trace, begin_ns, end_ns):
        for link in graph.links_of(one):
            row = unseen_asks(link)
            unseen = meets(begin, end, link.asks.begin_ns[row], link.asks.end_ns[row])
            yield f"not observed on {link.lower.trace.machine}", unseen


def unseen_asks(link: Link) -> Ints:
    """What was asked of a machine before its trace begins, or not answered before it ends."""
    first, last = bounds_of(link)
    beyond = link.asks.end_ns > last
    beyond[link.pairs.ask] = False
    # What is told at its end may be there, without all that went on in it before.
    beyond |= link.asks.begin_ns < first
    return np.flatnonzero(beyond & link.pairs.crossing)


def bounds_of(link: Link) -> tuple[int, int]:
    """When the lower machine's trace begins and ends, by the upper one's clock."""
    lower = link.lower.trace
    first, last = link.clock.to_upper(np.array([lower.begin_ns, lower.end_ns])).tolist()
    return first, last
