# SPDX-License-Identifier: Apache-2.0
"""What goes on below a stacked disk is in the row of its cause, whoever asked that disk."""

from __future__ import annotations

import numpy as np
import pytest

from iostrata.stitch import handing
from iostrata.stitch.spans import Spans
from iostrata.trace.layout import THREAD_HELPER, WAKE_THREAD
from tests.stitch.test_below import (
    CRYPT,
    DATA,
    FLUSH,
    KWORKER,
    LOOP,
    MD,
    SDA,
    Block,
    one_write,
    told,
)
from tests.stitch.test_serving import KSOFTIRQD, REST, awakes, buffered, on_loop, preempted, work
from tests.stitch.test_stacks import ICLOG, LSN
from tests.stitch.test_truth import accounts
from tests.stitch.test_wakers import IDLE, UNINTERRUPTIBLE, resume
from tests.synthetic import FUA, META, Request, World, Writer, device, submit

OTHER = 101


def synced_below(world: World, begin: int) -> int:
    """The worker's sync of a flush from ``begin`` on: until when.

    5000 it waits for a CPU, the disk has its data for 30000, then another task its CPU for 7000.
    """
    disk = Block(world, SDA)
    awakes(world, KWORKER, begin, begin + 5_000, 77)
    disk.queue(begin + 6_000, KWORKER, 0xC0, kernel=1)
    disk.request(begin + 6_500, begin + 36_500, 0xD0, 0xC0)
    resume(world, KWORKER, begin + 6_500, begin + 36_700, begin + 43_700)
    done = begin + 45_000
    world.emit("ext4_sync_file", done, KWORKER, enter_ns=begin + 5_500, inode=13, dev=SDA)
    work(world, KWORKER, begin + 5_200, done + 100)
    return done


BELOW = {"wakeup.runqueue": 5_000 + 7_000, "device.data": 30_000, "wakeup.interrupt": 200}


@pytest.mark.parametrize("whose", ["its own", "another's"])
def test_what_is_below_a_flush(whose: str) -> None:
    """A sleeper is let go by who wrote the log for both (btrfs): below its flush it is the same."""
    world = on_loop()
    writer = Writer(world, 100, LOOP, 1_000)
    writer.enter()
    other = Writer(world, OTHER, LOOP, 1_500)
    other.enter()
    loop = Block(world, LOOP)
    asks = 100 if whose == "its own" else OTHER
    loop.queue(2_000, asks, 0xB0, sector=0, size=0, flags=FLUSH)
    done = synced_below(world, 3_000) + 500
    loop.flush(3_000, done, 0xA0, 0xB0, asked=0xA1)
    resume(world, asks, 2_000, done + 300, done + 300)
    other.now = done + 1_000
    if asks == OTHER:
        resume(world, 100, 2_000, done + 600, done + 600, OTHER, context=WAKE_THREAD)
    other.leave("fsync")
    writer.now = done + 900
    writer.leave("fsync")
    let_go = {"syscall": 1_300, "lock": 300} if asks == OTHER else {"syscall": 1_600}
    below = BELOW | {"wakeup.interrupt": 200 + 400 + 300}
    assert accounts(told(world))[100] == [
        let_go | below | {"block.Q2D": 1_000 + 500, "block.stacked": 1_000 + 1_300 + 100}
    ]


@pytest.mark.parametrize("flushed", [False, True], ids=["all-at-once", "some-before"])
def test_what_a_loop_devices_page_cache_holds_is_of_who_wrote_it(*, flushed: bool) -> None:
    """By what each wrote to it since the flush before, whoever asks for this one; what is more than
    that, nobody knows."""
    world = on_loop()
    for tid, name in ((100, b"writer"), (OTHER, b"neighbour")):
        world.emit("task", 100, tid, tgid=tid, subject_tid=tid, process=name, comm=name, cgroup=0)
    loop = Block(world, LOOP)
    for number, (tid, size) in enumerate(((OTHER, 4_096), (100, 4_096))):
        begin, bio = 200 + 300 * number, 0xE0 + number
        loop.queue(begin, tid, bio, size=size)
        loop.request(begin + 10, begin + 50, bio + 0x100, bio, size=size, tid=tid)
        if flushed and not number:
            loop.queue(begin + 60, OTHER, 0xF0, sector=0, size=0, flags=FLUSH)
            loop.flush(begin + 70, begin + 90, 0xF1, 0xF0, asked=0xF2)
    loop.queue(2_000, 100, 0xB0, sector=0, size=0, flags=FLUSH)
    done = synced_below(world, 3_000) + 500
    loop.flush(3_000, done, 0xA0, 0xB0, asked=0xA1)
    one_write(world, LOOP, done + 300)
    breakdown = told(world)
    behind, row = breakdown.behind, [layer.row for layer in breakdown.layers].index("device.data")
    mine = np.flatnonzero(behind.layer == row)
    found = {
        behind.names[who].process: time
        for who, time in zip(behind.who[mine].tolist(), behind.time_ns[mine].tolist(), strict=True)
    }
    assert found == {"writer": 15_000, "unknown" if flushed else "neighbour": 15_000}


