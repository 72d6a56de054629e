# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: calls and requests in, synchronous writes and their pieces out.

A synchronous write is one write that returns only when it is durable, or one sync
together with the plain writes that its own thread made within its scope and that
were not durable when it began. Asynchronous requests are pieces of their own: they
overlap freely, so that no other request's time belongs to one.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np

from iostrata.columns import (
    Ints,
    at,
    changes,
    columns_of,
    distinct,
    joined,
    numbers,
    one_of,
    order_of,
)
from iostrata.stitch.calls import (
    NO_SYNC,
    PLAIN,
    Operations,
    Pieces,
    Units,
    operations_of_calls,
)
from iostrata.stitch.cut import cut_short
from iostrata.stitch.durability import NOBODY, RANGE, Durability, Synced, Written, durability
from iostrata.stitch.submissions import begun_before, operations_of_requests, submissions_of
from iostrata.trace import Trace
from iostrata.trace.layout import THREAD_LIBRBD, THREAD_VMM

NO_END: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Accounted:
    """``units``: synchronous writes; ``pieces``: theirs. ``for_others``: what processes that
    serve others made durable, or wrote so. ``cut``: how many calls and requests that make durable
    did not end here, or began before, by reason; ``plain``: how many writes nobody
    synchronised."""

    units: Units
    pieces: Pieces
    for_others: Operations
    cut: Counter[str]
    plain: int


def units_of(trace: Trace) -> Accounted:
    """Synchronous writes and their pieces."""
    others = serving(trace)
    submissions = submissions_of(trace)
    own = ~one_of(submissions.tgid, others)
    requests, unfinished = operations_of_requests(trace, submissions.rows(np.flatnonzero(own)))
    parts = [operations_of_calls(trace, "syscall"), requests]
    if not own.all():
        parts.append(operations_of_requests(trace, submissions.rows(np.flatnonzero(~own)))[0])
    done = Operations(**joined(parts))
    own = ~one_of(done.tgid, others)
    units, pieces, plain = account(done.where(own))
    for_others = done.rows(np.flatnonzero(~own & (done.method != PLAIN) & ~done.failed))
    cut = operations_of_calls(trace, "syscall_cut")
    cut = cut.where((cut.method != PLAIN) & ~one_of(cut.tgid, others))
    begun = begun_before(trace)
    since = np.append(cut.begin_ns, np.zeros(np.count_nonzero(~one_of(begun, others)), np.int64))
    return Accounted(units, pieces, for_others, cut_short(since) + unfinished, plain)


def serving(trace: Trace) -> Ints:
    """The processes that serve other machines: what they write is those machines'."""
    threads = columns_of(trace.points["thread"], "tgid", "kind")
    others = (threads["kind"] >= THREAD_VMM) & (threads["kind"] != THREAD_LIBRBD)
    return distinct(threads["tgid"][others])


def processes_of(trace: Trace, kind: int, name: bytes = b"") -> Ints:
    """Those whose threads were recorded as of that kind, and have that name if one is given.

    Their threads may have names of their own, and the first one need not be recorded.
    """
    threads = trace.points["thread"]
    columns = columns_of(threads, "tgid", "kind")
    mine = columns["kind"] == kind
    if name:
        named = threads["comm"] == name
        if "process" in threads.fields:
            named |= threads["process"] == name
        mine &= named
    return distinct(columns["tgid"][mine])


def account(done: Operations) -> tuple[Units, Pieces, int]:
    """Operations as synchronous writes and their pieces, and how many are neither."""
    plain = np.flatnonzero((done.method == PLAIN) & ~done.failed & (done.size_bytes > 0))
    syncs = np.flatnonzero((done.scope != NO_SYNC) & ~done.failed)
    found = _durability(done, plain, syncs)
    rows = np.flatnonzero(done.method != PLAIN)
    unit_of = np.full(len(done), -1)
    unit_of[rows] = np.arange(len(rows))
    unit_of[plain] = at(unit_of[syncs], found.caller)
    pieces = np.flatnonzero(unit_of >= 0)
    pieces = pieces[order_of(unit_of[pieces])]
    first = np.flatnonzero(changes(unit_of[pieces]))
    took = (done.end_ns - done.begin_ns)[pieces]
    size = np.where(done.scope == NO_SYNC, np.where(done.failed, 0, done.size_bytes), 0)
    size[syncs] = found.size_bytes
    writes = (done.scope == NO_SYNC).astype(np.int64)
    writes[syncs] = found.count
    begins = pieces[first]
    since = done.begin_ns.copy()
    since[syncs] = found.since_ns
    units = Units(
        begin_ns=done.begin_ns[begins],
        end_ns=done.end_ns[rows],
        latency_ns=np.add.reduceat(took, first) if len(first) else took,
        tid=done.tid[rows],
        tgid=done.tgid[rows],
        size_bytes=size[rows],
        durable_writes=writes[rows],
        pieces=np.bincount(unit_of[pieces], minlength=len(rows)),
        device_key=done.device_key[rows],
        inode=done.inode[rows],
        offset_bytes=done.offset_bytes[begins],
        method=done.method[rows],
        engine=done.engine[rows],
        failed=done.failed[rows],
        since_ns=since[rows],
    )
    return (
        units,
        Pieces(
            unit_of[pieces], done.tid[pieces], done.begin_ns[pieces], done.end_ns[pieces],
            done.device_key[pieces], done.request_key[pieces],
        ),
        int(np.count_nonzero(found.by < 0)),
    )  # fmt: skip


def _told_apart(number: Ints, *others: Ints) -> Ints:
    """What has a number, by other columns, too: mostly they tell no more, and are not sorted."""
    for other in others:
        last = np.zeros(int(number.max(initial=-1)) + 1, np.int64)
        last[number] = other
        if not np.array_equal(last[number], other):
            number = numbers(number, other)
    return number


def _files(done: Operations) -> Ints:
    """The number of each one's file: what takes a deleted one's inode is another.

    Where one of an inode's does not tell its file's generation, all of them are of one file.
    """
    inode = _told_apart(numbers(done.inode), done.device_key)
    silent = np.zeros(len(inode), np.bool_)
    silent[inode[done.generation == 0]] = True
    return _told_apart(inode, np.where(silent[inode], 0, done.generation))


def _durability(done: Operations, plain: Ints, syncs: Ints) -> Durability:
    thread = _told_apart(numbers(done.tid), done.tgid, done.birth)
    agent = np.where(done.request_key == 0, thread, NOBODY)
    file = _files(done)
    low, scope, length = done.offset_bytes[plain], done.scope[syncs], done.size_bytes[syncs]
    begin = np.maximum(done.offset_bytes[syncs], 0)
    to_the_end = (scope == RANGE) & (length == 0)
    return durability(
        Written(
            done.effect_ns[plain], agent[plain], done.device_key[plain], file[plain],
            low, np.maximum(low, 0) + done.size_bytes[plain],
        ),
        Synced(
            done.effect_ns[syncs], done.end_ns[syncs], agent[syncs], scope,
            done.device_key[syncs], file[syncs], begin,
            np.where(to_the_end, NO_END, begin + length),
        ),
    )  # fmt: skip
