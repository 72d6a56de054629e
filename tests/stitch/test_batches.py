# SPDX-License-Identifier: Apache-2.0
"""Calls that submit several requests, which the submitter writes and syncs itself: each waits for
the others, and is not on the CPU meanwhile."""

from __future__ import annotations

import pytest

from iostrata.trace.layout import (
    CALL_IO_URING_ENTER,
    CALL_PWRITE64,
    WAKE_INTERRUPT,
    WAKE_THREAD,
)
from tests.reading import O_DIRECT
from tests.stitch.test_truth import accounts, analysed, conserves
from tests.synthetic import O_DSYNC, Request, World, device, submit

DISK = device(8, 0)
WRITER, OTHER = 100, 200
FILE = {"inode": 12, "dev": DISK}
A, B = 0x70, 0x80
DISK_NS, QUEUED_NS, WAKING_NS, LATE_NS = 20_000, 500, 600, 1_400
TOOK_NS = 1_000 + QUEUED_NS + DISK_NS + WAKING_NS + LATE_NS + 500
"""A sync: with 1000 before its bio, and 500 behind its sleep, on the CPU."""


def synced(world: World, begin: int, point: str = "xfs_file_fsync") -> int:
    """By the submitter; until when."""
    queued = begin + 1_000
    submit(world, DISK, WRITER, queued, Request(queue=QUEUED_NS, scheduler=None, device=DISK_NS))
    woken = queued + QUEUED_NS + DISK_NS + WAKING_NS
    world.emit("sched_resume", woken + LATE_NS, WRITER, off_ns=queued + 200, wake_ns=woken,
               waker_tid=0, state=2, subject_tid=WRITER, waker_context=WAKE_INTERRUPT)  # fmt: skip
    end = begin + TOOK_NS
    if point == "ext4_sync_file":
        world.emit(point, end, WRITER, enter_ns=begin, **FILE)
    else:
        world.emit(point, begin, WRITER, **FILE)
    return end


def told(world: World) -> list[dict[str, int]]:
    breakdown = analysed(world)
    conserves(breakdown)
    return accounts(breakdown)[WRITER]


def waits(times: int) -> dict[str, int]:
    return {
        "block.Q2D": times * QUEUED_NS, "device.data": times * DISK_NS,
        "wakeup.interrupt": times * WAKING_NS, "wakeup.runqueue": times * LATE_NS,
    }  # fmt: skip


def on_cpu(held: dict[str, int]) -> int:
    """Takes it out."""
    return sum(held.pop(row, 0) for row in ("syscall", "fs", "wakeup.reap"))


def submitted(world: World, time: int, key: int) -> None:
    world.emit("io_uring_submit_req", time, WRITER, request_key=key, opcode=23, size_bytes=8192,
               open_flags=O_DSYNC, **FILE)  # fmt: skip


def complete(world: World, time: int, key: int) -> None:
    world.emit("io_uring_complete", time, WRITER, request_key=key, opcode=23, size_bytes=8192,
               result=8192, open_flags=O_DSYNC, **FILE)  # fmt: skip


def test_what_is_submitted_behind_one_that_its_submitter_syncs() -> None:
    """io_uring: the first one's is done when it comes to the second."""
    world = World()
    world.target(WRITER)
    submitted(world, 2_000, A)
    end = synced(world, 3_000)
    complete(world, end + 500, A)
    submitted(world, end + 1_000, B)
    last = synced(world, end + 2_000)
    complete(world, last + 500, B)
    world.emit("syscall", last + 1_000, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER,
               tgid=WRITER)  # fmt: skip
    first, second = told(world)
    assert on_cpu(second) == last + 1_000 - 1_000 - sum(waits(2).values())
    assert second == waits(2)
    # Who is to collect it has no CPU once more.
    assert on_cpu(first) == last + 1_000 - 1_000 - sum(waits(1).values()) - LATE_NS
    assert first == waits(1) | {"wakeup.runqueue": 2 * LATE_NS}


def test_a_submitter_that_has_no_cpu_amid_its_call() -> None:
    """At a request that nobody waits for: whatever comes behind it does."""
    world = World()
    world.target(WRITER)
    world.emit("sched_resume", 60_000, WRITER, off_ns=2_000, wake_ns=0, waker_tid=0, state=0,
               subject_tid=WRITER)  # fmt: skip
    submitted(world, 61_000, B)
    last = synced(world, 62_000)
    complete(world, last + 500, B)
    world.emit("syscall", last + 1_000, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER,
               tgid=WRITER)  # fmt: skip
    (held,) = told(world)
    on_cpu(held)
    assert held == waits(1) | {"wakeup.runqueue": 58_000 + LATE_NS}


