# SPDX-License-Identifier: Apache-2.0
"""Record stage: the way to another machine, by the system's ssh with the user's configuration."""

from __future__ import annotations

import io
import os
import secrets
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final

from iostrata.errors import RecorderError, UsageError
from iostrata.record.answer import Heard, answer_of
from iostrata.record.receive import BEGIN, SEND, receive
from iostrata.record.session import PATIENCE_S, PipedSession
from iostrata.record.transport import STATUS_TIME_LIMIT, Done

# As GIT_SSH_COMMAND: what to use instead of ssh.
COMMAND: Final = "IOSTRATA_SSH"
# Nobody answers a question; a machine that falls silent is given up after 15 s.
OPTIONS: Final = (
    "BatchMode=yes",
    "ConnectTimeout=10",
    "LogLevel=ERROR",
    "ServerAliveInterval=5",
    "ServerAliveCountMax=3",
)
STATUS_SSH: Final = 255
# The recorder's 7 MB, by a slow way.
PUT_LIMIT_S: Final = 600.0
# Before each of the recorder's lines on standard error, among the command's own.
MARK: Final = b"\x1e"


class Ssh:
    """``destination``: what ssh takes: a host of its configuration, USER@HOST, ssh://USER@HOST:PORT.

    Each run is a connection of its own, unless the user's configuration shares them.
    """

    places = ("/var/tmp", "/tmp", "/root")
    is_far = True

    def __init__(self, destination: str) -> None:
        if not destination or destination.startswith("-"):
            raise UsageError(
                f"ssh:{destination} names no machine",
                "give ssh:USER@HOST, or a host of ~/.ssh/config",
            )
        self.destination = destination
        self._running: subprocess.Popen[bytes] | None = None

    def __str__(self) -> str:
        return self.destination

    def run(self, words: Sequence[str], limit_s: float) -> Done:
        return self._run(words, limit_s)

    def put(self, local: Path, remote: str) -> None:
        script = 'cat >"$1" && chmod "$2" "$1"'
        mode = f"{local.stat().st_mode & 0o777:o}"
        with local.open("rb") as file:
            self._succeed(["sh", "-c", script, "sh", remote, mode], file)

    def fetch(self, remote: str, local: Path) -> None:
        # What it says on standard error is bounded by nobody, and is not needed.
        sender = subprocess.Popen(
            self._line(["sh", "-c", SEND, "sh", remote, BEGIN]),
            bufsize=0,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert sender.stdout
        try:
            receive(io.BufferedReader(Heard(sender.stdout)), local)
        finally:
            sender.stdout.close()
            _end(sender)

    def start(self, words: Sequence[str]) -> PipedSession:
        """Its lines come on standard error: standard output is the command's."""
        descriptors = ["--status-fd", "2", "--control-fd", "0"]
        shows_output = "--" in words
        process = subprocess.Popen(
            self._line([words[0], *descriptors, *words[1:]]),
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=None if shows_output else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,  # the terminal's Ctrl-C is for us, who end it in order
        )
        return SshSession(process, shows_output)

    def cut(self) -> None:
        """Ends a command that is run, by another thread; what it began there may go on."""
        if running := self._running:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)

    @contextmanager
    def _cut_by_others(self, process: subprocess.Popen[bytes]) -> Iterator[None]:
        self._running = process
        try:
            yield
        finally:
            self._running = None

    def _line(self, words: Sequence[str]) -> list[str]:
        try:
            ssh = shlex.split(_command())
        except ValueError as error:
            raise UsageError(
                f"{COMMAND} is no command line: {error}", "quote it as a shell would have it"
            ) from error
        options = [word for option in OPTIONS for word in ("-o", option)]
        return [*ssh, *options, "--", self.destination, shlex.join(words)]

    def _succeed(self, words: Sequence[str], stdin: IO[bytes]) -> None:
        done = self._run(words, PUT_LIMIT_S, stdin)
        if done.status:
            raise RecorderError(f"{words[0]} failed: {_last_line(done.output.encode())}")

    def _run(self, words: Sequence[str], limit_s: float, stdin: IO[bytes] | None = None) -> Done:
        try:
            with (
                subprocess.Popen(
                    self._line(words),
                    stdin=stdin or subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                ) as process,
                self._cut_by_others(process),
            ):
                output, story = answer_of(process, limit_s)
        except subprocess.TimeoutExpired:
            return Done(STATUS_TIME_LIMIT, f"{words[0]} did not end in {limit_s:g} s")
        except OSError as error:
            raise RecorderError(
                f"{_command()} cannot be run: {error.strerror}", _missing()
            ) from error
        if process.returncode == STATUS_SSH:
            raise RecorderError(
                f"ssh {self.destination}: {_last_line(story)}",
                f"it must work without questions: {_command()} -o BatchMode=yes "
                f"{self.destination} true",
            )
        return Done(process.returncode, (output + story).decode(errors="replace"))


class SshSession(PipedSession):
    """Of what comes on standard error, marked lines are the recorder's; others are shown.

    The recorder is told a word, and puts it behind the marks before its command begins: what
    that prints is never taken for a line of the recorder's.
    """

    def __init__(self, process: subprocess.Popen[bytes], shows_output: bool) -> None:
        assert process.stdin
        assert process.stderr
        super().__init__(process, process.stderr, process.stdin)
        self._shows_output = shows_output
        self._said = b""
        self._mark = MARK
        self._word = f"{secrets.token_hex(16)} ".encode()
        self.ask(f"mark {self._word.decode().strip()}")

    def _split(self, data: bytes) -> tuple[list[bytes], bytes]:
        found: list[bytes] = []
        while self._mark in data:
            text, _, data = data.partition(self._mark)
            self._show(text)
            line, end, data = data.partition(b"\n")
            if not end:
                return found, self._mark + line
            if line.startswith(self._word):
                self._mark, line = MARK + self._word, line.removeprefix(self._word)
            found.append(line)
        shown = len(data) - _begun(self._mark, data)
        self._show(data[:shown])
        return found, data[shown:]

    def _show(self, text: bytes) -> None:
        self._said = (self._said + text)[-4096:]
        if text and self._shows_output:
            sys.stderr.buffer.write(text)
            sys.stderr.flush()

    def _reason(self) -> str:
        return _last_line(self._said) if self._said.strip() else super()._reason()


def _end(process: subprocess.Popen[bytes]) -> None:
    """It is asked to, and then not any more."""
    process.terminate()
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _command() -> str:
    return os.environ.get(COMMAND, "ssh")


def _missing() -> str:
    if COMMAND in os.environ:
        return f"{COMMAND} names what is used instead of ssh: correct it, or unset it"
    return "install it: apt-get install openssh-client"


def _begun(mark: bytes, data: bytes) -> int:
    """Of how many bytes at the end the mark may become; it is not in the data as a whole."""
    return next(size for size in range(len(mark) - 1, -1, -1) if data.endswith(mark[:size]))


def _last_line(text: bytes) -> str:
    lines = text.decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else "it said nothing"
