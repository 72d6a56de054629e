# SPDX-License-Identifier: Apache-2.0
"""Memory is bounded whatever the recording: a crowd takes so much for each event."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.recording import open_recording
from tests.crowd import IN_FLIGHT, crowd

WRITES = 3 * IN_FLIGHT
MOST_BYTES_AN_EVENT = 2_000
"""Of so few events: all of them are in one window, with all that is told of each."""


@pytest.mark.parametrize("asynchronous", [False, True])
def test_where_everything_overlaps_everything(tmp_path: Path, asynchronous: bool) -> None:
    events = crowd(tmp_path / "crowd", WRITES, asynchronous=asynchronous)
    tracemalloc.start()
    try:
        breakdown = analyse(open_recording(tmp_path / "crowd"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(breakdown.writes) == WRITES
    whole = breakdown.time_ns.sum(axis=0) + breakdown.residual_ns
    assert (whole == breakdown.writes.latency_ns).all()
    assert breakdown.quality.background
    assert peak / events < MOST_BYTES_AN_EVENT
