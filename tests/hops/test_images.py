# SPDX-License-Identifier: Apache-2.0
"""Images that keep a guest's blocks elsewhere: what was not followed is said, never mixed up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.attribute import summarise
from iostrata.hops.images import DISPUTED, NOWHERE, OWN, guests_offsets
from iostrata.hops.translation import NO_KEY
from iostrata.hops.virtio import BY_A_DAEMON, NO_VCPUS, Virtio
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from iostrata.report import table
from iostrata.trace import Extent, read_trace
from iostrata.trace.layout import THREAD_DAEMON, THREAD_VMM
from tests.builder import TraceBuilder
from tests.chain import FDATASYNC, GUEST_DISK, HALT, PWRITEV, SVM, VCPU, VMM, Chain, Costs
from tests.images import HOST_DISK, Local
from tests.network import exchanged
from tests.stitch.test_truth import accounts, conserves
from tests.synthetic import Request, Writer, device

BLOCK = 8192
SECOND_DISK = device(253, 33)
FIRST = 5 * BLOCK
"""Header, tables and counts of references come first in a file of such a format."""
DEEP, ROUNDS = 8, 12
CLUSTER = 65536
WRITES = DEEP * ROUNDS
CLUSTERS = WRITES * BLOCK // CLUSTER
UNTIL = 40_000_000
"""All is done by then."""
LATE = Costs(vmm=620_000, client=3_000, disk=Request(device=60_000, scheduler=None),
             complete=40_000, inject=9_000, interrupt=2_000)  # fmt: skip
"""Where many wait, each waits long until the monitor takes it up."""


def deep(chain: Local, disk: int = GUEST_DISK, first: int = 0) -> list[Writer]:
    """A disk that is written to block after block, with ``DEEP`` requests under way."""
    tids = [400 + disk % 16 + 4 * number for number in range(DEEP)]
    writers = [Writer(chain.guest, tid, disk, 0) for tid in tids]
    for number in range(WRITES):
        writer = writers[number % DEEP]
        writer.now = 1_000_000 + number * 100_000 + number * number % 997
        request = replace(LATE.disk, device=60_000 + 100 * number)
        chain.durable_write(writer, first + number * BLOCK, replace(LATE, disk=request))
    return writers


def found(chain: Chain, path: Path, machines: str = "guest host") -> Breakdown:
    """The clocks are known: so regular a world fits others as well."""
    chain.recording(path, machines)
    for name in machines.split():
        exchanged(path / name, int, UNTIL, 100, 2_000)
    breakdown = analyse(open_recording(path))
    conserves(breakdown)
    return breakdown


def test_many_at_once_to_a_raw_image(tmp_path: Path) -> None:
    """Each has its own: they take different times."""
    chain = Local()
    writers = deep(chain)
    breakdown = found(chain, tmp_path)
    (virtio,) = breakdown.quality.crossings
    assert (virtio.followed, virtio.asked) == (WRITES, WRITES)
    mine = accounts(breakdown)
    for writer in writers:
        held = [account["host/device.data"] for account in mine[writer.tid]]
        assert held == pytest.approx([true["host/device.data"] for true in writer.truth], abs=9)


def test_a_daemon_has_the_disk_instead_of_the_monitor(tmp_path: Path) -> None:
    """qemu-storage-daemon (vhost-user): whose virtual CPUs are the guest's, nothing tells."""
    chain = Local()
    writers = deep(chain)
    rows = chain.host.builder._rows
    rows["thread"][:] = [
        row | {"kind": THREAD_DAEMON, "process": b"qemu-storage-da"} for row in rows["thread"]
    ]
    rows["kvm_exit"][:] = [row | {"tgid": 77} for row in rows["kvm_exit"]]
    breakdown = found(chain, tmp_path)
    (virtio,) = breakdown.quality.crossings
    assert (virtio.followed, virtio.asked) == (WRITES, WRITES)
    told = {gap.where for gap in breakdown.quality.not_observed}
    assert {f"{NO_VCPUS.where} on host", f"{BY_A_DAEMON.where} on host"} <= told
    mine = accounts(breakdown)
    for writer in writers:
        held = [account["host/device.data"] for account in mine[writer.tid]]
        assert held == pytest.approx([true["host/device.data"] for true in writer.truth], abs=9)


