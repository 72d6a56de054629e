# SPDX-License-Identifier: Apache-2.0
"""A guest's virtio file system and virtiofsd on its host, with known truth: a clock each."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from iostrata.analysis import analyse
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from iostrata.trace.layout import THREAD_DAEMON
from tests.stitch.test_truth import accounts, conserves
from tests.synthetic import O_DSYNC, Clock, Request, World, Writer, clock, device

MOUNTS, DISK = (device(0, 40), device(0, 41)), device(8, 0)
APP, KWORKER, DAEMON = 200, 90, 600
WRITE = 16
INTERRUPT, RUNQUEUE = 700, 1_100


class Pair:
    """A guest and its host; each file system of the guest has a daemon with a thread of its own."""

    def __init__(self, clocks: tuple[Clock, Clock] = (int, int)) -> None:
        self.guest, self.host = World(clock=clocks[0]), World(clock=clocks[1])
        self.host.builder.block(DISK, "sda")
        self.apps = [
            Writer(self.guest, APP + n, DISK, 1_000_000 + 777 * n, file_device=mount)
            for n, mount in enumerate(MOUNTS)
        ]
        for n in range(2):
            self.host.target(DAEMON + 10 * n, comm=b"virtiofsd", kind=THREAD_DAEMON)
        self.uniques = [100, 100]

    def durable_write(self, which: int, way: int, disk: Request | None) -> None:
        """As long there as back, so that causality finds the very relation of the clocks."""
        app, mount, daemon = self.apps[which], MOUNTS[which], DAEMON + 10 * which
        self.uniques[which] += 2
        app.enter()
        app.cpu(4_000)
        send = app.now
        thread = Writer(self.host, daemon, DISK, send + way, kind=THREAD_DAEMON)
        thread = replace(thread, floor="fuse.daemon")
        told = {"unique": self.uniques[which], "tgid": daemon}
        self.host.emit("virtiofs_request", thread.now, daemon, opcode=WRITE, **told)
        thread.cpu(3_000)
        if disk:
            thread.floor, thread._enter = "syscall", thread.now
            thread.cpu(900)
            thread.data(disk)
            thread.cpu(600)
            thread.leave("pwritev", flags=O_DSYNC, result=8192, size=8192)
            thread.floor = "fuse.daemon"
        thread.cpu(2_000)
        self.host.emit("virtiofs_reply", thread.now, daemon, opcode=0, **told)
        end = thread.now + way
        self.guest.emit("fuse_request", end, KWORKER, unique=told["unique"], send_ns=send,
                        offset_bytes=0, size_bytes=8192, dev=mount, asking_tid=app.tid,
                        opcode=WRITE, error=0)  # fmt: skip
        wake = end + INTERRUPT
        app.now = wake + RUNQUEUE
        self.guest.emit("sched_resume", app.now, app.tid, off_ns=send + 300, wake_ns=wake,
                        waker_tid=KWORKER, state=2, subject_tid=app.tid)  # fmt: skip
        app.account += Counter({
            "host/virtiofs.there": way, "host/virtiofs.back": way, "wakeup.interrupt": INTERRUPT,
            "wakeup.runqueue": RUNQUEUE,
        })  # fmt: skip
        app.account += Counter({f"host/{row}": ns for row, ns in thread.account.items()})
        app.cpu(1_500)
        app.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
        app.finish()
        app.now += 10_000

    def analysed(self, path: Path, machines: str = "guest host") -> Breakdown:
        for name in machines.split():
            getattr(self, name).builder.write(path / name)
        described = [{"name": n, "role": n, "directory": n} for n in machines.split()]
        text = {"format": "iostrata.recording/1", "created": "", "machines": described}
        (path / "recording.json").write_text(json.dumps(text))
        breakdown = analyse(open_recording(path))
        conserves(breakdown)
        return breakdown

    def truth(self, which: int) -> list[dict[str, int]]:
        return [
            {row if "/" in row else f"guest/{row}": ns for row, ns in account.items() if ns}
            for account in self.apps[which].truth
        ]


def drawn(random: Random) -> tuple[int, Request | None]:
    disk = Request(scheduler=None, device=random.randint(9_000, 99_000))
    return random.randint(20_000, 90_000), random.choice([disk, None])


@pytest.mark.parametrize("seed", range(3))
def test_every_row_is_met(tmp_path: Path, seed: int) -> None:
    random, pair = Random(seed), Pair((clock(5_000_000, 0), clock(86_400_000_000_000, 0)))
    pair.durable_write(0, 20_000, None)
    for _ in range(40):
        pair.durable_write(0, *drawn(random))
    found = pair.analysed(tmp_path)
    (crossing,) = found.quality.crossings
    assert (crossing.hop, crossing.asked, crossing.followed) == ("virtiofs", 41, 41)
    (mine,) = accounts(found).values()
    for account, truth in zip(mine, pair.truth(0), strict=True):
        # Only the clocks' relation splits the way there from the way back.
        for rows in (account, truth):
            rows["way"] = rows.pop("host/virtiofs.there") + rows.pop("host/virtiofs.back")
        assert account == truth


def test_two_daemons_number_their_requests_alike(tmp_path: Path) -> None:
    """One of the host's daemons is slower than the other, at the same time."""
    random, pair = Random(5), Pair()
    for _ in range(40):
        pair.durable_write(0, random.randint(20_000, 40_000), None)
        pair.durable_write(1, random.randint(60_000, 90_000), None)
    found = pair.analysed(tmp_path)
    (crossing,) = found.quality.crossings
    mine = accounts(found)
    followed = 0
    for which in range(2):
        for account, truth in zip(mine[APP + which], pair.truth(which), strict=True):
            if "host/unfollowed" in account:
                continue
            for rows in (account, truth):
                rows["way"] = rows.pop("host/virtiofs.there") + rows.pop("host/virtiofs.back")
            assert account == truth
            followed += 1
    assert followed == crossing.followed >= 0.9 * crossing.asked


def test_without_the_host_it_is_one_row(tmp_path: Path) -> None:
    pair = Pair()
    for _ in range(5):
        pair.durable_write(0, 30_000, None)
    found = pair.analysed(tmp_path, "guest")
    (mine,) = accounts(found).values()
    assert all(account["fuse.call"] == 30_000 + 5_000 + 30_000 for account in mine)


def test_a_daemon_of_the_guests_own_is_not_the_hosts(tmp_path: Path) -> None:
    """Its requests may have the same numbers, at the same time."""
    pair = Pair()
    pair.guest.builder.mount(MOUNTS[0], "/mnt", "fuse.bindfs")
    for _ in range(5):
        pair.durable_write(0, 30_000, None)
    found = pair.analysed(tmp_path)
    assert not found.quality.crossings
    assert found.quality.apart == ("host: nothing ties its events to another machine's",)
