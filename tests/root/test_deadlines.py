# SPDX-License-Identifier: Apache-2.0
"""A thread of SCHED_DEADLINE that has used up its runtime: what it waits for the next is told."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.root.conftest import iostrata
from tests.root.test_record import good

NUMBERS = {"x86_64": 314, "aarch64": 274}
RUNTIME_NS, PERIOD_NS = 2_000_000, 20_000_000
OTHERS = ("device.data", "wakeup.runqueue")

# For how long it could have run within its writes, and did not, is in the kernel's own account.
WRITER = """
import ctypes, mmap, os, sys
path, number, deadline_ns, writes, size = sys.argv[1], *map(int, sys.argv[2:])
class Attributes(ctypes.Structure):
    _fields_ = [(name, kind) for kind, names in (
        (ctypes.c_uint32, "size policy"), (ctypes.c_uint64, "flags"),
        (ctypes.c_uint32, "nice priority"), (ctypes.c_uint64, "runtime deadline period"))
        for name in names.split()]
attributes = Attributes(48, 6, 0, 0, 0, RUNTIME, deadline_ns, PERIOD)
file = os.open(path, os.O_WRONLY | os.O_DSYNC)
data = mmap.mmap(-1, size)
account = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
def waited_ns():
    return int(os.pread(account, 100, 0).split()[1])
if ctypes.CDLL(None, use_errno=True).syscall(number, 0, ctypes.byref(attributes), 0):
    raise SystemExit(os.strerror(ctypes.get_errno()))
waited = 0
for _ in range(writes):
    before = waited_ns()
    os.pwrite(file, data, 0)
    waited += waited_ns() - before
open(path + ".waited", "w").write(str(waited))
""".replace("RUNTIME", str(RUNTIME_NS)).replace("PERIOD", str(PERIOD_NS))


@pytest.mark.parametrize("deadline_ns", [PERIOD_NS, PERIOD_NS // 4])
@pytest.mark.parametrize(("writes", "size"), [(1500, 4096), (60, 4 << 20)])
def test_what_a_runtime_that_is_used_up_takes(
    disk: Path, writes: int, size: int, deadline_ns: int
) -> None:
    """It is used up while it runs, or as it falls asleep; or (a deadline before the period's end)
    it is woken too late to use what is left of it. All else that it could wait for is another
    thread of its kind, and there is none. What was on its way to the disk meanwhile has its time:
    little, of 18 ms."""
    file, number = disk / "file", NUMBERS[platform.machine()]
    file.write_bytes(bytes(size))
    os.sync()
    command = (sys.executable, "-c", WRITER, *map(str, (file, number, deadline_ns)))
    tried = subprocess.run([*command, "1", "4096"], capture_output=True, text=True, check=False)
    if tried.returncode:
        pytest.skip(f"no thread can be of SCHED_DEADLINE here: {tried.stderr.strip()}")
    done = iostrata("run", "--who", "--json", "-", "--", *command, str(writes), str(size))
    good(done.returncode, done.stderr)
    document = json.loads(done.stdout)
    waited_ns = int(Path(f"{file}.waited").read_text())
    assert waited_ns > 5 * (PERIOD_NS - RUNTIME_NS), "it was seldom without runtime"
    writes = document["writes"]["analysed"]
    rows = {row["layer"]: row for row in document["layers"]}
    each_ns = rows["throttle.cpu"]["mean_ns"]
    # Where the kernel tells of no wake-up, the wait behind that is part of the sleep.
    asleep_ns = sum(sleeps["mean_ns"] for sleeps in document["quality"].get("unseen", []))
    # On a busy machine more of what is large is on its way meanwhile, or waits for interrupts.
    others_ns = sum(rows[row]["mean_ns"] for row in OTHERS if row in rows and size > 4096)
    least_ns = 0.95 * waited_ns - (asleep_ns + others_ns) * writes
    assert least_ns <= each_ns * writes <= 1.01 * waited_ns, rows
    assert each_ns * writes > 0.5 * waited_ns
    named = {part["process"]: part["mean_ns"] for part in rows["throttle.cpu"]["behind"]}
    assert named == {"SCHED_DEADLINE": pytest.approx(each_ns)}
