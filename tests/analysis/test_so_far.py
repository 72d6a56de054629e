# SPDX-License-Identifier: Apache-2.0
"""What an analysis tells while it goes on is what it comes to, when it is over."""

from __future__ import annotations

from pathlib import Path

import pytest

from iostrata.analysis import SoFar, analyse
from iostrata.recording import open_recording
from iostrata.stitch import window

RECORDINGS = Path(__file__).parents[1] / "recordings"


@pytest.mark.parametrize("name", ["four_methods", "kvm_nfs"])
def test_the_last_is_the_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "WINDOW_PIECES", 15)
    told: list[SoFar] = []
    breakdown = analyse(open_recording(RECORDINGS / name), heard=told.append)
    last = told[-1]
    assert len(told) > 2
    assert [one.share for one in told] == sorted(one.share for one in told)
    assert [one.count for one in told] == sorted(one.count for one in told)
    assert last.share == 1
    assert last.count == len(breakdown.writes)
    assert last.mean_ns == pytest.approx(breakdown.writes.latency_ns.mean())
    all_ns, of = breakdown.writes.latency_ns.sum(), dict.fromkeys(last.held, 0)
    for layer, times in zip(breakdown.layers, breakdown.time_ns, strict=True):
        of[layer.segment] += int(times.sum())
    assert last.held == pytest.approx({segment: ns / all_ns for segment, ns in of.items()})
