# SPDX-License-Identifier: Apache-2.0
"""Recording: one that root made in, the same of the user who asked for it out.

Whoever calls sudo reads, copies and removes what was recorded without it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from iostrata.errors import UsageError

NOBODYS: Final = 2**32 - 1
"""No user and no group has this number, nor one above it."""


def give(directory: Path, environment: Mapping[str, str] = os.environ) -> None:
    """To the user that sudo told of (SUDO_UID, SUDO_GID); nothing without them, or without root.

    Only files and directories of root that have no other name, and never what a link leads
    to: where others may write, what lies there may be anybody's.
    """
    if asked := asked_by(environment):
        for _, names, files, fd in os.fwalk(directory):
            for name in (*names, *files):
                _give(name, fd, *asked)
        _give(directory, None, *asked)


def asked_by(environment: Mapping[str, str] = os.environ) -> tuple[int, int] | None:
    """The user and group that root works for, by what sudo told."""
    owner = [environment.get(name, "") for name in ("SUDO_UID", "SUDO_GID")]
    if os.geteuid() or not all(word.isdecimal() for word in owner):
        return None
    user, group = map(int, owner)
    return (user, group) if max(user, group) < NOBODYS else None


def check_own(directory: Path, environment: Mapping[str, str] = os.environ) -> None:
    """Whether nobody else may put a link where root is about to write, if it is there already.

    Errors: UsageError, it is another user's, or anybody may write there.
    """
    try:
        link, found = directory.lstat(), directory.stat()
    except FileNotFoundError:
        return
    asked = asked_by(environment)
    why = ""
    if not {link.st_uid, found.st_uid} <= {0, os.geteuid(), *(asked or ())[:1]}:
        why = "belongs to another user"
    elif found.st_mode & stat.S_IWOTH:
        why = "is open to all users"
    if why:
        raise UsageError(
            f"{directory} {why}, who could lead elsewhere what is written there",
            "give a directory that does not exist yet",
        )


def _give(name: str | Path, within: int | None, user: int, group: int) -> None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    with suppress(OSError):
        fd = os.open(name, flags, dir_fd=within)
        try:
            found = os.fstat(fd)
            alone = stat.S_ISREG(found.st_mode) and found.st_nlink == 1
            if not found.st_uid and (alone or stat.S_ISDIR(found.st_mode)):
                os.fchown(fd, user, group)
        finally:
            os.close(fd)
