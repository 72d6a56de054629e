# SPDX-License-Identifier: Apache-2.0
"""Kernel threads that serve a write and have no CPU, on this kernel, as it accounts for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from iostrata.recording import open_recording
from tests.root.conftest import iostrata
from tests.root.test_record import good

WRITES = 100
WRITER = f"""
import os
fd = os.open("file", os.O_WRONLY | os.O_CREAT | os.O_DSYNC)
os.posix_fallocate(fd, 0, 8192)
[os.pwrite(fd, bytes(8192), 0) for _ in range({WRITES})]
"""


@pytest.fixture
def on_loop(disk: Path) -> Iterator[Path]:
    """An ext4 on a loop device, whose worker writes through the page cache."""
    image, mounted = disk / "image", disk / "mounted"
    image.touch()
    os.truncate(image, 64 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    mounted.mkdir()
    done = subprocess.run(
        ["mount", "-o", "loop", str(image), str(mounted)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"no loop device here: {done.stderr.strip()}")
    yield mounted
    subprocess.run(["umount", str(mounted)], check=True)


@pytest.fixture
def busy() -> Iterator[None]:
    """More tasks than CPUs, all the time."""
    with ExitStack() as stack:
        for _ in range(2 * (os.cpu_count() or 1)):
            hog = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(hog.wait)
            stack.callback(hog.kill)
        yield


def waits_of_workers() -> dict[int, int]:
    """Of each kernel worker, for how many ns it has waited for a CPU."""
    found = {}
    for comm in Path("/proc").glob("[0-9]*/comm"):
        try:
            if comm.read_text().startswith("kworker"):
                account = (comm.parent / "schedstat").read_text()
                found[int(comm.parent.name)] = int(account.split()[1])
        except OSError:
            continue
    return found


@pytest.mark.usefixtures("busy")
def test_a_loop_devices_workers_wait_for_a_cpu_as_the_kernel_says(on_loop: Path) -> None:
    before = waits_of_workers()
    done = iostrata("run", "-o", "../recording", "--json", "-", "--", sys.executable, "-c", WRITER,
                    cwd=on_loop)  # fmt: skip
    after = waits_of_workers()
    good(done.returncode, done.stderr)
    (trace,) = open_recording(on_loop.parent / "recording").traces()
    work = trace.points["loop_work"].integers("tid")["tid"]
    if not len(work):
        pytest.skip("this kernel's loop devices have no workers that tell of their work")
    workers = np.unique(work)
    resumes = trace.points["sched_resume"].integers("subject_tid", "off_ns", "wake_ns")
    mine = np.isin(resumes["subject_tid"], workers)
    runnable = np.where(resumes["wake_ns"] > 0, resumes["wake_ns"], resumes["off_ns"])
    recorded = int((resumes["time_ns"] - runnable)[mine].sum())
    told = sum(after.get(tid, 0) - before.get(tid, 0) for tid in workers.tolist())
    # What it waited before it was known is in the kernel's account only.
    assert 0.5 * told <= recorded <= 1.1 * told
    document = json.loads(done.stdout)
    (row,) = [row for row in document["layers"] if row["layer"] == "wakeup.runqueue"]
    assert row["mean_ns"] * document["writes"]["analysed"] >= 0.7 * recorded
