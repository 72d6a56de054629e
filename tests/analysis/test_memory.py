# SPDX-License-Identifier: Apache-2.0
"""Memory is bounded whatever the recording: a crowd takes so much for each event."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from tests.crowd import IN_FLIGHT, crowd

WRITES = 3 * IN_FLIGHT
MOST_BYTES_AN_EVENT = 2_000
"""Of so few events: all of them are in one window, with all that is told of each."""
FEW_WRITES, MANY_WRITES = 8 * IN_FLIGHT, 16 * IN_FLIGHT
"""Of both there are windows with neighbours on either side, so that these are alike."""
PROCESS_BYTES = 200 << 20
"""What the program and its windows take, however many events there are."""
GIB_BYTES_AN_EVENT = ((1 << 30) - PROCESS_BYTES) / 10_000_000
"""What one of ten million may take of a gibibyte."""
MOST_BYTES_WITH_WHO = 3_000
"""Each of a write's waits for a flush is told apart by who asked for what was ahead of it: of some
writes at a time."""


def analysed(path: Path) -> tuple[Breakdown, int]:
    """And the most bytes that it took."""
    tracemalloc.start()
    try:
        return analyse(open_recording(path)), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_ten_million_events_are_analysed_in_a_gibibyte(tmp_path: Path) -> None:
    """By what more events take: what several windows see is kept once."""
    events, peaks = [], []
    for writes in (FEW_WRITES, MANY_WRITES):
        path = tmp_path / str(writes)
        events.append(crowd(path, writes, asynchronous=True))
        breakdown, peak = analysed(path)
        peaks.append(peak)
        (flushed,) = (left for left in breakdown.quality.background if left.kind == "request")
        assert flushed.count == writes
    assert (peaks[1] - peaks[0]) / (events[1] - events[0]) < GIB_BYTES_AN_EVENT


@pytest.mark.parametrize(
    ("asynchronous", "told"), [(False, False), (True, False), (False, True), (True, True)]
)
def test_where_everything_overlaps_everything(
    tmp_path: Path, asynchronous: bool, told: bool
) -> None:
    """With who is told, each waits behind each of the others, who are all somebody else."""
    events = crowd(tmp_path / "crowd", WRITES, asynchronous=asynchronous, told=told)
    breakdown, peak = analysed(tmp_path / "crowd")
    assert len(breakdown.writes) == WRITES
    whole = breakdown.time_ns.sum(axis=0) + breakdown.residual_ns
    assert (whole == breakdown.writes.latency_ns).all()
    assert breakdown.quality.background
    assert bool(len(breakdown.behind.write)) == told
    assert peak / events < (MOST_BYTES_WITH_WHO if told else MOST_BYTES_AN_EVENT)
