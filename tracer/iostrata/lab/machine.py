# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a machine that runs, by its directory and process, obeys commands."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Final

from iostrata.errors import LabError
from iostrata.lab import qemu
from iostrata.lab.control import Control
from iostrata.lab.monitor import Monitor
from iostrata.lab.pace import Pace
from iostrata.lab.port import Port
from iostrata.lab.process import Process
from iostrata.record import STATUS_TIME_LIMIT, Done

COMMAND_LIMIT_S: Final = 60.0
# Where the machine sees its directory ``exchange``.
EXCHANGE: Final = "/lab"
QEMU_LOG: Final = "qemu.log"
# Of a nested machine: the numbers of its QEMU there, and of how that ended.
PID: Final = "pid"
ENDED: Final = "ended"
# What QEMU says of one that KVM runs no longer; it stays, and the machine stands still.
GIVEN_UP: Final = "KVM internal error"
TAIL_LINES: Final = 12


class RunningMachine:
    """``directory``: its images, ports and logs on this machine.

    ``process``: its QEMU, or that of the machine in which it is nested.
    """

    def __init__(
        self, name: str, directory: Path, qemu_process: Process, pace: Pace | None = None
    ) -> None:
        self.name = name
        self.pace = pace or Pace()
        self.directory = directory
        self.process = qemu_process
        self._control: Control | None = None
        self._monitor: Monitor | None = None

    @property
    def exchange(self) -> Path:
        return self.directory / qemu.EXCHANGE

    @property
    def alive(self) -> bool:
        ended = (self.directory / ENDED).exists()
        return self.process.alive and not ended and not self.given_up

    @property
    def given_up(self) -> bool:
        """Whether its host's KVM runs it no longer."""
        log = self.directory / QEMU_LOG
        return log.exists() and GIVEN_UP in log.read_text(errors="replace")

    @property
    def monitor(self) -> Monitor:
        """Of its QEMU; only nested machines have one."""
        if not self._monitor:
            self._monitor = Monitor(self.port(qemu.MONITOR), self.pace)
        return self._monitor

    def port(self, name: str) -> Port:
        return Port(self.directory / name, lambda: self.alive)

    def close(self) -> None:
        """Lets go of the machine, which goes on."""
        for held in (self._control, self._monitor):
            if held:
                held.close()
        self._control = self._monitor = None

    def try_command(self, command: str, limit_s: float = COMMAND_LIMIT_S) -> Done:
        """Runs it by the machine's shell. LabError: the machine itself failed.

        ``limit_s``: where nothing else runs, as all limits are.
        """
        try:
            if not self._control:
                self._control = Control(self.port(qemu.CONTROL))
            return self._control.run(command, self.pace.limit_s(limit_s))
        except LabError as error:
            raise LabError(f"machine {self.name}: {error}{self.tail()}", error.hint) from error

    def command(self, command: str, limit_s: float = COMMAND_LIMIT_S) -> str:
        """The output of a command that must succeed. Errors: LabError."""
        done = self.try_command(command, limit_s)
        if done.status:
            why = (
                f"did not end in {self.pace.limit_s(limit_s):.0f} s"
                if done.status == STATUS_TIME_LIMIT
                else f"ended with status {done.status}"
            )
            said = _indented(done.output.splitlines()[-TAIL_LINES:])
            raise LabError(f"machine {self.name}: {command.splitlines()[0]}: {why}{said}")
        return done.output

    def send(self, file: Path, path: str) -> None:
        """Copies a file of this machine into that one; its mode is kept."""
        shutil.copy(file, self.exchange / file.name)
        words = shlex.join(["cp", "-p", f"{EXCHANGE}/{file.name}", path])
        self.command(f"{words} && rm {shlex.quote(f'{EXCHANGE}/{file.name}')}")

    def fetch(self, path: str, target: Path) -> None:
        """Copies a file or directory of that machine here."""
        name = Path(path).name
        # What was left by a copy that was ended amid it is not what this one is to bring.
        there = shlex.quote(f"{EXCHANGE}/{name}")
        self.command(f"rm -rf {there} && cp -r {shlex.quote(path)} {there}")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(self.exchange / name, target)

    def tail(self) -> str:
        """The last lines that QEMU and the machine's kernel said, for a message."""
        lines = []
        for name in (QEMU_LOG, qemu.CONSOLE):
            path = self.directory / name
            if path.exists():
                lines += path.read_text(errors="replace").split("\n")
        return _indented([line.strip() for line in lines if line.strip()][-TAIL_LINES:])


def _indented(lines: list[str]) -> str:
    return "".join(f"\n  | {line}" for line in lines)
