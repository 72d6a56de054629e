# SPDX-License-Identifier: Apache-2.0
"""Debian's kernels for arm64, emulated: each probe loads or says why not, tables are lawful, and
32-bit programs' calls are ARM's."""

from __future__ import annotations

import re
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from iostrata.lab.read import IN_TREE
from iostrata.lab.record import RECORDER
from iostrata.lab.standing import find_machine
from iostrata.trace import layout, read_trace
from tests.kernels.test_kernels import held_against_golden, seen_by
from tests.lab.test_machines import lab, run
from tests.packaging.dist import ROOT, WRITER, WRITES, for_arm64
from tests.packaging.test_wheel import build

pytestmark = pytest.mark.kernels
SCENARIO, MACHINE = "local-arm64", "local"
SERIES = ("6.1", "6.12", "7.2")
PROGRAM = Path(__file__).parent / "programs" / "arm.c"
FOUR_GIB = 1 << 32
# Debian 12's, as is the root of such machines; unpacking and starting it are emulated.
PYTHON = "3.11"
UNPACKING_S, RECORDING_S = 300, 600
WITH_PYTHON = """
[[stack]]
kind = "service"
name = "python"
machine = "installed"
install = ["python3"]
"""
# What the program says of each: the call, its offset (-1: it has none), its flags.
CALLS = [
    (layout.CALL_WRITE, 0, 0),
    (layout.CALL_PWRITE64, FOUR_GIB, 0),
    (layout.CALL_PWRITEV, FOUR_GIB, 0),
    (layout.CALL_PWRITEV2, FOUR_GIB, 2),
    (layout.CALL_SYNC_FILE_RANGE, FOUR_GIB, 7),
    (layout.CALL_FSYNC, -1, 0),
    (layout.CALL_FDATASYNC, -1, 0),
    (layout.CALL_SYNCFS, -1, 0),
    (layout.CALL_SYNC, -1, 0),
]


@pytest.fixture(scope="module", params=SERIES)
def kernel(request: pytest.FixtureRequest) -> Iterator[str]:
    """The series of the one that stands."""
    try:
        done = lab("up", SCENARIO, "--kernel", request.param)
        assert done.returncode == 0, done.stderr
        yield request.param
    finally:
        lab("down", SCENARIO)


def test_each_probe_loads_or_says_why_not(kernel: str) -> None:
    held_against_golden(f"arm64-{kernel}", seen_by(MACHINE))


def test_what_who_takes_loads_as_well(kernel: str) -> None:
    """What is dead code without it must not ask for what the kernel lacks."""
    assert seen_by(MACHINE, "--who") == seen_by(MACHINE)


def test_a_32_bit_program_makes_the_same_calls(kernel: str, tmp_path: Path) -> None:
    built, trace = tmp_path / "arm", tmp_path / "trace"
    compiler = ("clang", "--target=arm-linux-gnueabi", "-march=armv7-a", "-marm", "-O1")
    bare = ("-ffreestanding", "-fno-stack-protector", "-nostdlib", "-static", "-fuse-ld=lld")
    subprocess.run([*compiler, *bare, "-o", built, PROGRAM], check=True)
    machine = find_machine(MACHINE)
    machine.send(built, "/run/arm")
    machine.command(f"cd /mnt/data && rm -rf /run/trace && {RECORDER} -o /run/trace -- /run/arm")
    machine.fetch("/run/trace", trace)
    calls = read_trace(trace).points["syscall"]
    order = np.argsort(calls["enter_ns"])
    columns = (calls[name][order].tolist() for name in ("call", "offset_bytes", "rwf"))
    assert list(zip(*columns, strict=True)) == CALLS
    assert set(calls["size_bytes"][order][:4].tolist()) == {8}
    assert not calls["result"].astype(np.int64)[order][4:].any()


@pytest.mark.parametrize("series", SERIES)
def test_tables_are_lawful(series: str, tmp_path: Path) -> None:
    """Everything followed, explained and observed, by the scenario's own checks."""
    found = run(SCENARIO, tmp_path, "--kernel", series)
    assert found["passed"]
    assert [machine["kernel"].endswith("arm64") for machine in found["machines"]] == [True]
    assert all(machine["kernel"].startswith(series) for machine in found["machines"])


def test_its_wheel_records(tmp_path: Path) -> None:
    """As pip installs it there: the recorder and the analysis's C are its own."""
    told = {"IOSTRATA_RECORDER": str(ROOT / "bpf/build/arm64/iostrata-record")}
    wheel = build(tmp_path / "source", 1_000_000_000, **told)
    packed = tmp_path / "wheel.tar"
    with tarfile.open(packed, "w") as tar:
        tar.add(for_arm64(wheel, tmp_path / "wheel", PYTHON), "wheel")
    scenario = tmp_path / "python-arm64.toml"
    # The fixture's last machine may stand beside it.
    declared = (IN_TREE / f"{SCENARIO}.toml").read_text().replace(f'"{MACHINE}"', '"installed"')
    scenario.write_text(declared + WITH_PYTHON)
    try:
        done = lab("up", str(scenario), "--kernel", "6.12")
        assert done.returncode == 0, done.stderr
        machine = find_machine("installed")
        machine.send(packed, "/run/wheel.tar")
        machine.command("tar -xf /run/wheel.tar -C /run", UNPACKING_S)
        begin = "PYTHONPATH=/run/wheel python3 -m iostrata run"
        said = machine.command(f"cd /mnt/data && {begin} -- {WRITER}", RECORDING_S)
    finally:
        lab("down", scenario.stem)
    assert f"{WRITES} synchronous writes by dd" in said
    assert re.search(rf"^analysed +{WRITES} of {WRITES} writes", said, re.MULTILINE), said


def test_a_known_delay_is_found_in_the_device(tmp_path: Path) -> None:
    """As on amd64: the scenario with another processor."""
    declared = (IN_TREE / "local-delay.toml").read_text()
    scenario = tmp_path / "delay-arm64.toml"
    machine = 'name = "local"\n'
    scenario.write_text(declared.replace(machine, f'{machine}architecture = "arm64"\n', 1))
    found = run(str(scenario), tmp_path, "--kernel", "6.12", "--round", "delay-8ms")
    assert found["passed"]
    assert found["machines"][0]["kernel"].endswith("-arm64")
