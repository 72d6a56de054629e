# SPDX-License-Identifier: Apache-2.0
"""File systems in user space and their daemons on one machine, with known truth."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pytest

from iostrata.analysis import analyse
from iostrata.analysis.left_out import FOR_OTHERS, OTHER_THREADS
from iostrata.attribute import summarise
from iostrata.model import Breakdown, LeftOver, Op
from iostrata.recording import open_recording
from iostrata.report.verdict import sentences
from iostrata.trace.layout import THREAD_FUSE, THREAD_TARGET, WAKE_TIMER, WAKE_UNKNOWN
from tests.reading import Reader, reading_world
from tests.stitch.test_truth import accounts, conserves
from tests.synthetic import O_DSYNC, Request, World, Writer, device, write

MOUNTS, DISK = (device(0, 40), device(0, 41)), device(8, 0)
APP, DAEMON, STRANGER = 200, 600, 66
READ, WRITE = 15, 16
INTERRUPTIBLE = 1
INTERRUPT, RUNQUEUE = 700, 1_100


@dataclass
class Costs:
    """Where a request spends its time, in ns. ``disk`` None: the daemon writes nothing."""

    queue: int = 9_000
    before: int = 4_000
    disk: Request | None = field(default_factory=lambda: Request(scheduler=None))
    wait: int = 0
    after: int = 3_000
    spliced: bool = False


@dataclass
class Mounted:
    """A file system of a machine, one of whose daemon's threads serves it."""

    world: World
    mount: int = MOUNTS[0]
    daemon: int = DAEMON
    unique: int = 0
    free_ns: int = 0

    def __post_init__(self) -> None:
        self.world.target(self.daemon, kind=THREAD_FUSE, comm=b"daemon")

    def app(self, tid: int = APP, now: int = 1_000_000) -> Writer:
        return Writer(self.world, tid, DISK, now, file_device=self.mount)

    def durable_write(self, app: Writer, *requests: Costs) -> None:
        """One O_DSYNC write, of several requests one after the other."""
        app.enter()
        app.cpu(4_000)
        for costs in requests:
            self.request(app, costs)
        app.cpu(1_500)
        app.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
        app.finish()
        app.now += 10_000

    def request(self, app: Writer, costs: Costs, opcode: int = WRITE) -> None:
        send, self.unique = app.now, self.unique + 2
        thread = self.served(send, self.unique, costs)
        self.answered(thread, send, app.tid, self.unique, opcode)
        wake = thread.now + INTERRUPT
        app.now = wake + RUNQUEUE
        self.world.emit("sched_resume", app.now, app.tid, off_ns=send + 300, wake_ns=wake,
                        waker_tid=thread.tid, state=2, subject_tid=app.tid)  # fmt: skip
        app.account += thread.account
        app.account += Counter({"wakeup.interrupt": INTERRUPT, "wakeup.runqueue": RUNQUEUE})

    def served(self, send: int, unique: int, costs: Costs) -> Writer:
        """The daemon's thread as it answers; what it took is in its account."""
        taken = max(send + costs.queue, self.free_ns)
        self.world.emit("fuse_take", taken, self.daemon, unique=0 if costs.spliced else unique,
                        dev=self.mount, opcode=0 if costs.spliced else WRITE)  # fmt: skip
        thread = Writer(self.world, self.daemon, DISK, taken, kind=THREAD_FUSE)
        thread.account["fuse.queue"] += taken - send
        thread = replace(thread, floor="fuse.daemon", account=thread.account)
        thread.cpu(costs.before)
        if costs.disk:
            thread.floor, thread._enter = "syscall", thread.now
            thread.cpu(900)
            thread.data(costs.disk)
            thread.cpu(600)
            thread.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
            thread.floor = "fuse.daemon"
        if costs.wait:
            self.chosen_wait(thread, costs.wait)
        thread.cpu(costs.after)
        self.free_ns = thread.now + 2_000
        return thread

    def chosen_wait(self, thread: Writer, duration: int) -> None:
        off, wake = thread.now, thread.now + duration
        thread.now = wake + RUNQUEUE
        thread._resume(off, wake, 0, INTERRUPTIBLE, WAKE_TIMER if duration % 2 else WAKE_UNKNOWN)
        thread.account += Counter({"fuse.wait": duration, "wakeup.runqueue": RUNQUEUE})

    def answered(
        self, thread: Writer, send: int, asking: int, unique: int, opcode: int = WRITE
    ) -> None:
        self.world.emit("fuse_request", thread.now, thread.tid, unique=unique, send_ns=send,
                        offset_bytes=0, size_bytes=8192, dev=self.mount, asking_tid=asking,
                        opcode=opcode, error=0)  # fmt: skip


