# SPDX-License-Identifier: Apache-2.0
"""Calls of the NFS client that say for which request they are."""

from __future__ import annotations

import pytest

from iostrata.stitch.opcodes import RWF_OF_LINKED
from iostrata.trace.layout import CALL_FSYNC, CALL_IO_URING_ENTER, CALL_PWRITE64, NFS_COMMIT
from tests.reading import O_DIRECT
from tests.stitch.test_committing import (
    MOUNT,
    OTHER_WORKER,
    PART,
    WRITER,
    A,
    B,
    Call,
    collected,
    committed,
    told,
    world_of_libaio,
    written,
)
from tests.stitch.test_placed import complete, handed_over, of_uring
from tests.stitch.test_truth import accounts, analysed
from tests.stitch.test_uring import WORKER, worlds
from tests.synthetic import O_DSYNC, World

FSYNC = 3
SYNCER = 150
ELSEWHERE = 0xFFFF_8880_1234_5678
"""The key of what nobody has submitted here."""


def test_commits_made_in_another_order_than_their_writes_were_answered() -> None:
    world = world_of_libaio()
    first = written(world, 1_000, A, 50_000)
    second = written(world, 10_000, B, 51_000, offset=2 * PART)
    ends = (
        committed(world, second + 800, 90_000, key=A),
        committed(world, second + 300, 60_000, key=B),
    )
    assert first < second
    collected(world, max(ends) - 5_000, max(ends) + 2_000, A, B)
    one, other = told(world)
    assert one["rpc.call"] == 50_000 + 200 + 90_000
    assert other["rpc.call"] == 51_000 + 200 + 60_000


def test_each_commit_of_a_request_is_its_own() -> None:
    """It has one for each server that has the data, and asks again where one had begun anew."""
    world = world_of_libaio()
    end = written(world, 1_000, A, 50_000)
    over = committed(world, end + 300, 40_000, key=A), committed(world, end + 500, 60_000, key=A)
    over = max(over), committed(world, max(over) + 2_000, 30_000, key=A)
    collected(world, over[1] - 5_000, over[1] + 2_000, A)
    (held,) = told(world)
    assert held["rpc.call"] == 50_000 + 200 + 200 + 60_000 + 30_000


def test_what_others_write_there_costs_a_request_nothing() -> None:
    """Their WRITEs, and their COMMIT, are made for no request, or for another program's."""
    for key in (0, ELSEWHERE):
        world = world_of_libaio()
        end = written(world, 1_000, A, 50_000)
        Call(1_500, 49_000).emit(world, OTHER_WORKER, key=key, offset=9 * PART)
        over = committed(world, end + 1_400, 90_000, key=A)
        assert committed(world, end + 1_000, 91_000, key=key) > over
        collected(world, over, over + 5_000, A)
        (held,) = told(world)
        assert held["rpc.call"] == 50_000 + 200 + 90_000


def test_a_key_that_is_used_again_is_of_the_one_under_way() -> None:
    """The first one is complete, but not collected yet, and the last is no synchronous write."""
    world, first, plain = worlds(), of_uring(A, 0), of_uring(A, 0, sync=0)
    handed_over(world, 1_000, first)
    end = Call(12_000, 50_000).emit(world, WORKER, key=A, stable=2)
    world.emit("io_uring_complete", end + 500, WORKER, result=PART, **first)
    handed_over(world, end + 1_000, plain)
    Call(end + 3_000, 500_000).emit(world, WORKER, key=A, stable=2)
    world.emit("syscall", end + 600_000, WRITER, enter_ns=end + 2_500, call=CALL_IO_URING_ENTER,
               tgid=WRITER)  # fmt: skip
    (held,) = told(world)
    assert held["rpc.call"] == 50_000


def test_two_that_write_to_one_place_at_a_time() -> None:
    world, first, second = worlds(), of_uring(A, 0), of_uring(B, 0)
    handed_over(world, 1_000, first)
    handed_over(world, 3_000, second)
    end = Call(12_000, 80_000).emit(world, WORKER, key=B, stable=2)
    Call(13_000, 50_000).emit(world, WORKER, key=A, stable=2)
    complete(world, 9_000, end + 5_000, first, second)
    one, other = told(world)
    assert (one["rpc.call"], other["rpc.call"]) == (50_000, 80_000)


