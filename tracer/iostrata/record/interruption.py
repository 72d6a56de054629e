# SPDX-License-Identifier: Apache-2.0
"""Record stage: Ctrl-C and its like in, an orderly end out."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from types import FrameType
from typing import Final, Self

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Answer(Enum):
    """To a signal: give up; remember the first, give up at the next; only count them."""

    GIVE_UP = auto()
    REMEMBER = auto()
    COUNT = auto()


class Interruption:
    """While it is entered, signals do as ``answer`` says; giving up is KeyboardInterrupt.

    ``received``: the first of those that ended nothing here; ``count``: how many there were.
    """

    def __init__(self) -> None:
        self.answer = Answer.GIVE_UP
        self.received = 0
        self.count = 0

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._take) for number in ENDING}
        return self

    def __exit__(self, *ignored: object) -> None:
        for number, action in self._before.items():
            signal.signal(number, action)

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self.answer is Answer.GIVE_UP or (self.answer is Answer.REMEMBER and self.received):
            raise KeyboardInterrupt
        self.received = self.received or number
        self.count += 1

    @contextmanager
    def giving_up(self) -> Iterator[None]:
        """A signal ends the block, and no more of them is done than that."""
        before, self.answer = self.answer, Answer.GIVE_UP
        try:
            yield
        finally:
            self.answer = before
