# SPDX-License-Identifier: Apache-2.0
"""Record stage: what a process says in, bounded in time and size, as nobody knows who speaks."""

from __future__ import annotations

import io
import os
import select
import subprocess
import time
from typing import IO, Final

from iostrata.errors import RecorderError

MOST_BYTES: Final = 1 << 20
# Who sends less in so long is given up, however much has come and will.
SLOW_LIMIT_S: Final = 60.0
LEAST_BYTES: Final = 16 << 10


def answer_of(process: subprocess.Popen[bytes], limit_s: float) -> tuple[bytes, bytes]:
    """All that it says on its two pipes, once it has ended.

    Errors: TimeoutExpired, RecorderError; it was killed then.
    """
    assert process.stdout
    assert process.stderr
    said = {process.stdout: b"", process.stderr: b""}
    left, deadline = list(said), time.monotonic() + limit_s
    try:
        while left:
            ready = select.select(left, [], [], max(0.0, deadline - time.monotonic()))[0]
            if not ready:
                raise subprocess.TimeoutExpired(process.args, limit_s)
            for stream in ready:
                chunk = os.read(stream.fileno(), 1 << 16)
                said[stream] += chunk
                if not chunk:
                    left.remove(stream)
            if sum(map(len, said.values())) > MOST_BYTES:
                raise RecorderError("what it says has no end", "see what a login prints there")
        process.wait(max(0.0, deadline - time.monotonic()))
    finally:
        process.kill()
    return said[process.stdout], said[process.stderr]


class Heard(io.RawIOBase):
    """A pipe from someone who goes on speaking. Errors of reading: RecorderError."""

    def __init__(self, pipe: IO[bytes]) -> None:
        self._pipe = pipe
        self._waited_s = 0.0
        self._came_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        began = time.monotonic()
        left_s = max(SLOW_LIMIT_S - self._waited_s, 0.0)
        if not select.select([self._pipe], [], [], left_s)[0]:
            raise RecorderError(
                f"it sent {self._came_bytes} bytes in {SLOW_LIMIT_S:g} s",
                "see whether its disk still works",
            )
        chunk = os.read(self._pipe.fileno(), len(buffer))
        buffer[: len(chunk)] = chunk
        self._waited_s += time.monotonic() - began
        self._came_bytes += len(chunk)
        if self._came_bytes >= LEAST_BYTES:
            self._waited_s, self._came_bytes = 0.0, 0
        return len(chunk)
