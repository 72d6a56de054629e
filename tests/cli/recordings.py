# SPDX-License-Identifier: Apache-2.0
"""A small recording for tests of commands: forty writes of two kinds, on one disk."""

from __future__ import annotations

from pathlib import Path

from tests.synthetic import O_DSYNC, Request, World, Writer, device, write

WRITES = 20
DISK = device(254, 0)
# A loss touches all of its packet's time: these writes are far apart.
PAUSE_NS = 1_000_000


def small_world(disk: str = "vda") -> World:
    world = World()
    world.builder.block(DISK, disk, scheduler="mq-deadline", write_cache="write back", fua=False)
    writer = Writer(world, 100, DISK, 1_000_000)
    for number in range(WRITES):
        writer.now += PAUSE_NS
        synchronous(writer, 30_000 + 100 * number)
        synced(writer, 30_000 + 100 * number)
    return world


def synchronous(writer: Writer, device_ns: int) -> None:
    writer.enter()
    writer.cpu(2_000)
    writer.data(Request(device=device_ns))
    writer.cpu(500)
    writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    writer.finish()
    writer.now += 1_000


def synced(writer: Writer, device_ns: int) -> None:
    writer.enter()
    writer.cpu(1_500)
    writer.leave("pwrite64", result=8192, size=8192)
    writer.now += 100
    writer.enter()
    writer.data(Request(device=device_ns))
    writer.flush()
    writer.leave("fdatasync")
    writer.finish()
    writer.now += 1_000


def small_recording(directory: Path, disk: str = "vda") -> Path:
    return write(small_world(disk), directory)


def lossy_recording(directory: Path) -> Path:
    world = small_world()
    world.builder.packet_events = 12
    world.builder.refuse("block_rq_issue", time_ns=10 * PAUSE_NS, count=3)
    return write(world, directory)


def skipped_recording(directory: Path) -> Path:
    """The kernel skipped a program of the block layer around the first half of the writes."""
    world = small_world()
    world.builder.add("miss", time_ns=WRITES * PAUSE_NS, since_ns=1, missed_count=2,
                      program=b"block_rq_issue")  # fmt: skip
    return write(world, directory)
