# SPDX-License-Identifier: Apache-2.0
"""Files of overlays, whose mappings are of the files below."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

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


def test_what_is_written_to_an_overlay_s_file_its_mapping_makes_durable(
    disk: Path, overlay: Path
) -> None:
    if [int(part) for part in os.uname().release.split(".")[:2]] < [6, 7]:
        pytest.skip("this kernel does not keep what the program mapped")
    found = recorded(disk, sys.executable, "-c", MAPPED, str(overlay / "mapped"))
    assert methods(found) == {"msync": 10}
    assert found.writes.size_bytes.tolist() == [4096] * 10
    assert found.quality.plain_writes == 0
