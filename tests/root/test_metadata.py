# SPDX-License-Identifier: Apache-2.0
"""Syncs of files beside others' many changes of metadata: who ended each wait is seen."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.recording import open_recording
from tests.root.conftest import iostrata

# Processes that create, change and remove files, and others that sync each their own.
PROGRAM = """
import os, sys, time
seconds, changing, syncing = float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
until = time.monotonic() + seconds
def change(name):
    os.mkdir(name)
    number = 0
    while time.monotonic() < until:
        path = f"{name}/{number % 300}"
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
        os.truncate(path, number % 7 * 40960)
        number += 1
        if number % 3 == 0:
            os.unlink(path)
def sync(name):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while time.monotonic() < until:
        os.write(fd, bytes(8192))
        os.fsync(fd)
for number in range(changing + syncing):
    if not os.fork():
        change(f"d{number}") if number < changing else sync(f"s{number}")
        os._exit(0)
for _ in range(changing + syncing):
    os.wait()
"""
# Who changes metadata may have no CPU amid it: of calls that make nothing durable, nothing is told.
UNEXPLAINED = 0.05


@pytest.mark.parametrize("file_system", ["xfs", "ext4", "btrfs"], indirect=True)
def test_syncs_beside_changes_of_metadata(file_system: Path, tmp_path: Path) -> None:
    """XFS's wait for pushes of its log, whose end the queue's worker tells between two works of
    its, to the first; that one lets the others go."""
    recording = tmp_path / "recording"
    done = iostrata("record", "--why", "-o", str(recording), "--",
                    sys.executable, "-c", PROGRAM, "3", "1", "4", cwd=file_system)  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = analyse(open_recording(recording))
    hidden_ns = sum(sleeps.time_ns for sleeps in found.quality.unseen)
    left_ns = found.residual_ns.mean() - hidden_ns
    assert len(found.writes) > 100
    assert left_ns <= UNEXPLAINED * found.writes.latency_ns.mean(), found.quality.sites
