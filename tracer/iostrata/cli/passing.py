# SPDX-License-Identifier: Apache-2.0
"""A temporary directory that goes with who made it, at the latest when another is made."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path
from typing import Final

OWNER: Final = "owner"
"""In each of them: locked while its owner lives, however that ends."""


@contextmanager
def passing(prefix: str) -> Iterator[Path]:
    """A directory that is gone afterwards; those of owners that were killed go before."""
    for left in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        _remove_left(left)
    with ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix=prefix))
        # Where nothing can be locked it is nobody else's to remove.
        with suppress(OSError):
            stack.callback(os.close, _owned(directory))
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        yield directory


def _owned(directory: Path) -> int:
    """The file's descriptor. It has its name only when it is locked: nobody sees it unlocked."""
    nameless = directory / f".{OWNER}"
    owner = os.open(nameless, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        flock(owner, LOCK_EX | LOCK_NB)
        nameless.rename(directory / OWNER)
    except BaseException:
        os.close(owner)
        raise
    return owner


def _remove_left(directory: Path) -> None:
    """If it is our own, and its owner is dead."""
    with ExitStack() as stack, suppress(OSError):
        # A link is not followed, and what is found behind this name later is not emptied.
        place = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        stack.callback(os.close, place)
        if os.fstat(place).st_uid != os.geteuid():
            return
        owner = os.open(OWNER, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=place)
        stack.callback(os.close, owner)
        flock(owner, LOCK_EX | LOCK_NB)
        shutil.rmtree(".", ignore_errors=True, dir_fd=place)
        directory.rmdir()
