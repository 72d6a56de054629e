# SPDX-License-Identifier: Apache-2.0
"""Hops: a machine's trace in, what processes of its user space wrote and read for others out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints, columns_of, joined, pair_key
from iostrata.hops.hop import READ_MARK, Serves
from iostrata.stitch import (
    FILE_UNKNOWN,
    NO_PIECES,
    OPEN_OF_DEVICE,
    PLAIN,
    ImageRequests,
    Pieces,
    Reads,
    Submissions,
    are_direct,
    images_of,
    longest_read,
    may_be_disk,
    method_of_write,
    pieces_of,
    submissions_of,
    whole,
)
from iostrata.trace import Trace
from iostrata.trace.layout import (
    CALL_FALLOCATE,
    CALL_FDATASYNC,
    CALL_FSYNC,
    CALL_PREADV2,
    CALL_READ,
    CALL_WRITE,
)

_NONE, _NEVER = np.zeros(0, np.int64), np.zeros(0, np.bool_)
File = Callable[[Ints, Ints], Ints]
ROOM_KEY: Final = np.iinfo(np.int64).min + 1
"""Of what makes room in a file and writes nothing."""
ROOM_MARK: Final = np.int64(1 << 61)
"""Tells groups of such from those of what is written."""
NO_SERVES: Final = Serves(_NONE, _NONE, _NONE, _NONE, _NEVER, _NONE, _NONE, _NEVER, _NONE, _NONE)


def some_of(serves: Serves, pieces: Pieces, rows: Ints) -> tuple[Serves, Pieces]:
    """Some rows of the serves, and the piece that each of these has to itself."""
    number = np.arange(len(rows))
    pieces = pieces.rows(serves.piece[rows])
    return replace(serves.rows(rows), piece=number), replace(pieces, unit=number)


def served_by(
    lower: Trace,
    processes: Ints,
    reads: bool = False,
    file_of: File = pair_key,
    rooms: bool = False,
    disks: bool = False,
) -> tuple[Serves, Pieces]:
    """Each of their calls and requests, by the place in the file and the size.

    ``reads``: also those that read, as groups of their own; ``rooms``: and what makes room in a
    file. ``file_of``: a number for each file, of its own number and its file system's. ``disks``:
    only of files that may be somebody's disk.
    """
    if not len(processes):
        return NO_SERVES, NO_PIECES
    parts = (
        _by_calls(_calls(lower, processes, reads, rooms, disks), file_of),
        _by_requests(_requests(lower, processes, reads, disks), file_of),
        _by_library(_of_library(lower, processes, disks)),
    )
    serves = Serves(**joined([serves for serves, _ in parts]))
    pieces = Pieces(**joined([pieces for _, pieces in parts]))
    number = np.arange(len(serves))
    return replace(serves, piece=number), replace(pieces, unit=number)


def read_by(lower: Trace, processes: Ints, rooms: bool = False) -> Reads:
    """What each of the pieces of ``served_by`` of disks with reads, and with ``rooms`` or without,
    read."""
    calls = _calls(lower, processes, True, rooms, True)
    requests = _requests(lower, processes, True, True)
    unread = np.zeros(len(_of_library(lower, processes)), np.int64)
    flags = np.concatenate([calls["open_flags"], requests.open_flags, unread])
    inode = np.concatenate([calls["inode"], requests.inode, unread])
    reading = np.concatenate([_reads(calls["call"]), requests.read, unread > 0])
    size = np.concatenate([calls["result"], requests.result, unread])
    return Reads(
        device_key=np.concatenate([calls["dev"], requests.device_key, unread + FILE_UNKNOWN]),
        inode=np.where((flags & OPEN_OF_DEVICE) != 0, 0, inode),
        offset_bytes=np.concatenate([calls["offset_bytes"], requests.offset_bytes, unread]),
        size_bytes=np.where(reading, size, 0),
        direct=reading & are_direct(lower, flags),
        reach_ns=longest_read(lower),
    )


def durable_by(lower: Trace, processes: Ints, reads: bool) -> NDArray[np.bool_]:
    """Of each of the serves of ``served_by`` of disks with rooms, whether what it wrote is durable
    by itself once it is over."""
    calls = _calls(lower, processes, reads, True, True)
    requests = _requests(lower, processes, reads, True)
    method = method_of_write(calls["open_flags"], calls["rwf"])
    written = (calls["call"] >= CALL_WRITE) & (calls["call"] < CALL_FSYNC)
    # Of a disk of Ceph, whether it has a cache is not told: a guest that asks for a flush gets it.
    unknown = np.zeros(len(_of_library(lower, processes)), np.bool_)
    return np.concatenate([written & (method != PLAIN), requests.method != PLAIN, unknown])


def to_no_disk(lower: Trace, processes: Ints) -> int:
    """How much they wrote, or made durable, of files that are nobody's disk."""
    calls = _calls(lower, processes, reads=False, rooms=False)["open_flags"]
    requests = _requests(lower, processes, reads=False).open_flags
    return int(np.count_nonzero(~may_be_disk(np.concatenate([calls, requests]))))


