# SPDX-License-Identifier: Apache-2.0
"""A guest's disk that its QEMU has from Ceph by itself, with known truth."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random

import pytest

from iostrata.analysis import analyse
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from iostrata.stitch import image_operations_of, image_requests_of, whole
from iostrata.trace.read import read_trace
from tests.chain import Chain, drawn
from tests.cluster import CLIENT, Copy, Machine, Osd, account
from tests.cluster import Costs as OsdCosts
from tests.hops.test_ceph import drawn as drawn_of_osd
from tests.hops.test_ceph import far
from tests.stitch.test_truth import accounts, conserves
from tests.synthetic import World

OBJECT_BYTES = 1 << 22
MESSENGER, ANSWERER, IMAGE = 506, 507, 0x7001


@dataclass
class Library(Chain):
    """The host's QEMU asks ``parts`` of OSDs: the n-th request's is the n-th."""

    parts: list[tuple[Osd, OsdCosts, tuple[Copy, ...], int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.numbers = count(1)
        for tid, name in ((MESSENGER, b"msgr-worker-0"), (ANSWERER, b"io_context_pool")):
            self.host.emit("thread", 1, tid, tgid=self.vmm, subject_tid=tid, kind=4, comm=name)

    def carried_out(self, enter: int, offset: int, costs: object, account: Counter[str]) -> int:
        host, number = self.host, next(self.numbers)
        osd, spent, copies, way = self.parts[number - 1]
        request = 0x500 + number % 3
        host.emit("librbd_request", enter, self.vmm, request_key=request, image_key=IMAGE,
                  offset_bytes=offset, size_bytes=8192, tgid=self.vmm, flushes=0)  # fmt: skip
        sent = enter + 7_000
        host.emit("librbd_sent", sent, MESSENGER, number=number, client=CLIENT,
                  object=offset // OBJECT_BYTES, offset_bytes=offset % OBJECT_BYTES,
                  size_bytes=8192, tgid=self.vmm, osd_number=-1)  # fmt: skip
        replied, rows = osd.serve(sent + way, number, CLIENT, spent, copies)
        answered = replied + way
        host.emit("librbd_answered", answered, MESSENGER, number=number, client=0, object=0,
                  offset_bytes=0, size_bytes=0, tgid=self.vmm, osd_number=osd.number)  # fmt: skip
        host.emit("librbd_done", answered + 5_000, ANSWERER, request_key=request)
        account += rows
        account[f"{osd.machine.name}/network.there"] += way
        account[f"{osd.machine.name}/network.back"] += way
        account["host/librbd"] += 7_000 + 5_000
        return answered + 5_000


def found_in(path: Path, library: Library, *machines: Machine) -> Breakdown:
    worlds = {"guest": library.guest, "host": library.host}
    worlds |= {machine.name: machine.world for machine in machines}
    for name, world in worlds.items():
        world.builder.write(path / name)
    roles = {"guest": "guest", "host": "host"}
    described = [
        {"name": name, "role": roles.get(name, "server"), "directory": name} for name in worlds
    ]
    text = {"format": "iostrata.recording/1", "created": "", "machines": described}
    (path / "recording.json").write_text(json.dumps(text))
    breakdown = analyse(open_recording(path))
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


def test_an_osd_that_nobody_recorded_is_named(tmp_path: Path) -> None:
    random, machine = Random(1), Machine("a")
    near, unseen = Osd(machine, 0), Osd(Machine("b"), 7)
    library = Library()
    for number in range(20):
        osd = unseen if number % 2 else near
        library.parts.append((osd, drawn_of_osd(random), (), far(random)))
    truth = written(library, random, 20)
    found = found_in(tmp_path, library, machine)
    for mine, true in zip(guests(found), truth, strict=True):
        away = sum(ns for row, ns in true.items() if row.startswith("b/"))
        assert mine.get("host/initiator.call", 0) == away
    (line,) = (each for each in found.quality.not_observed if "osd.7" in each.layer)
    assert line.merged_into == "initiator.call"


def recorded(path: Path, world: World) -> Path:
    world.builder.write(path)
    return path


def told(world: World, when: int, number: int, place: int, answered: int) -> None:
    world.emit("librbd_sent", when, MESSENGER, number=number, client=CLIENT,
               object=place // OBJECT_BYTES, offset_bytes=place % OBJECT_BYTES, size_bytes=4096,
               tgid=500, osd_number=-1)  # fmt: skip
    world.emit("librbd_answered", answered, MESSENGER, number=number, client=0, object=0,
               offset_bytes=0, size_bytes=0, tgid=500, osd_number=3)  # fmt: skip


def asked(world: World, begin: int, key: int, place: int, size: int, end: int) -> None:
    world.emit("librbd_request", begin, 500, request_key=key, image_key=IMAGE, offset_bytes=place,
               size_bytes=size, tgid=500, flushes=int(not size))  # fmt: skip
    world.emit("librbd_done", end, ANSWERER, request_key=key)


def test_what_a_cache_has_answered_is_awaited_by_a_flush(tmp_path: Path) -> None:
    world = World()
    asked(world, 1_000, 1, 8192, 4096, 2_000)
    told(world, 1_500, 10, 8192, 9_000)
    asked(world, 3_000, 2, 0, 0, 9_500)
    # Nobody waits for what is answered once that flush is.
    told(world, 4_000, 11, 8192, 9_900)
    made = image_operations_of(whole(read_trace(recorded(tmp_path / "trace", world))))
    assert (made.waiting.tolist(), made.early.tolist()) == ([1, -1], [True, True])


def test_one_that_spans_objects_is_several_operations(tmp_path: Path) -> None:
    world, edge = World(), OBJECT_BYTES
    asked(world, 1_000, 1, edge - 4096, 8192, 9_000)
    asked(world, 1_100, 2, edge + 4096, 4096, 9_100)
    for number, place in enumerate((edge - 4096, edge, edge + 4096)):
        told(world, 2_000 + number, 10 + number, place, 5_000 + number)
    made = image_operations_of(whole(read_trace(recorded(tmp_path / "trace", world))))
    assert made.waiting.tolist() == [0, 0, 1]


def test_two_disks_that_write_to_one_place_at_once_are_not_told_apart(tmp_path: Path) -> None:
    world = World()
    asked(world, 1_000, 1, 0, 4096, 9_000)
    asked(world, 1_100, 2, 0, 4096, 9_100)
    told(world, 2_000, 10, 0, 5_000)
    made = image_operations_of(whole(read_trace(recorded(tmp_path / "trace", world))))
    assert (made.waiting.tolist(), made.early.tolist()) == ([-1], [False])


def test_what_is_sent_again_is_one_operation(tmp_path: Path) -> None:
    """To an OSD that was started anew."""
    world = World()
    asked(world, 1_000, 1, 0, 4096, 9_000)
    told(world, 2_000, 10, 0, 8_000)
    world.emit("librbd_sent", 6_000, MESSENGER, number=10, client=CLIENT, object=0, offset_bytes=0,
               size_bytes=4096, tgid=500, osd_number=-1)  # fmt: skip
    window = whole(read_trace(recorded(tmp_path / "trace", world)))
    made = image_operations_of(window)
    assert (made.send_ns.tolist(), made.waiting.tolist()) == ([6_000], [0])
    assert len(image_requests_of(window)) == 1
