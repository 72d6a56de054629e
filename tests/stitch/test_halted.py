# SPDX-License-Identifier: Apache-2.0
"""Who is to go on with a chain of io_uring's is stopped: what is complete waits for that."""

from __future__ import annotations

import numpy as np
import pytest

from iostrata.stitch.opcodes import RWF_OF_LINKED
from iostrata.trace.layout import CALL_IO_URING_ENTER, STOP_FREEZER, STOP_SIGNAL, THREAD_WORKER
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
    at_disk(world, WORKER, 0x80, 98_000, (99_000, 118_500, 119_500), 20_000)
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
    at_disk(world, WORKER, 0x80, 98_000, (99_000, 118_500, 119_500), 20_000)
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


@pytest.mark.parametrize("where", ["in its call", "elsewhere"])
def test_what_workers_ran_without_a_word_waited_for_one(where: str) -> None:
    """A plain write is handed over at 3000, to a worker that is at a sync until 60000, runs it
    without a word then, and is at another sync from 61000 on. Its submitter sleeps in its call
    until that lets it go at 60500, for the sync or for the write, which was not complete before,
    but is at 61000; it has a CPU from 70000 on. Where it slept elsewhere, what is complete would
    not have let it go: nothing tells what the worker did from 60000 to 61000."""
    world = worlds()
    write = direct_write(0x70, open_flags=0, rwf=RWF_OF_LINKED)
    before, sync, other = ({"request_key": key, "opcode": 3, **FILE} for key in (0x60, 0x80, 0x90))
    world.emit("io_uring_submit_req", 1_500, WRITER, **before)
    world.emit("io_uring_queue_async_work", 1_600, WRITER, **before)
    resumes(world, WORKER, 500, 1_650, 1_700, WRITER, INTERRUPTIBLE)
    world.emit("io_uring_submit_req", 1_700, WRITER, **other)
    world.emit("io_uring_queue_async_work", 1_800, WRITER, **other)
    linked_pair(world, write, sync)
    world.emit("io_uring_work", 2_000, WORKER, request_key=0x60)
    world.emit("io_uring_queue_async_work", 3_000, WRITER, **write)
    submit(world, DISK, WORKER, 2_000, Request(queue=500, scheduler=None, device=57_000))
    resumes(world, WORKER, 3_000, 59_500, 60_000, 0, UNINTERRUPTIBLE)
    world.emit("io_uring_work", 61_000, WORKER, request_key=0x90)
    submit(world, DISK, WORKER, 61_000, Request(queue=500, scheduler=None, device=18_000))
    slept = 4_000 if where == "in its call" else 5_000
    resumes(world, WRITER, slept, 60_500, 70_000, WORKER, INTERRUPTIBLE)
    if where == "elsewhere":
        world.emit("syscall", 4_500, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    world.emit("io_uring_complete", 70_100, WRITER, result=0, **before)
    world.emit("io_uring_complete", 70_200, WRITER, result=8192, **write)
    world.emit("io_uring_queue_async_work", 70_300, WRITER, **sync)
    resumes(world, WORKER, 62_000, 79_500, 80_000, 0, UNINTERRUPTIBLE)
    at_disk(world, WORKER, 0x80, 80_500, (81_500, 101_000, 101_500), 20_000)
    world.emit("io_uring_work", 102_000, WORKER, request_key=0)
    resumes(world, WRITER, 71_000, 102_500, 103_000, WORKER, INTERRUPTIBLE)
    world.emit("io_uring_complete", 103_100, WRITER, result=0, **sync)
    world.emit("io_uring_complete", 103_200, WRITER, result=0, **other)
    enter_ns = 1_000 if where == "in its call" else 70_050
    world.emit("syscall", 104_000, WRITER, enter_ns=enter_ns, call=CALL_IO_URING_ENTER, tgid=WRITER)
    breakdown = analysed(world)
    conserves(breakdown)
    _, _, found = accounts(breakdown)[WRITER]
    residual_ns = breakdown.residual_ns.tolist()[2]
    assert found["wakeup.runqueue"] >= 70_000 - 61_000
    if where == "in its call":
        assert found["wakeup.worker"] >= 60_500 - 3_000
        assert 500 <= residual_ns <= 1_000
    else:
        assert 1_000 <= residual_ns <= 1_500


@pytest.mark.parametrize(
    "before", ["nothing", "a write", "a write to the other one", "a sync", "one that is complete"]
)
@pytest.mark.parametrize("second", [False, True])
def test_what_was_handed_over_later_is_taken_up_later(before: str, second: bool) -> None:
    """A plain write is handed over at 3000 and run without a word; of another file, what was handed
    over at 3500 its worker is at from 6000 on, until long after that. Its submitter, which takes
    it at 95000, is in a call for that since 94000. The write was complete at 6000, as nobody else
    may have run it later: be it that it had to wait for the turn of another one to its file, or
    that the other one was taken with that. A second worker that was let go then as well may be the
    one that ran it, until it is idle at 8000."""
    world = worlds()
    other_file = {"inode": 4711, "dev": FILE["dev"]}
    write = direct_write(0x70, open_flags=0, rwf=RWF_OF_LINKED)
    sync = {"request_key": 0x80, "opcode": 3, **FILE}
    other = direct_write(0x90, **other_file)
    ahead = direct_write(0x60, open_flags=0)
    if before == "a sync":
        ahead["opcode"] = 3
    if before == "a write to the other one":
        ahead |= other_file
    resumes(world, WORKER, 500, 1_600, 1_700, WRITER, INTERRUPTIBLE)
    if before != "nothing":
        world.emit("io_uring_submit_req", 1_200, WRITER, **ahead)
        world.emit("io_uring_queue_async_work", 1_500, WRITER, **ahead)
    if before == "one that is complete":
        world.emit("io_uring_complete", 1_900, WRITER, result=8192, **ahead)
    linked_pair(world, write, sync)
    world.emit("io_uring_queue_async_work", 3_000, WRITER, **write)
    world.emit("io_uring_submit_req", 3_400, WRITER, **other)
    world.emit("io_uring_queue_async_work", 3_500, WRITER, **other)
    if second:
        world.emit("thread", 2, WRITER, tgid=WRITER, subject_tid=WORKER + 1, kind=THREAD_WORKER,
                   comm=b"iou-wrk-100")  # fmt: skip
        resumes(world, WORKER + 1, 600, 3_600, 3_700, WRITER, INTERRUPTIBLE)
        resumes(world, WORKER + 1, 8_000, 130_000, 130_100, WRITER, INTERRUPTIBLE)
    world.emit("syscall", 4_500, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    world.emit("io_uring_work", 6_000, WORKER, request_key=0x90)
    submit(world, DISK, WORKER, 6_000, Request(queue=500, scheduler=None, device=114_000))
    world.emit("io_uring_complete", 95_000, WRITER, result=8192, **write)
    world.emit("io_uring_queue_async_work", 96_000, WRITER, **sync)
    resumes(world, WORKER, 7_000, 121_000, 122_000, 0, UNINTERRUPTIBLE)
    world.emit("io_uring_complete", 123_000, WRITER, result=8192, **other)
    at_disk(world, WORKER, 0x80, 124_000, (125_000, 145_000, 146_000), 20_000)
    world.emit("io_uring_complete", 147_000, WRITER, result=0, **sync)
    world.emit("syscall", 148_000, WRITER, enter_ns=94_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    breakdown = analysed(world)
    conserves(breakdown)
    (row,) = np.flatnonzero(breakdown.writes.inode == FILE["inode"])
    found = accounts(breakdown)[WRITER][row]
    assert found["wakeup.reap"] == 94_000 - (8_000 if second else 6_000)


@pytest.mark.parametrize("says", ["nothing", "at last", "of another one", "of none"])
@pytest.mark.parametrize("other_ns", [0, 2_900, 3_200])
def test_a_worker_that_copies_is_at_it(says: str, other_ns: int) -> None:
    """A plain write is handed over at 3000, and maybe another one; its worker has a CPU from 4000
    on, and lets the submitter go at 60000 in whose call it is taken: or says so just before that.
    That is the worker's CPU, unless it may have been at another write without a word: one that was
    handed over later only if that does not have to wait for its turn behind this one."""
    world = worlds()
    write = direct_write(0x70, open_flags=0, rwf=RWF_OF_LINKED)
    sync = {"request_key": 0x80, "opcode": 3, **FILE}
    linked_pair(world, write, sync)
    world.emit("io_uring_queue_async_work", 3_000, WRITER, **write)
    if other_ns:
        other = direct_write(0x90, open_flags=0)
        world.emit("io_uring_submit_req", other_ns - 100, WRITER, **other)
        world.emit("io_uring_queue_async_work", other_ns, WRITER, **other)
    resumes(world, WORKER, 500, 3_300, 4_000, WRITER, INTERRUPTIBLE)
    if says == "of none":
        # Kept from its CPU in the midst of it, it would say so.
        resumes(world, WORKER, 58_000, 0, 59_000, 0, 0)
    if says == "at last":
        world.emit("io_uring_work", 59_500, WORKER, request_key=0x70)
    if says == "of another one":
        world.emit("io_uring_work", 30_000, WORKER, request_key=0x666)
    resumes(world, WRITER, 4_200, 60_000, 61_000, WORKER, INTERRUPTIBLE)
    if says in {"at last", "of another one"}:
        world.emit("io_uring_work", 60_500, WORKER, request_key=0)
    world.emit("io_uring_complete", 61_500, WRITER, result=8192, **write)
    world.emit("io_uring_queue_async_work", 62_000, WRITER, **sync)
    resumes(world, WORKER, 60_600, 62_100, 62_500, WRITER, INTERRUPTIBLE)
    at_disk(world, WORKER, 0x80, 63_000, (64_000, 84_000, 85_000), 20_000)
    world.emit("io_uring_work", 86_000, WORKER, request_key=0)
    resumes(world, WRITER, 62_200, 86_100, 86_500, WORKER, INTERRUPTIBLE)
    world.emit("io_uring_complete", 87_000, WRITER, result=0, **sync)
    world.emit("syscall", 88_000, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    breakdown = analysed(world)
    conserves(breakdown)
    (found,) = accounts(breakdown)[WRITER]
    # Said to be at it at 59500, it may have been at the other one since.
    off_ns = {"of none": 1_000, "at last": 500 if other_ns else 0}.get(says, 0)
    if says != "of another one" and (not other_ns or (says == "at last" and other_ns > 3_000)):
        assert found["syscall"] >= 60_000 - 4_000 - off_ns
        assert found["wakeup.worker"] <= 1_000
    else:
        assert found["wakeup.worker"] >= 60_000 - 4_000 - off_ns
    assert found["wakeup.runqueue"] >= 700 + (1_000 if says == "of none" else 0)


def test_a_worker_that_had_no_cpu_amid_it_is_at_it_again() -> None:
    """A plain write's worker copies from 4000 to 60000, but that it has no CPU from 30000 to 31000,
    and says so. Its submitter is in a call for what is complete since 90000 only."""
    world = worlds()
    write = direct_write(0x70, open_flags=0, rwf=RWF_OF_LINKED)
    sync = {"request_key": 0x80, "opcode": 3, **FILE}
    linked_pair(world, write, sync)
    world.emit("io_uring_queue_async_work", 3_000, WRITER, **write)
    resumes(world, WORKER, 500, 3_300, 4_000, WRITER, INTERRUPTIBLE)
    world.emit("syscall", 4_500, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    world.emit("io_uring_work", 30_000, WORKER, request_key=0x70)
    resumes(world, WORKER, 30_000, 0, 31_000, 0, 0)
    world.emit("io_uring_work", 60_000, WORKER, request_key=0)
    world.emit("io_uring_complete", 91_000, WRITER, result=8192, **write)
    world.emit("io_uring_queue_async_work", 91_500, WRITER, **sync)
    resumes(world, WORKER, 60_000, 91_600, 92_000, WRITER, INTERRUPTIBLE)
    at_disk(world, WORKER, 0x80, 93_000, (94_000, 114_000, 115_000), 20_000)
    world.emit("io_uring_complete", 117_000, WRITER, result=0, **sync)
    world.emit("syscall", 118_000, WRITER, enter_ns=90_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    breakdown = analysed(world)
    conserves(breakdown)
    (found,) = accounts(breakdown)[WRITER]
    assert found["syscall"] >= 60_000 - 4_000 - 1_000
    assert found["wakeup.reap"] in range(90_000 - 60_000, 90_000 - 60_000 + 5_000)


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
        at_disk(world, WORKER, key, began, (began + 200, began + 21_000, began + 22_000), 20_000)
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
