# SPDX-License-Identifier: Apache-2.0
"""Fast commits of ext4 on this kernel, against what the file system counted of them itself."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.root.conftest import loop_device
from tests.root.test_oracles import recorded
from tests.root.test_units import methods
from tests.root.test_uring import row

SIZE, COUNT = 4096, 50
APPENDS = """
import os, sys
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
for _ in range(int(sys.argv[3])):
    os.write(file, bytes(int(sys.argv[2])))
    os.fdatasync(file)
"""


@pytest.fixture
def fast(disk: Path) -> Iterator[tuple[Path, Path]]:
    """Where such an ext4 is mounted, and what it counts."""
    with contextlib.ExitStack() as teardown:
        loop = loop_device(disk / "image", 300 << 20, teardown)
        made = ["mkfs.ext4", "-q", "-b", "4096", "-O", "fast_commit", loop]
        if subprocess.run(made, capture_output=True, check=False).returncode:
            pytest.skip("this mkfs.ext4 knows no fast commits")
        place = disk / "mounted"
        place.mkdir()
        if subprocess.run(["mount", loop, place], capture_output=True, check=False).returncode:
            pytest.skip("this kernel's ext4 knows no fast commits")
        teardown.callback(subprocess.run, ["umount", str(place)], check=True)
        (place / "file").touch()
        subprocess.run(["sync", "-f", place], check=True)
        yield place, Path("/proc/fs/ext4", Path(loop).name, "fc_info")


def test_the_log_of_a_fast_commit_is_the_journal_s(disk: Path, fast: tuple[Path, Path]) -> None:
    place, counts = fast
    arguments = (str(place / "file"), str(SIZE), str(COUNT))
    found = recorded(disk, sys.executable, "-c", APPENDS, *arguments)
    assert methods(found) == {"fdatasync": COUNT}
    commits = re.search(r"(\d+) commits", counts.read_text())
    assert commits, counts.read_text()
    assert int(commits[1]) > COUNT // 2
    logged = int((row(found, "device.journal") > 0).sum())
    # Here the kernel may hide some of what it does; what is no fast commit is a full one.
    assert logged >= 0.75 * COUNT
    assert (row(found, "device.data") > 0).sum() >= 0.75 * COUNT
