# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a running machine in, the way to it that its recording takes out."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from iostrata.errors import LabError, RecorderError
from iostrata.lab import qemu
from iostrata.lab.machine import RunningMachine
from iostrata.record import Done

# What the recorder's command prints stays there.
LOG: Final = "/run/recorder.log"
BEGIN: Final = "begin"
END: Final = "end"
PATIENCE_S: Final = 20.0
SIGNALLED: Final = 128


class LabTransport:
    """The Transport of the record stage, over the machine's ports and what it exchanges."""

    places = ("/run",)
    is_far = False

    def __init__(self, machine: RunningMachine) -> None:
        self.machine = machine

    def __str__(self) -> str:
        return f"lab:{self.machine.name}"

    def run(self, words: Sequence[str], limit_s: float) -> Done:
        with _recorder_errors():
            return self.machine.try_command(shlex.join(words), limit_s)

    def cut(self) -> None:
        """What is run there ends within its limit."""

    def put(self, local: Path, remote: str) -> None:
        with _recorder_errors():
            self.machine.send(local, remote)

    def fetch(self, remote: str, local: Path) -> None:
        with _recorder_errors():
            self.machine.fetch(remote, local)

    def start(self, words: Sequence[str]) -> LabSession:
        with _recorder_errors():
            return LabSession(self.machine, words)


class LabSession:
    """The Session of the record stage: the recorder's two descriptors are the machine's port."""

    def __init__(self, machine: RunningMachine, words: Sequence[str]) -> None:
        self.alive = True
        self.why = ""
        self._machine = machine
        recorder = shlex.join([words[0], "--status-fd", "3", "--control-fd", "4", *words[1:]])
        script = f"{recorder} & echo {BEGIN} $! $$ >&3; wait $!; echo {END} $? >&3"
        port = f"{qemu.PORTS}/{qemu.RECORDER}"
        shell = machine.command(
            f"setsid sh -c {shlex.quote(script)} 3<>{port} 4<&3 </dev/null >{LOG} 2>&1 & echo $!"
        )
        self._port = machine.port(qemu.RECORDER)
        deadline = time.monotonic() + machine.pace.limit_s(PATIENCE_S)
        self._pid = ""
        while not self._pid:  # what an earlier one said last may come first
            word, *rest = self._port.line(deadline).split()
            if word == BEGIN and rest[1:] == shell.split():
                self._pid = rest[0]

    def lines(self, limit_s: float) -> list[str]:
        found: list[str] = []
        while self.alive and (line := self._port.try_line(0 if found else limit_s)):
            word, _, rest = line.partition(" ")
            if word == END:
                self.alive = False
                if int(rest) > SIGNALLED:
                    self.why = f"it was killed by signal {int(rest) - SIGNALLED}"
            else:
                found.append(line)
        if self.alive and not self._machine.alive:
            self.alive = False
            self.why = "its machine is gone"
        return found

    def ask(self, line: str) -> None:
        with suppress(LabError):
            self._port.send(line, time.monotonic() + PATIENCE_S)

    def stop(self) -> None:
        with suppress(LabError):
            self._machine.try_command(f"kill {self._pid}")

    def close(self) -> None:
        self._port.close()
        self.alive = False


@contextmanager
def _recorder_errors() -> Iterator[None]:
    try:
        yield
    except LabError as error:
        raise RecorderError(str(error), error.hint) from error