@pytest.mark.parametrize(
    ("who", "waited"),
    [
        ("a worker", {"wakeup.runqueue": 10_000, "wakeup.worker": 1_000}),
        ("a writer", {"wakeup.runqueue": 10_000, "lock": 1_000}),
    ],
)
def test_who_lets_the_worker_go_had_no_cpu(who: str, waited: dict[str, int]) -> None:
    """Itself let go at 39700, by the completion that it slept for, it runs at 49700."""
    world = on_loop()
    if who == "a writer":
        other = Writer(world, OTHER, SDA, 1_000, inode=13)
        other.enter()
        resume(world, OTHER, 9_000, 39_700, 49_700)
        other.now = 60_000
        other.leave("fsync")
    else:
        world.target(OTHER, kind=THREAD_HELPER)
        resume(world, OTHER, 500, 39_700, 49_700, state=IDLE)
    loop, disk = Block(world, LOOP), Block(world, SDA)
    loop.queue(2_000, 100, 0xB0, sector=0, size=0, flags=FLUSH)
    awakes(world, KWORKER, 3_000, 3_200, 77)
    disk.queue(9_000, KWORKER, 0xC0, kernel=1)
    disk.request(9_500, 39_500, 0xD0, 0xC0)
    resume(world, KWORKER, 9_600, 50_700, 50_900, OTHER, context=WAKE_THREAD)
    world.emit("ext4_sync_file", 52_000, KWORKER, enter_ns=3_500, inode=13, dev=SDA)
    work(world, KWORKER, 3_300, 52_100)
    loop.flush(3_000, 52_500, 0xA0, 0xB0, asked=0xA1)
    one_write(world, LOOP, 53_000)
    (account,) = accounts(told(world))[100]
    short = waited.get("wakeup.runqueue", 0) + 200 + 200
    assert account == waited | {
        "syscall": 1_000, "block.Q2D": 1_000 + 500, "device.data": 30_000,
        "wakeup.interrupt": 200 + 400 + 500, "wakeup.runqueue": short,
        "block.stacked": 5_800 + 1_200,
    }  # fmt: skip


@pytest.mark.parametrize("at", ["a flush", "a write"])
def test_what_the_worker_waits_for_keeps_those_behind_it_as_well(at: str) -> None:
    """It is at another's request and asleep for the disk: who asked later waits for that, too."""
    world = on_loop()
    loop, disk = Block(world, LOOP), Block(world, SDA)
    if at == "a flush":
        loop.queue(2_000, 100, 0xB0, sector=0, size=0, flags=FLUSH)
        world.emit("ext4_sync_file", 52_000, KWORKER, enter_ns=3_500, inode=13, dev=SDA)
        loop.flush(3_000, 53_000, 0xA0, 0xB0, asked=0xA1)
    else:
        loop.queue(2_000, 100, 0xB0)
        loop.request(3_000, 53_000, 0xA0, 0xB0, tid=100)
    awakes(world, KWORKER, 3_000, 3_200, 77)
    disk.queue(9_000, KWORKER, 0xC0, kernel=1, above=0 if at == "a flush" else 0xA0)
    disk.request(9_500, 39_500, 0xD0, 0xC0)
    resume(world, KWORKER, 9_600, 39_700, 49_700)
    loop.queue(11_500, OTHER, 0xB2, sector=64)
    loop.request(12_000, 55_000, 0xA2, 0xB2, sector=64, tid=OTHER)
    work(world, KWORKER, 3_300, 54_000)
    one_write(world, LOOP, 53_500)
    one_write(world, LOOP, 55_500, tid=OTHER, off=12_000)
    assert accounts(told(world))[OTHER] == [
        {
            "syscall": 10_500, "block.Q2D": 500, "device.data": 39_500 - 12_000,
            "wakeup.interrupt": 200 + 1_000 + 500, "wakeup.runqueue": 10_000,
            "block.stacked": 54_000 - 49_700,
        }
    ]  # fmt: skip


