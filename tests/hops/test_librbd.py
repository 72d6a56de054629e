# SPDX-License-Identifier: Apache-2.0
"""A guest's disk that its QEMU has from Ceph by itself, with known truth."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from random import Random

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.attribute.rhythm import rhythm
from iostrata.attribute.run import run_of
from iostrata.errors import NothingToAnalyse
from iostrata.model import Breakdown, Op
from iostrata.recording import open_recording
from iostrata.stitch import ImageRequests, Images, Window, images_of, librbd, whole
from iostrata.trace.layout import THREAD_LIBRBD, UNSEEN_DISCARDS, UNSEEN_LIBRBD
from iostrata.trace.read import read_trace
from tests.chain import Chain, drawn
from tests.cluster import CLIENT, Copy, Machine, Osd, account
from tests.cluster import Costs as OsdCosts
from tests.cluster import found_in as cluster_found_in
from tests.hops.test_ceph import drawn as drawn_of_osd
from tests.hops.test_ceph import far
from tests.hops.test_nbd import Costs as ServerCosts
from tests.hops.test_nbd import Pair, Tgt, same_but_for_ways
from tests.stitch.test_truth import accounts, conserves
from tests.synthetic import O_DSYNC, Request, World, Writer, device

OBJECT_BYTES, O_DIRECT = 1 << 22, 0o40000
MESSENGER, ANSWERER, IMAGE, DISK = 506, 507, 0x7001, 0xD15C


def laid(
    world: World, tgid: int, image: int = IMAGE, disk: int = DISK, size: int = OBJECT_BYTES,
    stripe: int = 0, objects: int = 1,
) -> None:  # fmt: skip
    """How a disk lies on its objects is told."""
    world.emit("librbd_image", 2, tgid, image_key=image, image=disk, object_bytes=size,
               stripe_bytes=stripe or size, stripe_objects=objects, tgid=tgid)  # fmt: skip


@dataclass
class Library(Chain):
    """The host's QEMU asks ``parts`` of OSDs: the n-th request's is the n-th.

    ``locks``: what it asks for the disk itself before each; ``parent``: else of another's, that it
    reads. ``dropped``: of the n-th, for how long
    it had been sent before, and its OSD forgot it.
    """

    parts: list[tuple[Osd, OsdCosts, tuple[Copy, ...], int]] = field(default_factory=list)
    locks: tuple[tuple[Osd, OsdCosts, int], ...] = ()
    dropped: dict[int, int] = field(default_factory=dict)
    parent: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.numbers = count(1)
        for tid, name in ((MESSENGER, b"msgr-worker-0"), (ANSWERER, b"io_context_pool")):
            self.host.emit("thread", 1, tid, tgid=self.vmm, subject_tid=tid, kind=4, comm=name)
        laid(self.host, self.vmm)

    def carried_out(self, enter: int, offset: int, costs: object, account: Counter[str]) -> int:
        host, number = self.host, next(self.numbers)
        if not self.flags:
            return self.read(enter, number)
        osd, spent, copies, way = self.parts[number - 1]
        request = 0x500 + number % 3
        host.emit("librbd_request", enter, self.vmm, request_key=request, image_key=IMAGE,
                  offset_bytes=offset, size_bytes=8192, tgid=self.vmm, flushes=0)  # fmt: skip
        sent = enter + 7_000
        for number_of_lock, lock in enumerate(self.locks, start=number * 10_000):
            sent = self.locked(sent, number_of_lock, lock, account)
        told = {"number": number, "client": CLIENT, "object": offset // OBJECT_BYTES,
                "offset_bytes": offset % OBJECT_BYTES, "size_bytes": 8192, "tgid": self.vmm,
                "osd_number": -1, "image": DISK}  # fmt: skip
        if silent := self.dropped.get(number, 0):
            host.emit("librbd_sent", sent, MESSENGER, **told)
            osd.machine.world.emit("osd_message", sent + way, osd.reader, op_key=number,
                                   number=number, peer=CLIENT, peer_kind=8, type=42, message_key=0,
                                   tgid=osd.tgid, osd_number=osd.number)  # fmt: skip
            account["host/initiator.call"] += silent
            sent += silent
        host.emit("librbd_sent", sent, MESSENGER, **told)
        replied, rows = osd.serve(sent + way, number, CLIENT, spent, copies)
        answered = replied + way
        host.emit("librbd_answered", answered, MESSENGER, number=number, client=0, object=0,
                  offset_bytes=0, size_bytes=0, tgid=self.vmm, osd_number=osd.number,
                  image=0)  # fmt: skip
        host.emit("librbd_done", answered + 5_000, ANSWERER, request_key=request)
        account += rows
        account[f"{osd.machine.name}/network.there"] += way
        account[f"{osd.machine.name}/network.back"] += way
        account["host/librbd"] += 7_000 + 5_000
        return answered + 5_000

    def locked(
        self, sent: int, number: int, lock: tuple[Osd, OsdCosts, int], account: Counter[str]
    ) -> int:
        (osd, spent, way), told = lock, {"tgid": self.vmm, "number": number}
        told |= {"object": 0, "offset_bytes": 0}
        point = "librbd_sent_read" if self.parent else "librbd_sent"
        self.host.emit(point, sent, MESSENGER, client=CLIENT, osd_number=-1,
                       image=self.parent or DISK, size_bytes=4096 * (self.parent > 0),
                       **told)  # fmt: skip
        replied, rows = osd.serve(sent + way, number, CLIENT, spent)
        self.host.emit("librbd_answered", replied + way, MESSENGER, client=0,
                       osd_number=osd.number, image=0, size_bytes=0, **told)  # fmt: skip
        account += rows
        account[f"{osd.machine.name}/network.there"] += way
        account[f"{osd.machine.name}/network.back"] += way
        account["host/librbd"] += 3_000
        return replied + way + 3_000

    def read(self, enter: int, number: int) -> int:
        """Of such a request only the operation is told."""
        told = {"number": number, "offset_bytes": 0, "tgid": self.vmm}
        self.host.emit("librbd_sent_read", enter + 7_000, MESSENGER, client=CLIENT, object=0,
                       size_bytes=8192, osd_number=-1, image=DISK, **told)  # fmt: skip
        self.host.emit("librbd_answered", enter + 50_000, MESSENGER, client=0, object=0,
                       size_bytes=0, osd_number=0, image=0, **told)  # fmt: skip
        return enter + 60_000


def found_in(path: Path, library: Library, *machines: Machine, op: Op = Op.SYNC) -> Breakdown:
    worlds = {"guest": library.guest, "host": library.host}
    worlds |= {machine.name: machine.world for machine in machines}
    for name, world in worlds.items():
        world.builder.env["reads"] = 1
        world.builder.write(path / name)
    roles = {"guest": "guest", "host": "host"}
    described = [
        {"name": name, "role": roles.get(name, "server"), "directory": name} for name in worlds
    ]
    text = {"format": "iostrata.recording/1", "created": "", "machines": described}
    (path / "recording.json").write_text(json.dumps(text))
    breakdown = analyse(open_recording(path), op)
    conserves(breakdown)
    return breakdown


def written(library: Library, random: Random, count: int) -> list[dict[str, int]]:
    writer = library.writer()
    for number in range(count):
        library.durable_write(writer, 8192 * number * 97, drawn(random, number))
    return [account(each) for each in writer.truth]


def guests(found: Breakdown) -> list[dict[str, int]]:
    mine = accounts(found)[400]
    renamed = [{row.removeprefix("guest/"): ns for row, ns in each.items()} for each in mine]
    return [account(each) for each in renamed]


def apart(rows: dict[str, int]) -> dict[str, int]:
    """Without what only the relation of the guest's clock and its host's tells apart."""
    split = {"syscall", "block.Q2D", "host/vmm.submit", "host/vmm.complete", "host/kvm.exit",
             "host/kvm.inject"}  # fmt: skip
    return {row: ns for row, ns in rows.items() if row not in split}


@pytest.mark.parametrize("seed", range(3))
def test_a_guests_write_is_followed_to_the_slowest_copy(tmp_path: Path, seed: int) -> None:
    random, machines = Random(seed), [Machine(name) for name in "abc"]
    osds = [Osd(machine, number) for number, machine in enumerate(machines)]
    library = Library()
    for _ in range(40):
        primary, *others = random.sample(osds, 3)
        copies = tuple(Copy(osd, drawn_of_osd(random), far(random)) for osd in others)
        library.parts.append((primary, drawn_of_osd(random), copies, far(random)))
    truth = written(library, random, 40)
    found = found_in(tmp_path, library, *machines)
    for mine, true in zip(guests(found), truth, strict=True):
        assert apart(mine) == apart(true)
        assert sum(mine.values()) == sum(true.values())
    hops = {
        (each.upper, each.hop): each for each in found.quality.crossings if each.upper in "host"
    }
    assert {each.followed == each.asked for each in hops.values()} == {True}


@pytest.mark.parametrize("op", [Op.SYNC, Op.DIRECT])
def test_an_osd_that_nobody_recorded_is_named(tmp_path: Path, op: Op) -> None:
    random, machine = Random(1), Machine("a")
    near, unseen = Osd(machine, 0), Osd(Machine("b"), 7)
    library = Library()
    for number in range(20):
        osd = unseen if number % 2 else near
        library.parts.append((osd, drawn_of_osd(random), (), far(random)))
    truth = written(library, random, 20)
    for call in library.guest.builder._rows["syscall"]:
        call["open_flags"] |= O_DIRECT
    found = found_in(tmp_path, library, machine, op=op)
    for mine, true in zip(guests(found), truth, strict=True):
        away = sum(ns for row, ns in true.items() if row.startswith("b/"))
        assert mine.get("host/initiator.call", 0) == away
    (line,) = (each for each in found.quality.not_observed if "osd.7" in each.layer)
    assert line.merged_into == "initiator.call"


def with_locks(*costs: OsdCosts) -> tuple[Library, Machine, Random]:
    """What it writes is osd.0's, and osd.1 has the header, with the lock."""
    random, machine = Random(3), Machine("a")
    osd, header = Osd(machine, 0), Osd(machine, 1)
    library = Library(locks=tuple((header, each, far(random)) for each in costs))
    library.parts = [(osd, drawn_of_osd(random), (), far(random)) for _ in range(20)]
    return library, machine, random


