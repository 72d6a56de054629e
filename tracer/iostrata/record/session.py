# SPDX-License-Identifier: Apache-2.0
"""Record stage: a recorder's process and its pipes in, a Session with it out."""

from __future__ import annotations

import io
import os
import select
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Final

from iostrata.errors import RecorderError
from iostrata.mask import MASK

PATIENCE_S: Final = 2.0
# The recorder's longest line is 1 KiB.
LONGEST: Final = 1 << 16


class PipedSession:
    """A recorder at the other end of two unbuffered pipes, the Session of transport.py.

    ``status``: nothing but its lines; a subclass may tell them from others.
    """

    def __init__(
        self, process: subprocess.Popen[bytes], status: IO[bytes], control: IO[bytes]
    ) -> None:
        self.alive = True
        self.why = ""
        self._process = process
        self._status = status
        self._control = control
        self._unread = b""

    def lines(self, limit_s: float) -> list[str]:
        deadline = time.monotonic() + limit_s
        while self.alive and select.select([self._status], [], [], _left(deadline))[0]:
            chunk = self._status.read(1 << 16)
            if not chunk:
                self.alive = False
                self.why = self._reason()
            found, self._unread = self._split(self._unread + (chunk or b""))
            if len(self._unread) > LONGEST:
                self.alive, self.why = False, "what it says has no end"
            # Who never stops speaking, and says nothing, is not listened to for longer.
            if found or not _left(deadline):
                return [line.decode(errors="replace") for line in found]
        return []

    def ask(self, line: str) -> None:
        with suppress(BrokenPipeError, ValueError):
            self._control.write(f"{line}\n".encode())

    def stop(self) -> None:
        self._control.close()

    def close(self) -> None:
        self._control.close()
        self._status.close()
        self.alive = False
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _split(self, data: bytes) -> tuple[list[bytes], bytes]:
        """The whole lines, and what is left."""
        *found, rest = data.split(b"\n")
        return found, rest

    def _reason(self) -> str:
        try:
            status = self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            return ""
        return f"it was killed by signal {-status}" if status < 0 else ""


def begin(words: Sequence[str], *, apart: bool = False) -> PipedSession:
    """A recorder of this machine, with its arguments. Errors: RecorderError.

    ``apart``: it neither sees nor uses our terminal; else it is in its foreground as we are,
    and Ctrl-C reaches its command, too.
    """
    status, told = os.pipe()
    asked, control = os.pipe()
    descriptors = ["--status-fd", str(told), "--control-fd", str(asked)]
    streams = subprocess.DEVNULL if apart else None
    try:
        process = subprocess.Popen(
            [words[0], *descriptors, *words[1:]],
            pass_fds=[told, asked],
            stdin=streams,
            stdout=streams,
            stderr=streams,
            start_new_session=apart,
            umask=MASK.given,
        )
    except OSError as error:
        os.close(status)
        os.close(control)
        raise RecorderError(f"the recorder does not start: {error.strerror}") from error
    finally:
        os.close(told)
        os.close(asked)
    return PipedSession(process, io.FileIO(status), io.FileIO(control, "w"))


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())
