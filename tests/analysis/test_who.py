# SPDX-License-Identifier: Apache-2.0
"""Who had what writes waited for: found to the nanosecond where the world put it, or unknown."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from msgspec import UNSET

from iostrata.analysis import analyse, timelines
from iostrata.analysis.who import Names
from iostrata.attribute.choice import Choice
from iostrata.attribute.summarise import summarise
from iostrata.model import UNKNOWN, Breakdown, Crowd, Quality, Who
from iostrata.recording import open_recording
from iostrata.report import json as json_report
from iostrata.report import table, timeline_json, verdict, waterfall
from tests.synthetic import (
    O_DSYNC,
    PREFLUSH,
    SYNC,
    WRITE,
    Request,
    World,
    Writer,
    device,
    submit,
)

DISK = device(253, 0)
WRITER, HOG, NEIGHBOUR = 101, 500, 700
CPU = WRITER % 4
NOISY = 4711


def tell_of_both(world: World) -> None:
    for tid, name, cgroup in ((WRITER, b"writer", 0), (NEIGHBOUR, b"neighbour", NOISY)):
        world.emit("task", 900, tid, tgid=tid, subject_tid=tid, process=name, comm=b"thread",
                   cgroup=cgroup)  # fmt: skip


def analysed(world: World, path: Path) -> Breakdown:
    world.builder.cgroup(NOISY, "/noisy")
    world.builder.write(path)
    return analyse(open_recording(path))


def test_who_has_the_most_of_a_crowd_has_one_number() -> None:
    """A crowd stands for its first member until its time is shared."""
    names = Names()
    one, other, third = (Who("local", name) for name in ("one", "other", "third"))
    crowd, alone = names.numbers([Crowd((one, other), (60, 40)), third]).tolist()
    level, who = np.array([0, 0, 1]), np.array([crowd, alone])
    row, parts, time = names.shared(level, who, np.array([100, 1, 7]))
    known, number = names.distinct()
    assert (row.tolist(), time.tolist()) == ([0, 0, 1, 2], [60, 40, 1, 7])
    assert known == (UNKNOWN, one, third, other)
    assert [known[number[each]] for each in parts] == [one, other, other, third]


def told(breakdown: Breakdown) -> dict[str, Counter[str]]:
    """ns by row and process; each row's parts must be its time, in every write."""
    behind = breakdown.behind
    assert len(set(behind.names)) == len(behind.names)
    found: dict[str, Counter[str]] = {}
    for number, layer in enumerate(breakdown.layers):
        mine = np.flatnonzero(behind.layer == number)
        if not len(mine):
            continue
        by_write = np.zeros(len(breakdown.writes), np.int64)
        np.add.at(by_write, behind.write[mine], behind.time_ns[mine])
        assert (by_write == breakdown.time_ns[number]).all()
        parts: Counter[str] = Counter()
        for who, time in zip(behind.who[mine].tolist(), behind.time_ns[mine].tolist(), strict=True):
            parts[behind.names[who].process + behind.names[who].cgroup] += time
        found[layer.row] = parts
    return found


def run(world: World, begin: int, end: int, *, tgid: int = HOG, cpu: int = CPU) -> None:
    cgroup, process = (NOISY, b"hog") if tgid == HOG else (0, b"")
    world.emit("sched_ran", end, 0, begin_ns=begin, end_ns=end, tgid=tgid, ran_cpu=cpu,
               cgroup=cgroup, process=process)  # fmt: skip


def begun(world: World) -> tuple[Writer, int]:
    """A writer within a call, and when it is."""
    writer = Writer(world, WRITER, DISK, 1_000_000)
    writer.enter()
    writer.cpu(5_000)
    return writer, writer.now


def write_of(writer: Writer) -> None:
    writer.leave("pwrite64", flags=O_DSYNC, result=4096, size=4096)
    writer.finish()


