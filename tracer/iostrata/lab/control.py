# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a command in, its status and output out, over a machine's control port.

The agent at the other end (agent.sh) takes one line a command and answers with
one line. A reply to a command that was given up is recognised by its number.
"""

from __future__ import annotations

import base64
import itertools
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from iostrata.errors import LabError

STATUS_TIME_LIMIT: Final = 124
# How much longer than the command itself the way there and back may take.
PATIENCE_S: Final = 20.0
POLL_S: Final = 0.25
GONE: Final = "it is gone"


@dataclass(frozen=True)
class Done:
    """``output``: standard output and standard error, as they came."""

    status: int
    output: str


class Control:
    """One connection to a machine's agent. ``alive`` is asked while waiting."""

    def __init__(self, connection: socket.socket, alive: Callable[[], bool]) -> None:
        self._socket = connection
        self._alive = alive
        self._unread = b""
        self._numbers = itertools.count(1)

    def close(self) -> None:
        self._socket.close()

    def run(self, command: str, limit_s: float) -> Done:
        """LabError: the machine is gone, or does not answer in time."""
        word = f"{os.getpid()}.{next(self._numbers)}"
        encoded = base64.b64encode(command.encode()).decode()
        deadline = time.monotonic() + limit_s + PATIENCE_S
        try:
            self._socket.settimeout(PATIENCE_S)
            self._socket.sendall(f"{word} {limit_s:g} {encoded}\n".encode())
            while True:
                answered, _, rest = self._line(deadline).partition(" ")
                if answered == word:
                    status, _, output = rest.partition(" ")
                    text = base64.b64decode(output).decode(errors="replace")
                    return Done(int(status), text)
        except OSError as error:
            why = f"its control port failed: {error}" if self._alive() else GONE
            raise LabError(why) from error

    def _line(self, deadline: float) -> str:
        while b"\n" not in self._unread:
            if time.monotonic() > deadline:
                raise LabError("it does not answer")
            if not self._alive():
                raise LabError(GONE)
            self._socket.settimeout(POLL_S)
            try:
                chunk = self._socket.recv(1 << 16)
            except TimeoutError:
                continue
            if not chunk:
                raise LabError(GONE)
            self._unread += chunk
        line, _, self._unread = self._unread.partition(b"\n")
        return line.decode(errors="replace")


def connect(path: Path, alive: Callable[[], bool], limit_s: float = PATIENCE_S) -> Control:
    """To a socket that may not exist yet. Errors: LabError."""
    deadline = time.monotonic() + limit_s
    while alive() and time.monotonic() < deadline:
        connection = socket.socket(socket.AF_UNIX)
        try:
            _connect(connection, path)
            return Control(connection, alive)
        except (FileNotFoundError, ConnectionRefusedError, InterruptedError):
            connection.close()
            time.sleep(0.05)
        except BaseException:
            connection.close()
            raise
    raise LabError("it has no control port" if alive() else GONE)


def _connect(connection: socket.socket, path: Path) -> None:
    """By way of the directory: a socket's address has 107 bytes at most, a path may be longer."""
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        connection.connect(f"/proc/self/fd/{directory}/{path.name}")
    finally:
        os.close(directory)
