# SPDX-License-Identifier: Apache-2.0
"""What workers of io_uring ran without a word is theirs, and complete, as far as that is known."""

from __future__ import annotations

import numpy as np
import pytest

from iostrata.stitch.opcodes import RWF_OF_LINKED
from iostrata.trace.layout import CALL_IO_URING_ENTER, THREAD_WORKER
from tests.stitch.test_truth import accounts, analysed, conserves
from tests.stitch.test_uring import (
    DISK,
    FILE,
    INTERRUPTIBLE,
    UNINTERRUPTIBLE,
    WORKER,
    WRITER,
    at_disk,
    direct_write,
    resumes,
    worlds,
)
from tests.synthetic import O_DSYNC, Request, World, submit

SECOND = WORKER + 1
OTHER_FILE = FILE | {"inode": 4711}


def chain(
    world: World, key: int, at_ns: int, file: dict[str, int]
) -> tuple[dict[str, int], dict[str, int]]:
    """A plain write, and a sync linked behind it: the write is handed over 100 later."""
    write = direct_write(key, open_flags=0, rwf=RWF_OF_LINKED) | file
    sync = {"request_key": key + 8, "opcode": 3, **file}
    world.emit("io_uring_submit_req", at_ns, WRITER, **write)
    world.emit("io_uring_submit_req", at_ns + 50, WRITER, **sync)
    world.emit("io_uring_queue_async_work", at_ns + 100, WRITER, **write)
    return write, sync


def taken(world: World, at_ns: int, write: dict[str, int], sync: dict[str, int]) -> None:
    world.emit("io_uring_complete", at_ns, WRITER, result=8192, **write)
    world.emit("io_uring_queue_async_work", at_ns + 100, WRITER, **sync)


def synced(world: World, off_ns: int, begin_ns: int, *syncs: dict[str, int]) -> int:
    """The worker, idle since ``off_ns``, runs syncs, one after the other; the last one's end."""
    for sync in syncs:
        resumes(world, WORKER, off_ns, begin_ns - 500, begin_ns, WRITER, INTERRUPTIBLE)
        world.emit("io_uring_work", begin_ns + 200, WORKER, request_key=sync["request_key"])
        disk = Request(queue=500, scheduler=None, device=20_000)
        submit(world, DISK, WORKER, begin_ns + 200, disk)
        off = begin_ns + 300
        resumes(world, WORKER, off, begin_ns + 21_000, begin_ns + 22_000, 0, UNINTERRUPTIBLE)
        world.emit("io_uring_work", begin_ns + 22_300, WORKER, request_key=0)
        world.emit("io_uring_complete", begin_ns + 22_500, WRITER, result=0, **sync)
        off_ns, begin_ns = begin_ns + 22_300, begin_ns + 24_000
    return begin_ns


def returns(world: World, enter_ns: int, at_ns: int) -> None:
    world.emit("syscall", at_ns, WRITER, enter_ns=enter_ns, call=CALL_IO_URING_ENTER, tgid=WRITER)


def test_who_sleeps_for_another_ring_is_not_let_go() -> None:
    """Two rings have a write each, which one worker runs without a word from 4000 to 50000. The
    submitter waits at the first ring until 81000; at the second since 82000. When that one's write
    was complete is not told: not before 4000, and by 50000."""
    world = worlds()
    first, second = (
        chain(world, key, at_ns, file)
        for key, at_ns, file in ((0x70, 2_000, FILE), (0x90, 2_200, OTHER_FILE))
    )
    resumes(world, WORKER, 500, 3_000, 4_000, WRITER, INTERRUPTIBLE)
    returns(world, 1_000, 3_500)
    resumes(world, WRITER, 5_000, 20_000, 21_000, WORKER, INTERRUPTIBLE)
    taken(world, 21_500, *first)
    resumes(world, WRITER, 22_000, 80_000, 80_100, WORKER, INTERRUPTIBLE)
    synced(world, 50_000, 52_000, first[1])
    returns(world, 3_600, 81_000)
    taken(world, 83_000, *second)
    end = synced(world, 74_300, 84_000, second[1])
    returns(world, 82_000, end)
    breakdown = analysed(world)
    conserves(breakdown)
    one, two = accounts(breakdown)[WRITER]
    # The first one's let its submitter go.
    assert one["wakeup.worker"] >= 20_000 - 4_000
    assert one["residual"] <= 1_000
    assert two["wakeup.worker"] <= 2_000
    assert 50_000 - 4_000 <= two["residual"] <= 50_000 - 4_000 + 2_000
    assert two["wakeup.reap"] >= 82_000 - 52_000 - 24_000


