# SPDX-License-Identifier: Apache-2.0
"""A cluster of Ceph with known truth: a client's disk, and OSDs, each machine with its own clock.

An operation goes to its primary OSD, which has the copies made while its own store writes: first
the data to the disk, then, by a thread that does so for all, the log. It waits for the slowest.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from iostrata.analysis import analyse
from iostrata.model import Breakdown, Op
from iostrata.recording import open_recording
from iostrata.trace.layout import THREAD_DAEMON, WAKE_INTERRUPT, WAKE_TIMER
from tests.reading import O_DIRECT
from tests.stitch.test_truth import conserves
from tests.synthetic import O_DSYNC, Clock, Request, World, Writer, device, submit

RBD, DISK = device(252, 0), device(8, 0)
CLIENT_KIND, OSD_KIND = 8, 4
OSD_OP, OSD_OPREPLY, OSD_REPOP, OSD_REPOPREPLY = 42, 43, 112, 113
CLIENT = 4130
APART = 5
OF_DEVICE, WRITES_PARTS = 0x4000C002, 8
ASKS = 40
"""Until a call has asked for a request, in ns."""
WORKER = 91
"""Of the kernel's: hands on what a limit had held back."""
"""Between two messages that one call sends, in ns."""


@dataclass
class Costs:
    """Where one OSD spends an operation's time, in ns. ``data`` None: it goes with the log.

    ``deferred``: it is written to its place ``lazy`` after the log had it, which nobody waits for.
    ``aside``: for how long it was put aside again, and the thread was not on the CPU, once that had
    taken it up.
    ``turn``: of messages for copies, all of which are handed over before ``added`` has passed.
    ``kept``: for how long its reader was off the CPU again before it had read the message, in a
    sleep of that ``state`` (0: none, runnable throughout); ``between``: it had its CPU for so long
    in the middle of that.
    ``held``: for how long a control group's limit held back its data, and then its log, which
    another thread has then.
    ``shards``: for how long others, to which it has given parts, were at these when the log had
    its own; ``handed``: for how long it was with others, to which it was handed on, and it does
    nothing but answer.
    ``looks``: it writes nothing. ``error``: only that its answer is sent is told.
    ``early``: by how much its reader was woken before the message came; None: it did not sleep.
    ``timed``: by a timer of its own. ``quota``, ``crowd``: for how long, of ``finished`` and of
    ``answers``, the thread that does that has no CPU, by a quota, and by others.
    """

    queue: int = 7_000
    begins: int = 30_000
    added: int = 3_000
    data: Request | None = field(default_factory=lambda: Request(scheduler=None))
    ready: int = 4_000
    kv_wake: int = 2_000
    kv_runqueue: int = 900
    logs: int = 5_000
    log: Request = field(default_factory=lambda: Request(scheduler=None, sector=8192, size=4096))
    synced: int = 1_500
    finished: int = 6_000
    answers: int = 8_000
    woken: int = 900
    reads: int = 2_000
    sends: int = 1_500
    quota: int = 0
    crowd: int = 0
    early: int | None = 0
    timed: bool = False
    kept: int = 0
    between: int = 0
    state: int = 0
    aside: int = 0
    turn: int = 900
    held: tuple[int, int] = (0, 0)
    shards: int = 0
    handed: int = 0
    looks: bool = False
    error: bool = False
    deferred: Request | None = None
    lazy: int = 20_000

    def there(self) -> Counter[str]:
        """What is more of ``kept`` than its wait for a CPU is the message's way, as reading is."""
        late = 20 * (1 if not self.between else 2) if self.state else self.kept - self.between
        return Counter({
            "osd.queue": self.queue,
            "wakeup.runqueue": self.woken + (late if self.kept else 0),
            "network.there": self.kept - (late if self.kept else 0) + self.reads,
        })  # fmt: skip

    def computed(self) -> Counter[str]:
        taken = self.begins + self.aside + self.answers + self.sends
        return Counter({"osd.op": taken, "wakeup.runqueue": self.crowd})

    def own(self) -> Counter[str]:
        """From the transaction's begin until the log has it."""
        if self.looks:
            return Counter()
        asks, other = (ASKS, 700) if self.held[1] else (0, 0)
        log = self.kv_wake + self.logs + asks + other + self.synced + self.finished
        rows = Counter({
            "bluestore.log": log, "wakeup.interrupt": 0 if other else 500,
            "wakeup.runqueue": self.kv_runqueue + (500 if other else 700),
            "throttle.cpu": self.quota, "throttle.io": self.held[1] - asks,
            "block.Q2D": self.log.queue, "device.journal": self.log.device,
        })  # fmt: skip
        if self.data:
            asks = ASKS * (self.held[0] > 0)
            rows += Counter({
                "block.Q2D": self.data.queue, "device.data": self.data.device,
                "bluestore.data": asks + self.ready, "throttle.io": self.held[0] - asks,
            })  # fmt: skip
        return rows

    def stored(self) -> int:
        return sum(self.own().values())


