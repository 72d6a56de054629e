# SPDX-License-Identifier: Apache-2.0
"""Record stage: the recorder's lines in, its state and the error that ended it out.

One line each: ``probe`` and a row of the table of --probes, ``ready PID``,
``progress EVENTS LOST SECONDS``, ``clock MONOTONIC_NS``,
``exit STATUS`` or ``signal NUMBER`` (the command's), ``failed TEXT``, ``done STATUS``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

from iostrata.errors import (
    CommandNotExecutable,
    CommandNotFound,
    IostrataError,
    PermissionDenied,
    RecorderError,
    UsageError,
)
from iostrata.trace import count

EXIT_FAILED: Final = 125
EXIT_NOT_EXECUTABLE: Final = 126
EXIT_NOT_FOUND: Final = 127
MAX_PROBES: Final = 1024


@dataclass(frozen=True)
class Progress:
    events: int
    lost: int
    seconds: float


class RecorderListener(Protocol):
    """Is told how the recording goes."""

    def ready(self) -> None: ...

    def progress(self, progress: Progress) -> None: ...


@dataclass
class Status:
    """What the recorder told so far.

    ``probes``: rows of text. ``clocks_ns``: its answers. ``done``: its exit status.
    """

    probes: list[str] = field(default_factory=list)
    pid: int = 0
    is_ready: bool = False
    failure: str = ""
    last: Progress | None = None
    command_ended: bool = False
    clocks_ns: list[int] = field(default_factory=list)
    done: int | None = None

    def take(self, line: str, listener: RecorderListener) -> None:
        """Errors: RecorderError, if no recorder says that."""
        try:
            self._take(*line.partition(" ")[::2], listener)
        except ValueError as error:
            raise RecorderError(f"its recorder says {line[:60]!r}") from error

    def _take(self, word: str, rest: str, listener: RecorderListener) -> None:
        match word:
            case "probe" if len(self.probes) < MAX_PROBES:
                self.probes.append(rest)
            case "ready":
                self.pid, self.is_ready = count(rest or "0"), True
                listener.ready()
            case "progress":
                events, lost, seconds = rest.split()
                progress = Progress(count(events), count(lost), _seconds(seconds))
                self.last = progress
                listener.progress(progress)
            case "clock":
                self.clocks_ns.append(count(rest))
            case "exit" | "signal":
                self.command_ended = True
            case "failed":
                self.failure = rest
            case "done":
                self.done = count(rest) & 0xFF

    def error(self, exit_status: int) -> IostrataError | None:
        """Why a recorder that ended with this status failed; None: it did not."""
        if not self.failure:
            if exit_status == EXIT_FAILED and not self.command_ended:
                return RecorderError(f"the recorder ended with status {exit_status}")
            return None
        if exit_status == EXIT_NOT_FOUND:
            return CommandNotFound(self.failure, "check its name, or give its full path")
        if exit_status == EXIT_NOT_EXECUTABLE:
            return CommandNotExecutable(self.failure, "give a program that may be executed")
        if self.failure.startswith("--"):
            option = self.failure.split(maxsplit=1)[0]
            refused = self.failure.partition(";")[0]
            return UsageError(f"the recorder: {refused}", f"leave {option} out, or correct it")
        if "not permitted" in self.failure.lower():
            return PermissionDenied(
                f"the recorder: {self.failure}", "iostrata doctor says what is refused here"
            )
        return RecorderError(f"the recorder: {self.failure}", _hint(self.failure))


def _seconds(text: str) -> float:
    """ValueError: it is no time."""
    seconds = float(text)
    if not 0 <= seconds < 2**63:
        raise ValueError(text)
    return seconds


def _hint(failure: str) -> str:
    if "No space left" in failure:
        return "free some space, or record to another disk with -o DIR"
    if "was removed" in failure:
        return "record again, and keep the directory until the end"
    if "--force" in failure or "exists" in failure:
        return "give another directory, or --force"
    return "iostrata doctor says what this machine can record"
