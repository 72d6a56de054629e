# SPDX-License-Identifier: Apache-2.0
"""Syncs of a disk itself by libaio: where nothing tells when one was carried out, that is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.model import NotObserved
from iostrata.recording import open_recording
from tests.synthetic import World, device

DISK = device(8, 0)
WRITER, WORKER, KEY = 100, 601, 0x77
FDSYNC, OF_DEVICE = 3, 0x40000000


@pytest.mark.parametrize("case", ["nothing queued", "older recorder", "a file's", "told"])
def test_a_sync_that_nothing_tells_of(case: str, tmp_path: Path) -> None:
    """Two with one control block, one behind the other; "nothing queued": for the first."""
    world = World()
    world.builder.block(DISK, "sda")
    if case == "older recorder":
        world.builder.unknown = frozenset({"blkdev_fsync"})
    world.target(WRITER)
    node = {"inode": DISK, "dev": DISK}
    flags = 0 if case == "a file's" else OF_DEVICE
    for begin in (1_000, 101_000):
        world.emit("aio_submit", begin + 1_000, WRITER, enter_ns=begin, iocb_key=KEY,
                   opcode=FDSYNC, open_flags=flags, **node)  # fmt: skip
        if case == "told" or (case == "nothing queued" and begin > 1_000):
            world.emit("blkdev_fsync", begin + 3_000, WORKER, request_key=KEY, datasync=1, **node)
        world.emit("aio_complete", begin + 90_000, WRITER, enter_ns=begin + 2_000, iocb_key=KEY,
                   result=0, **node)  # fmt: skip
    world.builder.write(tmp_path / "machine")
    found = analyse(open_recording(tmp_path / "machine"))
    gaps = [gap for gap in found.quality.not_observed if gap.layer == "libaio's syncs of disks"]
    said = {
        "nothing queued": "when 1 of sda were carried out: no worker had to ask for anything there",
        "older recorder": "when 2 of sda were carried out: not by this recorder",
    }
    assert gaps == [
        NotObserved("libaio's syncs of disks", what, "unattributed")
        for name, what in said.items()
        if name == case
    ]
