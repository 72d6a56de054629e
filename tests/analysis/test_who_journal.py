# SPDX-License-Identifier: Apache-2.0
"""Whose a commit is, whose the data, whose the limit: as the world put it, to the nanosecond."""

from __future__ import annotations

from pathlib import Path

import pytest

from iostrata.analysis import timelines
from iostrata.attribute.choice import Choice
from iostrata.model import Quality
from iostrata.recording import open_recording
from iostrata.report import waterfall
from tests.analysis.test_who import DISK, NEIGHBOUR, NOISY, WRITER, analysed, told, write_of
from tests.synthetic import (
    TASK_UNINTERRUPTIBLE,
    Commit,
    Request,
    World,
    Writer,
    device,
    submit,
)

JOURNAL, FLUSHER, LOOP = 900, 78, device(7, 0)
CONTEXT_THREAD, CONTEXT_INTERRUPT = 1, 2


def known(world: World) -> None:
    for tid, name, cgroup in (
        (WRITER, b"writer", 0),
        (NEIGHBOUR, b"neighbour", NOISY),
        (JOURNAL, b"jbd2/vda-8", 0),
        (FLUSHER, b"kworker/u8:1", 0),
    ):
        world.emit("task", 900, tid, tgid=tid, subject_tid=tid, process=name, comm=name,
                   cgroup=cgroup)  # fmt: skip


def handles(world: World, commit: Commit, time_ns: int, **blocks: int) -> None:
    for name, count in blocks.items():
        tid = {"writer": WRITER, "neighbour": NEIGHBOUR, "worker": FLUSHER, "others": 0}[name]
        world.emit("jbd2_handles", time_ns, JOURNAL, dev=DISK, transaction=commit.transaction,
                   subject_tid=tid, block_count=count)  # fmt: skip


def waiting(world: World, commit: Commit) -> None:
    writer = Writer(world, WRITER, DISK, commit.begin - 20_000)
    world.target(JOURNAL, kind=2, comm=b"jbd2")
    writer.enter()
    writer.cpu(10_000)
    writer.wait_for(commit)
    writer.cpu(5_000)
    write_of(writer)


def test_a_commit_is_whose_handles_changed_what_it_logs(tmp_path: Path) -> None:
    world = World()
    known(world)
    commit = Commit(world, DISK, 1_000_000, 7)
    log = Request(queue=2_000, scheduler=None, device=60_000, meta=True)
    commit.run(20_000, 4_000, [log])
    handles(world, commit, 1_020_000, writer=1, neighbour=3)
    waiting(world, commit)
    found = told(analysed(world, tmp_path / "machine"))
    # Of an earlier commit, behind which it began, there is nothing.
    assert found["journal.start"] == {"unknown": 10_000}
    assert found["journal.locking"] == {"neighbour/noisy": 15_000, "writer": 5_000}
    assert found["journal.flushing"] == {"neighbour/noisy": 3_000, "writer": 1_000}
    assert found["journal.logging"] == {"neighbour/noisy": 750, "writer": 250}
    assert found["device.journal"] == {"neighbour/noisy": 45_000, "writer": 15_000}


@pytest.mark.parametrize("there", [True, False])
def test_what_a_loop_devices_worker_changed_is_of_who_asked_that(
    tmp_path: Path, *, there: bool
) -> None:
    """Where its file is on the journal's disk; else the worker changed it for something else."""
    world = World()
    known(world)
    world.builder.block(LOOP, "loop0", backing="/image", lower_keys=(DISK if there else DISK + 16,))
    submit(world, LOOP, NEIGHBOUR, 1_002_000, Request(scheduler=None, device=10_000))
    world.emit("loop_work", 1_012_000, FLUSHER, enter_ns=1_003_000, dev=LOOP)
    commit = Commit(world, DISK, 1_000_000, 7).run(20_000, 4_000, [])
    handles(world, commit, 1_020_000, writer=1)
    handles(world, commit, 1_020_033, worker=3)
    waiting(world, commit)
    found = told(analysed(world, tmp_path / "machine"))
    who = "neighbour/noisy" if there else "kworker/u8:1"
    assert found["journal.locking"] == {who: 15_000, "writer": 5_000}


