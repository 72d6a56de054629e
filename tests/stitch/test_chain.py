# SPDX-License-Identifier: Apache-2.0
"""Guest, hypervisor and NFS server with known truth: what each held is found again."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from iostrata.analysis import analyse, timelines
from iostrata.attribute.choice import Choice
from iostrata.attribute.summarise import summarise
from iostrata.clock.line import MAX_DRIFT_PPM
from iostrata.model import Breakdown, Quality
from iostrata.recording import open_recording
from iostrata.report import waterfall
from iostrata.report.who import named
from tests.chain import APART, GUEST_DISK, MAIN_LOOP, Chain, Costs, drawn
from tests.stitch.test_truth import accounts, conserves
from tests.synthetic import Clock, World, Writer, clock

# The host's as fast as NTP may slew it.
SLEWED = (clock(5_000_000, 0), clock(3_600_000_000_000, 490), clock(86_400_000_000_000, -7))
# Rows that lie between two machines' events: only the clocks' relation splits them.
GUEST_HOST = (
    "guest/virtio.submit", "host/vmm.submit", "host/vmm.complete", "host/kvm.inject",
    "guest/virtio.interrupt",
)  # fmt: skip
HOST_SERVER = ("server/network.there", "server/network.back")


# As long there as back, so that causality finds the very relation of the clocks.
SYMMETRIC = Costs(vmm=51_000, there=65_000, back=65_000)


def qualified(account: Counter[str]) -> dict[str, int]:
    return {row if "/" in row else f"guest/{row}": ns for row, ns in account.items() if ns}


def random_chain(
    seed: int, clocks: tuple[Clock, Clock, Clock], writes: int = 60, ends_after: int | None = None
) -> tuple[Chain, list[dict[str, int]]]:
    """Few places, written again and again: the key alone does not tell which write it was.

    ``ends_after``: so many writes the server records.
    """
    random = Random(seed)
    chain = Chain(clocks)
    writer = chain.writer()
    for number in range(writes):
        if number == ends_after:
            chain.server.deaf_to = "*"
        sector = random.randint(1, 12) * 16
        chain.durable_write(writer, sector * 512, drawn(random, sector))
    return chain, [qualified(account) for account in writer.truth]


def analysed(chain: Chain, path: Path, machines: str = "guest host server") -> Breakdown:
    path.mkdir(exist_ok=True)
    breakdown = analyse(open_recording(chain.recording(path, machines)))
    conserves(breakdown)
    return breakdown


def only_thread(breakdown: Breakdown) -> list[dict[str, int]]:
    (found,) = accounts(breakdown).values()
    return found


def summed(account: dict[str, int]) -> dict[str, int]:
    """The account, with the rows of each way there and back as one."""
    joined = dict(account)
    for rows in (GUEST_HOST, HOST_SERVER):
        if any(row in joined for row in rows):
            joined[rows[0]] = sum(joined.pop(row, 0) for row in rows)
    return joined


@pytest.mark.parametrize("seed", range(6))
def test_one_clock(seed: int, tmp_path: Path) -> None:
    chain, truth = random_chain(seed, (int, int, int))
    found = only_thread(analysed(chain, tmp_path))
    for mine, true in zip(found, truth, strict=True):
        close(summed(mine), summed(true))


@pytest.mark.parametrize("seed", range(6))
def test_three_clocks(seed: int, tmp_path: Path) -> None:
    """Sums there and back need no clock; each way is right within the bound that is told."""
    chain, truth = random_chain(seed, APART)
    breakdown = analysed(chain, tmp_path)
    found = only_thread(breakdown)
    for mine, true in zip(found, truth, strict=True):
        close(summed(mine), summed(true))
    virtio, nfs = breakdown.quality.crossings
    for crossing, rows in ((virtio, GUEST_HOST), (nfs, HOST_SERVER)):
        assert (crossing.followed, crossing.asked, crossing.ambiguous) == (60, 60, 0)
        assert crossing.clock == "causality"
        for mine, true in zip(found, truth, strict=True):
            for row in rows:
                assert abs(mine.get(row, 0) - true[row]) <= crossing.bound_ns + 10


@pytest.mark.parametrize("seed", range(6))
def test_clocks_that_are_slewed_as_fast_as_they_may(seed: int, tmp_path: Path) -> None:
    """All rows are right within the bounds that are told."""
    chain, truth = random_chain(seed, SLEWED)
    breakdown = analysed(chain, tmp_path)
    assert breakdown.quality.apart == ()
    virtio, nfs = breakdown.quality.crossings
    for crossing in (virtio, nfs):
        assert (crossing.followed, crossing.asked, crossing.contradiction) == (60, 60, "")
    bound_ns = virtio.bound_ns + nfs.bound_ns
    for mine, true in zip(only_thread(breakdown), truth, strict=True):
        tolerance_ns = 20 + sum(true.values()) * 2 * MAX_DRIFT_PPM // 1_000_000
        for row in {*mine, *true}:
            assert abs(mine.get(row, 0) - true.get(row, 0)) <= bound_ns + tolerance_ns, row


def close(mine: dict[str, int], true: dict[str, int]) -> None:
    """Over so short a time causality leaves a drift open that stretches what is lifted."""
    assert mine.keys() == true.keys()
    tolerance_ns = 20 + sum(true.values()) * 2 * MAX_DRIFT_PPM // 1_000_000
    for row, ns in true.items():
        assert abs(mine[row] - ns) <= tolerance_ns, row


def test_layers_are_in_order_of_the_path(tmp_path: Path) -> None:
    chain, _ = random_chain(1, APART)
    segments = [layer.segment for layer in analysed(chain, tmp_path).layers]
    assert list(dict.fromkeys(segments)) == [
        "guest OS", "hypervisor", "host OS", "network", "server OS", "device",
    ]  # fmt: skip
    assert segments == sorted(segments, key=segments.index)


# The machines recorded; the rows that are then one; that one row; the segments.
PARTIAL = {
    "guest": (
        ("guest/virtio.", "host/", "server/"), "device.data", {"guest OS", "hypervisor and below"},
    ),
    "guest host": (
        ("server/",), "host/rpc.call",
        {"guest OS", "hypervisor", "host OS", "network and server"},
    ),
    "host": (("server/",), "rpc.call", {"host OS", "network and server"}),
    "host server": ((), "", {"host OS", "network", "server OS", "device"}),
    "server": ((), "", {"server OS", "device"}),
}  # fmt: skip
HOP_ROWS = {"host": ("vmm.", "kvm.", "virtio."), "server": ("network.", "svc.queue")}


@pytest.mark.parametrize("machines", PARTIAL)
def test_partial_views_are_merged_by_name(machines: str, tmp_path: Path) -> None:
    """What lies below the last machine is one row, and its time is the time of all below it."""
    merged, lowest, segments = PARTIAL[machines]
    names = machines.split()
    chain, truth = random_chain(3, APART)
    breakdown = analysed(chain, tmp_path, machines)
    assert {layer.segment for layer in breakdown.layers} == segments
    assert breakdown.quality.apart == ()
    for mine, true in zip(only_thread(breakdown), truth, strict=True):
        expected: Counter[str] = Counter()
        for row, ns in true.items():
            machine, _, name = row.partition("/")
            if row.startswith(merged):
                expected[lowest] += ns
            elif machine in names and not (
                machine == names[0] and name.startswith(HOP_ROWS.get(machine, ("none",)))
            ):
                expected[row if len(names) > 1 else name] += ns
        close(summed(mine), summed(expected))


def test_a_machine_that_nothing_ties_is_named(tmp_path: Path) -> None:
    """A guest and a server, without the host between them."""
    chain, _ = random_chain(2, APART)
    breakdown = analysed(chain, tmp_path, "guest server")
    assert {layer.segment for layer in breakdown.layers} == {"guest OS", "hypervisor and below"}
    assert [line.partition(":")[0] for line in breakdown.quality.apart] == ["server"]


def test_a_halted_processor_is_no_exit_and_others_are(tmp_path: Path) -> None:
    chain = Chain()
    writer = chain.writer()
    for number in range(30):
        writer.enter()
        writer.cpu(20_000)
        begin = writer.now
        chain.exit(begin + 100, begin + 100 + 2_000, reason=0x60)
        writer.cpu(2_100)
        writer.account.update({"syscall": -2_000, "host/kvm.exit": 2_000})
        chain.exit(writer.now + 3_000, writer.now + 6_000, reason=0x78)
        chain.data(writer, number * 8192, SYMMETRIC)
        writer.leave("pwrite64", flags=0o10000, result=8192, size=8192)
        writer.finish()
        writer.now += 5_000
    breakdown = analysed(chain, tmp_path)
    for mine, true in zip(only_thread(breakdown), writer.truth, strict=True):
        assert mine["host/kvm.exit"] == 2_000
        assert mine["guest/syscall"] == true["syscall"]


def test_why_a_virtual_processor_left_is_told_with_who(tmp_path: Path) -> None:
    """Three reasons in turn, of two processors' kinds; what is not known has its number."""
    chain = Chain()
    writer, reasons = chain.writer(), ((0x400, 2), (0x7B, 2), (0x3FF, 2))
    for number in range(30):
        writer.enter()
        writer.cpu(20_000)
        begin = writer.now
        reason, isa = reasons[number % 3]
        chain.host.emit("kvm_exit", begin + 2_100 + number % 3 * 1_000, 504, exit_ns=begin + 100,
                        tgid=chain.vmm, vcpu=0, reason=reason, isa=isa)  # fmt: skip
        writer.cpu(5_000)
        chain.data(writer, number * 8192, SYMMETRIC)
        writer.leave("pwrite64", flags=0o10000, result=8192, size=8192)
        writer.finish()
        writer.now += 5_000
    chain.host.emit("task", 900, chain.vmm, tgid=chain.vmm, subject_tid=chain.vmm,
                    process=b"qemu", comm=b"qemu", cgroup=0)  # fmt: skip
    overall = summarise(analysed(chain, tmp_path)).overall
    (row,) = (row for row in overall.rows if row.layer.name == "host/kvm.exit")
    # 700 ns more, of telling the device: a nested page fault, too.
    parts = {named(part.who): round(part.mean_ns) for part in row.behind}
    inside = row.figures.mean_ns - (2_000 + 3_000 + 4_000) / 3
    assert parts == {
        "exit npf": round(2_000 / 3 + inside), "exit ioio": 1_000, "exit 0x3ff": round(4_000 / 3),
    }  # fmt: skip


