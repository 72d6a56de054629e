# SPDX-License-Identifier: Apache-2.0
"""Guest, hypervisor and NFS server on virtual machines: followed write by write, and a known
delay of the server's device found there. The one scenario that every run of the tests boots."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.lab.pace import Pace
from iostrata.recording import open_recording

# Where nothing else runs, and emulated by slow CPUs: half of it is what it takes by fast ones.
LIMIT_S = 600
ATTEMPTS = 2
INJECTION = "device-8ms"
SEGMENTS = ["guest OS", "hypervisor", "host OS", "network", "server OS", "device"]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Once more where a machine was lost, or where other users of this one were in the way of a
    check: what is wrong with iostrata is wrong twice."""
    if os.geteuid() != 0:
        pytest.skip("booting virtual machines on the files of this one needs root")
    if not shutil.which("qemu-system-x86_64"):
        pytest.skip("qemu-system-x86_64 is not installed")
    output = tmp_path_factory.mktemp("lab") / "result.json"
    whole: dict[str, Any] = {}
    for _ in range(ATTEMPTS):
        said = lab_run(output)
        if not output.exists():
            continue
        found: dict[str, Any] = json.loads(output.read_text())
        if found["broken"] or any(len(crossings_of(each)) != 2 for each in found["rounds"]):
            said = found["broken"] or "a machine was lost midway"
            continue
        whole = found
        if found["passed"]:
            break
    if not whole:
        pytest.skip(f"no run in which all machines lived: {said}")
    return whole


def crossings_of(part: dict[str, Any]) -> list[Any]:
    found: list[Any] = part["breakdown"]["quality"].get("crossings", [])
    return found


def lab_run(output: Path) -> str:
    """The last that it said. It is asked to end, and so takes its machines down, at the limit."""
    output.unlink(missing_ok=True)
    pace = Pace()
    pace.loaded()
    command = [sys.executable, "-m", "iostrata", "lab", "run", "kvm-nfs", "--round", INJECTION]
    with subprocess.Popen(
        [*command, "--json", str(output)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        try:
            said = process.communicate(timeout=pace.limit_s(LIMIT_S))[1]
        except subprocess.TimeoutExpired:
            process.terminate()
            said = process.communicate()[1]
    return said.strip().splitlines()[-1]


def test_every_check_of_the_scenario_holds(result: dict[str, Any]) -> None:
    parts = [*result["machines"], *result["rounds"]]
    failed = [
        (part["name"], check) for part in parts for check in part["checks"] if not check["passed"]
    ]
    assert failed == []
    assert [each["name"] for each in result["rounds"]] == ["fdatasync", INJECTION]


@pytest.mark.parametrize("name", ["fdatasync", INJECTION])
def test_writes_are_followed_to_the_disk_and_back(result: dict[str, Any], name: str) -> None:
    (recording,) = (each["recording"] for each in result["rounds"] if each["name"] == name)
    breakdown = analyse(open_recording(Path(recording)))
    total = breakdown.time_ns.sum(axis=0) + breakdown.residual_ns
    assert np.array_equal(total, breakdown.writes.latency_ns)
    assert breakdown.residual_ns.sum() <= 0.02 * breakdown.writes.latency_ns.sum()
    assert breakdown.quality.unfollowed <= 0.01 * len(breakdown.writes)
    for crossing in breakdown.quality.crossings:
        assert crossing.followed >= 0.99 * crossing.asked
        assert crossing.contradiction == ""
    segments = list(dict.fromkeys(layer.segment for layer in breakdown.layers))
    assert [segment for segment in segments if segment in SEGMENTS] == SEGMENTS
