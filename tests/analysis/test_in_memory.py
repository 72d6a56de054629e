# SPDX-License-Identifier: Apache-2.0
"""Files that are in memory only: nothing of them is durable, whatever calls say."""

from __future__ import annotations

from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.analysis.left_out import IN_MEMORY
from iostrata.errors import NothingToAnalyse
from iostrata.recording import open_recording
from tests.synthetic import O_DSYNC, Request, World, Writer, device

DISK, TMPFS, OVERLAY, UPPER_OVERLAY = device(8, 0), device(0, 50), device(0, 51), device(0, 52)
NOWHERE = device(0, 60)
"""In no mount table."""


def world() -> World:
    found = World()
    found.builder.block(DISK, "sda").mount(DISK, "/", "ext4").mount(TMPFS, "/run", "tmpfs")
    upper = "rw,lowerdir=/low,upperdir=/run/upper,workdir=/run/work"
    found.builder.mount(OVERLAY, "/merged", "overlay", "overlay", upper)
    upper = "rw,lowerdir=/low,upperdir=/var/upper,workdir=/var/work"
    found.builder.mount(UPPER_OVERLAY, "/container", "overlay", "overlay", upper)
    return found


def durable_write(writer: Writer) -> None:
    writer.enter()
    writer.cpu(700)
    writer.leave("pwrite64", flags=O_DSYNC, result=4096, size=4096)
    writer.now += 1_000


def synced(writer: Writer, call: str) -> None:
    writer.enter()
    writer.cpu(300)
    writer.leave(call)
    writer.now += 1_000


@pytest.mark.parametrize("place", [TMPFS, OVERLAY])
def test_they_are_counted_and_are_no_part_of_the_mean(place: int, tmp_path: Path) -> None:
    machine = world()
    for tid, where in enumerate((DISK, UPPER_OVERLAY), 100):
        writer = Writer(machine, tid, DISK, 1_000_000 + tid, file_device=where)
        writer.enter()
        writer.data(Request(scheduler=None, device=90_000))
        writer.leave("pwrite64", flags=O_DSYNC, result=4096, size=4096)
    memory = Writer(machine, 200, DISK, 1_000_000, file_device=place)
    for _ in range(3):
        durable_write(memory)
    for call in ("fsync", "fdatasync"):
        synced(memory, call)
    machine.builder.write(tmp_path / "machine")
    found = analyse(open_recording(tmp_path / "machine"))
    assert found.left_out == {IN_MEMORY: 5}
    assert set(found.writes.device_key.tolist()) == {DISK, UPPER_OVERLAY}
    assert found.writes.latency_ns.min() > 90_000
    assert not [gap for gap in found.quality.not_observed if "tmpfs" in gap.reason]


def test_where_there_is_nothing_else_that_is_said(tmp_path: Path) -> None:
    machine = world()
    synced(Writer(machine, 100, DISK, 1_000_000, file_device=TMPFS), "fsync")
    machine.builder.write(tmp_path / "machine")
    with pytest.raises(NothingToAnalyse, match="tmpfs") as told:
        analyse(open_recording(tmp_path / "machine"))
    assert "a directory on a disk" in told.value.hint


def met(world: World, time_ns: int, what: str, below: int = 0) -> None:
    world.emit("file_system", time_ns, 100, dev=NOWHERE, type=what.encode(), below_dev=below)


@pytest.mark.parametrize("what", ["tmpfs", "btrfs"])
def test_what_is_in_no_mount_table_is_what_was_met(what: str, tmp_path: Path) -> None:
    machine = world()
    met(machine, 900_000, what)
    durable_write(Writer(machine, 100, DISK, 1_000_000, file_device=NOWHERE))
    durable_write(Writer(machine, 101, DISK, 1_000_000, file_device=DISK))
    machine.builder.write(tmp_path / "machine")
    found = analyse(open_recording(tmp_path / "machine"))
    if what == "tmpfs":
        assert found.left_out == {IN_MEMORY: 1}
        assert found.writes.names["file_system"] == ("ext4",)
    else:
        assert not found.left_out
        assert sorted(found.writes.names["file_system"]) == ["btrfs", "ext4"]


def test_a_number_that_is_used_again_is_at_each_time_what_was_met_last(tmp_path: Path) -> None:
    machine = world()
    writer = Writer(machine, 100, DISK, 1_000_000, file_device=NOWHERE)
    for what, times, below in (
        ("tmpfs", 3, 0),
        ("fuseblk", 2, DISK),
        ("ramfs", 4, 0),
        ("overlay", 1, DISK),
        ("overlay", 2, TMPFS),
        ("btrfs", 1, device(8, 16)),
        ("overlay", 1, OVERLAY),
    ):
        met(machine, writer.now - 100, what, below)
        for _ in range(times):
            durable_write(writer)
    machine.builder.write(tmp_path / "machine")
    found = analyse(open_recording(tmp_path / "machine"))
    assert found.left_out == {IN_MEMORY: 10}
    told = {
        column: [found.writes.names[column][code] for code in found.writes.codes[column]]
        for column in ("file_system", "device")
    }
    assert told["file_system"] == ["fuseblk", "fuseblk", "overlay (ext4)", "btrfs"]
    assert told["device"] == ["sda", "sda", "sda", "8:16"]


def test_a_disk_itself_is_no_file_system(tmp_path: Path) -> None:
    """Whatever is mounted from it."""
    machine = world()
    durable_write(Writer(machine, 100, DISK, 1_000_000, file_device=DISK, inode=DISK))
    durable_write(Writer(machine, 101, DISK, 2_000_000, file_device=DISK))
    machine.builder.write(tmp_path / "machine")
    writes = analyse(open_recording(tmp_path / "machine")).writes
    names = writes.names["file_system"]
    assert [names[code] for code in writes.codes["file_system"]] == ["no file system", "ext4"]
