# SPDX-License-Identifier: Apache-2.0
"""Calls of which the recording has one end only are counted: nothing else tells of them."""

from __future__ import annotations

import errno

import pytest

from iostrata.errors import NothingToAnalyse
from iostrata.model import Op
from iostrata.trace.layout import (
    CALL_FSYNC,
    CALL_PREAD64,
    CALL_PWRITE64,
    CALL_WRITE,
    THREAD_TARGET,
    THREAD_VMM,
)
from tests.reading import O_DIRECT, reading_world
from tests.stitch.test_direct import analysed as analysed_reads
from tests.stitch.test_truth import analysed
from tests.synthetic import O_DSYNC, Request, World, Writer, device

DISK = device(254, 16)
AIO_WRITE, AIO_FDSYNC = 1, 3
URING_FSYNC, URING_SYNC_FILE_RANGE, URING_WRITE = 3, 8, 23
BEGUN, RUNNING = "begun before the trace", "still running at the end"


def written(world: World) -> None:
    """One write that is whole."""
    writer = Writer(world, 100, DISK, 1_000)
    writer.enter()
    writer.data(Request())
    writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)


def cut(
    world: World, tid: int, call: int, enter_ns: int = 0, flags: int = 2,
    kind: int = THREAD_TARGET,
) -> None:  # fmt: skip
    """It still runs, or (without its begin) returns late."""
    world.target(tid, kind=kind)
    world.emit("syscall_cut", 500_000, tid, enter_ns=enter_ns, tgid=tid, call=call, inode=12,
               dev=DISK, open_flags=flags, size_bytes=8192,
               result=-errno.EINPROGRESS if enter_ns else 8192)  # fmt: skip


def test_those_that_are_synchronous_are_left_out_and_counted() -> None:
    """Not a plain write, nor what a virtual machine's process does for its guest."""
    world = World()
    written(world)
    cut(world, 200, CALL_FSYNC, enter_ns=7_000)
    cut(world, 201, CALL_PWRITE64, enter_ns=9_000, flags=O_DSYNC)
    cut(world, 202, CALL_PWRITE64, enter_ns=9_000)
    cut(world, 203, CALL_WRITE, flags=O_DSYNC)
    cut(world, 204, CALL_FSYNC, enter_ns=7_000, kind=THREAD_VMM)
    found = analysed(world)
    assert len(found.writes) == 1
    assert found.left_out == {RUNNING: 2, BEGUN: 1}


def test_a_recording_in_which_a_sync_hung_from_end_to_end_says_so() -> None:
    world = World()
    cut(world, 200, CALL_FSYNC, enter_ns=7_000)
    with pytest.raises(NothingToAnalyse, match=rf"{RUNNING} \(1\)") as told:
        analysed(world)
    assert "since when" in str(told.value.hint)


def test_of_reads_those_that_read() -> None:
    world = reading_world()
    cut(world, 200, CALL_FSYNC, enter_ns=7_000)
    cut(world, 201, CALL_PREAD64, enter_ns=7_000)
    cut(world, 202, CALL_PREAD64, enter_ns=8_000, flags=O_DIRECT)
    cut(world, 203, CALL_PWRITE64, flags=O_DIRECT)
    with pytest.raises(NothingToAnalyse, match=rf"{RUNNING} \(2\)"):
        analysed_reads(world, Op.READ)
    with pytest.raises(NothingToAnalyse, match=rf"{BEGUN} \(1\), {RUNNING} \(1\)"):
        analysed_reads(world, Op.DIRECT)


def complete(
    world: World, time: int, key: int, opcode: int, result: int, flags: int = 2, tid: int = 100
) -> None:
    world.emit("io_uring_complete", time, tid, request_key=key, opcode=opcode, result=result,
               open_flags=flags, inode=12, dev=DISK, size_bytes=8192)  # fmt: skip


def test_requests_whose_completion_is_all_that_is_told() -> None:
    """The second of a key must have been submitted meanwhile; what failed, or waits for nothing,
    makes nothing durable."""
    world = World()
    written(world)
    world.target(100)
    complete(world, 2_000, 0xA0, URING_FSYNC, 0)
    complete(world, 3_000, 0xA1, URING_WRITE, 8192, O_DSYNC)
    complete(world, 4_000, 0xA2, URING_WRITE, 8192)
    complete(world, 5_000, 0xA3, URING_WRITE, -errno.EIO, O_DSYNC)
    complete(world, 6_000, 0xA4, URING_SYNC_FILE_RANGE, 0)
    complete(world, 7_000, 0xA0, URING_FSYNC, 0)
    for time, key, opcode in (
        (9_000, 0xB0, AIO_FDSYNC), (9_100, 0xB0, AIO_FDSYNC), (9_200, 0xB1, AIO_WRITE),
    ):  # fmt: skip
        world.emit("aio_complete", time, 100, enter_ns=8_500, iocb_key=key, opcode=opcode,
                   result=0, open_flags=O_DSYNC, inode=12, dev=DISK)  # fmt: skip
    world.target(300, kind=THREAD_VMM)
    complete(world, 8_000, 0xA5, URING_FSYNC, 0, tid=300)
    found = analysed(world)
    assert len(found.writes) == 1
    assert found.left_out == {BEGUN: 3}