def test_who_had_the_cpu(tmp_path: Path) -> None:
    world = World()
    writer, begin = begun(world)
    writer.preempted(300_000)
    # It took the CPU from us, and a third one had it in between; 20 us nobody was seen to have.
    run(world, begin, begin + 200_000)
    run(world, begin + 200_000, begin + 250_000, tgid=900)
    run(world, begin + 270_000, begin + 300_000)
    writer.cpu(5_000)
    write_of(writer)
    found = told(analysed(world, tmp_path / "machine"))
    assert found["wakeup.runqueue"] == {
        "hog/noisy": 230_000, "": 50_000, "unknown": 20_000,
    }  # fmt: skip


def test_what_ran_before_and_after_is_not_counted(tmp_path: Path) -> None:
    world = World()
    writer, begin = begun(world)
    writer.preempted(100_000)
    run(world, begin - 400_000, begin + 100_000)
    run(world, begin, begin + 90_000, cpu=CPU + 1)
    writer.cpu(5_000)
    write_of(writer)
    found = told(analysed(world, tmp_path / "machine"))
    assert found["wakeup.runqueue"] == {"hog/noisy": 100_000}


def test_a_waiter_that_is_moved_waited_for_the_cpu_it_was_taken_from(tmp_path: Path) -> None:
    world = World()
    writer, begin = begun(world)
    writer.preempted(300_000)
    world.emit("sched_moved", begin + 200_000, 0, since_ns=begin, subject_tid=WRITER,
               from_cpu=CPU + 1)  # fmt: skip
    run(world, begin - 1_000, begin + 200_000, cpu=CPU + 1)
    # Told once more when it was over: it is one run.
    run(world, begin - 1_000, begin + 250_000, cpu=CPU + 1)
    run(world, begin - 1_000, begin + 300_000, tgid=900)
    writer.cpu(5_000)
    write_of(writer)
    found = told(analysed(world, tmp_path / "machine"))
    assert found["wakeup.runqueue"] == {"hog/noisy": 200_000, "": 100_000}


def test_a_cpu_that_has_to_wake_up_is_nobodys(tmp_path: Path) -> None:
    world = World()
    writer = Writer(world, WRITER, DISK, 1_000_000)
    writer.enter()
    off, wake, on = writer.now, writer.now + 50_000, writer.now + 60_000
    world.emit("sched_resume", on, WRITER, off_ns=off, wake_ns=wake, waker_tid=0, state=2,
               subject_tid=WRITER, idle_ns=off + 10)  # fmt: skip
    run(world, 10, 20)
    writer.now = on
    writer.cpu(5_000)
    write_of(writer)
    assert told(analysed(world, tmp_path / "machine"))["wakeup.runqueue"] == {"idle": 10_000}


@pytest.fixture
def shared_disk() -> World:
    """One write whose request is issued behind a neighbour's, and alone once that is done."""
    world = World()
    tell_of_both(world)
    submit(world, DISK, NEIGHBOUR, 1_000_000, Request(scheduler=None, device=400_000, sector=9_000))
    writer = Writer(world, WRITER, DISK, 1_100_000)
    writer.enter()
    writer.data(Request(queue=50_000, scheduler=None, device=500_000))
    write_of(writer)
    return world


def test_whose_request_was_ahead(shared_disk: World, tmp_path: Path) -> None:
    found = told(analysed(shared_disk, tmp_path / "machine"))
    # The neighbour's was issued at 1000.3 and complete at 1400.3 us, ours at 1150 and 1650.
    assert found["block.Q2D"] == {"neighbour/noisy": 50_000}
    assert found["device.data"] == {"neighbour/noisy": 250_300, "writer": 249_700}


def test_a_read_is_ahead_and_is_part_of_no_write(tmp_path: Path) -> None:
    """The neighbour's was ahead, and the writer's thread began one of its own in its call."""
    world = World()
    tell_of_both(world)
    read = Request(scheduler=None, device=400_000, sector=9_000, read=True)
    submit(world, DISK, NEIGHBOUR, 1_000_000, read)
    writer = Writer(world, WRITER, DISK, 1_100_000)
    writer.enter()
    submit(world, DISK, WRITER, writer.now + 10, Request(device=900_000, sector=90, read=True))
    writer.data(Request(queue=50_000, scheduler=None, device=500_000))
    write_of(writer)
    found = told(analysed(world, tmp_path / "machine"))
    assert found["block.Q2D"] == {"neighbour/noisy": 50_000}
    assert found["device.data"] == {"neighbour/noisy": 250_300, "writer": 249_700}


