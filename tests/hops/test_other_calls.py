# SPDX-License-Identifier: Apache-2.0
"""What a write asks a server for beside WRITE and COMMIT: of its thread's calls those it waits for.

An append's GETATTR, a READ of what is written in part: ``NFS_OTHER``, but for its operation told as
they are.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from iostrata.trace.layout import NFS_OTHER
from tests.hops.test_graph import found_in, holds
from tests.network import Call, Machine, recorded
from tests.stitch.test_reconnects import CONNECTION, MOUNT, TID, account_of
from tests.synthetic import O_DSYNC, World

OTHER_TID, WORKER = 200, 67
WRITES = 12


def call(world: World, made: int, tid: int, end: int, by: int) -> None:
    """Sent 100 ns later, answered 100 ns before it ends."""
    key = world.pointer("task", made, end + 1)
    world.emit("nfs_call", made, tid, call_key=key, inode=12, dev=MOUNT, operation=NFS_OTHER)
    world.emit("rpc_call", end, by, call_key=key, send_ns=made + 100, ready_ns=end - 100,
               reply_ns=end - 50, xid=8, connection=CONNECTION)  # fmt: skip


def write(world: World, begin: int, end: int, **call: int) -> None:
    told = {"open_flags": O_DSYNC, "call": 2, "size_bytes": 8192, "result": 8192} | call
    world.emit("syscall", end, TID, enter_ns=begin, inode=12, offset_bytes=0, dev=MOUNT, tgid=TID,
               **told)  # fmt: skip


def test_a_call_before_the_write_s_own_is_found_at_its_server(tmp_path: Path) -> None:
    """Wherever it takes its time."""
    client, server = Machine("client", port=700), Machine("server")
    now = 1_000_000
    for number in range(WRITES):
        asked = Call(server, there=40_000 + 900 * number, back=90_000, operation=NFS_OTHER)
        now = client.write(TID, now, [asked], then=[Call(server)]) + 30_000
    found = found_in(recorded(tmp_path / "both", client, server))
    assert len(found.writes) == WRITES
    assert found.quality.unfollowed == 0
    bound = max(one.bound_ns or 0 for one in found.quality.crossings)
    holds(found, client, bounds=bound)


@pytest.mark.parametrize("how", ["found", "woken", "neither", "by another"])
def test_it_is_of_who_waited_for_it(how: str) -> None:
    """Its thread found it ended, or slept until who did let it go; what was asked meanwhile, and
    nobody waited for, has no time of it."""
    world = World()
    world.target(TID)
    call(world, 10_000, TID, 60_000, TID if how == "found" else WORKER)
    if how != "neither":
        wake = 59_000 if how == "found" else 60_000
        waker = 99 if how == "by another" else WORKER
        world.emit("sched_resume", wake, TID, off_ns=10_200, wake_ns=wake, waker_tid=waker,
                   state=2, subject_tid=TID, waker_context=1)  # fmt: skip
    write(world, 9_000, 70_000)
    account = account_of(world)
    waited = how in ("found", "woken")
    assert account.get("rpc.call", 0) == (49_800 if waited else 0)
    assert account.get("rpc.queue", 0) == (100 if waited else 0)


def test_no_other_s_is_of_a_sync_of_that_file() -> None:
    """As what a flusher writes there is."""
    world = World()
    world.target(TID)
    call(world, 10_000, OTHER_TID, 60_000, OTHER_TID)
    world.emit("nfs_sync_file", 69_000, TID, enter_ns=9_500, inode=12, dev=MOUNT, datasync=1)
    write(world, 9_000, 70_000, open_flags=0, call=7, size_bytes=0, result=0)
    assert "rpc.call" not in account_of(world)