def world() -> World:
    found = World()
    found.builder.block(DISK, "sda")
    return found


def analysed(world: World, path: Path) -> Breakdown:
    breakdown = analyse(open_recording(write(world, path)))
    conserves(breakdown)
    return breakdown


def holds(found: Breakdown, *apps: Writer) -> None:
    mine = accounts(found)
    for app in apps:
        truth = [{row: ns for row, ns in account.items() if ns} for account in app.truth]
        assert mine[app.tid] == truth


def drawn(random: Random) -> Costs:
    disk = Request(queue=random.randint(1, 900), scheduler=None,
                   device=random.randint(9_000, 99_000), sector=random.randint(1, 9))  # fmt: skip
    return Costs(
        random.randint(1_000, 90_000), random.randint(1, 9_000), random.choice([disk, disk, None]),
        random.choice([0, 70_000, 70_001]), random.randint(1, 9_000), random.choice([True, False]),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(3))
def test_every_row_is_met(tmp_path: Path, seed: int) -> None:
    """Read or spliced; a write may be of several requests, all of which are awaited."""
    random, mounted = Random(seed), Mounted(world())
    app = mounted.app()
    for number in range(40):
        mounted.durable_write(app, *(drawn(random) for _ in range(1 + number % 3)))
    found = analysed(mounted.world, tmp_path)
    (crossing,) = found.quality.crossings
    assert (crossing.hop, crossing.asked, crossing.followed) == ("fuse", 79, 79)
    assert crossing.upper == crossing.lower
    holds(found, app)


def test_a_daemon_that_was_stopped_is_told_of(tmp_path: Path) -> None:
    """By a signal, from before a write on: that waits in its queue."""
    mounted = Mounted(world())
    app = mounted.app()
    mounted.world.emit("sched_resume", 3_000_000, DAEMON, off_ns=900_000, wake_ns=3_000_000,
                       waker_tid=1, state=0x104, subject_tid=DAEMON)  # fmt: skip
    mounted.durable_write(app, Costs(queue=2_100_000))
    found = analysed(mounted.world, tmp_path)
    assert found.quality.connections == (
        "writer (600) was stopped for 2.10 ms: what of that is in writes is in the way to it, or "
        "back, or in the row of what it was at",
    )
    holds(found, app)


def test_two_file_systems_number_their_requests_alike(tmp_path: Path) -> None:
    """At the same time, by a daemon each."""
    machine = world()
    one, other = (Mounted(machine, mount, DAEMON + n) for n, mount in enumerate(MOUNTS))
    first, second = one.app(), other.app(APP + 1, 1_000_500)
    random = Random(7)
    for _ in range(30):
        one.durable_write(first, replace(drawn(random), disk=None))
        other.durable_write(second, replace(drawn(random), disk=None))
    found = analysed(machine, tmp_path)
    (crossing,) = found.quality.crossings
    assert (crossing.asked, crossing.followed, crossing.ambiguous) == (60, 60, 0)
    holds(found, first, second)


def test_threads_of_one_daemon_and_requests_that_wait_for_them(tmp_path: Path) -> None:
    """Two threads serve one file system that three ask: what is queued is taken up later."""
    machine = world()
    one = Mounted(machine)
    other = Mounted(machine, daemon=DAEMON + 1)
    apps = [one.app(APP + n, 1_000_000 + 500 * n) for n in range(3)]
    for number in range(12):
        for app, daemon in zip(apps, (one, other, one), strict=True):
            other.unique = one.unique = max(one.unique, other.unique)
            daemon.durable_write(app, Costs(disk=None, wait=30_000 if number % 2 else 0))
    found = analysed(machine, tmp_path)
    holds(found, *apps)
    assert found.quality.unfollowed == 0
    assert max(account["fuse.queue"] for account in apps[2].truth) > 30_000