def test_what_is_asked_for_a_lock_is_followed(tmp_path: Path) -> None:
    """Who has it, which writes nothing; to have it, which was an error, that is written, too."""
    costs = drawn_of_osd(Random(4))
    looks = replace(costs, looks=True)
    library, machine, random = with_locks(looks, replace(costs, error=True), costs)
    truth = written(library, random, 20)
    found = found_in(tmp_path, library, machine)
    for mine, true in zip(guests(found), truth, strict=True):
        assert apart(mine) == apart(true)
    assert not any("osd." in each.layer for each in found.quality.not_observed)
    assert found.quality.unfollowed == 0


def test_what_a_library_reads_before_it_writes_is_followed(tmp_path: Path) -> None:
    """Of its disk's parent."""
    library, machine, random = with_locks(replace(drawn_of_osd(Random(4)), looks=True))
    library.parent = 0xFA
    truth = written(library, random, 20)
    found = found_in(tmp_path, library, machine)
    for mine, true in zip(guests(found), truth, strict=True):
        assert apart(mine) == apart(true)
    assert found.quality.unfollowed == 0


def test_what_was_sent_again_to_one_osd_is_answered_once(tmp_path: Path) -> None:
    """It forgot the first, as another OSD had it for a while; the second was done by then."""
    library, machine, random = with_locks()
    osd, costs, copies, way = library.parts[7]
    library.parts[7] = (osd, replace(costs, error=True), copies, way)
    library.dropped[8] = 700_000
    truth = written(library, random, 20)
    found = found_in(tmp_path, library, machine)
    for mine, true in zip(guests(found), truth, strict=True):
        assert apart(mine) == apart(true)
    (line,) = (each for each in found.quality.not_observed if "operations" in each.layer)
    assert line.reason.startswith("1 of 21 ")
    assert (line.reason[-36:], line.merged_into) == (
        "were sent again: no OSD had answered", "initiator.call"
    )  # fmt: skip


