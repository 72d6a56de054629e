# SPDX-License-Identifier: Apache-2.0
"""Stage stitch, first step: system calls in, what they write and make durable out.

Flags as in Linux's uapi asm-generic/fcntl.h, linux/fs.h and asm-generic/mman-common.h.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from iostrata import native
from iostrata.columns import (
    AsOf,
    Ints,
    are_all,
    at,
    columns_of,
    distinct,
    in_order,
    one_of,
    taken,
)
from iostrata.crew import by_threads
from iostrata.stitch.allocating import durable_allocations, durable_cuts
from iostrata.stitch.durability import ALL, FILE, FILE_SYSTEM, RANGE, Codes
from iostrata.stitch.filled import Filled
from iostrata.trace import Points, Trace
from iostrata.trace.layout import (
    CALL_CLONE,
    CALL_COPY_FILE_RANGE,
    CALL_FALLOCATE,
    CALL_FDATASYNC,
    CALL_FSYNC,
    CALL_FTRUNCATE,
    CALL_MSYNC,
    CALL_PWRITEV2,
    CALL_SENDFILE,
    CALL_SPLICE,
    CALL_SYNC,
    CALL_SYNC_FILE_RANGE,
    CALL_SYNCFS,
    CALL_WRITE,
)

O_DSYNC: Final = 0o10000
O_SYNC_ONLY: Final = 0o4000000
# What programs for this processor are told by their system's headers (asm/fcntl.h).
O_DIRECT: Final = {"aarch64": 0o200000}
O_DIRECT_ELSEWHERE: Final = 0o40000
OPEN_OF_SYNC_INODE: Final = 0x80000000
"""Of the recorder: the file is synchronous by its mount, or by an attribute (events.h)."""
RWF_DSYNC: Final = 0x2
RWF_SYNC: Final = 0x4
OF_FILES: Final = O_DSYNC | O_SYNC_ONLY | OPEN_OF_SYNC_INODE
OF_WRITES: Final = RWF_DSYNC | RWF_SYNC
"""Flags that make writes durable, of all those of a file, and of their own."""
O_APPEND: Final = 0o2000
RWF_APPEND: Final = 0x10
RWF_NOAPPEND: Final = 0x20
RWF_OF_GROWING: Final = 0x1
"""Of the recorder, in ftruncate's rwf: its file becomes larger (events.h)."""
SYNC_FILE_RANGE_WAITS: Final = 0x1 | 0x4

METHODS: Final = (
    "open_datasync",
    "fdatasync",
    "fsync",
    "open_sync",
    "sync_file_range",
    "msync",
    "write",
    "flush",
    "sync",
    "syncfs",
    "sync_inode",
    "read",
    "read_direct",
    "write_direct",
    "tables",
    "fault",
)
METHOD: Final = {name: code for code, name in enumerate(METHODS)}
# Prefix of the method, by engine; behind these come those of what machines do for others.
ENGINES: Final = ("", "io_uring:", "libaio:")
PLAIN: Final = -1
EVERY_DEVICE: Final = -1
NO_SYNC: Final = -1

AT_ONCE: Final = 1 << 14
ENTERED: Final = ("syscall", "aio_submit")
"""Points that tell of a thread's calls, from ``enter_ns`` on; io_submit with its blocks only."""
# What of calls is looked at, and what of operations comes of it: one byte is enough for some.
FIELDS: Final = (
    "enter_ns", "call", "tid", "tgid", "dev", "inode", "open_flags", "rwf", "result",
    "offset_bytes", "size_bytes",
)  # fmt: skip
OF_CALLS: Final = (
    "begin_ns", "end_ns", "effect_ns", "tid", "tgid", "device_key", "inode", "offset_bytes",
    "size_bytes", "method", "scope", "failed", "birth",
)  # fmt: skip
NOTHING: Final = ("engine", "request_key", "generation", "birth")
KINDS: Final[Mapping[str, np.dtype[Any]]] = {
    "method": np.dtype(np.int8),
    "scope": np.dtype(np.int8),
    "failed": np.dtype(np.bool_),
}