@pytest.mark.parametrize("spliced", [False, True])
def test_what_a_thread_did_that_had_two_at_once_is_neithers(tmp_path: Path, spliced: bool) -> None:
    """It takes two up, writes, and answers them. Spliced, each may be either."""
    mounted = Mounted(world())
    app, other = mounted.app(), mounted.app(APP + 1, 1_000_200)
    mounted.durable_write(app, Costs())
    other.now = app.now
    for writer in (app, other):
        writer.enter()
        writer.cpu(4_000)
    send = app.now
    taken = {100: send + 5_000, 102: send + 7_000}
    for unique, time in taken.items():
        mounted.world.emit("fuse_take", time, DAEMON, unique=0 if spliced else unique,
                           dev=MOUNTS[0], opcode=WRITE)  # fmt: skip
    thread = Writer(mounted.world, DAEMON, DISK, send + 9_000, kind=THREAD_FUSE)
    thread.data(Request(scheduler=None))
    for unique, writer in zip(taken, (app, other), strict=True):
        thread.cpu(3_000)
        mounted.answered(thread, send, writer.tid, unique)
        wake = thread.now + INTERRUPT
        writer.now = wake + RUNQUEUE
        mounted.world.emit("sched_resume", writer.now, writer.tid, off_ns=send + 300, wake_ns=wake,
                           waker_tid=DAEMON, state=2, subject_tid=writer.tid)  # fmt: skip
        writer.account += Counter({"wakeup.interrupt": INTERRUPT, "wakeup.runqueue": RUNQUEUE})
        queue = thread.now - send if spliced else taken[unique] - send
        writer.account["unfollowed" if spliced else "fuse.queue"] += queue
        writer.account["fuse.daemon"] += thread.now - send - queue
        writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
        writer.finish()
    found = analysed(mounted.world, tmp_path)
    (crossing,) = found.quality.crossings
    assert (crossing.asked, crossing.followed) == (3, 1 if spliced else 3)
    assert found.quality.unfollowed == 2
    said = [gap.reason for gap in found.quality.not_observed if gap.merged_into == "fuse.daemon"]
    several = "2 of 3 requests were answered by a thread that had several at once"
    assert said == ([] if spliced else [several])
    holds(found, app, other)


def test_a_daemon_that_has_no_cpu_to_take_a_request_up(tmp_path: Path) -> None:
    """Woken 2000 behind it, and running again 1000 before it reads it."""
    mounted = Mounted(world())
    app = mounted.app()
    mounted.durable_write(app, Costs(disk=None))
    send = app.now + 4_000
    mounted.world.emit("sched_resume", send + 49_000, DAEMON, off_ns=send - 3_000,
                       wake_ns=send + 2_000, waker_tid=APP, state=INTERRUPTIBLE,
                       subject_tid=DAEMON)  # fmt: skip
    mounted.durable_write(app, Costs(queue=50_000, disk=None))
    app.truth[-1]["fuse.queue"] -= 47_000
    app.truth[-1]["wakeup.runqueue"] += 47_000
    holds(analysed(mounted.world, tmp_path), app)


@pytest.mark.parametrize("turn", [False, True])
def test_a_process_that_is_forked_to_answer_is_not_seen_before(
    tmp_path: Path, *, turn: bool
) -> None:
    """It may have slept, or written: all is ``fuse.daemon``. A new thread's first ``turn`` is."""
    mounted = Mounted(world())
    app = mounted.app()
    mounted.durable_write(app, Costs(disk=None))
    app.enter()
    send, child = app.now, DAEMON + 1
    mounted.world.emit("fuse_take", send + 2_000, DAEMON, unique=50, dev=MOUNTS[0], opcode=WRITE)
    if turn:
        mounted.world.emit("sched_resume", send + 3_000, child, off_ns=send + 2_500, wake_ns=0,
                           waker_tid=0, state=0, subject_tid=child)  # fmt: skip
    mounted.world.target(child, send + 3_000 if turn else send + 79_000, b"daemon", THREAD_FUSE)
    mounted.world.emit("fuse_request", send + 80_000, child, unique=50, send_ns=send,
                       offset_bytes=0, size_bytes=8192, dev=MOUNTS[0], asking_tid=app.tid,
                       opcode=WRITE, error=0)  # fmt: skip
    app.now = send + 81_000
    mounted.world.emit("sched_resume", app.now, app.tid, off_ns=send + 300, wake_ns=send + 80_000,
                       waker_tid=child, state=2, subject_tid=app.tid)  # fmt: skip
    app.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    app.finish()
    found = analysed(mounted.world, tmp_path)
    said = [gap.reason for gap in found.quality.not_observed if gap.merged_into == "fuse.daemon"]
    unknown = "1 of 2 requests were answered by one of which nothing was known yet"
    assert said == ([] if turn else [unknown])
    assert found.quality.unfollowed == (0 if turn else 1)


