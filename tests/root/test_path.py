# SPDX-License-Identifier: Apache-2.0
"""A recorder that follows the path (--path): what runs on the machine itself is no target."""

from __future__ import annotations

import subprocess
from pathlib import Path

from iostrata.trace.read import read_trace
from tests.root.test_record import writer


def test_a_workload_here_is_none_of_its_targets(recorder: Path, disk: Path) -> None:
    where = disk / "recording"
    command = [str(recorder), "-o", str(where), "--path", "--", *writer("fdatasync")]
    done = subprocess.run(command, cwd=disk, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (disk / "data").stat().st_size == 50 * 8192
    trace = read_trace(where)
    # Of what the machine may serve to others, nothing is in that directory.
    inode = (disk / "data").stat().st_ino
    assert inode not in trace.points["syscall"]["inode"]
    assert trace.env["filter"] == "--path"
    assert len(trace.points["clock_sample"]) >= 2
