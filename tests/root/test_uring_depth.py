# SPDX-License-Identifier: Apache-2.0
"""Several requests of io_uring at once, to a disk that has one at a time: all wait for the disk."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import iostrata
from tests.root.conftest import iostrata as run
from tests.root.test_record import good
from tests.root.test_uring import requests
from tests.root.test_who_slow_disk import SERVICE_S, slow

__all__ = ["requests", "slow"]

DEPTH, ROUNDS = 4, 3
SIZE = 8192


@pytest.mark.parametrize("mode", ["cached"])
def test_all_of_them_wait_for_the_disk(requests: Path, slow: Path, mode: str) -> None:
    file, recording = slow / mode, slow.with_name(f"{mode}-recording")
    with file.open("wb") as written:
        written.write(bytes(2 * ROUNDS * DEPTH * SIZE))
        written.flush()
        os.fsync(written.fileno())
    done = run("record", "-o", str(recording), "--", str(requests), str(file), mode, str(ROUNDS))
    good(done.returncode, done.stderr)
    found = iostrata.open(recording).analyse()
    assert not found.left_out
    assert len(found.writes) == DEPTH * ROUNDS
    rows = zip(found.layers, found.time_ns, strict=True)
    device = sum(times for layer, times in rows if layer.row.startswith("device."))
    # One worker has one after the other, and each takes the disk two requests: data and a flush.
    of_round = np.median(np.sort(device.reshape(ROUNDS, DEPTH)), axis=0)
    known = 2e9 * SERVICE_S * (1 + np.arange(DEPTH))
    assert (of_round >= 0.95 * known).all(), of_round / known
