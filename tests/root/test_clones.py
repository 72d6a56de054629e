# SPDX-License-Identifier: Apache-2.0
"""What is shared with a file instead of written to it (FICLONE, FICLONERANGE), on this kernel."""

from __future__ import annotations

from pathlib import Path

from tests.root.test_devices import btrfs
from tests.root.test_units import methods, program, recorded

__all__ = ["btrfs"]

CLONES = """
import fcntl, struct
FICLONE, FICLONERANGE = 0x40049409, 0x4020940D
source = opened('source')
os.pwrite(source, bytes(65536), 0)
os.fsync(source)
durable, plain = opened('durable', os.O_DSYNC), opened('plain')
for number in range(5):
    fcntl.ioctl(durable, FICLONE, source)
    part = struct.pack('qQQQ', source, 4096, 8192, number * 65536)
    fcntl.ioctl(durable, FICLONERANGE, part)
fcntl.ioctl(plain, FICLONE, source)
os.fsync(plain)
synchronous = os.open('source', os.O_RDONLY | os.O_SYNC)
os.ftruncate(source, 5 << 30)
fcntl.ioctl(plain, FICLONE, synchronous)
os.ftruncate(source, 65536)
assert os.copy_file_range(synchronous, plain, 65536, 0, 0) == 65536
"""


def test_what_is_cloned_is_written(btrfs: Path) -> None:
    found = recorded(btrfs, program(f"os.chdir({str(btrfs)!r})\n{CLONES}"))
    assert methods(found) == {"open_datasync": 10, "fsync": 2, "open_sync": 2}
    sizes = found.writes.size_bytes.tolist()
    assert sizes[1:11] == [65536, 8192] * 5
    assert sizes[0] == 65536
    assert sizes[11] == 65536
    # Either file's flags make it durable.
    assert sizes[12:] == [5 << 30, 65536]
    assert found.writes.pieces.tolist() == [2] + [1] * 10 + [2, 1, 1]
    assert found.quality.plain_writes == 0
