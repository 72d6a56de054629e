# SPDX-License-Identifier: Apache-2.0
"""Stage stitch, first step: system calls in, synchronous writes and their pieces out.

A write is one call on a descriptor that is O_SYNC or O_DSYNC (or with RWF_SYNC,
RWF_DSYNC), or one fsync, fdatasync, sync_file_range or msync together with the
plain writes that the same thread made to the same file since it last
synchronised it. Flags as in Linux's uapi asm-generic/fcntl.h and linux/fs.h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.stitch.join import Ints, columns_of, joined, order_of
from iostrata.trace.layout import (
    CALL_FDATASYNC,
    CALL_FSYNC,
    CALL_MSYNC,
    CALL_PWRITEV2,
    CALL_SYNC_FILE_RANGE,
    CALL_WRITE,
)
from iostrata.trace.points import Points

O_DSYNC: Final = 0o10000
O_SYNC_ONLY: Final = 0o4000000
RWF_DSYNC: Final = 0x2
RWF_SYNC: Final = 0x4
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
)
METHOD: Final = {name: code for code, name in enumerate(METHODS)}
# Prefix of the method, by engine; the last ones are what a machine does for another one.
ENGINES: Final = ("", "io_uring:", "libaio:", "virtio:", "nfs:")
_METHOD_OF_CALL: Final = {
    CALL_FSYNC: METHOD["fsync"],
    CALL_FDATASYNC: METHOD["fdatasync"],
    CALL_SYNC_FILE_RANGE: METHOD["sync_file_range"],
    CALL_MSYNC: METHOD["msync"],
}


@dataclass(frozen=True)
class Units:
    """Synchronous writes as their callers see them; one row each, unordered.

    ``method``: code into ``METHODS``. ``engine``: code into ``ENGINES``.
    ``failed``: the call returned an error.
    """

    begin_ns: Ints
    end_ns: Ints
    latency_ns: Ints
    tid: Ints
    tgid: Ints
    size_bytes: Ints
    pieces: Ints
    device_key: Ints
    inode: Ints
    offset_bytes: Ints
    method: Ints
    engine: Ints
    failed: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.begin_ns)


@dataclass(frozen=True)
class Pieces:
    """What the units consist of: row of the unit, thread, begin and end, file's device.

    ``request_key``: 0 for a system call; of an asynchronous request, its key.
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
        return Pieces(**{name: column[rows] for name, column in vars(self).items()})


def units_of_calls(calls: Points) -> tuple[Units, Pieces, int]:
    """Synchronous writes, their pieces, and how many plain writes nobody synchronised."""
    columns = columns_of(
        calls, "enter_ns", "call", "tid", "tgid", "dev", "inode", "open_flags", "rwf", "result",
        "offset_bytes",
    )  # fmt: skip
    call, begin, end = columns["call"], columns["enter_ns"], columns["time_ns"]
    tid, device, inode = columns["tid"], columns["dev"], columns["inode"]
    flags, rwf, result = columns["open_flags"], columns["rwf"], columns["result"]
    is_write = (call >= CALL_WRITE) & (call <= CALL_PWRITEV2)
    durable, whole = durable_write(flags, np.where(is_write, rwf, 0))
    alone = is_write & durable
    waits = (call != CALL_SYNC_FILE_RANGE) | ((rwf & SYNC_FILE_RANGE_WAITS) != 0)
    syncs = (call >= CALL_FSYNC) & (call <= CALL_MSYNC) & waits
    plain = is_write & ~durable & (result >= 0)

    # Sorted by thread, file and time, a batch ends with the call that made it durable.
    rows = np.flatnonzero(alone | syncs | plain)
    # The calls come in order of return, which for one thread is the order of entry too.
    rows = rows[order_of(tid[rows], device[rows], inode[rows], alone[rows].astype(np.int64))]
    starts = np.ones(len(rows), np.bool_)
    if len(rows) > 1:
        before, after = rows[:-1], rows[1:]
        starts[1:] = (
            (tid[before] != tid[after])
            | (device[before] != device[after])
            | (inode[before] != inode[after])
            | syncs[before]
            | alone[after]
        )
    first = np.flatnonzero(starts)
    final = rows[np.append(first[1:], len(rows)) - 1] if len(rows) else rows
    durable_batch = alone[final] | syncs[final]
    batch = np.cumsum(starts) - 1
    unit_of_batch = np.where(durable_batch, np.cumsum(durable_batch) - 1, -1)
    unit = unit_of_batch[batch] if len(rows) else batch
    kept = unit >= 0
    plain_writes = int(np.count_nonzero(~kept))
    rows, unit = rows[kept], unit[kept]
    last, first_row = final[durable_batch], rows[np.flatnonzero(np.diff(unit, prepend=-1))]
    method = np.where(whole[last], METHOD["open_sync"], METHOD["open_datasync"])
    for number, code in _METHOD_OF_CALL.items():
        method = np.where(call[last] == number, code, method)
    count = len(last)
    written = np.where(is_write[rows], np.maximum(result[rows], 0), 0)
    units = Units(
        begin_ns=begin[first_row],
        end_ns=end[last],
        latency_ns=total(unit, end[rows] - begin[rows], count),
        tid=tid[last],
        tgid=columns["tgid"][last],
        size_bytes=total(unit, written, count),
        pieces=total(unit, np.ones(len(rows), np.int64), count),
        device_key=device[last],
        inode=inode[last],
        offset_bytes=columns["offset_bytes"][first_row],
        method=method,
        engine=np.zeros(count, np.int64),
        failed=result[last] < 0,
    )
    pieces = Pieces(
        unit, tid[rows], begin[rows], end[rows], device[rows], np.zeros(len(rows), np.int64)
    )
    return units, pieces, plain_writes


def durable_write(flags: Ints, rwf: Ints) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether a write with these flags returns only when durable, and whether with all metadata."""
    whole = ((flags & O_SYNC_ONLY) != 0) | ((rwf & RWF_SYNC) != 0)
    return whole | ((flags & O_DSYNC) != 0) | ((rwf & RWF_DSYNC) != 0), whole


def total(unit: Ints, values: Ints, count: int) -> Ints:
    """Sum of the values of each unit, exactly."""
    sums = np.zeros(count, np.int64)
    np.add.at(sums, unit, values)
    return sums


def together(*parts: tuple[Units, Pieces]) -> tuple[Units, Pieces]:
    """Units of several kinds as one table, and their pieces."""
    units = Units(**joined([units for units, _ in parts]))
    columns = joined([pieces for _, pieces in parts])
    sizes = [len(units) for units, _ in parts]
    offsets = np.cumsum([0, *sizes[:-1]])
    columns["unit"] += np.repeat(offsets, [len(pieces) for _, pieces in parts])
    return units, Pieces(**columns)