def test_who_is_let_go_has_what_became_complete_until_it_ran() -> None:
    """A worker runs two writes without a word, from 4000 to 35000. The first one lets the submitter
    go at 20000, which has a CPU from 40000 on, and takes both, in their order."""
    world = worlds()
    first, second = (
        chain(world, key, at_ns, file)
        for key, at_ns, file in ((0x70, 2_000, FILE), (0x90, 2_200, OTHER_FILE))
    )
    resumes(world, WORKER, 500, 3_000, 4_000, WRITER, INTERRUPTIBLE)
    resumes(world, WRITER, 3_000, 20_000, 40_000, WORKER, INTERRUPTIBLE)
    taken(world, 40_100, *first)
    taken(world, 40_300, *second)
    end = synced(world, 35_000, 41_500, first[1], second[1])
    returns(world, 1_000, end)
    breakdown = analysed(world)
    conserves(breakdown)
    one, two = accounts(breakdown)[WRITER]
    assert one["wakeup.worker"] >= 20_000 - 4_000
    assert one["wakeup.runqueue"] >= 40_000 - 20_000
    assert one["residual"] <= 1_000
    assert two["wakeup.worker"] >= 20_000 - 4_000
    assert 35_000 - 20_000 <= two["residual"] <= 35_000 - 20_000 + 1_000


@pytest.mark.parametrize("same", [True, False])
def test_what_has_not_had_its_turn_was_not_run(*, same: bool) -> None:
    """A synchronous write is run until 50000, a plain one handed over behind it. Another worker has
    a CPU from 4000 to 60000, and says nothing. If both are to one file, the plain one is not run
    before 50000; else nobody knows."""
    world = worlds()
    world.emit("thread", 2, WRITER, tgid=WRITER, subject_tid=SECOND, kind=THREAD_WORKER,
               comm=b"iou-wrk-100")  # fmt: skip
    ahead = direct_write(0x60, open_flags=O_DSYNC) | (FILE if same else OTHER_FILE)
    world.emit("io_uring_submit_req", 1_500, WRITER, **ahead)
    world.emit("io_uring_queue_async_work", 1_600, WRITER, **ahead)
    write, sync = chain(world, 0x70, 2_000, FILE)
    other, other_sync = chain(world, 0x90, 2_200, FILE | {"inode": 4712})
    resumes(world, WORKER, 500, 2_500, 2_600, WRITER, INTERRUPTIBLE)
    resumes(world, SECOND, 600, 3_000, 4_000, WRITER, INTERRUPTIBLE)
    returns(world, 1_000, 3_500)
    at_disk(world, WORKER, 0x60, 2_700, (2_800, 49_500, 50_000), 46_000)
    world.emit("io_uring_work", 51_000, WORKER, request_key=0)
    resumes(world, SECOND, 60_000, 190_000, 190_100, WRITER, INTERRUPTIBLE)
    taken(world, 90_200, write, sync)
    taken(world, 90_400, other, other_sync)
    end = synced(world, 51_000, 92_000, sync, other_sync)
    returns(world, 90_000, end)
    # In one call, the order in which they became complete would tell more.
    world.emit("io_uring_complete", end + 2_000, WRITER, result=8192, **ahead)
    returns(world, end + 1_000, end + 3_000)
    breakdown = analysed(world)
    conserves(breakdown)
    _, found, _ = accounts(breakdown)[WRITER]
    # It takes them at 90000.
    assert found["wakeup.reap"] >= 90_000 - 60_000
    lost_ns = 60_000 - (50_000 if same else 4_000)
    assert lost_ns <= found["residual"] <= lost_ns + 2_000