EVERY_OTHER = {0: 0, 1: 2, 2: 4, 3: 6}


def on_the_third_of_four(chain: Chain) -> Writer:
    """Cores of two threads, of which one is used: the third CPU is the virtual CPU 4."""
    writer = Writer(chain.guest, 402, GUEST_DISK, 1_000_000)
    for number in range(30):
        writer.enter()
        writer.cpu(20_000)
        chain.exit(writer.now + 100, writer.now + 2_100, reason=0x60, vcpu=4)
        chain.exit(writer.now + 200, writer.now + 5_200, reason=0x60, vcpu=2)
        writer.cpu(6_000)
        chain.data(writer, number * 8192, SYMMETRIC)
        writer.leave("pwrite64", flags=0o10000, result=8192, size=8192)
        writer.finish()
        writer.now += 5_000
    return writer


def test_a_virtual_processor_is_found_by_its_apic_id(tmp_path: Path) -> None:
    chain = Chain()
    writer = on_the_third_of_four(chain)
    for cpu, apic_id in EVERY_OTHER.items():
        chain.guest.builder.cpu(cpu, apic_id)
    breakdown = analysed(chain, tmp_path)
    assert not any("vcpu" in gap.layer for gap in breakdown.quality.not_observed)
    for mine, true in zip(only_thread(breakdown), writer.truth, strict=True):
        assert mine["host/kvm.exit"] == 2_000
        assert mine["guest/syscall"] == true["syscall"] - 2_000


