# SPDX-License-Identifier: Apache-2.0
"""Several requests of io_uring at once, to a disk that has one at a time: all wait for the disk."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import iostrata
from tests.root import test_queue_limits, test_who_slow_disk
from tests.root.conftest import iostrata as run
from tests.root.test_queue_limits import SlowDisk
from tests.root.test_queue_limits import slow as disk_only
from tests.root.test_record import good
from tests.root.test_uring import requests
from tests.root.test_who_slow_disk import slow

__all__ = ["disk_only", "requests", "slow"]

DEPTH, ROUNDS = 4, 3
SIZE = 8192


def waited_for_disk(requests: Path, file: str, mode: str, to: Path) -> NDArray[np.float64]:
    """Seconds of the first, the second ... of a round to be complete."""
    done = run("record", "--force", "-o", str(to), "--", str(requests), file, mode, str(ROUNDS))
    good(done.returncode, done.stderr)
    found = iostrata.open(to).analyse()
    assert not found.left_out
    assert len(found.writes) == DEPTH * ROUNDS
    rows = zip(found.layers, found.time_ns, strict=True)
    device = sum(times for layer, times in rows if layer.row.startswith("device."))
    of_round: NDArray[np.float64] = np.median(np.sort(device.reshape(ROUNDS, DEPTH)), axis=0) / 1e9
    return of_round


@pytest.mark.parametrize("mode", ["cached", "polled-cached", "drained"])
def test_a_worker_has_one_after_the_other(requests: Path, slow: Path, mode: str) -> None:
    """Of a file; or the ring has. Each takes the disk two requests: data and a flush."""
    file = slow / mode
    with file.open("wb") as written:
        written.write(bytes(2 * ROUNDS * DEPTH * SIZE))
        written.flush()
        os.fsync(written.fileno())
    found = waited_for_disk(requests, str(file), mode, slow.with_name(f"{mode}-recording"))
    known = 2 * test_who_slow_disk.SERVICE_S * (1 + np.arange(DEPTH))
    assert (found >= 0.95 * known).all(), found / known


def test_they_end_with_the_call_that_waited_for_them_all(requests: Path, disk: Path) -> None:
    """Those of the kernel's own thread (SQPOLL), too: the program has none before its own clock
    says so, and all at once."""
    to = disk / "recording"
    command = (str(requests), str(disk / "file"), "polled-clock", str(ROUNDS))
    done = run("record", "-o", str(to), "--", *command)
    good(done.returncode, done.stderr)
    clock = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("at ")]
    assert len(clock) == ROUNDS
    found = iostrata.open(to).analyse().writes
    assert len(found) == DEPTH * ROUNDS
    begin, end = (
        np.sort(column).reshape(ROUNDS, DEPTH) for column in (found.begin_ns, found.end_ns)
    )
    assert (end[:, 0] == end[:, -1]).all()
    assert (begin[:, -1] < end[:, 0]).all()
    assert (end[:, 0] < clock).all()
    assert (begin[1:, 0] > clock[:-1]).all()


def test_the_disk_has_one_after_the_other(
    requests: Path, disk_only: SlowDisk, tmp_path: Path
) -> None:
    """That of the kernel's own thread (SQPOLL), which completes them all."""
    found = waited_for_disk(requests, disk_only.path, "polled-direct", tmp_path / "recording")
    known = test_queue_limits.SERVICE_S * (1 + np.arange(DEPTH))
    assert (found >= 0.95 * known).all(), found / known
