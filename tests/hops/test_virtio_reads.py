# SPDX-License-Identifier: Apache-2.0
"""A guest's reads, followed to its host with known truth: what each held of them, and whose page
cache, or whose disk, they were from."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.analysis.left_out import FOR_OTHERS, THEIR_OWN
from iostrata.model import Breakdown, Op
from iostrata.recording import open_recording
from iostrata.trace.layout import CALL_PREADV
from tests.chain import GUEST_DISK, MAIN_LOOP, QUEUE, VCPU, VMM, WORKER
from tests.hops.test_nfs_reads import asked_for
from tests.reading import EVERY, O_DIRECT, RAHEAD, Reader
from tests.stitch.test_chain import GUEST_HOST, HOST_SERVER, close
from tests.stitch.test_reads import served
from tests.stitch.test_truth import accounts, conserves
from tests.synthetic import Clock, World, clock, device

HOST_DISK, SERVER_DISK, MOUNT = device(8, 0), device(8, 16), device(0, 50)
IMAGE_INODE = 77
PAGE = 4096

OnHost = Callable[[Reader, int, int], None]


def cached(thread: Reader, offset: int, size: int) -> None:
    """The host has all of it: all of the call's time is that of its page cache."""
    thread.account["read.cached"] += thread.account.pop("syscall")
    thread.floor = "read.cached"


def missed(thread: Reader, offset: int, size: int) -> None:
    thread.wait(thread.ask(offset, size, device=70_000), "device.read")


def in_memory(thread: Reader, offset: int, size: int) -> None:
    """A server has all of it, as its own thread's time."""


def direct(thread: Reader, offset: int, size: int) -> None:
    """cache=none: the call's own bio, of which no page of a file is told."""
    thread.wait(thread.ask(offset, size, device=70_000, told=False), "device.read")


