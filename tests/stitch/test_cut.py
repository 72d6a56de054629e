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
URING_FSYNC, URING_SYNC_FILE_RANGE, URING_READ, URING_WRITE = 3, 8, 22, 23
BEGUN, RUNNING = "begun before the trace", "still running at the end"
HANGING = "still running, and began before"


def written(world: World) -> None:
    """One write that is whole."""
    writer = Writer(world, 100, DISK, 1_000)
    writer.enter()
    writer.data(Request())
    writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)


def cut(
    world: World, tid: int, call: int, enter_ns: int = 0, flags: int = 2,
    kind: int = THREAD_TARGET, hangs: bool = False,
) -> None:  # fmt: skip
    """It still runs, or (without its begin) returns late, or never (``hangs``)."""
    world.target(tid, kind=kind)
    world.emit("syscall_cut", 500_000, tid, enter_ns=enter_ns, tgid=tid, call=call, inode=12,
               dev=DISK, open_flags=flags, size_bytes=8192,
               result=-errno.EINPROGRESS if enter_ns or hangs else 8192)  # fmt: skip


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


def test_those_that_hang_all_the_while_are_told_apart() -> None:
    world = World()
    written(world)
    cut(world, 200, CALL_FSYNC, enter_ns=7_000)
    cut(world, 201, CALL_FSYNC)
    cut(world, 202, CALL_FSYNC, hangs=True)
    cut(world, 203, CALL_PWRITE64, flags=O_DSYNC, hangs=True)
    cut(world, 204, CALL_PWRITE64, hangs=True)
    cut(world, 205, CALL_FSYNC, hangs=True, kind=THREAD_VMM)
    assert analysed(world).left_out == {BEGUN: 1, RUNNING: 1, HANGING: 2}


@pytest.mark.parametrize(("count", "calls"), [(1, "one call"), (3, "3 calls")])
def test_a_recording_in_which_calls_only_hung_does_not_blame_the_filter(
    count: int, calls: str
) -> None:
    world = World()
    for tid in range(count):
        cut(world, 200 + tid, CALL_FSYNC, hangs=True)
    with pytest.raises(NothingToAnalyse) as told:
        analysed(world)
    assert str(told.value) == f"no synchronous write ended here: {calls} hung all the while"
    assert "syscall_cut" in str(told.value.hint)


def test_of_direct_ones_those_that_hang() -> None:
    world = reading_world()
    cut(world, 200, CALL_PWRITE64, flags=O_DIRECT | O_DSYNC, hangs=True)
    with pytest.raises(NothingToAnalyse, match=rf"{HANGING} \(1\)"):
        analysed_reads(world, Op.DIRECT)


@pytest.mark.parametrize(
    ("enter_ns", "kind", "told"),
    [
        (7_000, THREAD_TARGET, "one had for 493 us, longer than any that ended"),
        # A write that ended took longer.
        (499_900, THREAD_TARGET, ""),
        (7_000, THREAD_VMM, ""),
        (0, THREAD_TARGET, ""),
    ],
)
def test_what_hung_for_longer_than_any_that_ended_is_said(
    enter_ns: int, kind: int, told: str
) -> None:
    world = World()
    written(world)
    cut(world, 200, CALL_FSYNC, enter_ns=enter_ns, kind=kind)
    gaps = analysed(world).quality.not_observed
    reasons = [gap.reason for gap in gaps if gap.layer == "calls that still ran at the end"]
    assert reasons == ([f"{told}: it is in no latency"] if told else [])


@pytest.mark.parametrize(
    ("attached_ns", "kind", "options", "told"),
    [
        (100_000, THREAD_TARGET, "--pid 200", "one took at least 400 us"),
        # A write that is whole took longer.
        (499_900, THREAD_TARGET, "--pid 200", ""),
        (100_000, THREAD_VMM, "--pid 200", ""),
        # It may have begun in another group.
        (100_000, THREAD_TARGET, "--cgroup /a", ""),
    ],
)
@pytest.mark.parametrize("hangs", [False, True])
def test_how_long_what_began_before_took_at_least_is_said(
    attached_ns: int, kind: int, options: str, told: str, *, hangs: bool
) -> None:
    world = World()
    world.builder.env["filter"] = options
    written(world)
    world.builder.add("clock_sample", time_ns=attached_ns)
    cut(world, 200, CALL_FSYNC, hangs=hangs, kind=kind)
    gaps = analysed(world).quality.not_observed
    reasons = [gap.reason for gap in gaps if gap.layer == "calls that began before"]
    assert reasons == (
        [f"{told}, longer than any that began here: it is in no latency"] if told else []
    )


