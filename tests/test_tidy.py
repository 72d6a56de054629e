# SPDX-License-Identifier: Apache-2.0
"""What can be found by reading the recorder, which runs as root, is not in it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from iostrata.record import find_recorder

SOURCES = Path(__file__).parents[1] / "bpf"


def test_clang_tidy_finds_nothing() -> None:
    if not shutil.which("clang-tidy"):
        pytest.skip("clang-tidy is not installed")
    find_recorder()
    done = subprocess.run(
        ["make", "--silent", f"--directory={SOURCES}", "tidy"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
