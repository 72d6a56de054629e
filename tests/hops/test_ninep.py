# SPDX-License-Identifier: Apache-2.0
"""A directory that QEMU shares with its guest by 9p, with known truth: a clock each."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pytest

from iostrata.analysis import analyse
from iostrata.attribute import summarise
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from iostrata.trace.layout import THREAD_VMM, WAKE_INTERRUPT, WAKE_THREAD
from tests.chain import HALT, VCPU
from tests.chain import Costs as ChainCosts
from tests.images import HOST_DISK, Local
from tests.stitch.test_truth import accounts, conserves
from tests.synthetic import CALLS, O_DSYNC, Clock, Request, World, Writer, clock, device

MOUNT, DISK, GUEST_DISK = device(0, 50), device(8, 0), device(253, 0)
APP, VMM = 200, 500
TFSYNC, TWRITE, TCLUNK = 50, 118, 120
RUNQUEUE = 1_100
REQUEST, QUEUE = 0xFFFF_8885_0000_0000, 0xFFFF_8886_0000_0000
PATH = 7_000
"""Of the first file; a guest's kernel has its inode as the number 2 behind that."""
SIZE = 8192


@dataclass
class Costs:
    """Where a request spends its time below the guest, in ns."""

    driver: int = 3_000
    submit: int = 20_000
    complete: int = 12_000
    inject: int = 8_000
    interrupt: int = 2_000
    disk: Request | None = None


