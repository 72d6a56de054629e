# SPDX-License-Identifier: Apache-2.0
"""Of which file it is what a read asked a disk for, without waiting for it: readahead, or is that
not known? With known truth."""

from __future__ import annotations

from tests.reading import RAHEAD, Reader, reading_world
from tests.stitch.test_reads import DISK, PAGE, holds
from tests.synthetic import READ, device

OVERLAY, BESIDE = device(0, 50), device(0, 51)
PARTS = 4


def test_what_is_split_off_is_of_the_same_file() -> None:
    """Readahead's bio is too large for its disk: its parts are told of by no page."""
    world = reading_world()
    reader = Reader(world, 100, DISK, 10_000)
    reader.enter()
    reader.floor = "read.cached"
    reader.cpu(300)
    bio, queued, size = 0xB0, reader.now, 16 * PAGE
    place = {"dev": DISK, "flags": READ | RAHEAD}
    world.emit("block_bio_queue", queued, reader.tid, bio_key=bio, kernel_thread=0, sector=800,
               size_bytes=PARTS * size, **place)  # fmt: skip
    world.emit("block_bio_file", queued + 1, reader.tid, bio_key=bio, inode=reader.inode,
               offset_bytes=1 << 20, dev=DISK, size_bytes=PARTS * size,
               end_bytes=(1 << 20) + PARTS * size)  # fmt: skip
    for part in range(PARTS):
        key, now = bio if part == PARTS - 1 else 0xF0 + part, queued + 100 * (part + 1)
        at = {"sector": 800 + part * size // 512, "size_bytes": size, **place}
        if key != bio:
            world.emit("block_split", now, reader.tid, bio_key=key, parent_key=bio, **at)
        keys = {"request_key": 0xA0 + part, "bio_key": key}
        world.emit("block_rq_issue", now + 20, reader.tid, **keys, **at)
        world.emit("block_rq_complete", now + 90_000, 0, **keys, **at)
    reader.cpu(2_000)
    reader.done(0, PAGE, "page cache")
    holds(world, reader)


def test_a_file_in_an_overlay_is_that_below() -> None:
    """Its device is the overlay's, that of the pages is below; of another file's, and of another
    overlay's, nothing is known."""
    world = reading_world()
    for key, below in ((OVERLAY, "/mnt"), (BESIDE, "/elsewhere")):
        options = f"rw,lowerdir=/l,upperdir={below}/up,workdir={below}/work"
        world.builder.mount(key, f"/{key}", "overlay", source="overlay", options=options)
    world.builder.mount(DISK, "/mnt", "ext4", source="/dev/sda")
    world.builder.mount(device(8, 16), "/elsewhere", "ext4", source="/dev/sdb")
    readers = []
    for number, (mount, inode, cached) in enumerate(
        [(OVERLAY, 12, True), (OVERLAY, 13, False), (BESIDE, 12, False)]
    ):
        reader = Reader(world, 100 + number, DISK, 10_000 + 200_000 * number)
        reader.enter()
        reader.floor = "read.cached" if cached else "syscall"
        reader.cpu(300)
        reader.ask(1 << 20, 8 * PAGE, inode=12, device=90_000)
        reader.cpu(2_000)
        reader.file_device, reader.inode = mount, inode
        reader.done(0, PAGE, "page cache" if cached else "not told")
        readers.append(reader)
    holds(world, *readers)
