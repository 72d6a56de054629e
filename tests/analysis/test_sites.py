# SPDX-License-Identifier: Apache-2.0
"""Unattributed sleeps are told by the functions of the kernel that they were in."""

from __future__ import annotations

from json import loads
from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.analysis.sites import UNKNOWN, site_of
from iostrata.attribute import summarise
from iostrata.model import Breakdown, Unseen
from iostrata.recording import open_recording
from iostrata.report import json, table
from iostrata.trace.layout import THREAD_HELPER, WAKE_INTERRUPT, WAKE_THREAD, WAKE_UNKNOWN
from tests.stitch.test_below import KWORKER, THIN, Block, one_write
from tests.stitch.test_wakers import IDLE
from tests.synthetic import O_DSYNC, Request, World, Writer, device, write

DISK = device(8, 0)
STRANGER = 999
ENTERED = ("do_syscall_64", "entry_SYSCALL_64_after_hwframe")
LOCK = ("bpf_prog_6b_wakeup_switch", "__traceiter_sched_switch", "__schedule", "schedule",
        "rwsem_down_write_slowpath", "down_write", "ext4_buffered_write_iter", "vfs_write",
        "__x64_sys_pwrite64", *ENTERED)  # fmt: skip
BUFFER = ("__schedule", "io_schedule", "bit_wait_io", "__wait_on_bit", "out_of_line_wait_on_bit",
          "__sync_dirty_buffer", "ext4_write_inode.isra.0", "__x64_sys_fsync")  # fmt: skip


@pytest.mark.parametrize(
    ("functions", "site"),
    [
        (LOCK, "rwsem_down_write_slowpath < down_write < ext4_buffered_write_iter"),
        (BUFFER, "__wait_on_bit < __sync_dirty_buffer < ext4_write_inode"),
        (("schedule", "do_syscall_64"), UNKNOWN),
        ((), UNKNOWN),
    ],
)
def test_a_site_is_what_lies_between_scheduler_and_entry(
    functions: tuple[str, ...], site: str
) -> None:
    assert site_of(functions) == site


def test_sleeps_that_nobody_was_seen_to_end_are_told(tmp_path: Path) -> None:
    """The kernel need not tell of every wake-up; what was slept until one that it told of not."""
    world = World()
    world.builder.block(DISK, "sda")
    writer = Writer(world, 200, DISK, 1_000_000)
    for seen in (True, False, False):
        writer.enter()
        writer.cpu(1_000)
        off = writer.now
        writer.now += 40_000
        wake, waker = (writer.now, STRANGER) if seen else (0, 0)
        world.emit("sched_resume", writer.now, 200, off_ns=off, wake_ns=wake, waker_tid=waker,
                   state=2, subject_tid=200)  # fmt: skip
        writer.cpu(500)
        writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
        writer.finish()
    found = analysed(world, tmp_path / "r")
    assert found.residual_ns.tolist() == [40_000] * 3
    assert found.quality.unseen == (Unseen("local", 2, 80_000 / 3),)
    text = table.render(summarise(found), 80).plain
    assert "not seen    who ended 2 sleeps: 26.7 us a write, unattributed\n" in text
    (told,) = loads(json.render(summarise(found)))["quality"]["unseen"]
    assert told == {"machine": "local", "count": 2, "mean_ns": 26_666.667}


