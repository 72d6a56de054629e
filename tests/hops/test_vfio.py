# SPDX-License-Identifier: Apache-2.0
"""A guest's own disk (VFIO), of which its host sees interrupts only, with known truth."""

from __future__ import annotations

import json
from bisect import bisect
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate
from pathlib import Path
from random import Random
from unittest import mock

import pytest

from iostrata.analysis import analyse
from iostrata.clock import align
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from tests.network import exchanged
from tests.stitch.test_truth import accounts, conserves
from tests.synthetic import O_DSYNC, Clock, Request, World, Writer, clock, device

DISK, APP, VMM = device(259, 0), 400, 500
MODEL, ANOTHER = "144d:a808", "8086:0a54"
IRQ = 40
EXACT_NS = 100
"""How far an exchange is off at most; what depends on two clocks may be off as much twice."""


@dataclass
class Guest:
    """One that has a disk of its own, and runs in process ``vmm`` of the host."""

    host: World
    clock: Clock
    vmm: int = VMM
    irq: int = IRQ
    model: str = MODEL
    world: World = field(init=False)
    app: Writer = field(init=False)

    def __post_init__(self) -> None:
        self.world = World(clock=self.clock)
        self.world.builder.block(DISK, "nvme0n1", pci=self.model)
        self.app = Writer(self.world, APP, DISK, 1_000_000)

    def durable_write(self, took: int, inject: int, app: Writer | None = None) -> None:
        """``took``: by the disk, ``inject``: from its interrupt at the host on."""
        app = app or self.app
        app.enter()
        app.cpu(4_000)
        request = Request(scheduler=None, device=took + inject)
        interrupted = app.now + request.queue + took
        app.data(request)
        self.host.emit("vfio_interrupt", interrupted, 0, irq=self.irq)
        app.account -= Counter({"device.data": took + inject})
        app.account += Counter({"host/vfio.device": took, "host/kvm.inject": inject})
        app.cpu(1_500)
        app.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
        app.finish()
        app.now += 10_000


def written(
    path: Path,
    host: World,
    guests: dict[str, Guest],
    passed_on: str = MODEL,
    exact_ns: int = EXACT_NS,
) -> Breakdown:
    """``passed_on``: what the host says that its guests' disks are."""
    machines = {**{name: guest.world for name, guest in guests.items()}, "host": host}
    for name, world in machines.items():
        world.builder.write(path / name)
        exchanged(path / name, world.clock, 30_000_000, exact_ns, 2 * exact_ns)
    lines = [f"{guest.vmm}\t0000:0{n}:00.0\t{passed_on}\t{guest.irq - 1},{guest.irq}\n"
             for n, guest in enumerate(guests.values())]  # fmt: skip
    (path / "host" / "facts" / "passthrough").write_text("".join(lines))
    described = [
        {"name": n, "role": "host" if n == "host" else "guest", "directory": n} for n in machines
    ]
    text = {"format": "iostrata.recording/1", "created": "", "machines": described}
    (path / "recording.json").write_text(json.dumps(text))
    breakdown = analyse(open_recording(path))
    conserves(breakdown)
    return breakdown


def off(account: dict[str, int], truth: Counter[str], guest: str) -> Iterator[int]:
    """By how much each row is."""
    rows = Counter({row if "/" in row else f"{guest}/{row}": ns for row, ns in truth.items()})
    for row in rows.keys() | account.keys():
        yield abs(account.get(row, 0) - rows[row])


def drawn(random: Random) -> tuple[int, int]:
    return random.randint(20_000, 400_000), random.randint(5_000, 60_000)


@pytest.mark.parametrize("seed", range(3))
def test_every_row_is_met(tmp_path: Path, seed: int) -> None:
    random, host = Random(seed), World(clock=clock(3_600_000_000_000, 3))
    host.target(VMM, kind=4, comm=b"qemu")
    guest = Guest(host, clock(5_000_000, 0))
    for _ in range(40):
        guest.durable_write(*drawn(random))
    found = written(tmp_path, host, {"guest": guest})
    (crossing,) = found.quality.crossings
    assert (crossing.hop, crossing.asked, crossing.followed) == ("vfio", 40, 40)
    assert crossing.by == "interrupt"
    (mine,) = accounts(found).values()
    for account, truth in zip(mine, guest.app.truth, strict=True):
        assert max(off(account, truth, "guest")) <= 2 * crossing.bound_ns
    (gap,) = [gap for gap in found.quality.not_observed if "nvme0n1" in gap.where]
    assert gap.merged_into == "vfio.device"


def test_two_guests_have_disks_of_one_model(tmp_path: Path) -> None:
    random, host = Random(7), World(clock=clock(3_600_000_000_000, 3))
    guests = {}
    for n, name in enumerate(("one", "other")):
        host.target(VMM + n, kind=4, comm=b"qemu")
        guests[name] = Guest(host, clock(5_000_000 * (n + 1), 0), VMM + n, IRQ + 10 * n)
    for _ in range(40):
        guests["one"].durable_write(*drawn(random))
        guests["other"].durable_write(*drawn(random))
    found = written(tmp_path, host, guests)
    bound = max(crossing.bound_ns for crossing in found.quality.crossings)
    assert [crossing.followed for crossing in found.quality.crossings] == [40, 40]
    every = [truth for guest in guests.values() for truth in guest.app.truth]
    met = [account for some in accounts(found).values() for account in some]
    for account, truth in zip(met, every, strict=True):
        name = next(iter(account)).partition("/")[0]
        name = name if name in guests else "one"
        rows = {row: ns for row, ns in truth.items() if "/" in row}
        for row, ns in rows.items():
            assert abs(account[row] - ns) <= 2 * bound


