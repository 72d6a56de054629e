# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: io_uring and libaio events in, their synchronous writes out.

An asynchronous request is one piece of its own, from its submission to its
completion as the caller sees it (libaio: until io_getevents returned it). Such
requests overlap freely, so a sync request is a write by itself: the requests it
makes durable are not added to it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from iostrata.stitch.calls import METHOD, Pieces, Units, durable_write, together
from iostrata.stitch.join import AsOf, Containing, Ints, at, columns_of
from iostrata.trace.layout import CALL_IO_URING_ENTER
from iostrata.trace.read import Trace

IO_URING, LIBAIO = 1, 2

# io_uring_op of linux/io_uring.h and IOCB_CMD_ of linux/aio_abi.h
URING_FSYNC, URING_SYNC_FILE_RANGE = 3, 8
URING_WRITES: Final = (2, 5, 23)
URING_FSYNC_DATASYNC: Final = 1
AIO_FSYNC, AIO_FDSYNC = 2, 3
AIO_WRITES: Final = (1, 8)


def units_of_requests(trace: Trace) -> tuple[Units, Pieces, int]:
    """The synchronous requests of both engines; ``Pieces.tid`` is the submitter's.

    Also how many have no completion here: still under way at the end, or
    collected where no point tells of it (libaio's ring read by the process).
    """
    uring, uring_pieces, uring_open = _of_uring(trace)
    aio, aio_pieces, aio_open = _of_aio(trace)
    units, pieces = together((uring, uring_pieces), (aio, aio_pieces))
    return units, pieces, uring_open + aio_open


def _of_uring(trace: Trace) -> tuple[Units, Pieces, int]:
    submitted, completed = (
        columns_of(
            trace.points[point], "tid", "request_key", "inode", "dev", "open_flags", "opcode",
            "result", "size_bytes", "rwf",
        )
        for point in ("io_uring_submit_req", "io_uring_complete")
    )  # fmt: skip
    done = AsOf(completed["request_key"], completed["time_ns"]).at_or_after(
        submitted["request_key"], submitted["time_ns"]
    )
    opcode, rwf = submitted["opcode"], submitted["rwf"]
    # The file need not be known before the request runs.
    known = {
        name: np.where(submitted[name] != 0, submitted[name], at(completed[name], done))
        for name in ("inode", "dev", "open_flags")
    }
    durable, whole = durable_write(known["open_flags"], rwf)
    durable &= np.isin(opcode, URING_WRITES)
    method = np.where(whole, METHOD["open_sync"], METHOD["open_datasync"])
    fsync = np.where((rwf & URING_FSYNC_DATASYNC) != 0, METHOD["fdatasync"], METHOD["fsync"])
    method = np.where(opcode == URING_FSYNC, fsync, method)
    method = np.where(opcode == URING_SYNC_FILE_RANGE, METHOD["sync_file_range"], method)
    wanted = durable | np.isin(opcode, (URING_FSYNC, URING_SYNC_FILE_RANGE))
    rows = np.flatnonzero(wanted & (done >= 0))
    result = at(completed["result"], done)[rows]
    begin, end = _around(trace, submitted, at(completed["time_ns"], done))
    units, pieces = _whole(
        IO_URING,
        submitted["request_key"][rows],
        begin[rows],
        end[rows],
        submitted["tid"][rows],
        _process_of(trace, submitted["tid"])[rows],
        known["dev"][rows],
        known["inode"][rows],
        method[rows],
        np.where(durable[rows], np.maximum(result, 0), 0),
        result,
    )
    return units, pieces, int(np.count_nonzero(wanted & (done < 0)))


def _process_of(trace: Trace, tid: Ints) -> Ints:
    """The thread's process, as its thread event says; itself where there is none."""
    threads = columns_of(trace.points["thread"], "subject_tid", "tgid")
    last = AsOf(threads["subject_tid"], threads["time_ns"]).at_or_before(
        tid, np.full(len(tid), np.iinfo(np.int64).max)
    )
    process = at(threads["tgid"], last)
    return np.where(process >= 0, process, tid)


def _around(trace: Trace, submitted: dict[str, Ints], complete: Ints) -> tuple[Ints, Ints]:
    """From the entry of the submitter's io_uring_enter to the return of the one that collects.

    Outside such a call (SQPOLL, a completion that nobody waited for) the point itself counts.
    """
    calls = columns_of(trace.points["syscall"], "tid", "enter_ns", "call")
    rows = np.flatnonzero(calls["call"] == CALL_IO_URING_ENTER)
    entered, returned = calls["enter_ns"][rows], calls["time_ns"][rows]
    inside = Containing(calls["tid"][rows], entered, returned)
    submit = submitted["time_ns"]
    begin = at(entered, inside.find(submitted["tid"], submit))
    end = at(returned, inside.find(submitted["tid"], complete))
    return np.where(begin >= 0, begin, submit), np.where(end >= 0, end, complete)


def _of_aio(trace: Trace) -> tuple[Units, Pieces, int]:
    submitted = columns_of(
        trace.points["aio_submit"], "enter_ns", "tid", "iocb_key", "inode", "dev", "open_flags",
        "tgid", "size_bytes", "opcode", "rwf",
    )  # fmt: skip
    completed = columns_of(trace.points["aio_complete"], "iocb_key", "result")
    done = AsOf(completed["iocb_key"], completed["time_ns"]).at_or_after(
        submitted["iocb_key"], submitted["enter_ns"]
    )
    opcode = submitted["opcode"]
    durable, whole = durable_write(submitted["open_flags"], submitted["rwf"])
    durable &= np.isin(opcode, AIO_WRITES)
    method = np.where(whole, METHOD["open_sync"], METHOD["open_datasync"])
    method = np.where(opcode == AIO_FSYNC, METHOD["fsync"], method)
    method = np.where(opcode == AIO_FDSYNC, METHOD["fdatasync"], method)
    wanted = durable | np.isin(opcode, (AIO_FSYNC, AIO_FDSYNC))
    rows = np.flatnonzero(wanted & (done >= 0))
    result = at(completed["result"], done)[rows]
    units, pieces = _whole(
        LIBAIO,
        submitted["iocb_key"][rows],
        submitted["enter_ns"][rows],
        at(completed["time_ns"], done)[rows],
        submitted["tid"][rows],
        submitted["tgid"][rows],
        submitted["dev"][rows],
        submitted["inode"][rows],
        method[rows],
        np.where(durable[rows], np.maximum(result, 0), 0),
        result,
    )
    return units, pieces, int(np.count_nonzero(wanted & (done < 0)))


def _whole(
    engine: int,
    key: Ints,
    begin: Ints,
    end: Ints,
    tid: Ints,
    tgid: Ints,
    device: Ints,
    inode: Ints,
    method: Ints,
    size: Ints,
    result: Ints,
) -> tuple[Units, Pieces]:
    """Units of one piece each."""
    count = len(key)
    units = Units(
        begin_ns=begin,
        end_ns=end,
        latency_ns=end - begin,
        tid=tid,
        tgid=tgid,
        size_bytes=size,
        pieces=np.ones(count, np.int64),
        device_key=device,
        inode=inode,
        offset_bytes=np.full(count, -1),
        method=method,
        engine=np.full(count, engine),
        failed=result < 0,
    )
    return units, Pieces(np.arange(count), tid, begin, end, device, key)
