# SPDX-License-Identifier: Apache-2.0
"""Latest: every write of a growing recording is in one beat, and as the whole recording has it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.attribute.selection import joined
from iostrata.live import Beat, Latest, latest
from iostrata.recording import Machine, open_recording
from iostrata.trace import follow
from tests.trace.growing import Growing

RECORDING = Path(__file__).parents[1] / "recordings" / "four_methods"
MACHINE = Machine("local", "local", "local")


def beats(tmp_path: Path, steps: int) -> list[Beat]:
    growing = Growing(RECORDING / "local", tmp_path / "local")
    source, found = Latest(tmp_path, MACHINE), []
    # Beyond the end, so that the last writes are settled, too.
    for step in range(1, steps + 1):
        growing.until(growing.begin_ns + (growing.end_ns - growing.begin_ns) * step // steps)
        if beat := source.beat():
            found.append(beat)
    source.close()
    return found


def test_every_write_is_in_one_beat(tmp_path: Path) -> None:
    whole = analyse(open_recording(RECORDING))
    found = beats(tmp_path, 9)
    assert len(found) > 3
    assert all(beat.skipped_ns == 0 for beat in found)
    assert all(a.end_ns == b.begin_ns for a, b in pairwise(found))
    seen = joined([beat.breakdown for beat in found if beat.breakdown])
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
    monkeypatch.setattr(follow, "SETTLED_NS", 1_000_000)
    found = beats(tmp_path, 2)
    assert any(beat.skipped_ns > 0 for beat in found)