def of_libaio(
    world: World, enter: int, end: int, blocks: list[dict[str, int]] | None = None
) -> None:
    """Blocks of one call (two synchronous writes), whose results another one has."""
    for order, other in enumerate(blocks or [{}, {}]):
        block = {"opcode": 1, "size_bytes": 8192, "open_flags": O_DSYNC, **FILE, **other}
        result = block.pop("result", 0 if block["opcode"] == 2 else 8192)
        key = A + 16 * order
        world.emit("aio_submit", end, WRITER, enter_ns=enter, iocb_key=key, order=order, **block)
        world.emit("aio_complete", end + 2_000, WRITER, enter_ns=end + 1_000, iocb_key=key,
                   result=result, opcode=block["opcode"], **FILE)  # fmt: skip


@pytest.mark.parametrize("point", ["ext4_sync_file", "xfs_file_fsync"])
def test_each_block_of_a_batch_waits_for_all_as_the_call_does(point: str) -> None:
    world = World()
    world.target(WRITER)
    end = synced(world, synced(world, 2_000, point) + 2_000, point) + 1_000
    of_libaio(world, 1_000, end)
    every = told(world)
    assert len(every) == 2
    for held in every:
        assert held["fs"] < TOOK_NS
        assert on_cpu(held) == end + 2_000 - 1_000 - sum(waits(2).values())
        assert held == waits(2)


@pytest.mark.parametrize("sync", [None, 0, 1])
def test_a_batch_waits_for_the_lock_of_its_file(sync: int | None) -> None:
    """Before its first bio: another thread of the workload has the lock until 41500."""
    world = World()
    for tid in (WRITER, OTHER):
        world.target(tid)
    world.emit("syscall", 42_000, OTHER, enter_ns=500, call=CALL_PWRITE64, tgid=OTHER, result=1,
               size_bytes=1, **FILE)  # fmt: skip
    world.emit("sched_resume", 43_000, WRITER, off_ns=1_500, wake_ns=41_500, waker_tid=OTHER,
               state=2, subject_tid=WRITER, waker_context=WAKE_THREAD)  # fmt: skip
    for place in range(2):
        one = Request(queue=QUEUED_NS, scheduler=None, device=1_000, sector=8_000 + 64 * place)
        submit(world, DISK, WRITER, 44_000 + 400 * place, one)
    blocks = [{"open_flags": O_DIRECT | O_DSYNC}] * 2
    if sync is not None:
        blocks.insert(sync, FSYNC)
    of_libaio(world, 1_000, 46_000, blocks)
    every = told(world)
    assert len(every) == len(blocks)
    for place, held in enumerate(every):
        if place != sync:
            assert held["lock"] == 40_000
            assert held["wakeup.runqueue"] == 1_500
            assert held["device.data"] == 1_000


OWN = (A + 16, A + 48)
FSYNC, PLAIN, FAILED = {"opcode": 2, "open_flags": 0}, {"open_flags": 0}, {"result": -27}


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_sync_that_a_worker_does_beside_what_the_call_does_itself(place: int) -> None:
    """To a disk itself, which does not tell of its submitter's syncs: two writes, and a sync. In
    front of these that is queued at once, and behind them at last; nobody has it before all is."""
    world = World()
    world.target(WRITER)
    queued = 2_000
    for _ in range(2):
        one = Request(queue=QUEUED_NS, scheduler=None, device=DISK_NS)
        submit(world, DISK, WRITER, queued, one)
        woken = queued + QUEUED_NS + DISK_NS + WAKING_NS
        on = woken + LATE_NS
        world.emit("sched_resume", on, WRITER, off_ns=queued + 200, wake_ns=woken, waker_tid=0,
                   state=2, subject_tid=WRITER, waker_context=WAKE_INTERRUPT)  # fmt: skip
        queued = on + 1_000
    blocks: list[dict[str, int]] = [{}, {}]
    blocks.insert(place, FSYNC)
    of_libaio(world, 1_000, queued, blocks)
    every = told(world)
    assert len(every) == 3
    for held in every:
        assert held["device.data"] == 2 * DISK_NS
        assert held["block.Q2D"] == 2 * QUEUED_NS
        assert held["wakeup.runqueue"] == 2 * LATE_NS


