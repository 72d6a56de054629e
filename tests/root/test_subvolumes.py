# SPDX-License-Identifier: Apache-2.0
"""Files of one number in several subvolumes of a btrfs: one file each, on this kernel."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from iostrata.model import Breakdown
from iostrata.trace import read_trace
from iostrata.trace.facts import device_key
from tests.root.test_devices import btrfs
from tests.root.test_units import program, recorded

__all__ = ["btrfs"]

SUBVOLUMES = ("one", "two")
# What is written to the one is not made durable by a sync of the other.
WRITES = """
one, two = opened('one/file'), opened('two/file')
for _ in range(3):
    os.pwrite(one, bytes(100_000), 0)
    os.pwrite(two, bytes(100), 0)
    os.fsync(two)
os.fsync(one)
"""
READS = """
for name in ('one/file', 'two/file'):
    fd = opened(name)
    os.pwrite(fd, bytes(8192), 0)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.pread(fd, 8192, 0)
"""


@pytest.fixture
def place(btrfs: Path) -> Path:
    for name in SUBVOLUMES:
        made = subprocess.run(["btrfs", "subvolume", "create", str(btrfs / name)], check=False)
        if made.returncode:
            pytest.skip("no subvolume can be made here")
        (btrfs / name / "file").touch()
    assert len({(btrfs / name / "file").stat().st_ino for name in SUBVOLUMES}) == 1
    return btrfs


def there(place: Path, text: str) -> list[str]:
    return program(f"os.chdir({str(place)!r})\n{text}")


def file_of(path: Path) -> tuple[int, int]:
    """The device of its superblock, as its mount has it; its number."""
    done = subprocess.run(["findmnt", "-no", "MAJ:MIN", "-T", str(path)], capture_output=True,
                          text=True, check=True)  # fmt: skip
    return device_key(done.stdout.strip()), path.stat().st_ino


def by_file(found: Breakdown) -> dict[str, list[int]]:
    """The sizes of what was made durable of each file."""
    sizes: dict[str, list[int]] = {}
    codes = found.writes.codes["file"].tolist()
    for code, size in zip(codes, found.writes.size_bytes.tolist(), strict=True):
        sizes.setdefault(found.writes.names["file"][code], []).append(size)
    return sizes


def test_a_sync_is_of_what_was_written_to_that_file(place: Path, disk: Path) -> None:
    found = recorded(disk, there(place, WRITES))
    one, two = (str(place / name / "file") for name in SUBVOLUMES)
    assert by_file(found) == {two: [100] * 3, one: [300_000]}
    # As the file's own status has it.
    assert set(found.writes.inode.tolist()) == {Path(one).stat().st_ino}
    assert not [gap for gap in found.quality.not_observed if "subvolumes" in gap.layer]


def test_pages_of_the_one_are_not_the_others(place: Path, disk: Path) -> None:
    """What the disk was asked for is tied to reads by the file and what of it was asked for."""
    recorded(disk, there(place, READS), "--op", "read")
    trace = read_trace(disk / "recording" / "local")
    device, number = file_of(place / "one" / "file")
    found = []
    for point in ("block_bio_file", "syscall"):
        events = trace.points[point].integers("dev", "inode")
        here = (events["dev"] == device) & (events["inode"] % (1 << 40) == number)
        found.append(set(events["inode"][here].tolist()))
    assert len(found[0]) == len(SUBVOLUMES)
    assert found[0] == found[1]