def test_virtual_processors_with_gaps_in_their_numbers_are_not_guessed(tmp_path: Path) -> None:
    """A guest that did not record its APIC ids: nothing is said of its exits, but that."""
    chain = Chain()
    writer = on_the_third_of_four(chain)
    breakdown = analysed(chain, tmp_path)
    gap = next(gap for gap in breakdown.quality.not_observed if "vcpu" in gap.layer)
    assert gap.where == "kvm.exit, vcpu.runqueue on host"
    for mine, true in zip(only_thread(breakdown), writer.truth, strict=True):
        assert "host/kvm.exit" not in mine
        assert mine["guest/syscall"] == true["syscall"]


def without_a_cpu(chain: Chain) -> list[int]:
    """Each write's virtual processor waits for a CPU for 50 us; until when."""
    writer, until = chain.writer(), []
    for number in range(30):
        writer.enter()
        writer.cpu(1_000)
        off = writer.now + 500
        chain.host.emit("sched_resume", off + 50_000, 504, off_ns=off, wake_ns=0, waker_tid=0,
                        state=0, subject_tid=504)  # fmt: skip
        until.append(off + 50_000)
        chain.exit(off + 50_010, off + 50_020)
        writer.cpu(60_000)
        chain.data(writer, number * 8192, SYMMETRIC)
        writer.leave("pwrite64", flags=0o10000, result=8192, size=8192)
        writer.finish()
        writer.now += 5_000
    return until


