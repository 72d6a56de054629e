# SPDX-License-Identifier: Apache-2.0
"""Record stage: what the recording of a machine takes from the way to it, near or far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

STATUS_TIME_LIMIT = 124


@dataclass(frozen=True)
class Done:
    """``output``: standard output and standard error, as they came.

    ``status``: the command's; ``STATUS_TIME_LIMIT`` if it took too long.
    """

    status: int
    output: str


class Session(Protocol):
    """A recorder that runs on a machine.

    ``alive``: it may still say something. A recorder's last line is ``done STATUS``;
    one that is not alive and has not said it was lost, and ends by itself.
    ``why``: what is known of how it was lost, or empty.
    """

    alive: bool
    why: str

    def lines(self, limit_s: float) -> list[str]:
        """What it told since, as soon as there is any; empty after the limit, and at its end."""
        ...

    def ask(self, line: str) -> None:
        """A line to its control descriptor; nothing happens if it has gone."""
        ...

    def stop(self) -> None:
        """Ends its recording and does not wait: its last lines follow."""
        ...

    def close(self) -> None:
        """Lets go of it. One that still records ends by itself."""
        ...


class Transport(Protocol):
    """The way to a machine. Errors of all its methods: RecorderError, which do not name it."""

    @property
    def places(self) -> Sequence[str]:
        """Directories there in which a temporary one may be made, best first."""
        ...

    @property
    def is_far(self) -> bool:
        """Whether who records can be cut off from it: then it tidies up by itself, later."""
        ...

    def run(self, words: Sequence[str], limit_s: float) -> Done:
        """Runs a command there, without input."""
        ...

    def cut(self) -> None:
        """Ends what another thread waits for in ``run`` or ``put``."""
        ...

    def put(self, local: Path, remote: str) -> None:
        """Copies a file there; its mode is kept."""
        ...

    def fetch(self, remote: str, local: Path) -> None:
        """Copies the directory ``remote`` here, as ``local``, which does not exist yet."""
        ...

    def start(self, words: Sequence[str]) -> Session:
        """Runs a recorder there, in the background and without limit.

        A command of its begins when it is asked to ``go``.

        ``words[0]`` is the recorder, the others are its arguments; the transport adds
        --status-fd and --control-fd behind it. What a recorded command prints is passed
        through to our standard output and standard error.
        """
        ...