@pytest.mark.parametrize("hangs", [False, True])
def test_what_a_loss_may_have_the_begin_of_did_not_begin_before(*, hangs: bool) -> None:
    """The kernel skipped a program between 390,000 and 490,000: 10 us are known of the call."""
    world = World()
    world.builder.env["filter"] = "--pid 200"
    written(world)
    world.builder.add("clock_sample", time_ns=100_000)
    world.builder.add("miss", time_ns=490_000, since_ns=390_000, missed_count=1,
                      program=b"syscall_enter_sync")  # fmt: skip
    cut(world, 200, CALL_FSYNC, hangs=hangs)
    found = analysed(world)
    assert "calls that began before" not in {gap.layer for gap in found.quality.not_observed}
    assert found.left_out == {RUNNING if hangs else "events lost meanwhile": 1}


@pytest.mark.parametrize("hangs", [False, True])
def test_so_it_is_where_there_is_nothing_else(*, hangs: bool) -> None:
    world = World()
    world.builder.add("clock_sample", time_ns=100_000)
    cut(world, 200, CALL_FSYNC, hangs=hangs)
    with pytest.raises(NothingToAnalyse, match="one took at least 400 us"):
        analysed(world)


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


def test_transfers_whose_completion_is_all_that_is_told() -> None:
    """Of O_DIRECT, and of reads; not what failed, nor what was submitted meanwhile."""
    world = reading_world()
    world.target(100)
    direct = {"flags": O_DIRECT}
    complete(world, 2_000, 0xA0, URING_WRITE, 8192, **direct)
    complete(world, 3_000, 0xA1, URING_READ, 8192)
    complete(world, 4_000, 0xA2, URING_WRITE, 8192)
    complete(world, 5_000, 0xA3, URING_READ, -errno.EIO, **direct)
    complete(world, 6_000, 0xA0, URING_WRITE, 8192, **direct)
    world.emit("aio_complete", 9_000, 100, enter_ns=8_500, iocb_key=0xB0, opcode=AIO_WRITE,
               result=8192, open_flags=O_DIRECT, inode=12, dev=DISK)  # fmt: skip
    world.target(300, kind=THREAD_VMM)
    complete(world, 8_000, 0xA5, URING_WRITE, 8192, O_DIRECT, tid=300)
    with pytest.raises(NothingToAnalyse, match=rf"{BEGUN} \(2\)"):
        analysed_reads(world, Op.DIRECT)
    with pytest.raises(NothingToAnalyse, match=rf"{BEGUN} \(1\)"):
        analysed_reads(world, Op.READ)


@pytest.mark.parametrize("op", [Op.SYNC, Op.DIRECT])
def test_what_no_call_collected(op: Op) -> None:
    """Process 100 reads libaio's ring by itself; 200 asks the kernel, and its last one is late."""
    world = reading_world()
    shared = {"inode": 12, "dev": DISK, "open_flags": O_DIRECT | O_DSYNC, "opcode": AIO_WRITE}
    for tid in (100, 200):
        world.target(tid)
        for key, enter in ((tid, 1_000), (tid + 1, 50_000)):
            world.emit("aio_submit", enter + 3_000, tid, enter_ns=enter, iocb_key=key,
                       size_bytes=8192, **shared)  # fmt: skip
    world.emit("aio_complete", 30_000, 200, enter_ns=5_000, iocb_key=200, result=8192, **shared)
    found = analysed(world) if op is Op.SYNC else analysed_reads(world, op)
    assert len(found.writes) == 1
    uncollected = "completion not seen: its process collected none by a call"
    assert found.left_out == {uncollected: 2, "completion not seen": 1}


def test_what_another_thread_has_before_the_call_that_submits_returns() -> None:
    """It was not submitted before the trace: io_submit is told as it returns."""
    world = World()
    world.target(100)
    shared = {
        "iocb_key": 0xB0,
        "inode": 12,
        "dev": DISK,
        "open_flags": O_DSYNC,
        "opcode": AIO_WRITE,
    }
    world.emit("aio_complete", 30_000, 101, enter_ns=2_000, result=8192, **shared)
    world.emit("aio_submit", 40_000, 100, enter_ns=1_000, size_bytes=8192, **shared)
    found = analysed(world)
    assert len(found.writes) == 1
    assert not found.left_out