def test_a_virtual_processor_without_a_cpu(tmp_path: Path) -> None:
    chain = Chain()
    without_a_cpu(chain)
    breakdown = analysed(chain, tmp_path)
    row = [layer.name for layer in breakdown.layers].index("host/vcpu.runqueue")
    assert np.unique(breakdown.time_ns[row]).tolist() == [50_000]
    assert not len(breakdown.behind.write)


@pytest.mark.parametrize(
    "group", ["/machine.slice/machine-qemu\\x2d3\\x2ddb1.scope/libvirt/emulator", "/by/hand"]
)
def test_who_had_the_cpu_of_a_virtual_processor(group: str, tmp_path: Path) -> None:
    """Another machine's process had it for 30 us, the quota took 10, and 10 nobody was seen to.

    The machine's name is its QEMU's, or in what libvirt calls its control group.
    """
    chain = Chain()
    until, cpu = without_a_cpu(chain), 504 % 4
    if group == "/by/hand":
        chain.host.builder.vmm(900, "db1").vmm(chain.vmm, "db2")
    chain.host.builder.cgroup(4711, group)
    chain.host.builder.cgroup(4712, "/limited")
    for on in until:
        chain.host.emit("sched_throttled", on, 504, since_ns=on - 50_000, throttled_ns=10_000,
                        subject_tid=504, cgroup=4712)  # fmt: skip
        chain.host.emit("sched_ran", on, 0, begin_ns=on - 60_000, end_ns=on - 10_000, tgid=900,
                        ran_cpu=cpu, cgroup=4711, process=b"qemu-system-x86")  # fmt: skip
    breakdown = analysed(chain, tmp_path)
    (row,) = (
        row for row in summarise(breakdown).overall.rows if row.layer.name == "host/vcpu.runqueue"
    )
    parts = {named(part.who): part.mean_ns for part in row.behind}
    assert parts == {
        "qemu-system-x86 of virtual machine db1": 30_000,
        "cpu.max in /limited": 10_000,
        "unknown": 10_000,
    }
    (one,) = timelines(open_recording(tmp_path), Choice(slowest=1)).timelines
    shown = waterfall.render([one], Quality(), 120, True, 30).plain
    assert "behind qemu-system-x86 of virtual machine db1" in shown


def test_who_had_the_cpu_of_a_thread_of_the_vmm(tmp_path: Path) -> None:
    """The main loop is to take the request up: another has its CPU for 30 us of 40."""
    chain = Chain()
    writer = chain.writer()
    writer.enter()
    writer.cpu(60_000)
    told = writer.now + 800 + SYMMETRIC.submit
    chain.host.emit("sched_resume", told + 45_000, MAIN_LOOP, off_ns=told - 90_000,
                    wake_ns=told + 5_000, waker_tid=504, state=1,
                    subject_tid=MAIN_LOOP)  # fmt: skip
    chain.host.builder.cgroup(4711, "/noisy")
    chain.host.emit("sched_ran", told + 45_000, 0, begin_ns=told, end_ns=told + 35_000, tgid=900,
                    ran_cpu=MAIN_LOOP % 4, cgroup=4711, process=b"hog")  # fmt: skip
    chain.data(writer, 0, SYMMETRIC)
    writer.leave("pwrite64", flags=0o10000, result=8192, size=8192)
    writer.finish()
    (row,) = (
        row
        for row in summarise(analysed(chain, tmp_path)).overall.rows
        if row.layer.name == "host/vmm.runqueue"
    )
    parts = {named(part.who): part.mean_ns for part in row.behind}
    assert parts == {"hog in /noisy": 30_000, "unknown": 10_000}


