# SPDX-License-Identifier: Apache-2.0
"""Who had started the recorder is killed: it ends by itself, and says so."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from iostrata.trace.read import read_trace
from tests.root.conftest import IOSTRATA
from tests.root.test_record import wait_for, writer

PATIENCE_S = 30


def children_of(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()]


def test_the_recorder_does_not_outlive_who_started_it(disk: Path) -> None:
    command = [*IOSTRATA, "record", "-o", "recording", "--", *writer("fdatasync", 100_000, 0.001)]
    with subprocess.Popen(command, cwd=disk, stderr=subprocess.DEVNULL, text=True) as process:
        wait_for(disk / "data", process)
        time.sleep(0.5)
        (recorder,) = children_of(process.pid)
        (workload,) = children_of(recorder)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        deadline = time.monotonic() + PATIENCE_S
        while any(Path(f"/proc/{pid}").exists() for pid in (recorder, workload)):
            assert time.monotonic() < deadline
            time.sleep(0.1)
    trace = read_trace(disk / "recording" / "local")
    assert len(trace.points["syscall"]) > 0
    assert trace.damage == ("it ends early: who had started the recorder was gone",)