@pytest.mark.parametrize("point", ["ext4_sync_file", "xfs_file_fsync"])
@pytest.mark.parametrize("among", [FSYNC, PLAIN, FAILED], ids=["fsync", "plain", "failed"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_the_call_does_not_sync_keeps_none_of_the_others(
    among: dict[str, int], place: int, point: str
) -> None:
    world = World()
    world.target(WRITER)
    end = synced(world, synced(world, 2_000, point) + 2_000, point) + 1_000
    blocks: list[dict[str, int]] = [{}, {}]
    blocks.insert(place, among)
    of_libaio(world, 1_000, end, blocks)
    every = told(world)
    assert len(every) == 3 - (among is not FSYNC)
    for held in every:
        uncollected = held.pop("residual", 0)
        assert uncollected <= (2_000 if among is FSYNC else 0)
        assert on_cpu(held) == end + 2_000 - 1_000 - sum(waits(2).values()) - uncollected
        assert held == waits(2)


@pytest.mark.parametrize("direct", [False, True])
def test_a_batch_of_which_it_is_not_known_what_was_for_which(direct: bool) -> None:
    """One sync and two blocks. Where both are done in the call, each waits for all that this waited
    for; else, asleep, it was at something; and it waited for a CPU."""
    world = World()
    world.target(WRITER)
    world.emit("xfs_file_fsync", 900, OTHER, **FILE)
    end = synced(world, 2_000) + 30_000
    of_libaio(world, 1_000, end, [{"open_flags": O_DSYNC | O_DIRECT * direct}] * 2)
    asleep, uncollected = QUEUED_NS - 200 + DISK_NS + WAKING_NS, 2_000
    for held in told(world):
        if not direct:
            assert on_cpu(held) == end + 2_000 - 1_000 - sum(waits(1).values())
            assert held == waits(1)
            continue
        assert on_cpu(held) == end - 1_000 - asleep - LATE_NS
        assert held == {"residual": asleep + uncollected, "wakeup.runqueue": LATE_NS}


@pytest.mark.parametrize("early", [False, True])
def test_blocks_of_a_disk_itself_wait_for_all_that_their_call_does(early: bool) -> None:
    """No file system tells of its syncs; a plain write among them, and one that failed. Where
    another thread has the first one when that is complete, it did not wait for the rest."""
    world = World()
    world.target(WRITER)
    now, ends = 2_000, []
    for _ in range(2):
        submit(world, DISK, WRITER, now, Request(queue=QUEUED_NS, scheduler=None, device=DISK_NS))
        woken = now + QUEUED_NS + DISK_NS + WAKING_NS
        world.emit("sched_resume", woken + LATE_NS, WRITER, off_ns=now + 200, wake_ns=woken,
                   waker_tid=0, state=2, subject_tid=WRITER,
                   waker_context=WAKE_INTERRUPT)  # fmt: skip
        now = woken + LATE_NS + 1_000
        ends.append(now)
    of_libaio(world, 1_000, now, [PLAIN, {}, FAILED, {}])
    if early:
        first, _ = (row for row in world.builder._rows["aio_complete"] if row["iocb_key"] in OWN)
        first |= {"time_ns": ends[0] + 100, "enter_ns": 900, "tid": OTHER}
    every = told(world)
    assert len(every) == 2
    for held in every:
        if early:
            assert not {"device.data", "wakeup.reap"} & set(held)
            assert held["residual"] >= ends[0] - 2_000 - LATE_NS - 2_000
            continue
        assert on_cpu(held) == now + 2_000 - 1_000 - sum(waits(2).values())
        assert held == waits(2)


def test_a_call_in_which_a_switch_was_not_seen_may_have_slept_anywhere() -> None:
    world = World()
    world.target(WRITER)
    end = synced(world, synced(world, 2_000) + 2_000) + 1_000
    world.emit("sched_hidden", end - 10, WRITER, enter_ns=1_000, count=1)
    of_libaio(world, 1_000, end)
    for held in told(world):
        assert on_cpu(held) <= 2_010
        assert held.pop("residual") >= end - 10 - 1_000 - sum(waits(2).values())
        assert held == waits(2)


@pytest.mark.parametrize("point", ["btrfs_sync_file", "ext4_sync_file"])
def test_a_batch_of_direct_writes_that_its_submitter_syncs(point: str) -> None:
    """As btrfs does; elsewhere workers sync what is written directly, behind that."""
    world = World()
    world.target(WRITER)
    end = synced(world, synced(world, 2_000, point) + 2_000, point) + 1_000
    of_libaio(world, 1_000, end, [{"open_flags": O_DSYNC | O_DIRECT}] * 2)
    every = told(world)
    assert len(every) == 2
    for held in every:
        assert on_cpu(held) == end + 2_000 - 1_000 - sum(waits(2).values())
        assert held == waits(2)
