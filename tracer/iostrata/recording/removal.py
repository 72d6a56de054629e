# SPDX-License-Identifier: Apache-2.0
"""Recording: a directory with an older recording in, the same without it out.

Whoever replaces one may be root, and what recording.json says may be anybody's: only what a
recorder has written goes, file by file, and never what a link leads to.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from iostrata.errors import IostrataError, UsageError
from iostrata.model import Op
from iostrata.recording.recording import ANALYSIS, FILE_NAME, SUMMARIES, decode
from iostrata.trace import FACTS, METADATA, OURS, is_trace_file

HEAD_BYTES: Final = 4096
STREAMS: Final = ("cpu_*", "recorder")


def remove_recording(directory: Path) -> None:
    """recording.json, the traces beside it and what was made of them; nothing else that is there.

    Errors: RecordingError, it is none of ours; UsageError, it cannot be removed. Then
    nothing of what is not ours is gone.
    """
    machines = decode(directory / FILE_NAME).machines
    try:
        with _opened(directory) as fd:
            for machine in machines:
                if "/" not in machine.directory:
                    _remove_trace(machine.directory, fd)
            for name in (kept.format(op) for kept in (ANALYSIS, SUMMARIES) for op in Op):
                with suppress(FileNotFoundError):
                    os.unlink(name, dir_fd=fd)
            os.unlink(FILE_NAME, dir_fd=fd)
    except OSError as error:
        raise UsageError(
            f"{directory} cannot be cleared: {error.strerror}", "give another directory"
        ) from error


def withdraw(directory: Path) -> None:
    """A recording in which nothing was recorded, and its directory if nothing else is in it."""
    streams = (path for name in STREAMS for path in directory.glob(f"*/{name}"))
    if any(path.stat().st_size for path in streams):
        return
    with suppress(IostrataError, OSError):
        remove_recording(directory)
    with suppress(OSError):
        directory.rmdir()


def _remove_trace(name: str, within: int) -> None:
    """A directory that is a link, or no trace of ours, stays."""
    with suppress(NotADirectoryError, FileNotFoundError, IsADirectoryError):
        with _opened(name, within) as fd:
            if not _is_ours(fd):
                return
            with suppress(NotADirectoryError, FileNotFoundError), _opened(FACTS, fd) as facts:
                _remove_files(facts, f"{FACTS}/")
            with suppress(OSError):
                os.rmdir(FACTS, dir_fd=fd)
            _remove_files(fd, "")
        with suppress(OSError):
            os.rmdir(name, dir_fd=within)


def _is_ours(fd: int) -> bool:
    """By its metadata; where that is missing or empty, ours if there is nothing else."""
    try:
        metadata = os.open(METADATA, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=fd)
    except OSError:
        return not os.listdir(fd)
    try:
        if not stat.S_ISREG(os.fstat(metadata).st_mode):
            return False
        head = os.read(metadata, HEAD_BYTES)
        return OURS in head or (not head and os.listdir(fd) == [METADATA])
    finally:
        os.close(metadata)


def _remove_files(fd: int, prefix: str) -> None:
    for name in os.listdir(fd):
        if is_trace_file(prefix + name):
            os.unlink(name, dir_fd=fd)


@contextmanager
def _opened(path: Path | str, within: int | None = None) -> Iterator[int]:
    """A directory itself; NotADirectoryError: it is none, or a link to one."""
    flags = os.O_RDONLY | os.O_DIRECTORY | (0 if within is None else os.O_NOFOLLOW)
    fd = os.open(path, flags, dir_fd=within)
    try:
        yield fd
    finally:
        os.close(fd)
