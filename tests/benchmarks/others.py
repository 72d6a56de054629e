# SPDX-License-Identifier: Apache-2.0
"""What recording costs processes that are not recorded, as root: CPU time of one that is none.

    python -m tests.benchmarks.others [--rounds N]

While a point of a system call is looked at, the kernel takes every one of the machine's on its slow
path, and whatever sleeps or wakes passes the scheduler's points. Each loop runs with and without a
recorder that has something else to record, in turns, and beside programs that do nothing at the
same points: what it costs that somebody looks at all. Of its own CPU time an operation the least is
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
from tests.benchmarks.parts.floor import floor_of
from tests.benchmarks.parts.recording import Recording

TURNS = 20
OPERATIONS = 2000
SETTLED_S = 3


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
def recording(recorder: Path | None) -> Iterator[None]:
    """Of a process that does nothing."""
    with contextlib.ExitStack() as stack:
        if recorder:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            idle = stack.enter_context(subprocess.Popen(["sleep", "infinity"]))
            stack.callback(idle.kill)
            looking = Recording(recorder, directory / "recording", idle.pid)
            stack.callback(looking.end)
        yield
    # The kernel is at it for a while longer than what was attached is there.
    time.sleep(SETTLED_S)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    found: list[list[list[float]]] = [[], [], []]
    with floor_of(find_recorder()) as floor:
        for _ in range(arguments.rounds):
            for recorder, rounds in zip((None, floor, find_recorder()), found, strict=True):
                with recording(recorder):
                    rounds.append(measured())
    print("ns of CPU time of a process that is not recorded, while nobody looks; beside programs")
    print("that do nothing, and how much more that is (medians); beside a recorder, and as well")
    names = ("a system call", "a pipe: write, read", "ping-pong of two processes")
    for number, name in enumerate(names):
        bare, nothing, beside = ([one[number] for one in rounds] for rounds in found)
        print(f"{min(bare):8.0f} {told(bare, nothing)} {told(bare, beside)}   {name}")


def told(before: list[float], after: list[float]) -> str:
    more = statistics.median(b - a for a, b in zip(before, after, strict=True))
    return f"{min(after):8.0f} {more:+6.0f}"


if __name__ == "__main__":
    main()
