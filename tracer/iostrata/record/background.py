# SPDX-License-Identifier: Apache-2.0
"""Record stage: a Request in, a recorder that runs beside us until we let go of it out.

The recorder ends when its control pipe closes or is silent: whatever ends us ends it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from iostrata.errors import RecorderError
from iostrata.record.recorder import Request, arguments, find_recorder
from iostrata.record.session import PipedSession, begin
from iostrata.record.status import Progress, Status

START_S: Final = 120.0
POLL_S: Final = 0.1


class Background:
    """A recorder at work. Errors of its methods: PermissionDenied, RecorderError: it ended."""

    def __init__(self, session: PipedSession) -> None:
        self._session, self._status = session, Status()
        self._ready = False

    def wait(self) -> None:
        """Until it records."""
        deadline = time.monotonic() + START_S
        while not self._ready:
            self.check(POLL_S)
            if time.monotonic() > deadline:
                raise RecorderError("the recorder does not begin", "iostrata doctor says more")

    def check(self, limit_s: float = 0.0) -> None:
        """That it goes on; takes in what it tells within the limit, and tells it that we are."""
        self._session.ask("clock")
        for line in self._session.lines(limit_s):
            self._status.take(line, self)
        if self._status.done is not None and (error := self._status.error(self._status.done)):
            raise error
        if not self._session.alive:
            why = f": {self._session.why}" if self._session.why else ""
            raise RecorderError(f"the recorder ended by itself{why}", "iostrata doctor says more")

    def ready(self) -> None:
        self._ready = True

    def progress(self, progress: Progress) -> None:
        """The trace itself says what was lost."""


@contextmanager
def beside(request: Request) -> Iterator[Background]:
    """A recorder at work while the block runs; it sees nothing of our terminal."""
    session = begin([str(find_recorder()), *arguments(request)], apart=True)
    try:
        yield Background(session)
    finally:
        session.close()
