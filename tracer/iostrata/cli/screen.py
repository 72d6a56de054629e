# SPDX-License-Identifier: Apache-2.0
"""A full screen on the terminal: Text in, keys out; the terminal is as before afterwards."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.text import Text

from iostrata.errors import UsageError

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True)
class Wakening:
    """Why ``Screen.wait`` returned: keys, a signal to end (0: none), or neither: it is time."""

    keys: str = ""
    signal: int = 0


class Screen:
    """The terminal, while it is ours."""

    def __init__(self, live: Live, console: Console, signals_fd: int) -> None:
        self._live, self._console, self._signals_fd = live, console, signals_fd

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines."""
        return self._console.size.width, self._console.size.height

    def show(self, text: Text) -> None:
        self._live.update(text, refresh=True)

    def wait(self, until_s: float) -> Wakening:
        """Until that time (``time.monotonic``) at the latest; a resized terminal wakes, too."""
        stdin = sys.stdin.fileno()
        left = max(until_s - time.monotonic(), 0.0)
        ready = select.select([stdin, self._signals_fd], [], [], left)[0]
        if self._signals_fd in ready:
            found = set(os.read(self._signals_fd, 64)) & set(ENDING)
            if found:
                return Wakening(signal=min(found))
        if stdin in ready:
            keys = os.read(stdin, 64).decode(errors="replace")
            # A terminal that is gone reads as its end.
            return Wakening(keys) if keys else Wakening(signal=signal.SIGHUP)
        return Wakening()


def check_terminal() -> None:
    """UsageError where there is nobody to look and press keys."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "top needs a terminal, for its input and its output",
            "iostrata run --all --duration 10 prints one table anywhere",
        )


@contextmanager
def full_screen() -> Iterator[Screen]:
    """The terminal's other screen without echo; both go back whatever happens in the block."""
    with ExitStack() as stack:
        console = Console(file=sys.stdout, highlight=False)
        signals_fd = stack.enter_context(_signals())
        stack.enter_context(_keys(sys.stdin.fileno()))
        live = Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop")
        stack.enter_context(live)
        yield Screen(live, console, signals_fd)


@contextmanager
def _keys(fd: int) -> Iterator[None]:
    """Single keys, unseen; Ctrl-Z would leave the other screen standing, so it is off."""
    before = termios.tcgetattr(fd)
    ours = termios.tcgetattr(fd)
    ours[3] &= ~(termios.ICANON | termios.ECHO)
    ours[6][termios.VSUSP] = b"\0"
    ours[6][termios.VMIN], ours[6][termios.VTIME] = 1, 0
    termios.tcsetattr(fd, termios.TCSADRAIN, ours)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


@contextmanager
def _signals() -> Iterator[int]:
    """Signals as bytes of a pipe: nothing is interrupted, so nothing is left half done."""
    reader, writer = os.pipe()
    for fd in (reader, writer):
        os.set_blocking(fd, False)
    watched = (*ENDING, signal.SIGWINCH)
    before = {number: signal.signal(number, lambda *_: None) for number in watched}
    wakeup = signal.set_wakeup_fd(writer)
    try:
        yield reader
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, action in before.items():
            signal.signal(number, action)
        os.close(reader)
        os.close(writer)
