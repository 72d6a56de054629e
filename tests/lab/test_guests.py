# SPDX-License-Identifier: Apache-2.0
"""Virtual machines, and what others count of them: QEMU of a disk's requests (query-blockstats),
qemu-img of an image's clusters, bpftrace of virtiofsd's system calls, the kernel of a card's bytes
(``ip -s link``), and of who waited for a CPU (schedstat, steal)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.lab.cache import new_lab_directory
from iostrata.lab.lab import Lab
from iostrata.lab.read import scenarios
from iostrata.lab.record import record, rehearse
from iostrata.lab.run import furnished
from iostrata.lab.scenario import Fio, with_keys
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from iostrata.trace import Trace
from tests.lab.test_counters import WATCHED
from tests.lab.test_oracles import PATIENCE_S, SLACK, TOLERANCE, Quiet, watch, watched

pytestmark = [
    pytest.mark.lab,
    # QEMU is known by its number, not by the object that started it.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

WRITE, FLUSH, OPERATION = 1, 2, 0xFF
CLUSTER = 65536
# Of Ethernet, IP and TCP with a timestamp, beside what a packet carries.
HEADERS = 66
# Ten times a second: the machine's clock, and what is counted there.
WATCH = """
setsid sh -c 'while sleep 0.1; do echo $(cut -d" " -f1 /proc/uptime; {counted}); done' \
    >/run/counted 2>&1 </dev/null & echo $! >/run/counted.pid