def test_what_another_block_was_written_for_is_not_taken_for_it(tmp_path: Path) -> None:
    """Five blocks further on in the file is where another request of the guest's wants to go."""
    chain = Local(placed=lambda offset: offset + FIRST)
    chain.host.builder.image(HOST_DISK, chain.image, "qcow2")
    deep(chain)
    breakdown = found(chain, tmp_path)
    assert breakdown.quality.crossings == ()
    (apart,) = breakdown.quality.apart
    assert apart == "host: where in it an image of qcow2 keeps what a guest writes is not known"
    assert not any(layer.machine == "host" for layer in breakdown.layers)


def mapped(shuffled: list[int], *times: tuple[int, range]) -> Local:
    """A guest whose image has its clusters in another order; told at each time: those."""
    chain = Local(placed=lambda offset: shuffled[offset // CLUSTER] * CLUSTER + offset % CLUSTER)
    chain.host.builder.image(HOST_DISK, chain.image, "qcow2")
    for time, told in times:
        for number in told:
            place = shuffled[number] * CLUSTER
            extent = Extent(time, number * CLUSTER, CLUSTER, place)
            chain.host.builder.extent(HOST_DISK, chain.image, extent)
    return chain


def followed_right(chain: Local, writers: list[Writer], path: Path) -> int:
    """How many were followed: each to its own request, which took a time of its own."""
    breakdown = found(chain, path)
    crossings = breakdown.quality.crossings
    mine = accounts(breakdown)
    for writer in writers:
        for account, true in zip(mine[writer.tid], writer.truth, strict=True):
            held = account.get("host/device.data", 0)
            assert held == pytest.approx(true["host/device.data"], abs=9) or not held
    return crossings[0].followed if crossings else 0


def shuffled_clusters(seed: int) -> list[int]:
    """Of a file of which some are in places that others have on the guest's disk."""
    order = [*range(5, 5 + CLUSTERS)]
    Random(seed).shuffle(order)
    return order


@pytest.mark.parametrize("seed", range(3))
def test_an_image_whose_map_is_known(seed: int, tmp_path: Path) -> None:
    chain = mapped(shuffled_clusters(seed), (1, range(CLUSTERS)), (99, range(CLUSTERS)))
    assert followed_right(chain, deep(chain), tmp_path) == WRITES


def test_clusters_that_came_into_being_meanwhile(tmp_path: Path) -> None:
    """The first map has few of them, and the last one all."""
    chain = mapped(shuffled_clusters(1), (1, range(3)), (99, range(CLUSTERS)))
    assert followed_right(chain, deep(chain), tmp_path) == WRITES


def test_clusters_that_no_map_has_yet(tmp_path: Path) -> None:
    """QEMU writes its tables late: what they do not tell is not followed."""
    chain = mapped(shuffled_clusters(2), (1, range(9, CLUSTERS)), (99, range(6, CLUSTERS)))
    assert followed_right(chain, deep(chain), tmp_path) == WRITES - 6 * CLUSTER // BLOCK


def test_clusters_that_were_another_blocks_before(tmp_path: Path) -> None:
    """Nothing tells when that changed: what was written there is neither's."""
    chain = mapped(shuffled_clusters(3), (99, range(CLUSTERS)))
    for number in range(4):
        extent = Extent(1, (number + 20) * CLUSTER, CLUSTER, chain.placed(number * CLUSTER))
        chain.host.builder.extent(HOST_DISK, chain.image, extent)
    assert followed_right(chain, deep(chain), tmp_path) == WRITES - 4 * CLUSTER // BLOCK


def test_a_cluster_that_is_written_as_a_whole(tmp_path: Path) -> None:
    """At first: what the guest writes of it, with what its backing file has of the rest."""
    chain = mapped(shuffled_clusters(4), (99, range(CLUSTERS)))
    writer = chain.writer()
    for number in range(CLUSTERS):
        for chain.whole in (CLUSTER, 0):
            chain.durable_write(writer, number * CLUSTER + number % 8 * BLOCK, LATE)
    assert followed_right(chain, [writer], tmp_path) == 2 * CLUSTERS


@pytest.mark.parametrize("backed", [False, True])
def test_an_image_over_another_says_what_is_not_recorded(backed: bool, tmp_path: Path) -> None:
    """What is copied from there has its time where the monitor's own is."""
    chain = mapped(shuffled_clusters(4), (99, range(CLUSTERS)))
    chain.host.builder.image(HOST_DISK, chain.image, "qcow2", backed=backed)
    deep(chain)
    gaps = found(chain, tmp_path).quality.not_observed
    assert [gap.merged_into for gap in gaps if "image below" in gap.where] == [
        "vmm.submit"
    ] * backed


def test_places_of_tables_are_for_what_is_made_durable() -> None:
    extents = [Extent(1, -1, CLUSTER, 0), Extent(1, 0, 2 * CLUSTER, 5 * CLUSTER),
               Extent(9, 3 * CLUSTER, CLUSTER, 0)]  # fmt: skip
    place = np.array([0, 5 * CLUSTER + 8, 6 * CLUSTER, 7 * CLUSTER - 8, 7 * CLUSTER, 4 * CLUSTER])
    size = np.full(len(place), 16)
    told = [DISPUTED, 8, CLUSTER, NOWHERE, NOWHERE, NOWHERE]
    assert guests_offsets(extents, place, size).tolist() == told
    assert guests_offsets(extents[:2], place, size).tolist() == [OWN, *told[1:]]
    assert guests_offsets([], place, size).tolist() == [NOWHERE] * len(place)


def test_what_an_image_writes_of_its_own_is_for_flushes(tmp_path: Path) -> None:
    """Like those it has no key; what it has in no place that is known is for nobody."""
    builder = TraceBuilder().image(HOST_DISK, 7, "qcow2")
    builder.extent(HOST_DISK, 7, Extent(1, -1, CLUSTER, 0))
    builder.extent(HOST_DISK, 7, Extent(1, 3 * CLUSTER, CLUSTER, 5 * CLUSTER))
    builder.add("thread", time_ns=1, tid=50, subject_tid=50, tgid=50, kind=THREAD_VMM)
    places = (5 * CLUSTER + BLOCK, 512, 9 * CLUSTER, 0)
    for number, (place, call) in enumerate(zip(places, (PWRITEV, PWRITEV, PWRITEV, FDATASYNC),
                                               strict=True)):  # fmt: skip
        builder.add("syscall", time_ns=200 + number, enter_ns=100 + number, tid=50, tgid=50,
                    inode=7, dev=HOST_DISK, offset_bytes=place, call=call,
                    result=0 if call == FDATASYNC else 512)  # fmt: skip
    trace = read_trace(builder.write(tmp_path))
    served, _ = Virtio().serves(trace)
    known = Virtio().placed(served, trace)
    assert known.shared.tolist() == [False, True, False, True]
    assert known.size_bytes.tolist() == [512, 0, 0, 0]
    assert known.offset_bytes.tolist()[0] == 3 * CLUSTER + BLOCK
    assert known.key.tolist()[2] == NO_KEY
    assert served.offset_bytes.tolist() == [*places]


def beside_a_raw_one() -> tuple[Local, list[Writer]]:
    """The writers are of the other disk, whose image's map nobody knows."""
    raw = Local()
    other = Local(beside=raw, vm=1, placed=lambda offset: offset + FIRST)
    other.guest = raw.guest
    raw.guest.builder.block(SECOND_DISK, "vdc")
    raw.host.builder.image(HOST_DISK, other.image, "qcow2")
    deep(raw)
    return raw, deep(other, SECOND_DISK, 1 << 30)


def test_a_disk_beside_a_raw_one(tmp_path: Path) -> None:
    """One is followed; of the other, nothing that the host saw is said to be it."""
    raw, _ = beside_a_raw_one()
    breakdown = found(raw, tmp_path)
    (virtio,) = breakdown.quality.crossings
    assert (virtio.followed, virtio.asked) == (WRITES, WRITES)
    assert virtio.bypassed == ("vdc",)
    printed = " ".join(table.plain(summarise(breakdown)).split())
    assert "nothing that host saw is known to be what vdc was asked; it is not followed" in printed


def test_a_loop_device_is_no_disk_of_the_monitors(tmp_path: Path) -> None:
    """Its file may be the host's as well, by 9p: the monitor writes to the same places of that."""
    chain = Local()
    chain.guest.builder.block(SECOND_DISK, "loop1", backing="/mnt/share/image", backing_inode=9)
    deep(chain, SECOND_DISK)
    breakdown = found(chain, tmp_path)
    assert breakdown.quality.crossings == ()
    assert not any(row.layer.segment == "hypervisor" for row in summarise(breakdown).overall.rows)


def test_what_is_not_followed_waits_for_no_virtual_cpu(tmp_path: Path) -> None:
    """It may have been at work meanwhile; nor is it below the host, as far as anybody knows."""
    raw, writers = beside_a_raw_one()
    # The writers of that disk are on the guest's second CPU.
    second = VCPU + 1
    for begin in range(1_000_000, 11_000_000, 250_000):
        raw.host.emit("sched_resume", begin + 200_000, second, off_ns=begin, wake_ns=begin + 20_000,
                      waker_tid=0, state=1, subject_tid=second)  # fmt: skip
        raw.host.emit("kvm_exit", begin + 210_000, second, exit_ns=begin + 209_000, tgid=VMM,
                      vcpu=1, reason=HALT, isa=SVM)  # fmt: skip
    breakdown = found(raw, tmp_path)
    assert breakdown.quality.crossings[0].bypassed == ("vdc",)
    held = sum(ns for row in accounts(breakdown).values() for one in row
               for name, ns in one.items() if name == "guest/device.data")  # fmt: skip
    asked = sum(ns for writer in writers for true in writer.truth for name, ns in true.items()
                if name.startswith(("host/", "virtio.")))  # fmt: skip
    assert held >= asked > 0
    words = {one.name: one.figures.mean_ns for one in summarise(breakdown).overall.operators}
    assert words["unfollowed"] == pytest.approx(held / len(breakdown.writes))


@pytest.mark.parametrize("part", [0.3, 0.8])
def test_a_snapshot_while_it_is_recorded(part: float, tmp_path: Path) -> None:
    """From then on the guest's writes are in another file, which has them elsewhere."""
    chain = Local()
    writer = chain.writer()
    for number in range(WRITES):
        if number == int(part * WRITES):
            chain.image += 11
            chain.host.builder.image(HOST_DISK, chain.image, "qcow2")
            chain.placed = lambda offset: offset + FIRST
            chain.host.builder.extent(HOST_DISK, chain.image, Extent(99, 0, WRITES * BLOCK, FIRST))
        request = replace(LATE.disk, device=60_000 + 100 * number)
        chain.durable_write(writer, number * BLOCK, replace(LATE, disk=request))
    breakdown = found(chain, tmp_path)
    (virtio,) = breakdown.quality.crossings
    (mine,) = accounts(breakdown).values()
    # Each has a time of its own, by which it is known.
    numbers = [round((account["host/device.data"] - 60_000) / 100) for account in mine]
    assert numbers == [*range(WRITES)]
    assert (virtio.followed, breakdown.quality.unfollowed) == (WRITES, 0)
