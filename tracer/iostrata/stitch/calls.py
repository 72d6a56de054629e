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

from iostrata.columns import Ints, changes, columns_of, joined, order_of
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
    call, rwf, result = columns["call"], columns["rwf"], columns["result"]
    is_write = (call >= CALL_WRITE) & (call <= CALL_PWRITEV2)
    durable, whole = durable_write(columns["open_flags"], np.where(is_write, rwf, 0))
    alone = is_write & durable
    waits = (call != CALL_SYNC_FILE_RANGE) | ((rwf & SYNC_FILE_RANGE_WAITS) != 0)
    syncs = (call >= CALL_FSYNC) & (call <= CALL_MSYNC) & waits
    plain = is_write & ~durable & (result >= 0)

    # Sorted by thread, file and time, a batch ends with the call that made it durable.
    rows = np.flatnonzero(alone | syncs | plain)
    # The calls come in order of return, which for one thread is the order of entry too.
    file = [columns[name][rows] for name in ("tid", "dev", "inode")]
    rows = rows[order_of(*file, alone[rows].astype(np.int8))]
    is_write, whole, alone, syncs = (flag[rows] for flag in (is_write, whole, alone, syncs))
    columns = {name: column[rows] for name, column in columns.items()}
    call, begin, end = columns["call"], columns["enter_ns"], columns["time_ns"]
    tid, device, inode = columns["tid"], columns["dev"], columns["inode"]
    result = columns["result"]
    starts = changes(tid) | changes(device) | changes(inode) | alone
    starts[1:] |= syncs[:-1]
    first = np.flatnonzero(starts)
    final = np.append(first[1:], len(rows))[: len(first)] - 1
    durable_batch, size = alone[final] | syncs[final], final - first + 1
    first_row, last = first[durable_batch], final[durable_batch]
    kept = np.flatnonzero(np.repeat(durable_batch, size))
    size, count = size[durable_batch], len(last)
    method = np.where(whole[last], METHOD["open_sync"], METHOD["open_datasync"])
    for number, code in _METHOD_OF_CALL.items():
        method = np.where(call[last] == number, code, method)

    def total(values: Ints) -> Ints:
        """Sum of each batch that was made durable, exactly."""
        sums: Ints = np.add.reduceat(values, first)[durable_batch]
        return sums

    units = Units(
        begin_ns=begin[first_row],
        end_ns=end[last],
        latency_ns=total(end - begin),
        tid=tid[last],
        tgid=columns["tgid"][last],
        size_bytes=total(np.where(is_write, np.maximum(result, 0), 0)),
        pieces=size,
        device_key=device[last],
        inode=inode[last],
        offset_bytes=columns["offset_bytes"][first_row],
        method=method,
        engine=np.zeros(count, np.int64),
        failed=result[last] < 0,
    )
    pieces = Pieces(
        unit=np.repeat(np.arange(count), size),
        tid=tid[kept],
        begin_ns=begin[kept],
        end_ns=end[kept],
        device_key=device[kept],
        request_key=np.zeros(len(kept), np.int64),
    )
    return units, pieces, len(rows) - len(kept)


def durable_write(flags: Ints, rwf: Ints) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether a write with these flags returns only when durable, and whether with all metadata."""
    whole = ((flags & O_SYNC_ONLY) != 0) | ((rwf & RWF_SYNC) != 0)
    return whole | ((flags & O_DSYNC) != 0) | ((rwf & RWF_DSYNC) != 0), whole


def together(*parts: tuple[Units, Pieces]) -> tuple[Units, Pieces]:
    """Units of several kinds as one table, and their pieces."""
    units = Units(**joined([units for units, _ in parts]))
    columns = joined([pieces for _, pieces in parts])
    sizes = [len(units) for units, _ in parts]
    offsets = np.cumsum([0, *sizes[:-1]])
    columns["unit"] += np.repeat(offsets, [len(pieces) for _, pieces in parts])
    return units, Pieces(**columns)