@dataclass
class Share:
    """A guest and its host. ``remapped``: its QEMU has other numbers of files than its host."""

    guest: World
    host: World
    vm: int = 0
    remapped: bool = False
    mount: int = MOUNT
    disk: int = DISK

    def __post_init__(self) -> None:
        self.vmm = VMM + 100 * self.vm
        for n in range(6):
            self.host.emit("thread", 1, self.vmm + n, tgid=self.vmm, subject_tid=self.vmm + n,
                           kind=THREAD_VMM, comm=b"qemu")  # fmt: skip

    def app(self, number: int = 0, file: int = 0) -> Writer:
        """A thread of the guest, and a file of its own."""
        inode = PATH + file + 2
        now = 1_000_000 + 777 * number
        return Writer(self.guest, APP + number, 0, now, inode=inode, file_device=self.mount)

    def request(
        self, app: Writer, costs: Costs, kind: int = TWRITE, offset: int = 0, size: int = SIZE,
        tag: int = 0, worker: int = 1, error: int = 0,
    ) -> None:  # fmt: skip
        """One request, from when it is made until its thread has the answer and says so."""
        send = app.now
        told, key = send + costs.driver, REQUEST + (app.tid << 8)
        self.guest.emit("virtio_add", told - 100, app.tid, queue_key=QUEUE, request_key=key, head=0)
        self.guest.emit("virtio_notify", told + 90, app.tid, queue_key=QUEUE, enter_ns=told)
        thread = Writer(self.host, self.vmm + worker, self.disk, told + costs.submit,
                        kind=THREAD_VMM)  # fmt: skip
        path = app.inode - 2
        if kind != TCLUNK:
            self.called(thread, costs, path, kind, offset, size)
        asked = thread.now + costs.complete
        self.host.emit("kvm_msi", asked, self.vmm, tgid=self.vmm, vcpu=0, vector=0x26)
        heard = asked + costs.inject
        self.guest.emit("virtio_interrupt", heard, 0, queue_key=QUEUE, irq=30)
        wake = heard + costs.interrupt
        app.now = wake + RUNQUEUE
        self.guest.emit("sched_resume", app.now, app.tid, off_ns=send + 300, wake_ns=wake,
                        waker_tid=0, waker_cpu=0, waker_context=WAKE_INTERRUPT, state=2,
                        subject_tid=app.tid)  # fmt: skip
        way = Counter({"vmm.submit": costs.submit, "vmm.complete": costs.complete,
                       "kvm.inject": costs.inject})  # fmt: skip
        app.account += Counter({f"host/{row}": ns for row, ns in (way + thread.account).items()})
        app.account += Counter({"wakeup.runqueue": RUNQUEUE, "virtio.submit": costs.driver,
                                "virtio.interrupt": costs.interrupt})  # fmt: skip
        app.cpu(400)
        self.guest.emit(
            "ninep_request", app.now, app.tid, request_key=key,
            send_ns=send, offset_bytes=offset if kind == TWRITE else 0, dev=self.mount,
            path=path * 4 + 1 if self.remapped else path, error=error, tag=tag, type=kind,
            size_bytes=size if kind == TWRITE else 0,
        )  # fmt: skip

    def called(
        self, thread: Writer, costs: Costs, inode: int, kind: int, offset: int, size: int
    ) -> None:
        thread.enter()
        enter = thread.now
        thread.cpu(900)
        if costs.disk:
            thread.data(costs.disk)
        thread.cpu(600)
        call = CALLS["fdatasync" if kind == TFSYNC else "pwritev"]
        self.host.emit(
            "syscall", thread.now, thread.tid, enter_ns=enter, inode=inode, dev=self.disk,
            offset_bytes=-1 if kind == TFSYNC else offset, result=0 if kind == TFSYNC else size,
            size_bytes=size, tgid=self.vmm, open_flags=O_DSYNC, call=call, rwf=0,
        )  # fmt: skip

    def durable_write(self, app: Writer, costs: Costs, offset: int = 0, worker: int = 1,
                      parts: int = 1) -> None:  # fmt: skip
        """One O_DSYNC write, of as many requests as a message's size makes of it."""
        app.enter()
        app.cpu(4_000)
        for part in range(parts):
            self.request(app, costs, offset=offset + part * SIZE, worker=worker)
            app.cpu(700)
        app.leave("pwrite64", flags=O_DSYNC, result=SIZE * parts, size=SIZE * parts)
        app.finish()
        app.now += 10_000

    def synced_write(self, app: Writer, costs: Costs, offset: int = 0, worker: int = 1) -> None:
        """A plain write and its fdatasync."""
        for kind, call in ((TWRITE, "pwrite64"), (TFSYNC, "fdatasync")):
            app.enter()
            app.cpu(2_000)
            self.request(app, costs, kind, offset, worker=worker)
            app.cpu(700)
            size = SIZE if kind == TWRITE else 0
            app.leave(call, result=size, size=size)
        app.finish()
        app.now += 10_000


def share(clocks: tuple[Clock, Clock] = (int, int), *, remapped: bool = False) -> Share:
    found = Share(World(clock=clocks[0]), World(clock=clocks[1]), remapped=remapped)
    found.host.builder.block(DISK, "sda")
    found.guest.builder.mount(MOUNT, "/mnt", "9p")
    return found


def analysed(path: Path, **machines: World) -> Breakdown:
    for name, world in machines.items():
        world.builder.write(path / name)
    described = [
        {"name": name, "role": "guest" if "guest" in name else "host", "directory": name}
        for name in machines
    ]
    text = {"format": "iostrata.recording/1", "created": "", "machines": described}
    (path / "recording.json").write_text(json.dumps(text))
    breakdown = analyse(open_recording(path))
    conserves(breakdown)
    return breakdown


def truth(app: Writer, machine: str = "guest") -> list[dict[str, int]]:
    return [
        {row if "/" in row else f"{machine}/{row}": ns for row, ns in account.items() if ns}
        for account in app.truth
    ]


def drawn(random: Random) -> Costs:
    disk = Request(scheduler=None, device=random.randint(9_000, 99_000))
    some = random.choice([disk, None])
    submit, complete, inject = (random.randint(5_000, 60_000) for _ in range(3))
    driver, interrupt = random.randint(200, 3_000), random.randint(200, 3_000)
    return Costs(driver, submit, complete, inject, interrupt, some)