def test_a_read_that_its_daemon_was_asked_for_is_not_the_page_caches(tmp_path: Path) -> None:
    """Nor is one that waits for what another one's readahead asked for."""
    machine = reading_world()
    machine.builder.block(DISK, "sda")
    mounted = Mounted(machine)
    first, second = (
        Reader(machine, APP + n, DISK, 1_000_000 + n, file_device=mounted.mount) for n in range(2)
    )
    for reader in (first, second):
        reader.enter()
        reader.cpu(2_000)
    mounted.request(first, Costs(disk=None), READ)
    wake = first.now - RUNQUEUE
    machine.emit("sched_resume", wake + 900, second.tid, off_ns=second.now, wake_ns=wake,
                 waker_tid=DAEMON, state=2, subject_tid=second.tid)  # fmt: skip
    second.now = wake + 900
    first.done(0, 8192, "daemon")
    second.done(0, 8192, "readahead under way")
    for reader in (first, second):
        reader.now += 10_000
        reader.cached(0, 8192)
    found = analyse(open_recording(write(machine, tmp_path)), op=Op.READ)
    conserves(found)
    served = found.writes.names["served"]
    for reader in (first, second):
        mine = found.writes.codes["served"][found.writes.tid == reader.tid]
        assert [served[code] for code in mine.tolist()] == reader.served
    assert accounts(found)[first.tid] == [dict(account) for account in first.truth]


def test_without_its_threads_a_daemon_is_one_row(tmp_path: Path) -> None:
    """It was mounted after the recording had begun; and that is said."""
    machine = World(deaf_to="fuse_take")
    machine.builder.block(DISK, "sda")
    mounted = Mounted(machine)
    app = mounted.app()
    for _ in range(5):
        mounted.durable_write(app, Costs(disk=None))
    found = analysed(machine, tmp_path)
    assert not found.quality.crossings
    (mine,) = accounts(found).values()
    assert all(account["fuse.call"] == 9_000 + 4_000 + 3_000 for account in mine)
    assert "fuse.call" in {gap.merged_into for gap in found.quality.not_observed}


def test_pages_that_are_written_back_are_asked_for_at_once(tmp_path: Path) -> None:
    """With a writeback cache fdatasync sends all that is dirty, then waits until the last is there.

    Its thread serves one after the other: what is behind the first ones is in the queue.
    """
    random, mounted = Random(4), Mounted(world())
    app = mounted.app()
    for _ in range(10):
        app.enter()
        app.cpu(4_000)
        first = app.now
        sent = [first + 400 * number for number in range(3)]
        for send in sent:
            mounted.unique += 2
            thread = mounted.served(send, mounted.unique, replace(drawn(random), spliced=False))
            mounted.answered(thread, send, app.tid, mounted.unique)
        wake = thread.now + INTERRUPT
        app.now = wake + RUNQUEUE
        mounted.world.emit("sched_resume", app.now, app.tid, off_ns=sent[-1] + 300, wake_ns=wake,
                           waker_tid=thread.tid, state=2, subject_tid=app.tid)  # fmt: skip
        # What it waits for is what ends last: from when that was asked for on.
        app.account += thread.account
        app.account["fuse.queue"] += sent[-1] - first
        app.account += Counter({"wakeup.interrupt": INTERRUPT, "wakeup.runqueue": RUNQUEUE})
        app.cpu(1_500)
        app.leave("fdatasync")
        app.finish()
        app.now += 10_000
    found = analysed(mounted.world, tmp_path)
    (crossing,) = found.quality.crossings
    assert (crossing.asked, crossing.followed) == (30, 30)
    holds(found, app)


