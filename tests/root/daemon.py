# SPDX-License-Identifier: Apache-2.0
"""A process that serves others: one of programs/, under the name that is asked for."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class Served:
    """By the daemon's own clock, CLOCK_MONOTONIC."""

    unique: int
    begin_ns: int
    end_ns: int


class Daemon:
    """Serves requests, each a synchronous write to ``file``."""

    def __init__(self, program: Path, file: Path, before: tuple[str, ...]) -> None:
        self.file = file
        self.process = subprocess.Popen(
            [*before, program, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._line() == "up"

    def serve(self, count: int) -> list[Served]:
        assert self.process.stdin
        print(count, file=self.process.stdin, flush=True)
        served = [Served(*map(int, self._line().split())) for _ in range(count)]
        assert self._line() == "done"
        return served

    def _line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().rstrip()


def compiled(
    directory: Path, *flags: str, name: str = "virtiofsd", source: str = "virtiofsd.c"
) -> Path:
    program = directory / name
    words = ["cc", "-D_GNU_SOURCE", "-O1", "-Wall", "-Werror", "-pthread", *flags]
    subprocess.run([*words, "-o", str(program), str(PROGRAMS / source)], check=True)
    return program


def renamed(program: Path, name: str) -> Path:
    other = program.with_name(name)
    shutil.copy(program, other)
    return other


@contextmanager
def running(program: Path, file: Path, *before: str) -> Iterator[Daemon]:
    """``before``: what executes it."""
    daemon = Daemon(program, file, before)
    with daemon.process:
        yield daemon
        daemon.process.communicate()
