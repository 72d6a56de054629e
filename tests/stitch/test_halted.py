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
    stopped_ns = 90_000 - 23_500 if whose == WRITER else 0
    collected_ns = 1_500
    if stop == "quota":
        assert found.get("throttle.cpu", 0) == stopped_ns
        assert found["wakeup.reap"] == collected_ns
    else:
        assert found["wakeup.reap"] == stopped_ns + collected_ns
    # It was in no call, and nothing tells what it did otherwise until it handed the sync over.
    assert breakdown.residual_ns.tolist() == [96_000 - 23_500 - stopped_ns]
