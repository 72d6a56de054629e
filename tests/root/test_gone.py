# SPDX-License-Identifier: Apache-2.0
"""A disk that fails, and then is gone, while what is on it is recorded."""

from __future__ import annotations

import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.recording import open_recording
from tests.root.conftest import serve_slowly

# Its own until then: 40 writes that are durable. Then those that fail, the disk's end, and 20 of
# the disk below.
WRITER = """
import os, signal, subprocess, sys
loop, server, beside = sys.argv[1], int(sys.argv[2]), sys.argv[3]
fd = os.open(loop, os.O_RDWR | os.O_DSYNC)
for number in range(40):
    os.pwrite(fd, bytes(4096), number * 4096)
os.kill(server, signal.SIGKILL)
failed = 0
for number in range(10):
    try:
        os.pwrite(fd, bytes(4096), number * 4096)
    except OSError:
        failed += 1
os.close(fd)
subprocess.run(["losetup", "--detach", loop], check=True)
fd = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_DSYNC)
for number in range(20):
    os.pwrite(fd, bytes(4096), number * 4096)
print(failed)
"""


def test_what_was_written_before_is_told_and_what_failed_is_no_write(
    recorder: Path, disk: Path
) -> None:
    image = disk / "image"
    image.write_bytes(bytes(1 << 20))
    with ExitStack() as stack:
        # Who is killed unmounts nothing.
        stack.callback(
            subprocess.run, ["umount", "--lazy", str(image)], capture_output=True, check=False
        )
        server = serve_slowly(image, 0.001, stack)
        made = subprocess.run(
            ["losetup", "--find", "--show", "--direct-io=on", str(image)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if made.returncode:
            pytest.skip(f"no loop device: {made.stderr.strip()}")
        loop = made.stdout.strip()
        stack.callback(
            subprocess.run, ["losetup", "--detach", loop], capture_output=True, check=False
        )
        words = [recorder, "-o", disk / "recording", "--", sys.executable, "-c", WRITER]
        done = subprocess.run(
            [*map(str, words), loop, str(server), str(disk / "beside")],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "10\n"), done.stderr
    found = analyse(open_recording(disk / "recording"))
    assert (found.time_ns.sum(axis=0) + found.residual_ns == found.writes.latency_ns).all()
    assert found.left_out["the call failed"] == 10
    assert len(found.writes) + sum(found.left_out.values()) == 70
    whose = found.writes.codes["device"]
    on_loop = whose == found.writes.names["device"].index(Path(loop).name)
    # A busy machine may lose events: that is said, and left out.
    lost = sum(found.left_out.values()) - 10
    assert 40 - lost <= np.count_nonzero(on_loop) <= 40
    assert 20 - lost <= np.count_nonzero(~on_loop) <= 20
