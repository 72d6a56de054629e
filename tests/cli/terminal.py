# SPDX-License-Identifier: Apache-2.0
"""A pseudo-terminal with a program on it: keys in, what it wrote out, and how it left things."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fcntl import ioctl

LIMIT_S = 60.0
ENTER, LEAVE, CURSOR = b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?25h"


class Terminal:
    """``screen``: what was written since it was last cleared, without colours."""

    def __init__(self, fd: int, process: subprocess.Popen[bytes]) -> None:
        self._fd, self.process, self.output = fd, process, b""

    @property
    def screen(self) -> str:
        last = self.output.rpartition(b"\x1b[H")[2].decode(errors="replace")
        return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", last).replace("\r\n", "\n")

    def press(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def until(self, text: str) -> None:
        """Waits until that is on the screen."""
        deadline = time.monotonic() + LIMIT_S
        while text not in self.screen:
            assert time.monotonic() < deadline, f"no {text!r} on the screen:\n{self.screen}"
            assert self._read() or self.process.poll() is None, self.output.decode()
        while self._read():
            """The rest of the same screen."""

    def end(self, number: int = 0) -> int:
        """Waits for the program, after a signal if there is one; its exit status."""
        if number:
            self.process.send_signal(number)
        deadline = time.monotonic() + LIMIT_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline, "the program does not end"
            self._read()
        while self._read():
            """What it wrote last."""
        return self.process.returncode

    @property
    def restored(self) -> bool:
        """The other screen was left, the cursor is seen, lines and echo are as before."""
        modes = termios.tcgetattr(self._fd)[3]
        after = self.output.rpartition(LEAVE)[2]
        return (
            self.output.count(ENTER) == self.output.count(LEAVE) == 1
            and CURSOR in self.output
            and b"\x1b[" not in after.replace(CURSOR, b"")
            and bool(modes & termios.ICANON)
            and bool(modes & termios.ECHO)
        )

    def _read(self) -> bytes:
        found = b""
        if select.select([self._fd], [], [], 0.05)[0]:
            found = os.read(self._fd, 1 << 16)
            self.output += found
        return found


@contextmanager
def on_a_terminal(*words: str, columns: int = 100, lines: int = 30) -> Iterator[Terminal]:
    """``python WORDS`` on a terminal of its own."""
    ours, theirs = pty.openpty()
    ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "PYTHON_COLORS": "0"}
    for name in ("COLUMNS", "LINES"):
        environment.pop(name, None)
    process = subprocess.Popen(
        [sys.executable, *words],
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        env=environment,
    )  # fmt: skip
    try:
        yield Terminal(ours, process)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            process.wait()
        os.close(ours)
        os.close(theirs)
