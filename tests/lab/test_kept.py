# SPDX-License-Identifier: Apache-2.0
"""What a kernel's function tracer says it kept writes for, with known truth."""

from __future__ import annotations

from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.errors import LabError
from iostrata.lab.kept import kept_ns, shared_ns, spans_of
from iostrata.recording import open_recording
from tests.synthetic import O_DSYNC, TASK_UNINTERRUPTIBLE, World, Writer, device

FUNCTIONS = ("tg_throttle_down", "tg_unthrottle_up")
DISK = device(253, 0)
HEAD = "# tracer: function\n#\n# entries-in-buffer/entries-written: {}/{}   #P:1\n#\n"


def call(time_us: int, name: str) -> str:
    return (
        f" a b-c-77      [000] dN.2. {time_us // 10**6:>5}.{time_us % 10**6:06}: "
        f"{name} <-walk_tg_tree_from\n"
    )


def told(*calls: tuple[int, int], lost: int = 0) -> str:
    """``calls``: time in us, and which function."""
    lines = "".join(call(time_us, FUNCTIONS[which]) for time_us, which in calls)
    return HEAD.format(len(calls), len(calls) + lost) + lines


def test_spans_are_from_the_first_to_the_next_of_the_second() -> None:
    """It may have begun before; what begins twice began at first, what does not end is none."""
    spans = spans_of(
        told(
            (5, 1), (1_000_007, 0), (1_000_009, 0), (2_000_000, 1), (2_000_001, 1), (3_000_000, 0)
        ),
        FUNCTIONS,
    )
    assert spans.begins.tolist() == [1_000_007_000]
    assert spans.ends.tolist() == [2_000_000_000]


@pytest.mark.parametrize("text", ["", told((5, 0), lost=1)])
def test_lost_calls_are_an_error(text: str) -> None:
    with pytest.raises(LabError):
        spans_of(text, FUNCTIONS)


def test_what_waits_for_a_cpu_share_with_the_spans(tmp_path: Path) -> None:
    """Of a call preempted, and of one woken; none of a sleep, nor of what is between calls."""
    world = World()
    writer = Writer(world, 101, DISK, 1_000_000)
    writer.enter()
    writer.cpu(50_000)
    writer.preempted(100_000)  # 1.05 to 1.15 ms
    writer.leave("pwrite64", flags=O_DSYNC, result=4096, size=4096)
    writer.preempted(150_000)  # to 1.3 ms, between its calls
    writer.enter()
    asleep = writer.now
    writer.now += 200_000
    world.emit("sched_resume", writer.now, 101, off_ns=asleep, wake_ns=asleep + 150_000,
               waker_tid=0, state=TASK_UNINTERRUPTIBLE, subject_tid=101, waker_context=2,
               waker_cpu=0)  # fmt: skip
    writer.leave("pwrite64", flags=O_DSYNC, result=4096, size=4096)
    world.builder.write(tmp_path / "machine")
    recording = open_recording(tmp_path / "machine")
    (trace,) = recording.traces()
    # 1.1 to 1.2, and all of 1.25 to 1.47: 50 us of the first wait, 20 of the last.
    spans = spans_of(told((1_100, 0), (1_200, 1), (1_250, 0), (1_470, 1)), FUNCTIONS)
    writes = analyse(recording).writes
    assert kept_ns(writes, trace, spans) == 70_000
    # The calls are from 1 to 1.15 and from 1.3 ms.
    assert shared_ns(writes, spans) == 50_000 + 170_000
