# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: calls and requests in, those that read, or pass the page cache by, out.

Each is a unit of its own, from its begin to its end as the caller sees them.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Containing, Ints, at, columns_of, joined, one_of, pair_key
from iostrata.stitch.account import servers_of
from iostrata.stitch.calls import ENTERED, METHOD, Pieces, Reads, Units, are_direct
from iostrata.stitch.cut import cut_short
from iostrata.stitch.pages import OF_FILE
from iostrata.stitch.requests import reads_data
from iostrata.stitch.submissions import (
    LIBAIO,
    Submissions,
    submissions_of,
    transfers_begun_before,
    unfinished_of,
)
from iostrata.trace import Trace
from iostrata.trace.layout import (
    CALL_FAULT,
    CALL_PREADV2,
    CALL_PWRITEV2,
    CALL_READ,
    CALL_WRITE,
    NFS_READ,
    THREAD_TARGET,
)

OPEN_OF_DEVICE: Final = 0x40000000
"""Of the recorder: a block device's node (events.h)."""
ACCESS: Final = 3
WRITE_ONLY: Final = 1
"""Of f_flags (O_ACCMODE, O_WRONLY)."""
AT_THE_END: Final = "nothing left to read: the file's end"
IN_A_BATCH: Final = "by libaio through the page cache, several with one call: not told apart"


@dataclass(frozen=True, eq=False)
class Transfers:
    """Calls and asynchronous requests that read or write, and faults: one row each.

    ``request_key``: 0 of a call. ``fault``: of a page of a mapped file, which is read for it.
    ``end_ns`` -1: not seen. ``direct``: past the page cache. ``batched``: one of several that went
    with one call of libaio.
    """

    begin_ns: Ints
    end_ns: Ints
    tid: Ints
    tgid: Ints
    device_key: Ints
    inode: Ints
    open_flags: Ints
    offset_bytes: Ints
    result: Ints
    engine: Ints
    request_key: Ints
    read: NDArray[np.bool_]
    fault: NDArray[np.bool_]
    direct: NDArray[np.bool_]
    batched: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.tid)

    def where(self, keep: NDArray[np.bool_]) -> Transfers:
        rows = np.flatnonzero(keep)
        return Transfers(**{name: column[rows] for name, column in vars(self).items()})


@dataclass(frozen=True, eq=False)
class Transferred:
    """``units``: transfers; ``pieces``, ``reads``: theirs. ``none``: how much is none of them, or
    has one end only here, by reason. ``for_others``: those of processes that serve others."""

    units: Units
    pieces: Pieces
    reads: Reads
    none: Counter[str]
    for_others: Transfers


def reads_of(trace: Trace, guests: Ints | None = None) -> Transferred:
    """Whatever read a file, or failed to; ``guests``: for guests, by these processes."""
    found, cut, others = _transfers(trace, guests)
    found, others = found.where(found.read), others.where(others.read)
    batched = ~found.direct & found.batched
    none = Counter({IN_A_BATCH: int(np.count_nonzero(batched))})
    begun = transfers_begun_before(trace, lambda _, reads: reads)
    none += _cut(trace, cut.where(cut.read), begun, guests)
    return _transferred(trace, found.where(~batched), others, none)


def direct_of(trace: Trace, guests: Ints | None = None) -> Transferred:
    """Whatever passed the page cache by (O_DIRECT), reading or writing; ``guests``: as above."""
    found, cut, others = _transfers(trace, guests)
    found, others = found.where(found.direct), others.where(others.direct)
    begun = transfers_begun_before(trace, lambda flags, _: are_direct(trace, flags))
    none = _cut(trace, cut.where(cut.direct), begun, guests)
    return _transferred(trace, found, others, none)


def may_be_disk(open_flags: Ints) -> NDArray[np.bool_]:
    """A disk is read, too: a console's log, or a program's, is opened to write to it alone."""
    may_be: NDArray[np.bool_] = (open_flags & ACCESS) != WRITE_ONLY
    return may_be


def _cut(trace: Trace, cut: Transfers, begun: Ints, guests: Ints | None) -> Counter[str]:
    """How many calls and requests begin or end beyond the trace; ``begun``: requests' processes."""
    requests = int(np.count_nonzero(_mine(trace, begun, guests)))
    return cut_short(trace, cut.begin_ns, cut.end_ns, cut.result < 0, requests)


def _mine(trace: Trace, tgid: Ints, guests: Ints | None) -> NDArray[np.bool_]:
    """Which processes do it for the machine itself, or for its guests."""
    return ~one_of(tgid, servers_of(trace)) if guests is None else one_of(tgid, guests)


def _transferred(
    trace: Trace, found: Transfers, others: Transfers, none: Counter[str]
) -> Transferred:
    requests = found.where(found.engine > 0)
    none += unfinished_of(trace, requests, requests.request_key, requests.end_ns < 0)
    found = found.where(found.end_ns >= 0)
    nothing = found.read & (found.result == 0)
    none += Counter({AT_THE_END: int(np.count_nonzero(nothing))})
    # What wrote nothing, as nothing was asked for, is no write.
    found = found.where(found.result != 0)
    zero, one = np.zeros(len(found.tid), np.int64), np.ones(len(found.tid), np.int64)
    method = np.where(found.direct, METHOD["read_direct"], METHOD["read"])
    method = np.where(found.fault, METHOD["fault"], method)
    size = np.maximum(found.result, 0)
    units = Units(
        begin_ns=found.begin_ns,
        end_ns=found.end_ns,
        latency_ns=found.end_ns - found.begin_ns,
        tid=found.tid,
        tgid=found.tgid,
        size_bytes=size,
        durable_writes=zero,
        pieces=one,
        device_key=found.device_key,
        inode=found.inode,
        offset_bytes=found.offset_bytes,
        method=np.where(found.read, method, METHOD["write_direct"]),
        engine=found.engine,
        failed=found.result < 0,
        since_ns=found.begin_ns,
    )
    pieces = Pieces(
        np.arange(len(zero)), found.tid, found.begin_ns, found.end_ns, found.device_key,
        found.request_key,
    )  # fmt: skip
    inode = np.where((found.open_flags & OPEN_OF_DEVICE) != 0, 0, found.inode)
    reads = Reads(
        found.device_key, inode, found.offset_bytes, size, found.direct, longest_read(trace)
    )
    others = others.where((others.end_ns >= 0) & (others.result > 0))
    return Transferred(units, pieces, reads, none, others)


