# SPDX-License-Identifier: Apache-2.0
"""Sleeps that others end: each instant is of what was seen to keep the sleeper, or of nobody."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from iostrata.trace.layout import (
    THREAD_HELPER,
    WAKE_INTERRUPT,
    WAKE_THREAD,
    WAKE_UNKNOWN,
)
from tests.stitch.test_truth import accounts, analysed, conserves
from tests.synthetic import O_DSYNC, Commit, Request, World, Writer, device, submit

DISK, NFS, FUSE, BTRFS = device(8, 0), device(0, 44), device(0, 41), device(0, 45)
IDLE, UNINTERRUPTIBLE = 0x402, 2
DISCARD = 3
FAST = Request(queue=1_000, scheduler=None, device=50_000)
KWORKER, OTHER, DAEMON = 66, 67, 608


def resume(
    world: World, tid: int, off: int, wake: int, on: int, waker: int = 0, *,
    context: int = WAKE_INTERRUPT, state: int = UNINTERRUPTIBLE, **more: int,
) -> None:  # fmt: skip
    """Off the CPU, woken and running again; interrupts come on CPU 0, where requests complete."""
    world.emit("sched_resume", on, tid, off_ns=off, wake_ns=wake, waker_tid=waker, state=state,
               subject_tid=tid, waker_cpu=0, waker_context=context, **more)  # fmt: skip


def found(world: World, tid: int = 100) -> dict[str, int]:
    breakdown = analysed(world)
    conserves(breakdown)
    (account,) = accounts(breakdown)[tid]
    return account


class Sleeper:
    """One O_DSYNC write of 1000 ns on the CPU, a sleep and its run queue, and 500 ns more."""

    def __init__(self, world: World, disk: int = DISK, inode: int = 12) -> None:
        self.world = world
        self.writer = Writer(world, 100, disk, 10_000, inode=inode)
        self.writer.enter()
        self.off = 11_000

    def wakes(
        self, wake: int, waker: int, context: int, *, seen: bool = True, other_work: int = 0
    ) -> None:
        on = wake + 2_000
        resume(self.world, 100, self.off, wake if seen else 0, on, waker, context=context,
               waker_other_work=other_work)  # fmt: skip
        self.writer.now = on + 500
        self.writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)


REST = {"syscall": 1_500, "wakeup.runqueue": 2_000}


@pytest.mark.parametrize("context", [WAKE_UNKNOWN, WAKE_INTERRUPT])
def test_from_the_completion_that_woke_the_sleeper(context: int) -> None:
    world = World()
    sleeper = Sleeper(world)
    submit(world, DISK, 100, 11_000, FAST)
    sleeper.wakes(62_000 + 700, 0, context)
    assert found(world) == REST | {
        "block.Q2D": 1_000, "device.data": 50_000, "wakeup.interrupt": 700,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("waker", "context", "later"),
    [
        (KWORKER, WAKE_UNKNOWN, 300_000),  # somebody else, of whom nothing is known
        (KWORKER, WAKE_THREAD, 300_000),
        (0, WAKE_INTERRUPT, 3_000_000),  # an interrupt, but not that of the completion
    ],
)
def test_a_completion_long_before_somebody_elses_wake_up_explains_nothing(
    waker: int, context: int, later: int
) -> None:
    world = World()
    sleeper = Sleeper(world)
    submit(world, DISK, 100, 11_000, FAST)
    sleeper.wakes(62_000 + later, waker, context)
    assert found(world) == REST | {
        "block.Q2D": 1_000, "device.data": 50_000, "residual": later,
    }  # fmt: skip


@pytest.mark.parametrize("preempted", [True, False])
def test_nothing_is_waited_for_beside_who_has_no_cpu(preempted: bool) -> None:
    """Another thread lets the sleeper go, and could not run before, or slept for nobody knows what:
    what goes on meanwhile may be that."""
    world = World()
    sleeper = Sleeper(world)
    world.target(200)
    other = Writer(world, 200, DISK, 10_500, inode=13)
    other.enter()
    resume(world, 200, 12_000, 0 if preempted else 298_000, 300_000, 0 if preempted else KWORKER,
           context=WAKE_THREAD, state=0 if preempted else UNINTERRUPTIBLE)  # fmt: skip
    submit(world, DISK, OTHER, 50_000, replace(FAST, device=100_000), held=True)
    sleeper.wakes(301_000, 200, WAKE_THREAD)
    other.now = 310_000
    other.leave("pwrite64", flags=0, result=8192, size=8192)
    breakdown = analysed(world)
    (account,) = accounts(breakdown)[100]
    assert account["wakeup.runqueue" if preempted else "residual"] >= 286_000
    assert [left.kind for left in breakdown.quality.left_over] == ["request"] * (not preempted)


@pytest.mark.parametrize("disk", [DISK, device(8, 16)])
def test_a_completion_on_another_disk_wakes_nobody_here(disk: int) -> None:
    """The interrupt came upon the same CPU just before; on one's own disk that tells the cause."""
    world = World()
    sleeper = Sleeper(world)
    world.target(200)
    submit(world, disk, 200, 11_000, FAST)
    sleeper.wakes(62_000 + 700, 0, WAKE_INTERRUPT)
    account = found(world)
    if disk == DISK:
        assert account["wakeup.interrupt"] == 700
    else:
        assert account == REST | {"residual": 62_700 - 11_000}