def test_an_osd_that_was_recorded_and_tells_no_answer_is_no_stranger(tmp_path: Path) -> None:
    library, machine, random = with_locks(replace(drawn_of_osd(Random(4)), looks=True, error=True))
    written(library, random, 20)
    rows = machine.world.builder._rows
    rows["osd_written"] = [each for each in rows["osd_written"] if each["osd_number"] != 1]
    found = found_in(tmp_path, library, machine)
    (line,) = (each for each in found.quality.not_observed if each.layer == "osd.1")
    assert line.reason == "it was asked for this, and when it answered is not told"
    assert (line.machines, line.merged_into) == (("host",), "initiator.call")


def test_what_is_not_told_of_a_disk_is_not_the_librarys(tmp_path: Path) -> None:
    """How it lies on its objects: all that its library has a request for is in one row."""
    random, machine = Random(1), Machine("a")
    library, osd = Library(), Osd(machine, 0)
    library.parts = [(osd, drawn_of_osd(random), (), far(random)) for _ in range(20)]
    truth = written(library, random, 20)
    library.host.builder._rows["librbd_image"].clear()
    found = found_in(tmp_path, library, machine)
    for mine, true in zip(guests(found), truth, strict=True):
        away = sum(ns for row, ns in true.items() if row.startswith("a/") or row == "host/librbd")
        assert (mine.get("host/librbd", 0), mine["host/initiator.call"]) == (0, away)
    (line,) = (each for each in found.quality.not_observed if "operations" in each.layer)
    assert "of 20 of 20 requests" in line.reason
    assert line.merged_into == "initiator.call"
    assert found.quality.unfollowed == 20


def test_a_write_whose_operations_are_not_told_is_not_followed(tmp_path: Path) -> None:
    """Though the library's other requests are, and its OSD is known."""
    random, machine = Random(2), Machine("a")
    library, osd = Library(), Osd(machine, 0)
    library.parts = [(osd, drawn_of_osd(random), (), far(random)) for _ in range(20)]
    written(library, random, 20)
    del library.host.builder._rows["librbd_sent"][::4]
    found = found_in(tmp_path, library, machine)
    (line,) = (each for each in found.quality.not_observed if "operations" in each.layer)
    assert "of 5 of 20 requests" in line.reason
    assert found.quality.unfollowed == 5


@pytest.mark.parametrize("writes", [0, 4])
def test_what_a_guest_reads_by_it_is_not_followed(tmp_path: Path, writes: int) -> None:
    """Nor passes its host by, whether it is known or not where what is written to the disk goes."""
    random, machine = Random(4), Machine("a")
    library, osd = Library(), Osd(machine, 0)
    library.parts = [(osd, drawn_of_osd(random), (), far(random)) for _ in range(4)]
    writer, reads = library.writer(), 9
    for number in range(writes + reads):
        library.flags = int(number < writes)
        writer.enter()
        writer.cpu(4_000)
        library.data(writer, 8192 * number * 97, drawn(random, number))
        writer.leave("pwrite64" if library.flags else "pread64", flags=O_DIRECT, result=8192,
                     size=8192)  # fmt: skip
        writer.now += 10_000
    found = found_in(tmp_path, library, machine, op=Op.DIRECT)
    quality = found.quality
    assert len(found.writes) == writes + reads
    if not writes:
        assert "reads of a disk that its QEMU has by librbd" in quality.apart[0]
        return
    assert quality.unfollowed == reads
    assert [each.bypassed for each in quality.crossings] == [(), ()]
    (line,) = (each for each in quality.not_observed if each.layer == "librbd")
    assert (line.machines, line.merged_into) == (("host",), "device.read")