# Of each call that makes durable: its method, and its scope.
_SYNCS: Final = {
    CALL_FSYNC: (METHOD["fsync"], FILE),
    CALL_FDATASYNC: (METHOD["fdatasync"], FILE),
    CALL_SYNC_FILE_RANGE: (METHOD["sync_file_range"], RANGE),
    CALL_MSYNC: (METHOD["msync"], RANGE),
    CALL_SYNCFS: (METHOD["syncfs"], FILE_SYSTEM),
    CALL_SYNC: (METHOD["sync"], ALL),
}


@dataclass(frozen=True, eq=False)
class Units:
    """Synchronous writes as their callers see them; one row each, unordered.

    ``method``: code into ``METHODS``. ``engine``: code into ``ENGINES``.
    ``size_bytes``, ``durable_writes``: what it made durable, by whomever it was
    written; ``pieces``: the caller's own calls. ``failed``: the call returned an error.
    ``since_ns``: from when on what others wrote is counted with it; not before its begin but
    of a sync.
    """

    begin_ns: Ints
    end_ns: Ints
    latency_ns: Ints
    tid: Ints
    tgid: Ints
    size_bytes: Ints
    durable_writes: Ints
    pieces: Ints
    device_key: Ints
    inode: Ints
    offset_bytes: Ints
    method: Ints
    engine: Ints
    failed: NDArray[np.bool_]
    since_ns: Ints

    def __len__(self) -> int:
        return len(self.begin_ns)

    def rows(self, rows: Ints) -> Units:
        """Some of them, in the order of ``rows``; of all, as they are, nothing is copied."""
        if are_all(rows, len(self)):
            return self
        return Units(**{name: taken(column, rows) for name, column in vars(self).items()})


@dataclass(frozen=True, eq=False)
class Pieces:
    """What the units consist of: row of the unit, thread, begin and end, file's device.

    ``device_key``: ``EVERY_DEVICE`` of sync(2). ``request_key``: 0 for a system call;
    of an asynchronous request, its key.
    """

    unit: Ints
    tid: Ints
    begin_ns: Ints
    end_ns: Ints
    device_key: Ints
    request_key: Ints

    def __len__(self) -> int:
        return len(self.unit)

    def rows(self, rows: Ints) -> Pieces:
        """Some of the pieces, in the order of ``rows``."""
        return Pieces(*(getattr(self, column.name)[rows] for column in fields(self)))

    @cached_property
    def begins_ns(self) -> Ints:
        """When they began, in order."""
        return in_order(self.begin_ns)

    @cached_property
    def ends_ns(self) -> Ints:
        """When they ended, in order."""
        return in_order(self.end_ns)


FILE_UNKNOWN: Final = -1


