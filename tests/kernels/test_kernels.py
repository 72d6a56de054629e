# SPDX-License-Identifier: Apache-2.0
"""Every kernel of the lab: each probe loads there or says why not, and tables are lawful.

IOSTRATA_REWRITE=1 writes anew what became of each.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from iostrata.errors import LabError
from iostrata.lab.kernels import SUITES
from iostrata.lab.record import RECORDER
from tests.lab.test_machines import lab

pytestmark = pytest.mark.kernels
GOLDEN = Path(__file__).parent / "golden"
# A guest's file system, its host with QEMU and an NFS client, its server: all points at once.
SCENARIO, MACHINES = "kvm-nfs", ("guest", "host", "server")


def seen_by(machine: str, *options: str, of: str = "") -> str:
    """What becomes of each program there: its name, its point, its layer, and why not. ``of``: the
    lab, where others may stand."""
    done = lab("exec", f"{of}/{machine}" if of else machine, "--", RECORDER, "--probes", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    return f"{machine}\n{done.stdout}"


def held_against_golden(name: str, found: str) -> None:
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("IOSTRATA_REWRITE"):
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(found)
    assert found == golden.read_text()


@pytest.mark.parametrize("kernel", SUITES)
def test_each_probe_loads_or_says_why_not(kernel: str) -> None:
    done = lab("up", SCENARIO, "--kernel", kernel)
    assert done.returncode == 0, done.stderr
    name = re.findall(r"lab down (\S+) ends it", done.stderr)[0]
    try:
        found = "\n".join(seen_by(machine, of=name) for machine in MACHINES)
        # What is dead code without it must not ask for what the kernel lacks.
        with_who = "\n".join(seen_by(machine, "--who", of=name) for machine in MACHINES)
    finally:
        lab("down", name)
    held_against_golden(kernel, found)
    assert with_who == found


# Linux 5.10 does not describe the types of modules (before 36e68442d1af, in v5.11), and Debian has
# NFS in some.
UNSEEN = {("5.10", "nfs"): {"sees nfs", "sees rpc", "sees svc", "residual"}}


@pytest.mark.parametrize("scenario", ["local", "nfs", "kvm-local"])
@pytest.mark.parametrize("kernel", SUITES)
def test_tables_are_lawful(kernel: str, scenario: str, tmp_path: Path) -> None:
    """Everything followed, explained and observed, by the scenario's own checks; or it is said."""
    output, unseen = tmp_path / "result.json", UNSEEN.get((kernel, scenario), set())
    done = lab("run", scenario, "--json", str(output), "--kernel", kernel, "--round", "fdatasync")
    assert done.returncode == (LabError.status if unseen else 0), done.stdout + done.stderr
    found = json.loads(output.read_text())
    (told,) = found["rounds"]
    checks = [check for one in (*found["machines"], told) for check in one["checks"]]
    assert {check["name"] for check in checks if not check["passed"]} == unseen
    assert all(machine["kernel"].startswith(kernel) for machine in found["machines"])
    said = [gap["reason"] for gap in told["breakdown"]["quality"]["not_observed"]]
    assert ("no point of nfs4 is recorded" in said) == bool(unseen)
