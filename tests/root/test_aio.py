# SPDX-License-Identifier: Apache-2.0
"""io_uring and libaio in one thread: neither disturbs what is recorded of the other."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from iostrata.trace.read import read_trace

SOURCE = Path(__file__).parent / "programs" / "two_interfaces.c"
ROUNDS = 10


@pytest.fixture
def program(tmp_path: Path) -> Path:
    made = tmp_path / "two_interfaces"
    subprocess.run(["cc", "-D_GNU_SOURCE", "-Wall", "-Werror", "-o", made, SOURCE], check=True)
    return made


def test_a_completion_of_io_uring_leaves_libaio_alone(
    recorder: Path, program: Path, disk: Path
) -> None:
    """What a worker completes while the thread waits for libaio's does not lead to others."""
    command = [program, disk / "aio", disk / "uring"]
    subprocess.run([recorder, "-o", disk / "trace", "--", *command], check=True)
    points = read_trace(disk / "trace").points
    inode = (disk / "aio").stat().st_ino
    submitted, completed = points["aio_submit"], points["aio_complete"]
    assert submitted["inode"].tolist() == completed["inode"].tolist() == [inode] * ROUNDS
    assert submitted["iocb_key"].tolist() == completed["iocb_key"].tolist()
    inode = (disk / "uring").stat().st_ino
    assert points["io_uring_complete"]["inode"].tolist() == [inode] * ROUNDS
