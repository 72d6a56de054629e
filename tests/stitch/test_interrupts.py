# SPDX-License-Identifier: Apache-2.0
"""A disk's interrupt that needs a thread, which has no CPU: it waits for that, no longer for the
disk."""

from __future__ import annotations

import pytest

from iostrata.trace.layout import QUEUER_LOOP, THREAD_HELPER, WAKE_INTERRUPT, WAKE_THREAD
from tests.stitch.test_below import DATA, KWORKER, LOOP, SDA, Block, told
from tests.stitch.test_truth import accounts
from tests.stitch.test_wakers import resume
from tests.synthetic import O_DSYNC, World, Writer

IRQ, OTHER_IRQ, NEW_IRQ, KSOFTIRQD = 57, 58, 59, 16
REST = {"syscall": 1_000, "block.Q2D": 500, "wakeup.interrupt": 500}
DEVICE = "device.data"
FIRST, SECOND = 0, 1


def of_disk(thread: bytes = b"irq/27-virtio4-") -> World:
    world = World()
    world.builder.block(SDA, "sda")
    world.target(IRQ, comm=thread, kind=THREAD_HELPER)
    world.target(OTHER_IRQ, comm=b"irq/9-acpi", kind=THREAD_HELPER)
    world.target(KSOFTIRQD, comm=b"ksoftirqd/0", kind=THREAD_HELPER)
    return world


def runs(world: World, off: int, wake: int, on: int, tid: int = IRQ) -> None:
    context = WAKE_INTERRUPT if tid == IRQ else WAKE_THREAD
    resume(world, tid, off, wake, on, 0, context=context, state=1)


def written(world: World, complete: int, by: int, number: int = FIRST) -> None:
    """The disk has it from 2500 on; its writer goes on 500 behind that it is complete."""
    tid = 100 + number
    asked(world, complete, by, number)
    writer = Writer(world, tid, SDA, 1_000)
    writer.enter()
    context = WAKE_THREAD if by else WAKE_INTERRUPT
    resume(world, tid, 2_500, complete + 500, complete + 500, by, context=context)
    writer.now = complete + 500
    writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)


def asked(world: World, complete: int, by: int, number: int, queue: int = 2_000) -> None:
    keys = {"request_key": 0xA0 + number, "bio_key": 0xB0 + number}
    place = {"dev": SDA, "sector": 8 + 64 * number, "size_bytes": 8192, "flags": DATA}
    Block(world, SDA).queue(queue, 100 + number, keys["bio_key"], sector=place["sector"])
    world.emit("block_rq_issue", queue + 500, 100 + number, **keys, **place)
    world.emit("block_rq_complete", complete, by, by_kernel_thread=int(by > 0), **keys, **place)


def rows(world: World, number: int = FIRST) -> dict[str, int]:
    found: dict[str, int] = accounts(told(world))[100 + number][0]
    return found


def test_from_the_interrupt_on_its_thread_waits_for_a_cpu() -> None:
    world = of_disk()
    runs(world, 1_000, 12_500, 42_500)
    written(world, 52_500, IRQ)
    assert rows(world) == REST | {DEVICE: 20_000, "wakeup.runqueue": 30_000}


def test_it_is_preempted_amid_it() -> None:
    world = of_disk()
    runs(world, 1_000, 12_500, 22_500)
    world.emit("sched_resume", 40_000, IRQ, off_ns=30_000, subject_tid=IRQ)
    written(world, 52_500, IRQ)
    assert rows(world) == REST | {DEVICE: 30_000, "wakeup.runqueue": 20_000}


def test_of_several_that_it_completes_nothing_tells_since_when_the_disk_was_done() -> None:
    """But of the first: what the interrupt was for."""
    world = of_disk()
    runs(world, 1_000, 12_500, 42_500)
    written(world, 52_500, IRQ)
    written(world, 53_500, IRQ, SECOND)
    assert rows(world) == REST | {DEVICE: 20_000, "wakeup.runqueue": 30_000}
    assert rows(world, SECOND) == REST | {DEVICE: 21_000, "residual": 30_000}