def test_what_a_sync_is_linked_behind_is_the_sync_s() -> None:
    world = worlds()
    write = of_uring(A, 0, sync=0)
    sync = {"request_key": B, "opcode": FSYNC, "inode": 12, "dev": MOUNT}
    world.emit("io_uring_submit_req", 1_500, WRITER, rwf=RWF_OF_LINKED, **write)
    world.emit("io_uring_submit_req", 1_600, WRITER, **sync)
    world.emit("io_uring_queue_async_work", 1_700, WRITER, rwf=RWF_OF_LINKED, **write)
    world.emit("syscall", 2_000, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    end = Call(12_000, 50_000).emit(world, WORKER, key=A, stable=2)
    world.emit("io_uring_complete", end + 500, WORKER, result=PART, rwf=RWF_OF_LINKED, **write)
    world.emit("io_uring_complete", end + 1_500, WORKER, **sync)
    world.emit("syscall", end + 2_000, WRITER, enter_ns=9_000, call=CALL_IO_URING_ENTER,
               tgid=WRITER)  # fmt: skip
    (held,) = told(world)
    assert held["rpc.call"] == 50_000


@pytest.mark.parametrize("key", [0, A, ELSEWHERE])
def test_a_commit_behind_what_is_written_directly_is_no_sync_s(key: int) -> None:
    """Who synchronises the file meanwhile waits for what a flusher writes, which is for none."""
    world = world_of_libaio()
    world.target(SYNCER)
    end = written(world, 1_000, A, 50_000)
    over = Call(end + 300, 90_000).emit(world, OTHER_WORKER, key=key, operation=NFS_COMMIT)
    enter, until = end + 100, over + 1_000
    world.emit("nfs_sync_file", until - 100, SYNCER, enter_ns=enter + 50, inode=12, dev=MOUNT)
    world.emit("syscall", until, SYNCER, enter_ns=enter, call=CALL_FSYNC, inode=12, dev=MOUNT,
               tgid=SYNCER)  # fmt: skip
    collected(world, until + 2_000, until + 9_000, A)
    (held,) = accounts(analysed(world))[SYNCER]
    assert held.get("rpc.call", 0) == (90_000 if key == 0 else 0)


def test_a_commit_of_what_was_submitted_in_a_loss_is_nobody_s() -> None:
    world = world_of_libaio()
    world.builder.packet_events = 1
    world.builder.refuse("aio_submit", time_ns=900, cpu=0)
    # What is lost is before this.
    world.target(WRITER + 4, 2_000)
    end = written(world, 5_000, B, 50_000)
    committed(world, end + 200, 20_000, key=A)
    over = committed(world, end + 500, 90_000, key=B)
    collected(world, over - 5_000, over + 2_000, B)
    (held,) = told(world)
    assert held["rpc.call"] == 50_000 + 200 + 90_000


def test_a_commit_for_a_write_whose_caller_waits_is_that_write_s() -> None:
    """Two to one file at once; a worker of the kernel's makes both COMMITs."""
    world = World()
    for number, (tid, took) in enumerate(((WRITER, 90_000), (SYNCER, 60_000))):
        world.target(tid)
        key, enter = ELSEWHERE + 0x100 * number + 1, 1_000 + 500 * number
        over = Call(enter + 1_000, 50_000).emit(world, tid, key=key, offset=9 * PART * number)
        end = committed(world, over + 900 - 600 * number, took, key=key)
        world.emit("syscall", end + 2_000, tid, enter_ns=enter, call=CALL_PWRITE64, inode=12,
                   dev=MOUNT, tgid=tid, open_flags=O_DSYNC | O_DIRECT, size_bytes=PART,
                   result=PART)  # fmt: skip
    found = accounts(analysed(world))
    calls = [found[tid][0]["rpc.call"] for tid in (WRITER, SYNCER)]
    assert calls == [50_000 + 90_000, 50_000 + 60_000]
