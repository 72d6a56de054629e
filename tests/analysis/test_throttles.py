# SPDX-License-Identifier: Apache-2.0
"""Limits of control groups in synthetic worlds: each in its own row, to the nanosecond."""

from __future__ import annotations

from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.model import NotObserved
from iostrata.recording import open_recording
from iostrata.stitch.opcodes import RWF_OF_LINKED
from iostrata.trace.layout import (
    CALL_IO_URING_ENTER,
    THREAD_HELPER,
    THREAD_WORKER,
    WAKE_THREAD,
    WAKE_TIMER,
)
from tests.stitch.test_pauses import AIO, PWRITE, asynchronous
from tests.synthetic import O_DSYNC, TASK_UNINTERRUPTIBLE, Request, World, Writer, device, submit

DISK = device(253, 0)
PROGRAM, WRITER, WORKER, KWORKER = 99, 100, 101, 77
KEY = 0xFFFF_8880_0000_7700
FILE = {"inode": 12, "dev": DISK}
WRITE = {"opcode": 23, "size_bytes": 8192, "open_flags": O_DSYNC, **FILE}


def rows(world: World, path: Path) -> dict[str, int]:
    world.builder.write(path)
    breakdown = analyse(open_recording(path))
    assert breakdown.residual_ns.sum() == 0
    return {
        layer.row: int(times.sum())
        for layer, times in zip(breakdown.layers, breakdown.time_ns, strict=True)
    }


@pytest.mark.parametrize(
    ("throttled", "found"),
    [
        (60_000, {"throttle.cpu": 60_000, "wakeup.runqueue": 40_000}),
        # It had begun before the thread could run.
        (250_000, {"throttle.cpu": 100_000}),
        (0, {"wakeup.runqueue": 100_000}),
    ],
)
def test_a_quota_is_apart_from_the_run_queue(
    throttled: int, found: dict[str, int], tmp_path: Path
) -> None:
    world = World()
    writer = Writer(world, 101, DISK, 1_000_000)
    writer.enter()
    writer.cpu(5_000)
    since = writer.now
    writer.preempted(100_000)
    if throttled:
        world.emit("sched_throttled", writer.now, 101, since_ns=since, throttled_ns=throttled,
                   subject_tid=101)  # fmt: skip
    writer.cpu(5_000)
    writer.leave("pwrite64", flags=O_DSYNC, result=4096, size=4096)
    assert rows(world, tmp_path / "machine") == {"syscall": 10_000, **found}


@pytest.mark.parametrize("held", [True, False])
def test_what_a_limit_holds_back(held: bool, tmp_path: Path) -> None:
    """The request is queued by a kernel worker, long after its writer fell asleep."""
    world = World()
    writer = Writer(world, 101, DISK, 1_000_000)
    writer.enter()
    writer.cpu(5_000)
    asleep, queued = writer.now, writer.now + 400_000
    request = Request(queue=2_000, scheduler=None, device=50_000)
    submit(world, DISK, KWORKER, queued, request, held=held)
    done = queued + 52_000
    world.emit("sched_resume", done + 3_000, 101, off_ns=asleep, wake_ns=done + 1_000,
               waker_tid=0, state=TASK_UNINTERRUPTIBLE, subject_tid=101, waker_context=2,
               waker_cpu=0)  # fmt: skip
    writer.now = done + 3_000
    writer.leave("pwrite64", flags=O_DSYNC, result=4096, size=4096)
    world.builder.write(tmp_path / "machine")
    breakdown = analyse(open_recording(tmp_path / "machine"))
    found = {
        layer.row: int(times.sum())
        for layer, times in zip(breakdown.layers, breakdown.time_ns, strict=True)
    }
    expected = {"syscall": 5_000, "wakeup.interrupt": 1_000, "wakeup.runqueue": 2_000,
                "block.Q2D": 2_000, "device.data": 50_000}  # fmt: skip
    assert found == expected | ({"throttle.io": 400_000} if held else {})
    assert int(breakdown.residual_ns.sum()) == (0 if held else 400_000)


