# SPDX-License-Identifier: Apache-2.0
"""Threads whose numbers are used again, on this kernel."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.root.test_oracles import recorded
from tests.root.test_units import methods

LAST = Path("/proc/sys/kernel/ns_last_pid")
SIZE, COUNT = 8192, 5

# One process writes and ends; another one, with its number, makes that durable.
PROGRAM = """
import os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)

def child(work):
    number = os.fork()
    if not number:
        work()
        os._exit(0)
    os.waitpid(number, 0)
    return number

for _ in range(int(sys.argv[3])):
    number = child(lambda: os.pwrite(file, bytes(int(sys.argv[2])), 0))
    taken = []
    def sync():
        if os.getpid() == number:
            os.fsync(file)
    while not taken or taken[-1] != number:
        with open(sys.argv[4], "w") as last:
            last.write(str(number - 1))
        taken.append(child(sync))
        assert len(taken) < 500
"""


def test_who_takes_an_ended_process_s_number_is_another(disk: Path) -> None:
    if not LAST.exists():
        pytest.skip("this kernel gives no number that is asked for")
    arguments = (str(disk / "file"), str(SIZE), str(COUNT), str(LAST))
    found = recorded(disk, sys.executable, "-c", PROGRAM, *arguments)
    assert methods(found) == {"fsync": COUNT}
    assert found.writes.size_bytes.tolist() == [SIZE] * COUNT
    assert found.writes.pieces.tolist() == [1] * COUNT
