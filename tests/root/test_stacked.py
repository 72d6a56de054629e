# SPDX-License-Identifier: Apache-2.0
"""Who waits for another's flush of a loop device waits for its worker, and that for a CPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from iostrata.columns import Union, overlapping
from iostrata.recording import open_recording
from tests.root.conftest import iostrata
from tests.root.test_devices import btrfs
from tests.root.test_record import good
from tests.root.test_serving import busy

__all__ = ["btrfs", "busy"]

# One of those that sync at once writes the log for all (btrfs_sync_log).
WRITER = """
import os, sys, threading
def write(name):
    fd = os.open(name, os.O_WRONLY | os.O_CREAT)
    for number in range(40):
        os.pwrite(fd, bytes(65536), number << 16)
        os.fdatasync(fd)
threads = [threading.Thread(target=write, args=(name,)) for name in sys.argv[1:]]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


@pytest.mark.usefixtures("busy")
def test_a_worker_that_has_no_cpu_is_no_stacked_device(btrfs: Path, disk: Path) -> None:
    """Of the time in which the scheduler says so, nearly none is block.stacked."""
    done = iostrata("record", "-o", str(disk / "recording"), "--", sys.executable, "-c", WRITER,
                    str(btrfs / "one"), str(btrfs / "other"))  # fmt: skip
    good(done.returncode, done.stderr)
    (trace,) = open_recording(disk / "recording").traces()
    work = trace.points["loop_work"].integers("tid", "enter_ns")
    if not len(work["tid"]):
        pytest.skip("this kernel's loop devices have no workers that tell of their work")
    resumes = trace.points["sched_resume"].integers("subject_tid", "off_ns", "wake_ns")
    runnable = np.where(resumes["wake_ns"] > 0, resumes["wake_ns"], resumes["off_ns"])
    run, wait = overlapping(
        work["tid"], work["enter_ns"], work["time_ns"],
        resumes["subject_tid"], runnable, resumes["time_ns"],
    )  # fmt: skip
    waits = Union(
        np.maximum(runnable[wait], work["enter_ns"][run]),
        np.minimum(resumes["time_ns"][wait], work["time_ns"][run]),
    )
    told = iostrata("timeline", str(disk / "recording"), "--slowest", "80", "--json", "-")
    good(told.returncode, told.stderr)
    writes = json.loads(told.stdout)["writes"]
    steps = [
        (write["begin_ns"] + step["begin_ns"], write["begin_ns"] + step["end_ns"], step["layer"])
        for write in writes
        for step in write["steps"]
    ]
    began, ended = np.array([step[:2] for step in steps]).T
    stacked = np.array([step[2] == "block.stacked" for step in steps])
    short = waits.within(began, ended)
    assert len(writes) == 80
    assert short.sum() > 0
    assert short[stacked].sum() <= 0.1 * short.sum()
