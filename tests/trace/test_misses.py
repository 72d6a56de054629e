# SPDX-License-Identifier: Apache-2.0
"""Hits that the kernel skipped a program for are losses of the time between two looks."""

from __future__ import annotations

from pathlib import Path

from iostrata.trace import layout
from iostrata.trace.read import read_trace
from iostrata.trace.stream import UNKNOWN_CPU
from tests.builder import TraceBuilder


def recording(skipped: list[tuple[int, int, str, int]]) -> TraceBuilder:
    builder = TraceBuilder().add("syscall", time_ns=10).add("syscall", time_ns=90)
    for since_ns, time_ns, program, count in skipped:
        builder.add("miss", time_ns=time_ns, since_ns=since_ns, program=program.encode(),
                    missed_count=count)  # fmt: skip
    return builder


def test_each_growth_is_a_window_and_each_program_is_named(tmp_path: Path) -> None:
    skipped = [(20, 40, "block_rq_issue", 3), (20, 41, "syscall_exit", 1),
               (60, 80, "block_rq_issue", 2)]  # fmt: skip
    trace = read_trace(recording(skipped).write(tmp_path))
    assert trace.lost_by_point == {"program:block_rq_issue": 5, "program:syscall_exit": 1}
    losses = trace.losses
    assert losses.begin_ns.tolist() == [20, 20, 60]
    assert losses.end_ns.tolist() == [40, 41, 80]
    assert losses.count.tolist() == [3, 1, 2]
    assert set(losses.cpu.tolist()) == {UNKNOWN_CPU}
    assert trace.damage == ()


def test_what_only_tells_of_a_machine_below_is_no_loss_where_none_is_recorded(
    tmp_path: Path,
) -> None:
    skipped = [(20, 40, "virtio_notify_out", 3), (20, 41, "syscall_exit", 1)]
    recording(skipped).write(tmp_path)
    trace = read_trace(tmp_path)
    assert trace.lost_by_point == {"program:syscall_exit": 1, "program:virtio_notify_out": 3}
    assert trace.losses.count.tolist() == [3, 1]
    trace = read_trace(tmp_path, alone=True)
    assert trace.lost_by_point == {"program:syscall_exit": 1}
    assert trace.losses.count.tolist() == [1]


def test_a_window_is_cut_to_the_time_that_was_recorded(tmp_path: Path) -> None:
    trace = read_trace(recording([(1, 50, "syscall_exit", 1)]).write(tmp_path))
    assert trace.losses.begin_ns.tolist() == [10]


def test_an_event_that_was_begun_and_never_came_is_lost(tmp_path: Path) -> None:
    """The recorder does not know which point's it was to be."""
    builder = recording([]).add("loss", time_ns=80, cpu=0, lost_point=0, lost_count=2)
    trace = read_trace(builder.write(tmp_path))
    assert trace.lost_by_point == {"unknown": 2}
    assert trace.losses.count.tolist() == [2]


def test_the_last_word_on_each_table_that_was_full_is_told(tmp_path: Path) -> None:
    builder = recording([])
    for time_ns, table, count, last in ((20, 0, 1, 77), (30, 1, 4, 8 << 20 | 16), (40, 0, 3, 78)):
        builder.add("full", time_ns=time_ns, table=table, refused_count=count, last=last)
    trace = read_trace(builder.write(tmp_path))
    assert trace.damage == (
        "no room for some threads (3 times, for 78 last): what they did is not recorded",
        "no room for some devices (4 times, for 8:16 last): what they did is not recorded",
    )
    assert len(trace.losses) == 0


def test_a_recording_that_was_abandoned_says_so(tmp_path: Path) -> None:
    asked = recording([]).add("end", time_ns=90, reason=layout.END_ASKED)
    assert read_trace(asked.write(tmp_path / "asked")).damage == ()
    abandoned = recording([]).add("end", time_ns=90, reason=layout.END_ABANDONED)
    (line,) = read_trace(abandoned.write(tmp_path / "abandoned")).damage
    assert line == "it ends early: who had started the recorder was gone"
