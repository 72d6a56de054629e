# SPDX-License-Identifier: Apache-2.0
"""Standard output and error as text streams: what is printed is written to its last byte."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Whole(io.FileIO):
    """A file descriptor, all of what is given written to it; OSError where that cannot be."""

    def write(self, given: ReadableBuffer, /) -> int:
        """Of a disk that fills up, or of a limit, the system's own is short, and no error yet.

        It waits where the descriptor would not (``O_NONBLOCK``, which others set that share it).
        """
        left = memoryview(given).cast("B")
        size = len(left)
        while left:
            written = super().write(left)
            if written is None:
                self._wait()
            left = left[written or 0 :]
        return size

    def _wait(self) -> None:
        import select  # noqa: PLC0415 - hardly ever

        room = select.poll()
        room.register(self.fileno(), select.POLLOUT)
        room.poll()


def whole(stream: TextIO) -> TextIO:
    """The same stream, whole; one that is no file's (of a test) stays as it is.

    The interpreter's own drops what is left of a short write where it is told not to buffer
    (``PYTHONUNBUFFERED``): each line is written at once there. A path may be any bytes, and what
    cannot be written as text is no reason to fail.
    """
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    stream.reconfigure(errors="backslashreplace")
    try:
        file = Whole(stream.fileno(), "w", closefd=False)
    except OSError:
        return stream
    return io.TextIOWrapper(
        io.BufferedWriter(file),
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering or stream.write_through,
    )