def test_all_that_a_machine_asked_of_it_is_looked_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random, machine, asked_of = Random(3), Machine("a"), Counter[str]()
    library, osd = Library(), Osd(machine, 0)
    library.parts = [(osd, drawn_of_osd(random), (), far(random)) for _ in range(20)]
    written(library, random, 20)
    requests_of = librbd._requests_of

    def noted(window: Window) -> ImageRequests:
        asked_of[window.trace.machine] += len(window.pieces) == 0
        return requests_of(window)

    monkeypatch.setattr(librbd, "_requests_of", noted)
    found_in(tmp_path, library, machine)
    assert asked_of == {"guest": 1, "host": 1, "a": 1}


@pytest.mark.parametrize("op", [Op.SYNC, Op.DIRECT])
def test_what_a_program_asks_of_it_itself_is_said_not_to_be_seen(tmp_path: Path, op: Op) -> None:
    """Beside what it writes to files, and where that is nothing."""
    client = World()
    client.builder.env["reads"] = 1
    client.emit("unseen", 5, 65535, kind=UNSEEN_LIBRBD, count=2, dev=0)
    client.builder.write(tmp_path / "nothing")
    with pytest.raises(NothingToAnalyse, match="ask disks of Ceph for by its library"):
        analyse(open_recording(tmp_path / "nothing"), op)
    writer = Writer(client, 200, device(8, 0), 1_000_000)
    writer.enter()
    writer.leave("pread64", flags=O_DIRECT)
    client.builder.write(tmp_path / "end")
    with pytest.raises(NothingToAnalyse, match="ask disks of Ceph for by its library"):
        analyse(open_recording(tmp_path / "end"), op)
    writer.enter()
    writer.data(Request())
    writer.leave("pwrite64", flags=O_DSYNC | O_DIRECT, result=8192, size=8192)
    client.builder.write(tmp_path / "file")
    found = analyse(open_recording(tmp_path / "file"), op)
    (line,) = (each for each in found.quality.not_observed if each.layer == "librbd")
    assert "ask disks of Ceph for by its library" in line.reason


@pytest.mark.parametrize("files", [False, True])
def test_what_a_program_asks_of_it_itself_is_its_own(tmp_path: Path, files: bool) -> None:
    """Its requests are followed to the OSDs, beside what it writes to files; what it asked for
    before it was looked at is said not to be seen."""
    random, client, machine = Random(2), Machine("client", role="host"), Machine("a")
    world, osd, fio = client.world, Osd(machine, 0), 500
    for tid, name in ((fio, b"fio"), (MESSENGER, b"msgr-worker-0"), (ANSWERER, b"io_context_pool")):
        world.emit("thread", 1_000, tid, tgid=fio, subject_tid=tid, kind=THREAD_LIBRBD, comm=name,
                   process=b"fio")  # fmt: skip
    world.emit("unseen", 41_000, 65535, kind=UNSEEN_LIBRBD, count=1, dev=fio)
    laid(world, fio)
    writer, now, truth = Writer(world, fio, device(8, 0), 1_000_000), 50_000, []
    for number in range(24):
        way = far(random)
        asked_ns, sent = now, now + 7_000
        replied, rows = osd.serve(sent + way, number, CLIENT, drawn_of_osd(random))
        told(world, sent, number, 4096 * number, 0)
        answered = replied + way
        world.emit("librbd_answered", answered, MESSENGER, number=number, client=0, object=0,
                   offset_bytes=0, size_bytes=0, tgid=fio, osd_number=0, image=0)  # fmt: skip
        asked(world, asked_ns, number % 3 + 1, 4096 * number, 4096, answered + 5_000)
        rows += Counter({"a/network.there": way, "a/network.back": way, "client/librbd": 12_000})
        truth.append({row: ns for row, ns in account(rows).items() if ns})
        now = writer.now = answered + random.randint(9_000, 90_000)
        if files:
            writer.enter()
            writer.data(Request())
            writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
            now = writer.now + 4_000
    found = cluster_found_in(tmp_path, client, machine)
    own = [name.startswith("librbd:") for name in found.writes.names["method"]]
    by_it = np.array(own)[found.writes.codes["method"]]
    assert [int(some.sum()) for some in (by_it, ~by_it)] == [24, 24 * files]
    mine = [account(rows) for rows in accounts(found)[fio]]
    assert [rows for rows, its in zip(mine, by_it.tolist(), strict=True) if its] == truth
    assert found.quality.unfollowed == 0
    (line,) = (each for each in found.quality.not_observed if each.layer == "librbd")
    assert line.reason == "what fio (500) asked of a disk of Ceph in the 40.0 us after it opened it"


def test_what_a_programs_cache_answers_is_no_synchronous_write(tmp_path: Path) -> None:
    """But who flushes that; one request of before is no sign of a cache."""
    world, cached, through = World(), 500, IMAGE + 16
    world.emit("thread", 1_000, cached, tgid=cached, subject_tid=cached, kind=THREAD_LIBRBD,
               comm=b"fio", process=b"fio")  # fmt: skip
    laid(world, cached)
    laid(world, cached, through, DISK + 1)
    told(world, 5_000, 9, 0, 9_000, DISK + 1)
    for number in range(12):
        begin = 1_000_000 * (number + 1)
        asked(world, begin, 1, 4096 * number, 4096, begin + 2_000)
        told(world, begin + 1_500, 10 + number, 4096 * number, begin + 90_000)
        asked(world, begin + 10_000, 2, 4096 * number, 4096, begin + 99_000, through)
        told(world, begin + 11_500, 50 + number, 4096 * number, begin + 95_000, DISK + 1)
        if number % 4 == 3:
            asked(world, begin + 50_000, 3, 0, 0, begin + 95_000)
    world.builder.write(tmp_path / "client")
    found = analyse(open_recording(tmp_path / "client"))
    method = [found.writes.names["method"][code] for code in found.writes.codes["method"]]
    assert Counter(method) == {"librbd:write": 12, "librbd:flush": 3}
    assert found.quality.plain_writes == 12


