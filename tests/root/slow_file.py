# SPDX-License-Identifier: Apache-2.0
"""Mounts a file over itself by FUSE: each request takes as long as told, one at a time.

``python3 slow_file.py FILE SECONDS [busy]``. A loop device on it is a disk whose service time is
known: it sleeps as long, or computes. It says a line when it is mounted, and unmounts when its
input ends. FILE-served has a line of each request that was served: when, CLOCK_MONOTONIC. What is
written is durable.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

HEADER: Final = struct.Struct("<IIQQIIII")  # length, opcode, unique, node, uid, gid, pid, -
ANSWER: Final = struct.Struct("<IiQ")  # length, error, unique
READ_WRITE: Final = struct.Struct("<QQIIQII")  # handle, offset, size, ...
FORGET, GETATTR, OPEN, READ, WRITE, RELEASE = 2, 3, 14, 15, 16, 18
FSYNC, FLUSH, INIT, INTERRUPT = 20, 25, 26, 36
BIG_WRITES, DIRECT_IO, MOST = 1 << 5, 1, 128 << 10
DETACH: Final = 2

libc = ctypes.CDLL(None, use_errno=True)


class Slow:
    """Serves the requests of one file (``image``)."""

    def __init__(self, image: int, seconds: float, log: int, busy: bool) -> None:
        self._image, self._seconds, self._log, self._busy = image, seconds, log, busy
        self._does: dict[int, Callable[[bytes], bytes]] = {
            INIT: lambda _: struct.pack("<IIIIHHIIHHI28x", 7, 31, MOST, BIG_WRITES, 0, 0, MOST,
                                        1, 0, 0, 0),
            GETATTR: self._status,
            OPEN: lambda _: struct.pack("<QIi", 0, DIRECT_IO, 0),
            READ: self._read,
            WRITE: self._write,
            FSYNC: self._nothing,
            FLUSH: lambda _: b"",
            RELEASE: lambda _: b"",
        }  # fmt: skip

    def serve(self, device: int) -> None:
        try:
            request = os.read(device, MOST + 4096)
        except InterruptedError:
            return
        _, opcode, unique, *_ = HEADER.unpack_from(request)
        if opcode in (FORGET, INTERRUPT):
            return
        does = self._does.get(opcode)
        data = does(request[HEADER.size :]) if does else b""
        error = 0 if does else -errno.ENOSYS
        os.write(device, ANSWER.pack(ANSWER.size + len(data), error, unique) + data)

    def _wait(self) -> None:
        until = time.thread_time() + self._seconds
        while self._busy and time.thread_time() < until:
            pass
        time.sleep(0 if self._busy else self._seconds)
        os.write(self._log, b"%d\n" % time.monotonic_ns())

    def _status(self, _: bytes) -> bytes:
        found = os.fstat(self._image)
        numbers = struct.pack("<6Q", 1, found.st_size, found.st_blocks, 0, 0, 0)
        others = struct.pack("<10I", 0, 0, 0, found.st_mode, 1, 0, 0, 0, 4096, 0)
        return struct.pack("<QII", 3600, 0, 0) + numbers + others

    def _read(self, body: bytes) -> bytes:
        self._wait()
        _, offset, size, *_ = READ_WRITE.unpack_from(body)
        return os.pread(self._image, size, offset)

    def _write(self, body: bytes) -> bytes:
        self._wait()
        _, offset, size, *_ = READ_WRITE.unpack_from(body)
        done = os.pwrite(self._image, body[READ_WRITE.size : READ_WRITE.size + size], offset)
        return struct.pack("<II", done, 0)

    def _nothing(self, _: bytes) -> bytes:
        self._wait()
        return b""


def mount(path: str, device: int) -> None:
    mode = Path(path).stat().st_mode
    options = f"fd={device},rootmode={mode:o},user_id=0,group_id=0"
    if libc.mount(b"slow", path.encode(), b"fuse.slow", 6, options.encode()):
        raise OSError(ctypes.get_errno(), "mount")


def main(path: str, seconds: float, *how: str) -> None:
    image, device = os.open(path, os.O_RDWR | os.O_DSYNC), os.open("/dev/fuse", os.O_RDWR)
    mount(path, device)
    print("mounted", flush=True)
    slow = Slow(image, seconds, os.open(f"{path}-served", os.O_WRONLY | os.O_CREAT),
                how == ("busy",))  # fmt: skip
    while True:
        ready = select.select([device, sys.stdin], [], [])[0]
        if device in ready:
            slow.serve(device)
        elif sys.stdin in ready:
            break
    libc.umount2(path.encode(), DETACH)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), *sys.argv[3:])
