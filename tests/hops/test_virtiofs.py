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
from iostrata.attribute import summarise
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from iostrata.trace.layout import THREAD_DAEMON
from tests.stitch.test_truth import accounts, conserves
from tests.synthetic import O_DSYNC, Clock, Request, World, Writer, clock, device

MOUNTS, DISK = (device(0, 40), device(0, 41)), device(8, 0)
APP, KWORKER, DAEMON = 200, 90, 600
WRITE = 16
FSYNC = 20
GETATTR = 3
PWRITEV2, FDATASYNC = 5, 7
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
        self.tells, self.again = [True, True], 0

    def durable_write(
        self,
        which: int,
        way: int,
        disk: Request | None,
        offset: int = 0,
        mount: int | None = None,
        syncs: bool = False,
    ) -> None:
        """As long there as back, so that causality finds the very relation of the clocks.

        ``mount``: whose daemon it asks, if that is not its own. ``syncs``: what it asks for.
        """
        on = which if mount is None else mount
        app, daemon = self.apps[which], DAEMON + 10 * on + self.again
        self.uniques[which] += 2
        app.enter()
        app.cpu(4_000)
        send = app.now
        thread = Writer(self.host, daemon + which - on, DISK, send + way, kind=THREAD_DAEMON)
        thread = replace(thread, floor="fuse.daemon")
        told = {"unique": self.uniques[which], "tgid": daemon}
        if self.tells[on]:
            opcode = FSYNC if syncs else WRITE
            self.host.emit("virtiofs_request", thread.now, daemon, opcode=opcode, **told)
        thread.cpu(3_000)
        if disk:
            thread.floor, thread._enter = "syscall", thread.now
            thread.cpu(900)
            thread.data(disk)
            thread.cpu(600)
            size = 0 if syncs else 8192
            self.host.emit("syscall", thread.now, thread.tid, enter_ns=thread._enter, inode=12,
                           offset_bytes=-1 if syncs else offset, dev=DISK, result=size,
                           size_bytes=size, tgid=daemon, open_flags=O_DSYNC,
                           call=FDATASYNC if syncs else PWRITEV2)  # fmt: skip
            thread.floor = "fuse.daemon"
        thread.cpu(2_000)
        if self.tells[on]:
            self.host.emit("virtiofs_reply", thread.now, daemon, opcode=0, **told)
        end = thread.now + way
        self.guest.emit("fuse_request", end, KWORKER, unique=told["unique"], send_ns=send,
                        offset_bytes=0 if syncs else offset, size_bytes=0 if syncs else 8192,
                        dev=MOUNTS[on], asking_tid=app.tid, opcode=FSYNC if syncs else WRITE,
                        error=0)  # fmt: skip
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


def in_rust(pair: Pair, comm: bytes = b"virtiofsd") -> Pair:
    """A daemon that tells of no request: what it does around its calls is on the way.

    ``comm``: what its threads call themselves.
    """
    pair.tells = [False, False]
    threads = pair.host.builder._rows["thread"]
    threads[:] = [row | {"comm": comm, "process": b"virtiofsd"} for row in threads]
    return pair


@pytest.mark.parametrize("comm", [b"virtiofsd", b"vring_worker"])
@pytest.mark.parametrize("seed", range(3))
def test_a_daemon_that_tells_of_no_request_is_known_by_its_calls(
    comm: bytes, tmp_path: Path, seed: int
) -> None:
    """Without a pool of threads, one makes all of them, which has a name of its own."""
    pair = Pair((clock(5_000_000, 0), clock(86_400_000_000_000, 0)))
    random, pair = Random(seed), in_rust(pair, comm)
    disks = [Request(scheduler=None, device=random.randint(9_000, 99_000)) for _ in range(40)]
    for number, disk in enumerate(disks):
        way, place = random.randint(20_000, 90_000), 8192 * (number % 5)
        pair.durable_write(0, way, disk, place, syncs=number % 3 == 0)
    found = pair.analysed(tmp_path)
    (crossing,) = found.quality.crossings
    assert (crossing.hop, crossing.asked, crossing.followed) == ("virtiofs", 40, 40)
    assert any("virtiofsd's own work" in gap.where for gap in found.quality.not_observed)
    (mine,) = accounts(found).values()
    for account, truth in zip(mine, pair.truth(0), strict=True):
        for rows in (account, truth):
            ways = ("host/virtiofs.there", "host/virtiofs.back", "host/fuse.daemon")
            rows["way"] = sum(rows.pop(row, 0) for row in ways)
        assert account == truth


