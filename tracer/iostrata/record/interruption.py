# SPDX-License-Identifier: Apache-2.0
"""Record stage: Ctrl-C and its like in, an orderly end out."""

from __future__ import annotations

import signal
from enum import Enum, auto
from types import FrameType
from typing import Final, Self

ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Answer(Enum):
    """To a signal: give up; remember the first, give up at the next; go on whatever comes."""

    GIVE_UP = auto()
    REMEMBER = auto()
    IGNORE = auto()


class Interruption:
    """While it is entered, signals do as ``answer`` says; giving up is KeyboardInterrupt."""

    def __init__(self) -> None:
        self.answer = Answer.GIVE_UP
        self.received = 0

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._take) for number in ENDING}
        return self

    def __exit__(self, *ignored: object) -> None:
        for number, action in self._before.items():
            signal.signal(number, action)

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self.answer is Answer.IGNORE:
            return
        if self.answer is Answer.REMEMBER and not self.received:
            self.received = number
            return
        raise KeyboardInterrupt
