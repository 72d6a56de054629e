# SPDX-License-Identifier: Apache-2.0
"""Who is to go on with a chain of io_uring's is stopped: what is complete waits for that."""

from __future__ import annotations

import pytest

from iostrata.stitch.opcodes import RWF_OF_LINKED
from iostrata.trace.layout import CALL_IO_URING_ENTER, STOP_FREEZER, STOP_SIGNAL
from tests.stitch.test_truth import accounts, analysed, conserves
from tests.stitch.test_uring import (
    DISK,
    FILE,
    INTERRUPTIBLE,
    UNINTERRUPTIBLE,
    WORKER,
    WRITER,
    direct_write,
    linked_pair,
    resumes,
    worlds,
)
from tests.synthetic import Request, World, submit


def halts(world: World, stop: str, tid: int, begin: int, end: int) -> None:
    if stop == "quota":
        world.emit("sched_throttled", end, tid, subject_tid=tid, since_ns=begin,
                   throttled_ns=end - begin)  # fmt: skip
    else:
        by = STOP_SIGNAL if stop == "signal" else STOP_FREEZER
        world.emit("sched_stopped", end, tid, subject_tid=tid, since_ns=begin, by=by)


@pytest.mark.parametrize("stop", ["signal", "freezer", "quota"])
@pytest.mark.parametrize("whose", [WRITER, 555])
def test_what_is_complete_waits_for_who_is_stopped(stop: str, whose: int) -> None:
    """A direct write is complete at 23500, and its submitter stopped from 10000 to 90000: in its
    task work that completes the write at 95000, and hands the sync behind it over. That another
    thread is stopped is nothing to it."""
    world = worlds()
    write = direct_write(0x70, open_flags=0, rwf=RWF_OF_LINKED)
    sync = {"request_key": 0x80, "opcode": 3, **FILE}
    linked_pair(world, write, sync)
    submit(world, DISK, WRITER, 3_000, Request(queue=500, scheduler=None, device=20_000))
    world.emit("syscall", 4_500, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    halts(world, stop, whose, 10_000, 90_000)
    world.emit("io_uring_complete", 95_000, WRITER, result=8192, **write)
    world.emit("io_uring_queue_async_work", 96_000, WRITER, **sync)
    resumes(world, WORKER, 500, 96_500, 97_000, WRITER, INTERRUPTIBLE)
    world.emit("io_uring_work", 98_000, WORKER, request_key=0x80)
    submit(world, DISK, WORKER, 98_000, Request(queue=500, scheduler=None, device=20_000))
    resumes(world, WORKER, 99_000, 118_500, 119_500, 0, UNINTERRUPTIBLE)
    world.emit("io_uring_complete", 120_000, WORKER, result=0, **sync)
    resumes(world, WRITER, 97_000, 120_500, 121_000, WORKER, INTERRUPTIBLE)
    world.emit("syscall", 122_000, WRITER, enter_ns=94_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    breakdown = analysed(world)
    conserves(breakdown)
    (found,) = accounts(breakdown)[WRITER]
    # Otherwise it was elsewhere, in no call, until 94000.
    throttled_ns = 90_000 - 23_500 if whose == WRITER and stop == "quota" else 0
    assert found.get("throttle.cpu", 0) == throttled_ns
    assert found["wakeup.reap"] == 94_000 - 23_500 - throttled_ns + 1_500
    # In its call, nothing tells what it did until it handed the sync over.
    assert breakdown.residual_ns.tolist() == [96_000 - 94_000]


@pytest.mark.parametrize("taken", ["in a call", "in no call"])
@pytest.mark.parametrize("idle", [True, False])
def test_what_a_worker_ran_waits_for_who_is_in_no_call(taken: str, idle: bool) -> None:
    """A plain write is handed over at 3000, and its worker, who says nothing of it, has nothing to
    do any more from 10000 on; its submitter takes it at 95000, in a call since 94000. Or where
    nobody knows what it does, or while the worker may be at it."""
    world = worlds()
    write = direct_write(0x70, open_flags=0, rwf=RWF_OF_LINKED)
    sync = {"request_key": 0x80, "opcode": 3, **FILE}
    linked_pair(world, write, sync)
    world.emit("io_uring_queue_async_work", 3_000, WRITER, **write)
    resumes(world, WORKER, 500, 3_100, 4_000, WRITER, INTERRUPTIBLE)
    world.emit("syscall", 4_500, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    idle_ns = 10_000 if idle else 95_500
    world.emit("io_uring_complete", 95_000, WRITER, result=8192, **write)
    world.emit("io_uring_queue_async_work", 96_000, WRITER, **sync)
    resumes(world, WORKER, idle_ns, 96_500, 97_000, WRITER, INTERRUPTIBLE)
    world.emit("io_uring_work", 98_000, WORKER, request_key=0x80)
    submit(world, DISK, WORKER, 98_000, Request(queue=500, scheduler=None, device=20_000))
    resumes(world, WORKER, 99_000, 118_500, 119_500, 0, UNINTERRUPTIBLE)
    world.emit("io_uring_complete", 120_000, WORKER, result=0, **sync)
    resumes(world, WRITER, 97_000, 120_500, 121_000, WORKER, INTERRUPTIBLE)
    enter_ns = 94_000 if taken == "in a call" else 96_800
    world.emit("syscall", 122_000, WRITER, enter_ns=enter_ns, call=CALL_IO_URING_ENTER, tgid=WRITER)
    breakdown = analysed(world)
    conserves(breakdown)
    (found,) = accounts(breakdown)[WRITER]
    away_ns = 94_000 - 10_000 if taken == "in a call" and idle else 0
    assert found["wakeup.reap"] == away_ns + 1_500
    assert breakdown.residual_ns.tolist()[0] >= 94_000 - 10_000 - away_ns


def test_no_worker_keeps_what_it_was_not_handed_yet() -> None:
    """Of three that are linked the first is run by a worker until 23500, and taken at 95000, when
    the second one is handed over: nobody knows what its submitter, in no call, did until then."""
    world = worlds()
    first = direct_write(0x70, open_flags=0, rwf=RWF_OF_LINKED)
    second = direct_write(0x78, open_flags=0, rwf=RWF_OF_LINKED)
    sync = {"request_key": 0x80, "opcode": 3, **FILE}
    for place, request in enumerate((first, second, sync)):
        world.emit("io_uring_submit_req", 2_000 + 100 * place, WRITER, **request)
    world.emit("io_uring_queue_async_work", 2_500, WRITER, **first)
    world.emit("syscall", 2_800, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    done = 2_500
    for key, began in ((0x70, 3_000), (0x78, 96_000), (0x80, 121_000)):
        resumes(world, WORKER, done, began - 500, began, WRITER, INTERRUPTIBLE)
        world.emit("io_uring_work", began, WORKER, request_key=key)
        submit(world, DISK, WORKER, began, Request(queue=500, scheduler=None, device=20_000))
        resumes(world, WORKER, began + 200, began + 21_000, began + 22_000, 0, UNINTERRUPTIBLE)
        world.emit("io_uring_work", began + 22_100, WORKER, request_key=0)
        done = began + 22_200
    world.emit("io_uring_complete", 95_000, WRITER, result=8192, **first)
    world.emit("io_uring_queue_async_work", 95_400, WRITER, **second)
    world.emit("io_uring_complete", 120_000, WRITER, result=8192, **second)
    world.emit("io_uring_queue_async_work", 120_400, WRITER, **sync)
    world.emit("io_uring_complete", 145_000, WORKER, result=0, **sync)
    breakdown = analysed(world)
    conserves(breakdown)
    (found,) = accounts(breakdown)[WRITER]
    assert found["device.data"] == 3 * 20_000
    assert found["wakeup.worker"] <= 3 * 1_000
    assert breakdown.residual_ns.tolist()[0] >= 95_000 - 25_100