def test_who_ended_what_no_event_explains_is_told(tmp_path: Path) -> None:
    """By the name of its process, if that was told before, and if it was no interrupt."""
    world = World()
    world.builder.block(DISK, "sda")
    writer = Writer(world, 200, DISK, 1_000_000)
    world.emit("task", 999_000, 0, tgid=STRANGER, subject_tid=STRANGER, process=b"fsfreeze")
    ended = [(60_000, STRANGER, WAKE_THREAD), (20_000, STRANGER, WAKE_UNKNOWN),
             (12_000, 998, WAKE_THREAD), (8_000, STRANGER, WAKE_INTERRUPT)]  # fmt: skip
    writer.enter()
    for took_ns, waker, context in ended:
        off, writer.now = writer.now, writer.now + took_ns
        world.emit("sched_resume", writer.now, 200, off_ns=off, wake_ns=writer.now, state=2,
                   waker_tid=waker, waker_context=context, subject_tid=200)  # fmt: skip
        writer.cpu(500)
    writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    found = analysed(world, tmp_path / "r")
    assert found.residual_ns.tolist() == [100_000]
    told = [(waker.who.process, waker.time_ns) for waker in found.quality.wakers]
    assert told == [("fsfreeze", 60_000), ("an interrupt", 8_000)]
    summary = summarise(found)
    text, document = table.render(summary, 80).plain, loads(json.render(summary))
    line = "woken by    fsfreeze: 60.0 us a write, unattributed; not recorded itself (--all)\n"
    assert line in text
    assert "no event explains it, but fsfreeze ended most of it" in " ".join(text.split())
    wakers = document["quality"]["wakers"]
    assert wakers[0] == {
        "machine": "local", "process": "fsfreeze", "mean_ns": 60_000, "recorded": False,
    }  # fmt: skip
    assert wakers[1]["recorded"]


@pytest.mark.parametrize("why", ["all are recorded", "of the same process", "another process"])
def test_who_ended_it_may_have_done_nothing_that_is_recorded(why: str, tmp_path: Path) -> None:
    """As who fills a pipe, or pages of memory: that is no lack of the recording's."""
    world = World()
    world.builder.block(DISK, "sda")
    if why == "all are recorded":
        world.builder.env["filter"] = "--all"
    process = 200 if why == "of the same process" else STRANGER
    world.target(200)
    world.emit("task", 999_000, 0, tgid=process, subject_tid=STRANGER, process=b"filler")
    writer = Writer(world, 200, DISK, 1_000_000)
    writer.enter()
    off, writer.now = writer.now, writer.now + 60_000
    world.emit("sched_resume", writer.now, 200, off_ns=off, wake_ns=writer.now, state=2,
               waker_tid=STRANGER, waker_context=WAKE_THREAD, subject_tid=200)  # fmt: skip
    writer.cpu(500)
    writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    (waker,) = analysed(world, tmp_path / "r").quality.wakers
    assert waker.who.process == "filler"
    assert waker.recorded == (why != "another process")


@pytest.mark.parametrize("by", ["dmsetup", "an interrupt", "a writer", "a helper"])
def test_who_lets_go_what_a_stacked_device_held_back_is_told(by: str, tmp_path: Path) -> None:
    """A program that is nothing else to the write: a suspended device's until it is resumed."""
    world, end = World(), 3_000_000
    world.builder.block(THIN, "dm-1", lower_keys=(DISK,)).block(DISK, "sda")
    volume, disk = Block(world, THIN), Block(world, DISK)
    world.target(KWORKER, kind=THREAD_HELPER, comm=b"kworker/0:1")
    volume.queue(2_000, 100, 0xB0)
    one_write(world, THIN, end + 34_000, woken=end + 33_100)
    waker, context = STRANGER, WAKE_INTERRUPT if by == "an interrupt" else WAKE_THREAD
    if by == "a writer":
        volume.queue(end - 5_000, STRANGER, 0xC0, sector=64)
    elif by == "a helper":
        world.target(STRANGER, kind=THREAD_HELPER, comm=b"kworker/0:2")
    # Both are told as it goes on with it, and by then whoever let it go may be gone.
    world.emit("task", end + 1_400, KWORKER, subject_tid=waker, tgid=waker, process=b"dmsetup")
    world.emit("sched_woken", end + 1_500, KWORKER, wake_ns=end, on_ns=end + 1_000, state=IDLE,
               waker_tid=waker, waker_context=context, subject_tid=KWORKER)  # fmt: skip
    disk.take_from(THIN, end + 1_900, KWORKER, 0xB1)
    disk.queue(end + 2_000, KWORKER, 0xB1, kernel=1)
    disk.request(end + 3_000, end + 33_000, 0xA0, 0xB1)
    volume.complete(end + 33_100, 0xB0)
    found = analysed(world, tmp_path / "r")
    times = {layer.row: found.time_ns[place, 0] for place, layer in enumerate(found.layers)}
    assert times["block.stacked"] == end - 2_000 + 1_000 + 100
    assert times["wakeup.runqueue"] == 1_000 + 900
    assert times["device.data"] == 30_000
    told = [(waker.who.process, waker.device, waker.time_ns) for waker in found.quality.wakers]
    assert told == ([("dmsetup", "dm-1", end - 2_000)] if by == "dmsetup" else [])
    summary = summarise(found)
    text = " ".join(table.render(summary, 80).plain.split())
    held = "above all block.stacked (99%): not the device (1%); dm-1 held most of that back until"
    assert (f"{held} dmsetup let it go." in text) == bool(told)
    assert ("dmsetup: 3.00 ms a write, held back by dm-1 until then" in text) == bool(told)
    wakers = loads(json.render(summary))["quality"].get("wakers", [])
    assert [waker["device"] for waker in wakers] == ["dm-1"] * len(told)


