# SPDX-License-Identifier: Apache-2.0
"""Who is behind kernel workers, and commits that were not seen whole: to the nanosecond."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from iostrata.trace.layout import (
    CALL_IO_URING_ENTER,
    THREAD_HELPER,
    THREAD_WORKER,
    WAKE_THREAD,
)
from tests.analysis.test_who import DISK, NOISY, WRITER, analysed, run, told, write_of
from tests.analysis.test_who_journal import JOURNAL, handles, known, waiting
from tests.stitch.test_wakers import IDLE, KWORKER, Sleeper, resume
from tests.synthetic import Commit, Request, World, Writer, submit

CPU = KWORKER % 4
PREEMPTED, INTERRUPTIBLE, UNINTERRUPTIBLE = 0, 1, 2
URING = WRITER + 4


def test_who_kept_a_kernel_worker_and_what_it_did_itself(tmp_path: Path) -> None:
    world = World()
    world.target(KWORKER, kind=THREAD_HELPER)
    world.emit("task", 1, KWORKER, tgid=KWORKER, subject_tid=KWORKER, process=b"kworker/u8:1",
               comm=b"kworker/u8:1")  # fmt: skip
    sleeper = Sleeper(world)
    resume(world, KWORKER, 500, 20_000, 40_000, state=IDLE)
    run(world, 1_000, 40_000, cpu=CPU)
    # From the CPU once more, in the midst of its work.
    resume(world, KWORKER, 60_000, 0, 70_000, state=PREEMPTED)
    run(world, 60_000, 68_000, cpu=CPU)
    sleeper.wakes(95_000, KWORKER, WAKE_THREAD)
    found = told(analysed(world, tmp_path / "machine"))
    assert found["wakeup.worker"] == {"kworker/u8:1": 20_000 + 25_000}
    # The sleeper's own 2000, too.
    assert found["wakeup.runqueue"] == {"hog/noisy": 20_000 + 8_000, "unknown": 2_000 + 2_000}


@pytest.mark.parametrize(
    ("birth", "before"), [(7, "kworker/u8:1/noisy"), (8, "kworker/u8:1")], ids=["same", "another"]
)
def test_a_thread_is_one_before_its_group_is_told_too(
    birth: int, before: str, tmp_path: Path
) -> None:
    """Unless its number was another's by then, which had the same name."""
    world = World()
    name = b"kworker/u8:1"
    for time, born in ((1, 7), (150_000, birth)):
        world.emit("thread", time, KWORKER, tgid=KWORKER, subject_tid=KWORKER, process=name,
                   kind=THREAD_HELPER, birth=born)  # fmt: skip
    world.emit("task", 150_000, KWORKER, tgid=KWORKER, subject_tid=KWORKER, process=name,
               cgroup=NOISY)  # fmt: skip
    sleeper = Sleeper(world)
    resume(world, KWORKER, 500, 20_000, 25_000, state=IDLE)
    sleeper.wakes(70_000, KWORKER, WAKE_THREAD)
    sleeper.off, sleeper.writer.now = 211_000, 210_000
    sleeper.writer.enter()
    resume(world, KWORKER, 70_500, 220_000, 225_000, state=IDLE)
    sleeper.wakes(270_000, KWORKER, WAKE_THREAD)
    found = told(analysed(world, tmp_path / "machine"))
    assert found["wakeup.worker"] == Counter({before: 45_000}) + Counter(
        {"kworker/u8:1/noisy": 45_000}
    )


def test_what_comes_before_a_commit_is_for_whom_it_is(tmp_path: Path) -> None:
    """Its thread was let go, and wrote the journal's superblock or what not before it began."""
    world = World()
    known(world)
    commit = Commit(world, DISK, 1_000_000, 7).run(20_000, 4_000, [])
    resume(world, JOURNAL, 500_000, 985_000, 988_000, WRITER, context=WAKE_THREAD,
           state=INTERRUPTIBLE)  # fmt: skip
    handles(world, commit, 1_020_000, writer=1, neighbour=3)
    waiting(world, commit)
    found = told(analysed(world, tmp_path / "machine"))
    assert found["journal.start"] == {"neighbour/noisy": 7_500, "writer": 2_500}


def test_a_commit_that_still_goes_on_at_the_end_was_ahead(tmp_path: Path) -> None:
    world = World()
    known(world)
    commit = Commit(world, DISK, 900_000, 7).run(20_000, 4_000, [])
    world.builder._rows["jbd2_end_commit"].pop()
    handles(world, commit, 920_000, neighbour=1)
    ahead = Request(scheduler=None, device=400_000, sector=9_000, meta=True)
    submit(world, DISK, JOURNAL, 1_000_000, ahead)
    writer = Writer(world, WRITER, DISK, 1_100_000)
    writer.enter()
    writer.data(Request(queue=50_000, scheduler=None, device=500_000))
    write_of(writer)
    found = told(analysed(world, tmp_path / "machine"))
    assert found["device.data"] == {"neighbour/noisy": 250_300, "writer": 249_700}


