# SPDX-License-Identifier: Apache-2.0
"""Lab stage: what the lab keeps: kernels and programs for all labs, a directory for each one."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

STATE: Final = "lab.json"
# How long recordings stay that nobody has moved elsewhere.
KEPT_S: Final = 7 * 86400.0


def cache() -> Path:
    """The lab's directory in the user's cache; what no lab uses may be removed."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "iostrata" / "lab"


@contextmanager
def locked() -> Iterator[None]:
    """No other lab makes what they all share while the block runs; waits for one that does."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def labs() -> Path:
    """Where each lab has its directory."""
    return cache() / "labs"


@dataclass(frozen=True)
class LabDirectory:
    """Of one lab, whose name is the directory's: SCENARIO.NUMBER."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def scenario(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def machines(self) -> Path:
        return self.path / "machines"

    @property
    def recordings(self) -> Path:
        return self.path / "recordings"

    @property
    def state(self) -> Path:
        """The file that is there as long as its machines may stand."""
        return self.path / STATE

    def clear(self) -> None:
        """All but the recordings is removed."""
        shutil.rmtree(self.machines, ignore_errors=True)
        self.state.unlink(missing_ok=True)
        with suppress(OSError):
            self.path.rmdir()


def lab_directories() -> list[LabDirectory]:
    return [LabDirectory(path) for path in sorted(labs().glob("*"))]


def new_lab_directory(scenario: str) -> LabDirectory:
    """One that no other lab has. What is left of labs that ended a week ago is removed."""
    labs().mkdir(parents=True, exist_ok=True)
    with locked():
        for old in lab_directories():
            with suppress(FileNotFoundError):
                if not old.state.exists() and old.path.stat().st_mtime < time.time() - KEPT_S:
                    shutil.rmtree(old.path, ignore_errors=True)
        for number in count(1):
            with suppress(FileExistsError):
                made = LabDirectory(labs() / f"{scenario}.{number}")
                made.path.mkdir()
                break
    return made