WAY = (
    "guest/virtio.submit", "host/vmm.submit", "host/vmm.complete", "host/kvm.inject",
    "guest/virtio.interrupt",
)  # fmt: skip


def without_way(account: dict[str, int]) -> dict[str, int]:
    """Only the clocks' relation splits the way there from the way back; a notification may be of
    another request as well, and so may an interrupt."""
    rest = {row: ns for row, ns in account.items() if row not in WAY}
    return rest | {"way": sum(account.get(row, 0) for row in WAY)}


def below(account: dict[str, int]) -> dict[str, int]:
    """What the guest's own events do not tell apart."""
    return {row: ns for row, ns in account.items() if row.startswith("host/") or "virtio" in row}


def holds(found: Breakdown, *apps: Writer) -> None:
    mine = accounts(found)
    for app in apps:
        for account, expected in zip(mine[app.tid], truth(app), strict=True):
            assert without_way(account) == without_way(expected)


@pytest.mark.parametrize("seed", range(3))
def test_every_row_is_met(tmp_path: Path, seed: int) -> None:
    """In order, one after the other: all requests bear one tag. Some writes are split."""
    random = Random(seed)
    pair = share((clock(5_000_000, 0), clock(86_400_000_000_000, 0)))
    app = pair.app()
    for number in range(20):
        pair.durable_write(app, drawn(random), random.randint(0, 3) * SIZE, parts=1 + number % 3)
        pair.synced_write(app, drawn(random), random.randint(0, 3) * SIZE)
    found = analysed(tmp_path, guest=pair.guest, host=pair.host)
    (crossing,) = found.quality.crossings
    asked = sum(1 + number % 3 + 2 for number in range(20))
    assert (crossing.hop, crossing.asked, crossing.followed) == ("ninep", asked, asked)
    assert (crossing.ambiguous, crossing.readdressed) == (0, 0)
    holds(found, app)
    (mine,) = accounts(found).values()
    for account, expected in zip(mine, truth(app), strict=True):
        assert account["guest/virtio.submit"] == expected["guest/virtio.submit"]
        assert account["guest/virtio.interrupt"] == expected["guest/virtio.interrupt"]
    assert "virtio.submit on host" not in {gap.layer for gap in found.quality.not_observed}


def at_once(pair: Share, random: Random, rounds: int, *, apart: bool = False) -> list[Writer]:
    """Three threads, each with a file; they are answered in another order than they ask in.

    ``apart``: no two files are written at the same place.
    """
    apps = [pair.app(number, file=number) for number in range(3)]
    for _ in range(rounds):
        now = max(app.now for app in apps)
        for number, app in enumerate(apps):
            app.now, costs = now + 40 * number, replace(drawn(random), disk=None)
            kind = pair.durable_write if random.random() < 0.5 else pair.synced_write
            kind(app, costs, 7 * SIZE * number * apart, worker=1 + number)
    return apps


def test_files_that_are_written_at_the_same_place_at_once(tmp_path: Path) -> None:
    pair = share()
    apps = at_once(pair, Random(3), 20)
    found = analysed(tmp_path, guest=pair.guest, host=pair.host)
    (crossing,) = found.quality.crossings
    assert crossing.followed == crossing.asked > 60
    holds(found, *apps)


@pytest.mark.parametrize("apart", [False, True])
def test_files_that_qemu_numbers_anew(tmp_path: Path, apart: bool) -> None:
    """Where it is told to remap them, the place alone ties: what may be another file's is said."""
    pair = share(remapped=True)
    apps = at_once(pair, Random(11), 30, apart=apart)
    found = analysed(tmp_path, guest=pair.guest, host=pair.host)
    (crossing,) = found.quality.crossings
    assert crossing.asked > 100
    assert crossing.followed == (crossing.asked if apart else 0)
    assert crossing.ambiguous == crossing.asked - crossing.followed
    if apart:
        holds(found, *apps)


