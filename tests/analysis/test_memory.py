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
MOST_BYTES_WITH_WHO = 10_000
"""Each of a write's waits for a flush is told apart by who asked for what was ahead of it."""


@pytest.mark.parametrize(("asynchronous", "told"), [(False, False), (True, False), (False, True)])
def test_where_everything_overlaps_everything(
    tmp_path: Path, asynchronous: bool, told: bool
) -> None:
    """With who is told, each waits behind each of the others, who are all somebody else."""
    events = crowd(tmp_path / "crowd", WRITES, asynchronous=asynchronous, told=told)
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
    assert bool(len(breakdown.behind.write)) == told
    assert peak / events < (MOST_BYTES_WITH_WHO if told else MOST_BYTES_AN_EVENT)
