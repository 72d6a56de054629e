# SPDX-License-Identifier: Apache-2.0
"""Sleeps that cannot be are left out, named, and a loss: against a loop that cannot be wrong."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iostrata import native
from iostrata.stitch.wakeup import sleeps_of
from iostrata.stitch.window import whole
from iostrata.trace import points
from iostrata.trace.read import Trace, read_trace
from iostrata.trace.write import write_trace

Row = tuple[int, int, int, int]
"""Thread; since when it slept, when it was let go, when it ran again."""
rows = st.lists(st.tuples(st.integers(7, 9), *[st.integers(0, 40)] * 3), max_size=12)


def traced(resumed: list[Row], woken: list[Row]) -> Trace:
    """On several CPUs. ``woken``: without since when."""
    tid, off, wake, on = np.array(resumed, np.int64).reshape(-1, 4).T
    resumes = {"subject_tid": tid, "off_ns": off, "wake_ns": wake, "time_ns": on, "cpu": on % 2}
    tid, _, wake, on = np.array(woken, np.int64).reshape(-1, 4).T
    wokes = {"subject_tid": tid, "wake_ns": wake, "on_ns": on, "time_ns": on * 0 + 60}
    with tempfile.TemporaryDirectory() as directory:
        events = {"sched_resume": resumes, "sched_woken": {**wokes, "cpu": tid * 0 + 2}}
        write_trace(Path(directory), {name: one for name, one in events.items() if len(one)})
        return read_trace(Path(directory))


def possible(resumed: list[Row], woken: list[Row]) -> list[Row]:
    """Those that can be, in the order of ``Sleeps``."""
    told = [(*row, 0) for row in resumed] + [(tid, wake, wake, on, 1) for tid, _, wake, on in woken]
    last: dict[int, int] = {}
    kept = []
    for number in sorted(range(len(told)), key=lambda number: told[number][3]):
        tid, off, wake, on, _ = told[number]
        if 0 < off <= on and (not wake or off <= wake <= on) and off >= last.get(tid, 0):
            kept.append(number)
        last[tid] = on
    kept.sort(key=lambda number: (told[number][4], number))
    return [told[number][:4] for number in kept]


@pytest.mark.parametrize("library", [native.LIBRARY, None])
@settings(max_examples=200)
@given(rows, rows, st.sampled_from([1, 3, 1 << 16]))
def test_what_is_left_does_not_overlap(
    library: object, resumed: list[Row], woken: list[Row], many: int
) -> None:
    # What tells of a time behind its own is left out before.
    resumed = sorted((row for row in resumed if row[1] and max(row[1:3]) <= row[3]), key=on_of)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(points, "MANY_EVENTS", many)
        patch.setattr(native, "LIBRARY", library)
        trace = traced(resumed, woken)
        sleeps = sleeps_of(whole(trace))
    wanted = possible(resumed, woken)
    found = zip(sleeps.tid, sleeps.off_ns, sleeps.wake_ns, sleeps.on_ns, strict=True)
    assert [tuple(map(int, row)) for row in found] == wanted
    lost = len(resumed) + len(woken) - len(wanted)
    assert sum(int(line.split()[1]) for line in trace.damage if "sleep" in line) == lost
    assert len(trace.losses) == lost
    runs = np.array([row[3] for row in [*resumed, *woken]], np.int64)
    left = np.array([row[3] for row in wanted], np.int64)
    gone = np.maximum(np.setdiff1d(runs, left), trace.begin_ns)
    assert trace.losses.touch(gone, gone + 1).all()


@pytest.mark.skipif(native.LIBRARY is None, reason="libnative.so was not built: make native")
def test_where_all_can_be_no_event_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iostrata.trace.sleeps._impossible", None)
    assert not traced([(8, 2, 0, 5), (7, 10, 15, 20), (8, 5, 0, 25)], [(7, 0, 30, 31)]).damage
    for wrong in [(8, 24, 0, 30)], [(8, 25, 24, 30)]:
        with pytest.raises(TypeError):
            traced([(8, 5, 0, 25), *wrong], [])


def on_of(row: Row) -> int:
    return row[3]


def test_what_a_thread_did_while_it_slept_is_damage() -> None:
    """From when on the first is told to have slept: either may be another thread's."""
    told = [(8, 2, 0, 5), (7, 10, 15, 20), (8, 12, 0, 25), (7, 19, 30, 40), (7, 40, 45, 50)]
    trace = traced(told, [])
    assert trace.damage[0] == "sched_resume: 1 event tells of a sleep that cannot be"
    assert trace.points["sched_resume"]["time_ns"].tolist() == [5, 20, 25, 50]
    lost = trace.losses
    assert [lost.begin_ns.tolist(), lost.end_ns.tolist(), lost.count.tolist()] == [[10], [40], [1]]


def test_who_is_let_go_before_it_sleeps_is_damage() -> None:
    trace = traced([(7, 10, 9, 20), (7, 20, 0, 30)], [(9, 0, 18, 17)])
    assert [line for line in trace.damage if "sleep" in line] == [
        "sched_resume: 1 event tells of a sleep that cannot be",
        "sched_woken: 1 event tells of a sleep that cannot be",
    ]
    assert trace.points["sched_resume"]["time_ns"].tolist() == [30]
    assert not len(trace.points["sched_woken"])
