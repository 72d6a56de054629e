# SPDX-License-Identifier: Apache-2.0
"""Files of overlays, whose mappings are of the files below."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.recording import open_recording
from iostrata.trace import read_trace
from tests.root.conftest import iostrata
from tests.root.test_aio import compiled
from tests.root.test_oracles import recorded
from tests.root.test_units import methods

MAPPED = """
import mmap, os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.ftruncate(file, 65536)
mapped = mmap.mmap(file, 65536)
for _ in range(10):
    os.pwrite(file, bytes(4096), 12288)
    mapped.flush()
"""
MANY = 100
REQUESTS = 50
LIBAIO = "aio_submit", "iocb_key"
SUBMITTED = {"io_uring": ("io_uring_submit_req", "request_key")}
SYNCED = """
import os, sys
for directory in sys.argv[1:]:
    file = os.open(directory + "/data", os.O_RDWR | os.O_CREAT)
    os.write(file, b"a")
    os.fdatasync(file)
"""


def test_what_is_written_to_an_overlay_s_file_its_mapping_makes_durable(
    disk: Path, overlay: Path
) -> None:
    if [int(part) for part in os.uname().release.split(".")[:2]] < [6, 7]:
        pytest.skip("this kernel does not keep what the program mapped")
    found = recorded(disk, sys.executable, "-c", MAPPED, str(overlay / "mapped"))
    assert methods(found) == {"msync": 10}
    assert found.writes.size_bytes.tolist() == [4096] * 10
    assert found.quality.plain_writes == 0


@pytest.mark.parametrize("how", ["libaio", "io_uring", "sync"])
def test_who_syncs_the_file_below_does_so_for_the_request(
    how: str, tmp_path: Path, disk: Path, overlay: Path
) -> None:
    """The kernel asks the file below by a control block of its own (backing_file_write_iter), and
    what is asked of the one above is synchronised below by a worker."""
    file = overlay / "data"
    file.write_bytes(bytes(1 << 20))
    if how == "sync":
        command = [str(compiled("by_worker", tmp_path)), str(file), str(REQUESTS)]
    elif shutil.which("fio"):
        command = ["fio", "--name=x", f"--filename={file}", "--size=1m", "--bs=4k",
                   "--rw=randwrite", "--direct=1", "--sync=dsync", f"--ioengine={how}",
                   f"--number_ios={REQUESTS}"]  # fmt: skip
    else:
        pytest.skip("fio is not installed")
    done = iostrata("record", "-o", str(disk / "recording"), "--", *command)
    assert done.returncode == 0, done.stderr
    recording = open_recording(disk / "recording")
    (trace,), found = recording.traces(), analyse(recording)
    syncs = trace.points["ext4_sync_file"].integers("request_key")["request_key"]
    point, key = SUBMITTED.get(how, LIBAIO)
    asked, ours = trace.points[point].integers(key)[key], syncs[syncs != 0]
    assert len(found.writes) == REQUESTS
    assert len(ours) >= REQUESTS
    assert set(ours.tolist()) <= set(asked.tolist())
    reap = [layer.row == "wakeup.reap" for layer in found.layers]
    behind = found.time_ns[reap].sum(axis=0) + found.residual_ns
    assert np.median(behind / found.writes.latency_ns) < 0.5


def kernel_dev(path: Path) -> int:
    """The number of its file system, as the kernel has it."""
    number = path.stat().st_dev
    return os.major(number) << 20 | os.minor(number)


def test_a_machine_of_many_containers(recorder: Path, disk: Path) -> None:
    """Each has an overlay of its own, and what is synced in any goes to the disk below."""
    (disk / "low").mkdir()
    merged: list[str] = []
    with ExitStack() as mounted:
        for number in range(MANY):
            one = disk / str(number)
            for name in ("upper", "work", "merged"):
                (one / name).mkdir(parents=True)
            options = f"lowerdir={disk}/low,upperdir={one}/upper,workdir={one}/work"
            place = str(one / "merged")
            mount = ["mount", "-t", "overlay", "overlay", "-o", options, place]
            done = subprocess.run(mount, capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"no overlay is mounted here: {done.stderr.strip()}")
            mounted.callback(subprocess.run, ["umount", place], check=True)
            merged.append(place)
        expected = {kernel_dev(Path(path)): kernel_dev(disk) for path in merged}
        command = [str(recorder), "-o", str(disk / "trace")]
        command += ["--", sys.executable, "-c", SYNCED, *merged]
        subprocess.run(command, check=True, capture_output=True)
    assert len(expected) == MANY
    facts = read_trace(disk / "trace").facts
    assert {overlay: facts.written_to(overlay) for overlay in expected} == expected
