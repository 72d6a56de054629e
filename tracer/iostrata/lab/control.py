# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a command in, its status and output out, over a machine's control port.

The agent at the other end (agent.sh) takes one line a command and answers with
one line. A reply to a command that was given up is recognised by its number.
"""

from __future__ import annotations

import base64
import itertools
import os
import time
from collections.abc import Iterator
from typing import Final

from iostrata.lab.port import Port
from iostrata.record import Done

# How much longer than the command itself the way there and back may take.
PATIENCE_S: Final = 20.0


class Control:
    def __init__(self, port: Port) -> None:
        self._port = port
        self._words: Iterator[str] = (f"{os.getpid()}.{count}" for count in itertools.count(1))

    def close(self) -> None:
        self._port.close()

    def run(self, command: str, limit_s: float) -> Done:
        """LabError: the machine is gone, or does not answer in time."""
        word = next(self._words)
        encoded = base64.b64encode(command.encode()).decode()
        with self._port.held():
            deadline = time.monotonic() + limit_s + PATIENCE_S
            self._port.send(f"{word} {limit_s:g} {encoded}", deadline)
            while True:
                answered, _, rest = self._port.line(deadline).partition(" ")
                if answered == word:
                    status, _, output = rest.partition(" ")
                    text = base64.b64decode(output).decode(errors="replace")
                    return Done(int(status), text)