def test_two_guests_of_one_host_whose_files_have_equal_numbers(tmp_path: Path) -> None:
    """Two directories, on disks of their own; what both write is at the same places."""
    one = share()
    other = Share(World(), one.host, vm=1, disk=device(8, 16))
    one.host.builder.block(device(8, 16), "sdb")
    other.guest.builder.mount(MOUNT, "/mnt", "9p")
    random, writers = Random(5), (one.app(), other.app())
    for _ in range(30):
        for number, (pair, app) in enumerate(zip((one, other), writers, strict=True)):
            costs = drawn(random)
            slow = replace(costs, submit=costs.submit + number * 50_000, disk=None)
            pair.durable_write(app, slow, offset=random.randint(0, 9) * SIZE)
    found = analysed(tmp_path, guest=one.guest, guest2=other.guest, host=one.host)
    mine = accounts(found)
    assert {each.hop for each in found.quality.crossings} == {"ninep"}
    by_guest = [
        [account for account in mine[APP] if any(row.startswith(f"{name}/") for row in account)]
        for name in ("guest", "guest2")
    ]
    for app, name, theirs in zip(writers, ("guest", "guest2"), by_guest, strict=True):
        followed = 0
        for account, expected in zip(theirs, truth(app, name), strict=True):
            if "host/unfollowed" not in account:
                assert without_way(account) == without_way(expected)
                followed += 1
        assert followed >= 27


def test_a_device_that_nobody_was_seen_to_tell(tmp_path: Path) -> None:
    """Its time is the monitor's then, and that is said."""
    random, pair = Random(8), share()
    pair.guest.deaf_to = "virtio_notify"
    app = pair.app()
    for _ in range(20):
        pair.durable_write(app, drawn(random), offset=random.randint(0, 9) * SIZE)
    found = analysed(tmp_path, guest=pair.guest, host=pair.host)
    holds(found, app)
    assert not any("guest/virtio.submit" in account for account in accounts(found)[app.tid])
    (gap,) = (gap for gap in found.quality.not_observed if gap.layer == "virtio.submit")
    assert (gap.merged_into, gap.machines) == ("vmm.submit", ("host",))


