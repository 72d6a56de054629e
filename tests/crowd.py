# SPDX-License-Identifier: Apache-2.0
"""The worst case on purpose: a recording in which everything overlaps everything.

``IN_FLIGHT`` synchronous writes of 512 bytes are under way at any time, each asks for a
flush, and its thread sleeps for all of it; flushes follow each other without a pause, and
so do requests of the kernel's own that belong to no write, and journal commits.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from tests.builder import TraceBuilder
from tests.synthetic import CALLS, FLUSH_OP, FUA, NO_SECTOR, O_DSYNC, SYNC, WRITE, device

IN_FLIGHT: Final = 2048
EVENTS_A_WRITE: Final = 9
STEP_NS: Final = 5_000
"""From one write to the next."""
DISK: Final = device(253, 0)


def crowd(path: Path, writes: int, *, asynchronous: bool = False, told: bool = False) -> int:
    """Writes the recording; returns how many events it has.

    ``asynchronous``: io_uring requests of 64 threads instead of calls of one thread each.
    ``told``: who each thread is, which is of another process than the next one.
    """
    builder = TraceBuilder(packet_events=4000)
    builder.mount(DISK, "/", "ext4").block(DISK, "vda")
    number = np.arange(writes)
    begin = 1_000_000 + number * STEP_NS
    end = begin + IN_FLIGHT * STEP_NS
    threads = 64 if asynchronous else IN_FLIGHT
    tid = 1000 + number % threads
    own: dict[str, Any] = {"cpu": number % 4, "tid": tid}
    _threads(builder, np.unique(tid))
    if told:
        _tasks(builder, np.unique(tid))
    if asynchronous:
        _requests_of_io_uring(builder, own, begin, end)
    else:
        builder.extend("syscall", time_ns=end, **own, enter_ns=begin, size_bytes=512, result=512,
                       call=CALLS["pwrite64"], open_flags=O_DSYNC, inode=12, dev=DISK,
                       tgid=tid)  # fmt: skip
    # Who has asked for several sleeps for the one that ends next.
    off = end - threads * STEP_NS + 200
    builder.extend("sched_resume", time_ns=end - 100, **own, off_ns=off, subject_tid=tid,
                   wake_ns=end - 200, state=2)  # fmt: skip
    _carried(builder, own, begin + 100, end - 300, number, SYNC | FUA)
    flusher: dict[str, Any] = {"cpu": number % 4, "tid": 77}
    _carried(builder, flusher, begin + 150, end - 350, writes + number, 0, kernel_thread=1)
    _flushes(builder, begin, end)
    _commits(builder, begin[::16])
    builder.write(path)
    return EVENTS_A_WRITE * writes


def _threads(builder: TraceBuilder, tids: np.ndarray) -> None:
    builder.extend("thread", time_ns=np.ones(len(tids), np.int64), cpu=0, tid=tids, tgid=tids,
                   subject_tid=tids, kind=1)  # fmt: skip


def _tasks(builder: TraceBuilder, tids: np.ndarray) -> None:
    names = np.array([f"process {tid % 7}".encode() for tid in tids.tolist()], "S16")
    builder.extend("task", time_ns=np.ones(len(tids), np.int64), cpu=0, tid=tids, tgid=tids,
                   subject_tid=tids, process=names, comm=names)  # fmt: skip


def _requests_of_io_uring(
    builder: TraceBuilder, own: dict[str, Any], begin: np.ndarray, end: np.ndarray
) -> None:
    keys = 0x10_0000 + np.arange(len(begin)) % (4 * IN_FLIGHT) * 0x100
    for point, time in (("io_uring_submit_req", begin), ("io_uring_complete", end)):
        builder.extend(point, time_ns=time, **own, request_key=keys, inode=12, dev=DISK,
                       open_flags=O_DSYNC, opcode=23, result=512, size_bytes=512)  # fmt: skip


def _carried(
    builder: TraceBuilder,
    own: dict[str, Any],
    queue: np.ndarray,
    complete: np.ndarray,
    number: np.ndarray,
    flags: int,
    **more: int,
) -> None:
    """A request each, issued at once."""
    bio = 0x8880_0000_0000 + number % (4 * IN_FLIGHT) * 0x100 + (flags > 0) * 0x100_0000
    keys: dict[str, Any] = {"request_key": bio + 0x80, "bio_key": bio}
    place: dict[str, Any] = {"dev": DISK, "sector": number, "size_bytes": 512}
    builder.extend("block_bio_queue", time_ns=queue, **own, bio_key=bio, flags=WRITE | flags,
                   **place, **more)  # fmt: skip
    builder.extend("block_rq_issue", time_ns=queue + 50, **own, **keys, flags=WRITE | flags,
                   **place)  # fmt: skip
    builder.extend("block_rq_complete", time_ns=complete, cpu=own["cpu"], tid=0, **keys,
                   flags=WRITE | flags, **place)  # fmt: skip


def _flushes(builder: TraceBuilder, begin: np.ndarray, end: np.ndarray) -> None:
    issue = np.arange(begin[0], end[-1], 4 * STEP_NS)
    empty: dict[str, Any] = {"dev": DISK, "size_bytes": 0, "sector": np.uint64(NO_SECTOR),
                             "flags": FLUSH_OP, "request_key": 7777}  # fmt: skip
    builder.extend("block_rq_issue", time_ns=issue, cpu=0, tid=78, **empty)
    builder.extend("block_rq_complete", time_ns=issue + 3 * STEP_NS, cpu=0, tid=0, **empty)


def _commits(builder: TraceBuilder, begin: np.ndarray) -> None:
    own: dict[str, Any] = {"cpu": 0, "tid": 900, "journal_key": 0x99, "dev": DISK,
                           "transaction": 1 + np.arange(len(begin))}  # fmt: skip
    builder.extend("jbd2_start_commit", time_ns=begin, **own)
    builder.extend("jbd2_end_commit", time_ns=begin + 15 * STEP_NS, **own)
