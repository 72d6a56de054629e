# SPDX-License-Identifier: Apache-2.0
"""Workers of io_uring: whose requests they run, and for how long, whoever completes them."""

from __future__ import annotations

import pytest

from iostrata.stitch import window
from iostrata.stitch.opcodes import RWF_OF_LINKED, RWF_OF_SILENT
from iostrata.trace.layout import CALL_FSYNC, CALL_IO_URING_ENTER, THREAD_HELPER, THREAD_WORKER
from tests.stitch.test_truth import accounts, analysed, conserves
from tests.synthetic import O_DSYNC, Request, World, device, submit

DISK = device(8, 0)
WRITER, WORKER = 100, 101
INTERRUPTIBLE, UNINTERRUPTIBLE = 1, 2
FILE = {"inode": 12, "dev": DISK}


def handed_over(world: World, key: int, enter: int, **request: int) -> None:
    """The writer's call, from ``enter``: its request is handed over 2000 later."""
    world.emit("io_uring_submit_req", enter + 1_000, WRITER, request_key=key, **request, **FILE)
    world.emit("io_uring_queue_async_work", enter + 2_000, WRITER, request_key=key, **request,
               **FILE)  # fmt: skip


def resumes(world: World, tid: int, off: int, wake: int, on: int, waker: int, state: int) -> None:
    world.emit("sched_resume", on, tid, off_ns=off, wake_ns=wake, waker_tid=waker, state=state,
               subject_tid=tid, waker_context=1 if waker else 2)  # fmt: skip


def at_disk(
    world: World, tid: int, key: int, begin: int, sleep: tuple[int, int, int], device_ns: int
) -> None:
    """A worker is at a request from ``begin``, and sleeps for the disk: since when, let go when,
    and when it has a CPU again."""
    world.emit("io_uring_work", begin, tid, request_key=key)
    submit(world, DISK, tid, begin, Request(queue=500, scheduler=None, device=device_ns))
    off, wake, on = sleep
    resumes(world, tid, off, wake, on, 0, UNINTERRUPTIBLE)


def worked_off(world: World, key: int, begin: int, asleep: int) -> None:
    """A write by the worker, from ``begin``; it sleeps for the disk ``asleep`` later."""
    at_disk(world, WORKER, key, begin, (begin + asleep, begin + 20_600, begin + 22_000), 20_000)
    world.emit("io_uring_complete", begin + 24_000, WORKER, request_key=key, result=8192,
               opcode=23, open_flags=O_DSYNC, size_bytes=8192, **FILE)  # fmt: skip


def worlds() -> World:
    world = World()
    world.target(WRITER)
    world.emit("thread", 1, WRITER, tgid=WRITER, subject_tid=WORKER, kind=THREAD_WORKER,
               comm=b"iou-wrk-100")  # fmt: skip
    return world