@pytest.mark.parametrize(
    ("state", "context", "row"),
    [(state, *ended) for state in (INTERRUPTIBLE, 2)
     for ended in ((WAKE_UNKNOWN, "residual"), (WAKE_TIMER, "pause"))],
)  # fmt: skip
def test_a_sleep_that_a_daemon_did_not_choose(
    tmp_path: Path, state: int, context: int, row: str
) -> None:
    """It reads from a disk, or sleeps in a call that is recorded: explained by a timer only."""
    mounted = Mounted(world())
    app = mounted.app()
    app.enter()
    app.cpu(4_000)
    send = app.now
    mounted.world.emit("fuse_take", send + 1_000, DAEMON, unique=2, dev=MOUNTS[0], opcode=WRITE)
    thread = Writer(mounted.world, DAEMON, DISK, send + 1_000, floor="fuse.daemon", kind=8)
    thread.cpu(2_000)
    calls = state == INTERRUPTIBLE
    if calls:
        thread.floor, thread._enter = "syscall", thread.now
        thread.cpu(500)
    off, wake = thread.now, thread.now + 50_000
    thread.now = wake + RUNQUEUE
    thread._resume(off, wake, 0, state, context)
    thread.account += Counter({row: 50_000, "wakeup.runqueue": RUNQUEUE})
    thread.cpu(1_000)
    if calls:
        thread.leave("pwrite64", result=8192, size=8192)
    thread.floor = "fuse.daemon"
    thread.cpu(1_000)
    mounted.answered(thread, send, app.tid, 2)
    wake = thread.now + INTERRUPT
    app.now = wake + RUNQUEUE
    mounted.world.emit("sched_resume", app.now, app.tid, off_ns=send + 300, wake_ns=wake,
                       waker_tid=DAEMON, state=2, subject_tid=app.tid)  # fmt: skip
    app.account += thread.account
    app.account += Counter(
        {"fuse.queue": 1_000, "wakeup.interrupt": INTERRUPT, "wakeup.runqueue": RUNQUEUE}
    )
    app.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    app.finish()
    holds(analysed(mounted.world, tmp_path), app)


POOL = DAEMON + 7


def asked_for(world: World, asked: bool, *processes: int) -> None:
    """The recorder was asked for them, before they were found to serve anybody."""
    for process in processes if asked else ():
        world.emit("thread", 1, process, tgid=process, subject_tid=process, kind=THREAD_TARGET,
                   comm=b"daemon")  # fmt: skip


def unasked_of(found: Breakdown) -> list[str]:
    return [gap.reason for gap in found.quality.not_observed if gap.layer == "daemons"]


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("beside", [True, False])
def test_what_another_thread_of_the_daemon_does_meanwhile(
    tmp_path: Path, *, beside: bool, asked: bool
) -> None:
    """It hands the sync on to a pool, and answers itself (qemu-storage-daemon): while a request was
    in its hands, or after. Nothing ties that to it, nor tells that it was for another."""
    mounted = Mounted(world())
    app = mounted.app()
    asked_for(mounted.world, asked, DAEMON, POOL + 1)
    for tgid, subject, comm in ((DAEMON, POOL, b"pool"), (POOL + 1, POOL + 1, b"other")):
        mounted.world.emit("thread", 1, subject, tgid=tgid, subject_tid=subject, kind=THREAD_FUSE,
                           comm=comm)  # fmt: skip
    for number in range(5):
        costs = Costs(disk=Request(scheduler=None) if number == 4 else None, wait=70_000)
        mounted.durable_write(app, costs)
        answered = mounted.free_ns - 2_000
        enter = answered - costs.after - 60_000 if beside and number < 3 else answered + 500
        for tid, tgid in ((POOL, DAEMON), (POOL + 1, POOL + 1)):
            mounted.world.emit("syscall", enter + 1_400, tid, enter_ns=enter, inode=77, dev=DISK,
                               offset_bytes=0, size_bytes=0, result=0, tgid=tgid, open_flags=0,
                               call=7)  # fmt: skip
    found = analysed(mounted.world, tmp_path)
    holds(found, app)
    (crossing,) = found.quality.crossings
    assert (crossing.asked, crossing.followed) == (5, 5)
    assert found.quality.unfollowed == (3 if beside else 0)
    counts = {OTHER_THREADS: 3, FOR_OTHERS: 7} if beside else {FOR_OTHERS: 10}
    assert found.left_out == (counts if asked else {})
    said = "3 while they had some of these, by other threads, tied to none, 7 for none of these"
    told = [line.split("serve: ")[1] for line in unasked_of(found)]
    assert told == ([] if asked else [said if beside else "10 for none of these"])
    text = " ".join(sentences(summarise(found)))
    assert ("not the device" in text) is not beside


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("own", [0, 3])
def test_what_a_daemon_makes_durable_for_nobody_here_is_counted(
    tmp_path: Path, own: int, *, asked: bool
) -> None:
    """Its own database, or what a process asked for that is not recorded: of those who were asked
    for it is no write, unless the daemon was one of them."""
    mounted = Mounted(world())
    asked_for(mounted.world, asked, DAEMON)
    app = mounted.app()
    for _ in range(5):
        mounted.durable_write(app, Costs())
    thread = Writer(mounted.world, DAEMON, DISK, mounted.free_ns + 5_000, kind=THREAD_FUSE)
    for _ in range(own):
        thread.enter()
        thread.cpu(9_000)
        thread.leave("fdatasync")
        thread.now += 1_000
    found = analysed(mounted.world, tmp_path)
    holds(found, app)
    assert found.left_out == ({FOR_OTHERS: own} if own and asked else {})
    assert [line.split(",")[0] for line in unasked_of(found)] == (
        [] if asked or not own else ["3 more writes of theirs"]
    )