@pytest.mark.parametrize("asks", [100, 200])
def test_what_a_buffer_is_read_from_may_be_on_another_disk(asks: int) -> None:
    """Of a page that is written from: who writes may read it, or somebody else for himself."""
    world = World()
    sleeper = Sleeper(world)
    world.target(200)
    submit(world, device(8, 16), asks, 11_000, replace(FAST, read=True))
    sleeper.wakes(62_000 + 700, 0, WAKE_INTERRUPT)
    told = {"block.Q2D": 1_000, "device.read": 50_000, "wakeup.interrupt": 700}
    assert found(world) == REST | (told if asks == 100 else {"residual": 62_700 - 11_000})


def test_a_completion_of_ones_own_that_ended_the_sleep_before_does_not_end_this_one() -> None:
    """What another thread asked for was completed since, by the same waker."""
    world = World()
    sleeper = Sleeper(world)
    submit(world, DISK, 100, 11_000, FAST)
    resume(world, 100, 11_000, 62_500, 63_000)
    sleeper.off = 64_000
    world.target(200)
    submit(world, DISK, 200, 64_000, FAST)
    sleeper.wakes(115_000 + 700, 0, WAKE_UNKNOWN)
    account = found(world)
    assert account["wakeup.interrupt"] == 500 + 700
    assert "residual" not in account


def test_a_sleep_whose_end_nobody_saw_is_no_run_queue() -> None:
    world = World()
    Sleeper(world).wakes(90_000, 0, WAKE_UNKNOWN, seen=False)
    assert found(world) == {"syscall": 1_500, "residual": 81_000}


