# SPDX-License-Identifier: Apache-2.0
"""Large columns, of more than there may be in memory: NumPy's arrays in, files without a name out.

The kernel has as much of those in memory as there is room for: a long recording is analysed in
little. They are gone with their process, however that ends. What they hold is written
to a disk only when somebody needs the memory, or after half a minute.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Final

from iostrata import native

LARGE_BYTES: Final = 4 << 20
IN_MEMORY_BYTES: Final = 256 << 20
WINDOW_BYTES: Final = 256 << 20
DIRECTORY: Final = "/var/tmp"
"""/tmp is memory on many machines; the environment's TMPDIR goes before it."""
DISK_SHARE: Final = 2
"""So much of what is free there is left: a half."""
FILES: Final = 4096

# NumPy's interface for C (numpy/__multiarray_api.h): the same since 1.22.
NUMPY: Final = "numpy._core._multiarray_umath"
SET_HANDLER: Final = 304
DEFAULT_HANDLER: Final = 306
CAPSULE: Final = b"mem_handler"
VERSION: Final = 1

NUMPYS: Final = ("malloc", "calloc", "realloc", "free")
LIBRARYS: Final = ("open", "fallocate", "mmap", "munmap", "close")


class Allocator(ctypes.Structure):
    """PyDataMemAllocator."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("own", *NUMPYS)]


class Handler(ctypes.Structure):
    """PyDataMem_Handler."""

    _fields_ = [
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("allocator", Allocator),
    ]


class Large(ctypes.Structure):
    """As large.c has it; bytes ``in_memory`` and ``in_files`` of what is large, ``count`` files."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in (*NUMPYS, "own", *LIBRARYS)),
        ("directory", ctypes.c_char_p),
        ("flags", ctypes.c_int64),
        *((name, ctypes.c_uint64) for name in ("least", "most_in_memory", "most_in_files")),
        *((name, ctypes.c_uint64) for name in ("in_memory", "in_files")),
        *((name, ctypes.c_int64) for name in ("count", "locked")),
        ("files", ctypes.c_void_p * 2 * FILES),
    ]


_kept: list[Any] = []
"""What NumPy has been told of: until the end."""


def large_in_files(least: int = LARGE_BYTES, most: int = IN_MEMORY_BYTES) -> Large | None:
    """From now on, of this process, and of what it forks.

    ``least``: bytes of what is large; ``most``: bytes of all that is and may be in memory. More
    than that is there too where a file cannot be made (O_TMPFILE), or would fill the disk. Other
    threads begin with it if they are given this one's context. None: there is no C library of ours.
    """
    if native.LIBRARY is None:
        return None
    if not _kept:
        _kept.extend(_told(native.LIBRARY, least, most))
        # Arrays are let go of after all modules are.
        for one in _kept:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))
    large: Large = _kept[0]
    return large


def in_files() -> bool:
    """Whether anything is, so that what is free in memory is worth more to others."""
    return bool(_kept and _kept[0].count)


@contextmanager
def in_memory(most: int = WINDOW_BYTES) -> Iterator[None]:
    """What is large meanwhile may be in memory, up to so many bytes of it: it is soon gone."""
    large: Large | None = _kept[0] if _kept else None
    if large is None:
        yield
        return
    before = large.most_in_memory
    large.most_in_memory = max(before, large.in_memory + most)
    try:
        yield
    finally:
        large.most_in_memory = before


def large_place() -> str:
    """The directory of what is large."""
    return os.environ.get("TMPDIR") or DIRECTORY


def _told(library: ctypes.CDLL, least: int, most: int) -> tuple[Large, Handler, object]:
    place = large_place()
    table = ctypes.cast(
        _pointer(import_module(NUMPY)._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p)
    )
    default = ctypes.cast(table[DEFAULT_HANDLER] or 0, ctypes.POINTER(ctypes.py_object))[0]
    numpys = Handler.from_address(_pointer(default, CAPSULE)).allocator
    libc = ctypes.CDLL(None)
    large = Large(
        directory=os.fsencode(place),
        flags=os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC,
        least=least,
        most_in_memory=most,
        most_in_files=_room(place),
        **{name: getattr(numpys, name) for name in ("own", *NUMPYS)},
        **{name: _address(getattr(libc, name)) for name in LIBRARYS},
    )
    ours = {name: _address(getattr(library, f"large_{name}")) for name in NUMPYS}
    handler = Handler(b"iostrata", VERSION, Allocator(own=ctypes.addressof(large), **ours))
    new = ctypes.pythonapi.PyCapsule_New
    new.argtypes, new.restype = (
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
        ctypes.py_object,
    )
    capsule: object = new(ctypes.addressof(handler), CAPSULE, None)
    set_handler: Callable[[object], object] = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(
        table[SET_HANDLER] or 0
    )
    set_handler(capsule)
    return large, handler, capsule


def _room(place: str) -> int:
    try:
        told = os.statvfs(place)
    except OSError:
        return 0
    return told.f_bavail * told.f_frsize // DISK_SHARE


def _pointer(capsule: object, name: bytes | None) -> int:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.argtypes, pointer.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_void_p
    found: int = pointer(capsule, name)
    return found


def _address(function: Any) -> int | None:
    return ctypes.cast(function, ctypes.c_void_p).value