@pytest.mark.parametrize("who", ["ksoftirqd", "nobody"])
def test_a_completion_that_comes_late(who: str) -> None:
    """The worker is done at 8000, and an interrupt completes the request before ksoftirqd runs."""
    world = on_loop()
    if who == "ksoftirqd":
        world.target(KSOFTIRQD, kind=THREAD_HELPER, comm=b"ksoftirqd/0")
        resume(world, KSOFTIRQD, 600, 7_900, 52_200, KWORKER, context=WAKE_THREAD)
    work(world, KWORKER, 3_000, 8_000)
    buffered(world, 52_000)
    late = {"wakeup.runqueue": 44_000} if who == "ksoftirqd" else {}
    assert accounts(told(world))[100] == [
        REST | late | {
            "block.stacked": 8_000 - 2_500,
            "wakeup.interrupt": 500 if late else 500 + 44_000,
        }
    ]  # fmt: skip


def test_who_is_to_complete_others_keeps_nobody_whom_the_worker_is_still_at() -> None:
    """ksoftirqd is let go for another request, and has no CPU until the worker is done with all."""
    world = on_loop()
    work(world, KWORKER, 3_000, 51_000)
    resume(world, KSOFTIRQD, 600, 7_900, 51_500, KWORKER, context=WAKE_THREAD)
    buffered(world, 52_000, by=KSOFTIRQD)
    assert accounts(told(world))[100] == [
        REST | {
            "block.stacked": 51_000 - 2_500, "wakeup.runqueue": 500,
            "wakeup.interrupt": 500 + 500,
        }
    ]  # fmt: skip


@pytest.mark.parametrize("who", ["a worker of the file system", "the device's worker"])
def test_who_ends_direct_io_below_and_has_no_cpu(who: str) -> None:
    """Let go at 74700 by the disk's interrupt it runs at 90000, and lets ksoftirqd go at 91000."""
    world = on_loop()
    world.target(KSOFTIRQD, kind=THREAD_HELPER, comm=b"ksoftirqd/0")
    world.target(OTHER, kind=THREAD_HELPER)
    loop, disk = Block(world, LOOP), Block(world, SDA)
    loop.queue(2_000, 100, 0xB0)
    work(world, KWORKER, 3_000, 15_000)
    disk.queue(14_000, KWORKER, 0xC0, kernel=1, above=0xA0)
    disk.request(14_500, 74_500, 0xD0, 0xC0)
    if who == "the device's worker":
        work(world, OTHER, 90_000, 92_000)
    resume(world, OTHER, 500, 74_700, 90_000, state=IDLE)
    resume(world, KSOFTIRQD, 600, 91_000, 95_000, OTHER, context=WAKE_THREAD)
    place = {"dev": LOOP, "sector": 8, "size_bytes": 8192, "flags": DATA}
    keys = {"request_key": 0xA0, "bio_key": 0xB0}
    world.emit("block_rq_issue", 2_500, 100, **keys, **place)
    world.emit("block_rq_complete", 96_000, KSOFTIRQD, by_kernel_thread=1, **keys, **place)
    one_write(world, LOOP, 96_500)
    own = who == "the device's worker"
    ends = {} if own else {"wakeup.worker": 91_000 - 90_000}
    assert accounts(told(world))[100] == [
        ends | {
            "syscall": 1_000, "block.Q2D": 500 + 500, "device.data": 60_000,
            "block.stacked": 11_500 + (91_000 - 74_500 if own else 0),
            "wakeup.interrupt": (0 if own else 200) + 1_000 + 500,
            "wakeup.runqueue": 4_000 + (0 if own else 90_000 - 74_700),
        }
    ]  # fmt: skip