@pytest.mark.parametrize(
    ("mount", "on", "told"),
    [(MOUNTS[0], None, True), (MOUNTS[1], None, False), (MOUNTS[1], DISK, False),
     (MOUNTS[1], MOUNTS[1], True), (MOUNTS[0], MOUNTS[1], False)],
)  # fmt: skip
def test_what_others_ask_while_a_daemon_sleeps(
    tmp_path: Path, mount: int, on: int | None, *, told: bool
) -> None:
    """It may wait for what is asked of itself, and in a call (``on``) for what its file needs."""
    mounted = Mounted(world())
    app = mounted.app()
    app.enter()
    send = app.now
    mounted.world.emit("fuse_take", send + 1_000, DAEMON, unique=2, dev=MOUNTS[0], opcode=WRITE)
    thread = Writer(mounted.world, DAEMON, on or DISK, send + 1_000, kind=THREAD_FUSE)
    if on:
        thread.enter()
        thread.cpu(500)
    off, asked, wake = thread.now, thread.now + 9_000, thread.now + 70_000
    thread.now = wake + RUNQUEUE
    thread._resume(off, wake, STRANGER, INTERRUPTIBLE, WAKE_UNKNOWN)
    if on:
        thread.leave("pwrite64", result=8192, size=8192)
    mounted.answered(thread, send, app.tid, 2)
    app.now = thread.now + RUNQUEUE
    app.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    app.finish()
    mounted.world.emit("fuse_request", asked + 40_000, STRANGER + 1, unique=9, send_ns=asked,
                       offset_bytes=0, size_bytes=8192, dev=mount, asking_tid=STRANGER,
                       opcode=WRITE, error=0)  # fmt: skip
    quality = analysed(mounted.world, tmp_path).quality
    place = f"0:{mount & 0xFFFFF}"
    request = LeftOver("local", "FUSE request", place, 1, 40_000)
    assert quality.background == (request,)
    assert quality.left_over == ((request,) if told else ())


@pytest.mark.parametrize("kind", ["fuse.sshfs", "9p", "nfs4", "btrfs"])
def test_a_loop_device_whose_file_is_on_one_is_told_of(kind: str, tmp_path: Path) -> None:
    """What it asks of a daemon, or another machine, is tied to none of its own requests."""
    mounted = Mounted(world())
    mounted.world.builder.mount(mounted.mount, "/mnt", kind)
    mounted.world.builder.block(
        device(7, 0), "loop0", lower_keys=(mounted.mount,), backing="/img", backing_inode=13
    )
    mounted.world.emit("block_rq_issue", 900_000, 66, request_key=1, bio_key=2, dev=device(7, 0),
                       sector=8, size_bytes=4096, flags=1)  # fmt: skip
    mounted.durable_write(mounted.app(), Costs())
    found = analysed(mounted.world, tmp_path)
    gaps = {(gap.where, gap.merged_into) for gap in found.quality.not_observed}
    assert (("below loop0", "device") in gaps) == (kind != "btrfs")