class Stacked(World):
    """Each sleep that nobody caused has the stack that was set."""

    stack = -1

    def emit(self, point: str, time_ns: int, tid: int, **fields: int | bytes) -> None:
        if point == "sched_resume":
            fields["stack"] = self.stack if fields["waker_tid"] == STRANGER else 5
        super().emit(point, time_ns, tid, **fields)


def analysed(world: World, path: Path) -> Breakdown:
    return analyse(open_recording(write(world, path)))


def world_of_waits(stacks: bool) -> Stacked:
    world = Stacked()
    world.builder.block(DISK, "sda")
    if stacks:
        world.builder.stack(5, "schedule", "never").stack(7, *LOCK).stack(8, *BUFFER)
    writer = Writer(world, 200, DISK, 1_000_000)
    for lock, buffer in ((30_000, 0), (50_000, 7_000)):
        writer.enter()
        writer.cpu(1_000)
        writer.data(Request())
        writer.cpu(500)
        for world.stack, duration in ((7, lock), (8, buffer), (-1, 900)):
            if duration:
                writer.sleep(duration, waker=STRANGER, row=None)
                writer.cpu(500)
        writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
        writer.finish()
    return world


def test_unattributed_time_is_told_by_where_it_was_slept(tmp_path: Path) -> None:
    found = analysed(world_of_waits(stacks=True), tmp_path / "r")
    told = {site.site: site.time_ns for site in found.quality.sites}
    assert told == {
        "rwsem_down_write_slowpath < down_write < ext4_buffered_write_iter": 40_000,
        "__wait_on_bit < __sync_dirty_buffer < ext4_write_inode": 3_500,
        UNKNOWN: 900,
    }
    assert sum(told.values()) * 2 == found.residual_ns.sum()


def test_without_stacks_nothing_is_told(tmp_path: Path) -> None:
    assert analysed(world_of_waits(stacks=False), tmp_path / "r").quality.sites == ()


@pytest.mark.parametrize("hidden", [False, True])
def test_a_call_in_which_a_switch_was_not_seen_may_have_slept_since_it_ran_on(
    tmp_path: Path, hidden: bool
) -> None:
    """By the kernel's own count it left the CPU once more than it was seen to, by the end; before
    it slept for the disk it had not yet."""
    world = World()
    world.builder.block(DISK, "sda")
    writer = Writer(world, 200, DISK, 1_000_000)
    for number in range(3):
        writer.enter()
        begin = writer.now
        writer.cpu(1_000)
        writer.data(Request(device=70_000))
        writer.cpu(20_000)
        if hidden and number == 1:
            world.emit("sched_hidden", writer.now, 200, enter_ns=begin, count=1)
        writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
        writer.finish()
    found = analysed(world, tmp_path / "r")
    rows = {
        layer.name: times.tolist() for layer, times in zip(found.layers, found.time_ns, strict=True)
    }
    assert rows["device.data"] == [70_000] * 3
    unseen = 20_000 if hidden else 0
    assert rows["syscall"] == [21_000, 21_000 - unseen, 21_000]
    assert found.residual_ns.tolist() == [0, unseen, 0]
    assert found.quality.unseen == ((Unseen("local", 1, unseen / 3),) if hidden else ())