def one_after_another(path: Path, images: Sequence[tuple[int, int, int]]) -> Breakdown:
    """A program's writes, to one open disk, then to the next: of each by what it is open, which it
    is (0: that is not told), and how long about each of 400 takes, in ns."""
    random, world, now = Random(5), World(), 1_000_000
    world.emit("thread", 1_000, 500, tgid=500, subject_tid=500, kind=THREAD_LIBRBD, comm=b"fio",
               process=b"fio")  # fmt: skip
    for image, disk, _ in images:
        if disk:
            laid(world, 500, image, disk)
    for image, _, took in images:
        for number in range(400):
            end = now + int(took * random.lognormvariate(0, 0.1))
            asked(world, now, number % 3 + 1, 4096 * number, 4096, end, image)
            now = end + 500_000
    world.builder.write(path)
    return analyse(open_recording(path))


@pytest.mark.parametrize("named", [True, False])
def test_another_disk_is_of_another_kind(tmp_path: Path, named: bool) -> None:
    """Neither of them takes longer than before, and each is a device of its own."""
    disks = (DISK, 0xF00D1234) if named else (0, 0)
    first, second = (IMAGE + 0x1000, disks[0], 90_000), (IMAGE, disks[1], 250_000)
    found = one_after_another(tmp_path / "two", [first, second])
    assert rhythm(found) == (None, None)
    names = ("image 0000d15c", "image f00d1234")
    if not named:
        names = ("unknown image 1", "unknown image 2")
    for column in ("device", "file"):
        codes, texts = found.writes.codes[column], found.writes.names[column]
        assert [texts[code] for code in codes] == [names[0]] * 400 + [names[1]] * 400
    assert run_of(found).parts["device"] == dict.fromkeys(names, 0.5)


def test_a_disk_that_is_open_twice_is_one(tmp_path: Path) -> None:
    """Be it by another process, or again: what takes longer does so since then."""
    twice = [(IMAGE, DISK, 90_000), (IMAGE + 0x1000, DISK, 250_000)]
    found = one_after_another(tmp_path / "one", twice)
    assert found.writes.names["device"] == ("image 0000d15c",)
    onset, _ = rhythm(found)
    assert onset is not None
    assert onset.times == pytest.approx(250 / 90, rel=0.1)
    assert onset.at_ns == found.writes.passed_ns[400]


def test_what_is_not_seen_of_a_program_is_said(tmp_path: Path) -> None:
    """Requests of which nothing told when they ended, discards, and all that it reads; not what was
    on its way at the end."""
    world, fio = World(), 500
    world.emit("thread", 1_000, fio, tgid=fio, subject_tid=fio, kind=THREAD_LIBRBD, comm=b"fio",
               process=b"fio")  # fmt: skip
    laid(world, fio)
    ask = {"image_key": IMAGE, "size_bytes": 4096, "tgid": fio, "flushes": 0, "offset_bytes": 0}
    for key, begin in ((7, 9_000), (8, 10_000), (7, 50_000), (9, 2_900_000_000)):
        world.emit("librbd_request", begin, fio, request_key=key, **ask)
    asked(world, 100_000, 1, 8192, 4096, 190_000)
    told(world, 110_000, 10, 8192, 180_000)
    for count_, when in ((3, 200_000), (5, 3_000_000_000)):
        world.emit("unseen", when, 65535, kind=UNSEEN_DISCARDS, count=count_, dev=0)
    world.builder.env["reads"] = 2
    world.builder.write(tmp_path / "client")
    found = analyse(open_recording(tmp_path / "client")).quality.not_observed
    told_of = {each.layer: each.reason for each in found if "Ceph" in each.reason}
    assert told_of["librbd"].startswith("3 requests of fio (500) to disks of Ceph: when they ended")
    assert told_of["discards, writes of zeros and the like"].startswith("5 requests")
    with pytest.raises(NothingToAnalyse, match="read from disks of Ceph by its library"):
        analyse(open_recording(tmp_path / "client"), Op.READ)


def test_why_a_client_stands_apart_from_its_osds_is_said(tmp_path: Path) -> None:
    """What these did is told, as for somebody who was not recorded."""
    client, machine = Machine("client", role="host"), Machine("a")
    client.world.emit("unseen", 5, 65535, kind=UNSEEN_LIBRBD, count=1, dev=0)
    osd = Osd(machine, 0)
    for number in range(9):
        osd.serve(1_000_000 * number + 9_000_000, number, CLIENT, OsdCosts())
    found = cluster_found_in(tmp_path, client, machine)
    assert len(found.writes) == 9
    (line,) = found.quality.apart
    assert line.startswith("client: ")
    assert "ask disks of Ceph for by its library" in line


