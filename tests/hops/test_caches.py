# SPDX-License-Identifier: Apache-2.0
"""A guest's image through its host's page cache (cache=writeback): a write is there once it is in
memory, and what the disk takes is of the flush that waits for it, whoever writes it back."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.chain import FDATASYNC, GUEST_DISK, Costs
from tests.hops.test_around import Worker
from tests.hops.test_images import found
from tests.images import HOST_DISK, Local
from tests.stitch.test_chain import only_thread
from tests.synthetic import FLUSH_OP, PREFLUSH, Request, Writer, submit

PWRITE64 = 2
SYNCER, FLUSHER = 590, 591
WRITES = 10
DEVICE, FLUSH = 200_000, 40_000
SECTORS = 16
COPY, COPIED_NS = 88, 120_000


@dataclass
class Writeback(Local):
    """Where the guest's data is copied to memory."""

    def carried_out(self, enter: int, offset: int, costs: Costs, account: Counter[str]) -> int:
        tid = 510 + self.asked % 8
        self.asked += 1
        self.host.emit("thread", 1, tid, tgid=self.vmm, subject_tid=tid, kind=4, comm=b"worker")
        self.host.emit("syscall", enter + 9_000, tid, enter_ns=enter, inode=self.image,
                       dev=HOST_DISK, offset_bytes=offset, size_bytes=8192, result=8192,
                       tgid=self.vmm, open_flags=0, call=PWRITE64)  # fmt: skip
        account["host/syscall"] += 9_000
        return enter + 9_000

    def flushed(self, writer: Writer, early: int, sector: int) -> int:
        """The guest's flush, and the host's sync; how long the sync waited for the data.

        ``early``: so long before the sync a kernel worker has begun to write the data back.
        """
        host, begin = self.host, writer.now
        rq = self.guest.pointer("flush", begin, begin + 10_000_000)
        place = {"dev": GUEST_DISK, "sector": 0, "size_bytes": 0, "flags": FLUSH_OP | PREFLUSH}
        self.guest.emit("block_bio_queue", begin, writer.tid, bio_key=rq + 8, kernel_thread=0,
                        **place)  # fmt: skip
        keys = {"request_key": rq, "bio_key": rq + 8}
        self.guest.emit("block_rq_issue", begin, writer.tid, **keys, **place)
        sync = begin + 10_000
        worker = Worker(host, SYNCER, HOST_DISK, sync, inode=self.image)
        host.emit("thread", 1, SYNCER, tgid=self.vmm, subject_tid=SYNCER, kind=4, comm=b"worker")
        worker.cpu(700)
        request = Request(queue=500, scheduler=None, device=DEVICE, sector=sector)
        if early:
            submit(host, HOST_DISK, FLUSHER, sync - early, request, held=True)
            waited = sync - early + 500 + DEVICE - worker.now
            worker._wait(waited, 1_000, 2_000)
        else:
            waited = DEVICE
            worker.data(request)
        worker.flush(device=FLUSH)
        worker.cpu(400)
        host.emit("syscall", worker.now, SYNCER, enter_ns=sync, inode=self.image, dev=HOST_DISK,
                  offset_bytes=-1, size_bytes=0, tgid=self.vmm, result=0, open_flags=0,
                  call=FDATASYNC)  # fmt: skip
        complete = worker.now + 20_000
        self.guest.emit("block_rq_complete", complete, 0, **keys, **place)
        writer._wait(complete - begin, 1_000, 2_000)
        return waited


@dataclass
class Mirrored(Writeback):
    """Each write goes to another file as well, which takes longer and is never synced: behind the
    disk's own, as to a mirror; or before that what was there, as much, as to a backup."""

    backup: bool = False

    def carried_out(self, enter: int, offset: int, costs: Costs, account: Counter[str]) -> int:
        if self.backup:
            enter = self.copied(enter, offset, account) + 5_000
        end = super().carried_out(enter, offset, costs, account)
        return end if self.backup else self.copied(end + 5_000, offset, account)

    def copied(self, begin: int, offset: int, account: Counter[str]) -> int:
        self.host.emit("syscall", begin + COPIED_NS, SYNCER - 1, enter_ns=begin,
                       inode=COPY, dev=HOST_DISK, offset_bytes=offset, size_bytes=8192,
                       result=8192, tgid=self.vmm, open_flags=0, call=PWRITE64)  # fmt: skip
        account["host/syscall"] += COPIED_NS
        return begin + COPIED_NS


@pytest.mark.parametrize("early", [0, 50_000, 150_000])
def test_a_flush_waits_for_what_a_kernel_worker_writes_back(early: int, tmp_path: Path) -> None:
    flushes(Writeback(), early, tmp_path)


@pytest.mark.parametrize("backup", [False, True])
def test_a_flush_of_a_disk_that_is_copied_more_slowly(backup: bool, tmp_path: Path) -> None:
    """Both files have all that it writes: its syncs tell which of them the disk is."""
    for account in flushes(Mirrored(backup=backup), 0, tmp_path):
        assert account["host/syscall"] == pytest.approx(9_000 + COPIED_NS + 1_100, abs=300)


@pytest.mark.parametrize("last", [3, 5])
def test_a_disk_that_is_moved_to_another_file(last: int, tmp_path: Path) -> None:
    """It is followed there, but where so few are found that it may be chance: then nothing of it
    is, its writes nor what its flushes wait for."""
    chain = Writeback()
    writer, moved = chain.writer(), 2 * WRITES - last
    for number in range(2 * WRITES):
        if number == moved:
            chain.image = COPY
        written_and_synced(chain, writer, number)
    for number, account in enumerate(only_thread(found(chain, tmp_path))):
        if number < moved or last > 3:
            assert account["host/device.data"] == pytest.approx(DEVICE, abs=300)
            assert account["host/device.flush"] == pytest.approx(FLUSH, abs=300)
        else:
            assert {row for row in account if row.startswith("host/")} == {"host/unfollowed"}


def written_and_synced(chain: Writeback, writer: Writer, number: int, early: int = 0) -> int:
    """How long the sync waited for the data."""
    writer.enter()
    writer.cpu(1_000)
    chain.data(writer, number * 8192, Costs())
    writer.cpu(1_000)
    writer.leave("pwrite64", result=8192, size=8192)
    writer.now += 200_000
    writer.enter()
    writer.cpu(1_000)
    waited = chain.flushed(writer, early, SECTORS * number)
    writer.leave("fdatasync")
    writer.finish()
    writer.now += 10_000
    return waited


def flushes(chain: Writeback, early: int, tmp_path: Path) -> list[dict[str, int]]:
    writer = chain.writer()
    waited = [written_and_synced(chain, writer, number, early) for number in range(WRITES)]
    breakdown = found(chain, tmp_path)
    assert not breakdown.residual_ns.any()
    mine = only_thread(breakdown)
    for account, device in zip(mine, waited, strict=True):
        assert account["host/device.data"] == pytest.approx(device, abs=300)
        assert account["host/device.flush"] == pytest.approx(FLUSH, abs=300)
        assert account["host/vmm.complete"] <= 30_000 + 20_000 + 300
    return mine
