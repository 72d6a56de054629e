# SPDX-License-Identifier: Apache-2.0
"""Trace: the files that a recorder writes into a directory of its own, and how they are opened.

A recording may come from anybody: a pipe in the place of a file would be waited for for ever,
and what is endless, or has a hole of a gigabyte, would be read.
"""

from __future__ import annotations

import errno
import os
import re
import stat
import tempfile
from pathlib import Path
from typing import BinaryIO, Final

METADATA: Final = "metadata"
FACTS: Final = "facts"
FACT: Final = re.compile(r"[a-z][a-z_]{0,31}", re.ASCII)
FILE: Final = re.compile(r"metadata|recorder|cpu_[0-9]{1,5}(?:\.zst)?", re.ASCII)
# In the head of the metadata of each.
OURS: Final = b"iostrata_format"
# Many times of what a machine with thousands of mounts and processes has.
MOST_TEXT_BYTES: Final = 4 << 20
MOST_FACT_BYTES: Final = 64 << 20


def is_trace_file(name: str) -> bool:
    """Whether a recorder writes a file of that name, by its path within its directory."""
    folder, slash, fact = name.rpartition("/")
    return bool(FACT.fullmatch(fact) if slash and folder == FACTS else FILE.fullmatch(name))


def open_regular(path: Path) -> BinaryIO:
    """A file, to be read. OSError: there is none, or it is something else.

    That is not even opened: a watchdog begins with it to count, a tape is rewound after it.
    """
    _check_regular(path.stat(), path)
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        _check_regular(os.fstat(fd), path)
    except OSError:
        os.close(fd)
        raise
    return os.fdopen(fd, "rb")


def read_begin(path: Path, most_bytes: int) -> bytes:
    """So much of a file, and no more than it says it has. OSError, as of ``open_regular``.

    What says it is empty, and is not, is the kernel's: /proc/kmsg forgets what was read.
    """
    with open_regular(path) as file:
        size = min(os.fstat(file.fileno()).st_size, most_bytes)
        return file.read(size) if size else b""


def read_small(path: Path, most_bytes: int = MOST_TEXT_BYTES) -> bytes:
    """All of a file. OSError, as well if it is longer than any such file is."""
    data = read_begin(path, most_bytes + 1)
    if len(data) > most_bytes:
        raise OSError(errno.EFBIG, f"it is longer than {most_bytes >> 20} MiB", str(path))
    return data


def write_whole(path: Path, data: bytes) -> None:
    """A file of its owner's alone, all of it or what was there before. OSError, with its name.

    What leads elsewhere is replaced, not followed: where root records, others may put a link.
    """
    part = ""
    try:
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        Path(part).replace(path)
    except OSError as error:
        if part:
            Path(part).unlink(missing_ok=True)
        # One of a full disk bears no name, that of the part says nothing to anybody.
        error.filename, error.filename2 = str(path), None
        raise


def _check_regular(found: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