def images(path: Path, world: World) -> Images:
    world.builder.write(path)
    return images_of(whole(read_trace(path)))


def told(
    world: World, when: int, number: int, place: int, answered: int, disk: int = DISK,
    reads: bool = False,
) -> None:  # fmt: skip
    where = (place // OBJECT_BYTES, place % OBJECT_BYTES)
    part(world, when, number, where, answered, disk, reads=reads)


def part(
    world: World, when: int, number: int, place: tuple[int, int], answered: int, disk: int = DISK,
    size: int = 4096, reads: bool = False,
) -> None:  # fmt: skip
    """An operation that writes there in that object, or reads."""
    point = "librbd_sent_read" if reads else "librbd_sent"
    world.emit(point, when, MESSENGER, number=number, client=CLIENT, object=place[0],
               offset_bytes=place[1], size_bytes=size, tgid=500, osd_number=-1,
               image=disk)  # fmt: skip
    if answered:
        world.emit("librbd_answered", answered, MESSENGER, number=number, client=0, object=0,
                   offset_bytes=0, size_bytes=0, tgid=500, osd_number=3, image=0)  # fmt: skip


def asked(
    world: World, begin: int, key: int, place: int, size: int, end: int, image: int = IMAGE
) -> None:
    world.emit("librbd_request", begin, 500, request_key=key, image_key=image, offset_bytes=place,
               size_bytes=size, tgid=500, flushes=int(not size))  # fmt: skip
    world.emit("librbd_done", end, ANSWERER, request_key=key)


def awaited(found: Images) -> list[tuple[int, int]]:
    """Numbers of operations, and keys of requests that wait for them."""
    number = found.operations.number[found.operation].tolist()
    return sorted(zip(number, found.requests.key[found.request].tolist(), strict=True))


def test_what_a_cache_has_answered_is_awaited_by_a_flush(tmp_path: Path) -> None:
    world = World()
    laid(world, 500)
    asked(world, 1_000, 1, 8192, 4096, 2_000)
    told(world, 1_500, 10, 8192, 9_000)
    asked(world, 3_000, 2, 0, 0, 9_500)
    # Nobody waits for what is answered once that flush is.
    told(world, 4_000, 11, 8192, 9_900)
    found = images(tmp_path, world)
    assert awaited(found) == [(10, 2)]
    assert found.early.tolist() == [True, True]
    assert found.known.tolist() == [True, True]


def test_one_that_spans_objects_is_several_operations(tmp_path: Path) -> None:
    world, edge = World(), OBJECT_BYTES
    laid(world, 500)
    asked(world, 1_000, 1, edge - 4096, 8192, 9_000)
    asked(world, 1_100, 2, edge + 4096, 4096, 9_100)
    for number, place in enumerate((edge - 4096, edge, edge + 4096)):
        told(world, 2_000 + number, 10 + number, place, 5_000 + number)
    found = images(tmp_path, world)
    assert awaited(found) == [(10, 1), (11, 1), (12, 2)]
    assert found.known.all()


def test_one_may_be_of_neighbours_that_wait_together(tmp_path: Path) -> None:
    """librbd's scheduler keeps a request back while another is on its way, for what follows it."""
    world = World()
    laid(world, 500)
    asked(world, 1_000, 1, 0, 4096, 5_000)
    for number in range(3):
        asked(world, 2_000 + number, 2 + number, 8192 + 4096 * number, 4096, 9_000 + number)
    told(world, 1_500, 10, 0, 4_500)
    part(world, 4_600, 11, (0, 8192), 8_000, size=12288)
    asked(world, 6_000, 5, 0, 0, 9_500)
    found = images(tmp_path, world)
    assert awaited(found) == [(10, 1), (11, 2), (11, 3), (11, 4), (11, 5)]
    assert found.known.all()
    assert not found.early.any()


@pytest.mark.parametrize("size", [1 << 16, 1 << 25])
def test_objects_may_be_smaller_or_larger(tmp_path: Path, size: int) -> None:
    world, place = World(), 5 * size + 8192
    laid(world, 500, size=size)
    asked(world, 1_000, 1, place, 4096, 9_000)
    part(world, 2_000, 10, (5, 8192), 5_000)
    found = images(tmp_path, world)
    assert awaited(found) == [(10, 1)]
    assert found.known.all()


def test_stripes_lie_side_by_side(tmp_path: Path) -> None:
    """As Ceph's documentation of its layouts has it: three objects of two stripes each."""
    world, stripe = World(), 1 << 16
    laid(world, 500, size=2 * stripe, stripe=stripe, objects=3)
    where = ((0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (3, 0), (4, 0), (5, 0), (3, 1))
    for number, (at, turn) in enumerate(where):
        asked(world, 1_000 + number, number + 1, number * stripe + 512, 4096, 9_000 + number)
        part(world, 2_000 + number, 10 + number, (at, turn * stripe + 512), 5_000 + number)
    found = images(tmp_path, world)
    assert awaited(found) == [(10 + number, number + 1) for number in range(len(where))]


def test_how_a_disk_lies_on_its_objects_is_not_guessed(tmp_path: Path) -> None:
    world = World()
    asked(world, 1_000, 1, 8192, 4096, 9_000)
    told(world, 2_000, 10, 8192, 5_000)
    asked(world, 2_500, 2, 0, 0, 9_500)
    found = images(tmp_path, world)
    assert awaited(found) == []
    assert not found.known.any()
    assert not found.early.any()


@pytest.mark.parametrize("header", [0, 1 << 22, 1 << 24])
def test_a_disk_that_the_library_encrypts_lies_behind_a_header(tmp_path: Path, header: int) -> None:
    """As long as one of LUKS, by which the places differ; two write 4 MiB from one another."""
    world = World()
    laid(world, 500)
    for number in range(12):
        begin, place = 10_000 * number, (number % 2 << 22) + 8192 * number
        asked(world, begin + 1_000, number + 1, place, 4096, begin + 15_000)
        told(world, begin + 1_500, 50 + number, header + place, begin + 14_000)
    # What is in the header is no write's, but the library's own.
    told(world, 200_000, 90, 4096, 210_000)
    asked(world, 199_000, 40, 0, 0, 220_000)
    found = images(tmp_path, world)
    made = [(50 + number, number + 1) for number in range(12)]
    assert awaited(found) == [*made, (90, 40)]
    assert found.known.all()
    assert found.early.sum() == (not header)


def test_the_rest_of_an_encrypted_block_is_read_first(tmp_path: Path) -> None:
    """Not what the program reads elsewhere meanwhile."""
    world = World()
    laid(world, 500)
    for number in range(12):
        begin, place = 20_000 * number, 8192 * number
        asked(world, begin + 1_000, number + 1, place, 4096, begin + 15_000)
        told(world, begin + 1_500, 50 + number, (4 << 20) + place, begin + 14_000)
    asked(world, 300_000, 40, 8192 + 100, 1000, 340_000)
    told(world, 301_000, 90, (4 << 20) + 8192, 310_000, reads=True)
    told(world, 302_000, 91, (4 << 20) + 81920, 309_000, reads=True)
    told(world, 311_000, 92, (4 << 20) + 8192, 330_000)
    assert [pair for pair in awaited(images(tmp_path, world)) if pair[1] == 40] == [
        (90, 40), (92, 40),
    ]  # fmt: skip


def test_a_request_whose_end_nothing_told_has_none(tmp_path: Path) -> None:
    """Another one has its completion later, of which the end is told."""
    world = World()
    laid(world, 500)
    ask = {"request_key": 7, "image_key": IMAGE, "size_bytes": 4096, "tgid": 500, "flushes": 0}
    world.emit("librbd_request", 1_000, 500, offset_bytes=0, **ask)
    told(world, 1_500, 10, 0, 2_000)
    asked(world, 4_000, 7, 8192, 4096, 6_000)
    told(world, 4_500, 11, 8192, 5_000)
    found = images(tmp_path, world).requests
    assert (found.end_ns.tolist(), found.again.tolist()) == ([-1, 6_000], [True, False])


def test_where_a_cache_writes_back_to_is_no_header(tmp_path: Path) -> None:
    """Requests that wait for it are of its length and far away, but each at a distance of its
    own."""
    world = World()
    laid(world, 500)
    far = (np.arange(8) + 2 << 23) + 8192 * np.arange(8)
    for number, place in enumerate(far.tolist()):
        begin = 10_000 * number
        asked(world, begin, number + 1, place, 4096, begin + 500)
        asked(world, begin + 800, 100 + number, 8192 * number, 4096, begin + 9_000)
        told(world, begin + 1_000, 50 + number, place, begin + 8_000)
    found = images(tmp_path, world)
    assert found.early.all()
    assert (found.operations.offset_bytes == far).all()


def test_two_disks_of_one_process_are_told_apart(tmp_path: Path) -> None:
    world, other = World(), IMAGE + 16
    laid(world, 500)
    laid(world, 500, other, DISK + 1)
    asked(world, 1_000, 1, 0, 4096, 9_000)
    asked(world, 1_100, 2, 0, 4096, 9_100, other)
    told(world, 2_000, 10, 0, 5_000)
    told(world, 2_100, 11, 0, 5_100, DISK + 1)
    found = images(tmp_path, world)
    assert awaited(found) == [(10, 1), (11, 2)]


def test_two_that_write_to_one_place_at_once_are_not_told_apart(tmp_path: Path) -> None:
    world = World()
    laid(world, 500)
    asked(world, 1_000, 1, 0, 4096, 9_000)
    asked(world, 1_100, 2, 0, 4096, 9_100)
    told(world, 2_000, 10, 0, 5_000)
    found = images(tmp_path, world)
    assert awaited(found) == []
    assert (found.early.tolist(), found.known.tolist()) == ([False], [False, False])


def test_who_flushes_waits_for_what_was_on_its_way(tmp_path: Path) -> None:
    world = World()
    laid(world, 500)
    asked(world, 1_000, 1, 0, 4096, 9_000)
    told(world, 2_000, 10, 0, 8_000)
    asked(world, 3_000, 2, 0, 0, 9_500)
    # It need not wait for what was asked for later.
    asked(world, 3_500, 3, 8192, 4096, 9_400)
    told(world, 4_000, 11, 8192, 9_300)
    found = images(tmp_path, world)
    assert awaited(found) == [(10, 1), (10, 2), (11, 3)]
    assert found.known.all()


def test_what_of_a_request_was_not_seen_is_not_the_librarys(tmp_path: Path) -> None:
    """A part of it, and what a flush waits for beside it."""
    world = World()
    laid(world, 500)
    asked(world, 1_000, 1, 0, 8192, 9_000)
    told(world, 2_000, 10, 0, 8_000)
    asked(world, 3_000, 2, 0, 0, 9_500)
    found = images(tmp_path, world)
    assert found.known.tolist() == [False, False]


def test_what_is_sent_again_is_awaited_since_it_was_sent_first(tmp_path: Path) -> None:
    """To an OSD that was started anew."""
    world = World()
    laid(world, 500)
    asked(world, 1_000, 1, 0, 4096, 9_000)
    told(world, 2_000, 10, 0, 0)
    told(world, 6_000, 10, 0, 8_000)
    found = images(tmp_path, world)
    made = found.operations
    assert list(zip(made.send_ns.tolist(), made.reply_ns.tolist(), strict=True)) == [
        (2_000, 6_000), (6_000, 8_000)
    ]  # fmt: skip
    assert made.osd.tolist() == [-1, 3]
    assert awaited(found) == [(10, 1), (10, 1)]
    assert found.known.all()


def asked_first(
    world: World, when: int, number: int, answered: int, disk: int, reads: bool = False
) -> None:
    """Of no data of a disk's, or with ``reads``, of what it has."""
    point = "librbd_sent_read" if reads else "librbd_sent"
    world.emit(point, when, MESSENGER, number=number, client=CLIENT, object=0, offset_bytes=0,
               size_bytes=4096 * reads, tgid=500, osd_number=-1, image=disk)  # fmt: skip
    world.emit("librbd_answered", answered, MESSENGER, number=number, client=0, object=0,
               offset_bytes=0, size_bytes=0, tgid=500, osd_number=3, image=0)  # fmt: skip


@pytest.mark.parametrize(("disk", "reads"), [(DISK, False), (0xFA, True)])
def test_what_is_asked_for_a_disk_itself_is_awaited(tmp_path: Path, disk: int, reads: bool) -> None:
    """The map of its objects, and what its parent has, before a write; not meanwhile."""
    world = World()
    laid(world, 500)
    asked(world, 1_000, 1, 0, 4096, 9_000)
    asked_first(world, 2_000, 10, 3_000, disk, reads)
    told(world, 4_000, 11, 0, 8_000)
    asked_first(world, 5_000, 12, 7_000, disk, reads)
    # A flush, too: its journal.
    asked(world, 9_000, 3, 0, 0, 9_900)
    asked_first(world, 9_100, 15, 9_800, disk, reads)
    # Neither does another disk of that process wait for what is its map, nor a read of its own.
    laid(world, 500, IMAGE + 16, DISK + 1)
    asked_first(world, 8_100, 13, 8_300, DISK + 1)
    asked_first(world, 8_400, 14, 8_600, DISK, reads=True)
    found = images(tmp_path, world)
    assert awaited(found) == [(10, 1), (11, 1), (15, 3)]
    assert sorted(found.asked.number.tolist()) == [10, 11, 15]


class _OfLibrary(Pair):
    """Its server has the disk from Ceph: no system call tells of a request."""

    number = 0

    def _served(self, begin: int, offset: int, costs: ServerCosts, flush: bool, sync: bool) -> int:
        world, self.number = self.server, self.number + 1
        number = self.number
        if number == 1:
            laid(world, 600)
        sent, answered = begin + 7_000, begin + 7_000 + 400_000 + number
        world.emit("librbd_request", begin, 600, request_key=0x500, image_key=IMAGE,
                   offset_bytes=offset, size_bytes=0 if flush else 8192, tgid=600,
                   flushes=int(flush))  # fmt: skip
        if flush:
            answered = begin - 5_000 + 12_000
        else:
            world.emit("librbd_sent", sent, MESSENGER, number=number, client=CLIENT,
                       object=offset // OBJECT_BYTES, offset_bytes=offset % OBJECT_BYTES,
                       size_bytes=8192, tgid=600, osd_number=-1, image=DISK)  # fmt: skip
            world.emit("librbd_answered", answered, MESSENGER, number=number, client=0, object=0,
                       offset_bytes=0, size_bytes=0, tgid=600, osd_number=3, image=0)  # fmt: skip
            self.writer.account["server/initiator.call"] += answered - sent
        world.emit("librbd_done", answered + 5_000, 600, request_key=0x500)
        self.writer.account["server/librbd"] += 12_000
        return answered + 5_000


class _RbdNbd(_OfLibrary):
    hop, program = "rbd-nbd", b"rbd_reader"


class _TgtOfLibrary(_OfLibrary, Tgt):
    pass


@pytest.mark.parametrize("kind", [_RbdNbd, _TgtOfLibrary])
def test_what_a_server_has_from_ceph_is_its_librarys(tmp_path: Path, kind: type[Pair]) -> None:
    pair = kind()
    for number in range(12):
        way = 30_000 + 5_000 * number
        pair.durable_write(number * 8192, ServerCosts(there=way, back=way), flush=number % 3 == 0)
    found = pair.analysed(tmp_path)
    (crossing,) = found.quality.crossings
    assert (crossing.hop, crossing.asked, crossing.followed) == (pair.hop, 12, 12)
    (mine,) = accounts(found).values()
    for account_, truth in zip(mine, pair.truth(), strict=True):
        same_but_for_ways(pair, account_, truth)