def test_what_a_worker_runs_is_its_request_s_whoever_completes_it() -> None:
    """A ring that defers its completions: the worker lets the submitter go, which has the rest."""
    world = worlds()
    handed_over(world, 0x77, 1_000, opcode=3)
    # Awake after 500, it runs after 1500 more, and has 1000 to do before its bio, 3000 after it.
    resumes(world, WORKER, 500, 3_500, 5_000, WRITER, INTERRUPTIBLE)
    at_disk(world, WORKER, 0x77, 6_000, (7_000, 26_500, 27_500), 20_000)
    resumes(world, WRITER, 4_000, 30_500, 34_000, WORKER, INTERRUPTIBLE)
    world.emit("io_uring_work", 32_000, WORKER, request_key=0)
    world.emit("io_uring_complete", 35_000, WRITER, request_key=0x77, opcode=3, result=0, **FILE)
    world.emit("syscall", 36_000, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    breakdown = analysed(world)
    conserves(breakdown)
    assert accounts(breakdown) == {
        WRITER: [{
            "syscall": 2_000 + 1_000 + 3_000, "wakeup.worker": 500, "block.Q2D": 500,
            "device.data": 20_000, "wakeup.runqueue": 1_500 + 1_000 + 3_500, "wakeup.reap": 2_000,
        }]
    }  # fmt: skip


@pytest.mark.parametrize("synced", [True, False])
def test_a_worker_that_lets_the_submitter_go_and_sleeps_on_is_not_done(*, synced: bool) -> None:
    """As it begins to sleep it has the submitter make another worker; that one is awake when it is
    done. A file system's sync says when that is, a disk's says nothing."""
    world = worlds()
    handed_over(world, 0x77, 1_000, opcode=3)
    resumes(world, WORKER, 500, 3_500, 5_000, WRITER, INTERRUPTIBLE)
    world.emit("io_uring_work", 6_000, WORKER, request_key=0x77)
    submit(world, DISK, WORKER, 6_000, Request(queue=500, scheduler=None, device=20_000))
    resumes(world, WRITER, 4_000, 6_900, 8_000, WORKER, INTERRUPTIBLE)
    resumes(world, WORKER, 7_000, 26_500, 27_500, 0, UNINTERRUPTIBLE)
    if synced:
        world.emit("ext4_sync_file", 31_000, WORKER, enter_ns=5_500, request_key=0x77, **FILE)
    world.emit("io_uring_work", 32_000, WORKER, request_key=0)
    world.emit("io_uring_complete", 35_000, WRITER, request_key=0x77, opcode=3, result=0, **FILE)
    world.emit("syscall", 36_000, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    breakdown = analysed(world)
    conserves(breakdown)
    (held,) = accounts(breakdown)[WRITER]
    on_cpu = held.pop("syscall") + held.pop("fs", 0)
    assert on_cpu == 2_000 + 1_000 + (31_000 if synced else 32_000) - 27_500
    assert held == {
        "wakeup.worker": 500, "block.Q2D": 500, "device.data": 20_000,
        "wakeup.runqueue": 1_500 + 1_000, "wakeup.reap": 36_000 - (31_000 if synced else 32_000),
    }  # fmt: skip


def test_who_syncs_what_was_transferred_is_not_who_it_was_handed_to() -> None:
    """A worker hands a direct write to the disk, and says nothing: a limit held it back. It was
    complete when the kernel's pool had to sync it: since when, nobody knows."""
    world, kworker = worlds(), 66
    world.target(kworker, kind=THREAD_HELPER)
    handed_over(world, 0x77, 1_000, opcode=23, open_flags=O_DSYNC)
    world.emit("syscall", 3_500, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    resumes(world, kworker, 500, 79_000, 80_000, 0, INTERRUPTIBLE)
    world.emit("ext4_sync_file", 91_000, kworker, enter_ns=81_000, request_key=0x77, **FILE)
    world.emit("io_uring_complete", 92_000, WRITER, request_key=0x77, result=8192, opcode=23,
               open_flags=O_DSYNC, size_bytes=8192, **FILE)  # fmt: skip
    breakdown = analysed(world)
    conserves(breakdown)
    assert accounts(breakdown) == {
        WRITER: [{"syscall": 2_000, "residual": 81_000 - 3_000, "fs": 10_000, "wakeup.reap": 1_000}]
    }


def test_a_worker_has_one_request_after_the_other() -> None:
    """Direct writes: the disk's interrupts complete them. The second is the worker's when it
    says so first; until then it waits for it."""
    world = worlds()
    for key, enter in ((0x70, 1_000), (0x80, 3_000)):
        handed_over(world, key, enter, opcode=23, open_flags=O_DSYNC)
    world.emit("syscall", 5_500, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    resumes(world, WORKER, 500, 3_500, 6_000, WRITER, INTERRUPTIBLE)
    for key, begin in ((0x70, 7_000), (0x80, 9_000)):
        world.emit("io_uring_work", begin, WORKER, request_key=key)
        submit(world, DISK, WORKER, begin, Request(queue=500, scheduler=None, device=20_000))
    world.emit("io_uring_work", 10_000, WORKER, request_key=0)
    for key, end in ((0x70, 30_000), (0x80, 31_000)):
        world.emit("io_uring_complete", end, WRITER, request_key=key, result=8192, opcode=23,
                   open_flags=O_DSYNC, size_bytes=8192, **FILE)  # fmt: skip
    breakdown = analysed(world)
    conserves(breakdown)
    assert accounts(breakdown) == {
        WRITER: [
            {"syscall": 2_000 + 1_000, "wakeup.worker": 500, "wakeup.runqueue": 2_500,
             "block.Q2D": 500, "device.data": 20_000, "wakeup.reap": 2_500},
            {"syscall": 4_000, "wakeup.worker": 3_000, "wakeup.runqueue": 1_000,
             "block.Q2D": 500, "device.data": 20_000, "wakeup.reap": 1_500},
        ]
    }  # fmt: skip


def test_what_waits_for_a_worker_waits_for_what_that_waits_for() -> None:
    """One worker for both (writes to the cache of one file): the second waits for the disk, too,
    while the worker is asleep for the first one, and else for the worker."""
    world = worlds()
    for key, enter in ((0x70, 1_000), (0x80, 3_000)):
        handed_over(world, key, enter, opcode=23, open_flags=O_DSYNC)
    world.emit("syscall", 5_500, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    resumes(world, WORKER, 500, 3_500, 6_000, WRITER, INTERRUPTIBLE)
    for key, begin in ((0x70, 7_000), (0x80, 32_000)):
        worked_off(world, key, begin, asleep=1_000)
    breakdown = analysed(world)
    conserves(breakdown)
    found = accounts(breakdown)[WRITER]
    assert found[0] == {
        "syscall": 2_000 + 1_000 + 2_000, "wakeup.worker": 500, "block.Q2D": 500,
        "device.data": 20_000, "wakeup.interrupt": 100, "wakeup.runqueue": 2_500 + 1_400,
    }  # fmt: skip
    # Handed over at 5000, when the worker waited for a CPU; taken up at 31000.
    assert found[1] == {
        "syscall": 4_000 + 1_000 + 2_000, "wakeup.worker": 2_000 + 2_000,
        "wakeup.runqueue": 1_000 + 1_400 + 1_400, "wakeup.interrupt": 2 * 100, "block.Q2D": 500,
        "device.data": 19_500 + 20_000,
    }  # fmt: skip


def test_the_last_of_a_deep_queue_waits_for_all_before_it() -> None:
    """To the page cache of one file: one worker has them all."""
    world, depth = worlds(), 60
    keys = range(0x70, 0x70 + depth)
    for number, key in enumerate(keys):
        handed_over(world, key, 1_000 + 3_000 * number, opcode=23, open_flags=O_DSYNC)
    resumes(world, WORKER, 500, 200_000, 201_000, WRITER, INTERRUPTIBLE)
    for begin, key in zip(range(210_000, 10**9, 40_000), keys, strict=False):
        worked_off(world, key, begin, asleep=400)
    breakdown = analysed(world)
    conserves(breakdown)
    found = [account["device.data"] for account in accounts(breakdown)[WRITER]]
    assert found == [20_000 * (1 + number) for number in range(depth)]


def test_a_queue_is_followed_from_one_window_into_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixteen wait at any time: who is the first of a window waits for those of the one before."""
    world, depth, count = worlds(), 16, 120
    resumes(world, WORKER, 500, 200_000, 201_000, WRITER, INTERRUPTIBLE)
    for number in range(count):
        key, begin = 0x70 + number, 210_000 + 40_000 * number
        enter = 1_000 + 3_000 * number if number < depth else begin - 40_000 * depth
        handed_over(world, key, enter, opcode=23, open_flags=O_DSYNC)
        worked_off(world, key, begin, asleep=400)
    whole = analysed(world)
    monkeypatch.setattr(window, "WINDOW_PIECES", 8)
    parts = analysed(world)
    found = [account["device.data"] for account in accounts(whole)[WRITER]]
    # When one is handed over, the disk has 18,500 left for the one that the worker is at.
    assert found[depth:] == [18_500 + 20_000 * depth] * (count - depth)
    assert accounts(parts) == accounts(whole)
    assert parts.quality.ties == whole.quality.ties == {"key": count}


def test_who_collects_several_at_once_waits_for_a_cpu_for_each() -> None:
    """One call submits both, to two disks, and sleeps until both are complete."""
    world = worlds()
    slow, fast = DISK, device(8, 16)
    requests = (0x70, 2_000, slow, 100_000), (0x80, 4_000, fast, 20_000)
    for key, begin, disk, took in requests:
        world.emit("io_uring_submit_req", begin, WRITER, request_key=key, opcode=23, dev=disk,
                   open_flags=O_DSYNC, inode=12, size_bytes=8192)  # fmt: skip
        submit(world, disk, WRITER, begin + 500, Request(queue=500, scheduler=None, device=took))
    # The slow one's completion, at 103000, lets it go, which takes 500; it runs 1000 after that.
    resumes(world, WRITER, 6_000, 103_500, 104_500, 0, INTERRUPTIBLE)
    for key, _, disk, _ in requests:
        world.emit("io_uring_complete", 105_000, WRITER, request_key=key, opcode=23, dev=disk,
                   open_flags=O_DSYNC, result=8192, size_bytes=8192, inode=12)  # fmt: skip
    world.emit("syscall", 106_000, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    breakdown = analysed(world)
    conserves(breakdown)
    assert accounts(breakdown) == {
        WRITER: [
            {"syscall": 1_500, "block.Q2D": 500, "device.data": 100_000,
             "wakeup.runqueue": 1_000, "wakeup.reap": 500 + 1_500},
            {"syscall": 3_500, "block.Q2D": 500, "device.data": 20_000,
             "wakeup.runqueue": 1_000, "wakeup.reap": 78_500 + 1_500},
        ]
    }  # fmt: skip


def test_a_worker_copies_before_its_file_system_syncs() -> None:
    """What it did before the sync is not what the request waited for the worker."""
    world = worlds()
    handed_over(world, 0x77, 1_000, opcode=23, open_flags=O_DSYNC)
    resumes(world, WORKER, 500, 3_500, 5_000, WRITER, INTERRUPTIBLE)
    at_disk(world, WORKER, 0x77, 46_000, (47_000, 66_500, 67_500), 20_000)
    world.emit("ext4_sync_file", 70_000, WORKER, enter_ns=45_000, request_key=0x77, **FILE)
    world.emit("io_uring_complete", 72_000, WORKER, request_key=0x77, result=8192, opcode=23,
               open_flags=O_DSYNC, size_bytes=8192, **FILE)  # fmt: skip
    resumes(world, WRITER, 4_000, 72_500, 74_000, WORKER, INTERRUPTIBLE)
    world.emit("syscall", 75_000, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    breakdown = analysed(world)
    conserves(breakdown)
    assert accounts(breakdown) == {
        WRITER: [{
            "syscall": 2_000 + 40_000 + 2_000, "wakeup.worker": 500, "fs": 1_000 + 2_500,
            "block.Q2D": 500, "device.data": 20_000, "wakeup.runqueue": 1_500 + 1_000 + 1_500,
            "wakeup.reap": 1_500,
        }]
    }  # fmt: skip


def test_a_sync_waits_for_what_it_is_linked_behind() -> None:
    """A worker writes, and tells nobody: the sync, handed over when that was complete, is of it."""
    world = worlds()
    write = {"request_key": 0x70, "opcode": 23, "size_bytes": 8192, **FILE,
             "rwf": RWF_OF_LINKED | RWF_OF_SILENT}  # fmt: skip
    sync = {"request_key": 0x80, "opcode": 3, **FILE}
    world.emit("io_uring_submit_req", 2_000, WRITER, **write)
    world.emit("io_uring_submit_req", 2_500, WRITER, **sync)
    world.emit("io_uring_queue_async_work", 3_000, WRITER, **write)
    resumes(world, WORKER, 500, 3_500, 5_000, WRITER, INTERRUPTIBLE)
    at_disk(world, WORKER, 0x70, 6_000, (7_000, 26_500, 27_500), 20_000)
    # It goes on with the sync, which it is at for 500 more before its bio.
    world.emit("io_uring_queue_async_work", 29_500, WORKER, **sync)
    at_disk(world, WORKER, 0x80, 30_000, (31_000, 40_500, 41_500), 10_000)
    world.emit("io_uring_complete", 43_500, WORKER, result=0, **sync)
    resumes(world, WRITER, 4_000, 44_000, 45_000, WORKER, INTERRUPTIBLE)
    world.emit("syscall", 46_000, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    breakdown = analysed(world)
    conserves(breakdown)
    assert breakdown.writes.size_bytes.tolist() == [8192]
    assert accounts(breakdown) == {
        WRITER: [{
            "syscall": 2_000 + 1_000 + 2_500 + 2_000, "wakeup.worker": 500, "block.Q2D": 1_000,
            "device.data": 30_000, "wakeup.runqueue": 1_500 + 3 * 1_000, "wakeup.reap": 1_500,
        }]
    }  # fmt: skip


def linked_pair(world: World, first: dict[str, int], second: dict[str, int]) -> None:
    """Submitted by the writer's call from 1000 on, the second one behind the first."""
    linked = first | {"rwf": first.get("rwf", 0) | RWF_OF_LINKED}
    world.emit("io_uring_submit_req", 2_000, WRITER, **linked)
    world.emit("io_uring_submit_req", 2_500, WRITER, **second)


def direct_write(key: int, **other: int) -> dict[str, int]:
    return {"request_key": key, "opcode": 23, "size_bytes": 8192, "open_flags": O_DSYNC} | (
        FILE | other
    )


def test_a_synchronous_write_begins_when_what_it_is_linked_behind_is_complete() -> None:
    """Both directly, by their submitter: the first one's time is not the second one's."""
    world = worlds()
    first, second = direct_write(0x70), direct_write(0x80)
    linked_pair(world, first, second)
    submit(world, DISK, WRITER, 3_000, Request(queue=500, scheduler=None, device=50_000))
    resumes(world, WRITER, 5_000, 53_600, 54_600, 0, INTERRUPTIBLE)
    world.emit("io_uring_complete", 55_000, WRITER, result=8192, **first)
    # It goes on with the next one, and has 1000 to do before its bio.
    submit(world, DISK, WRITER, 56_000, Request(queue=500, scheduler=None, device=20_000))
    resumes(world, WRITER, 57_000, 76_600, 77_600, 0, INTERRUPTIBLE)
    world.emit("io_uring_complete", 78_000, WRITER, result=8192, **second)
    world.emit("syscall", 79_000, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    breakdown = analysed(world)
    conserves(breakdown)
    assert breakdown.writes.latency_ns.tolist() == [78_000, 24_000]
    assert accounts(breakdown)[WRITER][1] == {
        "syscall": 1_000, "block.Q2D": 500, "device.data": 20_000, "wakeup.interrupt": 100,
        "wakeup.runqueue": 1_000, "wakeup.reap": 1_400,
    }  # fmt: skip


def test_a_worker_goes_on_with_what_is_linked_behind_what_it_completed() -> None:
    """It says so with the bio only: until then it is at it, and nobody hands it over."""
    world = worlds()
    first, second = direct_write(0x70), direct_write(0x80)
    linked_pair(world, first, second)
    world.emit("io_uring_queue_async_work", 3_000, WRITER, **first)
    resumes(world, WORKER, 500, 3_500, 5_000, WRITER, INTERRUPTIBLE)
    work_of(world, 0x70, 6_000)
    world.emit("io_uring_complete", 29_000, WORKER, result=8192, **first)
    work_of(world, 0x80, 39_000)
    world.emit("io_uring_complete", 62_000, WORKER, result=8192, **second)
    resumes(world, WRITER, 4_000, 62_500, 64_000, WORKER, INTERRUPTIBLE)
    world.emit("syscall", 65_000, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    breakdown = analysed(world)
    conserves(breakdown)
    assert accounts(breakdown)[WRITER][1] == {
        "syscall": 10_000 + 1_500, "block.Q2D": 500, "device.data": 20_000,
        "wakeup.runqueue": 1_000 + 1_500, "wakeup.reap": 1_500,
    }  # fmt: skip


def test_a_write_to_another_file_is_no_part_of_the_sync_that_is_linked_behind_it() -> None:
    """The sync makes another file durable; it begins when the write is complete."""
    world = worlds()
    write = direct_write(0x70, open_flags=0, inode=99)
    sync = {"request_key": 0x80, "opcode": 3, **FILE}
    linked_pair(world, write, sync)
    world.emit("io_uring_complete", 55_000, WRITER, result=8192, **write)
    world.emit("io_uring_queue_async_work", 56_000, WRITER, **sync)
    resumes(world, WORKER, 500, 56_500, 58_000, WRITER, INTERRUPTIBLE)
    at_disk(world, WORKER, 0x80, 59_000, (60_000, 79_500, 80_500), 20_000)
    world.emit("io_uring_complete", 82_000, WORKER, result=0, **sync)
    world.emit("syscall", 83_000, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    breakdown = analysed(world)
    conserves(breakdown)
    assert breakdown.writes.size_bytes.tolist() == [0]
    assert accounts(breakdown)[WRITER] == [{
        "syscall": 1_000 + 1_000 + 1_500, "wakeup.worker": 500, "wakeup.runqueue": 2_500,
        "block.Q2D": 500, "device.data": 20_000, "wakeup.reap": 1_000,
    }]  # fmt: skip


def test_what_is_linked_behind_what_is_not_recorded_begins_when_that_is_complete() -> None:
    """A message comes after 100000: the write behind it, and the sync behind that, begin then; a
    worker waits for neither before."""
    world = worlds()
    write = direct_write(0x70, open_flags=0, rwf=RWF_OF_LINKED)
    sync = {"request_key": 0x80, "opcode": 3, **FILE}
    linked_pair(world, write, sync)
    world.emit("syscall", 3_000, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    resumes(world, WRITER, 5_000, 100_000, 101_000, 555, INTERRUPTIBLE)
    world.emit("io_uring_unlinked", 102_000, WRITER, request_key=0x70)
    world.emit("io_uring_queue_async_work", 103_000, WRITER, **write)
    resumes(world, WORKER, 500, 103_500, 105_000, WRITER, INTERRUPTIBLE)
    world.emit("io_uring_complete", 110_000, WORKER, result=8192, **write)
    at_disk(world, WORKER, 0x80, 112_000, (113_000, 132_500, 133_500), 20_000)
    world.emit("io_uring_complete", 135_000, WORKER, result=0, **sync)
    resumes(world, WRITER, 104_000, 135_500, 137_000, WORKER, INTERRUPTIBLE)
    world.emit("syscall", 138_000, WRITER, enter_ns=4_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    breakdown = analysed(world)
    conserves(breakdown)
    assert breakdown.writes.size_bytes.tolist() == [8192]
    assert accounts(breakdown)[WRITER] == [{
        "syscall": 1_000 + 5_000 + 1_500, "wakeup.worker": 500 + 2_000, "block.Q2D": 500,
        "wakeup.runqueue": 1_500 + 1_000 + 1_500, "device.data": 20_000, "wakeup.reap": 1_500,
    }]  # fmt: skip


def test_a_worker_is_at_what_is_linked_behind_what_it_ran_unrecorded() -> None:
    """It opens a file, and has the write to that and the sync, whose submitter sleeps: that is no
    lock, and the time before is in no write."""
    world = worlds()
    write = direct_write(0x70, open_flags=0, rwf=RWF_OF_LINKED)
    sync = {"request_key": 0x80, "opcode": 3, **FILE}
    linked_pair(world, write, sync)
    resumes(world, WORKER, 500, 3_500, 5_000, WRITER, INTERRUPTIBLE)
    world.emit("io_uring_unlinked", 90_000, WORKER, request_key=0x70)
    world.emit("io_uring_complete", 100_000, WORKER, result=8192, **write)
    at_disk(world, WORKER, 0x80, 102_000, (103_000, 122_500, 123_500), 20_000)
    world.emit("io_uring_complete", 125_000, WORKER, result=0, **sync)
    resumes(world, WRITER, 4_000, 125_500, 127_000, WORKER, INTERRUPTIBLE)
    world.emit("syscall", 128_000, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    breakdown = analysed(world)
    conserves(breakdown)
    assert accounts(breakdown)[WRITER] == [{
        "syscall": 10_000 + 1_500, "wakeup.worker": 2_000, "block.Q2D": 500,
        "device.data": 20_000, "wakeup.runqueue": 1_000 + 1_500, "wakeup.reap": 1_500,
    }]  # fmt: skip


def test_a_sync_begins_when_what_is_not_recorded_between_it_and_its_write_is_complete() -> None:
    """The worker reads a message until 90000, and goes on with the sync: no wait of either."""
    world = worlds()
    write = direct_write(0x70, open_flags=0, rwf=RWF_OF_LINKED)
    sync = {"request_key": 0x80, "opcode": 3, **FILE}
    linked_pair(world, write, sync)
    world.emit("io_uring_queue_async_work", 3_000, WRITER, **write)
    resumes(world, WORKER, 500, 3_500, 5_000, WRITER, INTERRUPTIBLE)
    world.emit("io_uring_work", 5_000, WORKER, request_key=0x70)
    world.emit("io_uring_complete", 7_000, WORKER, result=8192, **write)
    world.emit("io_uring_unlinked", 90_000, WORKER, request_key=0x80)
    world.emit("io_uring_work", 91_000, WORKER, request_key=0x80)
    submit(world, DISK, WORKER, 92_000, Request(queue=500, scheduler=None, device=20_000))
    resumes(world, WORKER, 93_000, 112_500, 113_500, 0, UNINTERRUPTIBLE)
    world.emit("io_uring_complete", 115_000, WORKER, result=0, **sync)
    resumes(world, WRITER, 4_000, 115_500, 117_000, WORKER, INTERRUPTIBLE)
    world.emit("syscall", 118_000, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    breakdown = analysed(world)
    conserves(breakdown)
    assert breakdown.writes.size_bytes.tolist() == [8192]
    assert breakdown.writes.latency_ns.tolist() == [118_000 - 90_000]


def test_what_is_linked_ends_with_the_call_that_submits_it() -> None:
    """The last one of a call says that it is linked: what the next call submits is not."""
    world = worlds()
    for begin, key, end in ((1_000, 0x70, 90_000), (10_000, 0x80, 95_000)):
        request = direct_write(key, rwf=RWF_OF_LINKED)
        world.emit("io_uring_submit_req", begin + 1_000, WRITER, **request)
        world.emit("syscall", begin + 2_000, WRITER, enter_ns=begin, call=CALL_IO_URING_ENTER,
                   tgid=WRITER)  # fmt: skip
        world.emit("io_uring_complete", end, WRITER, result=8192, **request)
    assert analysed(world).writes.latency_ns.tolist() == [89_000, 85_000]


def test_no_worker_keeps_what_was_not_handed_over_yet() -> None:
    """It waits for a timer that nothing tells of, as in older recordings: then it is handed over.
    Before that its submitter sleeps until the worker has done another one."""
    world = worlds()
    other, write = direct_write(0x60), direct_write(0x70)
    handed_over(world, 0x60, 1_000, opcode=23, open_flags=O_DSYNC, size_bytes=8192)
    world.emit("syscall", 3_500, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    resumes(world, WORKER, 500, 3_200, 5_000, WRITER, INTERRUPTIBLE)
    world.emit("io_uring_submit_req", 5_500, WRITER, **write)
    work_of(world, 0x60, 6_000)
    world.emit("io_uring_complete", 29_000, WORKER, result=8192, **other)
    resumes(world, WRITER, 7_500, 29_500, 30_500, WORKER, INTERRUPTIBLE)
    world.emit("io_uring_work", 30_000, WORKER, request_key=0)
    world.emit("io_uring_queue_async_work", 103_000, WRITER, **write)
    resumes(world, WORKER, 31_000, 103_500, 105_000, WRITER, INTERRUPTIBLE)
    work_of(world, 0x70, 106_000)
    world.emit("io_uring_complete", 129_000, WORKER, result=8192, **write)
    world.emit("syscall", 130_000, WRITER, enter_ns=5_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    breakdown = analysed(world)
    conserves(breakdown)
    assert accounts(breakdown)[WRITER][1]["wakeup.worker"] == 500


def work_of(world: World, key: int, begin: int) -> None:
    """A worker does it, which takes 21500 with what the disk takes."""
    at_disk(world, WORKER, key, begin, (begin + 1_000, begin + 20_500, begin + 21_500), 20_000)


def submitted_at(world: World, enter: int, key: int, tag: int, **other: int) -> None:
    """By a call of its own."""
    world.emit("io_uring_submit_req", enter + 100, WRITER, result=tag, **direct_write(key, **other))
    world.emit("syscall", enter + 200, WRITER, enter_ns=enter, call=CALL_IO_URING_ENTER,
               tgid=WRITER)  # fmt: skip


def kept(world: World, time: int, tag: int) -> None:
    world.emit("io_uring_cqe_overflow", time, WRITER, completion_tag=tag & 0xFFFF_FFFF, result=8192)


def test_a_completion_that_its_ring_has_no_room_for_is_one() -> None:
    """By what the program calls its requests: -5 is under way twice, but one after the other."""
    world = worlds()
    submitted_at(world, 1_000, 0x70, -5)
    submitted_at(world, 2_000, 0x80, 6)
    kept(world, 50_000, 6)
    kept(world, 60_000, -5)
    submitted_at(world, 70_000, 0x90, -5)
    world.emit("io_uring_complete", 80_000, WRITER, result=8192, **direct_write(0x90))
    submitted_at(world, 90_000, 0x70, -5)
    kept(world, 99_000, -5)
    breakdown = analysed(world)
    conserves(breakdown)
    assert breakdown.left_out == {}
    assert breakdown.writes.latency_ns.tolist() == [59_000, 48_000, 10_000, 9_000]
    assert breakdown.writes.size_bytes.tolist() == [8192] * 4


@pytest.mark.parametrize("completions", [1, 2])
def test_whose_a_completion_is_that_there_was_no_room_for_is_not_guessed(completions: int) -> None:
    """Both are called alike, and under way. The third one's is told."""
    world = worlds()
    for enter, key in ((1_000, 0x70), (2_000, 0x80), (3_000, 0x90)):
        submitted_at(world, enter, key, 7)
    world.emit("io_uring_complete", 40_000, WRITER, result=8192, **direct_write(0x90))
    for number in range(completions):
        kept(world, 50_000 + number, 7)
    breakdown = analysed(world)
    assert breakdown.left_out == {"completion not seen: its ring was full": 2}
    assert breakdown.writes.latency_ns.tolist() == [37_000]


def test_a_second_completion_of_that_name_shows_that_the_first_was_another_s() -> None:
    """One of the two is of what is not recorded."""
    world = worlds()
    submitted_at(world, 1_000, 0x70, 7)
    submitted_at(world, 2_000, 0x80, 8)
    kept(world, 40_000, 7)
    kept(world, 50_000, 7)
    kept(world, 60_000, 8)
    breakdown = analysed(world)
    assert breakdown.left_out == {"completion not seen: its ring was full": 1}
    assert breakdown.writes.latency_ns.tolist() == [58_000]


def test_a_sync_waits_for_the_worker_of_what_it_is_linked_behind() -> None:
    """Writes to one file have one worker, which says nothing of them: it completes one after the
    other, and then has the syncs that are linked behind them."""
    world = worlds()
    chains = ((0x70, 0x80), (0x71, 0x81))
    for number, (write, sync) in enumerate(chains):
        begin = 2_000 + 100 * number
        head = {"request_key": write, "opcode": 23, "rwf": RWF_OF_LINKED, "size_bytes": 8192,
                "offset_bytes": 8192 * number, **FILE}  # fmt: skip
        world.emit("io_uring_submit_req", begin, WRITER, **head)
        world.emit("io_uring_submit_req", begin + 20, WRITER, request_key=sync, opcode=3, **FILE)
        world.emit("io_uring_queue_async_work", begin + 50, WRITER, **head)
    resumes(world, WORKER, 500, 3_500, 5_000, WRITER, INTERRUPTIBLE)
    for (write, _), end in zip(chains, (15_000, 35_000), strict=True):
        world.emit("io_uring_complete", end, WORKER, request_key=write, opcode=23, result=8192,
                   **FILE)  # fmt: skip
    for (_, sync), begin in zip(chains, (37_000, 67_000), strict=True):
        at_disk(world, WORKER, sync, begin, (begin + 1_000, begin + 20_500, begin + 21_500), 20_000)
        world.emit("io_uring_complete", begin + 25_000, WORKER, request_key=sync, opcode=3,
                   result=0, **FILE)  # fmt: skip
    world.emit("syscall", 95_000, WRITER, enter_ns=1_000, call=CALL_IO_URING_ENTER, tgid=WRITER)
    breakdown = analysed(world)
    conserves(breakdown)
    # What was complete when the first sync began is made durable by that.
    assert breakdown.writes.size_bytes.tolist() == [2 * 8192, 0]
    assert accounts(breakdown) == {
        WRITER: [
            # The worker wakes, and runs its write; then it is at the other one's.
            {"syscall": 1_050 + 10_000 + 3_500, "wakeup.worker": 1_450 + 20_000 + 2_000,
             "wakeup.runqueue": 1_500 + 1_000, "block.Q2D": 500, "device.data": 20_000,
             "wakeup.reap": 33_000},
            # It is at the other one's, runs this write, and sleeps for the other sync's data.
            {"syscall": 1_150 + 20_000 + 3_500, "wakeup.worker": 1_350 + 10_000 + 3_000 + 8_500,
             "wakeup.runqueue": 1_500 + 2 * 1_000, "block.Q2D": 500,
             "device.data": 19_500 + 20_000, "wakeup.reap": 3_000},
        ]
    }  # fmt: skip


def test_a_sync_that_is_refused_is_left_out_and_counted() -> None:
    """It is completed, but was never submitted, and its file not looked up."""
    world = worlds()
    for begin in (1_000, 50_000):
        world.emit("io_uring_complete", begin + 5_000, WRITER, request_key=0x77, opcode=3,
                   result=-22)  # fmt: skip
    world.emit("io_uring_submit_req", 91_000, WRITER, request_key=0x77, opcode=3, **FILE)
    world.emit("io_uring_complete", 95_000, WRITER, request_key=0x77, opcode=3, result=0, **FILE)
    breakdown = analysed(world)
    assert breakdown.left_out == {"the call failed": 2}
    assert breakdown.writes.latency_ns.tolist() == [4_000]


def test_a_thread_s_number_is_used_again_by_another_process() -> None:
    world = World()
    world.emit("thread", 1, WRITER, tgid=WRITER, subject_tid=WRITER, kind=1, comm=b"first")
    for begin in (1_000, 2_001_000):
        request = {"request_key": 0x77, "opcode": 23, "open_flags": O_DSYNC, **FILE}
        world.emit("io_uring_submit_req", begin, WRITER, **request)
        world.emit("io_uring_complete", begin + 5_000, WRITER, result=8192, **request)
    for tid in (300, WRITER):
        world.emit("thread", 2_000_000, 300, tgid=300, subject_tid=tid, kind=1, comm=b"second")
    writes = analysed(world).writes
    assert writes.tgid.tolist() == [WRITER, 300]
    names = [writes.names["process"][code] for code in writes.codes["process"]]
    assert names == ["first (100)", "second (300)"]


@pytest.mark.parametrize("count", [100, 140])
def test_what_waits_behind_too_many_is_said(count: int) -> None:
    """One worker has one after the other: up to 128 of its sleeps are what the last waits for."""
    world = worlds()
    for number in range(count):
        handed_over(world, 0x1000 + number, 1_000 + number, opcode=23, open_flags=O_DSYNC)
    now = 10_000
    for number in range(count):
        key = 0x1000 + number
        at_disk(world, WORKER, key, now, (now + 600, now + 20_600, now + 20_700), 20_000)
        now += 21_000
        world.emit("io_uring_complete", now, WORKER, request_key=key, result=8192, opcode=23,
                   open_flags=O_DSYNC, size_bytes=8192, **FILE)  # fmt: skip
    found = analysed(world)
    assert len(found.writes) == count
    told = [gap.reason for gap in found.quality.not_observed if gap.layer == "queues of workers"]
    last = accounts(found)[WRITER][-1]
    assert len(told) == (count > 128)
    assert all(reason.startswith(f"{count - 129} requests") for reason in told)
    # The worker sleeps 100 after its request was issued.
    assert last["device.data"] == 20_000 + 19_900 * min(count - 1, 128)


# Of linux/io_uring.h: what writes to a file beside WRITE and its like.
FALLOCATE, SPLICE, FTRUNCATE, WRITEV_FIXED = 17, 30, 55, 61
OPEN_OF_SYNC_INODE = 0x80000000


@pytest.mark.parametrize(
    ("opcode", "open_flags", "result", "found"),
    [
        (WRITEV_FIXED, O_DSYNC, 8192, [("io_uring:open_datasync", 8192), ("fsync", 0)]),
        (WRITEV_FIXED, 0, 8192, [("fsync", 8192)]),
        (SPLICE, O_DSYNC, 8192, [("io_uring:open_datasync", 8192), ("fsync", 0)]),
        (SPLICE, 0, 8192, [("fsync", 8192)]),
        (SPLICE, O_DSYNC, 0, [("fsync", 0)]),  # The pipe was empty.
        (FALLOCATE, O_DSYNC, 0, [("io_uring:open_datasync", 0), ("fsync", 0)]),
        (FALLOCATE, 0, 0, [("fsync", 0)]),
        (FTRUNCATE, OPEN_OF_SYNC_INODE, 0, [("io_uring:sync_inode", 0), ("fsync", 0)]),
    ],
)
def test_all_that_writes_is_a_write(
    opcode: int, open_flags: int, result: int, found: list[tuple[str, int]]
) -> None:
    world = worlds()
    request = {"request_key": 0x77, "opcode": opcode, "open_flags": open_flags, **FILE}
    world.emit("io_uring_submit_req", 2_000, WRITER, **request)
    world.emit("io_uring_complete", 9_000, WORKER, result=result, **request)
    world.emit("syscall", 30_000, WRITER, enter_ns=20_000, call=CALL_FSYNC, tgid=WRITER, **FILE)
    writes = analysed(world).writes
    names = [writes.names["method"][code] for code in writes.codes["method"].tolist()]
    assert list(zip(names, writes.size_bytes.tolist(), strict=True)) == found


def test_what_succeeds_silently_is_over_though_its_key_is_another_s_later() -> None:
    """Two writes and their sync, three times, of which the sync alone has a completion; its key
    is that of the next chain's last write, whose own has another sync then."""
    world, keys = worlds(), (0x70, 0x80, 0x90)
    for number in range(3):
        begin = 1_000 + 50_000 * number
        written = {"opcode": 23, "size_bytes": 4096, "rwf": RWF_OF_LINKED | RWF_OF_SILENT}
        first, second, last = (keys[(place - number) % 3] for place in range(3))
        for place, key in enumerate((first, second)):
            world.emit("io_uring_submit_req", begin + 100 * (place + 1), WRITER,
                       request_key=key, **written, **FILE)  # fmt: skip
        sync = {"request_key": last, "opcode": 3, **FILE}
        world.emit("io_uring_submit_req", begin + 300, WRITER, **sync)
        world.emit("io_uring_queue_async_work", begin + 400, WRITER, request_key=first,
                   **written, **FILE)  # fmt: skip
        world.emit("io_uring_work", begin + 3_000, WORKER, request_key=last)
        submit(world, DISK, WORKER, begin + 3_000, Request(queue=500, scheduler=None))
        world.emit("io_uring_complete", begin + 40_000, WORKER, result=0, **sync)
        world.emit("syscall", begin + 41_000, WRITER, enter_ns=begin, call=CALL_IO_URING_ENTER,
                   tgid=WRITER)  # fmt: skip
    assert analysed(world).writes.size_bytes.tolist() == [8192] * 3