def test_what_was_issued_behind_the_interrupt_the_disk_has() -> None:
    world = of_disk()
    runs(world, 500, 1_500, 42_500)
    written(world, 52_500, IRQ)
    assert rows(world) == REST | {DEVICE: 10_000, "residual": 40_000}


def test_it_leaves_the_rest_to_soft_interrupts() -> None:
    """Whose thread has no CPU either. What that is woken for need not be the disk's."""
    world = of_disk()
    runs(world, 1_000, 12_500, 22_500)
    runs(world, 1_000, 1_500, 32_500, KSOFTIRQD)
    written(world, 52_500, KSOFTIRQD)
    # That interrupts of the disk have threads, another request tells.
    runs(world, 60_000, 70_000, 70_000)
    asked(world, 71_000, IRQ, SECOND, queue=65_000)
    assert rows(world) == REST | {DEVICE: 30_000, "wakeup.runqueue": 20_000}


@pytest.mark.parametrize("by", [KSOFTIRQD, 0])
def test_without_threads_of_interrupts_the_disk_has_it_until_it_is_complete(by: int) -> None:
    world = of_disk()
    runs(world, 1_000, 12_500, 42_500)
    runs(world, 1_000, 12_500, 42_500, KSOFTIRQD)
    written(world, 52_500, by)
    assert rows(world) == REST | {DEVICE: 50_000}


def test_an_interrupt_that_comes_upon_another_one_s_thread() -> None:
    """As seldom as that is: of the disk's completions one of three."""
    world = of_disk()
    runs(world, 1_000, 12_500, 42_500)
    written(world, 52_500, IRQ)
    for number in (1, 2):
        asked(world, 52_500 + number, 0, number)
    assert rows(world) == REST | {DEVICE: 50_000}


def test_a_loop_device_on_that_disk_has_no_interrupt_of_its_own() -> None:
    """What is complete below is complete there, in the same run of the thread."""
    world = of_disk()
    world.builder.block(LOOP, "loop0", lower_keys=(SDA,), backing="/disk.img", backing_inode=13)
    runs(world, 1_000, 12_500, 42_500)
    loop, keys = Block(world, LOOP), {"request_key": 0xA8, "bio_key": 0xB8}
    loop.queue(1_800, 100, 0xB8)
    place = {"dev": LOOP, "sector": 8, "size_bytes": 8192, "flags": DATA}
    world.emit("block_rq_issue", 1_900, 100, **keys, **place)
    below = {"request_key": 0xA0, "bio_key": 0xB0}
    Block(world, SDA).queue(2_000, KWORKER, 0xB0, kernel=QUEUER_LOOP, above=0xA8)
    world.emit("block_rq_issue", 2_500, KWORKER, **below, **place | {"dev": SDA})
    for key, dev, time in ((below, SDA, 52_400), (keys, LOOP, 52_500)):
        world.emit(
            "block_rq_complete", time, IRQ, by_kernel_thread=1, **key, **place | {"dev": dev}
        )
    writer = Writer(world, 100, LOOP, 1_000)
    writer.enter()
    resume(world, 100, 2_500, 53_000, 53_000, IRQ, context=WAKE_THREAD)
    writer.now = 53_000
    writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    found = rows(world)
    assert found["wakeup.runqueue"] == 30_000
    assert found.get("residual", 0) <= 1_000


def test_a_thread_that_is_first_met_may_have_had_no_cpu_until_then() -> None:
    world = of_disk(b"another")
    world.target(NEW_IRQ, 40_000, comm=b"irq/28-virtio5-", kind=THREAD_HELPER)
    written(world, 52_500, NEW_IRQ)
    assert rows(world) == REST | {DEVICE: 12_500, "residual": 37_500}
