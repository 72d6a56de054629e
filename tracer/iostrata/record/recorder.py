# SPDX-License-Identifier: Apache-2.0
"""Record stage: runs iostrata-record for a Request; its trace is the output, an Outcome its end."""

from __future__ import annotations

import io
import math
import os
import platform
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

from iostrata.errors import CommandNotExecutable, CommandNotFound, RecorderError
from iostrata.mask import MASK
from iostrata.record.duties import SERVING, WORKLOAD
from iostrata.record.status import Progress, RecorderListener, Status
from iostrata.recording import holds_events

NAME: Final = "iostrata-record"
PACKAGED: Final = Path(__file__).parent / NAME
BUILT: Final = Path(__file__).parents[3] / "bpf" / "build" / NAME
# Where others than this machine's are built, beside it: by what uname calls their type of CPU.
OTHERS: Final = {"x86_64": "x86", "aarch64": "arm64"}
# The process stays the same one, and the environment, but for what names the user.
AS_USER: Final = """
gid=$(id -g -- "$0") && home=$(getent passwd -- "$0" | cut -d: -f6) &&
exec setpriv --reuid "$0" --regid "$gid" --init-groups -- \\
    env HOME="$home" USER="$0" LOGNAME="$0" "$@"
"""
POSTGRESQL: Final = Path("/usr/lib/postgresql")
ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# A little more than the recorder gives its command to end.
PATIENCE_S: Final = 2.5
# What it holds of a write-heavy machine, 256 MiB at most, may go to a slow disk.
END_LIMIT_S: Final = 120.0
POLL_S: Final = 0.1


@dataclass(frozen=True)
class Target:
    """What to record besides the command; nothing: only the command."""

    pids: tuple[int, ...] = ()
    comms: tuple[str, ...] = ()
    cgroups: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    everything: bool = False

    def __bool__(self) -> bool:
        return bool(self.pids or self.comms or self.cgroups or self.devices or self.everything)


