# SPDX-License-Identifier: Apache-2.0
"""COMMITs that the kernel makes behind what asynchronous requests write past the page cache."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from iostrata.trace.layout import NFS_COMMIT, NFS_WRITE
from tests.reading import O_DIRECT
from tests.stitch.test_truth import accounts, analysed, conserves
from tests.synthetic import O_DSYNC, World, device

MOUNT = device(0, 44)
WRITER, WORKER, OTHER_WORKER = 100, 31, 32
A, B = 0x70, 0x80
OLDER = pytest.mark.parametrize("older", [True, False])
PWRITE = 1
PART = 16_384
UNSTABLE, ON_DISK = 0, 2
QUEUED, REPLY = 700, 400


@dataclass
class Call:
    """Made, sent ``QUEUED`` later, answered ``took`` after that; ended ``REPLY`` later."""

    made: int
    took: int

    @property
    def end(self) -> int:
        return self.made + QUEUED + self.took + REPLY

    def emit(
        self, world: World, tid: int, *, key: int = 0, operation: int = NFS_WRITE, inode: int = 12,
        offset: int = 0, stable: int = UNSTABLE, worker: int = WORKER,
    ) -> int:  # fmt: skip
        """When it has ended. ``key``: of the request that it is for, 0: of none."""
        task = world.pointer("task", self.made, self.end + 1)
        size = PART if operation == NFS_WRITE else 0
        world.emit("nfs_call", self.made, tid, call_key=task, inode=inode, dev=MOUNT,
                   offset_bytes=offset, size_bytes=size, stable=stable,
                   request_key=key, operation=operation)  # fmt: skip
        world.emit("rpc_call", self.end, worker, call_key=task, send_ns=self.made + QUEUED,
                   ready_ns=self.end - REPLY, reply_ns=self.end - REPLY + 100,
                   xid=self.made, connection=1)  # fmt: skip
        return self.end


def written(
    world: World, enter: int, key: int, took: int, *, offset: int = 0, stable: int = UNSTABLE
) -> int:
    """One io_submit of two parts; when both were answered."""
    ends = [
        Call(enter + 1_000 + 200 * part, took).emit(
            world, WRITER, key=key, offset=offset + PART * part, stable=stable
        )
        for part in range(2)
    ]
    world.emit("aio_submit", enter + 2_000, WRITER, enter_ns=enter, iocb_key=key, inode=12,
               dev=MOUNT, offset_bytes=offset, open_flags=O_DSYNC | O_DIRECT, size_bytes=2 * PART,
               opcode=PWRITE)  # fmt: skip
    return max(ends)


def committed(world: World, made: int, took: int, *, key: int = 0, inode: int = 12) -> int:
    """``key``: of the request that it is for, 0: of none."""
    return Call(made, took).emit(world, WORKER, key=key, operation=NFS_COMMIT, inode=inode)


def collected(world: World, since: int, until: int, *keys: int) -> None:
    """By an io_getevents."""
    for key in keys:
        world.emit("aio_complete", until, WRITER, enter_ns=since, iocb_key=key, result=2 * PART,
                   opcode=PWRITE, inode=12, dev=MOUNT, open_flags=O_DSYNC | O_DIRECT)  # fmt: skip


def world_of_libaio(*, older: bool = False) -> World:
    """``older``: its recorder does not tell for which requests calls are."""
    world = World()
    world.target(WRITER)
    return without_keys(world) if older else world


def without_keys(world: World) -> World:
    world.builder.lacking["nfs_call"] = "request_key"
    return world


def told(world: World) -> list[dict[str, int]]:
    breakdown = analysed(world)
    conserves(breakdown)
    return accounts(breakdown)[WRITER]


@OLDER
def test_a_commit_behind_a_request_s_writes_is_that_request_s(*, older: bool) -> None:
    world = world_of_libaio(older=older)
    end = committed(world, written(world, 1_000, A, 50_000) + 300, 90_000, key=A)
    collected(world, end - 5_000, end + 2_000, A)
    (held,) = told(world)
    assert held["rpc.call"] == 50_000 + 200 + 90_000
    assert held["rpc.reply"] == 2 * REPLY
    assert held.get("wakeup.reap", 0) < 3_000


@OLDER
def test_of_two_requests_each_has_the_commit_behind_its_own_writes(*, older: bool) -> None:
    """The second one's is over first; both are collected at once."""
    world = world_of_libaio(older=older)
    first = written(world, 1_000, A, 50_000)
    second = written(world, 10_000, B, 51_000, offset=2 * PART)
    ends = (
        committed(world, first + 300, 90_000, key=A),
        committed(world, second + 300, 60_000, key=B),
    )
    assert ends[0] > ends[1]
    collected(world, ends[0] - 5_000, ends[0] + 2_000, A, B)
    one, other = told(world)
    assert (one["rpc.call"], one["rpc.reply"]) == (50_000 + 200 + 90_000, 2 * REPLY)
    assert (other["rpc.call"], other["rpc.reply"]) == (51_000 + 200 + 60_000, 2 * REPLY)
    assert other["wakeup.reap"] - one["wakeup.reap"] == ends[0] - ends[1]


@OLDER
@pytest.mark.parametrize("of", ["another file", "too early", "too long", "what is on disk"])
def test_another_s_commit_is_not_the_request_s(of: str, *, older: bool) -> None:
    """Of nothing that is recorded: a COMMIT of what went through the page cache, by the flusher."""
    world = world_of_libaio(older=older)
    end = written(world, 1_000, A, 50_000, stable=ON_DISK if of == "what is on disk" else 0)
    made = end - 1_000 if of == "too early" else end + 300
    took = 900_000 if of == "too long" else 90_000
    over = committed(world, made, took, inode=13 if of == "another file" else 12)
    until = end + 200_000
    assert (over > until) == (of == "too long")
    collected(world, until - 5_000, until, A)
    (held,) = told(world)
    assert held["rpc.call"] == 50_000 + 200
    assert held["wakeup.reap"] == until - end


@OLDER
def test_one_commit_is_one_request_s(*, older: bool) -> None:
    """What needs none is not told; what waits behind it has its own."""
    world = world_of_libaio(older=older)
    first = written(world, 1_000, A, 50_000)
    over = committed(world, first + 300, 30_000, key=A)
    second = written(world, 60_000, B, 51_000, offset=2 * PART)
    end = committed(world, second + 300, 90_000, key=B)
    collected(world, end - 5_000, end + 2_000, A, B)
    one, other = told(world)
    assert one["rpc.call"] == 50_000 + 200 + 30_000
    assert one["wakeup.reap"] == end + 2_000 - over
    assert other["rpc.call"] == 51_000 + 200 + 90_000


@pytest.mark.parametrize("later", [False, True])
def test_where_another_s_may_be_the_commit_it_is_nobody_s(*, later: bool) -> None:
    """Whoever else writes to the file, past the page cache or not, has one made as well."""
    world = world_of_libaio(older=True)
    end = written(world, 1_000, A, 50_000)
    Call(1_500, 50_000 if later else 49_000).emit(world, OTHER_WORKER, offset=9 * PART)
    committed(world, end + 1_000, 90_000)
    over = committed(world, end + 1_400, 91_000)
    collected(world, over, over + 5_000, A)
    (held,) = told(world)
    assert held["rpc.call"] == 50_000 + 200
