# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a process by its number and the time it began, so that no other is ever ended."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

PATIENCE_S: Final = 5.0


class Process(msgspec.Struct, frozen=True):
    """``began``: in the kernel's ticks since boot; numbers are used again, pairs are not."""

    pid: int
    began: int

    @property
    def alive(self) -> bool:
        return self.began >= 0 and _began(self.pid) == self.began

    @property
    def waited_ns(self) -> int:
        """For how long its threads have waited for a CPU; 0: it has ended, or nobody counts."""
        waited = 0
        # It, or a thread of it, may end meanwhile.
        with suppress(OSError):
            for thread in Path(f"/proc/{self.pid}/task").iterdir() if self.alive else ():
                with suppress(OSError, IndexError):
                    waited += int((thread / "schedstat").read_text().split()[1])
        return waited

    def end(self) -> None:
        """Asks it to end, and makes it end if it does not."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + PATIENCE_S
            if self.alive:
                os.kill(self.pid, number)
            while self.alive and time.monotonic() < deadline:
                time.sleep(0.02)


def process(pid: int) -> Process:
    return Process(pid, _began(pid))


def _began(pid: int) -> int:
    """-1: there is no such process, or only its exit status is left."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return -1
    return -1 if fields[0] in "ZX" else int(fields[19])
