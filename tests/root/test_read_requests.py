# SPDX-License-Identifier: Apache-2.0
"""Reads that io_uring and libaio make through the page cache, on the real kernel: against fio's own
account and what the disk counted. And what is read in no call, or on several machines."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import iostrata as library
from tests.root.conftest import iostrata
from tests.root.test_queue_limits import SERVICE_S, SlowDisk, slow
from tests.root.test_read_calls import PAGE, of_file
from tests.root.test_record import good

__all__ = ["slow"]

READS, DEPTH, FAULTED = 24, 4, 8
HIDDEN = 3
"""Of so many at most a kernel that keeps its tracepoints silent now and then hides the end."""

FAULTS = """
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
memory = mmap.mmap(fd, os.lseek(fd, 0, os.SEEK_END), prot=mmap.PROT_READ)
memory.madvise(mmap.MADV_RANDOM)
sum(memory[place * 4096] for place in range(int(sys.argv[2])))
os.pread(fd, 1, 0)
"""


@pytest.mark.parametrize("engine", ["io_uring", "libaio"])
def test_cold_and_warm(engine: str, slow: SlowDisk, disk: Path) -> None:
    """First each of the pages once, in any order, then again."""
    if not shutil.which("fio"):
        pytest.skip("fio is not installed")
    stat = Path(f"/sys/class/block/{Path(slow.path).name}/stat")
    before = int(stat.read_text().split()[0])
    job = ("--stonewall", f"--filename={slow.path}", f"--ioengine={engine}", "--rw=randread",
           "--bs=4k", f"--size={READS * PAGE}", f"--iodepth={DEPTH}",
           "--fadvise_hint=random")  # fmt: skip
    # Who closes a block device as the last one, drops its pages.
    with Path(slow.path).open("rb"):
        done = iostrata(
            "record", "-o", str(disk / "recording"), "--op", "read", "--", "fio", "--thread",
            "--output-format=json", f"--output={disk / 'fio'}", "--name=cold", *job, "--name=warm",
            *job, "--invalidate=0",
        )  # fmt: skip
    good(done.returncode, done.stderr)
    requests = int(stat.read_text().split()[0]) - before
    jobs = json.loads((disk / "fio").read_text())["jobs"]
    found = library.open(disk / "recording").analyse("read")
    total = found.time_ns.sum(axis=0) + found.residual_ns
    assert total.tolist() == found.writes.latency_ns.tolist()
    mine = [one for one in of_file(found, slow.path).reads if one.method.startswith(engine)]
    assert 2 * READS - HIDDEN <= len(mine) <= 2 * READS
    first = {one.place: number for number, one in reversed(list(enumerate(mine)))}
    cold = [one for number, one in enumerate(mine) if first[one.place] == number]
    warm = [one for number, one in enumerate(mine) if first[one.place] != number]
    missed = [one for one in cold if one.served == "device"]
    assert READS - HIDDEN <= len(missed) <= requests
    assert sum(one.served == "page cache" for one in warm) >= READS - HIDDEN
    # The disk has one at a time: what a read waits for is others' requests, and its own.
    waited = sorted(one.rows["device.read"] for one in missed)
    assert waited[HIDDEN] >= 0.95e9 * SERVICE_S
    assert not any(one.rows["device.read"] for one in warm)
    took = sum(one.latency_ns for one in missed)
    assert sum(sorted(one.rows["unattributed"] for one in missed)[:-HIDDEN]) <= 0.02 * took
    for some, job_of_fio in ((cold, jobs[0]), (warm, jobs[1])):
        # It has its clock outside of the calls, and takes time itself.
        told_ns = job_of_fio["read"]["lat_ns"]["mean"]
        mean_ns = float(np.mean([one.latency_ns for one in some]))
        assert abs(mean_ns - told_ns) <= 0.05 * told_ns + 1e6


def test_page_faults_are_reads_or_are_said(slow: SlowDisk, disk: Path) -> None:
    """Said is what they ask for, where the kernel lets no program look at its functions."""
    done = iostrata("record", "-o", str(disk / "recording"), "--op", "read", "--", sys.executable,
                    "-c", FAULTS, slow.path, str(FAULTED))  # fmt: skip
    good(done.returncode, done.stderr)
    found = library.open(disk / "recording").analyse("read")
    faults = [one for one in of_file(found, slow.path).reads if one.method == "fault"]
    gaps = {gap.layer: gap.reason for gap in found.quality.not_observed}
    if "fault: fault_end, fault_begin" not in gaps:
        assert FAULTED - HIDDEN <= len(faults) <= FAULTED
        assert {one.served for one in faults} == {"device"}
        return
    assert not faults
    assert "page faults of mapped files" in gaps["fault"]
    assert int(gaps["fault"].split()[0]) >= FAULTED - HIDDEN


def test_the_machine_of_a_path_is_asked_for_reads(disk: Path) -> None:
    (disk / "data").write_bytes(bytes(16 * PAGE))
    program = "import os; fd = os.open('data', os.O_RDONLY); [os.pread(fd, 9, 0) for _ in range(5)]"
    done = iostrata("record", "-o", "recording", "--machine", "here=local", "--op", "read", "--",
                    sys.executable, "-c", program, cwd=disk)  # fmt: skip
    good(done.returncode, done.stderr)
    found = library.open(disk / "recording").analyse("read")
    assert len(of_file(found, str(disk / "data")).reads) == 5