def _reads(call: Ints) -> NDArray[np.bool_]:
    reading: NDArray[np.bool_] = (call >= CALL_READ) & (call <= CALL_PREADV2)
    return reading


def _calls(
    lower: Trace, processes: Ints, reads: bool, rooms: bool, disks: bool = False
) -> dict[str, Ints]:
    """Those that succeeded, in order of their ends."""
    calls = columns_of(
        lower.points["syscall"], "enter_ns", "tid", "tgid", "call", "dev", "inode",
        "offset_bytes", "size_bytes", "result", "open_flags", "rwf",
    )  # fmt: skip
    call = calls["call"]
    wanted = (call >= CALL_WRITE) & (call <= CALL_FDATASYNC)
    if rooms:
        wanted |= call == CALL_FALLOCATE
    if reads:
        wanted |= _reads(call)
    if disks:
        wanted &= may_be_disk(calls["open_flags"])
    rows = np.flatnonzero(wanted & np.isin(calls["tgid"], processes) & (calls["result"] >= 0))
    return {name: column[rows] for name, column in calls.items()}


def _by_calls(calls: dict[str, Ints], file_of: File) -> tuple[Serves, Pieces]:
    call, none = calls["call"], np.zeros(len(calls["call"]), np.int64)
    flush, room = (call == CALL_FSYNC) | (call == CALL_FDATASYNC), call == CALL_FALLOCATE
    mark = np.where(_reads(call), READ_MARK, np.where(room, ROOM_MARK, 0))
    key = pair_key(calls["offset_bytes"], calls["result"]) ^ mark
    serves = Serves(
        begin_ns=calls["enter_ns"],
        end_ns=calls["time_ns"],
        key=np.where(room, ROOM_KEY, key),
        group=file_of(calls["inode"], calls["dev"]) ^ mark,
        shared=flush | room,
        piece=none,
        agent=calls["tgid"],
        flush=flush,
        offset_bytes=calls["offset_bytes"],
        size_bytes=np.where(flush, 0, np.where(room, calls["size_bytes"], calls["result"])),
    )
    return serves, Pieces(none, calls["tid"], serves.begin_ns, serves.end_ns, calls["dev"], none)


def _requests(lower: Trace, processes: Ints, reads: bool, disks: bool = False) -> Submissions:
    """Those of aio=native and aio=io_uring that succeeded."""
    found = submissions_of(lower, reads)
    own = np.isin(found.tgid, processes)
    if disks:
        own &= may_be_disk(found.open_flags)
    return found.rows(np.flatnonzero(own & (found.end_ns >= 0) & (found.result >= 0)))


def _by_requests(found: Submissions, file_of: File) -> tuple[Serves, Pieces]:
    mark = np.where(found.read, READ_MARK, 0)
    serves = Serves(
        begin_ns=found.begin_ns,
        end_ns=found.end_ns,
        key=pair_key(found.offset_bytes, found.result) ^ mark,
        group=file_of(found.inode, found.device_key) ^ mark,
        shared=found.flush,
        piece=np.zeros(len(found), np.int64),
        agent=found.tgid,
        flush=found.flush,
        offset_bytes=found.offset_bytes,
        size_bytes=np.where(found.flush, 0, found.result),
    )
    return serves, pieces_of(found)


def _of_library(lower: Trace, processes: Ints, disks: bool = True) -> ImageRequests:
    """Those of disks of Ceph that were answered."""
    found = images_of(whole(lower)).requests
    own = np.isin(found.tgid, processes) & (found.end_ns >= 0) & disks
    return found.rows(np.flatnonzero(own))


def by_library(lower: Trace, processes: Ints) -> tuple[Serves, Pieces]:
    """What these processes asked of disks of Ceph, and was answered."""
    serves, pieces = _by_library(_of_library(lower, processes))
    number = np.arange(len(serves))
    return replace(serves, piece=number), replace(pieces, unit=number)


def _by_library(found: ImageRequests) -> tuple[Serves, Pieces]:
    none = np.zeros(len(found), np.int64)
    serves = Serves(
        begin_ns=found.begin_ns,
        end_ns=found.end_ns,
        key=pair_key(found.offset_bytes, found.size_bytes),
        group=found.image,
        shared=found.flush,
        piece=none,
        agent=found.tgid,
        flush=found.flush,
        offset_bytes=found.offset_bytes,
        size_bytes=found.size_bytes,
    )
    return serves, Pieces(none, found.tid, found.begin_ns, found.end_ns, none, found.key)
