# SPDX-License-Identifier: Apache-2.0
"""Latest: a growing recording's writes are each in one interval, as in the whole of it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.attribute.selection import joined
from iostrata.live import History, Interval, Latest, latest
from iostrata.live.latest import LEAST_EVENTS, LOOK_NS, MOST_EVENTS, affordable
from iostrata.recording import RecordedMachine, open_recording
from iostrata.trace import follow
from tests.synthetic import World, Writer, write
from tests.trace.growing import Growing

RECORDING = Path(__file__).parents[1] / "recordings" / "four_methods"
MACHINE = RecordedMachine("local", "local", "local")


def intervals(tmp_path: Path, steps: int) -> list[Interval]:
    growing = Growing(RECORDING / "local", tmp_path / "local")
    source, found = Latest(tmp_path, MACHINE), []
    # Beyond the end, so that the last writes are settled, too.
    for step in range(1, steps + 1):
        growing.until(growing.begin_ns + (growing.end_ns - growing.begin_ns) * step // steps)
        if interval := source.interval():
            found.append(interval)
    source.close()
    return found


def test_every_write_is_in_one_interval(tmp_path: Path) -> None:
    whole = analyse(open_recording(RECORDING))
    found = intervals(tmp_path, 9)
    assert len(found) > 3
    assert all(interval.skipped_ns == 0 for interval in found)
    assert all(a.end_ns == b.begin_ns for a, b in pairwise(found))
    seen = joined([interval.breakdown for interval in found if interval.breakdown])
    rows = np.flatnonzero(whole.writes.end_ns <= found[-1].end_ns)
    assert len(rows) > 100
    assert (seen.writes.end_ns == whole.writes.end_ns[rows]).all()
    assert (seen.writes.latency_ns == whole.writes.latency_ns[rows]).all()
    held = {layer.name: time for layer, time in zip(seen.layers, seen.time_ns, strict=True)}
    for layer, times in zip(whole.layers, whole.time_ns, strict=True):
        assert (held.get(layer.name, 0) == times[rows]).all(), layer.name
    assert (seen.time_ns.sum(axis=0) + seen.residual_ns == seen.writes.latency_ns).all()


def test_what_costs_too_much_is_skipped_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latest, "MOST_EVENTS", 1500)
    monkeypatch.setattr(latest, "LEAST_EVENTS", 1500)
    monkeypatch.setattr(follow, "SETTLED_NS", 1_000_000)
    found = intervals(tmp_path, 2)
    assert any(interval.skipped_ns > 0 for interval in found)
    for interval in found:
        assert (interval.skipped_events > 0) == (interval.skipped_ns > 0)
    events = analyse(open_recording(RECORDING)).quality.cost
    assert events
    assert sum(one.events + one.skipped_events for one in found) <= events.events
    whole = analyse(open_recording(RECORDING)).writes
    looked = 0
    for interval in found:
        assert interval.seen_ns is not None
        ended = (whole.end_ns > interval.begin_ns) & (whole.end_ns <= interval.end_ns)
        expected = whole.end_ns[ended & (whole.latency_ns <= interval.seen_ns)]
        seen = interval.breakdown.writes.end_ns if interval.breakdown else expected[:0]
        # No part of what is short enough is missing, however much is.
        assert np.isin(expected, seen).all()
        looked += len(expected)
    assert looked > 10


def test_what_a_look_took_bounds_the_next() -> None:
    assert affordable(MOST_EVENTS, LOOK_NS // 2) == MOST_EVENTS
    assert affordable(20_000, 2 * LOOK_NS) == 10_000
    assert affordable(20_000, 1) == 25_000
    assert affordable(20_000, 1 << 62) == LEAST_EVENTS


@pytest.mark.parametrize(("parts", "packet_events", "sleeps"), [(1, 50, 0), (10, 3_000, 70)])
def test_a_load_that_is_as_regular_as_the_looks_counts_as_it_was(
    parts: int, packet_events: int, sleeps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each second, or of each part of it, the first half has many short writes, and the second
    one few long ones: of more events each, where a packet has some of both."""
    monkeypatch.setattr(latest, "MOST_EVENTS", 1200)
    monkeypatch.setattr(latest, "LEAST_EVENTS", 1200)
    world, truth = World(), []
    world.builder.packet_events = packet_events
    writer = Writer(world, 100, 0, 1_000_000)
    for part in range(1, 30 * parts + 1):
        for count, took_ns, gap_ns in ((4_000, 10_000, 115_000), (100, 4_000_000, 990_000)):
            for _ in range(count // parts):
                writer.enter()
                times = sleeps if count == 100 else 0
                for _ in range(times):
                    writer.preempted(50_000)
                writer.cpu(took_ns - times * 50_000)
                writer.leave("fsync")
                writer.now += gap_ns
                truth.append(took_ns)
        writer.now = 1_000_000 + part * 1_000_000_000 // parts
    growing = Growing(write(world, tmp_path / "source"), tmp_path / "local")
    source, history = Latest(tmp_path, MACHINE), History(30)
    for second in range(1, 31):
        growing.until(1_200_000 + second * 1_000_000_000)
        if interval := source.interval():
            history.add(interval)
    source.close()
    summary = history.summary({})
    assert summary.table
    assert summary.sampled < 0.3
    assert summary.error is not None
    assert summary.error < 0.05
    assert summary.missing == 0
    assert summary.writes_per_s[5] == pytest.approx(4_100, rel=0.03)
    assert summary.table.total.mean_ns == pytest.approx(np.mean(truth), rel=0.04)
