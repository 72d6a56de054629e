# SPDX-License-Identifier: Apache-2.0
"""What a monitor does for a guest's write beside writing its data: it makes durable what has to be
(no write cache, FUA), makes room in the image, and writes the image's tables. With known truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from iostrata.analysis import timelines
from iostrata.analysis.left_out import NO_DISK, ROOM
from iostrata.attribute import summarise
from iostrata.attribute.choice import Choice
from iostrata.model import Breakdown, Quality
from iostrata.recording import open_recording
from iostrata.report import waterfall
from iostrata.report.who import named
from iostrata.trace import Extent
from tests.chain import (
    FDATASYNC,
    GUEST_DISK,
    IMAGE_INODE,
    NFS,
    PWRITEV,
    Chain,
    Costs,
    drawn,
)
from tests.hops.test_images import CLUSTER, LATE, found
from tests.images import HOST_DISK, Local
from tests.stitch.test_chain import close, only_thread, qualified, summed
from tests.stitch.test_truth import accounts
from tests.synthetic import FUA, Request, Writer

FALLOCATE = 18
WORKERS = 580
WRITES = 12
LOGGED = 7
COPY, SECOND = 88, 3_000_000
"""Another file of the host's, and where on its disk that is."""
O_WRONLY, O_APPEND, O_DIRECT = 0o1, 0o2000, 0o40000
COSTS = Costs(client=3_000, disk=Request(device=60_000, scheduler=None))


class Worker(Writer):
    """A thread of a monitor, which tells itself whose it is."""

    def __post_init__(self) -> None:
        self.account = Counter()