def test_a_sync_passes_over_what_waits_for_its_turn() -> None:
    """A synchronous write is run until 50000, and by the same worker a plain one to its file, which
    was handed over behind it, until 55000. A sync of that file was handed over later, and another
    worker is at it from 5000 on: that tells nothing of the plain one, which has no turn until then.
    """
    world = worlds()
    world.emit("thread", 2, WRITER, tgid=WRITER, subject_tid=SECOND, kind=THREAD_WORKER,
               comm=b"iou-wrk-100")  # fmt: skip
    ahead, last = direct_write(0x60), {"request_key": 0x90, "opcode": 3, **FILE}
    world.emit("io_uring_submit_req", 1_500, WRITER, **ahead)
    world.emit("io_uring_queue_async_work", 1_600, WRITER, **ahead)
    write, sync = chain(world, 0x70, 2_000, FILE)
    world.emit("io_uring_submit_req", 2_200, WRITER, **last)
    world.emit("io_uring_queue_async_work", 2_300, WRITER, **last)
    resumes(world, WORKER, 500, 2_500, 2_600, WRITER, INTERRUPTIBLE)
    resumes(world, SECOND, 600, 3_000, 4_000, WRITER, INTERRUPTIBLE)
    returns(world, 1_000, 3_500)
    at_disk(world, WORKER, 0x60, 2_700, (2_800, 49_500, 50_000), 46_000)
    at_disk(world, SECOND, 0x90, 5_000, (5_100, 95_000, 95_500), 89_500)
    for tid, off_ns in ((WORKER, 55_000), (SECOND, 96_500)):
        world.emit("io_uring_work", off_ns, tid, request_key=0)
    resumes(world, SECOND, 96_500, 190_000, 190_100, WRITER, INTERRUPTIBLE)
    taken(world, 90_200, write, sync)
    end = synced(world, 55_000, 92_000, sync)
    returns(world, 90_000, end)
    for request in (ahead, last):
        world.emit("io_uring_complete", end + 2_000, WRITER, result=0, **request)
    returns(world, end + 1_000, end + 3_000)
    breakdown = analysed(world)
    conserves(breakdown)
    (row,) = np.flatnonzero(breakdown.writes.end_ns == end)
    found = accounts(breakdown)[WRITER][row]
    assert 90_000 - 55_000 <= found["wakeup.reap"] <= 90_000 - 55_000 + 3_000
    assert 55_000 - 50_000 <= found["residual"] <= 55_000 - 50_000 + 2_000


def test_a_worker_that_was_made_later_was_at_nothing_before() -> None:
    """A write is handed over at 2100. A worker is made for it at 30000, has a CPU from 31000 on,
    completes it itself at 35000, without a word, and goes on with the sync."""
    world = worlds()
    resumes(world, WORKER, 500, 0, 600, 0, 0)
    world.emit("io_uring_work", 700, WORKER, request_key=0x50)
    write, sync = chain(world, 0x70, 2_000, FILE)
    world.emit("thread", 30_000, WRITER, tgid=WRITER, subject_tid=SECOND, kind=THREAD_WORKER,
               comm=b"iou-wrk-100")  # fmt: skip
    resumes(world, SECOND, 30_000, 0, 31_000, 0, 0)
    world.emit("io_uring_complete", 35_000, SECOND, result=8192, **write)
    at_disk(world, SECOND, sync["request_key"], 36_000, (36_100, 57_000, 57_500), 20_000)
    world.emit("io_uring_complete", 58_000, SECOND, result=0, **sync)
    returns(world, 1_000, 60_000)
    breakdown = analysed(world)
    conserves(breakdown)
    (found,) = accounts(breakdown)[WRITER]
    assert 4_000 <= found["syscall"] <= 4_000 + 4_000
    assert found["wakeup.worker"] >= 30_000 - 2_100 - 500
