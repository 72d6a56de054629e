# SPDX-License-Identifier: Apache-2.0
"""Pools of workers: what any of them may take waits for those that have no CPU."""

from __future__ import annotations

import pytest

from iostrata.trace.layout import CALL_IO_URING_ENTER, THREAD_HELPER, THREAD_WORKER, WAKE_INTERRUPT
from tests.stitch.test_truth import accounts, analysed, conserves
from tests.stitch.test_uring import (
    DISK,
    FILE,
    INTERRUPTIBLE,
    UNINTERRUPTIBLE,
    WORKER,
    WRITER,
    at_disk,
    handed_over,
    resumes,
    worlds,
)
from tests.synthetic import O_DSYNC, Request, World, submit

SECOND = WORKER + 1
WRITE = {"opcode": 23, "size_bytes": 8192, "open_flags": O_DSYNC, **FILE}


def throttled(world: World, tid: int, since: int, on: int, kept: int) -> None:
    world.emit("sched_throttled", on, tid, subject_tid=tid, since_ns=since, throttled_ns=kept,
               cgroup=4711)  # fmt: skip


def works(world: World, tid: int, key: int, begin: int, off: int) -> None:
    """A write by a worker, from ``begin``; it sleeps for the disk from ``off`` on."""
    at_disk(world, tid, key, begin, (off, begin + 20_600, begin + 22_000), 20_000)
    world.emit("io_uring_complete", begin + 24_000, tid, request_key=key, result=8192, **WRITE)


