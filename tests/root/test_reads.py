# SPDX-License-Identifier: Apache-2.0
"""What a write changes a part of is read first: from a disk of known service time."""

from __future__ import annotations

import json
import sys

import pytest

from tests.root.conftest import iostrata
from tests.root.test_queue_limits import SERVICE_S, SlowDisk, slow
from tests.root.test_record import good

__all__ = ["slow"]

WRITES = 12
WRITER = """
import os, sys
disk, size, writes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
fd = os.open(disk, os.O_RDWR | os.O_DSYNC)
for number in range(writes):
    os.pwrite(fd, bytes(size), (number << 16) + 4096 - size)
"""


@pytest.mark.parametrize("size", [100, 4096])
def test_a_part_of_a_page_that_is_not_cached(slow: SlowDisk, size: int) -> None:
    """One request reads it, another one writes it: of a whole one only the latter."""
    done = iostrata("run", "--json", "-", "--", sys.executable, "-c", WRITER,
                    slow.path, str(size), str(WRITES))  # fmt: skip
    good(done.returncode, done.stderr)
    document = json.loads(done.stdout)
    assert document["writes"]["analysed"] == WRITES
    rows = {row["layer"]: row["mean_ns"] for row in document["layers"]}
    assert rows["device.data"] >= 0.95e9 * SERVICE_S
    assert ("device.read" in rows) == (size < 4096)
    assert rows.get("device.read", SERVICE_S * 1e9) >= 0.95e9 * SERVICE_S
    assert document["residual"]["share"] <= 0.02, rows