@pytest.mark.parametrize("asked", [True, False])
def test_nobody_is_seen_in_the_log_of_xfs(asked: bool, tmp_path: Path) -> None:
    world = World()
    writer = Writer(world, WRITER, DISK, 1_000)
    writer.enter()
    log = {"iclog_key": 0xE0, "lsn": 5, "bio_key": 0, "dev": DISK}
    world.emit("xlog_iclog_sync", 2_000, WRITER, **log)
    world.emit("xlog_iclog_wait_on", 2_100, WRITER, **log)
    world.emit("xlog_iclog_sync_done", 53_000, KWORKER, **log)
    resume(world, WRITER, 2_200, 53_400, 53_900, KWORKER, context=WAKE_THREAD)
    if asked:
        run(world, 53_400, 53_900)
    writer.now = 54_000
    write_of(writer)
    found = analysed(world, tmp_path / "machine")
    gaps = [gap.layer for gap in found.quality.not_observed]
    assert ("who is in XFS's log" in gaps) == asked
    if asked:
        assert told(found)["journal.logging"] == {"unknown": 50_900}


def test_what_a_worker_of_io_uring_sleeps_for_is_waited_for(tmp_path: Path) -> None:
    """Its second request is behind the first one's on the disk, and then behind the worker."""
    world = World()
    world.target(WRITER)
    for tid, kind in ((WRITER, 1), (URING, THREAD_WORKER)):
        world.emit("thread", 1, WRITER, tgid=WRITER, subject_tid=tid, kind=kind, comm=b"writer",
                   process=b"writer")  # fmt: skip
    sync = {"opcode": 3, "inode": 12, "dev": DISK, "size_bytes": 0}
    for key, time in ((0x70, 2_000), (0x80, 3_000)):
        world.emit("io_uring_submit_req", time, WRITER, request_key=key, **sync)
        world.emit("io_uring_queue_async_work", time + 500, WRITER, request_key=key, **sync)
    resume(world, URING, 500, 2_700, 3_700, WRITER, context=WAKE_THREAD)
    submit(world, DISK, URING, 5_000, Request(queue=500, scheduler=None, device=20_000))
    resume(world, URING, 6_000, 25_500, 29_500, state=UNINTERRUPTIBLE)
    run(world, 20_000, 29_000, cpu=URING % 4)
    for key, time in ((0x70, 40_000), (0x80, 44_000)):
        world.emit("io_uring_complete", time, URING, result=0, request_key=key, **sync)
    world.emit("syscall", 45_000, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    found = told(analysed(world, tmp_path / "machine"))
    assert found["device.data"] == {"writer": 20_000 + 19_500}
    # It had been let go before the second one was handed over, and then began the first.
    assert found["wakeup.worker"] == {"writer": 10_500, "unknown": 200 + 2_300}
    assert found["wakeup.runqueue"] == {
        "hog/noisy": 2 * 3_500, "unknown": 1_000 + 200 + 2 * 500,
    }  # fmt: skip


def test_a_worker_of_io_uring_is_at_what_comes_first(tmp_path: Path) -> None:
    """Its second request is kept by the first, and by who takes its CPU midway."""
    world = World()
    world.target(WRITER)
    for tid, kind in ((WRITER, 1), (URING, THREAD_WORKER)):
        world.emit("thread", 1, WRITER, tgid=WRITER, subject_tid=tid, kind=kind, comm=b"writer",
                   process=b"writer")  # fmt: skip
    sync = {"opcode": 3, "inode": 12, "dev": DISK, "size_bytes": 0}
    for key, time in ((0x70, 2_000), (0x80, 3_000)):
        world.emit("io_uring_submit_req", time, WRITER, request_key=key, **sync)
        world.emit("io_uring_queue_async_work", time + 500, WRITER, request_key=key, **sync)
    resume(world, URING, 500, 2_700, 3_700, WRITER, context=WAKE_THREAD)
    resume(world, URING, 10_000, 0, 30_000, state=PREEMPTED)
    run(world, 10_000, 28_000, cpu=URING % 4)
    for key, time in ((0x70, 40_000), (0x80, 44_000)):
        world.emit("io_uring_complete", time, URING, result=0, request_key=key, **sync)
    world.emit("syscall", 45_000, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    found = told(analysed(world, tmp_path / "machine"))
    # Until it was let go nobody was seen to keep it; of its CPU both requests had to wait.
    assert found["wakeup.worker"] == {"writer": 6_300 + 10_000, "unknown": 200}
    assert found["wakeup.runqueue"] == {
        "hog/noisy": 2 * 18_000, "unknown": 1_000 + 200 + 2 * 2_000,
    }  # fmt: skip