def test_what_a_kernel_worker_did_from_its_wake_up_on() -> None:
    """It had nothing to do until the completion's interrupt woke it; then it had to wait."""
    world = World()
    world.target(KWORKER, kind=THREAD_HELPER)
    sleeper = Sleeper(world)
    submit(world, DISK, 100, 11_000, FAST)
    resume(world, KWORKER, 500, 62_400, 80_000, state=IDLE)
    sleeper.wakes(95_000, KWORKER, WAKE_THREAD)
    assert found(world) == REST | {
        "block.Q2D": 1_000, "device.data": 50_000, "wakeup.interrupt": 400,
        "wakeup.runqueue": 2_000 + 80_000 - 62_400, "wakeup.worker": 15_000,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("state", "account"),
    [
        (IDLE, {"wakeup.interrupt": 400, "wakeup.runqueue": 2_000 + 80_000 - 62_400}),
        # It was asleep in some work or other: which, and what it waited for, nobody was told.
        (UNINTERRUPTIBLE, {"residual": 400, "wakeup.runqueue": 2_000 + 80_000 - 62_400}),
    ],
)
def test_what_a_kernel_worker_did_that_was_met_when_it_let_the_sleeper_go(
    state: int, account: dict[str, int]
) -> None:
    world = World()
    sleeper = Sleeper(world)
    submit(world, DISK, 100, 11_000, FAST)
    world.target(KWORKER, 94_980, kind=THREAD_HELPER)
    world.emit(
        "sched_woken", 94_990, KWORKER, wake_ns=62_400, on_ns=80_000, waker_tid=0, waker_cpu=0,
        waker_context=WAKE_INTERRUPT, state=state, subject_tid=KWORKER,
    )  # fmt: skip
    sleeper.wakes(95_000, KWORKER, WAKE_THREAD)
    assert found(world) == REST | account | {
        "block.Q2D": 1_000, "device.data": 50_000, "wakeup.worker": 95_000 - 80_000,
    }  # fmt: skip


def test_what_only_interrupted_a_kernel_worker_ended_nothing() -> None:
    """Another's request was complete while it was at its work; it let the sleeper go itself."""
    world = World()
    world.target(KWORKER, kind=THREAD_HELPER)
    world.target(200)
    sleeper = Sleeper(world)
    resume(world, KWORKER, 500, 20_000, 80_000, state=IDLE)
    submit(world, DISK, 200, 38_000, FAST)
    interrupted = world.builder._rows["block_rq_complete"][-1]
    interrupted |= {"tid": KWORKER, "by_kernel_thread": 0}
    sleeper.wakes(95_000, KWORKER, WAKE_THREAD)
    assert found(world) == REST | {
        "wakeup.runqueue": 2_000 + 60_000, "wakeup.worker": 15_000, "residual": 9_000,
    }  # fmt: skip
    # Had it completed the request itself, that would be what the sleeper had waited for.
    interrupted["by_kernel_thread"] = 1
    assert found(world)["device.data"] == 50_000


def test_a_kernel_worker_that_discards_what_it_freed() -> None:
    """It ends an append of ext4, which is mounted with discard: it waits for the disk itself."""
    world = World()
    world.target(KWORKER, kind=THREAD_HELPER)
    sleeper = Sleeper(world)
    resume(world, KWORKER, 500, 20_000, 21_000, state=IDLE)
    submit(world, DISK, KWORKER, 25_000, FAST)
    for point in ("block_bio_queue", "block_rq_issue", "block_rq_complete"):
        world.builder._rows[point][-1]["flags"] = DISCARD
    resume(world, KWORKER, 27_000, 76_300, 80_000)
    sleeper.wakes(95_000, KWORKER, WAKE_THREAD)
    assert found(world) == REST | {
        "residual": 9_000, "wakeup.worker": 6_000 + 15_000,
        "wakeup.runqueue": 2_000 + 1_000 + 3_700, "device.meta": 49_000, "wakeup.interrupt": 300,
    }  # fmt: skip