def test_a_flush_for_both_is_each_ones_own(tmp_path: Path) -> None:
    """The neighbour asked for one, too: it is the last that did, and the flush serves both."""
    world = World()
    tell_of_both(world)
    writer = Writer(world, WRITER, DISK, 1_000_000)
    writer.enter()
    writer.cpu(5_000)
    world.emit("block_bio_queue", writer.now + 10_000, NEIGHBOUR, bio_key=0xFFFF_8881_2222_0000,
               dev=DISK, size_bytes=0, flags=WRITE | SYNC | PREFLUSH)  # fmt: skip
    writer.flush(queue=20_000, device=400_000)
    write_of(writer)
    found = told(analysed(world, tmp_path / "machine"))
    assert found["device.flush"] == {"writer": 400_000}


def test_whose_thread_had_the_lock(tmp_path: Path) -> None:
    world = World()
    for tid, name in ((WRITER, b"writer"), (NEIGHBOUR, b"neighbour")):
        world.emit("task", 900, tid, tgid=tid, subject_tid=tid, process=name, comm=b"thread",
                   cgroup=NOISY)  # fmt: skip
    other = Writer(world, NEIGHBOUR, DISK, 1_000_000)
    other.enter()
    other.cpu(300_000)
    write_of(other)
    writer = Writer(world, WRITER, DISK, 1_050_000)
    writer.enter()
    writer.cpu(10_000)
    writer.sleep(200_000, waker=NEIGHBOUR, row="lock")
    write_of(writer)
    found = told(analysed(world, tmp_path / "machine"))
    assert found["lock"] == {"neighbour/noisy": 200_000}


def test_reports_name_them(shared_disk: World, tmp_path: Path) -> None:
    summary = summarise(analysed(shared_disk, tmp_path / "machine"))
    printed = table.render(summary, with_who=True).plain
    assert "neighbour in /noisy" in printed
    assert "neighbour" not in table.plain(summary).partition("us a write")[2]
    assert max(map(len, printed.splitlines())) <= 80
    rows = {row.layer: row for row in json_report.document(summary).layers}
    parts = rows["device.data"].behind
    assert isinstance(parts, list)
    first = parts[0]
    assert (first.process, first.cgroup, first.mean_ns) == ("neighbour", "/noisy", 250_300)
    assert sum(part.mean_ns for part in parts) == rows["device.data"].mean_ns
    assert "mostly behind neighbour in /noisy" in verdict.sentences(summary)[0]


def test_timelines_show_them(shared_disk: World, tmp_path: Path) -> None:
    analysed(shared_disk, tmp_path / "machine")
    (found,) = timelines(open_recording(tmp_path / "machine"), Choice(slowest=1)).timelines
    steps = [
        (
            step.layer.row,
            step.end_ns - step.begin_ns,
            step.evidence.who and step.evidence.who.process,
        )
        for step in found.steps
        if step.layer and (step.layer.segment == "device" or step.evidence.who)
    ]
    assert steps == [
        ("block.Q2D", 50_000, "neighbour"),
        ("device.data", 250_300, "neighbour"),
        ("device.data", 249_700, None),
    ]
    assert "behind neighbour in /noisy" in waterfall.render([found], Quality(), 120, True, 9).plain
    written = timeline_json.document([found], Quality()).writes[0].steps
    assert [(step.behind, step.cgroup) for step in written if step.behind is not UNSET] == [
        ("neighbour", "/noisy"),
        ("neighbour", "/noisy"),
    ]


def test_an_older_recording_tells_of_nobody(tmp_path: Path) -> None:
    world = World()
    writer = Writer(world, WRITER, DISK, 1_000_000)
    writer.enter()
    writer.data(Request())
    write_of(writer)
    breakdown = analysed(world, tmp_path / "machine")
    assert not told(breakdown)
    assert not any(row.behind for row in summarise(breakdown).overall.rows)