def test_what_had_no_room_to_be_told_apart_is_nobodys(tmp_path: Path) -> None:
    world = World()
    known(world)
    commit = Commit(world, DISK, 1_000_000, 7).run(20_000, 4_000, [])
    handles(world, commit, 1_020_000, neighbour=3, others=1)
    waiting(world, commit)
    found = told(analysed(world, tmp_path / "machine"))
    assert found["journal.locking"] == {"neighbour/noisy": 15_000, "unknown": 5_000}


def test_the_last_handle_has_the_wait_for_all_of_them(tmp_path: Path) -> None:
    world = World()
    known(world)
    commit = Commit(world, DISK, 1_000_000, 7).run(320_000, 4_000, [])
    world.emit("sched_resume", 1_315_000, JOURNAL, off_ns=1_010_000, wake_ns=1_310_000,
               waker_tid=NEIGHBOUR, state=TASK_UNINTERRUPTIBLE, subject_tid=JOURNAL,
               waker_context=CONTEXT_THREAD)  # fmt: skip
    handles(world, commit, 1_320_000, writer=1)
    waiting(world, commit)
    found = told(analysed(world, tmp_path / "machine"))
    # Then its thread waited for a CPU, which is told of in a row of its own.
    assert found["journal.locking"] == {"neighbour/noisy": 300_000, "writer": 15_000}
    assert found["wakeup.runqueue"]["unknown"] >= 5_000


def test_a_kernel_worker_writes_somebodys_data(tmp_path: Path) -> None:
    """The neighbour's pages are ahead, which a flusher writes; and what a commit writes is its."""
    world = World()
    known(world)
    ahead = Request(scheduler=None, device=400_000, sector=9_000)
    submit(world, DISK, FLUSHER, 1_000_000, ahead, data_tid=NEIGHBOUR)
    writer = Writer(world, WRITER, DISK, 1_100_000)
    writer.enter()
    writer.data(Request(queue=50_000, scheduler=None, device=500_000))
    write_of(writer)
    found = told(analysed(world, tmp_path / "machine"))
    assert found["device.data"] == {"neighbour/noisy": 250_300, "writer": 249_700}


@pytest.mark.parametrize(
    ("limit", "who", "shown"),
    [
        ({"cgroup": NOISY}, "cpu.max/noisy", "behind cpu.max in /noisy"),
        ({"own": 1}, "SCHED_DEADLINE", "behind SCHED_DEADLINE"),
        ({}, "unknown", ""),
    ],
)
def test_whose_quota_it_was(limit: dict[str, int], who: str, shown: str, tmp_path: Path) -> None:
    world = World()
    writer = Writer(world, WRITER, DISK, 1_000_000)
    writer.enter()
    writer.cpu(5_000)
    since = writer.now
    writer.preempted(100_000)
    world.emit("sched_throttled", writer.now, WRITER, since_ns=since, throttled_ns=60_000,
               subject_tid=WRITER, **limit)  # fmt: skip
    world.emit("sched_ran", writer.now, 0, begin_ns=since, end_ns=writer.now, tgid=500, ran_cpu=1,
               process=b"hog")  # fmt: skip
    writer.cpu(5_000)
    write_of(writer)
    found = told(analysed(world, tmp_path / "machine"))
    assert found["throttle.cpu"] == {who: 60_000}
    (one,) = timelines(open_recording(tmp_path / "machine"), Choice(slowest=1)).timelines
    page = waterfall.render([one], Quality(), 120, True, 9).plain
    behind = [line for line in page.splitlines() if "behind" in line and "throttle.cpu" in line]
    assert [shown in line for line in behind] == ([True] if shown else [])


def test_whose_limit_held_a_request_back(tmp_path: Path) -> None:
    world = World()
    known(world)
    writer = Writer(world, WRITER, DISK, 1_000_000)
    writer.enter()
    writer.cpu(5_000)
    asleep, queued = writer.now, writer.now + 400_000
    request = Request(queue=2_000, scheduler=None, device=50_000)
    submit(world, DISK, FLUSHER, queued, request, held=True, cgroup=NOISY)
    done = queued + 52_000
    world.emit("sched_resume", done + 3_000, WRITER, off_ns=asleep, wake_ns=done + 1_000,
               waker_tid=0, state=TASK_UNINTERRUPTIBLE, subject_tid=WRITER,
               waker_context=CONTEXT_INTERRUPT, waker_cpu=0)  # fmt: skip
    writer.now = done + 3_000
    write_of(writer)
    found = told(analysed(world, tmp_path / "machine"))
    assert found["throttle.io"] == {"io.max/noisy": 400_000}