@pytest.mark.parametrize("when", ["since it slept", "before it slept", "never"])
def test_what_a_kernel_worker_slept_for_in_another_work(when: str) -> None:
    """A read of some file in user space, from 500 on; then the work that lets the sleeper go, which
    waited for the worker to get a CPU, whatever that had slept for."""
    world = World()
    world.target(KWORKER, kind=THREAD_HELPER)
    sleeper = Sleeper(world)
    world.emit("fuse_request", 40_000, DAEMON, unique=2, send_ns=500, dev=FUSE, asking_tid=KWORKER)
    resume(world, KWORKER, 500, 40_100, 50_000, DAEMON, context=WAKE_THREAD, state=1)
    submit(world, DISK, KWORKER, 53_000, FAST)
    resume(world, KWORKER, 55_000, 104_300, 108_000, other_work=int(when == "before it slept"))
    sleeper.wakes(120_000, KWORKER, WAKE_THREAD, other_work=int(when == "since it slept"))
    work = {"wakeup.worker": 5_000 + 12_000, "wakeup.runqueue": 2_000 + 3_700}
    work |= {"device.data": 49_000, "wakeup.interrupt": 300}
    no_cpu = {"wakeup.runqueue": 2_000 + 3_700}
    asked = {"fuse.call": 29_000, "wakeup.interrupt": 400, "wakeup.runqueue": 5_700 + 9_900}
    assert (
        found(world)
        == REST
        | {
            "since it slept": no_cpu | {"wakeup.worker": 12_000, "residual": 93_300},
            "before it slept": work | {"wakeup.runqueue": 5_700 + 9_900, "residual": 29_100},
            "never": work | asked,
        }[when]
    )


@pytest.mark.parametrize("rested", [True, False])
def test_who_is_in_line_at_a_kernel_worker_that_has_no_cpu_in_others_works(*, rested: bool) -> None:
    """Complete at 62000; until 90000 another has the worker's CPU, amid a work for somebody else,
    in which it sleeps then, and so on in a next one, or it has nothing to do, until 115700."""
    world = World()
    world.target(KWORKER, comm=b"kworker/u8:3", kind=THREAD_HELPER)
    sleeper = Sleeper(world)
    submit(world, DISK, 100, 11_000, FAST)
    resume(world, KWORKER, 500, 1_000, 2_000, state=IDLE)
    resume(world, KWORKER, 30_000, 0, 90_000, context=WAKE_UNKNOWN, state=0)
    resume(world, KWORKER, 91_000, 95_000, 96_000, state=IDLE if rested else UNINTERRUPTIBLE)
    resume(world, KWORKER, 97_000, 115_000, 115_700, other_work=1)
    sleeper.wakes(120_000, KWORKER, WAKE_THREAD, other_work=1)
    line = 0 if rested else 90_000 - 62_000 + 1_000
    rest = 1_000 if rested else 0
    assert found(world) == REST | {
        "block.Q2D": 1_000, "device.data": 50_000, "wakeup.worker": 120_000 - 115_700,
        "wakeup.runqueue": 2_000 + 700 + line + rest,
        "residual": 115_000 - 62_000 - line - rest,
    }  # fmt: skip


def test_a_kernel_worker_that_others_keep_from_its_cpu_again_and_again() -> None:
    world = World()
    world.target(KWORKER, kind=THREAD_HELPER)
    sleeper = Sleeper(world)
    resume(world, KWORKER, 500, 20_000, 21_000, state=IDLE)
    for off in range(30_000, 130_000, 1_000):
        resume(world, KWORKER, off, 0, off + 700, context=WAKE_UNKNOWN, state=0)
    sleeper.wakes(140_000, KWORKER, WAKE_THREAD)
    assert found(world) == REST | {
        "wakeup.runqueue": 2_000 + 1_000 + 100 * 700, "wakeup.worker": 120_000 - 71_000,
        "residual": 9_000,
    }  # fmt: skip


@pytest.mark.parametrize(("first", "then"), [(THREAD_HELPER, 1), (1, THREAD_HELPER)])
def test_a_thread_is_what_it_was_when_it_let_the_sleeper_go(first: int, then: int) -> None:
    """Its tid is another's later: what only a kernel worker does, no thread in no call does."""
    world = World()
    world.target(KWORKER, kind=first)
    sleeper = Sleeper(world)
    resume(world, KWORKER, 500, 20_000, 80_000, state=IDLE)
    sleeper.wakes(95_000, KWORKER, WAKE_THREAD)
    world.target(KWORKER, 96_000, kind=then)
    worker = {"wakeup.runqueue": 2_000 + 60_000, "wakeup.worker": 15_000, "residual": 9_000}
    assert found(world) == REST | (worker if first == THREAD_HELPER else {"residual": 84_000})


