# SPDX-License-Identifier: Apache-2.0
"""Workload: runs the tests on a file that exists; each test becomes a Phase, one JSON line.

A process of its own (``python -m iostrata.workload FILE SECONDS PHASES``),
so that a recorder can take it for its command. Ctrl-C ends the test that runs, which
counts as far as it came, and the others are left out.
"""

from __future__ import annotations

import mmap
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from iostrata.errors import STATUS_INTERRUPTED
from iostrata.workload.methods import FILE_BYTES, TESTS, Buffer, Operation, Test
from iostrata.workload.phase import NS, Phase


@dataclass
class Interrupt:
    """Ctrl-C: the first ends the tests in good order, a second ends the program."""

    came: bool = False

    def take(self, *ignored: object) -> None:
        self.came = True
        signal.signal(signal.SIGINT, signal.default_int_handler)


def run(file: Path, seconds: float, interrupt: Interrupt) -> Iterator[Phase]:
    """One Phase a test, as each ends; the one that is interrupted is the last."""
    with mmap.mmap(-1, FILE_BYTES) as memory:
        memory.write(os.urandom(mmap.PAGESIZE) * (FILE_BYTES // mmap.PAGESIZE))
        with memoryview(memory) as buffer:
            for test in TESTS:
                yield _phase(test, file, seconds, buffer, interrupt)
                if interrupt.came:
                    return


def _phase(test: Test, file: Path, seconds: float, buffer: Buffer, interrupt: Interrupt) -> Phase:
    try:
        fd = os.open(file, test.flags)
    except OSError as error:
        return Phase(test.group, test.name, unavailable=error.strerror or str(error))
    try:
        return _timed(test, test.prepare(fd, buffer, str(file)), seconds, interrupt)
    except OSError as error:
        return Phase(test.group, test.name, unavailable=error.strerror or str(error))
    finally:
        os.close(fd)


def _timed(test: Test, operation: Operation, seconds: float, interrupt: Interrupt) -> Phase:
    clock = time.monotonic_ns
    operations, begin_ns = 0, clock()
    deadline_ns, end_ns = begin_ns + round(seconds * NS), begin_ns
    while end_ns < deadline_ns and not interrupt.came:
        operation()
        operations += 1
        end_ns = clock()
    return Phase(test.group, test.name, begin_ns, end_ns, operations)


def main(file: str, seconds: str, phases: str) -> int:
    interrupt = Interrupt()
    signal.signal(signal.SIGINT, interrupt.take)
    with Path(phases).open("wb", buffering=0) as lines:
        for phase in run(Path(file), float(seconds), interrupt):
            lines.write(msgspec.json.encode(phase) + b"\n")
    return STATUS_INTERRUPTED if interrupt.came else 0
