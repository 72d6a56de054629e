# SPDX-License-Identifier: Apache-2.0
"""Kernel threads that serve a write and have no CPU for it: that is what the write waits for."""

from __future__ import annotations

from collections import Counter

import pytest

from iostrata.trace.layout import (
    QUEUER_LOOP,
    THREAD_HELPER,
    THREAD_JOURNAL,
    WAKE_INTERRUPT,
    WAKE_THREAD,
)
from tests.stitch.test_below import DATA, FLUSH, KWORKER, LOOP, SDA, Block, one_write, told
from tests.stitch.test_truth import accounts
from tests.stitch.test_wakers import IDLE, OTHER, UNINTERRUPTIBLE, call, resume
from tests.synthetic import META, NO_SECTOR, O_DSYNC, World, Writer, device

INTERRUPTIBLE, JBD2, KBLOCKD, KSOFTIRQD = 1, 900, 88, 16


def on_loop() -> World:
    world = World()
    world.builder.block(LOOP, "loop0", lower_keys=(SDA,), backing="/disk.img", backing_inode=13)
    world.builder.block(SDA, "sda")
    # The disk below is seen at work, long before.
    Block(world, SDA).queue(100, KWORKER, 0xE0, kernel=1)
    Block(world, SDA).request(110, 190, 0xF0, 0xE0)
    world.target(KWORKER, kind=THREAD_HELPER)
    return world


def work(world: World, tid: int, begin: int, end: int, dev: int = LOOP) -> None:
    world.emit("loop_work", end, tid, enter_ns=begin, dev=dev)


def awakes(world: World, tid: int, wake: int, on: int, waker: int = 100) -> None:
    """A worker that had nothing to do."""
    resume(world, tid, 500, wake, on, waker, context=WAKE_THREAD, state=IDLE)


def preempted(world: World, tid: int, off: int, on: int) -> None:
    world.emit("sched_resume", on, tid, off_ns=off, subject_tid=tid)


def buffered(world: World, complete: int, by: int = 0) -> None:
    """A loop device's request from 2500 on, whose worker writes to the page cache."""
    loop = Block(world, LOOP)
    loop.queue(2_000, 100, 0xB0)
    place = {"dev": LOOP, "sector": 8, "size_bytes": 8192, "flags": DATA}
    keys = {"request_key": 0xA0, "bio_key": 0xB0}
    world.emit("block_rq_issue", 2_500, 100, **keys, **place)
    world.emit("block_rq_complete", complete, by, by_kernel_thread=int(by > 0), **keys, **place)
    writer = Writer(world, 100, LOOP, 1_000)
    writer.enter()
    resume(world, 100, 2_500, complete + 500, complete + 500, by)
    writer.now = complete + 500
    writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)


REST = {"syscall": 1_000, "block.Q2D": 500, "wakeup.interrupt": 500}


def test_a_loop_devices_worker_that_has_no_cpu() -> None:
    """Woken 200 after the issue, 40000 for the first time, 7000 while it was at it."""
    world = on_loop()
    awakes(world, KWORKER, 2_700, 42_700)
    preempted(world, KWORKER, 44_000, 51_000)
    work(world, KWORKER, 43_000, 53_000)
    buffered(world, 52_000)
    assert accounts(told(world)) == {
        100: [REST | {"wakeup.runqueue": 47_000, "block.stacked": 49_500 - 47_000}]
    }


@pytest.mark.parametrize(
    "case", ["another device", "two at once", "two one after the other", "before", "after"]
)
def test_another_worker_that_has_no_cpu_keeps_nobody(case: str) -> None:
    world = on_loop()
    if case == "before":
        preempted(world, KWORKER, 1_200, 2_300)
        work(world, KWORKER, 1_100, 2_400)
    elif case == "after":
        preempted(world, KWORKER, 52_200, 70_000)
        work(world, KWORKER, 52_100, 80_000)
    elif case == "two one after the other":
        preempted(world, KWORKER, 10_000, 40_000)
        work(world, 68, 2_700, 3_000)
        work(world, KWORKER, 9_000, 51_000)
        work(world, 67, 2_600, 51_500)
    else:
        preempted(world, KWORKER, 10_000, 40_000)
        other = device(7, 1) if case == "another device" else LOOP
        work(world, KWORKER, 3_000, 51_000, other)
        work(world, 67, 3_500, 51_500)
    buffered(world, 52_000)
    late = 0 if case in ("before", "after") else 500
    rest = REST | {"wakeup.interrupt": 500 + late}
    assert accounts(told(world)) == {100: [rest | {"block.stacked": 49_500 - late}]}