@pytest.mark.parametrize("met_again", [False, True])
def test_what_a_helper_did_while_it_was_not_recorded_is_not_known(met_again: bool) -> None:
    """It was of no use for long, and then only told again if it let somebody of the workload go."""
    world = World()
    world.target(KWORKER, kind=THREAD_HELPER)
    world.target(OTHER, kind=THREAD_HELPER)
    resume(world, KWORKER, 500, 600, 700, state=IDLE)
    world.target(KWORKER, 9_000, kind=0)
    sleeper = Sleeper(world)
    if met_again:
        world.target(KWORKER, 69_900, kind=THREAD_HELPER)
    resume(world, OTHER, 9_500, 70_000, 80_000, waker=KWORKER, context=WAKE_THREAD, state=IDLE)
    sleeper.wakes(95_000, OTHER, WAKE_THREAD)
    assert found(world) == REST | {
        "wakeup.runqueue": 2_000 + 10_000, "wakeup.worker": 15_000, "residual": 70_000 - 11_000,
    }  # fmt: skip


def test_what_a_write_changes_a_part_of_is_read_first() -> None:
    world = World()
    sleeper = Sleeper(world)
    submit(world, DISK, 100, 11_000, replace(FAST, read=True))
    sleeper.wakes(62_300, 0, WAKE_INTERRUPT)
    assert found(world) == REST | {
        "block.Q2D": 1_000, "device.read": 50_000, "wakeup.interrupt": 300,
    }  # fmt: skip


def test_a_request_that_another_asked_for() -> None:
    """Page writeback of another thread: its request's completion is what woke the sleeper."""
    world = World()
    sleeper = Sleeper(world)
    submit(world, DISK, OTHER, 8_000, Request(queue=13_000, scheduler=None, device=60_000))
    sleeper.wakes(81_300, 0, WAKE_INTERRUPT)
    assert found(world) == REST | {
        "block.Q2D": 10_000, "device.data": 60_000, "wakeup.interrupt": 300,
    }  # fmt: skip


def test_a_request_that_another_asked_for_and_its_issuer_without_a_cpu() -> None:
    world = World()
    world.target(KWORKER, kind=THREAD_HELPER)
    sleeper = Sleeper(world)
    submit(world, DISK, OTHER, 8_000, Request(queue=13_000, scheduler=None, device=60_000))
    world.builder._rows["block_rq_issue"][-1] |= {"tid": KWORKER, "by_kernel_thread": 1}
    resume(world, KWORKER, 500, 9_000, 20_500, OTHER, context=WAKE_THREAD, state=IDLE)
    sleeper.wakes(81_300, 0, WAKE_INTERRUPT)
    assert found(world) == REST | {
        "wakeup.runqueue": 2_000 + 9_500, "block.Q2D": 500, "device.data": 60_000,
        "wakeup.interrupt": 300,
    }  # fmt: skip


def test_what_kept_who_asked_for_the_request() -> None:
    """A buffer that another thread is next to write: it was let go, and had no CPU for long."""
    world = World()
    sleeper = Sleeper(world)
    resume(world, OTHER, 9_000, 20_000, 70_000, waker=KWORKER, context=WAKE_THREAD)
    submit(world, DISK, OTHER, 75_000, FAST)
    resume(world, OTHER, 76_000, 126_000 + 300, 128_000)
    sleeper.wakes(126_000 + 200, 0, WAKE_INTERRUPT)
    peer(world, OTHER, 5_000, 130_000)
    assert found(world) == REST | {
        "wakeup.runqueue": 2_000 + 50_000, "lock": 5_000, "residual": 9_000,
        "block.Q2D": 1_000, "device.data": 50_000, "wakeup.interrupt": 200,
    }  # fmt: skip


