# SPDX-License-Identifier: Apache-2.0
"""Files that are synchronous whatever they were opened with, on this kernel.

Held against what the kernel waited for: a write there takes a request of the disk at least,
and a file beside it, of the same program, none.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.root.test_units import methods, program, recorded

WRITES = """
data = opened('data')
os.truncate('data', 0)
for number in range(10):
    os.pwrite(data, bytes(4096), number * 4096)
os.write(data, b'')
os.posix_fallocate(data, 0, 4096)
for number in range(3):
    os.ftruncate(data, 4096 * (3 - number))
for number in range(5):
    os.ftruncate(data, 4096 * (2 + number))
synchronous = opened('synchronous', os.O_SYNC)
for _ in range(4):
    os.write(synchronous, bytes(4096))
"""
PLAIN = {"open_sync": 4}
SYNCHRONOUS = {"sync_inode": 13, "open_sync": 4}


@pytest.fixture
def mounted(disk: Path) -> Iterator[Path]:
    """A file system of its own, on a loop device, with the mount's option."""
    image, place = disk / "image", disk / "mount"
    with image.open("wb") as file:
        file.truncate(64 << 20)
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    place.mkdir()
    done = subprocess.run(["mount", "-o", "loop,sync", image, place], check=False)
    if done.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def test_a_file_on_a_synchronous_mount(mounted: Path, disk: Path) -> None:
    found = recorded(disk, ["sh", "-c", 'cd "$0" && exec "$@"', str(mounted), *program(WRITES)])
    assert methods(found) == Counter(SYNCHRONOUS)


@pytest.mark.skipif(not shutil.which("chattr"), reason="needs chattr")
@pytest.mark.parametrize(("attribute", "expected"), [("+S", SYNCHRONOUS), ("-S", PLAIN)])
def test_a_file_with_the_attribute(attribute: str, expected: dict[str, int], disk: Path) -> None:
    """ftruncate() of one that is only opened with O_SYNC is no synchronous call; nor is one by
    which a file grows (the disk has nothing to do then)."""
    for name in ("data", "synchronous"):
        (disk / name).touch()
    subprocess.run(["chattr", attribute, disk / "data"], check=True)
    found = recorded(disk, program(WRITES + "os.ftruncate(synchronous, 0)\n"))
    assert methods(found) == Counter(expected)