@dataclass
class Guest:
    """A guest with one reader, and its host; each has a clock of its own."""

    clocks: tuple[Clock, Clock] = (int, int)
    image_on: int = HOST_DISK
    truth: list[dict[str, int]] = field(default_factory=list)
    server: World | None = None

    def __post_init__(self) -> None:
        self.guest, self.host = (World(clock=one) for one in self.clocks)
        for world in (self.guest, self.host):
            world.builder.env["reads"] = EVERY
        self.guest.builder.block(GUEST_DISK, "vdb")
        self.host.builder.block(HOST_DISK, "sda")
        for tid, name in ((MAIN_LOOP, b"qemu"), (VCPU, b"CPU 0/KVM")):
            self.host.emit("thread", 1, tid, tgid=VMM, subject_tid=tid, kind=4, comm=name)
        self.worker = Reader(self.host, WORKER, HOST_DISK, 0, inode=IMAGE_INODE, kind=4)
        self.host.emit("thread", 2, WORKER, tgid=VMM, subject_tid=WORKER, kind=4, comm=b"worker")
        self.reader = Reader(self.guest, 400, GUEST_DISK, 1_000_000)

    def read(
        self,
        offset: int,
        size: int,
        by: OnHost,
        told: str,
        flags: int = 0,
        larger: int = 0,
        beside: int = 0,
    ) -> None:
        """A read that asks the guest's disk for its pages, and waits for them.

        ``flags``: of the image; ``larger``: the VMM reads so much more, for another request.
        ``beside``: the guest asks for so much more, by a request that the host tells nothing of.
        """
        guest, host, reader = self.guest, self.host, self.reader
        place = offset + (1 << 22)
        reader.enter()
        reader.cpu(500)
        if beside:
            reader.ask(offset + size, beside, device=20_000)
        bio, issue = reader.now, reader.now + 300
        request = guest.pointer("rq", bio, bio + 10_000_000)
        at = {"dev": GUEST_DISK, "sector": place // 512, "size_bytes": size, "flags": RAHEAD}
        keys = {"request_key": request, "bio_key": request + 8}
        guest.emit("block_bio_queue", bio, reader.tid, bio_key=request + 8, kernel_thread=0, **at)
        guest.emit("block_bio_file", bio + 1, reader.tid, bio_key=request + 8, inode=12,
                   offset_bytes=offset, dev=GUEST_DISK, size_bytes=size,
                   end_bytes=offset + size)  # fmt: skip
        guest.emit("block_rq_issue", issue, reader.tid, **keys, **at)
        guest.emit("virtio_add", issue, reader.tid, queue_key=QUEUE, request_key=request, head=0)
        kicked = issue + 2_000
        guest.emit("virtio_notify", kicked + 900, reader.tid, queue_key=QUEUE, enter_ns=kicked)
        worker = self.worker
        worker.now, worker.account, worker.floor = kicked + 40_000, Counter(), "syscall"
        worker.enter()
        worker.cpu(3_000)
        by(worker, place, size)
        worker.cpu(600)
        host.emit("syscall", worker.now, WORKER, enter_ns=worker._enter, inode=IMAGE_INODE,
                  dev=self.image_on, offset_bytes=place, size_bytes=size + larger, tgid=VMM,
                  result=size + larger, open_flags=flags, call=CALL_PREADV)  # fmt: skip
        asked = worker.now + 30_000
        host.emit("kvm_msi", asked, MAIN_LOOP, tgid=VMM, vcpu=0, vector=0x26)
        heard = asked + 20_000
        guest.emit("virtio_interrupt", heard, 0, queue_key=QUEUE, irq=30)
        complete = heard + 3_000
        guest.emit("block_rq_complete", complete, 0, **keys, **at)
        reader._wait(complete - bio, 1_000, 2_000)
        account = Counter({f"guest/{row}": ns for row, ns in reader.account.items()})
        account += Counter({f"host/{row}": ns for row, ns in worker.account.items()})
        account += Counter({
            "guest/syscall": 900, "guest/block.Q2D": 300, "guest/virtio.submit": 2_000,
            "host/vmm.submit": 40_000, "host/vmm.complete": 30_000, "host/kvm.inject": 20_000,
            "guest/virtio.interrupt": 3_000,
        })  # fmt: skip
        reader.cpu(900)
        reader.done(offset, size + beside, told)
        self.truth.append({row: ns for row, ns in account.items() if ns})
        reader.now += 10_000

    def in_memory(self, offset: int, size: int) -> None:
        self.reader.cached(offset, size)
        self.reader.served[-1] = "guest page cache"
        self.truth.append({"guest/read.cached": 1_500})

    def recording(self, path: Path, machines: str = "guest host") -> Path:
        path.mkdir(exist_ok=True)
        described = []
        for name in machines.split():
            getattr(self, name).builder.write(path / name)
            described.append({"name": name, "role": name, "directory": name})
        text = {"format": "iostrata.recording/1", "created": "", "machines": described}
        (path / "recording.json").write_text(json.dumps(text))
        return path


def together(account: dict[str, int]) -> dict[str, int]:
    """The ways there and back as one: only the clocks' relation tells them apart."""
    joined = dict(account)
    for name, rows in (("ways", GUEST_HOST), ("network", HOST_SERVER)):
        joined[name] = sum(joined.pop(row, 0) for row in rows)
    return joined


def holds(guest: Guest, path: Path, machines: str = "guest host") -> Breakdown:
    found = analyse(open_recording(guest.recording(path, machines)), Op.READ)
    conserves(found)
    ((_, mine),) = accounts(found).items()
    assert len(mine) == len(guest.truth)
    for one, true in zip(mine, guest.truth, strict=True):
        close(together(one), together(true))
    assert list(served(found)) == guest.reader.served
    return found


CLOCKS = [(int, int), (clock(5_000_000), clock(3_600_000_000_000, 4))]


@pytest.mark.parametrize("clocks", CLOCKS)
def test_whose_page_cache_and_whose_disk(clocks: tuple[Clock, Clock], tmp_path: Path) -> None:
    guest = Guest(clocks)
    for number in range(12):
        place = number * 64 * PAGE
        guest.read(place, 4 * PAGE, missed, "host device")
        guest.in_memory(place, PAGE)
        guest.read(place + 4 * PAGE, 4 * PAGE, cached, "host page cache")
    found = holds(guest, tmp_path)
    (crossing,) = found.quality.crossings
    assert (crossing.hop, crossing.asked, crossing.followed) == ("virtio", 24, 24)
    assert crossing.bypassed == ()
    assert found.left_out == {}


@pytest.mark.parametrize("op", [Op.READ, Op.DIRECT])
@pytest.mark.parametrize("own", [0, 3, 9])
def test_of_a_host_alone_they_are_its_guests(op: Op, own: int, tmp_path: Path) -> None:
    """Unless the host's own programs read more: then its guests' are counted, and in no table."""
    guest = Guest()
    guest.host.builder.vmm(VMM, "one")
    for number in range(6):
        guest.read(number * 64 * PAGE, 4 * PAGE, direct, "host device", flags=O_DIRECT)
    mine = Reader(guest.host, 900, HOST_DISK, guest.reader.now, inode=5)
    for _ in range(own):
        mine.enter()
        mine.cpu(4_000)
        mine.done(0, PAGE, "not told", flags=O_DIRECT)
    found = analyse(open_recording(guest.recording(tmp_path, "host")), op)
    conserves(found)
    if own > 6:
        assert (len(found.writes), found.left_out) == (own, {FOR_OTHERS: 6})
        return
    assert (len(found.writes), found.left_out) == (6, {THEIR_OWN: own} if own else {})
    assert found.writes.names["vm"] == ("one",)
    assert found.writes.names["method"] == ("virtio:read_direct",)
    assert list(served(found)) == ["device"] * 6
    wanted = sum(truth["host/device.read"] for truth in guest.truth)
    (accounted,) = accounts(found).values()
    assert sum(one["device.read"] for one in accounted) == wanted


def test_an_image_past_the_hosts_page_cache(tmp_path: Path) -> None:
    """cache=none: all that the guest has not is the host's device's."""
    guest = Guest()
    for number in range(6):
        guest.read(number * 64 * PAGE, 4 * PAGE, direct, "host device", flags=O_DIRECT)
        guest.in_memory(number * 64 * PAGE, PAGE)
    holds(guest, tmp_path)


def test_what_is_written_to_the_same_place_is_not_what_was_read(tmp_path: Path) -> None:
    """Another thread of the VMM writes there meanwhile, as large a part."""
    guest = Guest()
    for number in range(6):
        place = number * 64 * PAGE
        begin = guest.reader.now
        guest.read(place, 4 * PAGE, cached, "host page cache")
        enter = begin + 45_000
        guest.host.emit("syscall", enter + 5_000, MAIN_LOOP, enter_ns=enter, inode=IMAGE_INODE,
                        dev=HOST_DISK, offset_bytes=place + (1 << 22), size_bytes=4 * PAGE,
                        tgid=VMM, result=4 * PAGE, open_flags=0, call=4)  # fmt: skip
    holds(guest, tmp_path)


def test_what_the_vmm_reads_together_with_another_request(tmp_path: Path) -> None:
    """QEMU makes one call of requests that follow one another on the disk."""
    guest = Guest()
    for number in range(6):
        place = number * 64 * PAGE
        guest.read(place, 4 * PAGE, missed, "host device", larger=8 * PAGE)
        guest.read(place + 32 * PAGE, 4 * PAGE, cached, "host page cache")
    holds(guest, tmp_path)


def test_an_image_on_nfs(tmp_path: Path) -> None:
    """Three machines: what neither the guest nor the host has, is the server's."""
    guest = Guest(image_on=MOUNT)
    server = World()
    server.builder.env["reads"] = EVERY
    server.builder.block(SERVER_DISK, "sdb")
    nfsd = Reader(server, 800, SERVER_DISK, 0, inode=IMAGE_INODE, floor="svc", kind=5)
    below: list[Counter[str]] = []

    def from_server(by: OnHost) -> OnHost:
        def asked(thread: Reader, offset: int, size: int) -> None:
            xid = 7_000 + len(below)
            below.append(asked_for(thread, MOUNT, nfsd, xid, offset, size, by))

        return asked

    for number in range(8):
        place = number * 64 * PAGE
        guest.read(place, 4 * PAGE, from_server(missed), "server device", flags=O_DIRECT)
        guest.read(place + 8 * PAGE, PAGE, from_server(in_memory), "server page cache")
        guest.read(place + 16 * PAGE, PAGE, cached, "host page cache")
        guest.in_memory(place, PAGE)
        for read in (0, 1):
            guest.truth[4 * number + read] |= below[2 * number + read]
    guest.server = server
    found = holds(guest, tmp_path, "guest host server")
    assert [(one.hop, one.followed) for one in found.quality.crossings] == [
        ("virtio", 24), ("nfs", 16),
    ]  # fmt: skip


def test_an_image_that_is_not_raw(tmp_path: Path) -> None:
    """What is at the same place in its file is another block of the guest's."""
    guest = Guest()
    guest.host.builder.image(HOST_DISK, IMAGE_INODE, "qcow2")
    for number in range(6):
        guest.read(number * 64 * PAGE, 4 * PAGE, cached, "device")
    found = analyse(open_recording(guest.recording(tmp_path)), Op.READ)
    conserves(found)
    assert found.quality.crossings == ()
    assert list(served(found)) == guest.reader.served


def test_a_part_that_was_found_nowhere(tmp_path: Path) -> None:
    """Of two requests of a read the host's recording has one: the other may have been anywhere."""
    guest = Guest()
    for number in range(6):
        guest.read(number * 64 * PAGE, 4 * PAGE, cached, "host page cache")
    guest.read(512 * PAGE, 4 * PAGE, cached, "guest device", beside=PAGE)
    found = analyse(open_recording(guest.recording(tmp_path)), Op.READ)
    conserves(found)
    assert list(served(found)) == guest.reader.served
    assert found.quality.unfollowed == 1


def test_a_host_that_was_not_recorded(tmp_path: Path) -> None:
    guest = Guest()
    guest.read(0, PAGE, missed, "device")
    guest.read(PAGE, PAGE, cached, "device")
    found = analyse(open_recording(guest.recording(tmp_path, "guest")), Op.READ)
    assert list(served(found)) == guest.reader.served
