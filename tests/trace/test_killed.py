# SPDX-License-Identifier: Apache-2.0
"""What is whole of a recording whose recorder was killed, by what the recorder had counted."""

from __future__ import annotations

import tempfile
from bisect import bisect_right
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostrata.trace.read import Trace, read_trace
from tests.builder import TraceBuilder

MS = 1_000_000
HELD_BACK = 10 * MS
WRITTEN = 250
COUNTED = 1000
KILLED = "the recorder still runs, was killed, or could write no more (a full disk)"
# In turn; of threads that each slept once.
POINTS = {"syscall": (), "sched_resume": ("subject_tid", "off_ns")}


@dataclass
class Recorder:
    """Reads its rings each so many ms, writes four times a second, counts each second.

    ``events``: of each CPU, when. ``file``: what was written, one after the other: a CPU's events
    until a time, or a count and when it was told.
    """

    events: list[list[int]]
    file: list[tuple[str, int, list[int]]] = field(default_factory=list)

    def run(self, until_ms: int, every_ms: int, slow_ms: int) -> None:
        """``slow_ms``: so much later each further CPU's ring is read."""
        now_ns, count_at, write_at = 0, COUNTED * MS, WRITTEN * MS
        while now_ns < until_ms * MS:
            now_ns += every_ms * MS
            read = [now_ns + slow_ms * MS * cpu for cpu in range(len(self.events))]
            now_ns = read[-1]
            counts = now_ns >= count_at
            if counts or now_ns >= write_at:
                self._write(now_ns - HELD_BACK, read)
                write_at = now_ns + WRITTEN * MS
            if counts:
                told = sum(map(bisect_right, self.events, read))
                self.file.append(("count", now_ns, [told]))
                count_at += COUNTED * MS

    def _write(self, until_ns: int, read: list[int]) -> None:
        for cpu, times in enumerate(self.events):
            self.file.append(("cpu", cpu, times[: bisect_right(times, min(until_ns, read[cpu]))]))

    def killed(self, directory: Path, packets: int) -> Trace:
        """The recording of what the first so many packets hold."""
        builder = TraceBuilder(env={"machine_cpus": len(self.events)})
        builder.add("clock_sample", time_ns=1).add("recorder", time_ns=2, event_count=0)
        there: dict[int, list[int]] = {}
        for kind, number, values in self.file[:packets]:
            if kind == "cpu":
                there[number] = values
            else:
                builder.add("clock_sample", time_ns=number)
                builder.add("recorder", time_ns=number + 1, event_count=values[0])
        for cpu, times in there.items():
            for point, fields in POINTS.items():
                if own := times[list(POINTS).index(point) :: len(POINTS)]:
                    told = dict.fromkeys(fields, own)
                    builder.extend(point, time_ns=own, cpu=cpu, **told)
        return read_trace(builder.write(directory))


def busy(*, idle: tuple[int, ...] = (), since_ms: int = 1) -> Recorder:
    """One CPU has an event each ms for 3.3 s, the other one ``idle`` its own."""
    return Recorder([list(idle), [ms * MS for ms in range(since_ms, 3300)]])


def unsure_since(trace: Trace, cpu: int) -> int:
    own = trace.losses.cpu == cpu
    return int(trace.losses.begin_ns[own].min()) // MS


@pytest.mark.parametrize("idle", [(), (100 * MS, 200 * MS)])
def test_a_cpu_that_went_idle_has_nothing_missing_where_the_counts_say_so(
    tmp_path: Path, idle: tuple[int, ...]
) -> None:
    recorder = busy(idle=idle)
    recorder.run(3300, 10, 0)
    trace = recorder.killed(tmp_path, len(recorder.file))
    # Counts of 1, 2 and 3 s are met; what is older than the last but one had been read.
    assert unsure_since(trace, 0) == 2000
    assert unsure_since(trace, 1) >= 3200
    (line,) = trace.damage
    assert line == f"{KILLED}: from 2.00 s on, events may be missing"


def test_where_a_count_tells_of_more_than_is_there_nothing_is_taken_for_whole(
    tmp_path: Path,
) -> None:
    """The idle CPU had events after 1.1 s: a file that is older than the others lacks them."""
    recorder = busy(idle=(100 * MS, *(1_100 * MS + n for n in range(50))))
    recorder.run(3300, 10, 0)
    recorder.file = [
        (kind, number, [time for time in values if kind == "count" or number or time < 1_000 * MS])
        for kind, number, values in recorder.file
    ]
    trace = recorder.killed(tmp_path, len(recorder.file))
    # Those of 1 s are met, which tells of nothing after the begin.
    assert unsure_since(trace, 0) == 100
    assert trace.losses.touch(np.array([1_100 * MS]), np.array([1_101 * MS])).all()


def test_a_ring_that_was_read_long_before_the_count(tmp_path: Path) -> None:
    """Another one's took 300 ms to read meanwhile: what came behind is in no count yet."""
    late = 2_300 * MS
    recorder = Recorder([[ms * MS for ms in range(1, 3300)], [100 * MS, late], []])
    recorder.run(3300, 10, 300)
    _, second, *_ = (at for at, (kind, *_) in enumerate(recorder.file) if kind == "count")
    assert recorder.file[second][1] == 2_440 * MS
    trace = recorder.killed(tmp_path, second + 1)
    assert unsure_since(trace, 1) == 1220
    assert trace.losses.touch(np.array([late]), np.array([late])).all()


times = st.lists(st.integers(1, 3400 * MS), max_size=60, unique=True).map(sorted)


@given(
    st.lists(times, min_size=1, max_size=3),
    st.booleans(),
    st.integers(1, 40),
    st.integers(0, 400),
    st.floats(0, 1),
)
def test_no_event_is_missing_where_none_may_be(
    events: list[list[int]], dense: bool, every_ms: int, slow_ms: int, part: float
) -> None:
    if dense:
        events = [*events, [ms * MS for ms in range(1, 3400)]]
    recorder = Recorder(events)
    recorder.run(3400, every_ms, slow_ms)
    with tempfile.TemporaryDirectory() as directory:
        packets = round(part * len(recorder.file))
        trace = recorder.killed(Path(directory), packets)
        there: dict[int, list[int]] = {}
        there.update({cpu: held for kind, cpu, held in recorder.file[:packets] if kind == "cpu"})
        gone = [
            time for cpu, every in enumerate(events) for time in every[len(there.get(cpu, [])) :]
        ]
        missing = np.array([time for time in gone if time <= trace.end_ns], np.int64)
        assert trace.losses.touch(missing, missing).all()
        assert KILLED in trace.damage[0]
