# SPDX-License-Identifier: Apache-2.0
"""A packet's checksum is zlib's, however it is come by."""

from __future__ import annotations

import random
import subprocess
import zlib

import pytest

from tests.record.native import Program, compiled

MOST = 700


@pytest.fixture(scope="module")
def checksum(tmp_path_factory: pytest.TempPathFactory) -> Program:
    return compiled(tmp_path_factory.mktemp("checksum"), "checksum", "checksum")


@pytest.mark.parametrize("size", [1000, 4096, 262_272, 262_281])
def test_of_every_length(checksum: Program, size: int) -> None:
    data = random.Random(size).randbytes(size)
    done = subprocess.run(
        [checksum.path, str(MOST)], input=data, capture_output=True, check=True, timeout=60
    )
    wanted = [zlib.crc32(data[:length]) for length in range(MOST)] + [zlib.crc32(data)]
    assert list(map(int, done.stdout.split())) == wanted
