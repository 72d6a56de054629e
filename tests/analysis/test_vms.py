# SPDX-License-Identifier: Apache-2.0
"""Ten guests of one host, of which only the host was recorded: whose rows, and behind whom."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.attribute import summarise
from iostrata.errors import NothingToAnalyse
from iostrata.model import Breakdown
from iostrata.recording import RecordedMachine, open_recording, write_recording_json
from iostrata.report import json as json_report
from iostrata.report import table
from tests.stitch.test_truth import conserves
from tests.synthetic import O_DSYNC, Request, World, Writer, device

DISK = device(253, 0)
VMM, EMULATOR, VCPU = 1_000, 5_000, 6_000
GUESTS = 10
ROUNDS = 20
QEMU = b"qemu-system-x86"
NAMED, UNNAMED, BY_LIBVIRT = range(6), 6, range(7, 10)
"""By QEMU's -name; by nothing; by libvirt's control groups, of which each thread has its own."""


def name_of(number: int) -> str:
    return f"process {pid_of(number)}" if number == UNNAMED else f"vm{number}"


def pid_of(number: int) -> int:
    return VMM + 4 * number


@dataclass
class Host:
    """``behind``: of each guest's row, ns by whose turn it was."""

    world: World = field(default_factory=World)
    behind: dict[tuple[str, str], Counter[str]] = field(
        default_factory=lambda: defaultdict(Counter)
    )
    now: int = 1_000_000

    def __post_init__(self) -> None:
        self.writers = [
            Writer(self.world, pid_of(number), DISK, 0, kind=4, inode=70 + number)
            for number in range(GUESTS)
        ]
        for number in range(GUESTS):
            self._tell_of(number)

    def _tell_of(self, number: int) -> None:
        builder, pid = self.world.builder, pid_of(number)
        if number not in BY_LIBVIRT:
            builder.vmm(pid, "" if number == UNNAMED else name_of(number))
        for part, (group, tid) in enumerate(((EMULATOR, pid), (VCPU, VCPU + pid))):
            own = group + number if number in BY_LIBVIRT else 0
            if own:
                scope = rf"/machine.slice/machine-qemu\x2d{number}\x2d{name_of(number)}.scope"
                builder.cgroup(own, f"{scope}/libvirt/{('emulator', 'vcpu0')[part]}")
            self.world.emit("task", 900, tid, tgid=pid, subject_tid=tid, process=QEMU,
                            comm=b"CPU 0/KVM", cgroup=own)  # fmt: skip

    def disk_round(self, order: list[int], took: int) -> None:
        """Each asks the disk right behind the one before; it takes them in that order."""
        for place, number in enumerate(order):
            writer = self.writers[number]
            writer.now = self.now + 1_000 * place
            writer.enter()
            issued = writer.now
            complete = self.now + took * (place + 1)
            writer.data(Request(queue=0, scheduler=None, device=complete - issued,
                                sector=4096 + 64 * number))  # fmt: skip
            self._left(writer)
            since = issued
            for ahead in range(place + 1):
                until = self.now + took * (ahead + 1)
                row = self.behind[name_of(number), "device.data"]
                row[name_of(order[ahead])] += until - since
                since = until
        self.now += took * (len(order) + 2)

    def cpu_round(self, number: int, other: int, took: int) -> None:
        """A guest's thread has to wait while a virtual CPU of another one runs on its CPU."""
        writer = self.writers[number]
        writer.now = self.now
        writer.enter()
        writer.cpu(500)
        begin, group = writer.now, VCPU + other if other in BY_LIBVIRT else 0
        writer.preempted(took)
        self.world.emit("sched_ran", begin + took, 0, begin_ns=begin, end_ns=begin + took,
                        tgid=pid_of(other), ran_cpu=writer.tid % 4, cgroup=group,
                        process=QEMU)  # fmt: skip
        self.behind[name_of(number), "wakeup.runqueue"][name_of(other)] += took
        self._left(writer)
        self.now += took + 50_000

    def _left(self, writer: Writer) -> None:
        writer.cpu(400)
        writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
        writer.finish()


@pytest.fixture(scope="module")
def host() -> Host:
    host, random = Host(), Random(5)
    guests = [*range(GUESTS)]
    for _ in range(ROUNDS):
        random.shuffle(guests)
        host.disk_round(guests, random.randint(30_000, 90_000))
        host.cpu_round(guests[0], guests[1], random.randint(9_000, 200_000))
    return host


@pytest.fixture(scope="module")
def found(host: Host, tmp_path_factory: pytest.TempPathFactory) -> Breakdown:
    path = tmp_path_factory.mktemp("host")
    host.world.builder.write(path / "host")
    breakdown = analyse(open_recording(path / "host"))
    conserves(breakdown)
    return breakdown


