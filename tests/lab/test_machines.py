# SPDX-License-Identifier: Apache-2.0
"""Scenarios on real virtual machines: every kernel of the lab, every injection, a broken boot."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from iostrata.lab.cache import lab_directories
from iostrata.lab.initramfs import MODULES
from iostrata.lab.kernels import SUITES
from iostrata.lab.read import scenario_files, scenarios

pytestmark = pytest.mark.lab
LIMIT_S = 1800


def lab(*words: str) -> subprocess.CompletedProcess[str]:
    """Asked to end, and so taking its machines down, when it takes too long or nobody waits."""
    command = [sys.executable, "-m", "iostrata", "lab", *words]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            output, said = process.communicate(timeout=LIMIT_S)
        except BaseException:
            process.terminate()
            process.communicate()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, said)


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


WHOLE = [file.stem for file in scenario_files() if file.stem != "local"]


@pytest.mark.parametrize("name", WHOLE)
def test_scenario(name: str, tmp_path: Path) -> None:
    """Rounds in which a check failed have another chance: the machine below has other users."""
    output = tmp_path / "result.json"
    done = lab("run", name, "--json", str(output))
    assert output.exists(), done.stderr
    found = json.loads(output.read_text())
    assert found["broken"] is None
    again = [
        word
        for each in found["rounds"]
        if not all(check["passed"] for check in each["checks"])
        for word in ("--round", each["name"])
    ]
    if again:
        found = run(name, tmp_path, *again)
    assert found["passed"]


@pytest.mark.parametrize("name", [name for name in scenarios() if name not in {"local", *WHOLE}])
def test_variant(name: str, tmp_path: Path) -> None:
    """One method, by one job and by four."""
    assert run(name, tmp_path, "--round", "fdatasync", "--round", "fdatasync-4")["passed"]


@pytest.mark.parametrize("kernel", SUITES)
def test_nested_machines_stand_obey_and_go_with_their_host(kernel: str) -> None:
    try:
        done = lab("up", "kvm-local", "--kernel", kernel)
        assert done.returncode == 0, done.stderr
        there = lab("exec", "guest", "--", "mountpoint", "/mnt/data")
        assert (there.returncode, there.stdout) == (0, "/mnt/data is a mountpoint\n")
    finally:
        down = lab("down", "kvm-local")
    assert "ending machine host" in down.stderr
    assert lab("exec", "guest", "--", "true").returncode == 8


def test_what_stands_obeys_and_can_be_taken_down() -> None:
    try:
        done = lab("up", "local")
        assert done.returncode == 0, done.stderr
        assert re.search(r"iostrata lab exec local\.\d+/local ", done.stderr)
        there = lab("exec", "local", "--", "sh", "-c", "mountpoint /mnt/data; exit 3")
        assert (there.returncode, there.stdout) == (3, "/mnt/data is a mountpoint\n")
    finally:
        down = lab("down")
    assert "ending machine local" in down.stderr
    assert lab("exec", "local", "--", "true").returncode == 8


def standing() -> set[str]:
    return {each.name for each in lab_directories() if each.state.exists()}


def test_ctrl_c_takes_everything_down() -> None:
    before = standing()
    command = [sys.executable, "-m", "iostrata", "lab", "run", "local"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        for line in process.stderr:
            if "fdatasync" in line:
                break
        began = standing() - before
        assert len(began) == 1
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    assert not began & standing()


def test_a_machine_that_does_not_come_up(tmp_path: Path) -> None:
    """Its kernel is none, which QEMU says at once."""
    kernel = tmp_path / "iostrata" / "lab" / "kernels" / "6.1"
    modules = kernel / "lib" / "modules" / "6.1.0"
    modules.mkdir(parents=True)
    (modules / "vmlinuz").write_bytes(bytes(4096))
    (modules / "modules.dep").write_text("")
    (modules / "modules.builtin").write_text("".join(f"kernel/{name}.ko\n" for name in MODULES))
    done = subprocess.run(
        [sys.executable, "-m", "iostrata", "lab", "up", "local"],
        env={**os.environ, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 8
    assert "the lab did not come up: machine local: it is gone\n  | " in done.stderr
    assert list((tmp_path / "iostrata" / "lab" / "labs").glob("*")) == []
