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


# A process's first thread writes; another one writes, and executes a program that syncs: it is the
# first one by then.
EXECUTED = """
import os, sys, threading
if sys.argv[3:]:
    os.fsync(int(sys.argv[3]))
    sys.exit()
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.set_inheritable(file, True)
size = int(sys.argv[2])
for number in range(20):
    os.pwrite(file, bytes(size), number * size)

def execute():
    os.execv(sys.executable, [sys.executable, "-c", sys.orig_argv[2], *sys.argv[1:], str(file)])

thread = threading.Thread(target=execute)
thread.start()
thread.join()
"""


def test_who_takes_an_ended_process_s_number_is_another(disk: Path) -> None:
    if not LAST.exists():
        pytest.skip("this kernel gives no number that is asked for")
    arguments = (str(disk / "file"), str(SIZE), str(COUNT), str(LAST))
    found = recorded(disk, sys.executable, "-c", PROGRAM, *arguments)
    assert methods(found) == {"fsync": COUNT}
    assert found.writes.size_bytes.tolist() == [SIZE] * COUNT
    assert found.writes.pieces.tolist() == [1] * COUNT


def test_a_thread_that_executes_a_program_is_not_the_one_whose_number_it_takes(disk: Path) -> None:
    found = recorded(disk, sys.executable, "-c", EXECUTED, str(disk / "file"), str(SIZE))
    assert methods(found) == {"fsync": 1}
    assert found.writes.size_bytes.tolist() == [20 * SIZE]
    assert found.writes.pieces.tolist() == [1]