def told(breakdown: Breakdown) -> Iterator[tuple[tuple[str, str], str, int]]:
    """Whose row, behind whom, ns."""
    behind, writes = breakdown.behind, breakdown.writes
    for write, layer, who, time in zip(
        behind.write.tolist(), behind.layer.tolist(), behind.who.tolist(), behind.time_ns.tolist(),
        strict=True,
    ):  # fmt: skip
        guest = writes.names["vm"][writes.codes["vm"][write]]
        yield (guest, breakdown.layers[layer].row), behind.names[who].vm, time


def test_each_guest_has_its_own_rows(host: Host, found: Breakdown) -> None:
    summary = summarise(found, "vm")
    assert {group.name for group in summary.groups} == {*map(name_of, range(GUESTS))}
    for group in summary.groups:
        (writer,) = (w for n, w in enumerate(host.writers) if name_of(n) == group.name)
        true = sum(writer.truth, Counter())
        means = {row.layer.row: row.figures.mean_ns for row in group.rows}
        assert group.count == len(writer.truth)
        assert {row: pytest.approx(ns / group.count) for row, ns in true.items()} == means


def test_who_had_the_disk_and_the_cpu_meanwhile(host: Host, found: Breakdown) -> None:
    """To the nanosecond, and by guest, whatever group its threads are in."""
    behind: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for row, who, time in told(found):
        behind[row][who] += time
    for row, true in host.behind.items():
        assert {who: ns for who, ns in behind[row].items() if who} == true, row


def test_reports_name_guests(found: Breakdown) -> None:
    summary = summarise(found, "vm")
    last = summary.groups[-1]
    printed = table.render(summary, with_who=True).plain
    assert "qemu-system-x86 of virtual machine vm" in printed
    parts = [
        part
        for row in json_report.document(summary).groups[-1].layers
        if row.layer == "device.data" and isinstance(row.behind, list)
        for part in row.behind
    ]
    assert {part.virtual_machine for part in parts} >= {last.name, "vm1"}
    assert len({part.virtual_machine for part in parts}) == len(parts)


def test_a_thread_of_the_kernel_for_a_guest_is_the_guests(tmp_path: Path) -> None:
    """It bears the number of the QEMU that it works for; another's has no guest here."""
    host = Host()
    for process in (b"vhost-%d" % pid_of(2), b"vhost-77"):
        host.cpu_round(1, 2, 70_000)
        host.world.builder._rows["sched_ran"][-1] |= {"tgid": 9_999, "process": process}
    host.world.builder.write(tmp_path / "host")
    breakdown = analyse(open_recording(tmp_path / "host"))
    names = breakdown.behind.names
    assert {(who.process, who.vm) for who in names if who.process.startswith("vhost")} == {
        (f"vhost-{pid_of(2)}", "vm2"), ("vhost-77", ""),
    }  # fmt: skip


def test_another_guest_is_named_although_its_process_has_the_same_name(tmp_path: Path) -> None:
    """The verdict is about whom a guest was behind most: not about itself."""
    host = Host()
    for _ in range(ROUNDS):
        host.cpu_round(1, 2, 900_000)
    host.world.builder.write(tmp_path / "host")
    summary = summarise(analyse(open_recording(tmp_path / "host")))
    (cause,) = (one for one in summary.overall.causes if one.share > 0.9)
    assert cause.behind
    assert cause.behind.who.vm == "vm2"


def test_a_command_that_only_waits_is_no_workload(tmp_path: Path) -> None:
    """It is there for the time that the host is recorded: ``-- sleep 60``."""
    host = Host()
    host.world.target(50, comm=b"sleep")
    host.disk_round([3, 8], 40_000)
    host.world.builder.write(tmp_path / "host")
    summary = summarise(analyse(open_recording(tmp_path / "host")), "vm")
    assert {group.name: group.count for group in summary.groups} == {"vm3": 1, "vm8": 1}


def test_a_vm_has_one_number_a_row(found: Breakdown) -> None:
    names = found.behind.names
    assert len({who.vm for who in names if who.vm}) == len([who for who in names if who.vm])
    assert np.isin(found.behind.who, np.arange(len(names))).all()


@pytest.mark.parametrize("role", ["host", "server"])
def test_a_host_without_a_virtual_machine_of_kvms(role: str, tmp_path: Path) -> None:
    """A QEMU that does without KVM is no process that is looked for: that is said."""
    world = World()
    writer = Writer(world, 100, DISK, 1_000_000)
    writer.enter()
    writer.cpu(2_000)
    writer.leave("pwrite64", result=8192, size=8192)
    world.builder.write(tmp_path / "h1")
    machine = RecordedMachine("h1", role, "h1")
    write_recording_json(tmp_path, (machine,), created="2026-11-21T10:00:00+00:00")
    with pytest.raises(NothingToAnalyse, match="holds no synchronous write") as raised:
        analyse(open_recording(tmp_path))
    seen = "no virtual machine was seen on h1: a process that has one of KVM's open"
    assert (seen in str(raised.value)) is (role == "host")
