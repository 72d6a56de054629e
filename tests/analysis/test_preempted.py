# SPDX-License-Identifier: Apache-2.0
"""Threads that another one takes the CPU of behind the end of a call, on their way back from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.analysis.prepared import prepare
from iostrata.analysis.stopped import Stop, stops_of
from iostrata.model import Op
from iostrata.recording import open_recording
from tests.reading import EVERY
from tests.stitch.test_truth import analysed, conserves
from tests.synthetic import O_DSYNC, World, Writer, device

DISK = device(8, 0)
WRITER = 101
WRITES, TOOK = 10, 20_000
KEPT = 30_000


def kept(world: World, call_ns: int, begin: int, took: int, tid: int = WRITER) -> None:
    world.emit("sched_stopped", begin + took, tid, since_ns=begin, subject_tid=tid,
               by=Stop.PREEMPTED, call_ns=call_ns)  # fmt: skip


def written(world: World, took: int = KEPT, call: str = "pwrite64", flags: int = O_DSYNC) -> World:
    """Behind every other write its thread has no CPU for so long; twice behind the first."""
    writer = Writer(world, WRITER, DISK, 1_000)
    for number in range(WRITES):
        begin = writer.now
        writer.enter()
        writer.cpu(TOOK)
        writer.leave(call, flags=flags, result=4096, size=4096)
        if not number % 2:
            kept(world, begin, writer.now + 10, took)
        if not number:
            kept(world, begin, writer.now + took + 20, took)
        writer.now += 2 * took + 1_000
    return world


def lines(world: World) -> list[str]:
    breakdown = analysed(world)
    conserves(breakdown)
    assert set(breakdown.writes.latency_ns.tolist()) == {TOOK}
    return [gap.reason for gap in breakdown.quality.not_observed if gap.layer == "preemption"]


def test_who_writes_was_preempted_behind_its_calls() -> None:
    assert lines(written(World())) == [
        "stopped threads that write 6 times beside their writes, preempted on the way back from "
        "them, for 180 us in all: in no latency, but 18.0 us a write in the threads' own clocks"
    ]


def test_it_is_not_worth_a_line_below_a_hundredth() -> None:
    assert not lines(written(World(), took=300))
    assert lines(written(World(), took=400))


def test_what_is_behind_another_call_is_of_no_write() -> None:
    """That of a write that nobody made durable, of another thread's, or of one that was lost."""
    world = written(World(), took=0)
    Writer(world, 202, DISK, 500_000)
    plain = Writer(world, WRITER, DISK, 600_000)
    plain.enter()
    plain.cpu(TOOK)
    plain.leave("pwrite64", result=4096, size=4096)
    kept(world, 600_000, 600_000 + TOOK + 10, KEPT)
    kept(world, 1_000, 700_000, KEPT, tid=202)
    kept(world, 2_000, 800_000, KEPT)
    assert not lines(world)


@pytest.mark.parametrize("lost", [False, True])
def test_where_the_begin_of_another_call_may_be_missing_nothing_is_told(
    lost: bool, tmp_path: Path
) -> None:
    """A program that was skipped did not forget the write before."""
    world = World()
    writer = Writer(world, WRITER, DISK, 1_000_000)
    for _ in range(2):
        begin = writer.now
        writer.enter()
        writer.cpu(TOOK)
        writer.leave("pwrite64", flags=O_DSYNC, result=4096, size=4096)
        writer.now += 50_000_000
    kept(world, begin, begin + 30_000_000, KEPT)
    if lost:
        world.builder.add("miss", time_ns=begin + 20_000_000, since_ns=begin + 10_000_000,
                          missed_count=1, program=b"syscall_enter_write")  # fmt: skip
    world.builder.write(tmp_path / "machine")
    (top,) = prepare(open_recording(tmp_path / "machine")).tops
    assert stops_of(top, Stop.PREEMPTED)[0].tolist() == [KEPT] * (not lost)


def test_who_reads_is_preempted_behind_its_reads(tmp_path: Path) -> None:
    world = World()
    world.builder.env["reads"] = EVERY
    written(world, call="pread64", flags=0).builder.write(tmp_path / "machine")
    told = analyse(open_recording(tmp_path / "machine"), op=Op.READ).quality.not_observed
    (line,) = [gap.reason for gap in told if gap.layer == "preemption"]
    assert line.startswith("stopped threads that read 6 times beside their reads, preempted")
    assert line.endswith("18.0 us a read in the threads' own clocks")
