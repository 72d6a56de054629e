# SPDX-License-Identifier: Apache-2.0
"""Files that a command is told to write: checked before the work, written whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from iostrata.errors import UsageError
from iostrata.foreign import shown

STDOUT: Final = Path("/dev/stdout")


def check_directory(name: str | Path) -> None:
    """Something can be created where ``name`` is to be; UsageError if not. ``-`` and empty pass."""
    if not name or str(name) == "-":
        return
    path, told = Path(name), shown(str(name))
    if not path.parent.is_dir():
        parent = shown(str(path.parent))
        raise UsageError(f"{told}: there is no directory {parent}", "create it first")
    if path.is_dir():
        raise UsageError(f"{told} is a directory", "give the name of a file")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UsageError(f"{told} cannot be written", "check its permissions, or write elsewhere")


def check_new(path: Path, force: bool) -> None:
    """As ``check_directory``, and no file is overwritten unless ``force``.

    A device or a pipe has nothing that could be overwritten.
    """
    check_directory(path)
    if path.is_file() and not force:
        raise UsageError(f"{shown(str(path))} exists already", "give another name, or --force")


def put(name: str, text: str) -> None:
    """Writes a file, whole or not at all; nothing where there is no name."""
    if name:
        with replacing(Path(name)) as part:
            part.write_text(text, encoding="utf-8")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file to write beside ``path``, which takes its place only when all went well.

    A device, a pipe or a link (``/dev/stdout``, or ``-``) is written as it is.
    """
    if str(path) == "-":
        path = STDOUT
    try:
        if path == STDOUT:
            _check_stdout()
        with _copied() if path == STDOUT and _is_file() else _part_of(path) as part:
            yield part
    except OSError as error:
        # The name of the part says nothing to who gave that of the whole.
        if not error.filename or Path(str(error.filename)).parent in (path.parent, _handles()):
            error.filename = str(path)
        raise


def _check_stdout() -> None:
    """OSError where it is closed: by its name, what stands in for it would take all."""
    with suppress(ValueError):
        os.write(sys.stdout.fileno(), b"")


def _is_file() -> bool:
    try:
        return stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError):
        return False


@contextmanager
def _copied() -> Iterator[Path]:
    """What is written goes where standard output is: opened anew, it would lose what is there."""
    with tempfile.TemporaryFile() as whole:
        yield _handles() / str(whole.fileno())
        sys.stdout.flush()
        shutil.copyfileobj(whole, sys.stdout.buffer)
        sys.stdout.flush()


@contextmanager
def _part_of(path: Path) -> Iterator[Path]:
    if path.is_symlink() or (path.exists() and not path.is_file()):
        yield path
        return
    handle, part = _unnamed(path.parent), None
    if handle < 0:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        part = Path(name)
    try:
        yield part or _handles() / str(handle)
        # For an instant it has a name of its own: nothing links a file over another one.
        part = part or _linked(handle, path)
        open_to_others(part, 0o666)
        part.replace(path)
    finally:
        os.close(handle)
        if part:
            part.unlink(missing_ok=True)


def _handles() -> Path:
    return Path(f"/proc/{os.getpid()}/fd")


def _unnamed(directory: Path) -> int:
    """A file there that is gone with us, however we end; -1: none can be, as on NFS."""
    if not _handles().is_dir():
        return -1
    try:
        return os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError:
        return -1


def _linked(handle: int, path: Path) -> Path:
    """A name for a file beside ``path``."""
    name = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    # Only with a directory is it linkat(2) that is called, which follows /proc's link.
    os.link(_handles() / str(handle), name, src_dir_fd=handle, follow_symlinks=True)
    return name


def open_to_others(path: Path, mode: int) -> None:
    """As a file or directory that was just made: but for what our mask takes."""
    umask = os.umask(0)
    os.umask(umask)
    path.chmod(mode & ~umask)