def peer(world: World, tid: int, enter: int, leave: int) -> None:
    """A thread of the workload in a call of its own, to another file."""
    writer = Writer(world, tid, DISK, enter, inode=tid)
    writer.enter()
    writer.now = leave
    writer.leave("pwrite64", result=1, size=1)


def submitter(world: World, tid: int, enter: int, leave: int, blocks: int) -> None:
    """As ``peer``, with so many blocks of libaio: each tells of the call."""
    for order in range(blocks):
        world.emit("aio_submit", leave + order, tid, enter_ns=enter, iocb_key=0x70 + 16 * order,
                   order=order, inode=tid, dev=DISK, opcode=1, size_bytes=1)  # fmt: skip


@pytest.mark.parametrize("blocks", [0, 1, 3])
def test_what_kept_the_thread_that_let_the_sleeper_go(blocks: int) -> None:
    """It held a lock while it waited for its own request, then for a CPU, and worked on."""
    world = World()
    sleeper = Sleeper(world)
    submit(world, DISK, OTHER, 16_000, FAST)
    resume(world, OTHER, 16_000, 67_200, 90_000)
    sleeper.wakes(93_000, OTHER, WAKE_THREAD)
    if blocks:
        submitter(world, OTHER, 5_000, 94_000, blocks)
    else:
        peer(world, OTHER, 5_000, 94_000)
    assert found(world) == REST | {
        "lock": 5_000 + 3_000,
        "block.Q2D": 1_000, "device.data": 50_000, "wakeup.interrupt": 200,
        "wakeup.runqueue": 2_000 + 90_000 - 67_200,
    }  # fmt: skip


def test_before_its_call_the_thread_that_let_go_held_nothing_that_is_known() -> None:
    world = World()
    sleeper = Sleeper(world)
    sleeper.wakes(93_000, OTHER, WAKE_THREAD)
    peer(world, OTHER, 50_000, 94_000)
    assert found(world) == REST | {"lock": 43_000, "residual": 39_000}


@pytest.mark.parametrize("case", ["interrupt", "no call", "itself"])
def test_no_lock_without_a_thread_that_let_go(case: str) -> None:
    """The thread that was current may have been interrupted, or at nothing that is recorded."""
    world = World()
    sleeper = Sleeper(world)
    waker = 100 if case == "itself" else OTHER
    sleeper.wakes(93_000, waker, WAKE_INTERRUPT if case == "interrupt" else WAKE_THREAD)
    if case != "no call":
        peer(world, OTHER, 5_000, 94_000)
    assert found(world) == REST | {"residual": 82_000}


@pytest.mark.parametrize("synced", [True, False])
def test_somebody_else_who_syncs_there_though_not_recorded(synced: bool) -> None:
    """On btrfs: since it had begun, and waited for the disk itself. Else it is not known."""
    world = World()
    sleeper = Sleeper(world, BTRFS)
    submit(world, DISK, OTHER, 25_000, FAST)
    resume(world, OTHER, 25_500, 76_500, 77_000)
    sleeper.wakes(93_000, OTHER, WAKE_THREAD)
    if synced:
        world.emit("btrfs_beside", 99_000, OTHER, enter_ns=20_000, dev=BTRFS)
        assert found(world) == REST | {
            "residual": 20_000 - 11_000, "lock": 5_500 + 16_000, "block.Q2D": 500,
            "device.data": 50_000, "wakeup.interrupt": 500, "wakeup.runqueue": 2_000 + 500,
        }  # fmt: skip
    else:
        assert found(world) == REST | {"residual": 82_000}


