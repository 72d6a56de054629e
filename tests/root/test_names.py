# SPDX-License-Identifier: Apache-2.0
"""Programs that rename themselves and become others, on this kernel."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.root.conftest import iostrata
from tests.root.test_record import good

PR_SET_NAME = 15
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