def test_direct_io_that_is_on_its_way_needs_its_worker_no_more() -> None:
    """The worker is at the next request, and preempted, while the disk has this one."""
    world = on_loop()
    awakes(world, KWORKER, 2_700, 12_700)
    preempted(world, KWORKER, 20_000, 90_000)
    work(world, KWORKER, 13_000, 95_000)
    loop, disk = Block(world, LOOP), Block(world, SDA)
    loop.queue(2_000, 100, 0xB0)
    disk.queue(14_000, KWORKER, 0xC0, kernel=1, above=0xA0)
    disk.request(14_500, 74_500, 0xD0, 0xC0)
    loop.request(2_500, 76_000, 0xA0, 0xB0, tid=100)
    one_write(world, LOOP, 76_500)
    assert accounts(told(world)) == {
        100: [{
            "syscall": 1_000, "block.Q2D": 500 + 500, "wakeup.interrupt": 500,
            "wakeup.runqueue": 10_000, "block.stacked": 1_500 + 1_500, "device.data": 60_000,
        }]
    }  # fmt: skip


def test_what_a_loop_devices_worker_waited_for_itself() -> None:
    """A page that is being written: the disk's time, and then the worker's for a CPU."""
    world = on_loop()
    work(world, KWORKER, 3_000, 53_000)
    disk = Block(world, SDA)
    disk.queue(1_500, 101, 0xC0)
    disk.request(2_000, 40_000, 0xD0, 0xC0, tid=101)
    resume(world, KWORKER, 5_000, 40_300, 50_000)
    buffered(world, 52_000)
    assert accounts(told(world)) == {
        100: [{
            "syscall": 1_000, "block.Q2D": 500, "device.data": 35_000,
            "wakeup.interrupt": 300 + 500, "wakeup.runqueue": 9_700,
            "block.stacked": 2_500 + 2_000,
        }]
    }  # fmt: skip


@pytest.mark.parametrize("waker", [0, 77])
def test_what_a_loop_devices_worker_slept_for_and_nothing_tells(waker: int) -> None:
    """Its wake-up was not seen, or by one of whom nothing is known: that is no loop device's."""
    world = on_loop()
    work(world, KWORKER, 3_000, 53_000)
    woken = 40_300 if waker else 0
    resume(world, KWORKER, 5_000, woken, 42_000, waker, context=WAKE_THREAD if waker else 0)
    buffered(world, 52_000)
    late = 1_700 if waker else 0
    assert accounts(told(world))[100] == [
        REST | {
            "block.stacked": 2_500 + 10_000, "residual": 37_000 - late,
        } | ({"wakeup.runqueue": late} if waker else {})
    ]  # fmt: skip


def test_a_loop_device_on_a_file_of_nfs() -> None:
    """Its worker calls the server: all that a call consists of is told, and not its sleep's."""
    world = on_loop()
    world.target(OTHER, kind=THREAD_HELPER)
    work(world, KWORKER, 3_000, 53_000)
    call(world, 1, (KWORKER, OTHER), 5_000, 40_000)
    resume(world, OTHER, 500, 39_600, 39_800, state=IDLE)
    resume(world, KWORKER, 5_000, 40_600, 42_000, OTHER, context=WAKE_THREAD)
    buffered(world, 52_000)
    assert accounts(told(world))[100] == [
        REST | {
            "block.stacked": 2_500 + 10_000, "rpc.queue": 1_000, "rpc.call": 33_500,
            "rpc.reply": 500, "wakeup.interrupt": 600 + 500, "wakeup.runqueue": 1_400,
        }
    ]  # fmt: skip


def test_who_completes_what_is_stacked_and_has_no_cpu() -> None:
    """The worker is done at 8000 and wakes the thread that does it, which runs at 51000."""
    world = on_loop()
    work(world, KWORKER, 3_000, 8_000)
    resume(world, KSOFTIRQD, 600, 8_000, 51_000, KWORKER, context=WAKE_THREAD)
    buffered(world, 52_000, by=KSOFTIRQD)
    assert accounts(told(world)) == {
        100: [
            REST | {
                "wakeup.runqueue": 43_000, "wakeup.interrupt": 500 + 1_000,
                "block.stacked": 8_000 - 2_500,
            }
        ]
    }  # fmt: skip