@dataclass(frozen=True, eq=False)
class Reads:
    """What of its file each piece read, where pieces are reads; rows as of the pieces.

    ``device_key``: of the file, ``FILE_UNKNOWN``: it is not known which it is. ``inode`` 0: a block
    device's node. ``offset_bytes`` -1: not known. ``size_bytes`` 0: it is no read, or one that
    failed. ``direct``: past the page cache (O_DIRECT). ``reach_ns``: no bio takes longer that any
    may wait for.
    """

    device_key: Ints
    inode: Ints
    offset_bytes: Ints
    size_bytes: Ints
    direct: NDArray[np.bool_]
    reach_ns: int

    def rows(self, rows: Ints) -> Reads:
        """Of some of the pieces, in the order of ``rows``."""
        return Reads(
            self.device_key[rows], self.inode[rows], self.offset_bytes[rows],
            self.size_bytes[rows], self.direct[rows], self.reach_ns,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Operations:
    """Calls and asynchronous requests that write or make durable: one row each.

    ``method``: code into ``METHODS``, ``PLAIN``: a write that nothing makes durable by
    itself. ``scope``: of a sync, of ``durability``; ``NO_SYNC``: a write. ``offset_bytes``
    -1: not known. ``size_bytes``: written; of a sync, the length of its range, 0: to the
    end. ``request_key``: 0 of a call. Threads' calls come in order of time. ``effect_ns``: of a
    write, from when on a sync finds it; of a sync, when it looks. ``generation``: of the file that
    has this inode, 0: not known. ``birth``: of the thread that has this ``tid``, 0: not known.
    """

    begin_ns: Ints
    end_ns: Ints
    effect_ns: Ints
    tid: Ints
    tgid: Ints
    device_key: Ints
    inode: Ints
    offset_bytes: Ints
    size_bytes: Ints
    method: Codes
    engine: Ints
    scope: Codes
    failed: NDArray[np.bool_]
    request_key: Ints
    generation: Ints
    birth: Ints

    def __len__(self) -> int:
        return len(self.begin_ns)

    def rows(self, rows: Ints) -> Operations:
        return Operations(**{name: column[rows] for name, column in vars(self).items()})

    def where(self, keep: NDArray[np.bool_]) -> Operations:
        """Mostly all of them: then nothing is copied."""
        return self if keep.all() else self.rows(np.flatnonzero(keep))


def operations_of_calls(trace: Trace, point: str, jobs: int = 1) -> Operations:
    """What was written, or made durable, by system calls; what failed of that, too.

    ``jobs``: looked at by so many threads.
    """
    calls = trace.points[point]
    later = tuple({"generation"} & set(calls.fields))
    kinds = {name: KINDS.get(name, np.dtype(np.int64)) for name in (*OF_CALLS, *later)}
    births, sharing = _Births(trace.points["thread"]), _Sharing(trace.points["btrfs_sync_file"])
    if not len(births.again):
        del kinds["birth"]
    found = Filled(kinds, len(calls))

    def fill(begin: int) -> None:
        columns = calls.integers(*FIELDS, *later, begin=begin, end=begin + AT_ONCE)
        if native.LIBRARY is not None and "birth" not in kinds:
            into = found.room(len(columns["call"]))
            count = native.operations(columns, into, _common())
            if count is not None:
                found.put(begin, {name: column[:count] for name, column in into.items()})
                return
        some = _operations(trace, columns, sharing)
        if "birth" in kinds:
            some["birth"] = births.at(columns["tid"], columns["time_ns"])
        kept = some.pop("kept")
        found.put(begin, {name: some[name] if kept.all() else some[name][kept] for name in kinds})

    # Some at a time: what a few thousand come to stays in a core's own cache.
    by_threads(fill, range(0, len(calls), AT_ONCE), jobs)
    done = found.columns()
    end = len(done["begin_ns"])
    return Operations(**{name: np.broadcast_to(np.int64(0), end) for name in NOTHING} | done)


@cache
def _common() -> native.Common:
    """The calls of which their own columns tell all."""
    writes = range(CALL_WRITE, CALL_PWRITEV2 + 1)
    rare = (CALL_MSYNC, CALL_SYNC_FILE_RANGE, CALL_COPY_FILE_RANGE, CALL_FALLOCATE, CALL_FTRUNCATE,
            CALL_CLONE)  # fmt: skip
    syncs = {number: told for number, told in _SYNCS.items() if number not in rare}
    return native.Common.of(
        writes, (CALL_SENDFILE, CALL_SPLICE), syncs, rare, CALL_SYNC,
        O_SYNC_ONLY, O_DSYNC, OPEN_OF_SYNC_INODE, RWF_SYNC, RWF_DSYNC,
        METHOD["open_sync"], METHOD["open_datasync"], METHOD["sync_inode"],
    )  # fmt: skip


def _operations(
    trace: Trace, columns: Mapping[str, Ints], sharing: _Sharing
) -> dict[str, NDArray[Any]]:
    """Of each call, beside its own columns, what it would be as an operation; ``kept``: whether it
    is one."""
    call, rwf, result = columns["call"], columns["rwf"], columns["result"]
    offset, length = columns["offset_bytes"], columns["size_bytes"]
    is_write = (call >= CALL_WRITE) & (call <= CALL_PWRITEV2)
    method = method_of_write(columns["open_flags"], np.where(is_write, rwf, 0))
    copies = np.flatnonzero((call == CALL_COPY_FILE_RANGE) & (method == PLAIN))
    if len(copies):
        method[copies[sharing.of(columns, copies)]] = METHOD["open_sync"]
    allocates = call == CALL_FALLOCATE
    if allocates.any():
        method[allocates & ~allocated(trace, columns, rwf)] = PLAIN
    cuts = call == CALL_FTRUNCATE
    if cuts.any():
        method[cuts] = method_of_cut(trace, columns, rwf)[cuts]
    is_write |= (call >= CALL_SENDFILE) & (call <= CALL_COPY_FILE_RANGE)
    # What wrote nothing did not have to be durable; what was allocated had, if that was asked for.
    is_write &= result != 0
    cloned = call == CALL_CLONE
    is_write |= cloned
    is_write |= one_of(call, (CALL_FALLOCATE, CALL_FTRUNCATE)) & (method != PLAIN)
    written = np.where(cloned & (result >= 0), (result << 32) + length, result)
    scope = np.full(len(call), NO_SYNC)
    for number, (of_call, scope_of_call) in _SYNCS.items():
        method[call == number], scope[call == number] = of_call, scope_of_call
    # The file that is mapped, or where, was not known to every kernel.
    scope[(call == CALL_MSYNC) & (offset < 0)] = FILE
    scope[(call == CALL_SYNC_FILE_RANGE) & ((rwf & SYNC_FILE_RANGE_WAITS) == 0)] = NO_SYNC
    return {
        **columns,
        "kept": is_write | (scope != NO_SYNC),
        "begin_ns": columns["enter_ns"],
        "end_ns": columns["time_ns"],
        "effect_ns": np.where(scope == NO_SYNC, columns["time_ns"], columns["enter_ns"]),
        "device_key": np.where(call == CALL_SYNC, EVERY_DEVICE, columns["dev"]),
        "size_bytes": np.where(is_write, np.maximum(written, 0), length),
        "method": method,
        "scope": scope,
        "failed": result < 0,
    }


def allocated(trace: Trace, columns: Mapping[str, Ints], mode: Ints) -> NDArray[np.bool_]:
    """Which are durable, if they are fallocate's in that mode."""
    flags = columns["open_flags"]
    opened, inode = (flags & O_DSYNC) != 0, (flags & OPEN_OF_SYNC_INODE) != 0
    return durable_allocations(trace.facts, columns["dev"], mode, opened, inode)


def method_of_cut(trace: Trace, columns: Mapping[str, Ints], rwf: Ints) -> Ints:
    """How they are durable, if they are ftruncate's: by their inode, or not."""
    durable = (columns["open_flags"] & OPEN_OF_SYNC_INODE) != 0
    durable &= durable_cuts(trace.facts, columns["dev"], (rwf & RWF_OF_GROWING) != 0)
    return np.where(durable, METHOD["sync_inode"], PLAIN)


def simply_durable(calls: NDArray[Any]) -> tuple[Ints, Ints]:
    """Which of system calls' events (rows) are synchronous writes of which their own columns tell
    that: all but copies, and what makes room. And the methods."""
    call, rwf, result = calls["call"], calls["rwf"], calls["result"]
    writes = (call >= CALL_WRITE) & (call <= CALL_PWRITEV2) & (result != 0)
    method = np.where(writes, method_of_write(calls["open_flags"], np.where(writes, rwf, 0)), PLAIN)
    for number, (of_call, _) in _SYNCS.items():
        method[call == number] = of_call
    method[(call == CALL_SYNC_FILE_RANGE) & ((rwf & SYNC_FILE_RANGE_WAITS) == 0)] = PLAIN
    rows = np.flatnonzero(method != PLAIN)
    return rows, method[rows]


class _Sharing:
    """Which copies (rows) btrfs shared with their file instead, and synchronised, as the file that
    they are from is synchronous (btrfs_remap_file_range, of fs/btrfs/reflink.c): what is copied is
    not.
    """

    def __init__(self, syncs: Points) -> None:
        self.syncs = syncs

    @cached_property
    def synced(self) -> dict[str, Ints]:
        return columns_of(self.syncs, "tid", "inode")

    @cached_property
    def by_thread(self) -> AsOf:
        return AsOf(self.synced["tid"], self.synced["time_ns"])

    def of(self, columns: Mapping[str, Ints], copies: Ints) -> NDArray[np.bool_]:
        tid, end_ns = columns["tid"][copies], columns["time_ns"][copies]
        last = self.by_thread.at_or_before(tid, end_ns)
        inside = at(self.synced["time_ns"], last) >= columns["enter_ns"][copies]
        shared: NDArray[np.bool_] = inside & (
            at(self.synced["inode"], last) == columns["inode"][copies]
        )
        return shared


class _Births:
    """When the thread that had a number at a time was made, as threads were told of.

    Older recordings did not tell; and alone a number that is used again needs it: 0 is any other.
    """

    def __init__(self, threads: Points) -> None:
        self.again = np.zeros(0, np.int64)
        if "birth" in threads.fields:
            told = columns_of(threads, "subject_tid", "birth")
            number, self.birth = told["subject_tid"], told["birth"]
            self.told = AsOf(number, told["time_ns"])
            first = self.told.at_or_after(number, np.zeros(len(number), np.int64))
            self.again = distinct(number[self.birth != self.birth[first]])

    def at(self, tid: Ints, time_ns: Ints) -> Ints:
        births = np.zeros(len(tid), np.int64)
        some = np.flatnonzero(one_of(tid, self.again))
        if len(some):
            births[some] = self.birth[self.told.at_or_nearest(tid[some], time_ns[some])]
        return births


def appends(flags: Ints, rwf: Ints) -> NDArray[np.bool_]:
    """Whether a write goes to the end of its file, wherever its request says."""
    noted = ((flags & O_APPEND) != 0) & ((rwf & RWF_NOAPPEND) == 0)
    found: NDArray[np.bool_] = noted | ((rwf & RWF_APPEND) != 0)
    return found


def are_direct(trace: Trace, open_flags: Ints) -> NDArray[np.bool_]:
    flag = O_DIRECT.get(str(trace.env.get("architecture")), O_DIRECT_ELSEWHERE)
    direct: NDArray[np.bool_] = (open_flags & flag) != 0
    return direct


def method_of_write(flags: Ints, rwf: Ints) -> Ints:
    """How a write with these flags of its file, and of its own, is durable when it returns."""
    if not (np.bitwise_or.reduce(flags) & OF_FILES or np.bitwise_or.reduce(rwf) & OF_WRITES):
        return np.full(len(flags), PLAIN)
    whole = ((flags & O_SYNC_ONLY) != 0) | ((rwf & RWF_SYNC) != 0)
    durable = whole | ((flags & O_DSYNC) != 0) | ((rwf & RWF_DSYNC) != 0)
    method = np.where(whole, METHOD["open_sync"], METHOD["open_datasync"])
    # A flag of its own says more of who asked for it.
    method[~durable & ((flags & OPEN_OF_SYNC_INODE) != 0)] = METHOD["sync_inode"]
    durable |= (flags & OPEN_OF_SYNC_INODE) != 0
    return np.where(durable, method, PLAIN)
