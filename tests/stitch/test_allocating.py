# SPDX-License-Identifier: Apache-2.0
"""fallocate and ftruncate on synchronous files: which calls make durable what they did, by file
system."""

from __future__ import annotations

import pytest

from iostrata.trace.layout import CALL_FALLOCATE, CALL_FSYNC, CALL_FTRUNCATE
from tests.stitch.test_truth import analysed
from tests.synthetic import O_DSYNC, World, device

DISK, UPPER, TID, RWF_OF_LINKED = device(8, 0), device(0, 40), 100, 1 << 30
FALLOCATE, FTRUNCATE = 17, 55
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
    world = world_on(kind)
    file = {"dev": UPPER if kind == "overlay" else DISK, "inode": 12, "open_flags": flags}
    asked(world, CALL_FALLOCATE, FALLOCATE, mode, file)
    names = analysed(world).writes.names["method"]
    assert set(names) - {"fsync"} == expected


@pytest.mark.parametrize(
    ("kind", "options", "grows", "flags", "expected"),
    [
        ("ext4", "rw", 0, INODE, BY_INODE),
        ("ext4", "rw", 0, INODE | O_DSYNC, BY_INODE),
        ("ext4", "rw,sync", 1, INODE, set()),
        ("ext4", "rw", 0, O_DSYNC, set()),
        ("xfs", "rw", 0, INODE, set()),
        ("xfs", "rw,sync", 1, INODE, BY_INODE),
        ("btrfs", "rw,sync", 0, INODE, set()),
        ("ext2", "rw", 0, INODE, set()),
        ("overlay", "rw", 0, INODE, BY_INODE),  # It writes to an ext4.
        ("overlay", "rw", 1, INODE, set()),
        ("nfs4", "rw,sync", 1, INODE, BY_INODE),
    ],
)
def test_what_is_cut_off_is_durable_where_its_file_system_makes_it(
    kind: str, options: str, grows: int, flags: int, expected: set[str]
) -> None:
    world = world_on(kind, options)
    file = {"dev": UPPER if kind == "overlay" else DISK, "inode": 12, "open_flags": flags}
    asked(world, CALL_FTRUNCATE, FTRUNCATE, grows, file)
    names = analysed(world).writes.names["method"]
    assert set(names) - {"fsync"} == expected


def world_on(kind: str, options: str = "rw") -> World:
    world = World()
    world.target(TID)
    world.builder.mount(DISK, "/", "ext4" if kind == "overlay" else kind, options=options)
    if kind == "overlay":
        world.builder.mount(UPPER, "/merged", kind, options="rw,upperdir=/upper")
    return world


def asked(world: World, call: int, opcode: int, rwf: int, file: dict[str, int]) -> None:
    """By a call, and by a request of io_uring; a fsync of the file follows."""
    world.emit("syscall", 2_000, TID, enter_ns=1_000, call=call, rwf=rwf, tgid=TID, **file)
    request = {"request_key": 0x77, "opcode": opcode, "rwf": rwf | RWF_OF_LINKED, **file}
    world.emit("io_uring_submit_req", 3_000, TID, **request)
    world.emit("io_uring_complete", 9_000, TID, result=0, **request)
    world.emit("syscall", 30_000, TID, enter_ns=20_000, call=CALL_FSYNC, tgid=TID, **file)
