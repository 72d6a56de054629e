# SPDX-License-Identifier: Apache-2.0
"""What the DaemonSet gives root in its container is enough for everything; less is told."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest
import yaml

from iostrata.recording import open_recording
from tests.root.conftest import iostrata
from tests.root.test_record import WRITES, good, writer

DAEMONSET: Final = Path(__file__).parents[2] / "packaging/daemonset.yaml"


@pytest.fixture(scope="module")
def of_pod() -> list[str]:
    spec = yaml.safe_load(DAEMONSET.read_text())["spec"]["template"]["spec"]
    added: list[str] = spec["containers"][0]["securityContext"]["capabilities"]["add"]
    if not shutil.which("setpriv"):
        pytest.skip("there is no setpriv")
    status = subprocess.run(
        [*with_only(added), "setpriv", "--dump"], check=False, capture_output=True, text=True
    )
    if status.returncode:
        pytest.skip(f"root is not whole here: {status.stderr}")
    return added


def with_only(capabilities: Iterable[str]) -> tuple[str, ...]:
    kept = ",".join(["-all", *(f"+{name.lower()}" for name in capabilities)])
    return ("setpriv", f"--bounding-set={kept}", "--inh-caps=-all")


def probes(recorder: Path, *before: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*before, str(recorder), "--probes"], check=False, capture_output=True, text=True
    )


def test_a_pod_attaches_what_root_does(recorder: Path, of_pod: list[str]) -> None:
    whole = probes(recorder)
    assert "\tok\t" in whole.stdout
    assert probes(recorder, *with_only(of_pod)).stdout == whole.stdout


def test_a_pod_records_what_root_does(of_pod: list[str], disk: Path) -> None:
    done = iostrata(
        "record", "--why", "--who", "--stats", "-o", "out", "--", *writer("fdatasync"),
        cwd=disk, before=with_only(of_pod),
    )  # fmt: skip
    good(done.returncode, done.stderr)
    assert "cannot" not in done.stderr
    (trace,) = open_recording(disk / "out").traces()
    assert trace.facts.stacks
    assert len(trace.points["sched_resume"].integers("stack")["stack"]) >= WRITES


def test_root_is_told_what_it_lacks(recorder: Path, of_pod: list[str], disk: Path) -> None:
    less = with_only(name for name in of_pod if name != "PERFMON")
    assert "root lacks CAP_PERFMON here" in probes(recorder, *less).stderr
    done = iostrata("run", "--", "true", cwd=disk, before=less)
    assert done.returncode == 4
    assert "needs root (or CAP_BPF and CAP_PERFMON)" in done.stderr