def test_a_loss_on_a_lower_machine_leaves_out_the_writes_that_it_may_touch(tmp_path: Path) -> None:
    chain, _ = random_chain(4, APART)
    chain.server.builder.packet_events = 40
    middle = int(np.median(chain.nfsd_times))
    chain.server.builder.refuse("block_rq_issue", time_ns=chain.server.clock(middle), count=2)
    breakdown = analysed(chain, tmp_path)
    assert breakdown.quality.lost == {"server:block_rq_issue": 2}
    assert 0 < breakdown.left_out["events lost meanwhile"] < 60
    assert len(breakdown.writes) + sum(breakdown.left_out.values()) == 60


def test_a_loss_is_as_near_as_the_clocks_may_be_off(tmp_path: Path) -> None:
    """Lost between two writes, by clocks that may be off by more than what is between them."""
    chain, _ = random_chain(4, APART)
    whole = analysed(chain, tmp_path / "whole")
    ahead = chain.clocks[0](0)
    between = int(whole.writes.end_ns[29]) + 5_000
    assert all(crossing.bound_ns > 4_500 for crossing in whole.quality.crossings)
    assert int(whole.writes.begin_ns[30]) == between + 5_000
    chain.server.builder.packet_events = 1
    for near in (-500, 500):
        chain.server.emit("sched_resume", between - ahead + near, 800, subject_tid=800)
    lost = chain.server.clock(between - ahead)
    chain.server.builder.refuse("block_rq_issue", time_ns=lost, count=1)
    left = analysed(chain, tmp_path / "lost")
    kept = np.isin(whole.writes.begin_ns, left.writes.begin_ns)
    assert np.flatnonzero(~kept).tolist() == [29, 30]


@pytest.mark.parametrize("note", ["", "connection lost"])
def test_what_a_machine_has_no_trace_of_is_not_observed(note: str, tmp_path: Path) -> None:
    """The server's trace ends midway: the writes after that are in no row, and it is said."""
    chain, truth = random_chain(5, APART, ends_after=30)
    path = chain.recording(tmp_path)
    if note:
        text = (path / "recording.json").read_text()
        told = f'"directory": "server", "note": "{note}"'
        (path / "recording.json").write_text(text.replace('"directory": "server"', told))
    breakdown = analyse(open_recording(path))
    conserves(breakdown)
    assert breakdown.left_out == {"not observed on server": 30}
    assert breakdown.quality.apart == ()
    assert breakdown.quality.unfollowed == 0
    *notes, ends = breakdown.quality.damage
    assert notes == ([f"server: {note}"] if note else [])
    assert re.fullmatch(
        r"server: its trace ends \S+ ms before the last that host asked of it: "
        "30 of 60 are not observed",
        ends,
    )
    for mine, true in zip(only_thread(breakdown), truth[:30], strict=True):
        close(summed(mine), summed(true))


def hears_from(world: World, time_ns: int) -> None:
    """What a recorder has that was started then: it tells of the threads anew."""
    rows = world.builder._rows
    for thread in rows["thread"]:
        thread["time_ns"] = max(thread["time_ns"], time_ns)
    for point, events in rows.items():
        rows[point] = [event for event in events if event["time_ns"] >= time_ns]


