# SPDX-License-Identifier: Apache-2.0
"""Recording: a directory with an older recording in, the same without it out.

Whoever replaces one may be root, and what recording.json says may be anybody's: only what a
recorder has written goes, file by file, and never what a link leads to. Until there is another
in its place it is aside, within the directory, and comes back if there will be none.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final

from iostrata.errors import IostrataError, UsageError
from iostrata.model import Op
from iostrata.recording.recording import (
    ANALYSIS,
    FILE_NAME,
    MACHINE_NAME,
    SUMMARIES,
    RecordingFile,
    decode,
)
from iostrata.trace import FACTS, METADATA, OURS, is_trace_file

HEAD_BYTES: Final = 4096
STREAMS: Final = ("cpu_*", "recorder")
ASIDE: Final = ".older"


def remove_recording(directory: Path) -> None:
    """recording.json, the traces beside it and what was made of them; nothing else that is there.

    Errors: RecordingError, it is none of ours; UsageError, it cannot be removed. Then
    nothing of what is not ours is gone.
    """
    with _clearing(directory), _opened(directory) as fd:
        _take(decode(directory / FILE_NAME), fd, None)


@contextmanager
def replaced(directory: Path, others: Sequence[Path] = ()) -> Iterator[None]:
    """A recording is made in ``directory``, instead of the older ones in it and in ``others``.

    Where it ends without one, they are there again. Errors: as of ``remove_recording``.
    """
    older = [each for each in dict.fromkeys((directory, *others)) if (each / FILE_NAME).is_file()]
    try:
        for each in older:
            _set_aside(each)
        yield
    except BaseException:
        if not (directory / FILE_NAME).is_file():
            for each in older:
                _bring_back(each)
        raise
    finally:
        if (directory / FILE_NAME).is_file():
            for each in older:
                _remove_aside(each)


def withdraw(directory: Path) -> None:
    """A recording in which nothing was recorded, and its directory if nothing else is in it."""
    if not any(holds_events(machine) for machine in directory.glob("*") if machine.is_dir()):
        discard(directory)


def holds_events(directory: Path) -> bool:
    """Whether anything was recorded in a machine's directory."""
    return any(path.stat().st_size for name in STREAMS for path in directory.glob(name))


def discard(directory: Path) -> None:
    """A recording, if there is one, and its directory if nothing else is in it."""
    with suppress(IostrataError, OSError):
        remove_recording(directory)
    _rmdir(str(directory))


def _set_aside(directory: Path) -> None:
    if (directory / ASIDE / FILE_NAME).is_file():
        # Whoever put it there was killed, perhaps before anything was recorded in its place.
        withdraw(directory)
        (_remove_aside if (directory / FILE_NAME).is_file() else _bring_back)(directory)
    found = decode(directory / FILE_NAME)
    with _clearing(directory), _opened(directory) as fd, _made(ASIDE, fd, fd) as aside:
        _take(found, fd, aside)


def _bring_back(directory: Path) -> None:
    with _clearing(directory), suppress(FileNotFoundError), _opened(directory) as fd:
        with _opened(ASIDE, fd) as aside:
            _take(decode(directory / ASIDE / FILE_NAME), aside, fd)
        _rmdir(ASIDE, fd)


def _remove_aside(directory: Path) -> None:
    with _clearing(directory), suppress(FileNotFoundError), _opened(directory) as fd:
        with _opened(ASIDE, fd) as aside:
            _take(decode(directory / ASIDE / FILE_NAME), aside, None)
        _rmdir(ASIDE, fd)
    _rmdir(str(directory))


def _rmdir(name: str, within: int | None = None) -> None:
    """If nothing else is in it."""
    with suppress(OSError):
        os.rmdir(name, dir_fd=within)


@contextmanager
def _clearing(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"{directory} cannot be cleared: {error.strerror}", "give another directory"
        ) from error


def _take(found: RecordingFile, fd: int, into: int | None) -> None:
    """All of a recording out of a directory, to nowhere or into another one.

    While some of it is left, what tells whose it is (recording.json) is beside that which goes.
    """
    if into is not None:
        _take_file(FILE_NAME, fd, into)
    for machine in (*found.machines, *found.absent):
        if MACHINE_NAME.fullmatch(machine.directory):
            _take_trace(machine.directory, fd, into)
    for name in (kept.format(op) for kept in (ANALYSIS, SUMMARIES) for op in Op):
        with suppress(FileNotFoundError):
            _take_file(name, fd, into)
    if into is None:
        _take_file(FILE_NAME, fd, into)


def _take_trace(name: str, within: int, into: int | None) -> None:
    """A directory that is a link, or no trace of ours, stays."""
    with suppress(NotADirectoryError, FileNotFoundError, IsADirectoryError):
        with _opened(name, within) as fd:
            if not _is_ours(fd):
                return
            with _made(name, fd, into) as target:
                with (
                    suppress(NotADirectoryError, FileNotFoundError),
                    _opened(FACTS, fd) as facts,
                    _made(FACTS, facts, target) as there,
                ):
                    _take_files(facts, f"{FACTS}/", there)
                _rmdir(FACTS, fd)
                _take_files(fd, "", target)
        _rmdir(name, within)


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


def _take_files(fd: int, prefix: str, into: int | None) -> None:
    """The metadata last: what is left of an interrupted removal is ours still."""
    for name in sorted(os.listdir(fd), key=METADATA.__eq__):
        if is_trace_file(prefix + name):
            _take_file(name, fd, into)


def _take_file(name: str, fd: int, into: int | None) -> None:
    if into is None:
        os.unlink(name, dir_fd=fd)
    else:
        os.rename(name, name, src_dir_fd=fd, dst_dir_fd=into)


@contextmanager
def _made(name: str, like: int, into: int | None) -> Iterator[int | None]:
    """A directory in another, of the same owner and mode as the one that it takes the place of."""
    with nullcontext() if into is None else _new(name, os.fstat(like), into) as fd:
        yield fd


@contextmanager
def _new(name: str, like: os.stat_result, within: int) -> Iterator[int]:
    with suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=within)
    with _opened(name, within) as fd:
        with suppress(PermissionError):
            os.fchown(fd, like.st_uid, like.st_gid)
        os.fchmod(fd, stat.S_IMODE(like.st_mode))
        yield fd


@contextmanager
def _opened(path: Path | str, within: int | None = None) -> Iterator[int]:
    """A directory itself; NotADirectoryError: it is none, or a link to one."""
    flags = os.O_RDONLY | os.O_DIRECTORY | (0 if within is None else os.O_NOFOLLOW)
    fd = os.open(path, flags, dir_fd=within)
    try:
        yield fd
    finally:
        os.close(fd)
