# SPDX-License-Identifier: Apache-2.0
"""The story of a command, told on standard error: what happens, never a result."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from iostrata.record import Progress


class Story:
    """One line a statement; while nobody else uses the terminal, a living last line.

    ``alone``: no command shares the terminal.
    """

    def __init__(self, quiet: bool = False, alone: bool = False) -> None:
        self.quiet = quiet
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._live: Live | None = None
        if alone and not quiet and self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *ignored: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends the living line: a result is about to be printed."""
        if self._live:
            self._live.stop()

    def say(self, text: str) -> None:
        if not self.quiet:
            self._console.print(f"iostrata: {text}", markup=False)

    def ready(self) -> None:
        if self._live:
            self._live.update(Text("recording, Ctrl-C ends it"), refresh=True)
        else:
            self.say("recording")

    def progress(self, progress: Progress) -> None:
        self._now(described(progress))

    def heard(self, progress: Mapping[str, Progress]) -> None:
        """Of several machines."""
        self._now("; ".join(f"{name} {described(each)}" for name, each in progress.items()))

    def warn(self, text: str) -> None:
        """Of a result that is less than it should be."""
        self._console.print(f"iostrata: warning: {text}", markup=False)

    def _now(self, text: str) -> None:
        if self._live:
            self._live.update(Text(f"recording, Ctrl-C ends it: {text}"), refresh=True)


def described(progress: Progress) -> str:
    lost = f", {progress.lost} lost" if progress.lost else ""
    return f"{progress.events} events in {progress.seconds:.1f} s{lost}"


def complain(what: str, hint: str = "") -> None:
    """The one form of every error: what and why, then what to do about it."""
    print(f"iostrata: {what}", file=sys.stderr)
    if hint:
        print(f"  try: {hint}", file=sys.stderr)