@pytest.mark.parametrize("itself", [True, False])
def test_who_issues_a_flush_and_has_no_cpu(itself: bool) -> None:
    world = World()
    disk = Block(world, SDA)
    disk.queue(2_000, 100, 0xB0, sector=0, size=0, flags=FLUSH)
    awakes(world, KBLOCKD, 2_300, 32_300)
    own = {"dev": SDA, "sector": NO_SECTOR, "flags": 2, "request_key": 0xA1}
    world.emit("block_rq_issue", 33_000, KBLOCKD, by_kernel_thread=int(itself), **own)
    world.emit("block_rq_complete", 63_000, 0, **own)
    world.emit("block_rq_complete", 63_000, 0, request_key=0xA0, bio_key=0xB0, dev=SDA, flags=DATA)
    one_write(world, SDA, 64_000)
    late = {"wakeup.runqueue": 30_000, "block.Q2D": 1_000} if itself else {"block.Q2D": 31_000}
    assert accounts(told(world)) == {
        100: [{"syscall": 1_000, "device.flush": 30_000, "wakeup.interrupt": 1_000} | late]
    }


@pytest.mark.parametrize(
    ("case", "waited", "queued"),
    [
        ("preempted", 40_000, 1_000),
        ("asleep until 30000", 12_500, 28_500),
        ("another issues it", 0, 41_000),
        ("before it was queued", 0, 1_000),
    ],
)
def test_who_is_to_issue_its_own_request_and_has_no_cpu(
    case: str, waited: int, queued: int
) -> None:
    """Between queue and issue its thread must run: while it could not, that is no block layer."""
    world = World()
    disk = Block(world, SDA)
    if case == "before it was queued":
        preempted(world, 100, 1_200, 1_700)
        disk.queue(2_000, 100, 0xB0)
        disk.request(3_000, 63_000, 0xA0, 0xB0, tid=100)
        one_write(world, SDA, 64_000, off=3_500)
        rest = {"syscall": 500, "wakeup.runqueue": 500}
    else:
        disk.queue(2_000, 100, 0xB0)
        if case.startswith("asleep"):
            resume(world, 100, 2_500, 30_000, 42_500, 0, state=UNINTERRUPTIBLE)
        else:
            preempted(world, 100, 2_500, 42_500)
        disk.request(43_000, 103_000, 0xA0, 0xB0, tid=100 if "another" not in case else 101)
        one_write(world, SDA, 104_000, off=43_500)
        rest = {"syscall": 1_000} | ({"wakeup.runqueue": waited} if waited else {})
    assert accounts(told(world)) == {
        100: [rest | {"block.Q2D": queued, "device.data": 60_000, "wakeup.interrupt": 1_000}]
    }


@pytest.mark.parametrize("first", [True, False])
def test_a_journals_thread_that_has_no_cpu_to_begin(*, first: bool) -> None:
    """Woken by the writer at 3000; it runs at 43000, writes the superblock, and begins.

    Before its first commit it is not recorded: how it was let go is told then.
    """
    world = World()
    world.target(JBD2, 56_000 if first else 1, kind=THREAD_JOURNAL)
    writer = Writer(world, 100, SDA, 1_000)
    writer.enter()
    if first:
        world.emit("sched_woken", 56_000, JBD2, wake_ns=3_000, on_ns=43_000, waker_tid=100,
                   waker_context=WAKE_THREAD, state=INTERRUPTIBLE, subject_tid=JBD2)  # fmt: skip
    else:
        resume(world, JBD2, 500, 3_000, 43_000, 100, context=WAKE_THREAD, state=INTERRUPTIBLE)
    disk = Block(world, SDA)
    disk.queue(44_000, JBD2, 0xC0, kernel=1)
    disk.request(44_000, 54_000, 0xD0, 0xC0, tid=JBD2)
    if not first:
        resume(world, JBD2, 44_100, 54_200, 55_000)
    journal = {"journal_key": 0xFF01, "dev": SDA, "transaction": 7, "synchronous": 1}
    world.emit("jbd2_start_commit", 56_000, JBD2, **journal)
    world.emit("jbd2_commit_flushing", 57_000, JBD2, **journal)
    world.emit("jbd2_commit_logging", 57_500, JBD2, **journal)
    world.emit("jbd2_end_commit", 60_000, JBD2, **journal)
    resume(world, 100, 3_200, 60_500, 61_000, JBD2, context=WAKE_THREAD)
    world.emit("ext4_sync_file", 61_000, 100, enter_ns=2_000, inode=12, dev=SDA,
               enter_transaction=7, exit_transaction=7)  # fmt: skip
    writer.now = 61_000
    writer.leave("fsync")
    # How it slept for the superblock, too, is not told of the first one.
    late = Counter({"journal.start": 1_000} if first else {"wakeup.runqueue": 800})
    late["wakeup.interrupt"] = 0 if first else 200
    assert accounts(told(world)) == {
        100: [{
            "syscall": 1_000, "fs": 1_200,
            "wakeup.runqueue": 43_000 - 3_200 + 500 + late["wakeup.runqueue"],
            "wakeup.interrupt": 500 + late["wakeup.interrupt"],
            "journal.start": 1_000 + 1_000 + late["journal.start"], "device.data": 10_000,
            "journal.locking": 1_000, "journal.flushing": 500, "journal.logging": 2_500,
        }]
    }  # fmt: skip


