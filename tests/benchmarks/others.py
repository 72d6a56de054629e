# SPDX-License-Identifier: Apache-2.0
"""What recording costs processes that are not recorded, as root: CPU time of one that is none.

    python -m tests.benchmarks.others [--rounds N]

While a point of a system call is looked at, the kernel takes every one of the machine's on its slow
path, and whatever sleeps or wakes passes the scheduler's points. Each loop runs with and without a
recorder that has something else to record, in turns; of its own CPU time an operation the least is
told, as that is what the machine's other work adds to.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from iostrata.record.recorder import find_recorder

TURNS = 20
OPERATIONS = 2000


def system_call() -> None:
    os.getppid()


@contextlib.contextmanager
def through_a_pipe() -> Iterator[Callable[[], None]]:
    """Writes a byte and reads it."""
    read, write = os.pipe()

    def one() -> None:
        os.write(write, b"x")
        os.read(read, 1)

    yield one
    os.close(read)
    os.close(write)


@contextlib.contextmanager
def ping_pong() -> Iterator[Callable[[], None]]:
    """Wakes a child and sleeps until that wakes it."""
    there, to_child = os.pipe()
    to_us, back = os.pipe()
    child = os.fork()
    if not child:
        os.close(to_child)
        while os.read(there, 1):
            os.write(back, b"x")
        os._exit(0)
    os.close(there)

    def one() -> None:
        os.write(to_child, b"x")
        os.read(to_us, 1)

    yield one
    os.close(to_child)
    os.waitpid(child, 0)
    os.close(to_us)
    os.close(back)


def least_ns(one: Callable[[], None]) -> float:
    """CPU time of an operation of this process, the interpreter's part in it."""
    found = []
    for _ in range(TURNS):
        begin_ns = time.process_time_ns()
        for _ in range(OPERATIONS):
            one()
        found.append((time.process_time_ns() - begin_ns) / OPERATIONS)
    return min(found)


def measured() -> list[float]:
    with through_a_pipe() as pipe, ping_pong() as pong:
        return [least_ns(system_call), least_ns(pipe), least_ns(pong)]


@contextlib.contextmanager
def recording() -> Iterator[None]:
    """Of a process that does nothing."""
    with tempfile.TemporaryDirectory() as directory:
        ours, theirs = os.pipe()
        command = [find_recorder(), "-o", Path(directory) / "r", "--status-fd", theirs]
        process = subprocess.Popen([*map(str, command), "--", "sleep", "1000"], pass_fds=[theirs])
        os.close(theirs)
        with os.fdopen(ours) as status:
            if not any(line.startswith("ready") for line in status):
                raise SystemExit("the recorder did not begin")
            yield
            process.terminate()
            status.read()
        process.wait()
    # What the kernel takes long to detach it is at still.
    time.sleep(5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    without, beside = [], []
    for _ in range(arguments.rounds):
        without.append(measured())
        with recording():
            beside.append(measured())
    names = ("a system call", "a pipe: write, read", "ping-pong of two processes")
    print("ns of CPU time of a process that is not recorded: without a recorder, beside one")
    columns = zip(*without, strict=True), zip(*beside, strict=True)
    for name, before, after in zip(names, *columns, strict=True):
        more = statistics.median(b - a for a, b in zip(before, after, strict=True))
        print(f"{min(before):8.0f} {min(after):8.0f} {more:+8.0f} (median of differences)   {name}")


if __name__ == "__main__":
    main()