@pytest.mark.parametrize("held", [True, False])
def test_nothing_is_waited_for_beside_what_a_limit_holds_back(held: bool, tmp_path: Path) -> None:
    """Of what nobody is known to have asked for, that goes on meanwhile."""
    world = World()
    writer = Writer(world, 101, DISK, 1_000_000)
    writer.enter()
    asleep, queued = writer.now, writer.now + 400_000
    submit(world, DISK, KWORKER + 1, asleep + 50_000, Request(device=200_000), held=True)
    request = Request(queue=2_000, scheduler=None, device=50_000)
    submit(world, DISK, KWORKER, queued, request, held=held)
    writer.now = queued + 55_000
    world.emit("sched_resume", writer.now, 101, off_ns=asleep, wake_ns=queued + 53_000,
               waker_tid=0, state=TASK_UNINTERRUPTIBLE, subject_tid=101, waker_context=2,
               waker_cpu=0)  # fmt: skip
    writer.leave("pwrite64", flags=O_DSYNC, result=4096, size=4096)
    world.builder.write(tmp_path / "machine")
    quality = analyse(open_recording(tmp_path / "machine")).quality
    assert [left.kind for left in quality.background] == ["request"]
    assert [left.kind for left in quality.left_over] == ["request"] * (not held)


def test_a_file_s_direct_write_leads_to_its_request(tmp_path: Path) -> None:
    """libaio's: submitted until 3000, queued at 80000, complete at 87000; the kernel's pool syncs
    it from 88000 to 90000."""
    world = asynchronous(PWRITE)
    world.target(KWORKER, kind=THREAD_HELPER)
    request = Request(queue=2_000, scheduler=None, device=5_000)
    submit(world, DISK, KWORKER, 80_000, request, held=True, cgroup=4711, asked_key=AIO)
    world.emit("ext4_sync_file", 90_000, KWORKER, enter_ns=88_000, inode=12, dev=DISK,
               request_key=AIO)  # fmt: skip
    world.builder.cgroup(4711, "/limited")
    assert rows(world, tmp_path / "machine") == {
        "syscall": 2_000, "throttle.io": 77_000, "block.Q2D": 2_000, "device.data": 5_000,
        "wakeup.worker": 1_000, "fs": 2_000, "wakeup.reap": 11_000,
    }  # fmt: skip


def test_blocks_of_one_call_are_held_back_since_it_returned_at_the_latest(tmp_path: Path) -> None:
    """Two, submitted from 1000 to 3000: at which of them the call was when is not told."""
    world = World()
    world.target(WRITER)
    for number, queued in enumerate((80_000, 90_000)):
        block = {"iocb_key": AIO + 8 * number, **FILE}
        world.emit("aio_submit", 3_000, WRITER, enter_ns=1_000, open_flags=O_DSYNC, opcode=PWRITE,
                   size_bytes=8192, order=number, **block)  # fmt: skip
        submit(world, DISK, KWORKER, queued, Request(queue=2_000, scheduler=None, device=5_000),
               held=True, cgroup=4711, asked_key=AIO + 8 * number)  # fmt: skip
        world.emit("aio_complete", queued + 7_000, WRITER, enter_ns=4_000, result=8192, **block)
    world.builder.write(tmp_path / "machine")
    breakdown = analyse(open_recording(tmp_path / "machine"))
    rows = [layer.row for layer in breakdown.layers]
    held = breakdown.time_ns[rows.index("throttle.io")]
    assert held.tolist() == [77_000, 87_000]
    assert (breakdown.residual_ns <= 2_000).all()


@pytest.mark.parametrize("key", [AIO + 8, 0])
def test_what_leads_to_no_request_that_is_under_way_is_of_none(key: int, tmp_path: Path) -> None:
    world = asynchronous(PWRITE)
    request = Request(queue=2_000, scheduler=None, device=5_000)
    submit(world, DISK, KWORKER, 80_000, request, held=True, cgroup=4711, asked_key=key)
    world.builder.write(tmp_path / "machine")
    assert analyse(open_recording(tmp_path / "machine")).residual_ns.tolist() == [98_000]


