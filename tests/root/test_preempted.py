# SPDX-License-Identifier: Apache-2.0
"""Who writes loses its CPU on its way back from its calls: in no latency, and said so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.analysis.prepared import prepare
from iostrata.analysis.stopped import OF_NOTE, Stop, stops_of
from iostrata.columns import columns_of
from iostrata.recording import open_recording
from tests.root.conftest import iostrata
from tests.root.test_aio import compiled
from tests.root.test_record import good

SYNCS = 40_000


def test_own_clocks_have_what_is_told(disk: Path, tmp_path: Path) -> None:
    """Of no call more than its own clock has beyond the latency, of all much of that: on its way
    there a thread is preempted, too, and in the calls, if the kernel is (PREEMPT)."""
    directory, program = disk / "recording", compiled("behind", tmp_path)
    done = iostrata(
        "record", "--quiet", "-o", str(directory), "--", str(program), str(disk / "file"),
        str(SYNCS),
    )  # fmt: skip
    if "sched_setscheduler" in done.stderr:
        pytest.skip("no real-time thread may be had")
    good(done.returncode, done.stderr)
    recording = open_recording(directory)
    found = analyse(recording)
    if lost := found.quality.lost:
        pytest.skip(f"the kernel ran not each program: {lost}")
    assert len(found.writes) == SYNCS, found.left_out
    order = np.argsort(found.writes.begin_ns)
    begin_ns, latency_ns = found.writes.begin_ns[order], found.writes.latency_ns[order]
    beyond_ns = np.array(done.stdout.split(), np.int64) - latency_ns
    assert (beyond_ns >= 0).all()
    (top,) = prepare(recording).tops
    told = columns_of(top.trace.points["sched_stopped"], "since_ns", "by", "call_ns")
    mine = told["by"] == Stop.PREEMPTED
    call = np.searchsorted(begin_ns, told["call_ns"][mine])
    assert (begin_ns[call] == told["call_ns"][mine]).all()
    kept_ns = np.bincount(call, (told["time_ns"] - told["since_ns"])[mine], SYNCS)
    assert (kept_ns <= beyond_ns).all()
    assert kept_ns.sum() == stops_of(top, Stop.PREEMPTED)[0].sum()
    # What each call takes beyond: the clock, and the way there and back.
    beyond_ns -= int(np.median(beyond_ns))
    rows = {layer.row: int(ns.sum()) for layer, ns in zip(found.layers, found.time_ns, strict=True)}
    within_ns = rows.get("wakeup.runqueue", 0)
    assert kept_ns.sum() + within_ns >= 0.3 * (beyond_ns.sum() + within_ns)
    layers = [gap.layer for gap in found.quality.not_observed]
    assert ("preemption" in layers) == (kept_ns.sum() >= OF_NOTE * latency_ns.sum())
