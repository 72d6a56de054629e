# SPDX-License-Identifier: Apache-2.0
"""Threads that are stopped behind their calls: in no latency, and said so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.analysis.prepared import prepare
from iostrata.analysis.stopped import Stop, stops_of
from iostrata.model import Op
from iostrata.recording import open_recording
from iostrata.trace.layout import THREAD_TARGET, THREAD_WORKER
from tests.reading import EVERY
from tests.stitch.test_truth import analysed, conserves
from tests.synthetic import O_DSYNC, World, Writer, device

DISK = device(8, 0)
WRITER, OTHER = 101, 202
WRITES, TOOK = 10, 20_000


def stop(world: World, tid: int, begin: int, took: int) -> None:
    world.emit("sched_throttled", begin + took, tid, since_ns=begin, throttled_ns=took,
               subject_tid=tid)  # fmt: skip


def stopped(took: int) -> World:
    """Behind every other write; a quota stops another thread, too, and the writer in its calls."""
    world = World()
    writer = Writer(world, WRITER, DISK, 1_000)
    for number in range(WRITES):
        writer.enter()
        writer.cpu(TOOK // 2)
        since = writer.now
        writer.preempted(TOOK // 2)
        world.emit("sched_throttled", writer.now, WRITER, since_ns=since, throttled_ns=TOOK // 2,
                   subject_tid=WRITER)  # fmt: skip
        writer.leave("pwrite64", flags=O_DSYNC, result=4096, size=4096)
        if took and number % 2:
            stop(world, WRITER, writer.now + 10, took)
        stop(world, OTHER, writer.now, 1_000_000)
        writer.now += took + 1_000
    return world


def lines(world: World) -> list[str]:
    breakdown = analysed(world)
    conserves(breakdown)
    assert breakdown.writes.latency_ns.tolist() == [TOOK] * WRITES
    return [gap.reason for gap in breakdown.quality.not_observed if gap.layer == "CPU quota"]


def test_who_writes_was_stopped_behind_its_calls() -> None:
    assert lines(stopped(90_000)) == [
        "stopped threads that write 5 times beside their writes, as behind a call, for 450 us in "
        "all: in no latency (see throttle.cpu)"
    ]


def test_each_kind_of_stop_is_told_by_itself() -> None:
    world = stopped(0)
    for by, took in ((Stop.SIGNAL, 70_000), (Stop.FREEZER, 30_000)):
        for tid in (WRITER, OTHER):
            world.emit("sched_stopped", 900 + took, tid, since_ns=900, subject_tid=tid, by=by)
    told = analysed(world).quality.not_observed
    assert [(gap.layer, gap.reason) for gap in told if "stopped" in gap.reason] == [
        (
            "signals",
            "stopped threads that write 1 time beside their writes (SIGSTOP, or who traces them) "
            "for 70.0 us in all: in no latency",
        ),
        (
            "freezer",
            "stopped threads that write 1 time beside their writes (of a control group) "
            "for 30.0 us in all: in no latency",
        ),
    ]


@pytest.mark.parametrize("took", [0, 100])
def test_what_is_not_worth_a_line(took: int) -> None:
    """Of 200 us, 500 ns; or none."""
    assert not lines(stopped(took))


POLLER = 102
FILE = {"inode": 12, "dev": DISK, "size_bytes": 8192, "open_flags": O_DSYNC, "opcode": 23}


@pytest.mark.parametrize("told", [True, False])
def test_whom_a_thread_of_the_kernel_s_submits_for_is_stopped(told: bool, tmp_path: Path) -> None:
    """SQPOLL: its process's threads are stopped at once, and another process's, too; nothing tells
    of a process's first thread if it makes no calls."""
    world = World()
    world.emit("thread", 1, POLLER, tgid=WRITER, subject_tid=POLLER, kind=THREAD_WORKER,
               comm=b"iou-sqp-101")  # fmt: skip
    world.target(OTHER)
    if told:
        world.emit("thread", 1, 103, tgid=WRITER, subject_tid=103, kind=THREAD_TARGET, comm=b"x")
    key = 0xFFFF_8880_0000_7700
    world.emit("io_uring_submit_req", 10_000, POLLER, request_key=key, **FILE)
    world.emit("io_uring_complete", 30_000, POLLER, request_key=key, result=8192, **FILE)
    for tid, begin, took in ((WRITER, 20_000, 50_000), (103, 20_500, 50_000), (OTHER, 900, 9_000)):
        world.emit("sched_stopped", begin + took, tid, since_ns=begin, subject_tid=tid,
                   by=Stop.SIGNAL)  # fmt: skip
    world.builder.write(tmp_path / "machine")
    (top,) = prepare(open_recording(tmp_path / "machine")).tops
    beside, amid = stops_of(top, Stop.SIGNAL)
    assert (beside.tolist(), amid.tolist()) == ([40_000 + 500 * told], [10_000])


def test_who_reads_is_stopped_beside_its_reads(tmp_path: Path) -> None:
    world = World()
    world.builder.env["reads"] = EVERY
    writer = Writer(world, WRITER, DISK, 1_000)
    writer.enter()
    writer.cpu(TOOK)
    writer.leave("pread64", result=4096, size=4096)
    world.emit("sched_stopped", 90_000, WRITER, since_ns=50_000, subject_tid=WRITER,
               by=Stop.SIGNAL)  # fmt: skip
    world.builder.write(tmp_path / "machine")
    told = analyse(open_recording(tmp_path / "machine"), op=Op.READ).quality.not_observed
    (line,) = [gap.reason for gap in told if gap.layer == "signals"]
    assert line.startswith("stopped threads that read 1 time beside their reads (SIGSTOP")


def test_a_request_that_is_under_way_goes_on_meanwhile(tmp_path: Path) -> None:
    world = World()
    world.target(100)
    shared = {"iocb_key": 0x7F00, "inode": 12, "dev": DISK, "open_flags": O_DSYNC, "opcode": 1}
    world.emit("aio_submit", 4_000, 100, enter_ns=1_000, size_bytes=8192, **shared)
    world.emit("aio_complete", 30_000, 100, enter_ns=5_000, result=8192, **shared)
    for begin, took in ((10_000, 15_000), (20_000, 40_000), (70_000, 5_000)):
        stop(world, 100, begin, took)
    world.builder.write(tmp_path / "machine")
    (top,) = prepare(open_recording(tmp_path / "machine")).tops
    beside, amid = stops_of(top, Stop.QUOTA)
    assert np.sort(beside).tolist() == [5_000, 30_000]
    assert np.sort(amid).tolist() == [10_000, 15_000]
    (line,) = [
        gap.reason
        for gap in analyse(open_recording(tmp_path / "machine")).quality.not_observed
        if gap.layer == "CPU quota"
    ]
    assert line == (
        "stopped threads that write 2 times beside their writes, as behind a call, for 35.0 us in "
        "all: in no latency (see throttle.cpu), and 2 times amid requests for 25.0 us in all: in "
        "whatever row was at work then"
    )