@pytest.mark.parametrize("by", ["submitter", "worker", "silent worker", "linked"])
def test_a_direct_write_of_io_uring_s_leads_to_its_request(by: str, tmp_path: Path) -> None:
    """Since when it was held back is known of who submits it, and of a worker that says so."""
    world, sync = World(), 0x90
    world.target(WRITER)
    world.target(KWORKER, kind=THREAD_HELPER)
    write = {"request_key": KEY, "opcode": 23, "size_bytes": 8192, **FILE}
    write |= {} if by == "linked" else {"open_flags": O_DSYNC}
    linked = RWF_OF_LINKED * (by == "linked")
    world.emit("io_uring_submit_req", 2_000, WRITER, rwf=linked, **write)
    if by == "linked":
        world.emit("io_uring_submit_req", 2_500, WRITER, request_key=sync, opcode=3, **FILE)
    if "worker" in by:
        world.emit("thread", 1, WORKER, tgid=WRITER, subject_tid=WORKER, kind=THREAD_WORKER,
                   comm=b"iou-wrk-100")  # fmt: skip
        world.emit("io_uring_queue_async_work", 2_600, WRITER, **write)
    if by == "worker":
        world.emit("sched_resume", 10_000, WORKER, off_ns=500, wake_ns=9_000, waker_tid=WRITER,
                   state=1, subject_tid=WORKER, waker_context=1)  # fmt: skip
        world.emit("io_uring_work", 10_000, WORKER, request_key=KEY)
        world.emit("io_uring_work", 12_000, WORKER, request_key=0)
    world.emit("syscall", 3_000, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    request = Request(queue=2_000, scheduler=None, device=5_000)
    submit(world, DISK, KWORKER, 80_000, request, held=True, cgroup=4711, asked_key=KEY)
    world.emit("io_uring_complete", 91_000, WRITER, result=8192, **write)
    if by == "linked":
        world.emit("io_uring_complete", 99_000, WRITER, request_key=sync, opcode=3, **FILE)
    world.builder.write(tmp_path / "machine")
    breakdown = analyse(open_recording(tmp_path / "machine"))
    held_ns = sum(
        int(times.sum())
        for layer, times in zip(breakdown.layers, breakdown.time_ns, strict=True)
        if layer.row == "throttle.io"
    )
    assert held_ns == {
        "submitter": 77_000, "worker": 70_000, "silent worker": 0, "linked": 78_000,
    }[by]  # fmt: skip


@pytest.mark.parametrize("inode", [12, 13, 0])
def test_what_was_held_back_of_a_file_is_of_who_syncs_that(inode: int, tmp_path: Path) -> None:
    """The worker that ends the sleep was let go for something else before that was complete: who
    let go whom tells nothing of the limit then."""
    world = World()
    writer = Writer(world, WRITER, DISK, 1_000)
    writer.enter()
    writer.cpu(5_000)
    slept = writer.now
    request = Request(queue=2_000, scheduler=None, device=5_000)
    submit(world, DISK, KWORKER, 80_000, request, held=True, cgroup=4711, inode=inode)
    world.emit("thread", 1, WORKER, tgid=2, subject_tid=WORKER, kind=THREAD_HELPER)
    world.emit("sched_resume", 87_500, WORKER, off_ns=500, wake_ns=84_000, waker_tid=PROGRAM,
               state=1026, waker_context=WAKE_THREAD, subject_tid=WORKER)  # fmt: skip
    writer.sleep(88_000 - slept, waker=WORKER, row=None)
    writer.leave("fdatasync")
    (found,) = by_write(world, tmp_path / "machine")
    mine = {"throttle.io": 80_000 - slept, "block.Q2D": 2_000, "device.data": 5_000}
    held = {name: found.get(name, 0) for name in mine}
    assert held == (mine if inode == 12 else dict.fromkeys(mine, 0))


@pytest.mark.parametrize("held", [True, False])
def test_that_asynchronous_requests_were_held_back_is_said(held: bool, tmp_path: Path) -> None:
    """Nobody sleeps for them: whose it was that a worker queued, nothing tells."""
    world = asynchronous(PWRITE)
    request = Request(queue=2_000, scheduler=None, device=5_000)
    submit(world, DISK, KWORKER, 80_000, request, held=held, cgroup=4711 * held)
    world.builder.cgroup(4711, "/limited").write(tmp_path / "machine")
    found = analyse(open_recording(tmp_path / "machine"))
    told = [gap for gap in found.quality.not_observed if gap.layer == "limits by io.max"]
    what = "what io.max of /limited held back of libaio's and io_uring's requests"
    assert told == ([NotObserved("limits by io.max", what, "unattributed")] if held else [])
    assert found.residual_ns.sum() > 50_000


@pytest.mark.parametrize("other", ["", "at rest", "at work", "gone"])
def test_what_no_worker_said_was_run_when_all_were_idle(other: str, tmp_path: Path) -> None:
    """Handed over at 2600; the worker has nothing to do any more at 12000. Another one that may
    come to it is at rest until 30000, then at something until 40000, which nothing tells of."""
    world = World()
    world.target(WRITER)
    workers = [WORKER] + [WORKER + 1] * bool(other)
    for tid in workers:
        world.emit("thread", 1, WRITER, tgid=WRITER, subject_tid=tid, kind=THREAD_WORKER,
                   comm=b"iou-wrk-100")  # fmt: skip
    world.emit("io_uring_submit_req", 2_000, WRITER, request_key=KEY, **WRITE)
    world.emit("io_uring_queue_async_work", 2_600, WRITER, request_key=KEY, **WRITE)
    world.emit("syscall", 3_000, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)

    def resumes(tid: int, off: int, wake: int, on: int, waker: int = WRITER) -> None:
        world.emit("sched_resume", on, tid, off_ns=off, wake_ns=wake, waker_tid=waker,
                   state=1 * (wake > 0), subject_tid=tid,
                   waker_context=WAKE_THREAD if waker else WAKE_TIMER)  # fmt: skip

    resumes(WORKER, 400, 2_700, 10_000)
    resumes(WORKER, 12_000, 95_000, 96_000)
    if other:
        begun = {"at rest": 30_000, "at work": 11_000, "gone": 2_000}[other]
        resumes(WORKER + 1, 300, begun, begun + 500, 0 if other == "gone" else WRITER)
    if other in ("at rest", "at work"):
        resumes(WORKER + 1, 40_000, 95_000, 96_000)
    held_of_uring(world, KEY, 80_000)
    (found,) = by_write(world, tmp_path / "machine")
    since = 40_000 if other == "at work" else 12_000
    assert found["throttle.io"] == 80_000 - since
    # Let go at 2700, the worker has no CPU until 10000; nor has the other one for 500.
    without_cpu = 7_300 if other != "at work" else 7_800
    assert found["wakeup.runqueue"] == without_cpu
    assert found["residual"] == since - 2_600 - without_cpu


@pytest.mark.parametrize("other", ["", "at rest", "at work"])
@pytest.mark.parametrize("inode", [12, 13])
def test_what_no_worker_said_was_taken_before_what_came_later(
    inode: int, other: str, tmp_path: Path
) -> None:
    """The first is handed over at 2600, the second at 3600, which a worker says at 12000, as it
    falls asleep for it: it, or the other one, has had the first by then, be they of one file or of
    two, neither of which had a write ahead that the next would wait for. The other one, where
    there is one, is at something until 40000 that nothing tells of, or at rest; nobody is idle
    before the disk has both."""
    world = World()
    world.target(WRITER)
    for tid in [WORKER] + [WORKER + 1] * bool(other):
        world.emit("thread", 1, WRITER, tgid=WRITER, subject_tid=tid, kind=THREAD_WORKER,
                   comm=b"iou-wrk-100")  # fmt: skip
    second = WRITE | {"inode": inode}
    for key, since, write in ((KEY, 2_000, WRITE), (KEY + 256, 3_000, second)):
        world.emit("io_uring_submit_req", since, WRITER, request_key=key, **write)
        world.emit("io_uring_queue_async_work", since + 600, WRITER, request_key=key, **write)
    world.emit("syscall", 4_000, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    slept = {"waker_tid": WRITER, "waker_context": WAKE_THREAD}
    world.emit("sched_resume", 10_000, WORKER, off_ns=400, wake_ns=2_700, state=1,
               subject_tid=WORKER, **slept)  # fmt: skip
    world.emit("io_uring_work", 12_000, WORKER, request_key=KEY + 256)
    if other:
        wake = 11_000 if other == "at work" else 95_000
        world.emit("sched_resume", wake, WORKER + 1, off_ns=300, wake_ns=wake, state=1,
                   subject_tid=WORKER + 1, **slept)  # fmt: skip
    held_of_uring(world, KEY, 80_000)
    held_of_uring(world, KEY + 256, 90_000)
    world.emit("sched_resume", 99_000, WORKER, off_ns=12_000, wake_ns=99_000, state=2,
               subject_tid=WORKER, waker_tid=0)  # fmt: skip
    if other == "at work":
        world.emit("sched_resume", 99_000, WORKER + 1, off_ns=40_000, wake_ns=0, state=0,
                   subject_tid=WORKER + 1)  # fmt: skip
    found, _ = by_write(world, tmp_path / "machine")
    since = 40_000 if other == "at work" else 12_000
    assert found["throttle.io"] == 80_000 - since


def held_of_uring(world: World, key: int, queued: int) -> None:
    """One of which the kernel's thread handed the bio on when the limit had let it."""
    request = Request(queue=2_000, scheduler=None, device=5_000)
    submit(world, DISK, KWORKER, queued, request, held=True, cgroup=4711, asked_key=key)
    world.emit("io_uring_complete", queued + 8_000, WRITER, request_key=key, result=8192,
               **WRITE)  # fmt: skip


def by_write(world: World, path: Path) -> list[dict[str, int]]:
    """Of each write in order of its begin, its rows that are not empty, and its residual."""
    world.builder.write(path)
    found = analyse(open_recording(path))
    names = [layer.row for layer in found.layers]
    return [
        {name: int(ns) for name, ns in zip(names, times, strict=True) if ns} | {"residual": rest}
        for times, rest in zip(found.time_ns.T, found.residual_ns.tolist(), strict=True)
    ]


def test_what_the_kernel_s_thread_submits_waits_for_no_spin_of_its(tmp_path: Path) -> None:
    """SQPOLL: it submits at 2000 and at 3000, and then only looks for more: others may have its CPU
    from 20000 to 50000. At 88000 and 98000 it sees that they are complete."""
    world = World()
    world.target(PROGRAM)
    world.emit("thread", 1, PROGRAM, tgid=PROGRAM, subject_tid=WRITER, kind=THREAD_WORKER,
               comm=b"iou-sqp-99")  # fmt: skip
    for key, since, queued in ((KEY, 2_000, 80_000), (KEY + 256, 3_000, 90_000)):
        world.emit("io_uring_submit_req", since, WRITER, request_key=key, **WRITE)
        held_of_uring(world, key, queued)
    world.emit("sched_resume", 50_000, WRITER, off_ns=20_000, wake_ns=0, state=0,
               subject_tid=WRITER)  # fmt: skip
    done = {"block.Q2D": 2_000, "device.data": 5_000, "wakeup.reap": 1_000, "residual": 0}
    assert by_write(world, tmp_path / "machine") == [
        {"throttle.io": held_ns} | done for held_ns in (78_000, 87_000)
    ]