@pytest.mark.parametrize("itself", [True, False])
def test_workers_of_device_mapper_that_have_no_cpu(itself: bool) -> None:
    """dm-crypt: kcryptd is let go at 2300 and runs at 12300; it lets the thread go that writes."""
    world = World()
    world.builder.block(CRYPT, "dm-0", lower_keys=(SDA,)).block(SDA, "sda")
    upper, disk = Block(world, CRYPT), Block(world, SDA)
    for tid in (KWORKER, OTHER):
        world.target(tid, kind=THREAD_HELPER)
    writes = KWORKER if itself else OTHER
    upper.queue(2_000, 100, 0xB0)
    awakes(world, KWORKER, 2_300, 12_300)
    preempted(world, KWORKER, 13_000, 13_600)
    if not itself:
        resume(world, OTHER, 500, 15_000, 17_000, KWORKER, context=WAKE_THREAD, state=1)
        # It has done its part: what keeps it then, keeps nobody here.
        preempted(world, KWORKER, 17_500, 19_000)
    disk.take_from(CRYPT, 20_900, writes, 0xC0)
    disk.queue(21_000, writes, 0xC0, kernel=1)
    disk.request(21_500, 51_500, 0xD0, 0xC0, tid=writes)
    upper.complete(52_000, 0xB0)
    one_write(world, CRYPT, 52_500)
    short = 10_000 + 600 + (0 if itself else 2_000)
    assert accounts(told(world))[100] == [
        {
            "syscall": 1_000, "block.Q2D": 500, "device.data": 30_000, "wakeup.interrupt": 500,
            "wakeup.runqueue": short, "block.stacked": 19_000 - short + 500,
        }
    ]  # fmt: skip


def test_who_has_a_request_at_a_stacked_device_waits_for_no_other_there() -> None:
    """He waits for his own, which is in line behind them."""
    world = on_loop()
    submit(world, LOOP, OTHER, 4_000, Request(device=10_000), held=True)
    work(world, KWORKER, 43_000, 51_800)
    buffered(world, 52_000)
    quality = told(world).quality
    assert "loop0" in {left.place for left in quality.background}
    assert quality.left_over == ()


