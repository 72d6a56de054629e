# SPDX-License-Identifier: Apache-2.0
"""Bench: the tests themselves, in pg_test_fsync's order and with its system calls."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

KB: Final = 1024
BLOCK_BYTES: Final = 8 * KB
FILE_BYTES: Final = 16 * KB * KB

Operation = Callable[[], None]
Buffer = memoryview
Prepare = Callable[[int, Buffer, str], Operation]


@dataclass(frozen=True)
class Test:
    """``flags``: what the file is opened with. ``prepare`` makes one operation of a descriptor.

    The third argument of ``prepare`` is the file's name, for tests that open it themselves.
    """

    group: str
    name: str
    flags: int
    prepare: Prepare

    @property
    def key(self) -> str:
        return f"{self.group}: {self.name}"


def overwrite(count: int, size: int, sync: Callable[[int], None] | None = None) -> Prepare:
    """``count`` writes of ``size`` bytes one after the other, then perhaps a sync."""

    def prepare(fd: int, buffer: Buffer, name: str) -> Operation:
        block = buffer[:size]
        offsets = [number * size for number in range(count)]

        def operation() -> None:
            for offset in offsets:
                os.pwrite(fd, block, offset)
            if sync:
                sync(fd)

        return operation

    return prepare


def write_fsync_close(fd: int, buffer: Buffer, name: str) -> Operation:
    block = buffer[:BLOCK_BYTES]

    def operation() -> None:
        writer = os.open(name, os.O_RDWR)
        os.pwrite(writer, block, 0)
        os.fsync(writer)
        os.close(writer)
        # As often as the other test opens it, so that the two compare.
        os.close(os.open(name, os.O_RDWR))

    return operation


def write_close_fsync(fd: int, buffer: Buffer, name: str) -> Operation:
    block = buffer[:BLOCK_BYTES]

    def operation() -> None:
        writer = os.open(name, os.O_RDWR)
        os.pwrite(writer, block, 0)
        os.close(writer)
        syncer = os.open(name, os.O_RDWR)
        os.fsync(syncer)
        os.close(syncer)

    return operation


DIRECT_DSYNC: Final = os.O_RDWR | os.O_DSYNC | os.O_DIRECT
DIRECT_SYNC: Final = os.O_RDWR | os.O_SYNC | os.O_DIRECT


def _methods(group: str, count: int) -> tuple[Test, ...]:
    plain = overwrite(count, BLOCK_BYTES)
    return (
        Test(group, "open_datasync", DIRECT_DSYNC, plain),
        Test(group, "fdatasync", os.O_RDWR, overwrite(count, BLOCK_BYTES, os.fdatasync)),
        Test(group, "fsync", os.O_RDWR, overwrite(count, BLOCK_BYTES, os.fsync)),
        Test(group, "open_sync", DIRECT_SYNC, plain),
    )


def _sizes(group: str) -> tuple[Test, ...]:
    return tuple(
        Test(
            group,
            f"{count:2} * {16 // count:2}kB open_sync",
            DIRECT_SYNC,
            overwrite(count, 16 // count * KB),
        )
        for count in (1, 2, 4, 8, 16)
    )


DESCRIPTORS: Final = "fsync on a descriptor that did not write"
TESTS: Final[tuple[Test, ...]] = (
    *_methods("One 8kB write", 1),
    *_methods("Two 8kB writes", 2),
    *_sizes("16kB by open_sync in different write sizes"),
    Test(DESCRIPTORS, "write, fsync, close", os.O_RDWR, write_fsync_close),
    Test(DESCRIPTORS, "write, close, fsync", os.O_RDWR, write_close_fsync),
    Test("Non-sync'ed 8kB writes", "write", os.O_RDWR, overwrite(1, BLOCK_BYTES)),
)