class Machine:
    def __init__(self, name: str, clock: Clock = int, role: str = "server") -> None:
        self.name, self.role, self.world = name, role, World(clock=clock)
        self.world.builder.block(DISK, "sda")


@dataclass
class Copy:
    """One that the primary has made: by whom, and how long the way is in each direction.

    ``turn``: of its message, None: as of the primary's others. ``woken``: until the primary's
    reader, which sleeps, has its CPU for the answer; ``reads``: then, until it has read it.
    """

    osd: Osd
    costs: Costs
    way: int = 40_000
    turn: int | None = None
    woken: int = 0
    reads: int = 0


class Osd:
    """A process with a thread for each of its purposes; ``known``: it is told which OSD it is;
    ``anew``: it is not the first that is that one."""

    def __init__(
        self, machine: Machine, number: int, known: bool = True, anew: bool = False
    ) -> None:
        self.machine, self.number, self.known = machine, number, known
        self.tgid = 1_000 + 100 * number + 10 * anew
        names = (b"msgr-worker-0", b"tp_osd_tp", b"bstore_kv_sync", b"bstore_kv_final",
                 b"bstore_aio")  # fmt: skip
        self.reader, self.worker, self.kv, self.final, self.aio = range(self.tgid, self.tgid + 5)
        for tid, comm in zip(range(self.tgid, self.tgid + 5), names, strict=True):
            machine.world.emit("thread", 1, tid, tgid=self.tgid, subject_tid=tid, comm=comm,
                               process=b"ceph-osd", kind=THREAD_DAEMON)  # fmt: skip
        self.numbers = count(1)
        self.kv_since = self.read_since = self.aio_since = 10
        self.older = 0xABC

    def serve(
        self, arrived: int, number: int, peer: int, costs: Costs, copies: Sequence[Copy] = (),
        size: int = 8192,
    ) -> tuple[int, Counter[str]]:  # fmt: skip
        """When it has answered, and where the time went since the message was there."""
        world, kind = self.machine.world, OSD_KIND if size == 0 else CLIENT_KIND
        op = world.pointer("op", arrived, arrived + 90_000_000) >> 4 | self.number << 56
        told = {"tgid": self.tgid, "osd_number": self.number if self.known else -1}
        asked = OSD_REPOP if kind == OSD_KIND else OSD_OP
        there = arrived + costs.woken + costs.kept + costs.reads
        if costs.early is not None:
            world.emit("sched_resume", arrived + costs.woken, self.reader, off_ns=self.read_since,
                       wake_ns=arrived - costs.early, state=1, waker_tid=0,
                       waker_context=WAKE_TIMER if costs.timed else WAKE_INTERRUPT,
                       subject_tid=self.reader)  # fmt: skip
        if costs.kept:
            off, on = arrived + costs.woken, there - costs.reads
            each = (costs.kept - costs.between) // 2
            halves = [(off, off + each), (on - each, on)]
            for begin, end in halves if costs.between else [(off, on)]:
                world.emit("sched_resume", end, self.reader, off_ns=begin, state=costs.state,
                           waker_tid=0, wake_ns=end - 20 if costs.state else 0,
                           subject_tid=self.reader)  # fmt: skip
        self.read_since = there + 50
        world.emit("osd_message", there, self.reader, op_key=op, number=number, peer=peer,
                   type=asked, peer_kind=kind, message_key=0, **told)  # fmt: skip
        taken = there + costs.queue
        world.emit("osd_work", taken, self.worker, request_key=op)
        if costs.aside:
            world.emit("osd_work", taken + 300, self.worker, request_key=0)
            world.emit("sched_resume", taken + costs.aside - 400, self.worker, off_ns=taken + 400,
                       state=0, waker_tid=0, wake_ns=0, subject_tid=self.worker)  # fmt: skip
            taken += costs.aside
            world.emit("osd_work", taken, self.worker, request_key=op)
        rows = costs.there() + costs.computed()
        now = taken + costs.begins
        ends = self._copied(op, now, copies, costs.turn) if copies else []
        begun = now + (costs.added if copies else 0)
        stored = begun + costs.stored()
        if costs.looks:
            world.emit("osd_work", begun, self.worker, request_key=0)
        else:
            self._store(op, begun, costs)
        done = max([stored, *(end for end, _ in ends)])
        own = {f"{self.machine.name}/{row}": ns for row, ns in (rows + costs.own()).items()}
        found = Counter(own)
        if costs.shards:
            # Its thread is at a message of which nothing is told, in place of an older one.
            done += costs.shards
            found[f"{self.machine.name}/osd.replicas"] += costs.shards
            world.emit("osd_work", done, self.final, request_key=self.older)
        if costs.handed:
            world.emit("osd_written", begun + 900, self.reader, op_key=0, number=77, peer=0,
                       message_key=5, type=OSD_OP, peer_kind=0, **told)  # fmt: skip
            done += costs.handed
            # When theirs came is not told, only that its own is sent.
            late = costs.answers + costs.sends
            found[f"{self.machine.name}/osd.replicas"] += costs.handed + late
            found[f"{self.machine.name}/osd.op"] -= late
        self.older = op
        if ends and done > stored:
            slowest = max(ends, key=lambda each: each[0])
            found = Counter({f"{self.machine.name}/{row}": ns for row, ns in rows.items()})
            found += slowest[1]
        elif ends:
            found[f"{self.machine.name}/osd.op"] += costs.turn
            found[f"{copies[0].osd.machine.name}/network.there"] += costs.added - costs.turn
        answered, answer = done + costs.answers + costs.crowd, OSD_OPREPLY
        if costs.crowd:
            on = answered - 50
            world.emit("sched_resume", on, self.final, off_ns=on - costs.crowd, state=0,
                       waker_tid=0, wake_ns=0, subject_tid=self.final)  # fmt: skip
        message = world.pointer("message", answered, answered + costs.sends)
        if kind == OSD_KIND:
            answer = OSD_REPOPREPLY
            world.emit("osd_send", answered, self.final, op_key=0, number=number, peer=peer,
                       message_key=message, type=answer, peer_kind=OSD_KIND, **told)  # fmt: skip
        elif not costs.error:
            size = 0 if costs.looks else size
            world.emit("osd_reply", answered, self.final, op_key=op, size_bytes=size)
            if costs.shards:
                world.emit("osd_work", answered + 100, self.final, request_key=0)
        end = answered + costs.sends
        world.emit("osd_written", end, self.reader, op_key=0, number=number, peer=0,
                   message_key=message, type=answer, peer_kind=0, **told)  # fmt: skip
        return end, found

    def _copied(
        self, op: int, now: int, copies: Sequence[Copy], turn: int
    ) -> list[tuple[int, Counter[str]]]:
        """All bear one number. The way of a message and of its answer begins as it is sent."""
        world, number, ends = self.machine.world, next(self.numbers), []
        told = {"tgid": self.tgid, "osd_number": self.number if self.known else -1}
        for place, copy in enumerate(copies):
            sent, peer = now + APART * place, copy.osd.number
            message = world.pointer("message", sent, sent + turn)
            world.emit("osd_send", sent, self.worker, op_key=op, number=number, peer=peer,
                       message_key=message, type=OSD_REPOP, peer_kind=OSD_KIND, **told)  # fmt: skip
            waits = turn if copy.turn is None else copy.turn
            sent += waits
            world.emit("osd_written", sent, self.reader, op_key=0, number=number, peer=0,
                       message_key=message, type=OSD_REPOP, peer_kind=0, **told)  # fmt: skip
            answered, rows = copy.osd.serve(
                sent + copy.way, number, self.number, copy.costs, size=0
            )
            there = answered + copy.way
            end = there + copy.woken + copy.reads
            if copy.woken:
                world.emit("sched_resume", there + copy.woken, self.reader, off_ns=there - 1_000,
                           wake_ns=there, state=1, waker_tid=0, waker_context=WAKE_INTERRUPT,
                           subject_tid=self.reader)  # fmt: skip
                self.read_since = max(self.read_since, end)
            world.emit("osd_message", end, self.reader, op_key=op + 7 + place, number=number,
                       peer=peer, message_key=0, type=OSD_REPOPREPLY, peer_kind=OSD_KIND,
                       **told)  # fmt: skip
            rows[f"{copy.osd.machine.name}/network.there"] += copy.way
            rows[f"{copy.osd.machine.name}/network.back"] += copy.way
            # Since it was handed over it is waited for, and nothing else.
            rows[f"{self.machine.name}/osd.op"] += APART * place + waits + end - there
            ends.append((end, rows))
        return ends

    def _store(self, op: int, begun: int, costs: Costs) -> None:
        world, disk = self.machine.world, DISK
        key = {"op_key": op, "transaction_key": op ^ 1 << 55}
        world.emit("bluestore_begin", begun, self.worker, **key)
        ready = begun
        if costs.data:
            world.emit("bluestore_data", begun, self.worker, **key)
            ready = self._asked(self.worker, begun, costs.data, costs.held[0]) + costs.ready
        later = {"transaction_key": key["transaction_key"], "op_key": 0}
        world.emit("bluestore_ready", ready, self.final, **later)
        world.emit("osd_work", ready if not costs.data else begun + 50, self.worker, request_key=0)
        wake = ready + costs.kv_wake
        now = wake + costs.kv_runqueue
        world.emit("sched_resume", now, self.kv, off_ns=self.kv_since, wake_ns=wake, state=1,
                   waker_tid=self.worker, subject_tid=self.kv)  # fmt: skip
        world.emit("bluestore_submit", now + 100, self.kv, **later)
        off = now + costs.logs
        now = self._asked(self.kv, off, costs.log, costs.held[1])
        wake, waker = (700, self.aio) if costs.held[1] else (500, 0)
        if waker:
            world.emit("sched_resume", now + 600, waker, off_ns=self.aio_since, wake_ns=now + 500,
                       state=1, waker_tid=0, waker_context=WAKE_INTERRUPT,
                       subject_tid=waker)  # fmt: skip
        self.aio_since = now + 800
        world.emit("sched_resume", now + 1_200, self.kv, off_ns=off, wake_ns=now + wake, state=2,
                   waker_tid=waker, subject_tid=self.kv)  # fmt: skip
        now += 1_200 + costs.synced
        world.emit("bluestore_synced", now, self.kv, op_key=0, transaction_key=0)
        self.kv_since = now + 200
        done = now + costs.finished + costs.quota
        if costs.quota:
            world.emit("sched_throttled", done - 200, self.final, subject_tid=self.final,
                       throttled_ns=costs.quota, cgroup=7, own=0)  # fmt: skip
            world.emit("sched_resume", done - 200, self.final, off_ns=done - 200 - costs.quota,
                       state=0, waker_tid=0, wake_ns=0, subject_tid=self.final)  # fmt: skip
        world.emit("bluestore_done", done, self.final, **later)
        if costs.deferred:
            submit(world, disk, self.final, done + costs.lazy, costs.deferred)

    def _asked(self, tid: int, asked: int, request: Request, held: int) -> int:
        """When a request of libaio to the disk was complete, be it held back for so long."""
        world, place = self.machine.world, {"inode": 12, "dev": DISK, "rwf": 0}
        place |= {"open_flags": OF_DEVICE, "opcode": WRITES_PARTS, "iocb_key": tid << 20}
        world.emit("aio_submit", asked + ASKS, tid, enter_ns=asked, size_bytes=0, order=0,
                   offset_bytes=request.sector * 512, **place)  # fmt: skip
        by, begin = (WORKER if held else tid), asked + held
        done = begin + sum(submit(world, DISK, by, begin, request, held > 0, cgroup=held).values())
        world.emit("aio_complete", done, self.aio, enter_ns=asked, result=request.size,
                   **place)  # fmt: skip
        return done


