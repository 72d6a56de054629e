# SPDX-License-Identifier: Apache-2.0
"""Bench: the file that the tests write: made before them, always removed after them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from iostrata.errors import UsageError
from iostrata.workload import FILE_BYTES

NO_DISK: Final = frozenset({"tmpfs", "ramfs", "devtmpfs", "proc", "sysfs"})
MOUNTS: Final = Path("/proc/self/mountinfo")


@contextmanager
def test_file(path: Path) -> Iterator[Path]:
    """Made in full, so that the tests only overwrite, as a database's log does."""
    _check(path)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            _fill(fd)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error
        finally:
            os.close(fd)
        yield path
    finally:
        path.unlink(missing_ok=True)


def _check(path: Path) -> None:
    if path.exists():
        raise UsageError(
            f"{path} exists, and would be overwritten", "give a file that does not exist: -f FILE"
        )
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no directory {path.parent}")
    kind = file_system_of(path.parent)
    if kind in NO_DISK:
        raise UsageError(
            f"{path} would be on {kind}, which is memory and no disk",
            "give a file on a local disk: -f /var/tmp/iostrata-bench.out",
        )


def _fill(fd: int) -> None:
    block = os.urandom(1 << 20)
    for offset in range(0, FILE_BYTES, len(block)):
        os.pwrite(fd, block, offset)
    os.fsync(fd)


def file_system_of(directory: Path) -> str:
    """The type of the file system that a directory is on; empty if mountinfo does not say."""
    device = directory.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in MOUNTS.read_text(errors="replace").splitlines():
        left, _, right = line.partition(" - ")
        if left.split()[2] == number:
            return right.split()[0]
    return ""