"""


@dataclass
class Seen:
    breakdown: Breakdown
    traces: dict[str, Trace]

    def rows_ns(self, *names: str, segment: str = "") -> float:
        """What all writes together spent in these rows, or in those of a segment."""
        mine = [layer.name in names or layer.segment == segment for layer in self.breakdown.layers]
        return float(self.breakdown.time_ns[mine].sum())


@contextmanager
def standing(scenario: str, changed: dict[str, dict[str, Any]] | None = None) -> Iterator[Lab]:
    """``changed``: other keys of steps, by their names."""
    found = scenarios()[scenario]
    found = msgspec.structs.replace(found, stack=with_keys(found.stack, changed or {}))
    with furnished(found, new_lab_directory(scenario), Quiet(), keep=False) as lab:
        yield lab


def workload(lab: Lab, name: str) -> Fio:
    return next(each for each in lab.scenario.rounds() if each.name == name)


def recorded(lab: Lab, name: str, place: Path) -> Seen:
    told = record(lab, workload(lab, name), place, Quiet())
    recording = open_recording(place)
    names = [machine.name for machine in recording.machines]
    seen = Seen(analyse(recording), dict(zip(names, recording.traces(), strict=True)))
    assert len(seen.breakdown.writes) == told.count
    assert not seen.breakdown.quality.lost
    return seen


def counted(told: str, trace: Trace) -> list[tuple[int, int]]:
    """By how much what is counted grew while it was recorded: at least, and at most."""
    looks = [[float(word) for word in line.split()] for line in told.splitlines()]
    begin_s, end_s = trace.begin_ns / 1e9, trace.end_ns / 1e9
    *_, before = (one for one, other in pairwise(looks) if other[0] < begin_s)
    inside = [one for one in looks if begin_s < one[0] < end_s]
    after = next(one for one in looks if one[0] > end_s)
    figures = zip(before[1:], inside[0][1:], inside[-1][1:], after[1:], strict=True)
    return [(int(last - first), int(more - few)) for few, first, last, more in figures]


@dataclass
class OnImage(Seen):
    """``blocks``: by how much QEMU's counters of its disk grew.

    ``clusters``: by where they are on the guest's disk, the places of the image's clusters.
    """

    blocks: dict[str, int]
    clusters: dict[int, int]
    dev: int


def blocks_of(lab: Lab) -> dict[str, int]:
    (found,) = (
        each["stats"]
        for each in lab.machines["guest"].monitor.execute("query-blockstats")
        if each.get("node-name") == "image"
    )
    return {name: value for name, value in found.items() if type(value) is int}


@pytest.fixture(scope="module")
def on_image(tmp_path_factory: pytest.TempPathFactory) -> OnImage:
    """A guest whose qcow2 image grows."""
    place = tmp_path_factory.mktemp("guests") / "image"
    with standing("kvm-qcow2", {"image": {"preallocation": "off"}}) as lab:
        rehearse(lab, workload(lab, "clusters"))
        before = blocks_of(lab)
        seen = recorded(lab, "clusters", place)
        after = blocks_of(lab)
        told = lab.machines["host"].command(
            "qemu-img map -U --output=json /mnt/images/image.img", PATIENCE_S
        )
        major, minor = map(
            int,
            lab.machines["guest"]
            .command("cat /sys/block/$(basename $(readlink -f /run/disks/plain))/dev")
            .split(":"),
        )
    ranges = [each for each in json.loads(told) if each["data"]]
    clusters = {
        each["start"] + at: each["offset"] + at
        for each in ranges
        for at in range(0, each["length"], CLUSTER)
    }
    blocks = {name: after[name] - before[name] for name in after}
    return OnImage(seen.breakdown, seen.traces, blocks, clusters, major << 20 | minor)


def test_qemu_counts_the_requests_that_were_recorded(on_image: OnImage) -> None:
    done = (
        on_image.traces["guest"].points["block_rq_complete"].integers("dev", "flags", "size_bytes")
    )
    mine = done["dev"] == on_image.dev
    kinds, sizes = done["flags"][mine] & OPERATION, done["size_bytes"][mine]
    # The empty one behind a flush tells of its end only.
    written = (kinds == WRITE) & (sizes > 0)
    assert on_image.blocks["wr_operations"] == np.count_nonzero(written)
    assert on_image.blocks["wr_bytes"] == sizes[written].sum()
    assert on_image.blocks["flush_operations"] == np.count_nonzero(kinds == FLUSH)
    # fio asks for no flush behind its last one.
    assert 0 <= on_image.blocks["wr_operations"] - len(on_image.breakdown.writes) <= 1


def test_what_qemu_counts_lies_between_its_calls_and_the_way_to_it(on_image: OnImage) -> None:
    """It begins when QEMU has the request, and ends when it is told to the guest."""
    least_ns = on_image.rows_ns(segment="host OS") + on_image.rows_ns(segment="device")
    most_ns = least_ns + on_image.rows_ns(segment="hypervisor")
    told_ns = on_image.blocks["wr_total_time_ns"] + on_image.blocks["flush_total_time_ns"]
    assert least_ns * (1 - SLACK) <= told_ns <= most_ns * (1 + SLACK)


def test_the_map_is_qemu_imgs(on_image: OnImage) -> None:
    """That of the end, cluster by cluster; what the guest wrote is there."""
    (extents,) = on_image.traces["host"].facts.image_maps.values()
    last_ns = max(extent.time_ns for extent in extents)
    ours = {
        extent.offset_bytes + at: extent.place_bytes + at
        for extent in extents
        if extent.time_ns == last_ns and extent.offset_bytes >= 0
        for at in range(0, extent.size_bytes, CLUSTER)
    }
    issued = on_image.traces["guest"].points["block_rq_issue"].integers("dev", "flags", "sector")
    mine = (issued["dev"] == on_image.dev) & (issued["flags"] & OPERATION == WRITE)
    written = {int(sector) * 512 // CLUSTER * CLUSTER for sector in issued["sector"][mine]}
    # Nor does QEMU write a table before there is one.
    assert len(written - on_image.clusters.keys()) <= 1
    assert ours == on_image.clusters


# Of virtiofsd's system calls that write, or make durable: how many, and how long they took.
DAEMONS = """
tracepoint:raw_syscalls:sys_enter /comm == "virtiofsd" || comm == "fuse_worker"/ {
    @at[tid] = nsecs;
}
tracepoint:raw_syscalls:sys_exit /@at[tid] && (args->id == 18 || args->id == 296
    || args->id == 328 || args->id == 74 || args->id == 75)/ {
    @calls += 1;
    @took += nsecs - @at[tid];
}
END { printf("daemon %llu %llu\\n", @calls, @took); clear(@at); clear(@calls); clear(@took); }
"""


def test_virtiofsds_calls_are_bpftraces(tmp_path: Path) -> None:
    with standing("virtiofs") as lab:
        rehearse(lab, workload(lab, "fdatasync"))
        watch(lab, "host", DAEMONS)
        seen = recorded(lab, "fdatasync", tmp_path / "virtiofs")
        ((count, took_ns),) = watched(lab, "host")["daemon"]
    calls = seen.traces["host"].points["syscall"].integers("time_ns", "enter_ns")
    ours_ns = int((calls["time_ns"] - calls["enter_ns"]).sum())
    # One for what is written, one to make it durable, and one as the file is closed.
    assert count == len(calls["time_ns"])
    assert 0 <= count - 2 * len(seen.breakdown.writes) <= 1
    assert abs(ours_ns / took_ns - 1) <= TOLERANCE


def test_a_taps_bytes_are_ip_links(tmp_path: Path) -> None:
    """What comes from the guest is received there, what goes to it is sent."""
    statistics = "/sys/class/net/lan-tap0/statistics"
    names = [f"{statistics}/{way}_{what}" for way in ("rx", "tx") for what in ("bytes", "packets")]
    with standing("kvm-net") as lab:
        host = lab.machines["host"]
        (card,) = host.command("cat /sys/class/net/lan-tap0/ifindex").split()
        host.command(WATCH.format(counted=f"cat {' '.join(names)}"))
        seen = recorded(lab, "open_datasync", tmp_path / "net")
        told = host.command(WATCHED, PATIENCE_S)
    trace = seen.traces["host"]
    (_, there_bytes), (_, there), (_, back_bytes), (_, back) = counted(told, trace)
    for point, all_bytes, packets in (
        ("packet_received", there_bytes, there), ("packet_sent", back_bytes, back)
    ):  # fmt: skip
        passed = trace.points[point].integers("device", "size_bytes")
        carried = int(passed["size_bytes"][passed["device"] == int(card)].sum())
        assert abs(all_bytes - packets * HEADERS - carried) <= SLACK * all_bytes


# Of whom the table says it in its line of virtual machines.
STEAL = re.compile(r"gave ([0-9.]+) s of its CPUs' time .* host, they waited ([0-9.]+) s for a CPU")
TICK_NS = 10_000_000


def test_waits_of_a_virtual_cpu_are_schedstats(tmp_path: Path) -> None:
    """A process of a real-time priority has the host's only CPU for a third of the time."""
    with standing("kvm-pinned", {"hog": {"values": {"spin": 20}}}) as lab:
        host, guest = lab.machines["host"], lab.machines["guest"]
        host.command(
            "dirname $(grep -l ^CPU.0/KVM /proc/$(cat /lab/guest/pid)/task/*/comm) >/run/thread"
        )
        host.command(WATCH.format(counted='cut -d" " -f2 $(cat /run/thread)/schedstat'))
        guest.command(WATCH.format(counted='grep "^cpu " /proc/stat | cut -d" " -f10'))
        seen = recorded(lab, "open_datasync", tmp_path / "pinned")
        ((least_ns, most_ns),) = counted(host.command(WATCHED, PATIENCE_S), seen.traces["host"])
        ((least, most),) = counted(guest.command(WATCHED, PATIENCE_S), seen.traces["guest"])
    (line,) = filter(None, map(STEAL.search, seen.breakdown.quality.virtual))
    stolen_ns, ours_ns = (float(figure) * 1e9 for figure in line.groups())
    row_ns = seen.rows_ns("host/vcpu.runqueue")
    assert (least - 1) * TICK_NS <= stolen_ns * (1 + SLACK)
    assert stolen_ns * (1 - SLACK) <= (most + 1) * TICK_NS
    assert least_ns * (1 - SLACK) <= ours_ns <= most_ns * (1 + SLACK)
    assert row_ns <= ours_ns
