# SPDX-License-Identifier: Apache-2.0
"""Reads of a disk that another machine serves over a wire, with known truth: each machine has a
clock of its own, and every step knows how long it kept the read where.

A target's thread reads a file through its page cache (a ``Backend`` that is told of), or the disk
itself: then it asks and goes on, and the disk's completion ends the command.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import ClassVar

from iostrata.analysis import analyse
from iostrata.model import Breakdown, Op
from iostrata.recording import open_recording
from iostrata.trace.layout import CALL_PREAD64, THREAD_DAEMON, THREAD_HELPER, THREAD_SERVER
from tests.reading import EVERY, O_DIRECT, RAHEAD, Flight, Reader
from tests.stitch.test_chain import close
from tests.stitch.test_reads import served
from tests.stitch.test_truth import accounts, conserves
from tests.synthetic import Clock, World, device

TARGET_DISK = device(8, 0)
EXPORT_INODE = 31
THREAD = 700
SENDER, RECEIVER = 66, 67
QUEUE, SUBMIT, THERE, WAITS, BACK, COMPLETE = 300, 2_000, 60_000, 4_000, 60_000, 3_000
READ_10, NVME_READ = 0x28, 2
PAGE = 4096


@dataclass(frozen=True)
class Backend:
    """How a thread of the target gets what it is asked for; ``on_file``: a file's, through its page
    cache."""

    reads: Callable[[Reader, int, int], None]
    on_file: bool = True
    direct: bool = False


def _nothing(thread: Reader, offset: int, size: int) -> None:
    """All is in the page cache."""


def _missed(thread: Reader, offset: int, size: int) -> None:
    """It asks the disk, also for what comes behind, and waits for its own pages."""
    own = thread.ask(offset, size, device=70_000)
    thread.ask(offset + size, 8 * size, device=90_000)
    thread.wait(own, "device.read")


def _started(thread: Reader, offset: int, size: int) -> None:
    """All is there; what comes behind is asked for, and not waited for."""
    thread.ask(offset + size, 8 * size, device=90_000)


def _asked(thread: Reader, offset: int, size: int) -> None:
    """A bio of its own, and it does not sleep."""
    flight = thread.ask(offset, size, device=80_000, told=False)
    thread.account += Counter(
        {"block.Q2D": flight.issued - flight.queued, "device.read": flight.complete - flight.issued}
    )
    thread.now = flight.complete


def _waited(thread: Reader, offset: int, size: int) -> None:
    """Past the page cache, by a call: it sleeps until its own bio is complete."""
    thread.wait(thread.ask(offset, size, device=80_000, told=False), "device.read")


CACHED, MISSED, STARTED = Backend(_nothing), Backend(_missed), Backend(_started)
DISK = Backend(_asked, on_file=False)
DIRECT = Backend(_waited, direct=True)


def under_way(flight: Flight) -> Backend:
    """The pages are on their way, as another thread had asked for them."""
    return Backend(lambda thread, offset, size: thread.wait(flight, "device.readahead"))


class Wire(ABC):
    """An initiator with one reader, and the target of its disk."""

    hop: ClassVar[str]
    disk: ClassVar[int]
    name: ClassVar[str]
    transport: ClassVar[str] = ""
    kind: ClassVar[int]
    comm: ClassVar[bytes] = b"worker"
    floor: ClassVar[str] = "target"
    way: ClassVar[tuple[str, str]] = ("network.there", "network.back")
    begins: ClassVar[int] = 3_000
    """Until the thread that has taken a command up comes to its data."""

    def __init__(self, clocks: tuple[Clock, Clock] = (int, int)) -> None:
        self.initiator, self.target = (World(clock=one) for one in clocks)
        self.further = self.target
        for world in (self.initiator, self.target):
            world.builder.env["reads"] = EVERY
        self.initiator.builder.block(self.disk, self.name, transport=self.transport)
        self.target.builder.block(TARGET_DISK, "sda")
        self.reader = Reader(self.initiator, 100, self.disk, 1_000_000)
        self.truth: list[dict[str, int]] = []
        self.volume, self.of_requests = 0, False
        self.count = 0
        self._random = Random(self.hop)
        self._threads: dict[int, Reader] = {}

    def served_by(self, world: World) -> None:
        """The target is another machine than its own: the initiator itself, or another wire's."""
        self.target = world
        world.builder.block(TARGET_DISK, "sda")
        self._threads.clear()

    def thread(self, number: int = 0) -> Reader:
        """Of the target."""
        if number not in self._threads:
            tid = THREAD + number
            self.target.target(tid, comm=self.comm, kind=self.kind)
            self._threads[number] = Reader(
                self.target, tid, TARGET_DISK, 0, inode=EXPORT_INODE, floor=self.floor,
                kind=self.kind,
            )  # fmt: skip
        return self._threads[number]

    def read(
        self, offset: int, size: int, by: Backend, told: str, flags: int = 0, thread: int = 0
    ) -> None:
        """One that asks the disk for its pages by one request, and waits for it.

        ``flags``: of the open file; with O_DIRECT no page of a file is told.
        """
        reader, world = self.reader, self.initiator
        place = offset + (1 << 22)
        reader.enter()
        reader.cpu(500)
        queued, issued = reader.now, reader.now + QUEUE
        sent = issued + SUBMIT
        rq = world.pointer("rq", queued, queued + 10_000_000)
        at = {"dev": self.disk, "sector": place // 512, "size_bytes": size, "flags": RAHEAD}
        keys = {"request_key": rq, "bio_key": rq + 8}
        if self.volume:
            self._handed_on(queued, rq, at)
        else:
            world.emit("block_bio_queue", queued, reader.tid, bio_key=rq + 8, kernel_thread=0, **at)
        if not flags & O_DIRECT:
            world.emit("block_bio_file", queued + 1, reader.tid, bio_key=rq + 8,
                       inode=reader.inode, offset_bytes=offset, dev=self.disk, size_bytes=size,
                       end_bytes=offset + size)  # fmt: skip
        world.emit("block_rq_issue", issued, reader.tid, **keys, **at)
        worker, self.count = self.thread(thread), self.count + 1
        worker.account = Counter()
        gone = self._serve(worker, sent + THERE, place, size, by)
        answered = gone + BACK
        complete = answered + COMPLETE
        self._told(rq, sent, answered, complete)
        world.emit("block_rq_complete", complete, 0, **keys, **at)
        if self.volume:
            above = {**at, "dev": self.volume, "bio_key": rq + 16}
            if self.of_requests:
                world.emit("block_rq_complete", complete, 0, request_key=rq + 32, **above)
            else:
                world.emit("block_bio_complete", complete, 0, **above)
        reader._wait(complete - queued, 1_000, 2_000)
        account = Counter({f"initiator/{row}": ns for row, ns in reader.account.items()})
        account += Counter({f"target/{row}": ns for row, ns in worker.account.items()})
        account += Counter({
            "initiator/syscall": 900, "initiator/block.Q2D": QUEUE,
            "initiator/initiator.submit": SUBMIT, f"target/{self.way[0]}": THERE,
            f"target/{self.way[1]}": BACK, "initiator/initiator.complete": COMPLETE,
        })  # fmt: skip
        reader.cpu(900)
        reader.done(offset, size, told, flags=flags)
        self.truth.append({row: ns for row, ns in account.items() if ns})
        # Few tags, like clockwork: nothing would tell when the target's clock began.
        reader.now += self._random.randint(10_000, 90_000)

    def _handed_on(self, queued: int, rq: int, at: Mapping[str, int]) -> None:
        """The volume's bio, and a clone of it for the disk. Of one that has requests (multipath), a
        request, and its clone, whose bios nothing names."""
        world, tid = self.initiator, self.reader.tid
        above = {**at, "dev": self.volume, "bio_key": rq + 16}
        world.emit("block_bio_queue", queued - 200, tid, kernel_thread=0, **above)
        if self.of_requests:
            world.emit("block_rq_issue", queued, tid, request_key=rq + 32, **above)
        else:
            world.emit("block_bio_remap", queued - 100, tid, bio_key=rq + 8, old_dev=self.volume,
                       old_sector=at["sector"], **at)  # fmt: skip
            world.emit("block_bio_queue", queued, tid, bio_key=rq + 8, kernel_thread=0, **at)

    def in_memory(self, offset: int, size: int) -> None:
        self.reader.cached(offset, size)
        self.reader.served[-1] = "initiator page cache"
        self.truth.append({"initiator/read.cached": 1_500})

    @abstractmethod
    def _told(self, rq: int, sent: int, answered: int, complete: int) -> None:
        """What the initiator's driver says of a request."""

    @abstractmethod
    def _serve(self, thread: Reader, there: int, place: int, size: int, by: Backend) -> int:
        """When all of the answer was on its way."""

    def _carried_out(
        self, point: str, thread: Reader, key: int, place: int, size: int, by: Backend
    ) -> None:
        """By who is at the command meanwhile."""
        world, tid = self.target, thread.tid
        world.emit(point, thread.now, tid, request_key=key)
        if by.on_file:
            world.emit("target_file", thread.now + 1, tid, request_key=key, inode=EXPORT_INODE,
                       dev=TARGET_DISK, open_flags=O_DIRECT if by.direct else 0)  # fmt: skip
        thread.cpu(3_000)
        asked = thread.now
        by.reads(thread, place, size)
        # What goes to the disk itself goes on without it.
        world.emit(point, thread.now if by.on_file else asked + 50, tid, request_key=0)
        thread.cpu(900)

    def recording(self, path: Path, machines: str = "initiator target") -> Path:
        path.mkdir(exist_ok=True)
        described = []
        for name in machines.split():
            getattr(self, name).builder.write(path / name)
            described.append({"name": name, "role": "local", "directory": name})
        text = {"format": "iostrata.recording/1", "created": "", "machines": described}
        (path / "recording.json").write_text(json.dumps(text))
        return path

    def joined(self, account: dict[str, int]) -> dict[str, int]:
        """Only the clocks' relation splits the way there from the way back."""
        rows = Counter(account)
        ways = sum(rows.pop(f"target/{way}", 0) for way in self.way)
        return dict(rows + Counter({"way": ways}))

    def holds(self, path: Path, op: Op = Op.READ) -> Breakdown:
        found = analyse(open_recording(self.recording(path)), op)
        conserves(found)
        mine = accounts(found)[self.reader.tid]
        assert len(mine) == len(self.truth)
        for one, true in zip(mine, self.truth, strict=True):
            close(self.joined(one), self.joined(true))
        assert list(served(found)) == self.reader.served
        return found


class NvmeTcp(Wire):
    hop = "nvme-tcp"
    disk, name, kind = device(259, 1), "nvme0n1", THREAD_HELPER

    @property
    def _wire(self) -> dict[str, int]:
        told = {"connection": 40_000 << 16 | 4420, "ends": 77, "host": 0x1234, "controller": 1}
        return told | {"queue": 1, "command": self.count % 16 << 12 | 5, "opcode": NVME_READ}

    def _told(self, rq: int, sent: int, answered: int, complete: int) -> None:
        world, at = self.initiator, {"request_key": rq, "dev": self.disk}
        wire = self._wire
        for point, when in (("nvme_setup_cmd", sent - SUBMIT - 90), ("nvme_tcp_send", sent)):
            world.emit(point, when, SENDER, wire_key=wire["command"], **at)
        world.emit("nvme_complete_rq", complete - 500, RECEIVER, ready_ns=answered, **at, **wire)

    def _serve(self, thread: Reader, there: int, place: int, size: int, by: Backend) -> int:
        world = self.target
        key = world.pointer("nvmet", there, there + 10_000_000)
        told = {"request_key": key, "ready_ns": there, **self._wire}
        world.emit("nvmet_req_init", there + 2_000, thread.tid, **told)
        thread.now = there + WAITS
        thread.account["target.queue"] += WAITS
        self._carried_out("nvmet_work", thread, key, place, size, by)
        world.emit("nvmet_req_complete", thread.now, thread.tid, dev=TARGET_DISK,
                   offset_bytes=place, size_bytes=size, **told)  # fmt: skip
        return thread.now


class Iscsi(Wire):
    """``ends``: of the connection, by which both know it."""

    hop = "iscsi"
    ends = 7
    disk, name, transport, kind = device(8, 16), "sdb", "iscsi", THREAD_SERVER
    begins = 5_000

    @property
    def _wire(self) -> dict[str, int]:
        return {"itt": 0x61 + self.count % 3, "connection": 40_000 << 16 | 3260, "ends": self.ends}

    def _told(self, rq: int, sent: int, answered: int, complete: int) -> None:
        wire = {"request_key": rq, "dev": self.disk, **self._wire}
        self.initiator.emit("iscsi_sent", sent, SENDER, **wire)
        self.initiator.emit("iscsi_answered", answered, RECEIVER, **wire)

    def _serve(self, thread: Reader, there: int, place: int, size: int, by: Backend) -> int:
        world, tid = self.target, thread.tid
        key = world.pointer("cmd", there, there + 10_000_000)
        told = {"command_key": key, "lun": 0, "opcode": READ_10, "size_bytes": size, **self._wire}
        thread.now = there + WAITS
        thread._resume(there - 30_000, there, 0, state=1)
        thread.account["target.queue"] += WAITS
        world.emit("target_sequencer_start", thread.now + 400, tid, **told)
        thread.cpu(2_000)
        self._carried_out("target_work", thread, key, place, size, by)
        world.emit("target_cmd_complete", thread.now, 88, offset_bytes=place, **told)
        # Its data goes in parts, the last one with the status.
        for _ in range(3):
            thread.cpu(5_000)
            world.emit("target_sent", thread.now, tid + 90, command_key=key)
        return thread.now


class Nbd(Wire):
    hop = "nbd"
    disk, name, kind, comm = device(43, 0), "nbd0", THREAD_DAEMON, b"nbd-server"
    floor = "syscall"
    way = ("nbd.there", "nbd.back")

    def thread(self, number: int = 0) -> Reader:
        """All are of one process."""
        found = super().thread(number)
        self.target.emit("thread", 2, found.tid, tgid=THREAD, subject_tid=found.tid,
                         kind=self.kind, comm=self.comm)  # fmt: skip
        return found

    def _told(self, rq: int, sent: int, answered: int, complete: int) -> None:
        wire = {"request_key": rq, "wire_key": rq & 0xFFFF, "dev": self.disk}
        self.initiator.emit("nbd_payload_sent", sent, self.reader.tid, **wire)
        begun, read = answered - BACK // 2, (answered + complete) // 2
        for what, ready, when in (("header", begun, begun), ("payload", answered, read)):
            point = f"nbd_{what}_received"
            self.initiator.emit(point, when, RECEIVER, ready_ns=ready, **wire)

    def _serve(self, thread: Reader, there: int, place: int, size: int, by: Backend) -> int:
        thread.now, thread.floor = there, "read.cached" if by in (CACHED, STARTED) else "syscall"
        thread.enter()
        thread.cpu(3_000)
        by.reads(thread, place, size)
        thread.cpu(900)
        self.target.emit("syscall", thread.now, thread.tid, enter_ns=there, inode=EXPORT_INODE,
                         dev=TARGET_DISK, offset_bytes=place, size_bytes=size, tgid=THREAD,
                         result=size, open_flags=O_DIRECT if by.direct else 2,
                         call=CALL_PREAD64)  # fmt: skip
        return thread.now


class Tgt(Nbd):
    hop = "iscsi-tgt"
    disk, name, transport, comm = device(8, 16), "sdb", "iscsi", b"tgtd"
    way = ("tgt.there", "tgt.back")

    def _told(self, rq: int, sent: int, answered: int, complete: int) -> None:
        wire = {"request_key": rq, "dev": self.disk, "itt": 0x61 + self.count % 3}
        wire |= {"connection": 40_000 << 16 | 3260, "ends": 7}
        self.initiator.emit("iscsi_sent", sent, SENDER, **wire)
        self.initiator.emit("iscsi_answered", answered, RECEIVER, **wire)
