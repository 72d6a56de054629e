# SPDX-License-Identifier: Apache-2.0
"""Recordings of real kernels: their tables stay as they were read once, and they add up."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.attribute import summarise
from iostrata.recording import open_recording
from iostrata.report import json, table

RECORDINGS = Path(__file__).parent / "recordings"
# Recorded before kernel workers that let a thread go were: ext4's and XFS's, that end appends,
# and the NFS client's, that commit what was written directly.
UNEXPLAINED = {"ext4_journal": 0.02, "xfs_log": 0.04, "nfs_direct_commit": 0.02}
NAMES = sorted(path.parent.name for path in RECORDINGS.glob("*/recording.json"))


@pytest.mark.parametrize("name", NAMES)
def test_the_table_is_as_it_was(name: str) -> None:
    """IOSTRATA_REWRITE=1 writes the tables anew; read what changed."""
    text = table.render(summarise(analyse(open_recording(RECORDINGS / name))), 80).plain
    golden = RECORDINGS / f"{name}.txt"
    if os.environ.get("IOSTRATA_REWRITE"):
        golden.write_text(text)
    assert text == golden.read_text()


@pytest.mark.parametrize("name", NAMES)
def test_every_write_adds_up(name: str) -> None:
    breakdown = analyse(open_recording(RECORDINGS / name))
    layers = breakdown.time_ns.sum(axis=0)
    assert np.array_equal(layers + breakdown.residual_ns, breakdown.writes.latency_ns)
    assert (breakdown.time_ns >= 0).all()
    assert (breakdown.residual_ns >= 0).all()
    # Nearly all of the time is accounted for; io_uring's workers have gaps that no point fills.
    limit = UNEXPLAINED.get(name, 0.01)
    assert breakdown.residual_ns.sum() <= limit * breakdown.writes.latency_ns.sum()


@pytest.mark.parametrize("name", NAMES)
def test_the_same_recording_gives_the_same_bytes(name: str) -> None:
    once, again = (
        json.render(summarise(analyse(open_recording(RECORDINGS / name)))) for _ in range(2)
    )
    assert once == again