def test_a_disk_of_another_kind_is_nobodys(tmp_path: Path) -> None:
    host = World(clock=clock(3_600_000_000_000, 3))
    host.target(VMM, kind=4, comm=b"qemu")
    guest = Guest(host, clock(5_000_000, 0), model=ANOTHER)
    for _ in range(20):
        guest.durable_write(100_000, 20_000)
    found = written(tmp_path, host, {"guest": guest})
    assert not found.quality.crossings
    (line,) = found.quality.apart
    assert line.startswith("host: ")


def test_what_it_is_told_of_no_more_stays_with_the_disk(tmp_path: Path) -> None:
    """The host's recorder lost every second interrupt, and nobody knows."""
    host = World(clock=clock(3_600_000_000_000, 3))
    host.target(VMM, kind=4, comm=b"qemu")
    guest = Guest(host, clock(5_000_000, 0))
    for number in range(40):
        host.deaf_to = "vfio_interrupt" if number % 2 else ""
        guest.durable_write(100_000, 20_000)
    found = written(tmp_path, host, {"guest": guest})
    (mine,) = accounts(found).values()
    for number, account in enumerate(mine):
        seen = "host/vfio.device" in account
        assert seen == (number % 2 == 0)
        assert ("guest/device.data" in account) != seen
    assert found.quality.unfollowed == 19  # The host's trace ends before the last one.


def test_many_at_once_of_which_one_interrupt_ends_several(tmp_path: Path) -> None:
    """They tell nothing of the clocks: at what offset does an interrupt not lie in a request?"""
    random, host = Random(4), World(clock=clock(3_600_000_000_000, 3))
    host.target(VMM, kind=4, comm=b"qemu")
    guest = Guest(host, clock(5_000_000, 0))
    apps = [Writer(guest.world, APP + number, DISK, 1_000_000) for number in range(32)]
    possible = list(accumulate(random.randint(50_000, 400_000) for _ in range(400)))
    told: set[int] = set()
    for _ in range(15):
        for app in apps:
            app.enter()
            app.cpu(4_000)
            inject = random.randint(5_000, 40_000)
            request = Request(scheduler=None)
            issued = app.now + request.queue
            least = issued + random.randint(500_000, 2_000_000)
            took = possible[bisect(possible, least)] - issued
            app.data(replace(request, device=took + inject))
            if issued + took not in told:
                told.add(issued + took)
                host.emit("vfio_interrupt", issued + took, 0, irq=IRQ)
            app.account -= Counter({"device.data": took + inject})
            app.account += Counter({"host/vfio.device": took, "host/kvm.inject": inject})
            app.cpu(1_500)
            app.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
            app.finish()
            app.now += random.randint(5_000, 50_000)
    with mock.patch("iostrata.hops.graph.align", wraps=align) as aligned:
        found = written(tmp_path, host, {"guest": guest}, exact_ns=10_000)
    # Of 2,048 reads, 32 at once, causality was sure of clocks that were 140 ms off by one of them.
    assert [len(asks) for _, _, asks, _ in (call.args for call in aligned.call_args_list)] == [0]
    (crossing,) = found.quality.crossings
    assert (crossing.clock, crossing.asked, crossing.followed) == ("exchange", 480, 480)
    assert not crossing.contradiction
    assert len(told) < 480 / 2
    every = accounts(found)
    for app in apps:
        for account, truth in zip(every[app.tid], app.truth, strict=True):
            assert max(off(account, truth, "guest")) <= 2 * crossing.bound_ns


def test_another_requests_interrupt_never_makes_the_disk_quicker(tmp_path: Path) -> None:
    """Two threads at once: the last interrupt before a request's end may be the other's."""
    random, host = Random(3), World(clock=clock(3_600_000_000_000, 3))
    host.target(VMM, kind=4, comm=b"qemu")
    guest = Guest(host, clock(5_000_000, 0))
    other = Writer(guest.world, APP + 1, DISK, 1_003_000)
    for _ in range(60):
        guest.durable_write(*drawn(random))
        guest.durable_write(*drawn(random), other)
    found = written(tmp_path, host, {"guest": guest})
    bound = 2 * found.quality.crossings[0].bound_ns
    every = accounts(found)
    for app in (guest.app, other):
        for account, truth in zip(every[app.tid], app.truth, strict=True):
            device, inject = account["host/vfio.device"], account.get("host/kvm.inject", 0)
            assert device >= truth["host/vfio.device"] - bound
            both = truth["host/vfio.device"] + truth["host/kvm.inject"]
            assert abs(device + inject - both) <= bound
