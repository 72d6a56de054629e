# SPDX-License-Identifier: Apache-2.0
"""A network block device that qemu-nbd serves, with known truth: one thread receives and answers,
those of its pool carry out. A sync is another one's than the write that it is for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from iostrata.trace import Extent
from iostrata.trace.layout import THREAD_DAEMON
from tests.hops.test_nbd import (
    EXPORT_INODE,
    SERVER,
    SERVER_DISK,
    Costs,
    Pair,
    drawn,
    no_flush_is_tied,
)
from tests.network import exchanged
from tests.stitch.test_truth import accounts
from tests.synthetic import CALLS, Clock, Request, Writer, clock

CLUSTER = 65536
FIRST = 20
"""Clusters that the image's tables have before its first one of data."""
POOL = SERVER + 1
GAP = 6_000
O_RDWR = 2
BLOCK = 8192


class Worker(Writer):
    """A thread of the pool, which was told of with its process."""

    def __post_init__(self) -> None:
        self.account = Counter()


class Pool(Pair):
    """``placed``: where in its file the image keeps what is written at an offset. ``before``: what
    is done, one after the other, before the data is written. ``through``: each write is synced, of
    which the client knows nothing."""

    hop, program = "qemu-nbd", b"qemu-nbd"
    through = False

    def __init__(self, clocks: tuple[Clock, Clock] = (int, int)) -> None:
        super().__init__(clocks)
        self.clocks = clocks
        self.placed: Callable[[int], int] = int
        self.before: list[Callable[[int, int], int]] = []
        self.calls = 0
        self.spent: Counter[str] = Counter()
        for tid in range(POOL, POOL + 4):
            self.server.builder.add("thread", time_ns=1, tid=tid, subject_tid=tid, tgid=SERVER,
                                    comm=b"worker", kind=THREAD_DAEMON)  # fmt: skip

    def recording(self, path: Path, machines: str) -> None:
        """The clocks are known: what is synced behind a write is no help with them."""
        super().recording(path, machines)
        for name, of in zip(machines.split(), self.clocks, strict=True):
            exchanged(path / name, of, self.writer.now, 100, 2_000)

    def _served(self, begin: int, offset: int, costs: Costs, flush: bool, sync: bool) -> int:
        now = begin
        for step in self.before if not flush else ():
            now = step(now, offset) + GAP
            self.spent["nbd.server"] += GAP
        now = self.flush(now) if flush else self.data(now, offset, costs)
        if sync or (self.through and not flush):
            self.spent["nbd.server"] += GAP
            now = self.flush(now + GAP)
        self.writer.account += Counter({f"server/{row}": ns for row, ns in self.spent.items()})
        self.spent.clear()
        return now

    def data(self, now: int, offset: int, costs: Costs) -> int:
        request = costs.disk or Request(scheduler=None, device=30_000)
        return self._call(now, "pwrite64", lambda worker: worker.data(request),
                          self.placed(offset), BLOCK)  # fmt: skip

    def flush(self, now: int, offset: int = 0) -> int:
        return self._call(now, "fdatasync", lambda worker: worker.flush())

    def table(self, now: int, offset: int) -> int:
        """A cluster of the image's own, as a whole."""
        request = Request(scheduler=None, device=90_000, sector=9 * CLUSTER // 512, size=CLUSTER)
        return self._call(now, "pwrite64", lambda worker: worker.data(request), CLUSTER, CLUSTER)

    def _call(self, now: int, call: str, does: Callable[[Worker], None], place: int = 0,
              size: int = 0) -> int:  # fmt: skip
        """Of a thread that slept until it was told."""
        self.calls += 1
        worker = Worker(self.server, POOL + self.calls % 4, SERVER_DISK, now - 2_000,
                        kind=THREAD_DAEMON)  # fmt: skip
        worker._resume(now - 9_000, now - 4_000, 0)
        worker.now = now
        worker.account.clear()
        worker.cpu(700)
        does(worker)
        worker.cpu(400)
        self.server.emit("syscall", worker.now, worker.tid, enter_ns=now, inode=EXPORT_INODE,
                         dev=SERVER_DISK, offset_bytes=place, size_bytes=size, result=size,
                         tgid=SERVER, open_flags=O_RDWR, call=CALLS[call])  # fmt: skip
        spent = worker.account
        if size == CLUSTER:
            spent["device.image"] += spent.pop("device.data")
        self.spent += spent
        return worker.now

    def qcow2(self, known: bool = True) -> None:
        """Its tables are in the clusters before the first."""
        self.server.builder.image(SERVER_DISK, EXPORT_INODE, "qcow2")
        self.placed = lambda offset: offset + FIRST * CLUSTER
        for own in (0, CLUSTER) if known else ():
            self.server.builder.extent(SERVER_DISK, EXPORT_INODE, Extent(1, -1, CLUSTER, own))
        if known:
            extent = Extent(99, 0, 60 * CLUSTER, FIRST * CLUSTER)
            self.server.builder.extent(SERVER_DISK, EXPORT_INODE, extent)

    def holds(self, path: Path) -> None:
        found = self.analysed(path)
        (crossing,) = found.quality.crossings
        assert (crossing.hop, crossing.asked) == (self.hop, crossing.followed)
        (mine,) = accounts(found).values()
        for account, truth in zip(mine, self.truth(), strict=True):
            # Only the clocks' relation splits the way there from the way back.
            for rows in (account, truth):
                rows["way"] = sum(rows.pop(f"server/{way}", 0) for way in self.way)
            assert account == truth


@pytest.mark.parametrize("seed", range(4))
def test_every_row_is_met(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    pair = Pool((clock(5_000_000, 0), clock(86_400_000_000_000, 0)))
    pair.durable_write(0, Costs())
    for number in range(40):
        sector = random.randint(1, 6)
        pair.durable_write(sector * BLOCK, drawn(random), flush=number % 3 == 0, sync=seed % 2 == 0)
    pair.holds(tmp_path)


def test_a_server_that_syncs_unasked(tmp_path: Path) -> None:
    """cache=writethrough: the client knows of a write cache, and asks for no flush."""
    pair, random = Pool(), Random(7)
    pair.through = True
    for number in range(20):
        pair.durable_write(number * BLOCK, drawn(random))
    pair.holds(tmp_path)
    assert all(truth["server/device.flush"] for truth in pair.truth())


def test_a_sync_for_another_is_none_of_a_write_that_need_not_be_durable(tmp_path: Path) -> None:
    """While its answer is under way, what another one asked for is synced."""
    pair = Pool()
    other = Writer(pair.client, 300, pair.disk, 1_000_000)
    for number in range(12):
        begin = pair.writer.now
        pair.durable_write(number * BLOCK, Costs(back=400_000))
        own, ended = pair.writer, pair.writer.now
        pair.writer, other.now = other, begin + 90_000
        pair.durable_write((number + 100) * BLOCK, Costs(there=20_000), flush=True)
        pair.writer, own.now = own, max(ended, other.now) + 50_000
    found = accounts(pair.analysed(tmp_path))
    assert not any("server/device.flush" in account for account in found[own.tid])
    assert all("server/device.flush" in account for account in found[other.tid])


def test_a_qcow2_image_with_its_tables(tmp_path: Path) -> None:
    pair, random = Pool(), Random(3)
    pair.qcow2()
    pair.before = [pair.table, pair.flush]
    for number in range(20):
        pair.durable_write(number * CLUSTER, drawn(random), sync=number % 2 == 0)
    pair.holds(tmp_path)
    assert all(truth["server/device.image"] == 90_000 for truth in pair.truth())


def test_an_image_of_which_nothing_tells_what_is_where(tmp_path: Path) -> None:
    """One row, and a line."""
    pair = Pool()
    pair.qcow2(known=False)
    for number in range(5):
        pair.durable_write(number * BLOCK, Costs())
    found = pair.analysed(tmp_path)
    assert not found.quality.crossings
    (apart,) = found.quality.apart
    assert apart == "server: where in it an image of qcow2 keeps what a client writes is not known"
    (mine,) = accounts(found).values()
    assert not any(row.startswith("server/") for account in mine for row in account)
    assert all(account["initiator.call"] > 100_000 for account in mine)


def test_with_an_offset_of_its_own_it_is_one_row(tmp_path: Path) -> None:
    """--offset: what is at which place of the file is not known."""
    pair = Pool()
    pair.placed = lambda offset: offset + (1 << 30)
    for number in range(5):
        pair.durable_write(number * BLOCK, Costs())
    found = pair.analysed(tmp_path)
    assert not found.quality.crossings
    assert found.quality.apart == ("server: nothing ties its events to another machine's",)
    (mine,) = accounts(found).values()
    assert all(account["initiator.call"] > 100_000 for account in mine)


def test_which_of_two_syncs_is_a_flush_nothing_tells_where_it_serves_others_too(
    tmp_path: Path,
) -> None:
    no_flush_is_tied(Pool(), tmp_path)
