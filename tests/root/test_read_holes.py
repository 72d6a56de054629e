# SPDX-License-Identifier: Apache-2.0
"""A hole between blocks that are neighbours on the disk: one bio reads both sides of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import iostrata
from iostrata.trace import read_trace
from tests.root.conftest import iostrata as run
from tests.root.test_record import good
from tests.root.test_who_slow_disk import SERVICE_S, slow

__all__ = ["slow"]

PAGE, HOLE, ROUNDS = 4096, 2, 3
# Pages 0 and 3 are asked for; who reads 3 and 4 waits for that one, and then asks for the other.
READER = f"""
import os, sys
for name in sys.argv[1:]:
    fd = os.open(name, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    os.posix_fadvise(fd, 0, {(2 + HOLE) * PAGE}, os.POSIX_FADV_WILLNEED)
    os.pread(fd, {2 * PAGE}, {(1 + HOLE) * PAGE})
"""


def make_holes(files: list[Path]) -> None:
    for file in files:
        file.write_bytes(bytes(3 * PAGE))
        made = subprocess.run(["fallocate", "--insert-range", "--offset", str(PAGE), "--length",
                               str(HOLE * PAGE), file], check=False)  # fmt: skip
        if made.returncode:
            pytest.skip("no hole can be made there")
    subprocess.run(["sync", "-f", files[0]], check=True)


def test_who_reads_both_sides_waits_for_them(slow: Path, tmp_path: Path) -> None:
    files = [slow / f"hole{number}" for number in range(ROUNDS)]
    make_holes(files)
    recording = tmp_path / "recording"
    done = run("record", "-o", str(recording), "--op", "read", "--", sys.executable, "-c", READER,
               *map(str, files))  # fmt: skip
    good(done.returncode, done.stderr)
    bios = (
        read_trace(recording / "local")
        .points["block_bio_file"]
        .integers("offset_bytes", "size_bytes", "end_bytes")
    )
    assert (bios["end_bytes"] - bios["offset_bytes"] == bios["size_bytes"] + HOLE * PAGE).any()
    found = iostrata.open(recording).analyse("read")
    names = found.writes.names["file"]
    mine = [names[code] in map(str, files) for code in found.writes.codes["file"].tolist()]
    device = sum(
        times[mine]
        for layer, times in zip(found.layers, found.time_ns, strict=True)
        if layer.row.startswith("device.")
    )
    assert np.median(device) >= 0.9 * 2e9 * SERVICE_S, device / 1e9