def test_what_the_host_lost_is_nobody_elses(tmp_path: Path) -> None:
    """Each third of its calls; the next one is of the same place, a little later."""
    random, pair = Random(2), share()
    app = pair.app()
    for number in range(30):
        pair.host.deaf_to = "" if number % 3 else "syscall"
        costs = replace(drawn(random), disk=None)
        pair.durable_write(app, costs, offset=number // 3 % 5 * SIZE)
        app.now += random.randint(0, 900_000)
    found = analysed(tmp_path, guest=pair.guest, host=pair.host)
    (crossing,) = found.quality.crossings
    assert (crossing.asked, crossing.followed) == (30, 20)
    (mine,) = accounts(found).values()
    for number, (account, expected) in enumerate(zip(mine, truth(app), strict=True)):
        if number % 3:
            assert without_way(account) == without_way(expected)
        else:
            assert account["host/unfollowed"] == sum(below(expected).values())


def alone(app: Writer) -> list[dict[str, int]]:
    """What is told of its writes without the host."""
    return [
        {row: ns for row, ns in account.items() if row not in below(account) and ns}
        | {"ninep.call": sum(below(account).values())}
        for account in app.truth
    ]


def test_without_the_host_it_is_one_row(tmp_path: Path) -> None:
    pair = share()
    app = pair.app()
    for _ in range(5):
        pair.durable_write(app, Costs())
    found = analysed(tmp_path, guest=pair.guest)
    assert accounts(found) == {app.tid: alone(app)}
    (layer,) = (layer for layer in found.layers if layer.name == "ninep.call")
    assert layer.segment == "file server"


def test_what_is_no_call_of_the_hosts_kernel_stays_with_its_server(tmp_path: Path) -> None:
    """Nor what failed: of none of it a way is told."""
    random, pair = Random(4), share()
    app = pair.app()
    for _ in range(10):
        pair.durable_write(app, drawn(random))
    app.enter()
    pair.request(app, Costs(), TCLUNK)
    app.cpu(700)
    app.leave("pwrite64", flags=O_DSYNC, result=SIZE, size=SIZE)
    app.finish()
    found = analysed(tmp_path, guest=pair.guest, host=pair.host)
    (crossing,) = found.quality.crossings
    assert (crossing.asked, crossing.followed) == (10, 10)
    (mine,) = accounts(found).values()
    assert mine[-1]["guest/ninep.call"] == sum(below(truth(app)[-1]).values())
    assert not any(row.startswith("host/") for row in mine[-1])
    # Whether QEMU had it, or what is below, nothing tells.
    words = {one.name: one.figures.mean_ns for one in summarise(found).overall.operators}
    disk = sum(ns for one in mine for row, ns in one.items() if "device" in row)
    assert words["DAVG"] == pytest.approx(disk / len(mine))
    assert words["unfollowed"] == pytest.approx(mine[-1]["guest/ninep.call"] / len(mine))


def test_an_answer_is_no_request_that_was_complete_just_before(tmp_path: Path) -> None:
    """The same CPU's interrupt had ended a request of the guest's disk, of somebody else."""
    random, pair = Random(6), share()
    pair.guest.builder.block(GUEST_DISK, "vda")
    app, other = pair.app(), Writer(pair.guest, 301, GUEST_DISK, 5_000)
    for _ in range(8):
        other.now = app.now + 1_500
        start = app.now
        pair.durable_write(app, replace(drawn(random), submit=90_000))
        other.enter()
        other.data(Request(scheduler=None, device=app.now - start - 60_000))
        other.cpu(500)
        other.leave("pwrite64", flags=O_DSYNC, result=SIZE, size=SIZE)
        other.finish()
        app.now = max(app.now, other.now + 1_000)
    found = analysed(tmp_path, guest=pair.guest)
    assert accounts(found)[app.tid] == alone(app)


@dataclass
class Timed(Local):
    """``entered``: when the monitor asked its host for each request."""

    entered: list[int] = field(default_factory=list)

    def carried_out(self, enter: int, offset: int, costs: ChainCosts, account: Counter[str]) -> int:
        self.entered.append(enter)
        return super().carried_out(enter, offset, costs, account)


def test_a_virtual_cpu_without_a_cpu_takes_nothing_from_what_a_disk_has(tmp_path: Path) -> None:
    """The guest has a disk as well, and waits for that: whatever its idle virtual CPU waits for."""
    chain = Timed()
    pair = Share(chain.guest, chain.host, disk=HOST_DISK)
    chain.guest.builder.mount(MOUNT, "/mnt", "9p")
    app, writer = pair.app(), chain.writer(3_000_000)
    pair.durable_write(app, Costs())
    costs = ChainCosts(disk=Request(scheduler=None, device=400_000))
    for number in range(10):
        chain.durable_write(writer, number * SIZE, costs)
    for begin in chain.entered:
        on = begin + 300_000
        chain.host.emit("sched_resume", on, VCPU, off_ns=begin + 30_000, wake_ns=begin + 50_000,
                        waker_tid=VMM, waker_context=WAKE_THREAD, state=1,
                        subject_tid=VCPU)  # fmt: skip
        chain.exit(on + 100, on + 200, reason=HALT)
    found = analysed(tmp_path, guest=chain.guest, host=chain.host)
    assert {one.hop for one in found.quality.crossings} == {"virtio", "ninep"}
    for account in accounts(found)[writer.tid]:
        assert account["host/device.data"] == 400_000
        assert "host/vcpu.runqueue" not in account
