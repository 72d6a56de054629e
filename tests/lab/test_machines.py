# SPDX-License-Identifier: Apache-2.0
"""Scenarios on real virtual machines: every kernel of the lab, every injection, a broken boot."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from iostrata.lab.kernels import SUITES

pytestmark = pytest.mark.lab
LIMIT_S = 900


def lab(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "iostrata", "lab", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


def run(scenario: str, place: Path, *words: str) -> dict[str, Any]:
    output = place / "result.json"
    done = lab("run", scenario, "--json", str(output), *words)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(output.read_text())
    return found


@pytest.mark.parametrize("kernel", SUITES)
def test_local(kernel: str, tmp_path: Path) -> None:
    found = run("local", tmp_path, "--kernel", kernel)
    assert found["passed"]
    assert found["machines"][0]["kernel"].startswith(kernel)


def test_local_delay(tmp_path: Path) -> None:
    assert run("local-delay", tmp_path)["passed"]


def test_what_stands_obeys_and_can_be_taken_down() -> None:
    try:
        done = lab("up", "local")
        assert done.returncode == 0, done.stderr
        assert "iostrata lab exec local" in done.stderr
        there = lab("exec", "local", "--", "sh", "-c", "mountpoint /mnt/data; exit 3")
        assert (there.returncode, there.stdout) == (3, "/mnt/data is a mountpoint\n")
    finally:
        down = lab("down")
    assert "ending machine local" in down.stderr
    assert lab("exec", "local", "--", "true").returncode == 8
