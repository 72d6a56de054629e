# SPDX-License-Identifier: Apache-2.0
"""Calls of the NFS client for asynchronous requests: each is of the one that writes there."""

from __future__ import annotations

import pytest

from iostrata.trace.layout import CALL_IO_URING_ENTER
from tests.reading import O_DIRECT
from tests.stitch.test_committing import (
    MOUNT,
    OLDER,
    PART,
    PWRITE,
    QUEUED,
    WRITER,
    A,
    B,
    Call,
    collected,
    told,
    without_keys,
)
from tests.stitch.test_uring import WORKER, worlds
from tests.synthetic import O_DSYNC, World

WRITES = 23
UNTIED = 10_000


def of_uring(key: int, place: int, *, sync: int = O_DSYNC) -> dict[str, int]:
    return {"request_key": key, "inode": 12, "dev": MOUNT, "opcode": WRITES, "size_bytes": PART,
            "open_flags": sync | O_DIRECT, "offset_bytes": place * PART}  # fmt: skip


def handed_over(world: World, enter: int, request: dict[str, int]) -> None:
    world.emit("io_uring_submit_req", enter + 500, WRITER, **request)
    world.emit("io_uring_queue_async_work", enter + 600, WRITER, **request)
    world.emit("syscall", enter + 1_000, WRITER, enter_ns=enter, call=CALL_IO_URING_ENTER,
               tgid=WRITER)  # fmt: skip


def complete(world: World, enter: int, end: int, *requests: dict[str, int]) -> None:
    for request in requests:
        world.emit("io_uring_complete", end - 500, WRITER, result=PART, **request)
    world.emit("syscall", end, WRITER, enter_ns=enter, call=CALL_IO_URING_ENTER,
               tgid=WRITER)  # fmt: skip


def worlds_of(*, older: bool) -> World:
    return without_keys(worlds()) if older else worlds()


@OLDER
@pytest.mark.parametrize("said", [(), (A,), (B,)])
def test_a_worker_that_runs_two_and_says_so_of_one(said: tuple[int, ...], *, older: bool) -> None:
    """It says at which it is only if it does more than to have the call made."""
    world, first, second = worlds_of(older=older), of_uring(A, 0), of_uring(B, 7)
    for number, request in enumerate((first, second)):
        handed_over(world, 1_000 + 2_000 * number, request)
    Call(12_000, 50_000).emit(world, WORKER, key=A, offset=0, stable=2)
    for key in said:
        world.emit("io_uring_work", 12_500, WORKER, request_key=key)
    end = Call(13_000, 80_000).emit(world, WORKER, key=B, offset=7 * PART, stable=2)
    complete(world, 9_000, end + 5_000, first, second)
    one, other = told(world)
    assert (one["rpc.call"], other["rpc.call"]) == (50_000, 80_000)


@OLDER
def test_the_parts_of_blocks_that_are_submitted_at_once(*, older: bool) -> None:
    """Behind one another in the file, too."""
    world = worlds_of(older=older)
    for number, key in enumerate((A, B)):
        for part in range(2):
            Call(2_000 + 2_000 * number + 1_000 * part, 50_000 + 9_000 * number).emit(
                world, WRITER, key=key, offset=PART * (2 * number + part), stable=2
            )
        world.emit("aio_submit", 9_000, WRITER, enter_ns=1_000, iocb_key=key, inode=12, dev=MOUNT,
                   offset_bytes=2 * PART * number, open_flags=O_DSYNC | O_DIRECT, order=number,
                   size_bytes=2 * PART, opcode=PWRITE)  # fmt: skip
    collected(world, 80_000, 90_000, A, B)
    one, other = told(world)
    assert (one["rpc.call"], other["rpc.call"]) == (50_000 + 1_000, 59_000 + 1_000)
    assert one["rpc.queue"] == other["rpc.queue"] == QUEUED


@OLDER
def test_what_writes_elsewhere_is_not_the_request_s(*, older: bool) -> None:
    """A write that nobody asks to be durable, by the worker that said it was at another."""
    world, own, plain = worlds_of(older=older), of_uring(A, 0), of_uring(B, 7, sync=0)
    for number, request in enumerate((own, plain)):
        handed_over(world, 1_000 + 2_000 * number, request)
    world.emit("io_uring_work", 11_000, WORKER, request_key=A)
    end = Call(12_000, 50_000).emit(world, WORKER, key=A, offset=0, stable=2)
    Call(12_400, 500_000).emit(world, WORKER, key=B, offset=7 * PART, stable=2)
    complete(world, 9_000, end + UNTIED + 500_000, own)
    (held,) = told(world)
    assert held["rpc.call"] == 50_000
