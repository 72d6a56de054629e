# SPDX-License-Identifier: Apache-2.0
"""Record stage: what another machine sends of its trace in, regular files of a directory out.

Nobody knows whose machine that is by now. It says names and bytes, and nothing else of a file:
no link, no mode, no owner, no place; a name that no recorder writes ends it.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import IO, Final

from iostrata.errors import RecorderError
from iostrata.trace import is_trace_file

# Sends the trace in a directory; BEGIN first, behind whatever a login says. What tells of its end
# comes last: where only a part came, that is told by whoever reads it.
BEGIN: Final = "iostrata-trace"
SEND: Final = """
cd "$1" || exit
echo "$2"
for file in metadata cpu_* facts/* recorder; do
    [ -f "$file" ] || continue
    size=$(($(wc -c <"$file"))) || exit
    echo "$size $file"
    head -c "$size" "$file"
done
echo end
"""
# No recorder's metadata or fact is nearly as long; streams are as long as the disk has room.
MOST_BYTES: Final = 64 << 20
RESERVE_BYTES: Final = 64 << 20
MOST_FILES: Final = 4096
MOST_LINE_BYTES: Final = 128
MOST_GREETING_BYTES: Final = 1 << 20
CHUNK_BYTES: Final = 1 << 20


def receive(stream: IO[bytes], directory: Path) -> None:
    """What ``SEND`` sends becomes the directory, which does not exist yet.

    What came before an error is there. Errors: RecorderError.
    """
    try:
        directory.mkdir(0o700)
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise RecorderError(f"{directory} cannot be made: {error.strerror}") from error
    try:
        _find_begin(stream)
        for _ in range(MOST_FILES):
            if (line := _line(stream)) == "end":
                return
            _receive_file(stream, line, fd, directory)
        raise RecorderError("it sends more files than any recorder writes")
    finally:
        os.close(fd)


def _find_begin(stream: IO[bytes]) -> None:
    left = MOST_GREETING_BYTES
    while left > 0:
        line = stream.readline(left)
        if line.rstrip(b"\r\n") == BEGIN.encode():
            return
        if not line:
            raise RecorderError("it sends no trace", "see whether it can still be entered by ssh")
        left -= len(line)
    raise RecorderError("it sends something else than a trace")


def _line(stream: IO[bytes]) -> str:
    line = stream.readline(MOST_LINE_BYTES)
    if not line.endswith(b"\n"):
        raise RecorderError("its trace did not arrive whole")
    return line[:-1].decode(errors="replace")


def _receive_file(stream: IO[bytes], line: str, fd: int, directory: Path) -> None:
    size, _, name = line.partition(" ")
    if not is_trace_file(name) or not re.fullmatch(r"\d{1,18}", size, re.ASCII):
        raise RecorderError(f"it sends what no recorder writes: {line!r}")
    if not name.startswith("cpu_") and int(size) > MOST_BYTES:
        raise RecorderError(f"its {name} is {size} bytes long, and no recorder's is")
    if int(size) > shutil.disk_usage(fd).free - RESERVE_BYTES:
        raise RecorderError(
            f"there is no room for its {name}, {size} bytes", f"make room in {directory.parent}"
        )
    try:
        if name.startswith("facts/"):
            _make("facts", fd)
        into = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=fd)
        with os.fdopen(into, "wb") as file:
            _copy(stream, file, int(size))
    except OSError as error:
        raise RecorderError(f"{directory}/{name} cannot be written: {error.strerror}") from error


def _make(name: str, fd: int) -> None:
    try:
        os.mkdir(name, 0o700, dir_fd=fd)
    except FileExistsError:
        return


def _copy(stream: IO[bytes], file: IO[bytes], left: int) -> None:
    while left:
        chunk = stream.read(min(left, CHUNK_BYTES))
        if not chunk:
            raise RecorderError("its trace did not arrive whole")
        file.write(chunk)
        left -= len(chunk)
