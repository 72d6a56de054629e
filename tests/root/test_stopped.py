# SPDX-License-Identifier: Apache-2.0
"""A recorder that stands still for a while (SIGSTOP, a machine without a CPU for it)."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.recording import open_recording
from iostrata.trace.read import read_trace
from tests.root.test_record import wait_for, writer

# So many take longer than it stands still, on a quick disk too.
WRITES = 2_000
STOPPED_S = 0.7
PATIENCE_S = 20
SOON_S = 0.25


@pytest.mark.parametrize(("buffer_kib", "loses"), [(4096, False), (64, True)])
def test_what_it_does_not_read_meanwhile(
    buffer_kib: int, loses: bool, recorder: Path, disk: Path
) -> None:
    """Its rings hold it, or it is counted: no write is missing, and none has another's time."""
    out = disk / "recording"
    words = [str(recorder), "-o", str(out), "--buffer", str(buffer_kib), "--"]
    with subprocess.Popen(
        [*words, *writer("fdatasync", WRITES, 0.001)], cwd=disk, text=True
    ) as process:
        wait_for(disk / "data", process)
        time.sleep(0.2)
        since = time.monotonic()
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(STOPPED_S)
        os.kill(process.pid, signal.SIGCONT)
        stopped_s = time.monotonic() - since
    trace = read_trace(out)
    found = analyse(open_recording(out))
    assert bool(sum(found.quality.lost.values())) == loses
    if loses:
        # What was lost was lost while it stood still, but for what the rings of some CPUs hold.
        assert np.diff(np.sort(found.writes.begin_ns)).max() > STOPPED_S / 4 * 1e9
        # Not until it is counted, which is once a second.
        lost = trace.losses.apart
        assert (lost.ends - lost.begins).sum() < (stopped_s + SOON_S) * 1e9
        # What is kept has its requests.
        assert found.residual_ns.sum() < 0.02 * found.writes.latency_ns.sum()
    else:
        assert len(found.writes) + sum(found.left_out.values()) == WRITES
    assert trace.damage == found.quality.damage == ()
    assert np.array_equal(found.time_ns.sum(axis=0) + found.residual_ns, found.writes.latency_ns)
    # One thread's: none begins before the one before it has ended.
    order = np.argsort(found.writes.begin_ns)
    assert (np.diff(found.writes.begin_ns[order]) >= found.writes.latency_ns[order][:-1]).all()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_was_stopped_ends_with_its_recorder(
    number: signal.Signals, recorder: Path, disk: Path
) -> None:
    """Nobody else would ever have it go on."""
    pid = disk / "pid"
    command = ["sh", "-c", f"echo $$ >{pid}; kill -STOP $$; exec sleep 100"]
    # With nohup a hang-up is ignored, and so it is by every program that is started then.
    heeding = ["env", "--default-signal=HUP"]
    words = [*heeding, str(recorder), "-o", str(disk / "recording"), "--", *command]
    with subprocess.Popen(words, text=True) as process:
        wait_for(pid, process)
        stopped = int(wait_for_text(pid))
        while state(stopped) != "T":
            assert process.poll() is None
            time.sleep(0.02)
        os.kill(process.pid, number)
        assert process.wait() == 128 + number
    # It was sent the signal last, and ends when it has a CPU.
    until = time.monotonic() + PATIENCE_S
    while state(stopped) not in ("", "Z") and time.monotonic() < until:
        time.sleep(0.02)
    assert state(stopped) in ("", "Z")


def wait_for_text(file: Path) -> str:
    while not (text := file.read_text()):
        time.sleep(0.02)
    return text


def state(pid: int) -> str:
    """As /proc has it; empty: it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""
