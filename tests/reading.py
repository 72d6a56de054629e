# SPDX-License-Identifier: Apache-2.0
"""Reads with known truth: who asked the disk for which pages, who waited for them, and how long."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from iostrata.trace.layout import CALL_PREAD64, CALL_READ
from tests.synthetic import META, READ, World, Writer

RAHEAD: Final = 1 << 19
O_DIRECT: Final = 0o40000
OPEN_OF_DEVICE: Final = 0x40000000
EVERY: Final = 2
STRANGER: Final = 12345


@dataclass
class Flight:
    """Part of a file on its way from the disk; times in ns."""

    queued: int
    issued: int
    complete: int


def reading_world() -> World:
    """A recording that was asked for reads."""
    world = World()
    world.builder.env["reads"] = EVERY
    return world


@dataclass
class Reader(Writer):
    """One thread that reads a file; what it does is booked where it must be found.

    ``floor`` is what its time on the CPU is booked to: that of a read which has to wait for a
    disk, or which the page cache serves. ``served``: the truth of each read.
    """

    served: list[str] = field(default_factory=list)
    place: int = 1 << 20

    def ask(
        self,
        offset: int,
        size: int,
        *,
        queue: int = 300,
        device: int = 30_000,
        told: bool = True,
        meta: bool = False,
        inode: int | None = None,
        hole: int = 0,
        held: int = 0,
    ) -> Flight:
        """Asks the disk for a part of the file; ``told``: it is told which. ``hole``: so much of
        the file lies between, and is not read. ``held``: so long by a control group's limit, until
        a worker of the kernel queues it."""
        world, disk, tid = self.world, self.disk, STRANGER if held else self.tid
        queued = self.now + held
        issued = queued + queue
        complete = issued + device
        bio = world.pointer(f"bio{disk}", queued, complete + 1)
        request = world.pointer(f"rq{disk}", queued, complete + 1)
        self.place += size // 512
        flags = READ | (META if meta else RAHEAD)
        place = {"dev": disk, "sector": self.place, "size_bytes": size, "flags": flags}
        keys = {"request_key": request, "bio_key": bio}
        world.emit("block_bio_queue", queued, tid, bio_key=bio, kernel_thread=int(held > 0),
                   held=int(held > 0), **place)  # fmt: skip
        if told:
            world.emit("block_bio_file", queued + 1, tid, bio_key=bio,
                       inode=self.inode if inode is None else inode, offset_bytes=offset,
                       dev=self.file_device or disk, size_bytes=size,
                       end_bytes=offset + size + hole)  # fmt: skip
        world.emit("block_rq_issue", issued, tid, **keys, **place)
        world.emit("block_rq_complete", complete, 0, **keys, **place)
        return Flight(queued, issued, complete)

    def wait(
        self, flight: Flight, row: str, *, interrupt: int = 1_000, runqueue: int = 2_000
    ) -> None:
        """Asleep from now on until a flight is there; ``row``: of its time in the device."""
        off, wake = self.now, flight.complete + interrupt
        self.now = wake + runqueue
        self._resume(off, wake, 0)
        if flight.queued > off:
            self.account["throttle.io"] += flight.queued - off
        self.account["block.Q2D"] += max(flight.issued - max(off, flight.queued), 0)
        self.account[row] += flight.complete - max(off, flight.issued)
        self.account["wakeup.interrupt"] += interrupt
        self.account["wakeup.runqueue"] += runqueue

    def done(
        self, offset: int, size: int, served: str, *, call: int = CALL_PREAD64, flags: int = 0
    ) -> None:
        """The call returns."""
        self.world.emit(
            "syscall", self.now, self.tid, enter_ns=self._enter, inode=self.inode,
            offset_bytes=offset, dev=self.file_device or self.disk, result=size,
            size_bytes=max(size, 1), tgid=self.tid, open_flags=flags, call=call, rwf=0,
        )  # fmt: skip
        if size > 0:
            self.truth.append(self.account)
            self.served.append(served)
        self.account = Counter()

    def cached(self, offset: int, size: int, duration: int = 1_500) -> None:
        """A whole read that the page cache serves."""
        self.enter()
        self.floor = "read.cached"
        self.cpu(duration)
        self.done(offset, size, "page cache", call=CALL_READ)
        self.floor = "syscall"
        self.now += 100

    def missed(self, offset: int, size: int, *, device: int = 30_000) -> None:
        """A whole read that asks the disk for its own pages, and waits for them."""
        self.enter()
        self.cpu(700)
        self.wait(self.ask(offset, size, device=device), "device.read")
        self.cpu(900)
        self.done(offset, size, "device")
        self.now += 100