def test_the_worker_that_ends_a_write_of_xfss_log_and_has_no_cpu() -> None:
    world = World()
    world.target(KWORKER, kind=THREAD_HELPER)
    writer = Writer(world, 100, SDA, 1_000)
    writer.enter()
    disk = Block(world, SDA)
    log = {"iclog_key": 0xE0, "lsn": 5, "bio_key": 0xC0, "dev": SDA}
    world.emit("xfs_file_fsync", 1_500, 100, inode=12, dev=SDA)
    world.emit("xlog_iclog_sync", 2_000, 100, **log)
    disk.queue(2_000, 100, 0xC0, flags=DATA)
    disk.request(2_000, 22_000, 0xD0, 0xC0, tid=100)
    world.emit("xlog_iclog_wait_on", 2_100, 100, **log)
    resume(world, KWORKER, 700, 22_300, 52_300, context=WAKE_INTERRUPT, state=IDLE)
    world.emit("xlog_iclog_sync_done", 53_000, KWORKER, **log)
    resume(world, 100, 2_200, 53_400, 53_900, KWORKER, context=WAKE_THREAD,
           state=UNINTERRUPTIBLE)  # fmt: skip
    writer.now = 54_000
    writer.leave("fsync")
    account = accounts(told(world))[100][0]
    assert account["wakeup.runqueue"] == 30_000 + 500
    assert account["journal.logging"] == 300 + 700


@pytest.mark.parametrize("held", [0, 30_000])
def test_who_writes_xfss_log_flushes_another_disk_first_and_has_no_cpu(held: int) -> None:
    """The log has a device of its own: all who wait for what is written to it wait for that."""
    world = World()
    writer, other = Writer(world, 100, SDA, 1_000), Writer(world, 101, SDA, 1_000)
    for one in (writer, other):
        one.enter()
        world.emit("xfs_file_fsync", 1_500, one.tid, inode=12, dev=SDA)
    log = {"iclog_key": 0xE0, "lsn": 5, "bio_key": 0xC0, "dev": SDA}
    # The file system's, and its log's.
    data, logs = Block(world, SDA), Block(world, device(8, 16))
    world.emit("xlog_iclog_sync", 2_000, 101, **log)
    world.emit("xlog_iclog_wait_on", 2_000, 100, **log)
    data.queue(2_200, 101, 0xC1, sector=NO_SECTOR, size=0, flags=FLUSH)
    data.flush(2_200, 12_200, 0xD1, 0xC1, 0xD2)
    handed = 12_500 + held
    resume(world, 101, 2_300, 12_500, handed, 0, context=WAKE_INTERRUPT, state=UNINTERRUPTIBLE)
    logs.queue(handed, 101, 0xC0, flags=DATA | META)
    logs.request(handed, handed + 20_000, 0xD0, 0xC0, tid=101)
    world.emit("xlog_iclog_wait_on", handed + 100, 101, **log)
    done = handed + 21_000
    world.emit("xlog_iclog_sync_done", done, KWORKER, **log)
    for one, off in ((writer, 2_000), (other, handed + 100)):
        resume(world, one.tid, off, done, done + 500, KWORKER, context=WAKE_THREAD,
               state=UNINTERRUPTIBLE)  # fmt: skip
        one.now = done + 1_000
        one.leave("fsync")
    found = accounts(told(world))
    account = found[100][0]
    assert account["device.flush"] == 10_000
    assert account["device.journal"] == 20_000
    assert account.get("wakeup.runqueue", 0) == held + 500
    assert account["journal.logging"] == 200 + 300 + 1_000
    assert found[101][0]["wakeup.runqueue"] == held + 500


