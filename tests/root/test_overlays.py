# SPDX-License-Identifier: Apache-2.0
"""Files of overlays, whose mappings are of the files below."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from iostrata.trace import read_trace
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
