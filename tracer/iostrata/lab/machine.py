# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a machine's declaration in, the running machine out, which obeys commands."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from iostrata.errors import LabError
from iostrata.lab import qemu
from iostrata.lab.control import STATUS_TIME_LIMIT, Control, Done, connect
from iostrata.lab.initramfs import initramfs
from iostrata.lab.kernels import Kernel
from iostrata.lab.process import Process, process
from iostrata.lab.scenario import Disk, Machine
from iostrata.lab.tools import find_tool

BOOT_LIMIT_S: Final = 90.0
COMMAND_LIMIT_S: Final = 60.0
# Where the machine sees its directory ``exchange``.
EXCHANGE: Final = "/lab"
QEMU_LOG: Final = "qemu.log"
TAIL_LINES: Final = 12


class RunningMachine:
    """``directory``: its images, sockets and logs on the machine that runs QEMU."""

    def __init__(self, name: str, directory: Path, qemu_process: Process) -> None:
        self.name = name
        self.directory = directory
        self.process = qemu_process
        self._control: Control | None = None

    @property
    def exchange(self) -> Path:
        return self.directory / qemu.EXCHANGE

    def close(self) -> None:
        """Lets go of the machine, which goes on."""
        if self._control:
            self._control.close()
        self._control = None

    def try_command(self, command: str, limit_s: float = COMMAND_LIMIT_S) -> Done:
        """Runs it by the machine's shell. LabError: the machine itself failed."""
        try:
            if not self._control:
                self._control = connect(self.directory / qemu.CONTROL, self._alive)
            return self._control.run(command, limit_s)
        except LabError as error:
            raise LabError(f"machine {self.name}: {error}{self.tail()}", error.hint) from error

    def command(self, command: str, limit_s: float = COMMAND_LIMIT_S) -> str:
        """The output of a command that must succeed. Errors: LabError."""
        done = self.try_command(command, limit_s)
        if done.status:
            why = (
                f"did not end in {limit_s:g} s"
                if done.status == STATUS_TIME_LIMIT
                else f"ended with status {done.status}"
            )
            said = _indented(done.output.splitlines()[-TAIL_LINES:])
            raise LabError(f"machine {self.name}: {command.splitlines()[0]}: {why}{said}")
        return done.output

    def send(self, file: Path, path: str) -> None:
        """Copies a file of this machine into that one."""
        shutil.copy(file, self.exchange / file.name)
        words = shlex.join(["cp", f"{EXCHANGE}/{file.name}", path])
        self.command(f"{words} && rm {shlex.quote(f'{EXCHANGE}/{file.name}')}")

    def fetch(self, path: str, target: Path) -> None:
        """Copies a file or directory of that machine here."""
        name = Path(path).name
        self.command(shlex.join(["cp", "-r", path, f"{EXCHANGE}/{name}"]))
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

    def _alive(self) -> bool:
        return self.process.alive


def start(machine: Machine, kernel: Kernel, directory: Path, teardown: ExitStack) -> RunningMachine:
    """Begins to bring it up in a new ``directory``; ``teardown`` ends it."""
    (directory / qemu.EXCHANGE).mkdir(parents=True)
    (directory / qemu.INITRAMFS).write_bytes(initramfs(kernel))
    for disk in machine.disks:
        _make_image(directory, disk)
    words = qemu.command_line(machine, kernel)
    with (directory / QEMU_LOG).open("wb") as log:
        started = subprocess.Popen(
            [find_tool(words[0]), *words[1:]],
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # The terminal's Ctrl-C is for us: machines end in our order.
            start_new_session=True,
        )
    running = RunningMachine(machine.name, directory, process(started.pid))
    teardown.callback(started.poll)
    teardown.callback(running.process.end)
    teardown.callback(running.close)
    return running


def wait_for(machine: RunningMachine) -> None:
    """LabError, with the console's end, if it does not come up in time."""
    try:
        machine.command("true", BOOT_LIMIT_S)
    except LabError as error:
        raise LabError(
            f"the lab did not come up: {error}",
            f"--keep keeps the whole console, {machine.directory / qemu.CONSOLE}",
        ) from error


def _make_image(directory: Path, disk: Disk) -> None:
    with (directory / qemu.image(disk)).open("wb") as file:
        file.truncate(disk.size_mib << 20)


def _indented(lines: list[str]) -> str:
    return "".join(f"\n  | {line}" for line in lines)