def test_a_row_of_threads_each_behind_the_next() -> None:
    """The last one waits for the device; all before it wait for the one behind."""
    world, threads = World(), range(200, 210)
    sleeper = Sleeper(world)
    submit(world, DISK, threads[0], 12_000, FAST)
    resume(world, threads[0], 12_000, 63_500, 64_000)
    time = 64_000
    for waker, tid in pairwise(threads):
        time += 1_000
        resume(world, tid, 9_000, time, time + 500, waker, context=WAKE_THREAD)
        time += 500
    sleeper.wakes(time + 1_000, threads[-1], WAKE_THREAD)
    for tid in threads:
        peer(world, tid, 5_000, time + 2_000)
    hops = len(threads)
    assert Counter(found(world)) == Counter(REST) + Counter(
        {
            "lock": 1_000 + hops * 1_000,
            "wakeup.runqueue": hops * 500,
            "wakeup.interrupt": 500,
            "block.Q2D": 1_000,
            "device.data": 50_000,
        }
    )


def test_a_commit_is_of_the_sleep_that_it_ended_only() -> None:
    """It ran while its waiter slept for a lock, and while that was on the CPU again."""
    world = World()
    writer = Writer(world, 100, DISK, 10_000)
    writer.enter()
    commit = Commit(world, DISK, 12_000, 7).run(15_000, 5_000, [])
    assert commit.end == 32_600
    resume(world, 100, 13_000, 25_000, 26_000, OTHER, context=WAKE_THREAD)
    resume(world, 100, 28_000, 32_900, 33_500, commit.tid, context=WAKE_THREAD)
    world.emit("ext4_sync_file", 34_000, 100, enter_ns=11_000, inode=12, dev=DISK,
               enter_transaction=7, exit_transaction=7)  # fmt: skip
    writer.now = 34_500
    writer.leave("fsync")
    peer(world, OTHER, 5_000, 25_500)
    assert found(world) == {
        "syscall": 1_500, "fs": 2_000 + 2_000 + 500, "lock": 12_000,
        "journal.flushing": 32_000 - 28_000, "journal.logging": 600,
        "wakeup.interrupt": 300, "wakeup.runqueue": 1_000 + 600,
    }  # fmt: skip


def call(world: World, operation: int, tids: tuple[int, int], begin: int, end: int) -> None:
    key = 0xFFFF_8884_0000_0000 + begin
    world.emit("nfs_call", begin, tids[0], call_key=key, inode=12, dev=NFS, offset_bytes=0,
               size_bytes=0, stable=0, operation=operation)  # fmt: skip
    world.emit("rpc_call", end, tids[1], call_key=key, send_ns=begin + 1_000,
               ready_ns=end - 500, reply_ns=end - 400, xid=begin, connection=1)  # fmt: skip


def test_a_commit_that_a_kernel_worker_sent_for_a_direct_write() -> None:
    """Larger than wsize: written by the caller's calls, committed by a call of a kworker's."""
    world = World()
    sleeper = Sleeper(world, NFS)
    sleeper.off = 12_000
    call(world, 1, (100, KWORKER), 11_000, 40_000)
    call(world, 2, (KWORKER, OTHER), 40_000, 140_000)
    sleeper.wakes(140_600, OTHER, WAKE_THREAD)
    assert found(world) == {
        "syscall": 1_500, "wakeup.runqueue": 2_000, "wakeup.interrupt": 600,
        "rpc.queue": 2_000, "rpc.call": 29_000 - 1_500 + 100_000 - 1_500, "rpc.reply": 1_000,
    }  # fmt: skip


def test_what_a_kernel_worker_does_while_a_reply_is_there_is_of_its_call() -> None:
    """The call's own events tell more of it; once it was the worker's, where that was recorded."""
    world = World()
    world.target(OTHER, kind=THREAD_HELPER)
    sleeper = Sleeper(world, NFS)
    call(world, 1, (100, KWORKER), 11_000, 40_000)
    resume(world, OTHER, 500, 39_600, 39_800, state=IDLE)
    sleeper.wakes(40_600, OTHER, WAKE_THREAD)
    assert found(world) == REST | {
        "rpc.queue": 1_000, "rpc.call": 27_500, "rpc.reply": 500, "wakeup.worker": 600,
    }  # fmt: skip
