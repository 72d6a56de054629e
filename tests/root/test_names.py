# SPDX-License-Identifier: Apache-2.0
"""Programs that rename themselves and become others, on this kernel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from iostrata.recording import open_recording
from tests.root.conftest import IOSTRATA, iostrata
from tests.root.test_record import good

PR_SET_NAME = 15
AWKWARD = (
    b"import os; fd = os.open('data', os.O_WRONLY | os.O_CREAT | os.O_DSYNC); os.write(fd, b'x')"
)
PROGRAM = f"""
import ctypes, os
fd = os.open("data", os.O_WRONLY | os.O_CREAT | os.O_DSYNC)
for _ in range(5):
    os.pwrite(fd, bytes(4096), 0)
ctypes.CDLL(None).prctl({PR_SET_NAME}, b"renamed")
for _ in range(6):
    os.pwrite(fd, bytes(4096), 0)
dd = ["dd", "if=/dev/zero", "of=data", "bs=4k", "count=7", "oflag=dsync", "conv=notrunc"]
os.execvp(dd[0], dd)
"""


def test_writes_are_of_the_name_that_their_process_had(disk: Path) -> None:
    done = iostrata("run", "--by", "process", "--json", "-", "--", sys.executable, "-c", PROGRAM,
                    cwd=disk)  # fmt: skip
    good(done.returncode, done.stderr)
    groups = json.loads(done.stdout)["groups"]
    counts = {group["name"].partition(" ")[0]: group["writes"] for group in groups}
    first = Path(sys.executable).name[:15]
    assert counts == {first: 5, "renamed": 6, "dd": 7}


@pytest.mark.parametrize("length", [4000, 4001])
def test_a_command_of_any_bytes_can_be_read_again(length: int, disk: Path) -> None:
    """Its description is cut; it is no UTF-8, and neither is the recording's name."""
    name = b"gr\xfc"
    words = [os.fsencode(sys.executable), b"-c", AWKWARD, b"\xff", "ü".encode() * length]
    command = [*map(os.fsencode, IOSTRATA), b"record", b"-o", name, b"--", *words]
    done = subprocess.run(command, cwd=disk, capture_output=True, check=False, timeout=120)
    good(done.returncode, done.stderr.decode())
    path = disk / os.fsdecode(name)
    assert open_recording(path).command == tuple(map(os.fsdecode, words))
    assert (path / "local" / "metadata").read_bytes().count("ü".encode()) > 1900
    again = iostrata("replay", os.fsdecode(name), cwd=disk)
    good(again.returncode, again.stderr)
    assert again.stdout.startswith("1 synchronous write")