def test_beside_a_daemon_that_tells_one_that_does_not(tmp_path: Path) -> None:
    """Each guest's file system has the one that it asks."""
    pair = Pair((clock(5_000_000, 0), clock(86_400_000_000_000, 0)))
    pair.tells = [True, False]
    random = Random(8)
    for number in range(40):
        disk = Request(scheduler=None, device=random.randint(9_000, 99_000))
        which = number % 2
        pair.apps[which].now = max(app.now for app in pair.apps) + random.randint(1, 9_000)
        pair.durable_write(which, random.randint(20_000, 90_000), disk, 8192 * (number // 2))
    found = pair.analysed(tmp_path)
    crossings = [(one.hop, one.asked, one.followed) for one in found.quality.crossings]
    assert crossings == [("virtiofs", 20, 20)] * 2
    mine = accounts(found)
    for which, app in enumerate(pair.apps):
        for account, truth in zip(mine[app.tid], pair.truth(which), strict=True):
            assert account["host/device.data"] == truth["host/device.data"]


def test_one_place_of_two_files_at_once_is_nobodys(tmp_path: Path) -> None:
    """Both are written while both are asked for: which is whose, the calls do not tell."""
    pair = in_rust(Pair())
    disk = Request(scheduler=None, device=60_000)
    for number in range(10):
        pair.durable_write(0, 30_000, disk, 8192 * (number + 1))
        begin = pair.apps[0].now
        pair.durable_write(0, 30_000, disk)
        pair.apps[1].now = begin + 15_000
        pair.durable_write(1, 30_000, disk, mount=0)
        pair.apps[0].now = pair.apps[1].now + 50_000
    found = pair.analysed(tmp_path)
    (crossing,) = found.quality.crossings
    assert (crossing.asked, crossing.followed, crossing.ambiguous) == (30, 10, 20)


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
    words = {one.name: one.figures.mean_ns for one in summarise(found).overall.operators}
    disk = sum(ns for one in mine for row, ns in one.items() if "device" in row)
    # What the daemon does itself is its host's.
    assert words["DAVG"] == pytest.approx(disk / len(mine))
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


def test_what_its_host_took_of_its_cpus_its_daemon_does_not_tell(tmp_path: Path) -> None:
    """The host waits with other threads than virtiofsd's for a CPU: which are the guest's, nothing
    says."""
    pair = Pair()
    for _ in range(20):
        pair.durable_write(0, 30_000, None)
    samples = ((900_000, 7_000), (pair.apps[0].now, 907_000))
    pair.guest.builder.recorded(pair.apps[0].now, "stolen_ns", samples)
    (line,) = pair.analysed(tmp_path).quality.virtual
    assert line.startswith("guest: a hypervisor gave 900 us of its CPUs' time")
    assert line.endswith("in whatever row was at work then")


@pytest.mark.parametrize("handed", [False, True])
def test_a_daemon_that_has_no_cpu_to_take_a_request_up(handed: bool, tmp_path: Path) -> None:
    """Nor may its control group have one. ``handed``: nor had the thread that hands it on."""
    pair = Pair()
    queue, number = 690, 4
    if handed:
        pair.host.emit("thread", 1, queue, tgid=DAEMON, subject_tid=queue, kind=THREAD_DAEMON,
                       comm=b"virtiofsd")  # fmt: skip
    for n in range(8):
        send = pair.apps[0].now + 4_000
        if n == number:
            late = {"subject_tid": queue if handed else DAEMON}
            pair.host.emit("sched_resume", send + 25_000, late["subject_tid"], off_ns=send - 3_000,
                           wake_ns=send + 2_000, waker_tid=0, state=1, **late)  # fmt: skip
            pair.host.emit("sched_throttled", send + 25_000, late["subject_tid"],
                           throttled_ns=16_000, cgroup=0, own=0, **late)  # fmt: skip
        pair.durable_write(0, 30_000, None)
    (mine,) = accounts(pair.analysed(tmp_path)).values()
    late_one = mine.pop(number)
    assert all(one["host/virtiofs.there"] == 30_000 for one in mine)
    assert late_one["host/throttle.cpu"] == 16_000
    assert late_one["host/wakeup.runqueue"] == 7_000
    assert late_one["host/virtiofs.there"] == 7_000


@pytest.mark.parametrize("rust", [False, True])
def test_a_daemon_that_is_started_again(rust: bool, tmp_path: Path) -> None:
    """Another process has the mount's requests from then on, and numbers them from the first."""
    random, pair = Random(4), Pair((clock(5_000_000, 0), clock(86_400_000_000_000, 0)))
    pair.tells = [not rust, not rust]
    pair.host.target(DAEMON + 10, comm=b"virtiofsd", kind=THREAD_DAEMON)
    for number in range(40):
        if number == 25:
            pair.again, pair.uniques[0] = 10, 100
        disk = Request(scheduler=None, device=random.randint(9_000, 99_000))
        pair.durable_write(0, random.randint(20_000, 90_000), disk, 8192 * number)
    found = pair.analysed(tmp_path)
    (crossing,) = found.quality.crossings
    assert (crossing.asked, crossing.followed, crossing.ambiguous) == (40, 40, 0)
    (mine,) = accounts(found).values()
    for account, truth in zip(mine, pair.truth(0), strict=True):
        assert account["host/device.data"] == truth["host/device.data"]


def test_what_waits_for_a_thread_that_is_at_anothers(tmp_path: Path) -> None:
    """Until that has answered it; the rest is the way."""
    pair, queued = Pair(), []
    pair.uniques = [100, 10_001]
    for number in range(12):
        begin = max(app.now for app in pair.apps) + 9_000
        pair.apps[0].now, pair.apps[1].now = begin, begin + 6_000
        pair.durable_write(0, 20_000, Request(scheduler=None, device=60_000), 8192 * number)
        answered = pair.host.builder._rows["virtiofs_reply"][-1]["time_ns"]
        queued.append(answered - (begin + 6_000 + 4_000))
        pair.durable_write(1, 300_000, None, 8192 * number + (1 << 20), mount=0)
    mine = accounts(pair.analysed(tmp_path))
    assert [one.get("host/virtiofs.queue", 0) for one in mine[pair.apps[0].tid]] == [0] * 12
    second = mine[pair.apps[1].tid]
    assert [one["host/virtiofs.queue"] for one in second] == pytest.approx(queued, abs=9)
    assert all(
        one["host/virtiofs.there"] + one["host/virtiofs.queue"] == pytest.approx(300_000, abs=9)
        for one in second
    )


def test_a_daemon_that_was_stopped_is_told_of(tmp_path: Path) -> None:
    """By a signal: while it asks for nothing, no row of its own has that."""
    pair = Pair()
    for number in range(8):
        send, stopped = pair.apps[0].now + 4_000, 0x104
        if number == 4:
            pair.host.emit("sched_resume", send + 900_000, DAEMON, off_ns=send - 3_000,
                           wake_ns=send + 897_000, waker_tid=1, state=stopped,
                           subject_tid=DAEMON)  # fmt: skip
        pair.durable_write(0, 1_000_000, None)
    told = [line for line in pair.analysed(tmp_path).quality.virtual if "stopped" in line]
    assert told == [
        f"guest: process {DAEMON}, which serves it on host, was stopped there for 900 us: what of "
        "that is in writes is in the way to it, or unattributed"
    ]


def test_of_a_host_alone_what_only_asks_is_no_write(tmp_path: Path) -> None:
    """Of each of the others the place is told by the daemon's own call."""
    pair, disk = Pair(), Request(scheduler=None, device=40_000)
    for number in range(6):
        pair.durable_write(0, 30_000, disk, 8192 * number, syncs=number % 3 == 0)
        for point in ("virtiofs_request", "virtiofs_reply"):
            pair.apps[0].now += 5_000
            pair.host.emit(point, pair.apps[0].now, DAEMON, opcode=GETATTR, unique=8,
                           tgid=DAEMON)  # fmt: skip
        pair.apps[0].now += 5_000
    found = pair.analysed(tmp_path, "host")
    methods = [found.writes.names["method"][code] for code in found.writes.codes["method"]]
    assert methods == ["virtiofs:flush", "virtiofs:write", "virtiofs:write"] * 2
    assert found.writes.size_bytes.tolist() == [0, 8192, 8192] * 2
    assert found.writes.offset_bytes.tolist() == [0, 8192, 16384, 0, 32768, 40960]
    assert set(found.writes.device_key.tolist()) == {DISK}


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
