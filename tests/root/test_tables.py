# SPDX-License-Identifier: Apache-2.0
"""Threads and devices that the recorder has no room for are told of under the table."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from iostrata.errors import STATUS_LOSSES
from iostrata.trace.read import read_trace
from tests.root.conftest import iostrata

# Each set of threads has four places; a tid's low 12 bits say which.
SETS, WAYS, CHILDREN = 4096, 4, 6
# Children whose tids are as many SETS apart, each of which makes one synchronous write.
SAME_SET = f"""
import os
from pathlib import Path

LAST = Path("/proc/sys/kernel/ns_last_pid")
LIMIT = int(Path("/proc/sys/kernel/pid_max").read_text())

def write(fd: int) -> None:
    os.pwrite(fd, bytes(4096), 0)

def child(tid: int, number: int) -> tuple[int, int] | None:
    LAST.write_text(str(tid - 1))
    begin, go = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(go)
        if os.read(begin, 1):
            write(os.open(f"child{{number}}", os.O_WRONLY | os.O_CREAT | os.O_DSYNC))
        os._exit(0)
    os.close(begin)
    if pid == tid:
        return pid, go
    os.close(go)
    os.waitpid(pid, 0)

def children(low: int) -> list[tuple[int, int]]:
    made = []
    for tid in range(low, LIMIT, {SETS}):
        found = child(tid, len(made)) or child(tid, len(made))
        if found and len(made) < {CHILDREN}:
            made.append(found)
        elif found:
            os.close(found[1])
    return made

def go(made: list[tuple[int, int]], word: bytes) -> None:
    for pid, fd in made:
        os.write(fd, word)
        os.close(fd)
        os.waitpid(pid, 0)

for low in range(1000, 1000 + {SETS}):
    made = children(low)
    if len(made) == {CHILDREN}:
        break
    go(made, b"")
go(made, b"x")
"""
# More file systems than there are places, each of which is written to; the first is the disk's.
FILE_SYSTEMS = 1100
WRITER = f"""
import os
for number in range({FILE_SYSTEMS} + 1):
    fd = os.open(f"{{number}}/file", os.O_WRONLY | os.O_CREAT | os.O_DSYNC)
    os.pwrite(fd, bytes(4096), 0)
"""
MANY = f"""
set -e
mkdir 0
for number in $(seq {FILE_SYSTEMS}); do
    mkdir $number
    mount -t tmpfs -o size=64k tmpfs $number
done
exec {sys.executable} -c '{WRITER}'
"""


def test_a_full_set_of_threads_is_told(disk: Path) -> None:
    if int(Path("/proc/sys/kernel/pid_max").read_text()) < SETS * (CHILDREN + 2):
        pytest.skip("this kernel has too few numbers for processes")
    done = iostrata("run", "-o", "recording", "--", sys.executable, "-c", SAME_SET, cwd=disk)
    trace = read_trace(disk / "recording" / "local")
    recorded = set(trace.points["syscall"]["inode"].tolist())
    inodes = [(disk / f"child{number}").stat().st_ino for number in range(CHILDREN)]
    assert [inode in recorded for inode in inodes] == [True] * WAYS + [False] * (CHILDREN - WAYS)
    assert "no room for some threads (" in trace.damage[0]
    assert done.returncode == STATUS_LOSSES
    assert "damage      no room for some threads (" in done.stdout


def test_a_full_set_of_devices_is_told(disk: Path) -> None:
    command = ["unshare", "-m", "sh", "-c", MANY]
    done = iostrata("run", "-o", "recording", "--", *command, cwd=disk)
    (told,) = read_trace(disk / "recording" / "local").damage
    assert told.startswith("no room for some devices (")
    assert done.returncode == STATUS_LOSSES
    assert "damage      no room for some devices (" in done.stdout