def held_back(world: World, holder: int, kthrotld: int, complete: int) -> tuple[Block, Block]:
    """The loop device and its disk: what a worker writes below sleeps from 1800 on behind a limit,
    until 60000, and is done there at 72000."""
    for tid in (holder, kthrotld):
        world.target(tid, kind=THREAD_HELPER)
    loop, disk = Block(world, LOOP), Block(world, SDA)
    loop.queue(1_500, 200, 0xB9, sector=800)
    resume(world, holder, 1_800, 72_200, 73_000)
    world.emit("block_bio_held", 60_000, kthrotld, bio_key=0xC9)
    disk.queue(60_000, kthrotld, 0xC9, sector=800, kernel=QUEUER_LOOP, above=0xA9, held=1)
    disk.request(60_500, 72_000, 0xD9, 0xC9, sector=800)
    loop.request(1_600, complete, 0xA9, 0xB9, sector=800, tid=200)
    work(world, holder, 1_700, 79_000)
    return loop, disk


@pytest.mark.parametrize("case", ["its own", "behind another", "of a third one", "not told"])
def test_a_worker_that_waits_for_another_one_s_lock_waits_for_what_a_limit_holds_of_that(
    case: str,
) -> None:
    """A loop device has a worker for each cgroup. What one writes below is not aligned there: it
    has the image's lock until that is complete, which a limit holds back until 60000. Another one
    waits for the lock from 5000 on, with one or two requests in its line; what a third one is at,
    does not.
    """
    world, holder, third, kthrotld = on_loop(), 67, 68, 55
    loop, disk = held_back(world, holder, kthrotld, complete=80_000)
    world.target(third, kind=THREAD_HELPER)
    resume(world, KWORKER, 5_000, 74_000, 75_000, holder, context=WAKE_THREAD)
    work(world, KWORKER, 3_000, 78_000)
    work(world, third, 7_000, 79_500)
    if case != "its own":
        loop.queue(2_000, 201, 0xB1, sector=16)
        disk.queue(75_500, KWORKER, 0xC1, sector=16, kernel=QUEUER_LOOP, above=0xA1)
        disk.request(76_000, 85_000, 0xD1, 0xC1, sector=16)
        loop.request(2_100, 86_000, 0xA1, 0xB1, sector=16, tid=201)
    loop.queue(2_000, 100, 0xB0)
    if case != "not told":
        disk.queue(76_500, third if case == "of a third one" else KWORKER, 0xC0,
                   kernel=QUEUER_LOOP, above=0xA0)  # fmt: skip
        disk.request(77_000, 87_000, 0xD0, 0xC0)
    loop.request(2_500, 88_000, 0xA0, 0xB0, tid=100)
    one_write(world, LOOP, 88_500)
    # Below nothing tells of it: it is complete when none is at work any more.
    own = {"device.data": 10_000, "block.Q2D": 500}
    own = {"wakeup.interrupt": 88_000 - 79_500} if case == "not told" else own
    begun = {"syscall": 1_000, "block.Q2D": 500, "wakeup.interrupt": 500}
    behind = {} if case in ("of a third one", "not told") else {
        "throttle.io": 60_000 - 5_000, "block.Q2D": 500, "device.data": 72_000 - 60_500,
        "wakeup.interrupt": 200, "wakeup.runqueue": 800 + 1_000, "wakeup.worker": 1_000,
    }  # fmt: skip
    known = Counter(begun) + Counter(own) + Counter(behind)
    (account,) = accounts(told(world))[100]
    stacked = account.pop("block.stacked")
    assert account == known
    assert stacked == 88_500 - 1_000 - known.total()


@pytest.mark.parametrize("beside", [False, True])
def test_what_is_behind_what_a_limit_holds_waits_for_the_worker_that_sleeps_until_that_is_complete(
    beside: bool,
) -> None:
    """It was asked for when the worker slept already; another worker may be at work, or not."""
    world, holder, kthrotld = on_loop(), 67, 55
    loop, disk = held_back(world, holder, kthrotld, complete=74_500)
    if beside:
        work(world, KWORKER, 7_000, 8_000)
    loop.queue(2_000, 100, 0xB0)
    disk.queue(76_500, holder, 0xC0, kernel=QUEUER_LOOP, above=0xA0)
    disk.request(77_000, 87_000, 0xD0, 0xC0)
    loop.request(2_500, 88_000, 0xA0, 0xB0, tid=100)
    one_write(world, LOOP, 88_500)
    assert accounts(told(world))[100] == [{
        "syscall": 1_000, "block.Q2D": 500 + 500 + 500, "throttle.io": 60_000 - 2_500,
        "device.data": 11_500 + 10_000, "wakeup.interrupt": 200 + 500, "wakeup.runqueue": 800,
        "block.stacked": 76_500 - 73_000 + 1_000,
    }]  # fmt: skip