@pytest.mark.parametrize("idle", [True, False])
def test_a_kernel_worker_that_is_to_let_the_loop_devices_go_and_has_no_cpu(*, idle: bool) -> None:
    """Of a pool's workers one that is let go lets the next one go when it runs itself.

    Who lets one go that sleeps in another work, has nothing to do with what that comes to then.
    """
    world = on_loop()
    world.target(OTHER, kind=THREAD_HELPER)
    awakes(world, OTHER, 1_500, 41_500, 77)
    state = IDLE if idle else UNINTERRUPTIBLE
    resume(world, KWORKER, 500, 42_000, 42_600, OTHER, context=WAKE_THREAD, state=state)
    work(world, KWORKER, 43_000, 51_800)
    buffered(world, 52_000)
    short = 600 + (39_000 if idle else 0)
    assert accounts(told(world))[100] == [
        REST
        | {
            "wakeup.runqueue": short, "block.stacked": 51_800 - 2_500 - short,
            "wakeup.interrupt": 200 + 500,
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "until", "waited"),
    [
        (b"kworker/u8:4", 62_000, 39_400),
        (b"kworker/u9:4", 62_000, 0),
        (b"kworker/0:4H", 62_000, 0),
        (b"kcompactd0", 62_000, 0),
        # So late nobody is told of beside a loss.
        (b"kworker/u8:4", 72_000, 39_400),
        (b"kworker/u8:4", 72_001, 0),
    ],
)
def test_a_worker_that_takes_over_from_one_of_its_pool_that_has_no_cpu(
    name: bytes, until: int, waited: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let go at 2600 it has no CPU until 62000: one that is done with another work, for which it
    had slept, comes to this one at 42000."""
    monkeypatch.setattr(handing, "TAKEN_OVER_NS", 30_000)
    world = on_loop()
    world.target(KWORKER, comm=b"kworker/u8:0", kind=THREAD_HELPER)
    world.target(OTHER, comm=name, kind=THREAD_HELPER)
    awakes(world, OTHER, 2_600, until)
    resume(world, KWORKER, 500, 30_000, 41_000, 77, context=WAKE_THREAD)
    work(world, KWORKER, 42_000, 51_800)
    buffered(world, 52_000)
    short = waited or 11_000
    assert accounts(told(world))[100] == [
        REST | {
            "wakeup.runqueue": short, "block.stacked": 51_800 - 2_500 - short,
            "wakeup.interrupt": 200 + 500,
        }
    ]  # fmt: skip


@pytest.mark.parametrize("aligned", [True, False])
def test_a_worker_that_waits_for_its_direct_io_is_needed_until_the_end(*, aligned: bool) -> None:
    """Not aligned to the blocks of its file system: it sleeps until the disk is done, at 74500, and
    others have its CPU from 75000 to 95000, before it ends the request. Else it goes on."""
    world = on_loop()
    loop, disk = Block(world, LOOP), Block(world, SDA)
    loop.queue(2_000, 100, 0xB0)
    awakes(world, KWORKER, 2_700, 2_900)
    disk.queue(14_000, KWORKER, 0xC0, kernel=1, above=0xA0)
    disk.request(14_500, 74_500, 0xD0, 0xC0)
    if aligned:
        disk.queue(15_000, KWORKER, 0xC1, kernel=1, above=0xA1)
    resume(world, KWORKER, 16_000, 74_600, 74_700)
    preempted(world, KWORKER, 75_000, 95_000)
    work(world, KWORKER, 3_000, 98_000)
    loop.request(2_500, 97_000, 0xA0, 0xB0, tid=100)
    one_write(world, LOOP, 97_500)
    (account,) = accounts(told(world))[100]
    short = 200 + (0 if aligned else 100 + 20_000)
    assert account["wakeup.runqueue"] == short
    assert account["device.data"] == 60_000
    ended = {"wakeup.interrupt": 500} if aligned else {"wakeup.interrupt": 100 + 500}
    assert account == {
        "syscall": 1_000, "block.Q2D": 500 + 500, "device.data": 60_000, "wakeup.runqueue": short,
        "block.stacked": 97_000 - 2_500 - 500 - 60_000 - short - ended["wakeup.interrupt"] + 500,
    } | ended  # fmt: skip


def test_the_same_span_is_kept_once() -> None:
    numbers = np.array([3, 1, 3, 3])
    spans = Spans(numbers, np.array([5, 5, 5, 6], np.int16), numbers, numbers + 9, numbers * 0)
    once = spans.once()
    assert (once.owner.tolist(), once.rank.tolist()) == ([3, 1, 3], [5, 5, 6])


def test_an_array_has_its_disks_flushed_for_all_who_wait_for_one_log_write() -> None:
    """XFS on md: who writes the log asks for a flush of each disk itself, which names no bio."""
    world, other = World(), device(8, 16)
    world.builder.block(MD, "md0", lower_keys=(SDA, other))
    world.builder.block(SDA, "sda").block(other, "sdb")
    array, disk, second = (Block(world, dev) for dev in (MD, SDA, other))
    writers = [Writer(world, 100 + number, MD, 1_000) for number in range(2)]
    for writer in writers:
        writer.enter()
        world.emit("xfs_file_fsync", 1_100, writer.tid, inode=12, dev=MD)
    log = {"iclog_key": ICLOG, "lsn": LSN, "dev": MD}
    world.emit("xlog_iclog_sync", 2_000, 100, bio_key=0xB0, **log)
    array.queue(2_000, 100, 0xB0, sector=999, size=4096, flags=FLUSH | FUA | META)
    for number, (below, end) in enumerate(((disk, 12_500), (second, 42_500))):
        below.queue(2_100 + number, 100, 0xC0 + number, sector=0, size=0, flags=FLUSH)
        below.flush(2_500, end, 0xD0 + number, 0xC0 + number, asked=0xE0 + number)
    disk.take_from(MD, 2_300, 100, 0xB1, old_sector=999, sector=1_999, size=4096)
    disk.queue(2_350, 100, 0xB1, sector=1_999, size=4096)
    disk.request(12_600, 22_600, 0xD2, 0xB1, sector=1_999, size=4096)
    array.complete(42_600, 0xB0, size=4096)
    world.emit("xlog_iclog_sync_done", 43_000, 555, **log)
    for writer in writers:
        world.emit("xlog_iclog_wait_on", 2_400, writer.tid, **log)
        resume(world, writer.tid, 2_400, 44_000, 44_000, 555)
        writer.now = 45_000
        writer.leave("fsync")
    found = accounts(told(world))
    for tid in (100, 101):
        assert found[tid][0]["device.journal"] == 10_000
        assert found[tid][0]["device.flush"] == 42_500 - 2_500 - 10_000
        assert found[tid][0]["block.stacked"] <= 200