@pytest.mark.parametrize("part", [-0.01, 0.3, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("late", ["guest", "host", "server"])
def test_a_machine_whose_trace_begins_late(late: str, part: float, tmp_path: Path) -> None:
    """Before or in the middle of a write: what it did before that is in no row, and it is said."""
    chain, truth = random_chain(5, APART)
    calls = chain.guest.builder._rows["syscall"]
    begin_ns, end_ns = calls[30]["enter_ns"], calls[30]["time_ns"]
    since_ns = int(begin_ns + part * (end_ns - begin_ns)) - chain.clocks[0](0)
    world = getattr(chain, late)
    hears_from(world, world.clock(since_ns))
    breakdown = analysed(chain, tmp_path)
    first = 30 + (part > 0)
    assert breakdown.writes.begin_ns.tolist() == [call["enter_ns"] for call in calls[first:]]
    for mine, true in zip(only_thread(breakdown), truth[first:], strict=True):
        close(summed(mine), summed(true))
    told = {gap.layer: gap.reason for gap in breakdown.quality.not_observed}
    if late == "guest":
        assert breakdown.left_out == ({"begun before the trace": 1} if part > 0 else {})
    else:
        assert breakdown.left_out == {f"not observed on {late}": first}
        assert re.fullmatch(
            rf"its trace begins \S+ ms after the first that \w+ asked of it: {first} of 60 are not "
            "observed",
            told[late],
        )


@pytest.mark.parametrize(("machines", "told"), [("guest", False), ("guest host", True)])
def test_virtqueues_are_missed_where_a_host_was_recorded(
    machines: str, told: bool, tmp_path: Path
) -> None:
    chain, _ = random_chain(1, APART)
    chain.guest.emit("probe", 1, 0, error=-1, program=b"virtio_add")
    gaps = analysed(chain, tmp_path, machines).quality.not_observed
    assert any("virtio_add" in gap.layer for gap in gaps) == told


@pytest.mark.parametrize(
    ("disk_ns", "pid", "name", "told"),
    [
        (90_000, 0, "vm1", ["limits by QEMU vm1 on host"]),
        (90_000, 0, "", ["limits by QEMU of process {pid} on host"]),
        (90_000, 1, "vm1", []),
        (90_000_000, 0, "vm1", []),
    ],
)
def test_a_qemu_that_limits_its_disks_is_told_of(
    disk_ns: int, pid: int, name: str, told: list[str], tmp_path: Path
) -> None:
    """Of the machine's own QEMU, where its row holds time: that is where the limit's is."""
    chain = Chain()
    chain.host.builder.throttled(chain.vmm + pid, name)
    writer = chain.writer()
    disk = replace(SYMMETRIC.disk, device=disk_ns)
    for number in range(5):
        chain.durable_write(writer, 8192 * number, replace(SYMMETRIC, disk=disk))
    gaps = analysed(chain, tmp_path / "r").quality.not_observed
    gaps = tuple(gap for gap in gaps if "limits" in gap.layer)
    assert [gap.where for gap in gaps] == [line.format(pid=chain.vmm) for line in told]
    assert all(gap.merged_into == "vmm.submit" for gap in gaps)


@pytest.mark.parametrize(("queue_ns", "told"), [(300_000, 1), (300, 0)])
def test_a_guests_limits_are_told_of_with_its_host(
    queue_ns: int, told: int, tmp_path: Path
) -> None:
    """The rows of several machines have their machine's name before theirs."""
    chain = Chain()
    chain.guest.builder.block(GUEST_DISK, "vdb", instead=True, queue_limits=("wbt",))
    chain.guest.builder.unknown = frozenset({"block_bio_asleep"})
    writer = chain.writer()
    writer.enter()
    chain.data(writer, 8192, SYMMETRIC, queue=queue_ns)
    writer.leave("pwrite64", flags=0o10000, result=8192, size=8192)
    writer.finish()
    gaps = analysed(chain, tmp_path / "r").quality.not_observed
    assert [gap.where for gap in gaps].count("limits by wbt on guest") == told


def test_a_host_without_exits_is_no_error(tmp_path: Path) -> None:
    """Its probes may be refused: virtual CPUs are not told then, all else is."""
    chain, truth = random_chain(1, (int, int, int), writes=5)
    del chain.host.builder._rows["kvm_exit"]
    found = analysed(chain, tmp_path / "r")
    assert [summed(account) for account in only_thread(found)] == [summed(one) for one in truth]
