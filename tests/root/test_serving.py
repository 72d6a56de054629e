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
TO_QUEUE_NS = 50_000
# Says how long each kernel worker has waited for a CPU, when the recorder knows those that serve
# its writes, and at the end: ns each, and between which times it looked.
WRITER = f"""
import json, os, time
from pathlib import Path

def waits():
    began_ns, found = time.monotonic_ns(), {{}}
    for comm in Path("/proc").glob("[0-9]*/comm"):
        try:
            if comm.read_text().startswith("kworker"):
                account = (comm.parent / "schedstat").read_text()
                found[int(comm.parent.name)] = int(account.split()[1])
        except OSError:
            continue
    return began_ns, time.monotonic_ns(), found

def write():
    os.pwrite(fd, bytes(8192), 0)

fd = os.open("file", os.O_WRONLY | os.O_CREAT | os.O_DSYNC)
os.posix_fallocate(fd, 0, 8192)
[write() for _ in range({WRITES} // 5)]
before = waits()
[write() for _ in range({WRITES})]
Path("../waits").write_text(json.dumps([before, waits()]))
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


@pytest.mark.usefixtures("busy")
def test_a_loop_devices_workers_wait_for_a_cpu_as_the_kernel_says(on_loop: Path) -> None:
    done = iostrata("run", "-o", "../recording", "--json", "-", "--", sys.executable, "-c", WRITER,
                    cwd=on_loop)  # fmt: skip
    good(done.returncode, done.stderr)
    (trace,) = open_recording(on_loop.parent / "recording").traces()
    work = trace.points["loop_work"].integers("tid")["tid"]
    if not len(work):
        pytest.skip("this kernel's loop devices have no workers that tell of their work")
    before, after = json.loads((on_loop.parent / "waits").read_text())
    # One that has ended meanwhile tells of nothing any more.
    workers = np.array([tid for tid in np.unique(work).tolist() if str(tid) in after[2]])
    told = sum(after[2][tid] - before[2].get(tid, 0) for tid in map(str, workers.tolist()))
    resumes = trace.points["sched_resume"].integers("subject_tid", "off_ns", "wake_ns")
    runnable = np.where(resumes["wake_ns"] > 0, resumes["wake_ns"], resumes["off_ns"])
    waited = np.where(np.isin(resumes["subject_tid"], workers), resumes["time_ns"] - runnable, 0)
    # The kernel accounts for a wait when it is over, as is told here; of what a worker does for
    # others the recorder need not tell.
    least, most = (
        int(waited[(resumes["time_ns"] > begin_ns) & (resumes["time_ns"] <= end_ns)].sum())
        for begin_ns, end_ns in ((before[1], after[0]), (before[0], after[1]))
    )
    assert told > 0
    assert most >= 0.7 * told
    # The kernel counts from where a thread is put on a queue, maybe by another CPU; we from where
    # that was begun.
    assert least <= told + TO_QUEUE_NS * np.count_nonzero(waited)
    document = json.loads(done.stdout)
    (row,) = [row for row in document["layers"] if row["layer"] == "wakeup.runqueue"]
    assert row["mean_ns"] * document["writes"]["analysed"] >= 0.7 * waited.sum()