@dataclass
class Around(Local):
    """``before``, ``behind``: what the monitor does, one after the other, before it writes the
    data, and once it has; ``gap``: ns of its own between two of its calls. ``kept_ns``: so much of
    another's sync runs on behind the data."""

    before: list[Callable[[int, int], int]] = field(default_factory=list)
    behind: list[Callable[[int, int], int]] = field(default_factory=list)
    kept_ns: int = 0
    gap: int = 5_000
    copied: int = COPY
    calls: int = 0
    written_ns: int = 0
    done_ns: int = 0
    spent: Counter[str] = field(default_factory=Counter)

    def carried_out(self, enter: int, offset: int, costs: Costs, account: Counter[str]) -> int:
        now = enter
        for step in self.before:
            now = step(now, offset) + self.gap
        self.written_ns = now = super().carried_out(now, offset, costs, account)
        if self.kept_ns:
            # Out of that call, on a CPU again, woken: what is left was the disk's.
            self.spent += Counter({"host/syscall": 400, "host/wakeup.runqueue": 2_000,
                                   "host/wakeup.interrupt": 1_800,
                                   "host/device.flush": self.kept_ns - 4_200})  # fmt: skip
            now += self.kept_ns
        for step in self.behind:
            now = step(now + self.gap, offset)
        account += self.spent
        account["host/vmm.submit"] += self.gap * (len(self.before) + len(self.behind))
        self.spent.clear()
        self.done_ns = now
        return now

    def sync(self, now: int, offset: int) -> int:
        return self._call(now, FDATASYNC, lambda worker: worker.flush())

    def table(self, now: int, offset: int) -> int:
        """A cluster that is the image's own, as a whole."""
        request = Request(queue=400, scheduler=None, device=90_000, sector=9 * CLUSTER // 512,
                          size=CLUSTER)  # fmt: skip
        done = self._call(now, PWRITEV, lambda worker: worker.data(request), CLUSTER, CLUSTER)
        self.spent["host/device.image"] += self.spent.pop("host/device.data")
        return done

    def room(self, now: int, offset: int) -> int:
        """For the whole cluster that the data's place is in."""
        place = self.placed(offset)
        done = self._call(now, FALLOCATE, lambda worker: worker.cpu(9_000),
                          place - place % CLUSTER, CLUSTER)  # fmt: skip
        self.spent["host/image.allocate"] += self.spent.pop("host/syscall")
        return done

    def copy(self, now: int, offset: int) -> int:
        """The same to the same place of another file, as to a mirror."""
        request = Request(queue=400, scheduler=None, device=70_000, sector=SECOND + offset // 512)
        return self._call(now, PWRITEV, lambda worker: worker.data(request), offset, 8192,
                          self.copied)  # fmt: skip

    def sync_copy(self, now: int, offset: int) -> int:
        return self._call(now, FDATASYNC, lambda worker: worker.flush(), inode=COPY)

    def backup(self, now: int, offset: int) -> int:
        """What was in that cluster, to another file."""
        place = offset - offset % CLUSTER
        request = Request(queue=400, scheduler=None, device=80_000, sector=SECOND + place // 512,
                          size=CLUSTER)  # fmt: skip
        return self._call(now, PWRITEV, lambda worker: worker.data(request), place, CLUSTER, COPY)

    def _call(self, now: int, call: int, does: Callable[[Worker], None], place: int = 0,
              size: int = 0, inode: int = 0) -> int:  # fmt: skip
        self.calls += 1
        inode = inode or self.image
        worker = Worker(self.host, WORKERS + self.calls % 8, HOST_DISK, now, inode=inode)
        self.host.emit("thread", 1, worker.tid, tgid=self.vmm, subject_tid=worker.tid, kind=4,
                       comm=b"worker")  # fmt: skip
        worker.cpu(700)
        does(worker)
        worker.cpu(400)
        self.host.emit("syscall", worker.now, worker.tid, enter_ns=now, inode=inode,
                       dev=HOST_DISK, offset_bytes=place, size_bytes=size, tgid=self.vmm,
                       result=size if call == PWRITEV else 0, open_flags=0o40000,
                       call=call)  # fmt: skip
        self.spent += Counter({f"host/{row}": ns for row, ns in worker.account.items()})
        return worker.now


def written(chain: Around, count: int = WRITES, apart: int = CLUSTER) -> list[dict[str, int]]:
    """One after the other; the truth of each."""
    writer = chain.writer()
    for number in range(count):
        chain.durable_write(writer, number * apart, COSTS)
    return [qualified(account) for account in writer.truth]


def holds(chain: Around, truths: list[dict[str, int]], path: Path) -> Breakdown:
    breakdown = found(chain, path)
    (virtio,) = breakdown.quality.crossings
    assert virtio.followed == virtio.asked
    for mine, true in zip(only_thread(breakdown), truths, strict=True):
        close(mine, true)
    return breakdown


@pytest.mark.parametrize("by", ["no write cache", "FUA"])
def test_a_write_that_is_durable_when_it_is_complete(by: str, tmp_path: Path) -> None:
    """cache=directsync, writethrough, or NVMe's FUA: QEMU syncs behind each write."""
    chain = Around()
    chain.behind = [chain.sync]
    if by == "FUA":
        chain.flags |= FUA
    else:
        chain.guest.builder.block(GUEST_DISK, "vdb", instead=True, write_cache="write through")
    truths = written(chain)
    assert all(true["host/device.flush"] == 40_000 for true in truths)
    breakdown = holds(chain, truths, tmp_path)
    assert not breakdown.left_out


def test_a_sync_behind_a_write_that_need_not_be_durable_is_not_its_own(tmp_path: Path) -> None:
    chain = Around()
    chain.behind = [chain.sync]
    chain.guest.builder.block(GUEST_DISK, "vdb", instead=True, write_cache="write back")
    written(chain)
    for mine in only_thread(found(chain, tmp_path)):
        assert "host/device.flush" not in mine


def test_a_write_that_is_durable_by_itself_has_no_sync(tmp_path: Path) -> None:
    """A newer QEMU may write with RWF_DSYNC: what is synced behind that is another's."""
    chain = Around(rwf=2)
    chain.behind = [chain.sync]
    chain.flags |= FUA
    written(chain)
    for mine in only_thread(found(chain, tmp_path)):
        assert "host/device.flush" not in mine


def test_a_sync_that_has_to_wait_for_anothers(tmp_path: Path) -> None:
    """QEMU has one at a time: a write's data is there 20 us before another write's sync ends. And
    what syncs behind a write's own is not waited for, although that is not complete yet."""
    chain = Around()
    chain.flags |= FUA
    chain.behind = [chain.sync]
    first, second = chain.writer(), Writer(chain.guest, 404, GUEST_DISK, 0)
    for number in range(WRITES):
        begin = 1_000_000 * (number + 1)
        first.now, chain.kept_ns = begin, 0
        chain.durable_write(first, number * 2 * CLUSTER, COSTS)
        took = chain.written_ns - begin
        second.now, chain.kept_ns = chain.done_ns - 20_000 - took, 20_000
        chain.durable_write(second, (number * 2 + 1) * CLUSTER, COSTS)
    breakdown = found(chain, tmp_path)
    mine = accounts(breakdown)
    for writer in (first, second):
        for account, true in zip(mine[writer.tid], writer.truth, strict=True):
            close(account, qualified(true))


def mapped(chain: Around, clusters: int = 40, first: int = 20) -> Around:
    """An image of qcow2, whose tables are in the clusters before the first."""
    chain.host.builder.image(HOST_DISK, chain.image, "qcow2")
    for own in (0, CLUSTER):
        extent = Extent(1, -1, CLUSTER, own)
        chain.host.builder.extent(HOST_DISK, chain.image, extent)
    extent = Extent(99, 0, clusters * CLUSTER, first * CLUSTER)
    chain.host.builder.extent(HOST_DISK, chain.image, extent)
    chain.placed = lambda offset: offset + first * CLUSTER
    return chain


def test_tables_that_are_written_before_the_data(tmp_path: Path) -> None:
    """A new table of the second level: it has to be durable before anything leads to it."""
    chain = mapped(Around())
    chain.before = [chain.table, chain.sync, chain.table]
    truths = written(chain)
    assert all(true["host/device.image"] == 180_000 for true in truths)
    holds(chain, truths, tmp_path)


def test_tables_that_are_written_behind_the_data(tmp_path: Path) -> None:
    """Counts of clusters that a snapshot has, too: durable before the write is complete."""
    chain = mapped(Around())
    chain.behind = [chain.table, chain.sync]
    chain.guest.builder.block(GUEST_DISK, "vdb", instead=True, write_cache="write back")
    truths = written(chain)
    assert all(true["host/device.image"] == 90_000 for true in truths)
    assert all(true["host/device.flush"] for true in truths)
    for mine, true in zip(only_thread(found(chain, tmp_path)), truths, strict=True):
        below = ("host/device.image", "host/device.flush", "host/device.data")
        assert [mine[row] for row in below] == [true[row] for row in below]


def test_who_had_the_disk_for_tables_is_told(tmp_path: Path) -> None:
    chain = mapped(Around())
    chain.before = [chain.table]
    chain.host.builder.vmm(chain.vmm, "db1")
    written(chain)
    for tid in {*range(510, 600)}:
        chain.host.emit("task", 900, tid, tgid=chain.vmm, subject_tid=tid, process=b"qemu",
                        comm=b"worker", cgroup=0)  # fmt: skip
    summary = summarise(found(chain, tmp_path))
    rows = {row.layer.name: row for row in summary.overall.rows}
    for name, told in (("host/device.data", 60_000), ("host/device.image", 90_000)):
        parts = {named(part.who): part.mean_ns for part in rows[name].behind}
        assert parts == {"qemu of virtual machine db1": pytest.approx(told, abs=9)}


def test_a_single_write_names_the_place_that_room_was_made_for(tmp_path: Path) -> None:
    chain = mapped(Around())
    chain.before = [chain.room]
    written(chain)
    found(chain, tmp_path)
    (one,) = timelines(open_recording(tmp_path), Choice(slowest=1)).timelines
    shown = waterfall.render([one], Quality(), 120, True, 60).plain
    (line,) = (line for line in shown.splitlines() if "image.allocate" in line and " at " in line)
    assert f"{CLUSTER // 1024}k at " in line


@dataclass
class OnNfs(Chain):
    """An image of qcow2 on a server: a table is written before the data of each write."""

    def carried_out(self, enter: int, offset: int, costs: Costs, account: Counter[str]) -> int:
        table: Counter[str] = Counter()
        done = super().carried_out(enter, 0, costs, table)
        table["server/device.image"] = table.pop("server/device.data")
        table["host/vmm.submit"] = 5_000
        account += table
        return super().carried_out(done + 5_000, offset + CLUSTER, costs, account)


def test_tables_on_a_server_are_told_apart_there(tmp_path: Path) -> None:
    chain = OnNfs()
    for extent in (Extent(1, -1, CLUSTER, 0), Extent(9, 0, 40 * CLUSTER, CLUSTER)):
        chain.host.builder.extent(NFS, IMAGE_INODE, extent)
    chain.host.builder.image(NFS, IMAGE_INODE, "qcow2")
    writer, random = chain.writer(), Random(3)
    for number in range(WRITES):
        chain.durable_write(writer, number * CLUSTER, drawn(random, number + 1))
    recorded = found(chain, tmp_path, "guest host server")
    for mine, true in zip(only_thread(recorded), writer.truth, strict=True):
        close(summed(mine), summed(qualified(true)))


def test_tables_that_may_be_anothers_are_nobodys(tmp_path: Path) -> None:
    """While the disk has another request, nothing tells for which of both they are written."""
    chain = mapped(Around())
    beside = Writer(chain.guest, 404, GUEST_DISK, 0)
    writer = chain.writer()
    for number in range(WRITES):
        begin = writer.now
        chain.before = [chain.table]
        chain.durable_write(writer, number * CLUSTER, COSTS)
        beside.now, chain.before = begin + 2_000, []
        chain.durable_write(beside, number * CLUSTER + 8192, LATE)
        writer.now = max(writer.now, beside.now)
    mine = accounts(found(chain, tmp_path))
    for account, true in zip(mine[writer.tid], writer.truth, strict=True):
        assert "host/device.image" not in account
        assert account["host/device.data"] == true["host/device.data"]


def test_room_for_a_cluster_is_what_its_data_waits_for(tmp_path: Path) -> None:
    chain = mapped(Around())
    chain.before = [chain.room]
    truths = written(chain)
    assert all(true["host/image.allocate"] == 10_100 for true in truths)
    breakdown = holds(chain, truths, tmp_path)
    assert not breakdown.left_out


def test_room_for_another_cluster_is_not_waited_for(tmp_path: Path) -> None:
    """Two writes at once, of which one is where the image has its cluster already."""
    chain = mapped(Around())
    beside = Writer(chain.guest, 404, GUEST_DISK, 0)
    writer = chain.writer()
    for number in range(WRITES):
        begin = writer.now
        chain.before = [chain.room]
        chain.durable_write(writer, number * CLUSTER, COSTS)
        beside.now, chain.before = begin + 2_000, []
        chain.durable_write(beside, (number + 20) * CLUSTER, LATE)
        writer.now = max(writer.now, beside.now)
    mine = accounts(found(chain, tmp_path))
    for one in (writer, beside):
        for account, true in zip(mine[one.tid], one.truth, strict=True):
            assert account.get("host/image.allocate", 0) == true["host/image.allocate"]


@pytest.mark.parametrize("by", ["mirror", "backup"])
def test_what_is_written_to_another_file_for_a_write(by: str, tmp_path: Path) -> None:
    """A mirror has each write behind the disk's own file, a backup what was there before it."""
    chain = Around()
    writer = chain.writer()
    for number in range(2 * WRITES):
        copied = number >= WRITES
        chain.behind = [chain.copy] if copied and by == "mirror" else []
        chain.before = [chain.backup] if copied and by == "backup" else []
        chain.durable_write(writer, number * CLUSTER, COSTS)
    truths = [qualified(account) for account in writer.truth]
    assert len({true["host/device.data"] for true in truths}) == 2
    breakdown = holds(chain, truths, tmp_path)
    (told,) = breakdown.quality.virtual
    assert told.startswith(f"guest: {WRITES} of its writes waited for QEMU to copy")


def test_a_disk_that_is_mirrored_to_another_file_and_back(tmp_path: Path) -> None:
    """It is that file then, and what is written to its own is the copy."""
    chain = Around()
    writer, own = chain.writer(), chain.image
    for disk, copy in ((own, 0), (own, COPY), (COPY, 0), (COPY, own), (own, 0)):
        chain.image, chain.copied = disk, copy
        chain.behind = [chain.copy] if copy else []
        for _ in range(WRITES // 2):
            chain.durable_write(writer, chain.asked * CLUSTER, COSTS)
    breakdown = holds(chain, [qualified(account) for account in writer.truth], tmp_path)
    (told,) = breakdown.quality.virtual
    assert told.startswith(f"guest: {WRITES} of its writes waited for QEMU to copy")


@pytest.mark.parametrize("slower", ["disk", "mirror"])
def test_a_mirror_of_a_disk_without_a_write_cache(slower: str, tmp_path: Path) -> None:
    """All writes are mirrored, and durable in both files: whichever was taken for the disk."""
    chain = Around()
    chain.flags |= FUA
    chain.behind = [chain.sync, chain.copy, chain.sync_copy]
    writer = chain.writer()
    costs = LATE if slower == "disk" else COSTS
    for number in range(WRITES):
        chain.durable_write(writer, number * CLUSTER, costs)
    truths = [qualified(account) for account in writer.truth]
    assert all(true["host/device.flush"] == 80_000 for true in truths)
    holds(chain, truths, tmp_path)


def test_where_only_the_host_is_recorded(tmp_path: Path) -> None:
    """Room is no write, and what is written of tables is told apart."""
    chain = mapped(Around())
    chain.before, chain.behind = [chain.room, chain.table], [chain.sync]
    written(chain)
    breakdown = found(chain, tmp_path, "host")
    groups = summarise(breakdown, "method").groups
    assert {group.name: group.count for group in groups} == {
        "virtio:write": WRITES, "virtio:tables": WRITES, "virtio:flush": WRITES,
    }  # fmt: skip
    assert breakdown.left_out == {ROOM: WRITES}


@pytest.mark.parametrize("flags", [O_WRONLY, O_WRONLY | O_APPEND, O_WRONLY | O_DIRECT])
def test_what_a_monitor_writes_for_itself(flags: int, tmp_path: Path) -> None:
    """A console's log is opened to write to it alone, as no disk is: none of it is its guest's,
    nor are syncs of it."""
    chain = Around()
    chain.behind = [chain.sync]
    written(chain)
    for number in range(LOGGED):
        for call, size in ((PWRITEV, 1), (FDATASYNC, 0)):
            chain.host.emit(
                "syscall", chain.done_ns + number * 9_000 + call, WORKERS, dev=HOST_DISK,
                enter_ns=chain.done_ns + number * 9_000, inode=99, offset_bytes=number,
                size_bytes=size, tgid=chain.vmm, result=size, open_flags=flags, call=call,
            )  # fmt: skip
    breakdown = found(chain, tmp_path, "host")
    groups = summarise(breakdown, "method").groups
    counts = {"virtio:write": WRITES, "virtio:flush": WRITES}
    assert {group.name: group.count for group in groups} == counts
    assert breakdown.left_out == {NO_DISK: 2 * LOGGED}
