# SPDX-License-Identifier: Apache-2.0
"""Bench: runs the tests on a file that exists; each test becomes a Phase, one JSON line.

A process of its own (``python -m iostrata.bench.workload FILE SECONDS PHASES``),
so that a recorder can take it for its command.
"""

from __future__ import annotations

import mmap
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from iostrata.bench.methods import FILE_BYTES, TESTS, Buffer, Test
from iostrata.errors import STATUS_INTERRUPTED

NS: Final = 1_000_000_000


class Phase(msgspec.Struct, frozen=True):
    """When a test ran (CLOCK_MONOTONIC) and how often; ``unavailable``: why it did not."""

    group: str
    name: str
    begin_ns: int = 0
    end_ns: int = 0
    operations: int = 0
    unavailable: str = ""

    @property
    def ns_an_operation(self) -> float:
        return (self.end_ns - self.begin_ns) / self.operations if self.operations else 0.0

    @property
    def operations_a_second(self) -> float:
        return NS / self.ns_an_operation if self.operations else 0.0


def run(file: Path, seconds: float) -> Iterator[Phase]:
    """One Phase a test, as each ends."""
    with mmap.mmap(-1, FILE_BYTES) as memory:
        memory.write(os.urandom(mmap.PAGESIZE) * (FILE_BYTES // mmap.PAGESIZE))
        with memoryview(memory) as buffer:
            for test in TESTS:
                yield _phase(test, file, seconds, buffer)


def _phase(test: Test, file: Path, seconds: float, buffer: Buffer) -> Phase:
    try:
        fd = os.open(file, test.flags)
    except OSError as error:
        return Phase(test.group, test.name, unavailable=error.strerror or str(error))
    try:
        return _timed(test, fd, file, seconds, buffer)
    except OSError as error:
        return Phase(test.group, test.name, unavailable=error.strerror or str(error))
    finally:
        os.close(fd)


def _timed(test: Test, fd: int, file: Path, seconds: float, buffer: Buffer) -> Phase:
    operation = test.prepare(fd, buffer, str(file))
    clock = time.monotonic_ns
    operations, begin_ns = 0, clock()
    deadline_ns, end_ns = begin_ns + round(seconds * NS), begin_ns
    while end_ns < deadline_ns:
        operation()
        operations += 1
        end_ns = clock()
    return Phase(test.group, test.name, begin_ns, end_ns, operations)


def read_phases(path: Path) -> list[Phase]:
    return msgspec.json.Decoder(Phase).decode_lines(path.read_bytes())


def main(file: str, seconds: str, phases: str) -> int:
    try:
        with Path(phases).open("wb", buffering=0) as lines:
            for phase in run(Path(file), float(seconds)):
                lines.write(msgspec.json.encode(phase) + b"\n")
    except KeyboardInterrupt:
        return STATUS_INTERRUPTED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