@dataclass
class Part:
    """An operation of a write: on which OSD, and what it costs there and on the way.

    ``before``: which OSD it was sent to first, that did not answer for so long. ``turn``: until the
    client's messenger comes to it, if that is told; ``hands``: of the way, until it has handed all
    of it over; ``reads``: until it comes to the answer.
    """

    osd: Osd
    costs: Costs
    copies: Sequence[Copy] = ()
    way: int = 50_000
    before: tuple[Osd, int] | None = None
    turn: int = 0
    hands: int = 0
    reads: int = 0


class Client(Machine):
    """``told``: when its messenger comes to what it sends and was answered."""

    def __init__(self, clock: Clock = int, number: int = CLIENT, told: bool = False) -> None:
        super().__init__("client", clock, "host")
        self.number, self.told = number, told
        self.world.builder.block(RBD, "rbd0")
        self.numbers = count(3_000)
        self.writer = Writer(self.world, 200, RBD, 1_000_000)

    def write(self, *parts: Part) -> None:
        """One O_DSYNC write, of which the last part to be answered is waited for."""
        world, writer = self.world, self.writer
        begin = writer.now
        writer.enter()
        writer.now += 4_000
        queued = writer.now
        issued = queued + 700
        rq = world.pointer("rq", queued, queued + 90_000_000)
        place = {"dev": RBD, "sector": 4096, "size_bytes": 8192, "flags": 1}
        keys = {"request_key": rq, "bio_key": rq + 8}
        world.emit("block_bio_queue", queued, writer.tid, bio_key=rq + 8, kernel_thread=0, **place)
        world.emit("block_rq_issue", issued, writer.tid, **keys, **place)
        ends = []
        for which, part in enumerate(parts):
            sent, number = issued + 3_000 + APART * which, next(self.numbers)
            told = {"request_key": rq, "number": number, "client": self.number, "dev": RBD}
            first, silent = part.before or (part.osd, 0)
            world.emit("rbd_sent", sent, 66, **told, osd_number=first.number)
            began = sent + part.turn
            replied, rows = part.osd.serve(
                began + silent + part.way, number, self.number, part.costs, part.copies
            )
            there = replied + part.way
            answered = there + part.reads
            told["osd_number"] = part.osd.number
            if self.told:
                world.emit("rbd_message", began, 68, connection_key=part.osd.number + 9, **told)
                world.emit("rbd_handed", began + part.hands, 68,
                           connection_key=part.osd.number + 9)  # fmt: skip
                told["ready_ns"] = there
            world.emit("rbd_answered", answered, 67, **told)
            rows[f"{part.osd.machine.name}/network.there"] += part.way
            rows[f"{part.osd.machine.name}/network.back"] += part.way
            rows[f"{part.osd.machine.name}/unfollowed"] += silent
            if self.told:
                rows["client/initiator.submit"] += part.turn
                rows["client/initiator.send"] += part.hands
                rows[f"{part.osd.machine.name}/network.there"] -= part.hands
                rows["client/initiator.complete"] += part.reads
            else:
                rows[f"{part.osd.machine.name}/network.there"] += part.turn
                rows[f"{part.osd.machine.name}/network.back"] += part.reads
            if which:
                rows[f"{parts[0].osd.machine.name}/network.there"] += APART * which
            ends.append((answered, rows))
        answered, rows = max(ends, key=lambda each: each[0])
        complete = answered + 2_000
        world.emit("block_rq_complete", complete, 0, **keys, **place)
        writer._wait(complete - queued, 1_000, 2_000)
        writer.now += 1_500
        writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
        rows += Counter({
            "client/syscall": 4_000 + 1_500, "client/block.Q2D": 700,
            "client/initiator.submit": 3_000, "client/initiator.complete": 2_000,
            "client/wakeup.interrupt": 1_000, "client/wakeup.runqueue": 2_000,
        })  # fmt: skip
        assert sum(rows.values()) == writer.now - begin
        writer.account = rows
        writer.finish()
        writer.now += 10_000

    def read(self, osd: Osd, took: int = 600_000) -> None:
        """With O_DIRECT, of an OSD of which is not told that it was asked for this."""
        world, writer, number = self.world, self.writer, next(self.numbers)
        writer.enter()
        queued = writer.now + 4_000
        rq = world.pointer("rq", queued, queued + 90_000_000)
        place = {"dev": RBD, "sector": 4096, "size_bytes": 8192, "flags": 0}
        keys = {"request_key": rq, "bio_key": rq + 8}
        told = {"request_key": rq, "number": number, "client": self.number, "dev": RBD}
        told["osd_number"] = osd.number
        writer.now = queued
        world.emit("block_bio_queue", queued, writer.tid, bio_key=rq + 8, kernel_thread=0, **place)
        world.emit("block_rq_issue", queued + 700, writer.tid, **keys, **place)
        world.emit("rbd_sent", queued + 3_000, 66, **told)
        world.emit("rbd_answered", queued + took, 67, **told)
        world.emit("block_rq_complete", queued + took + 2_000, 0, **keys, **place)
        writer._wait(took + 2_000, 1_000, 2_000)
        writer.now += 1_500
        writer.leave("pread64", flags=O_DIRECT, result=8192, size=8192)
        writer.now += 10_000


def found_in(path: Path, *machines: Machine, op: Op = Op.SYNC) -> Breakdown:
    for machine in machines:
        machine.world.builder.write(path / machine.name)
    described = [
        {"name": each.name, "role": each.role, "directory": each.name} for each in machines
    ]
    text = {"format": "iostrata.recording/1", "created": "", "machines": described}
    (path / "recording.json").write_text(json.dumps(text))
    breakdown = analyse(open_recording(path), op)
    conserves(breakdown)
    return breakdown


def account(rows: dict[str, int]) -> dict[str, int]:
    """Only the clocks' relation splits the way to a machine from the way back."""
    found: Counter[str] = Counter()
    for row, ns in rows.items():
        machine, _, name = row.partition("/")
        found[f"{machine}/way" if name.startswith("network.") else row] += ns
    return {row: ns for row, ns in found.items() if ns}
