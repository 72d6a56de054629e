# SPDX-License-Identifier: Apache-2.0
"""What a large recording came to, kept in files beside it, and taken from there.

Kept only in a directory of one's own in which nobody else may write, and taken only from there: a
recording may come from anybody. A file is of the very files that were read, by inode, size and
times (what is copied or changed has others), and of the very program: else it is as if there were
none.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

import iostrata
from iostrata import native
from iostrata.model import Op
from iostrata.recording import Recording
from iostrata.trace import TYPICAL_TIMES, is_framed

LARGE_BYTES: Final = 32 << 20
"""What is smaller is analysed about as soon as it is looked up."""
SETTLED_NS: Final = 2_000_000_000
"""What was changed so recently may change again, and the file system's clock not tell it."""


def key_of(recording: Recording, op: Op) -> bytes:
    """The same for the same files and the same program, wherever they are; empty: nothing is to be
    kept of these."""
    files = _all_of(recording)
    changed = max((found.st_ctime_ns for found in files.values()), default=0)
    if _bytes(files) < LARGE_BYTES or changed + SETTLED_NS > time.time_ns():
        return b""
    # Which is not loaded for what is small.
    import hashlib  # noqa: PLC0415

    # Which one directory up may say.
    facts = [sorted(machine.facts.items()) for machine in recording.machines]
    key = hashlib.sha256(f"{op} {np.__version__} {facts!r}\n".encode())
    program = dict(_files(Path(iostrata.__file__).parent, below=9, suffix=".py"))
    for path in (native.PACKAGED, native.BUILT):
        with suppress(OSError):
            program[str(path)] = path.stat()
    for name, found in (*sorted(files.items()), *sorted(program.items())):
        told = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
        key.update(f"{name!r} {told}\n".encode())
    return key.digest()


def bytes_of(recording: Recording) -> int:
    """How large its files are together, without frames."""
    return _bytes(_all_of(recording))


def _bytes(files: dict[str, os.stat_result]) -> int:
    """As many as they have without frames."""
    return sum(
        found.st_size * (TYPICAL_TIMES if is_framed(name) else 1) for name, found in files.items()
    )


def _all_of(recording: Recording) -> dict[str, os.stat_result]:
    """By their paths."""
    return {
        f"{place}/{name}": status
        for place in (".", *(machine.directory for machine in recording.machines))
        for name, status in _files(recording.path / place, below=1)
    }


def _files(
    directory: Path | str, below: int, suffix: str = ""
) -> Iterator[tuple[str, os.stat_result]]:
    """What is known of files in a directory, and in those so far below, by their paths from there
    on; of what is hidden, nothing."""
    with suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.startswith("."):
                continue
            with suppress(OSError):
                status = entry.stat()
                if stat.S_ISREG(status.st_mode) and entry.name.endswith(suffix):
                    yield entry.name, status
                elif stat.S_ISDIR(status.st_mode) and below:
                    for name, found in _files(entry.path, below - 1, suffix):
                        yield f"{entry.name}/{name}", found


@contextmanager
def taken(directory: Path, name: str) -> Iterator[BinaryIO]:
    """A file that is kept there, open.

    OSError: there is none, or it is not one's own.
    """
    within = _own(directory)
    try:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        fd = os.open(name, flags, dir_fd=within)
    finally:
        os.close(within)
    with os.fdopen(fd, "rb") as file:
        found = os.fstat(fd)
        if not (stat.S_ISREG(found.st_mode) and _is_own(found)):
            raise PermissionError
        yield file


def put(directory: Path, name: str, write: Callable[[BinaryIO], None]) -> None:
    """Has a file written there: whole, or not at all where that cannot be, or ``write`` refuses.

    It refuses by OSError.
    """
    with suppress(OSError, UnicodeEncodeError):
        within = _own(directory)
        part = f"{name}.{os.urandom(4).hex()}"
        try:
            flags = os.O_WRONLY | os.O_CLOEXEC | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(part, flags, 0o600, dir_fd=within), "wb") as file:
                write(file)
            os.rename(part, name, src_dir_fd=within, dst_dir_fd=within)
        except BaseException:
            with suppress(OSError):
                os.unlink(part, dir_fd=within)
            raise
        finally:
            os.close(within)


def _own(directory: Path) -> int:
    """The directory, open. OSError: somebody else may write there."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    if not _is_own(os.fstat(fd)):
        os.close(fd)
        raise PermissionError
    return fd


def _is_own(found: os.stat_result) -> bool:
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
