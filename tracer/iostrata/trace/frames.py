# SPDX-License-Identifier: Apache-2.0
"""Frames: a stream file whose packets are zstd frames each (``record --compress``) in, its packets
out, one behind the other, as such a file has them without.

A recording may come from anybody: no more is made of a frame than the largest packet, whatever it
says of itself. What is damaged costs itself, and the next frame is found by its magic number.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from iostrata.errors import RecordingError
from iostrata.foreign import shown
from iostrata.large import large_place
from iostrata.trace.layout import EVENT_BYTES
from iostrata.trace.packet import Data

SUFFIX: Final = ".zst"
MAGIC: Final = b"\x28\xb5\x2f\xfd"
SKIPPABLE: Final = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")
SKIPPABLE_HEAD_BYTES: Final = 8
MOST_LOG2: Final = 20
MOST_BYTES: Final = 1 << MOST_LOG2
"""Of a packet that is in a frame; the recorder's have a quarter at most."""
MOST_FRAME_BYTES: Final = MOST_BYTES + (MOST_BYTES >> 8)
"""What does not become smaller has a few bytes more."""
MOST_TIMES: Final = 256
"""A file's size that may become of it: a quarter of a byte an event. It is nine bytes."""
TYPICAL_TIMES: Final = 7
BLOCK_BYTES: Final = 512
"""The unit of st_blocks, whatever a disk's is."""
MOST_DAMAGES: Final = 1000
"""Stretches of one file: behind them it is not read."""
TRUNCATED: Final = "truncated: "
LEVEL: Final = 1
"""The recorder's."""


def is_framed(name: str) -> bool:
    return name.endswith(SUFFIX)


def frame_of(packet: bytes) -> bytes:
    """As the recorder makes it. Errors: RecordingError."""
    zstd = _zstd()
    parameter = zstd.CompressionParameter
    options = {parameter.compression_level: LEVEL, parameter.checksum_flag: 1}
    frame: bytes = zstd.compress(packet, options=options)
    return frame


def contents(data: Data, at: int = 0) -> Iterator[tuple[int, bytes | str]]:
    """What each frame holds from there on, and where it ends; for a stretch that is none, why.

    Errors: RecordingError where nothing can be made of any frame here.
    """
    zstd, damages = _zstd(), 0
    while at < len(data):
        end, content = _frame(zstd, data, at)
        if isinstance(content, str):
            damages += 1
            found = data.find(MAGIC, at + 1)
            end = found if found >= 0 else len(data)
            if damages > MOST_DAMAGES:
                end, content = len(data), f"too much is wrong: {len(data) - at} bytes are not read"
            elif end < len(data) and content.startswith(TRUNCATED):
                content = "a frame's blocks are damaged"
        if content:
            yield end, content
        at = end


def _frame(zstd: Any, data: Data, at: int) -> tuple[int, bytes | str]:
    """Where the frame ends that begins there, and what it holds, or why that is not known."""
    left = len(data) - at
    truncated = f"{TRUNCATED}{left} bytes of a frame"
    begin = data[at : at + SKIPPABLE_HEAD_BYTES]
    if SKIPPABLE.match(begin):
        size = SKIPPABLE_HEAD_BYTES + int.from_bytes(begin[len(MAGIC) :], "little")
        return (at + size, b"") if size <= left else (at, truncated)
    if left >= len(MAGIC) and not begin.startswith(MAGIC):
        return at, "no frame begins here (bad magic number)"
    with memoryview(data) as every, every[at : at + MOST_FRAME_BYTES] as view:
        try:
            told = zstd.get_frame_info(view).decompressed_size or 0
        except zstd.ZstdError:
            return at, truncated
        if told > MOST_BYTES:
            return at, f"a frame of {told} bytes, and no packet has as many"
        try:
            size = zstd.get_frame_size(view)
        except zstd.ZstdError:
            return at, truncated
        with view[:size] as frame:
            return at + size, _content(zstd, frame)


def _content(zstd: Any, frame: memoryview) -> bytes | str:
    options = {zstd.DecompressionParameter.window_log_max: MOST_LOG2}
    made = zstd.ZstdDecompressor(options=options)
    try:
        content: bytes = made.decompress(frame, MOST_BYTES + 1)
    except zstd.ZstdError:
        return "a frame is damaged, or takes more memory than any packet"
    if len(content) > MOST_BYTES or not made.eof:
        return f"a frame of more than {MOST_BYTES} bytes, and no packet has as many"
    if len(content) % EVENT_BYTES:
        return f"a frame of {len(content)} bytes, which are no packet"
    return content


class Packets:
    """What was taken of a file's frames, in a file without a name.

    ``size``: in bytes. ``broken``: where a slot of zeros stands for a frame, what is wrong with it.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._place = path, large_place()
        self._file = _unnamed(self._place)
        self.size, self._taken = 0, 0
        self.broken: dict[int, str] = {}

    @property
    def fd(self) -> int:
        fd: int = self._file.fileno()
        return fd

    def close(self) -> None:
        self._file.close()

    def take(self, data: Data, *, grows: bool = False) -> None:
        """What of ``data``, all of the file, was not taken yet. ``grows``: a frame whose end is
        missing may be whole the next time. Errors: RecordingError, they cannot be kept.
        """
        for end, content in contents(data, self._taken):
            if isinstance(content, str):
                if grows and end == len(data) and content.startswith(TRUNCATED):
                    return
                self._break(content)
            elif self.size + len(content) > MOST_TIMES * end + MOST_BYTES:
                left = len(data) - self._taken
                self._break(f"too much is made of too little: {left} bytes are not read")
                self._taken = len(data)
                return
            else:
                self._write(content)
            self._taken = end

    def _break(self, why: str) -> None:
        self.broken[self.size] = why
        self._write(bytes(EVENT_BYTES))

    def _write(self, content: bytes) -> None:
        view = memoryview(content)
        try:
            room, taken_bytes = os.fstatvfs(self.fd), os.fstat(self.fd).st_blocks * BLOCK_BYTES
            # As much is left as this takes; of memory it is not told how much there is.
            if room.f_blocks and room.f_bavail * room.f_frsize < taken_bytes + len(content):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            while view:
                view = view[os.write(self.fd, view) :]
        except OSError as error:
            raise RecordingError(
                f"the packets of {shown(str(self._path))} cannot be kept in {self._place}: "
                f"{error.strerror}",
                "set TMPDIR to a directory that has room for seven times the recording, and more",
            ) from error
        self.size += len(content)


def _unnamed(place: str) -> Any:
    """Gone with this process; in memory where no file can be made."""
    try:
        return tempfile.TemporaryFile(buffering=0, dir=place)
    except OSError:
        return os.fdopen(os.memfd_create("packets", os.MFD_CLOEXEC), "w+b", buffering=0)


def _zstd() -> Any:
    """Python's own, or what it was made of; imported for who needs it only."""
    name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    try:
        return import_module(name)
    except ImportError as error:
        raise RecordingError(
            f"the recording is compressed, and this Python has no {name}",
            "install it, or give the directory without: zstd -d --rm DIR/*/cpu_*.zst",
        ) from error
