# SPDX-License-Identifier: Apache-2.0
"""Record stage: the way to this machine itself."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from iostrata.errors import RecorderError
from iostrata.record.session import PipedSession, begin
from iostrata.record.transport import STATUS_TIME_LIMIT, Done


class Local:
    """``place``: where its temporary directory is made; best on the disk of the recording."""

    is_far = False

    def __init__(self, place: Path) -> None:
        self.places = (str(place),)

    def __str__(self) -> str:
        return "this machine"

    def run(self, words: Sequence[str], limit_s: float) -> Done:
        try:
            done = subprocess.run(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Done(STATUS_TIME_LIMIT, f"{words[0]} did not end in {limit_s:g} s")
        except OSError as error:
            raise RecorderError(f"{words[0]}: {error.strerror}") from error
        return Done(done.returncode, done.stdout.decode(errors="replace"))

    def cut(self) -> None:
        """What is run here ends within its limit."""

    def put(self, local: Path, remote: str) -> None:
        try:
            shutil.copy(local, remote)
        except OSError as error:
            raise RecorderError(f"{remote} cannot be written: {error.strerror}") from error

    def fetch(self, remote: str, local: Path) -> None:
        try:
            shutil.move(remote, local)
        except OSError as error:
            raise RecorderError(f"{local} cannot be written: {error.strerror}") from error

    def start(self, words: Sequence[str]) -> PipedSession:
        return begin(words)
