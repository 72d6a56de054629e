# SPDX-License-Identifier: Apache-2.0
"""Syncs before which calls may be lost: counted, as what they made durable may be more."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec
import pytest

from iostrata.analysis.left_out import BESIDE
from iostrata.attribute.summarise import summarise
from iostrata.model import Breakdown
from iostrata.report import json, table
from tests.stitch.test_account import Caller, analysed, sizes
from tests.synthetic import O_DSYNC, World

WRITER, SYNCER = 100, 101
CPU = WRITER % 4
FILES = 3


def rounds(lost: Collection[int] = (), *, point: str = "syscall") -> Breakdown:
    """One thread writes to each of several files, another synchronises each: round by round.

    ``lost``: rounds of which the write to the second file is not in the recording.
    """
    world = World()
    world.builder.packet_events = 1
    writers = [Caller(world, WRITER, WRITER, inode=12 + n) for n in range(FILES)]
    syncers = [Caller(world, SYNCER, SYNCER, inode=12 + n) for n in range(FILES)]
    for number in range(20):
        for place, writer in enumerate(writers):
            gone = number in lost and place == 1
            world.deaf_to = point if gone else ""
            writer.call("pwrite64", offset=number * 4096, size=4096)
            if gone:
                world.builder.refuse(point, time_ns=Caller.clock - 500, cpu=CPU)
        world.deaf_to = ""
        for syncer in syncers:
            syncer.call("fdatasync")
    return analysed(world)


def line_of(found: Breakdown) -> str:
    lines = table.render(summarise(found), 200).plain.splitlines()
    return next((line for line in lines if line.startswith("sizes")), "")


def test_a_sync_whose_write_may_be_lost_is_counted() -> None:
    found = rounds({5, 11})
    assert not found.left_out
    assert sizes(found).count(0) == 2
    # Each file's first sync after a loss: whose write was lost nobody knows.
    assert found.quality.unsure_syncs == 2 * FILES
    assert line_of(found) == (
        "sizes       6 syncs may be of more writes, or fewer, than was seen: calls before them "
        "were lost"
    )
    assert msgspec.json.decode(json.render(summarise(found)))["quality"]["unsure_syncs"] == 6


def test_without_losses_all_are_sure() -> None:
    found = rounds()
    assert found.quality.unsure_syncs == 0
    assert not line_of(found)
    assert "unsure_syncs" not in json.render(summarise(found))


@pytest.mark.parametrize(
    ("recorded", "partial"),
    [
        ("--pid 101", 3),
        ("--comm postgres", 3),
        ("--device /dev/sda --cgroup /x", 3),
        # Of each file the first one.
        ("--all", 2),
        ("--device /dev/sda --all", 2),
        ("process tree of the command", 0),
        ("redacted", 0),
    ],
)
def test_a_sync_of_what_nobody_recorded_may_be_of_more(recorded: str, partial: int) -> None:
    world = World()
    world.builder.env["filter"] = recorded
    first, second = (Caller(world, SYNCER, SYNCER, inode=12 + n) for n in range(2))
    for syncer in (first, second, first):
        syncer.call("fsync")
    first.call("pwrite64", offset=0, size=4096, flags=O_DSYNC)
    found = analysed(world)
    assert sizes(found) == [0, 0, 0, 4096]
    assert found.quality.partial_syncs == partial
    assert line_of(found) == (
        f"sizes       {partial} syncs may be of more writes than was seen: not all that was "
        "written before them was recorded"
    ) * bool(partial)
    how = table.headline(summarise(found), 80)[-1].removeprefix("fsync, open_datasync; ")
    assert how == ("at least 0, 4k" if partial else "0, 4k")
    document = msgspec.json.decode(json.render(summarise(found)))
    assert document["quality"].get("partial_syncs", 0) == partial


def test_losses_of_other_points_take_nothing_of_a_sync() -> None:
    found = rounds({5}, point="block_rq_issue")
    assert found.quality.lost
    assert not found.left_out
    assert found.quality.unsure_syncs == 0


@pytest.mark.parametrize(
    ("earlier", "later", "unsure"),
    [
        # The first of each is of all that was before it; the loss is there.
        (("fsync",), ("fsync",), 1),
        (("sync",), ("fsync",), 1),
        (("syncfs",), ("msync", 0, 4096), 1),
        (("msync", 0, 4096), ("msync", 0, 4096), 1),
        # Of a range that is not the same, nothing tells that it was made durable.
        (("msync", 0, 4096), ("msync", 4096, 4096), 2),
        # One of less leaves out what else may have been lost.
        (("msync", 0, 4096), ("fsync",), 2),
        (("fsync",), ("syncfs",), 2),
        (("syncfs",), ("sync",), 2),
    ],
)
def test_a_loss_counts_until_a_sync_of_as_much(
    earlier: tuple[Any, ...], later: tuple[Any, ...], unsure: int
) -> None:
    world = World()
    world.builder.packet_events = 1
    writer, syncer = Caller(world, WRITER, WRITER), Caller(world, SYNCER, SYNCER)
    writer.call("pwrite64", offset=0, size=4096)
    Caller.clock += 10_000
    world.builder.refuse("syscall", time_ns=Caller.clock, cpu=CPU)
    writer.call("pwrite64", offset=8192, size=4096)
    for name, *where in (earlier, later):
        offset, size = where or (-1, 0)
        syncer.call(name, offset=offset, size=size, rwf=4)
    found = analysed(world)
    assert not found.left_out
    assert found.quality.unsure_syncs == unsure


@pytest.mark.parametrize("between", [False, True])
def test_a_sync_that_begins_with_a_write_that_may_be_lost_is_left_out(*, between: bool) -> None:
    """Of a thread that makes durable what it writes itself, unless it is told to be in another call
    in between: without that write the sync would take less."""
    world = World()
    world.builder.packet_events = 1
    writer = Caller(world, WRITER, WRITER)
    for number in range(6):
        lost = number == 3
        # Of others on its CPU, between its calls.
        world.target(WRITER + 4, Caller.clock - 300)
        world.deaf_to = "syscall" if lost else ""
        writer.call("pwrite64", offset=number * 4096, size=4096)
        world.deaf_to = ""
        if lost:
            world.builder.refuse("syscall", time_ns=Caller.clock - 500, cpu=CPU)
        world.target(WRITER + 4, Caller.clock - 300)
        if lost and between:
            writer.call("pwrite64", offset=1 << 20, size=4096, flags=O_DSYNC)
        writer.call("fsync")
    found = analysed(world)
    assert found.left_out == ({} if between else {BESIDE: 1})
    latency = [2_000] * 3 + [1_000] * 2 * between + [2_000] * 2
    assert found.writes.latency_ns.tolist() == latency