@dataclass(frozen=True)
class Request:
    """``directory``: where the recorder puts this machine's trace. ``duration_s`` 0: no end.

    ``duties``: what this machine does that is to be recorded. ``user``: whose the command is;
    None: the recorder's. ``op``: what is recorded besides synchronous writes, as the recorder's
    option has it. ``packets``: ports of servers, of whose connections each packet is.
    """

    directory: Path
    command: tuple[str, ...] = ()
    target: Target = field(default_factory=Target)
    duties: tuple[str, ...] = (WORKLOAD,)
    detail: bool = False
    why: bool = False
    who: bool = False
    names: bool = True
    compress: bool = False
    stats: bool = False
    duration_s: float = 0
    buffer_kib: int = 0
    force: bool = False
    user: str | None = None
    op: str = "sync"
    packets: tuple[int, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """``exit_status``: the command's, 128 + n if signal n ended it, None without a command.

    ``interrupted_by``: the signal that ended the recording early, 0 if none did.
    ``last``: the recorder's last word on its progress, which it gives each second.
    """

    exit_status: int | None
    interrupted_by: int
    last: Progress | None


def find_recorder(machine: str = "") -> Path:
    """The recorder of this installation, else the one built in this repository.

    ``machine``: of another type of CPU than this one's, as uname calls it. Errors: RecorderError.
    """
    if machine not in ("", platform.machine()):
        return _other_recorder(machine)
    for path in (PACKAGED, BUILT):
        if os.access(path, os.X_OK):
            return path
    raise RecorderError(
        f"the recorder is missing: there is no {PACKAGED}",
        "reinstall iostrata; in its source tree: make -C bpf",
    )


def _other_recorder(machine: str) -> Path:
    build = ""
    if machine in OTHERS:
        path = BUILT.parent / OTHERS[machine] / NAME
        if os.access(path, os.X_OK):
            return path
        build = f"make native-{OTHERS[machine]} in the source tree here, or "
    raise RecorderError(
        f"its CPU is of another type: {machine}, and the recorder here is for {platform.machine()}",
        f"{build}build iostrata-record there (make -C bpf), record by hand, and use iostrata join",
    )


def found_command(command: tuple[str, ...]) -> tuple[str, ...]:
    """It, with the full path of a program that lies where Debian keeps PostgreSQL's own.

    Errors: CommandNotFound, CommandNotExecutable: before anything is set up for it.
    """
    if not command or shutil.which(command[0]):
        return command
    if beside := shutil.which(command[0], path=_postgresql()):
        return (beside, *command[1:])
    path = Path(command[0])
    if "/" in command[0] and path.exists():
        raise CommandNotExecutable(
            f"{path}: may not be executed", f"give a program, or: chmod +x {path}"
        )
    raise CommandNotFound(
        f"{command[0]}: command not found", "check its name, or give its full path"
    )


def _postgresql() -> str:
    """Where pg_test_fsync is: a directory a version, the newest first, and none in PATH."""
    found = POSTGRESQL.glob("*/bin")
    return os.pathsep.join(map(str, sorted(found, key=_version, reverse=True)))


def _version(directory: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", directory.parent.name)]


def record(request: Request, listener: RecorderListener) -> Outcome:
    """Runs the recorder until its command, its time, or a signal ends it.

    Errors: PermissionDenied, RecorderError, CommandNotFound, CommandNotExecutable;
    KeyboardInterrupt, by a signal before it recorded.
    """
    reader, writer = os.pipe()
    with io.FileIO(reader) as pipe, _held_signals() as signals:
        try:
            words = [str(find_recorder()), "--status-fd", str(writer), *arguments(request)]
            process = subprocess.Popen(words, pass_fds=[writer], umask=MASK.given)
        except OSError as error:
            raise RecorderError(f"the recorder does not start: {error.strerror}") from error
        finally:
            os.close(writer)
        end = _End(process, signals, request.duration_s)
        status = _follow(pipe, end, listener)
        if end.given_up:
            with suppress(subprocess.TimeoutExpired):
                process.wait(PATIENCE_S)
        else:
            process.wait()
    if end.given_up:
        raise RecorderError(
            f"the recorder did not end within {END_LIMIT_S:g} s of being asked to, and was killed",
            _left_in(request.directory),
        )
    if signals.received and end.is_early:
        raise KeyboardInterrupt
    _check(request, process.returncode, status)
    exit_status = process.returncode if request.command else None
    return Outcome(exit_status, signals.received, status.last)


def arguments(request: Request) -> list[str]:
    """Of the recorder, for all that is asked for."""
    target = request.target
    words = ["-o", str(request.directory)]
    if request.duties == SERVING:
        words += ["--path"]
    elif request.duties != (WORKLOAD,):
        words += _repeated("--duty", request.duties)
    words += _repeated("--pid", target.pids)
    words += _repeated("--comm", target.comms)
    words += _repeated("--cgroup", target.cgroups)
    words += _repeated("--device", target.devices)
    words += ["--all"] if target.everything else []
    words += ["--detail"] if request.detail else []
    words += ["--why"] if request.why else []
    words += ["--who"] if request.who else []
    words += [] if request.names else ["--no-names"]
    words += ["--compress"] if request.compress else []
    words += [] if request.op == "sync" else ["--op", request.op]
    words += _repeated("--packets", request.packets)
    words += ["--stats"] if request.stats else []
    words += ["--force"] if request.force else []
    words += ["--buffer", str(request.buffer_kib)] if request.buffer_kib else []
    words += ["--duration", f"{request.duration_s:g}"] if request.duration_s else []
    return [*words, "--", *_as(request.user), *request.command] if request.command else words


def _as(user: str | None) -> list[str]:
    """What executes the words behind it as that user, on whatever machine."""
    return [] if user is None else ["sh", "-c", AS_USER, user]


def _repeated(option: str, values: Iterable[object]) -> list[str]:
    return [word for value in values for word in (option, str(value))]


@dataclass
class _Signals:
    """Signals end the recorder, not us: it must close its files first.

    What the terminal sends it sends to the recorder and its command as well;
    only if the recorder goes on for ``PATIENCE_S`` was it not told.
    """

    received: int = 0
    pass_on_at: float = 0.0

    def take(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        by_terminal = number != signal.SIGTERM and _in_foreground()
        self.pass_on_at = time.monotonic() + (PATIENCE_S if by_terminal else 0)


@dataclass
class _End:
    """The recorder is asked to end, and waited for so long. One that was stopped (SIGSTOP) goes
    on for it; its time may be over while it is.

    ``is_early``: it was asked before it recorded. ``given_up``: it was killed.
    """

    process: subprocess.Popen[bytes]
    signals: _Signals
    duration_s: float
    given_up: bool = False
    is_early: bool = False
    asked: bool = False
    over_at: float = 0.0
    kill_at: float = math.inf

    def see(self, begun: bool) -> None:
        """Does what is due by now."""
        now = time.monotonic()
        signals = self.signals
        if signals.received and not self.asked:
            self.asked, self.is_early = True, not begun
        if begun and self.duration_s and not self.over_at:
            self.over_at = now + self.duration_s + PATIENCE_S
        if signals.pass_on_at and now >= signals.pass_on_at:
            signals.pass_on_at = 0
            self._ask(signals.received, now)
        elif self.over_at and now >= self.over_at:
            self.over_at = math.inf
            self._ask(0, now)
        if now >= self.kill_at:
            self.given_up = True
            self.process.kill()

    def _ask(self, number: int, now: float) -> None:
        self.kill_at = min(self.kill_at, now + END_LIMIT_S)
        for each in (number, signal.SIGCONT):
            self.process.send_signal(each)


@contextmanager
def _held_signals() -> Iterator[_Signals]:
    held = _Signals()
    before = {number: signal.signal(number, held.take) for number in ENDING}
    try:
        yield held
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _in_foreground() -> bool:
    try:
        with Path(os.ctermid()).open("rb", buffering=0) as terminal:
            return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    except OSError:
        return False


def _follow(pipe: io.FileIO, end: _End, listener: RecorderListener) -> Status:
    """Reads the recorder's lines until it closes them, or is given up."""
    status, unread = Status(), b""
    while not end.given_up:
        if select.select([pipe], [], [], POLL_S)[0]:
            chunk = pipe.read(1 << 16)
            if not chunk:
                return status
            *lines, unread = (unread + chunk).split(b"\n")
            for line in lines:
                status.take(line.decode(errors="replace"), listener)
        end.see(status.is_ready)
    return status


def _left_in(directory: Path) -> str:
    """What is to be done after the recorder was killed; what it wrote nothing to is not kept."""
    if holds_events(directory):
        return f"what it wrote before is in {directory}: iostrata replay reads it"
    return "nothing had been recorded yet: record again"


def signal_name(number: int) -> str:
    """Empty: it has none, as most real-time ones, or there is no such signal."""
    with suppress(ValueError):
        return signal.Signals(number).name
    return ""


def _check(request: Request, returncode: int, status: Status) -> None:
    if returncode < 0:
        name = signal_name(-returncode) or f"signal {-returncode}"
        raise RecorderError(
            f"the recorder was killed ({name})",
            _left_in(request.directory),
        )
    if error := status.error(returncode):
        raise error
