# SPDX-License-Identifier: Apache-2.0
"""Who is not root records by what the recorder's file may, and is told what that does not show."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from struct import pack

import pytest

from iostrata.errors import NothingToAnalyse
from iostrata.library import open as open_recording
from tests.root.test_record import WRITES, found, good, writer

BPF, PERFMON, DAC_READ_SEARCH = 39, 38, 2
REVISION_2, EFFECTIVE = 0x0200_0000, 1
# The recorder's file decides, not who calls it: nobody is root here, though all files are ours.
NO_ROOT = ("setpriv", "--securebits=+noroot", "--inh-caps=-all")
WITH = """
import sys
from pathlib import Path
from iostrata.record import recorder
recorder.PACKAGED = Path(sys.argv.pop(1))
from iostrata.__main__ import main
sys.exit(main())
"""


@pytest.fixture(autouse=True)
def without_root() -> None:
    if not shutil.which("setpriv"):
        pytest.skip("there is no setpriv")


def given(recorder: Path, directory: Path, *capabilities: int) -> Path:
    """A recorder whose file has these."""
    copy = shutil.copy(recorder, directory / "iostrata-record")
    bits = sum(1 << number for number in capabilities)
    low, high = bits & 0xFFFF_FFFF, bits >> 32
    os.setxattr(copy, "security.capability", pack("<5I", REVISION_2 | EFFECTIVE, low, 0, high, 0))
    return Path(copy)


def test_a_recorder_with_capabilities(recorder: Path, disk: Path, tmp_path: Path) -> None:
    own = given(recorder, tmp_path, BPF, PERFMON, DAC_READ_SEARCH)
    told = 'grep CapEff /proc/self/status >&2; exec "$@"'
    done = subprocess.run(
        [*NO_ROOT, sys.executable, "-c", WITH, own, "run", "--json", "-", "--",
         "sh", "-c", told, "sh", *writer("fdatasync")],
        cwd=disk, capture_output=True, text=True, check=False, timeout=400,
    )  # fmt: skip
    good(done.returncode, done.stderr)
    assert found(json.loads(done.stdout)) == WRITES
    assert f"CapEff:\t{0:016x}" in done.stderr


def test_what_more_there_could_be(recorder: Path, tmp_path: Path) -> None:
    own = given(recorder, tmp_path, BPF, PERFMON, DAC_READ_SEARCH)
    done = subprocess.run(
        [*NO_ROOT, sys.executable, "-c", WITH, own, "doctor", "--json"],
        capture_output=True, text=True, check=False, timeout=400,
    )  # fmt: skip
    document = json.loads(done.stdout)
    assert (done.returncode, document["refused"]) == (0, None), done.stderr
    assert set(document["lacking"]) == {
        "CAP_SYS_PTRACE", "CAP_SYS_ADMIN", "CAP_SYS_NICE", "CAP_SYSLOG"
    }  # fmt: skip
    results = {
        probe["program"]: probe["result"]
        for layer in document["layers"] for probe in layer["probes"]
    }  # fmt: skip
    assert results["block_rq_issue"] == results["syscall_exit"] == "ok"


def test_without_system_calls_no_write_is_to_be_seen(recorder: Path, disk: Path) -> None:
    """tracefs is root's alone to read."""
    disk.chmod(0o777)
    given(recorder, disk, BPF, PERFMON).chmod(0o755)
    # By relative paths: what is above this directory is not for others.
    done = subprocess.run(
        ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups",
         "./iostrata-record", "-o", "out", "--",
         "dd", "if=/dev/zero", "of=data", "bs=8k", f"count={WRITES}", "oflag=dsync"],
        cwd=disk, capture_output=True, text=True, check=False, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "system calls will not be seen" in done.stderr
    with pytest.raises(NothingToAnalyse, match="programs did not attach") as told:
        open_recording(disk / "out").analyse()
    assert "doctor" in told.value.hint
