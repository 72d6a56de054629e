# SPDX-License-Identifier: Apache-2.0
"""The story of a command, told on standard error: what happens, never a result."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from iostrata.foreign import lines
from iostrata.units import duration, plural

if TYPE_CHECKING:
    from iostrata.analysis import SoFar
    from iostrata.record import Progress

# Where lines stay, so often.
PLAIN_EVERY_S: Final = 10.0
MOMENT_S: Final = 0.5


class Story:
    """One line a statement; while nobody else uses the terminal, a living last line.

    ``alone``: no command shares the terminal. ``limit_s``: so long is recorded; 0: not known.
    """

    def __init__(self, quiet: bool = False, alone: bool = False, limit_s: float = 0) -> None:
        self.quiet = quiet
        self._alone = alone
        self._limit_s = limit_s
        self._since = time.monotonic()
        self._plain_at = self._since + PLAIN_EVERY_S
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
            self.tell(text)

    def tell(self, text: str) -> None:
        """What is no progress: it is said quietly, too."""
        self._console.print(f"iostrata: {lines(text)}", markup=False)

    def ready(self) -> None:
        if self._live:
            self._live.update(Text("recording, Ctrl-C ends it"), refresh=True)
        else:
            self.say("recording")

    def progress(self, progress: Progress) -> None:
        left = f", {self._limit_s - progress.seconds:.0f} s left" if self._limit_s else ""
        self._now(described(progress) + left)

    def heard(self, progress: Mapping[str, Progress]) -> None:
        """Of several machines; of none, when they have ended."""
        if progress:
            self._now("; ".join(f"{name} {described(each)}" for name, each in progress.items()))
        elif self._live:
            self._live.update(Text(), refresh=True)

    def warn(self, text: str) -> None:
        """Of a result that is less than it should be."""
        self._console.print(f"iostrata: warning: {lines(text)}", markup=False)

    def analysed(self, so_far: SoFar) -> None:
        """How much of a recording is, and what came of it: on a terminal, if it takes a moment."""
        now, share = time.monotonic(), so_far.share
        if not share:
            self._since = now
        elif self._live and now - self._since >= MOMENT_S:
            left = (now - self._since) * (1 - share) / share
            text = f"analysing: {share:.0%}, {left:.0f} s left{found(so_far)}"
            self._live.start()
            self._live.update(Text(text), refresh=True)

    def _now(self, text: str) -> None:
        if self._live:
            self._live.update(Text(f"recording, Ctrl-C ends it: {text}"), refresh=True)
        elif self._alone and time.monotonic() >= self._plain_at:
            self._plain_at = time.monotonic() + PLAIN_EVERY_S
            self.say(f"recording: {text}")


def described(progress: Progress) -> str:
    rate = progress.events / max(progress.seconds, 0.1)
    lost = f", {progress.lost} lost" if progress.lost else ""
    return f"{progress.events} events in {progress.seconds:.1f} s ({rate:.0f}/s){lost}"


def found(so_far: SoFar) -> str:
    """The first results: how many, their mean, and who has most of their time."""
    if not so_far.count or not so_far.held:
        return ""
    segment, share = max(so_far.held.items(), key=lambda one: one[1])
    of = f"{so_far.count} {plural(so_far.op.word)}, mean {duration(so_far.mean_ns)}"
    return f"; so far {of}, {share:.0%} {segment}"


def complain(what: str, hint: str = "") -> None:
    """The one form of every error: what and why, then what to do about it."""
    print(f"iostrata: {lines(what)}", file=sys.stderr)
    if hint:
        print(f"  try: {lines(hint)}", file=sys.stderr)