@pytest.mark.parametrize("kept", [0, 40_000])
@pytest.mark.parametrize("late", [600, 30_600])
def test_what_no_worker_has_taken_waits_for_all_that_may(kept: int, late: int) -> None:
    """Two are handed over, at 3000 and 5000. One worker is let go for them at 3500, and has no CPU
    until 50000. With the first, it falls asleep at 51100, and has the writer make place: that has
    no CPU for ``late``, and then lets the second worker go. A quota may be why, until 43500 and
    for all but 600 of the other one.
    """
    world = worlds()
    world.emit("thread", 1, WRITER, tgid=WRITER, subject_tid=SECOND, kind=THREAD_WORKER,
               comm=b"iou-wrk-100")  # fmt: skip
    for key, enter in ((0x70, 1_000), (0x80, 3_000)):
        handed_over(world, key, enter, opcode=23, open_flags=O_DSYNC)
    world.emit("syscall", 5_500, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    resumes(world, WORKER, 500, 3_500, 50_000, WRITER, INTERRUPTIBLE)
    works(world, WORKER, 0x70, 51_000, 51_100)
    on = 51_200 + late
    resumes(world, WRITER, 6_000, 51_200, on, WORKER, INTERRUPTIBLE)
    resumes(world, SECOND, 400, on + 200, on + 1_200, WRITER, INTERRUPTIBLE)
    works(world, SECOND, 0x80, on + 2_200, on + 2_300)
    if kept:
        throttled(world, WORKER, 3_500, 50_000, kept)
        throttled(world, WRITER, 51_200, on, late - 600)
    breakdown = analysed(world)
    conserves(breakdown)
    found = accounts(breakdown)[WRITER][1]
    quota = 43_500 - 5_000 + late - 600 if kept else 0
    # 5000 to 50000, 51200 for late, 1000 for the second worker's own, and 1400 behind the disk.
    assert found["wakeup.runqueue"] == 45_000 + late + 1_000 + 1_400 - quota
    assert found.get("throttle.cpu", 0) == quota
    # The first one has it, until it sleeps, and the writer that lets the second one go.
    assert found["wakeup.worker"] == 1_200 + 200


def test_who_is_let_go_by_who_has_no_cpu_waits_for_that() -> None:
    """The kernel's pool synchronises two writes that a disk completed at 24000. It lets one worker
    go, which has no CPU until 90000; that one lets the other go, at 91000."""
    world, first, second = worlds(), 66, 67
    for tid in (first, second):
        world.emit("thread", 1, tid, tgid=tid, subject_tid=tid, kind=THREAD_HELPER,
                   comm=b"kworker/1:%d" % tid)  # fmt: skip
    for key, enter in ((0x70, 1_000), (0x80, 2_000)):
        world.emit("io_uring_submit_req", enter + 500, WRITER, request_key=key, **WRITE)
        submit(world, DISK, WRITER, enter + 700, Request(queue=300, scheduler=None, device=21_000))
    world.emit("syscall", 4_000, WRITER, enter_ns=500, call=CALL_IO_URING_ENTER, tgid=WRITER)
    idle = {"state": 0x402, "off_ns": 300}
    world.emit("sched_resume", 90_000, first, subject_tid=first, wake_ns=25_000, waker_tid=0,
               waker_context=WAKE_INTERRUPT, **idle)  # fmt: skip
    world.emit("sched_resume", 93_000, second, subject_tid=second, wake_ns=91_000,
               waker_tid=first, waker_context=1, **idle)  # fmt: skip
    for tid, key, begin in ((first, 0x70, 91_500), (second, 0x80, 93_500)):
        world.emit("ext4_sync_file", begin + 500, tid, enter_ns=begin, request_key=key, **FILE)
        world.emit("io_uring_complete", begin + 600, WRITER, request_key=key, result=8192, **WRITE)
    breakdown = analysed(world)
    conserves(breakdown)
    found = accounts(breakdown)[WRITER][1]
    # From the transfer's end on there is the interrupt until 25000; the first one has it until
    # 91000, and the second from 93000 on.
    assert found["wakeup.runqueue"] == 65_000 + 2_000
    assert found["wakeup.worker"] == 1_000 + 1_000 + 500


@pytest.mark.parametrize("kept", [0, 25_000])
def test_what_the_kernel_s_thread_is_to_let_go_waits_for_that(kept: int) -> None:
    """The process made the thread that submits for it (SQPOLL), which is no worker of its. Asked
    for a second worker at 7100, that is preempted until 50000, or a quota keeps it."""
    world, process = worlds(), WRITER - 1
    world.emit("thread", 1, process, tgid=process, subject_tid=WRITER, kind=THREAD_WORKER,
               comm=b"iou-sqp-99")  # fmt: skip
    world.emit("thread", 1, WRITER, tgid=process, subject_tid=SECOND, kind=THREAD_WORKER,
               comm=b"iou-wrk-100")  # fmt: skip
    for key, enter in ((0x70, 1_000), (0x80, 3_000)):
        handed_over(world, key, enter, opcode=23, open_flags=O_DSYNC)
    resumes(world, WORKER, 500, 3_500, 4_000, WRITER, INTERRUPTIBLE)
    works(world, WORKER, 0x70, 6_000, 7_100)
    world.emit("sched_resume", 50_000, WRITER, off_ns=6_500, wake_ns=0, state=0, subject_tid=WRITER)
    if kept:
        throttled(world, WRITER, 6_500, 50_000, kept)
    resumes(world, SECOND, 400, 50_200, 51_200, WRITER, INTERRUPTIBLE)
    works(world, SECOND, 0x80, 52_200, 52_300)
    breakdown = analysed(world)
    conserves(breakdown)
    found = accounts(breakdown)[WRITER][1]
    # From 7100 to 50000, 1000 for the second worker's own, and 1400 behind the disk.
    quota = 6_500 + kept - 7_100 if kept else 0
    assert found["wakeup.runqueue"] == 42_900 + 1_000 + 1_400 - quota
    assert found.get("throttle.cpu", 0) == quota
    assert found["wakeup.worker"] == 2_100 + 200


@pytest.mark.parametrize("kept", [0, 25_000])
def test_no_other_is_let_go_while_one_is_kept_in_the_midst_of_something(kept: int) -> None:
    """The first one's worker is preempted from 9000 to 40000, or a quota keeps it, before it sleeps
    for the disk. It has the second one taken then, at 43000."""
    world = worlds()
    world.emit("thread", 1, WRITER, tgid=WRITER, subject_tid=SECOND, kind=THREAD_WORKER,
               comm=b"iou-wrk-100")  # fmt: skip
    for key, enter in ((0x70, 1_000), (0x80, 3_000)):
        handed_over(world, key, enter, opcode=23, open_flags=O_DSYNC)
    world.emit("syscall", 5_500, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    resumes(world, WORKER, 500, 3_500, 7_000, WRITER, INTERRUPTIBLE)
    world.emit("io_uring_work", 9_000, WORKER, request_key=0x70)
    world.emit("sched_resume", 40_000, WORKER, off_ns=9_000, wake_ns=0, state=0,
               subject_tid=WORKER)  # fmt: skip
    if kept:
        throttled(world, WORKER, 9_000, 40_000, kept)
    submit(world, DISK, WORKER, 41_000, Request(queue=500, scheduler=None, device=20_000))
    resumes(world, WORKER, 41_600, 61_600, 62_000, 0, UNINTERRUPTIBLE)
    world.emit("io_uring_complete", 64_000, WORKER, request_key=0x70, result=8192, **WRITE)
    resumes(world, SECOND, 400, 41_800, 42_000, WRITER, INTERRUPTIBLE)
    works(world, SECOND, 0x80, 43_000, 43_100)
    breakdown = analysed(world)
    conserves(breakdown)
    found = accounts(breakdown)[WRITER][1]
    # 5000 to 7000, 9000 to 40000, 200 for the second worker's own, and 1400 behind the disk.
    assert found["wakeup.runqueue"] == 2_000 + 31_000 + 200 + 1_400 - kept
    assert found.get("throttle.cpu", 0) == kept
    assert found["wakeup.worker"] == 2_000 + 1_800


@pytest.mark.parametrize("later", [True, False])
def test_so_it_is_while_one_is_kept_that_says_nothing(later: bool) -> None:
    """It was let go for what is not recorded, or for what it runs without a word. That it says
    something ``later``, or not, is nothing to it."""
    world = worlds()
    world.emit("thread", 1, WRITER, tgid=WRITER, subject_tid=SECOND, kind=THREAD_WORKER,
               comm=b"iou-wrk-100")  # fmt: skip
    world.emit("thread", 1, WRITER, tgid=WRITER, subject_tid=WORKER, kind=THREAD_WORKER,
               comm=b"iou-wrk-100")  # fmt: skip
    handed_over(world, 0x80, 3_000, opcode=23, open_flags=O_DSYNC)
    world.emit("syscall", 5_500, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    resumes(world, WORKER, 500, 3_500, 7_000, WRITER, INTERRUPTIBLE)
    world.emit("sched_resume", 40_000, WORKER, off_ns=9_000, wake_ns=0, state=0,
               subject_tid=WORKER)  # fmt: skip
    resumes(world, SECOND, 400, 41_800, 42_000, WRITER, INTERRUPTIBLE)
    works(world, SECOND, 0x80, 43_000, 43_100)
    if later:
        resumes(world, WORKER, 41_600, 80_000, 80_500, WRITER, INTERRUPTIBLE)
        world.emit("io_uring_work", 81_000, WORKER, request_key=0x90)
    breakdown = analysed(world)
    conserves(breakdown)
    (found,) = accounts(breakdown)[WRITER]
    assert found["wakeup.runqueue"] == 2_000 + 31_000 + 200 + 1_400


@pytest.mark.parametrize("pool", ["1", "u1"])
def test_what_a_cpu_s_pool_is_to_do_waits_for_who_is_kept_there(pool: str) -> None:
    """A worker of the kernel's is preempted from 15000 to 90000, in the midst of something; another
    one synchronises what the disk completed at 23000. Of no one CPU's pool there may be others."""
    world, kept, last = worlds(), 66, 67
    for tid in (kept, last):
        world.emit("thread", 1, tid, tgid=tid, subject_tid=tid, kind=THREAD_HELPER,
                   comm=f"kworker/{pool}:{tid}".encode())  # fmt: skip
    world.emit("io_uring_submit_req", 1_500, WRITER, request_key=0x70, **WRITE)
    submit(world, DISK, WRITER, 1_700, Request(queue=300, scheduler=None, device=21_000))
    world.emit("syscall", 4_000, WRITER, enter_ns=500, call=CALL_IO_URING_ENTER, tgid=WRITER)
    world.emit("sched_resume", 90_000, kept, subject_tid=kept, off_ns=15_000, wake_ns=0, state=0)
    world.emit("sched_resume", 93_000, last, subject_tid=last, off_ns=300, wake_ns=91_000,
               waker_tid=kept, waker_context=1, state=0x402)  # fmt: skip
    world.emit("ext4_sync_file", 94_000, last, enter_ns=93_500, request_key=0x70, **FILE)
    world.emit("io_uring_complete", 94_100, WRITER, request_key=0x70, result=8192, **WRITE)
    breakdown = analysed(world)
    conserves(breakdown)
    (found,) = accounts(breakdown)[WRITER]
    # The disk's end, at 23000, is known; the last one's own wait is 2000.
    waited = 90_000 - 23_000 if pool == "1" else 0
    assert found["wakeup.runqueue"] == waited + 2_000
    assert found["wakeup.worker"] == 93_500 - 23_000 - waited - 2_000


def test_who_is_not_let_go_waits_for_what_another_sleeps_for() -> None:
    """The first one's worker falls asleep at 5100, for the disk until 25600, and nobody lets the
    second one go for what was handed over at 5000: that was awake then, but had looked before. The
    writer does when the first one falls asleep again, at 28000, behind what it had to do."""
    world = worlds()
    world.emit("thread", 1, WRITER, tgid=WRITER, subject_tid=SECOND, kind=THREAD_WORKER,
               comm=b"iou-wrk-100")  # fmt: skip
    for key, enter in ((0x70, 1_000), (0x80, 3_000)):
        handed_over(world, key, enter, opcode=23, open_flags=O_DSYNC)
    resumes(world, WORKER, 500, 3_500, 4_000, WRITER, INTERRUPTIBLE)
    at_disk(world, WORKER, 0x70, 4_500, (5_100, 25_100, 26_000), 20_000)
    resumes(world, WORKER, 28_000, 70_000, 70_000, 0, UNINTERRUPTIBLE)
    world.emit("io_uring_complete", 71_000, WORKER, request_key=0x70, result=8192, **WRITE)
    resumes(world, SECOND, 5_050, 28_200, 29_200, WRITER, INTERRUPTIBLE)
    works(world, SECOND, 0x80, 30_200, 30_300)
    breakdown = analysed(world)
    conserves(breakdown)
    found = accounts(breakdown)[WRITER][1]
    # The first one sleeps from 5100 on, is let go 100 after the disk's end, and runs 900 later, for
    # 2000. The second one has a CPU 1000 after it was let go, and 1400 after its own disk.
    assert found["device.data"] == (25_000 - 5_100) + 20_000
    assert found["wakeup.interrupt"] == 100 + 100
    assert found["wakeup.runqueue"] == 900 + 1_000 + 1_400
    assert found["wakeup.worker"] == 100 + 2_000 + 200


def test_the_first_worker_waits_for_who_is_to_make_it() -> None:
    """The writer hands over at 3000 and has no CPU from 3200 to 50000; it makes the worker at
    51000, which runs at 52000."""
    world = World()
    world.target(WRITER)
    handed_over(world, 0x70, 1_000, opcode=23, open_flags=O_DSYNC)
    resumes(world, WRITER, 3_200, 0, 50_000, 0, 0)
    world.emit("thread", 51_000, WRITER, tgid=WRITER, subject_tid=SECOND, kind=THREAD_WORKER,
               comm=b"iou-wrk-100")  # fmt: skip
    resumes(world, SECOND, 51_000, 0, 52_000, 0, 0)
    works(world, SECOND, 0x70, 53_000, 53_100)
    world.emit("syscall", 78_000, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    breakdown = analysed(world)
    conserves(breakdown)
    ((held,),) = accounts(breakdown).values()
    assert held["wakeup.runqueue"] == 46_800 + 1_000 + 1_400
    # From 3000 on but for that, until the worker ran.
    assert held["wakeup.worker"] == 49_000 - 46_800 - 1_000