def _transfers(trace: Trace, guests: Ints | None) -> tuple[Transfers, Transfers, Transfers]:
    """Also what has one end only; and what processes that serve others did for none of these."""
    found = Transfers(**joined([_of_calls(trace, "syscall"), _of_requests(trace)]))
    cut = _of_calls(trace, "syscall_cut")
    if guests is not None:
        found, cut = (one.where(may_be_disk(one.open_flags)) for one in (found, cut))
    own = _mine(trace, found.tgid, guests)
    others = found.where(~own & one_of(found.tgid, servers_of(trace)))
    return found.where(own), cut.where(_mine(trace, cut.tgid, guests)), others


def _of_calls(trace: Trace, point: str) -> Transfers:
    calls = columns_of(
        trace.points[point], "enter_ns", "call", "tid", "tgid", "dev", "inode", "open_flags",
        "result", "offset_bytes",
    )  # fmt: skip
    fault = calls["call"] == CALL_FAULT
    read = (calls["call"] >= CALL_READ) & (calls["call"] <= CALL_PREADV2) | fault
    writes = (calls["call"] >= CALL_WRITE) & (calls["call"] <= CALL_PWRITEV2)
    zero = np.zeros(len(read), np.int64)
    return Transfers(
        begin_ns=calls["enter_ns"],
        end_ns=calls["time_ns"],
        tid=calls["tid"],
        tgid=calls["tgid"],
        device_key=calls["dev"],
        inode=calls["inode"],
        open_flags=calls["open_flags"],
        offset_bytes=calls["offset_bytes"],
        result=calls["result"],
        engine=zero,
        request_key=zero,
        read=read,
        fault=fault,
        direct=are_direct(trace, calls["open_flags"]),
        batched=zero > 0,
    ).where(read | writes)


def _of_requests(trace: Trace) -> Transfers:
    found = submissions_of(trace, reads=True)
    return Transfers(
        begin_ns=found.begin_ns,
        end_ns=found.end_ns,
        tid=found.tid,
        tgid=found.tgid,
        device_key=found.device_key,
        inode=found.inode,
        open_flags=found.open_flags,
        offset_bytes=found.offset_bytes,
        result=found.result,
        engine=found.engine,
        request_key=found.key,
        read=found.read,
        fault=np.zeros(len(found.read), np.bool_),
        direct=are_direct(trace, found.open_flags),
        batched=_batched(found),
    ).where(~found.flush)


def _batched(found: Submissions) -> NDArray[np.bool_]:
    call = pair_key(found.tid, found.begin_ns)
    _, row, count = np.unique(call, return_inverse=True, return_counts=True)
    batched: NDArray[np.bool_] = (found.engine == LIBAIO) & (count[row] > 1)
    return batched


def read_outside(trace: Trace) -> tuple[int, int]:
    """What threads of the workload asked a disk or a server for of files' pages, in none of their
    calls that are recorded: how many bios and READ calls, and bytes."""
    bios = columns_of(trace.points[OF_FILE], "tid", "size_bytes")
    called = columns_of(trace.points["nfs_call"], "tid", "size_bytes", "operation")
    reads = np.flatnonzero(called.pop("operation") == NFS_READ)
    told = {name: np.concatenate([bios[name], called[name][reads]]) for name in bios}
    threads = columns_of(trace.points["thread"], "subject_tid", "kind")
    own = threads["subject_tid"][threads["kind"] == THREAD_TARGET]
    outside = one_of(told["tid"], own)
    for point in ENTERED:
        calls = columns_of(trace.points[point], "tid", "enter_ns")
        during = Containing(calls["tid"], calls["enter_ns"], calls["time_ns"])
        outside &= during.find(told["tid"], told["time_ns"]) < 0
    return int(np.count_nonzero(outside)), int(told["size_bytes"][outside].sum())


def longest_read(trace: Trace) -> int:
    """The longest life of a bio that reads a file's data, ns."""
    queued = columns_of(trace.points["block_bio_queue"], "bio_key", "flags")
    ends = [
        columns_of(trace.points[point], "bio_key")
        for point in ("block_rq_complete", "block_bio_complete")
    ]
    done = {name: np.concatenate([one[name] for one in ends]) for name in ("time_ns", "bio_key")}
    begin, until = queued["time_ns"], AsOf(queued["bio_key"], queued["time_ns"]).following()
    found = AsOf(done["bio_key"], done["time_ns"]).at_or_after(queued["bio_key"], begin)
    end = at(done["time_ns"], found)
    mine = reads_data(queued["flags"]) & (end >= 0) & (end < until)
    return int((end - begin)[mine].max(initial=0))
