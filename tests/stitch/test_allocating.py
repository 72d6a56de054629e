# SPDX-License-Identifier: Apache-2.0
"""fallocate on synchronous files: which calls make durable what they did, by file system."""

from __future__ import annotations

import pytest

from iostrata.trace.layout import CALL_FALLOCATE, CALL_FSYNC
from tests.stitch.test_truth import analysed
from tests.synthetic import O_DSYNC, World, device

DISK, UPPER, TID, FALLOCATE, RWF_OF_LINKED = device(8, 0), device(0, 40), 100, 17, 1 << 30
INODE = 0x80000000
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 3, 16
BOTH = {"open_datasync", "io_uring:open_datasync"}
BY_INODE = {"sync_inode", "io_uring:sync_inode"}


@pytest.mark.parametrize(
    ("kind", "mode", "flags", "expected"),
    [
        ("ext4", 0, O_DSYNC, BOTH),
        ("ext4", KEEP_SIZE, O_DSYNC, BOTH),
        ("ext4", PUNCH_HOLE, O_DSYNC, set()),
        ("ext4", PUNCH_HOLE, INODE, BY_INODE),
        ("ext4", 0, INODE, set()),
        ("ext4", ZERO_RANGE, O_DSYNC | INODE, set()),
        ("xfs", PUNCH_HOLE, O_DSYNC, BOTH),
        ("xfs", 0, INODE, BY_INODE),
        ("btrfs", 0, O_DSYNC, set()),
        ("overlay", 0, O_DSYNC, BOTH),  # It writes to an ext4.
        ("overlay", PUNCH_HOLE, O_DSYNC, set()),
    ],
)
def test_an_allocation_is_durable_where_its_file_system_makes_it(
    kind: str, mode: int, flags: int, expected: set[str]
) -> None:
    world = World()
    world.target(TID)
    world.builder.mount(DISK, "/", "ext4" if kind == "overlay" else kind)
    file = {"dev": DISK, "inode": 12, "open_flags": flags}
    if kind == "overlay":
        world.builder.mount(UPPER, "/merged", kind, options="rw,upperdir=/upper")
        file["dev"] = UPPER
    world.emit(
        "syscall", 2_000, TID, enter_ns=1_000, call=CALL_FALLOCATE, rwf=mode, tgid=TID, **file
    )
    request = {"request_key": 0x77, "opcode": FALLOCATE, "rwf": mode | RWF_OF_LINKED, **file}
    world.emit("io_uring_submit_req", 3_000, TID, **request)
    world.emit("io_uring_complete", 9_000, TID, result=0, **request)
    world.emit("syscall", 30_000, TID, enter_ns=20_000, call=CALL_FSYNC, tgid=TID, **file)
    names = analysed(world).writes.names["method"]
    assert set(names) - {"fsync"} == expected
