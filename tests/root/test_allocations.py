# SPDX-License-Identifier: Apache-2.0
"""fallocate on synchronous files, on this kernel: held against what the disk was asked to flush."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.recording import open_recording
from iostrata.trace.layout import CALL_FALLOCATE, CALL_FTRUNCATE
from tests.root.conftest import iostrata
from tests.root.test_units import methods

# Allocates, punches out, moves and zeroes; tells in which calls the disk flushed its cache.
PROGRAM: Final = """
import ctypes, json, os, sys, time
libc = ctypes.CDLL(None, use_errno=True)
fallocate = libc.fallocate
fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
place = os.getcwd()
mount = [line.split() for line in open("/proc/self/mountinfo") if line.split()[4] == place][-1]
disk = os.path.basename(mount[mount.index("-") + 2])
def flushes():
    return int(open(f"/sys/block/{disk}/stat").read().split()[15])
plain = os.open("file", os.O_RDWR | os.O_CREAT)
os.pwrite(plain, bytes(4 << 20), 0)
file = os.open("file", os.O_RDWR | int(sys.argv[1]))
found, places = [], {0: 8 << 20, 1: 9 << 20, 3: 1 << 16, 8: 1 << 20, 16: 1 << 17, 32: 1 << 20}
for mode, offset in places.items():
    os.fsync(plain)
    for number in range(3):
        before = flushes()
        done = fallocate(file, mode, offset + (1 << 17) * number, 1 << 16)
        found.append([mode, done == 0 and flushes() > before])
json.dump(found, open(sys.argv[2], "w"))
"""
O_DSYNC: Final = 0o10000


@pytest.mark.parametrize("file_system", ["ext4", "xfs", "btrfs"], indirect=True)
@pytest.mark.parametrize("how", ["O_DSYNC", "sync mount"])
def test_those_count_that_waited_for_the_disk(file_system: Path, how: str, tmp_path: Path) -> None:
    if how == "sync mount":
        remount = ["mount", "-o", "remount,sync", str(file_system)]
        subprocess.run(remount, check=True)
    flags, told = str(O_DSYNC if how == "O_DSYNC" else 0), tmp_path / "told"
    done = iostrata("record", "-o", str(tmp_path / "recording"), "--", sys.executable, "-c",
                    PROGRAM, flags, str(told), cwd=file_system)  # fmt: skip
    assert done.returncode == 0, done.stderr
    durable = [mode for mode, flushed in json.loads(told.read_text()) if flushed]
    found = analyse(open_recording(tmp_path / "recording"))
    method = "open_datasync" if how == "O_DSYNC" else "sync_inode"
    # On such a mount, what they are about was written so as well.
    written = 0 if how == "O_DSYNC" else 1
    assert methods(found)[method] == written + len(durable), durable
    flush = [layer.name.endswith("device.flush") for layer in found.layers]
    assert not durable or np.count_nonzero(found.time_ns[flush]) >= len(durable)


# Makes room behind what another process writes, in one file, and takes it away again.
BESIDE: Final = """
import os, signal
file = os.open("file", os.O_RDWR | os.O_CREAT)
os.pwrite(file, bytes(1 << 20), 0)
if not (other := os.fork()):
    while True:
        for number in range(32):
            os.posix_fallocate(file, (1 << 20) * (2 + number), 1 << 20)
        os.ftruncate(file, 1 << 20)
durable = os.open("file", os.O_RDWR | os.O_DSYNC)
for number in range(300):
    os.pwrite(durable, bytes(4096), 4096 * (number % 256))
os.kill(other, signal.SIGKILL)
os.waitpid(other, 0)
"""
UNEXPLAINED: Final = 0.02


def test_who_holds_a_file_while_making_room_in_it_is_known(disk: Path) -> None:
    """Calls that are no synchronous writes themselves, which one waits for."""
    place = disk / "recording"
    done = iostrata("record", "-o", str(place), "--", sys.executable, "-c", BESIDE, cwd=disk)
    assert done.returncode == 0, done.stderr
    recording = open_recording(place)
    found = analyse(recording)
    assert methods(found) == {"open_datasync": 300}
    assert found.residual_ns.sum() <= UNEXPLAINED * found.writes.latency_ns.sum()
    (trace,) = recording.traces()
    called = set(trace.points["syscall"].columns("call")["call"].tolist())
    assert {CALL_FALLOCATE, CALL_FTRUNCATE} <= called
