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

from iostrata import native
from iostrata.columns import (
    Ints,
    at,
    changes,
    columns_of,
    constant,
    distinct,
    joined,
    numbers,
    one_of,
    order_of,
    taken,
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
from iostrata.stitch.durability import NOBODY, Durability, Made, durability
from iostrata.stitch.submissions import begun_before, operations_of_requests, submissions_of
from iostrata.trace import Trace
from iostrata.trace.layout import THREAD_LIBRBD, THREAD_VMM

ALIKE: Final = ("tid", "tgid", "device_key", "inode", "engine")
OF_PIECES: Final = ("tid", "begin_ns", "end_ns", "device_key", "request_key")


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


def units_of(trace: Trace, jobs: int = 1) -> Accounted:
    """Synchronous writes and their pieces. ``jobs``: calls are looked at by so many threads."""
    others = servers_of(trace)
    submissions = submissions_of(trace)
    own = ~one_of(submissions.tgid, others)
    requests, unfinished = operations_of_requests(trace, submissions.rows(np.flatnonzero(own)))
    parts = [operations_of_calls(trace, "syscall", jobs), requests]
    if not own.all():
        parts.append(operations_of_requests(trace, submissions.rows(np.flatnonzero(~own)))[0])
    done = Operations(**joined(parts))
    own = ~one_of(done.tgid, others)
    units, pieces, plain = account(done.where(own))
    for_others = done.rows(np.flatnonzero(~own & (done.method != PLAIN) & ~done.failed))
    cut = operations_of_calls(trace, "syscall_cut")
    cut = cut.where((cut.method != PLAIN) & ~one_of(cut.tgid, others))
    begun = int(np.count_nonzero(~one_of(begun_before(trace), others)))
    short = cut_short(trace, cut.begin_ns, cut.end_ns, cut.failed, begun) + unfinished
    return Accounted(units, pieces, for_others, short, plain)


def servers_of(trace: Trace) -> Ints:
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


def members_of(trace: Trace, processes: Ints) -> Ints:
    """The threads of processes: as they are told of or, where a loss may have that, make calls."""
    told = [columns_of(trace.points["thread"], "subject_tid", "tgid")]
    if len(trace.losses):
        calls = columns_of(trace.points["syscall"], "tid", "tgid")
        told.append({"subject_tid": calls["tid"], "tgid": calls["tgid"]})
    found = [threads["subject_tid"][one_of(threads["tgid"], processes)] for threads in told]
    return distinct(np.concatenate(found))


def account(done: Operations) -> tuple[Units, Pieces, int]:
    """Operations as synchronous writes and their pieces, and how many are neither."""
    plain = np.flatnonzero((done.method == PLAIN) & ~done.failed & (done.size_bytes > 0))
    syncs = np.flatnonzero((done.scope != NO_SYNC) & ~done.failed)
    found = durability(_made(done), plain, syncs)
    neither = len(plain) - int(found.count.sum())
    if native.LIBRARY is None:
        return *_account(done, plain, syncs, found), neither
    # Room for what they come to.
    del plain, syncs
    units, pieces = native.account(
        vars(done),
        found.caller,
        (found.size_bytes, found.count, found.since_ns),
        int(np.count_nonzero(done.method != PLAIN)),
    )
    return Units(**units), Pieces(**pieces), neither


def _account(done: Operations, plain: Ints, syncs: Ints, found: Durability) -> tuple[Units, Pieces]:
    rows = np.flatnonzero(done.method != PLAIN)
    unit_of = np.full(len(done), -1)
    unit_of[rows] = np.arange(len(rows))
    synced = unit_of[syncs]
    unit_of[plain] = at(synced, found.caller)
    pieces = np.flatnonzero(unit_of >= 0)
    unit = unit_of[pieces]
    order = order_of(unit)
    pieces, unit = pieces[order], unit[order]
    first = np.flatnonzero(changes(unit))
    begin_ns, end_ns, since = done.begin_ns[pieces], done.end_ns[pieces], done.begin_ns[rows]
    # What each unit is by itself; and what it made durable, where it is a sync.
    size, failed = done.size_bytes[rows], done.failed[rows]
    writes = (done.scope[rows] == NO_SYNC).astype(np.int64)
    size[failed | (writes == 0)] = 0
    size[synced], writes[synced], since[synced] = found.size_bytes, found.count, found.since_ns
    units = Units(
        begin_ns=begin_ns[first],
        end_ns=done.end_ns[rows],
        latency_ns=np.add.reduceat(end_ns - begin_ns, first) if len(first) else begin_ns,
        size_bytes=size,
        durable_writes=writes,
        pieces=np.diff(first, append=len(unit)),
        offset_bytes=done.offset_bytes[pieces[first]],
        method=done.method[rows].astype(np.int64),
        failed=failed,
        since_ns=since,
        **{name: taken(getattr(done, name), rows) for name in ALIKE},
    )
    return units, Pieces(unit, *(taken(getattr(done, name), pieces) for name in OF_PIECES))


def _told_apart(*columns: Ints) -> Ints:
    """The same number for rows that are alike in all of them."""
    several = [column for column in columns if not constant(column)]
    if not several:
        return np.broadcast_to(np.int64(0), len(columns[0]))
    return numbers(*several) if native.LIBRARY is None else native.numbered(several)


def _files(done: Operations) -> Ints:
    """The number of each one's file: what takes a deleted one's inode is another.

    Where one of an inode's does not tell its file's generation, all of them are of one file.
    """
    inode = _told_apart(done.inode, done.device_key)
    if constant(done.generation):
        return inode
    silent = np.zeros(len(inode), np.bool_)
    silent[inode[done.generation == 0]] = True
    return _told_apart(inode, np.where(silent[inode], 0, done.generation))


def _made(done: Operations) -> Made:
    thread, file = _told_apart(done.tid, done.tgid, done.birth), _files(done)
    if done.request_key.any():
        thread = np.where(done.request_key != 0, NOBODY, thread)
    return Made(
        done.effect_ns, done.end_ns, thread, done.device_key, file, done.offset_bytes,
        done.size_bytes, done.scope,
    )  # fmt: skip
