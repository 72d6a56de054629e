# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a port of a machine in, lines from and to who holds its other end out.

A port is a pair of FIFOs, PATH.in and PATH.out, between us and QEMU. Unlike a
socket's, neither end ever sees the other's end of file, so that a port can be
handed on to a machine within the machine; whether the machine still lives is
asked while waiting.
"""

from __future__ import annotations

import fcntl
import os
import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from iostrata.errors import LabError

POLL_S: Final = 0.25
GONE: Final = "it is gone"


def make_port(path: Path) -> None:
    for end in ("in", "out"):
        os.mkfifo(f"{path}.{end}")


class Port:
    """One of ours. ``alive``: of its machine. Errors of its methods: LabError."""

    def __init__(self, path: Path, alive: Callable[[], bool]) -> None:
        self._alive = alive
        self._unread = b""
        self._opened: list[int] = []
        try:
            for end in ("in", "out"):
                self._opened.append(os.open(f"{path}.{end}", os.O_RDWR | os.O_NONBLOCK))
        except OSError as error:
            self.close()
            raise LabError(f"it has no port {path.name}: {error.strerror}") from error
        self._to, self._from = self._opened

    def close(self) -> None:
        while self._opened:
            os.close(self._opened.pop())

    @contextmanager
    def held(self) -> Iterator[None]:
        """Nobody else holds it in the block; waits for who does."""
        fcntl.flock(self._to, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._to, fcntl.LOCK_UN)

    def send(self, line: str, deadline: float) -> None:
        """``deadline``: of time.monotonic()."""
        rest = memoryview(f"{line}\n".encode())
        while rest:
            self._check(deadline)
            if select.select([], [self._to], [], POLL_S)[1]:
                rest = rest[os.write(self._to, rest[: select.PIPE_BUF]) :]

    def line(self, deadline: float) -> str:
        while (line := self.try_line(POLL_S)) is None:
            self._check(deadline)
        return line

    def try_line(self, limit_s: float) -> str | None:
        """None: there was no whole line within the limit."""
        deadline = time.monotonic() + limit_s
        while b"\n" not in self._unread:
            left_s = max(0.0, deadline - time.monotonic())
            if not select.select([self._from], [], [], left_s)[0]:
                return None
            self._unread += os.read(self._from, 1 << 16)
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode(errors="replace")

    def _check(self, deadline: float) -> None:
        if not self._alive():
            raise LabError(GONE)
        if time.monotonic() > deadline:
            raise LabError("it does not answer")
