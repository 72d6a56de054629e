# SPDX-License-Identifier: Apache-2.0
"""A recording that grows: another one's files, written part by part as a recorder does."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from iostrata.trace.packet import HEAD


def packets(file: Path) -> Iterator[tuple[int, bytes]]:
    """The end in ns of each packet of a stream file, and its bytes."""
    data, at = file.read_bytes(), 0
    while at < len(data):
        head = HEAD.unpack_from(data, at)
        end = at + head[6] // 8
        yield head[4], data[at:end]
        at = end


class Growing:
    """``source``: a machine's directory; ``directory`` gets its packets as time goes on.

    ``frame``: what is written of a CPU's packet instead of it, to the file of frames.
    """

    def __init__(
        self, source: Path, directory: Path, frame: Callable[[bytes], bytes] | None = None
    ) -> None:
        directory.mkdir()
        shutil.copy(source / "metadata", directory)
        if (source / "facts").is_dir():
            shutil.copytree(source / "facts", directory / "facts")
        self.directory = directory
        self._left = {
            file.name: list(packets(file))
            for file in source.iterdir()
            if file.is_file() and file.name != "metadata"
        }
        for name in [name for name in self._left if frame and name.startswith("cpu_")]:
            assert frame
            self._left[f"{name}.zst"] = [(end, frame(one)) for end, one in self._left.pop(name)]
        ends = [end for left in self._left.values() for end, _ in left]
        self.begin_ns, self.end_ns = min(ends), max(ends)

    def until(self, time_ns: int, torn: int = 0) -> None:
        """Writes the packets that end by then; of the next one, its first ``torn`` bytes."""
        for name, left in self._left.items():
            with (self.directory / name).open("ab") as file:
                while left and left[0][0] <= time_ns:
                    file.write(left.pop(0)[1])
                if left and torn:
                    end, rest = left[0]
                    file.write(rest[:torn])
                    left[0] = (end, rest[torn:])
