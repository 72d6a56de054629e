# SPDX-License-Identifier: Apache-2.0
"""Any number of machines that serve each other over NFS, with known truth.

A thread asks for several things at once and sleeps until the last of them is there:
requests of its own disk, calls to other machines (or to its own), whose threads do the
same. The account is kept instant by instant: of what is asked for at that instant, that
which ends last holds it. Nothing here looks at spans, ranks or keys other than those it
emits.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from random import Random
from zlib import crc32

from iostrata.trace.layout import NFS_OTHER, NFS_WRITE
from tests.synthetic import O_DSYNC, Request, World, device, submit

DISK, MOUNT = device(8, 0), device(0, 44)
NFS_PORT, RPCIOD = 2049, 50_000
"""What ends a call wakes who waits for it, before it ends another's: a thread each."""
STEP = 400
"""From one thing asked for to the next."""
Clock = Callable[[int], int]
Stretch = tuple[str, int, int]
"""Who held the time, from when to when."""


@dataclass
class Disk:
    """A request of the machine's own disk."""

    queue: int = 300
    device: int = 30_000


@dataclass
class Call:
    """A call to a machine; ``work``: what its thread then waits for, all at once; ``operation``,
    ``stable`` and ``key``: what its client tells that it is, and for which request."""

    to: Machine
    work: Sequence[Disk | Call] = ()
    queue: int = 5_000
    there: int = 40_000
    svc_queue: int = 3_000
    svc: int = 7_000
    back: int = 35_000
    reply: int = 4_000
    operation: int = NFS_WRITE
    stable: int = 2
    key: int = 0


@dataclass
class Served:
    """The calls of one write of a thread so far, by machine: each has a thread of its own."""

    writer: int
    calls: Counter[str] = field(default_factory=Counter)

    def thread(self, machine: str) -> int:
        self.calls[machine] += 1
        return 20_000 + self.writer * 64 + self.calls[machine]


@dataclass(frozen=True)
class Connection:
    """As a server knows it: the ports, and what it makes of the addresses (0: nothing)."""

    ports: int
    ends: int


@dataclass
class Machine:
    """``port``: of its connections, those to one more server being one higher.

    ``xid``: of the call before the first one of each connection; 0: another on each, as in a
    kernel. ``address``: what its recorder tells of it; "": nothing, as older ones.
    """

    name: str
    clock: Clock = int
    role: str = "local"
    port: int = 800
    xid: int = 0
    address: str = ""
    truth: list[Counter[str]] = field(default_factory=list)
    latencies: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.world = World(clock=self.clock)
        self.world.builder.block(DISK, "sda")
        self._servers: list[str] = []
        self._xids: dict[str, int] = {}
        self._threads: set[int] = set()
        self._sectors = count(4096, 64)

    def connection(self, server: Machine) -> int:
        if server.name not in self._servers:
            self._servers.append(server.name)
        return (self.port + self._servers.index(server.name)) << 16 | NFS_PORT

    def addresses(self, client: str) -> int:
        """What a client's call and this server's service of it tell of both ends' addresses."""
        known = self.address and client
        return crc32(f"{client} to {self.address}".encode()) % 65535 + 1 if known else 0

    def next_xid(self, server: Machine) -> int:
        first = self.xid or crc32(f"{self.name} to {server.name}".encode()) // 2
        self._xids[server.name] = self._xids.get(server.name, first) + 1
        return self._xids[server.name]

    def thread(self, tid: int) -> int:
        """A thread of the server, told of once."""
        if tid not in self._threads:
            self._threads.add(tid)
            self.world.target(tid, kind=5, comm=b"nfsd")
        return tid

    # -- what a thread does ----------------------------------------------------

    def write(
        self,
        tid: int,
        begin: int,
        work: Sequence[Disk | Call],
        then: Sequence[Disk | Call] = (),
    ) -> int:
        """An O_DSYNC write of a thread of the workload; when it returned.

        ``then``: what it asks for when all of the work is done.
        """
        if tid not in self._threads:
            self._threads.add(tid)
            self.world.target(tid)
        before, after = 2_000, 1_000
        served = Served(tid)
        asked = begin + before
        on, held = self.await_all(tid, asked, work, served)
        if then:
            on, more = self.await_all(tid, on + before, then, served)
            held = [*held, *more]
        end = on + after
        self.world.emit("syscall", end, tid, enter_ns=begin, inode=12, offset_bytes=0,
                        dev=MOUNT if any(isinstance(one, Call) for one in work) else DISK,
                        result=8192, size_bytes=8192, tgid=tid, open_flags=O_DSYNC,
                        call=2)  # fmt: skip
        account: Counter[str] = Counter()
        for row, since, until in held:
            account[row] += until - since
        account[f"{self.name}/syscall"] += end - begin - account.total()
        self.truth.append(+account)
        self.latencies.append(end - begin)
        return end

    def await_all(
        self, tid: int, begin: int, work: Sequence[Disk | Call], served: Served
    ) -> tuple[int, list[Stretch]]:
        """When the thread runs again, and who held the time: its own time is left out."""
        if not work:
            return begin, []
        asks: list[tuple[int, int, list[Stretch]]] = []
        own: list[Stretch] = []
        ends = []
        for number, one in enumerate(work):
            start = begin + number * STEP
            if isinstance(one, Disk):
                issue, complete = self._request(tid, start, one)
                own.append((f"{self.name}/block.Q2D", start, issue))
                asks.append((issue, complete, [(f"{self.name}/device.data", issue, complete)]))
                ends.append(complete)
            else:
                send, reply, held = self._call(tid, start, one, served)
                own.append((f"{self.name}/rpc.queue", start, send))
                own.append((f"{self.name}/rpc.reply", reply, reply + one.reply))
                asks.append((send, reply, held))
                ends.append(reply + one.reply)
        off = begin + (len(work) - 1) * STEP + 100
        last = max(ends)
        wake, on = last + 700, last + 1_800
        waker = 0 if isinstance(work[ends.index(last)], Disk) else RPCIOD + tid
        self.world.emit("sched_resume", on, tid, off_ns=off, wake_ns=wake, waker_tid=waker,
                        state=2, subject_tid=tid)  # fmt: skip
        own.append((f"{self.name}/wakeup.interrupt", last, wake))
        own.append((f"{self.name}/wakeup.runqueue", wake, on))
        return on, instant_by_instant(asks, own)

    def _request(self, tid: int, start: int, one: Disk) -> tuple[int, int]:
        request = Request(one.queue, None, one.device, sector=next(self._sectors))
        submit(self.world, DISK, tid, start, request)
        return start + one.queue, start + one.queue + one.device

    def _call(
        self, tid: int, made: int, one: Call, served: Served
    ) -> tuple[int, int, list[Stretch]]:
        send = made + one.queue
        xid, connection, there = self.next_xid(one.to), self.connection(one.to), send + one.there
        ends = one.to.addresses(self.address)
        reply, held = one.to.serve(there, one, xid, Connection(connection, ends), served)
        world = self.world
        ended = reply + one.reply
        task = world.pointer("task", made, ended + 1)
        world.emit("nfs_call", made, tid, call_key=task, inode=12, dev=MOUNT, offset_bytes=0,
                   size_bytes=8192, stable=one.stable, operation=one.operation,
                   request_key=one.key)  # fmt: skip
        world.emit("rpc_call", ended, RPCIOD + tid, call_key=task, send_ns=send, ready_ns=reply,
                   reply_ns=reply + 200, xid=xid, connection=connection, ends=ends)  # fmt: skip
        name = one.to.name
        ways = [(f"{name}/network.there", send, there)]
        return send, reply, [*ways, *held, (f"{name}/network.back", reply - one.back, reply)]

    def serve(
        self, there: int, one: Call, xid: int, by: Connection, served: Served
    ) -> tuple[int, list[Stretch]]:
        """When the caller has the reply, and who held the time at this machine and below it."""
        tid = self.thread(served.thread(self.name))
        taken = there + one.svc_queue
        on, held = self.await_all(tid, taken + one.svc, one.work, served)
        done = on + 400
        self.world.emit("svc_call", done, tid, enqueue_ns=there, dequeue_ns=taken,
                        receive_ns=taken + 50, offset_bytes=0, size_bytes=8192, xid=xid,
                        connection=by.ports, ends=by.ends,
                        operation=one.operation % NFS_OTHER)  # fmt: skip
        own = [(f"{self.name}/svc.queue", there, taken), (f"{self.name}/svc", taken, done)]
        return done + one.back, instant_by_instant([(b, e, [(r, b, e)]) for r, b, e in held], own)


def instant_by_instant(
    asks: Sequence[tuple[int, int, list[Stretch]]], own: Sequence[Stretch]
) -> list[Stretch]:
    """Of the asks at an instant the one that ends last; else the last of its own that is at work.

    An ask may not fill its time itself; then its own stretch holds it.
    """
    times = sorted({time for b, e, held in asks for time in (b, e, *inside(held))}
                   | {time for _, b, e in own for time in (b, e)})  # fmt: skip
    found: list[Stretch] = []
    for since, until in pairwise(times):
        at_work = [(e, -b, held) for b, e, held in asks if b <= since < e]
        rows = sorted((row for row, b, e in own if b <= since < e), key=deeper)
        if at_work:
            held = max(at_work, key=lambda ask: ask[:2])[2]
            rows = [row for row, b, e in held if b <= since < e]
        if rows:
            found.append((rows[-1], since, until))
    return found


def deeper(row: str) -> int:
    """Where a thread's own doings are in the order of what holds an instant."""
    name = row.partition("/")[2]
    order = ("svc", "svc.queue", "rpc.queue", "rpc.reply", "wakeup.runqueue", "wakeup.interrupt")
    return order.index(name) if name in order else len(order)


def inside(held: Sequence[Stretch]) -> list[int]:
    return [time for _, begin, end in held for time in (begin, end)]


def drawn(random: Random, to: Machine, work: Sequence[Disk | Call] = ()) -> Call:
    """As long there as back, so that causality finds the very relation of the clocks."""

    def some(upto: int) -> int:
        return random.randint(200, upto)

    way = some(90_000)
    return Call(to, work, some(9_000), way, some(9_000), some(20_000), way, some(9_000))


def recorded(path: Path, *machines: Machine) -> Path:
    """Their recording, in this order."""
    path.mkdir(exist_ok=True)
    described = []
    for machine in machines:
        machine.world.builder.write(path / machine.name)
        described.append({"name": machine.name, "role": machine.role, "directory": machine.name})
    text = {"format": "iostrata.recording/1", "created": "", "machines": described}
    (path / "recording.json").write_text(json.dumps(text))
    return path


def exchanged(path: Path, clock: Clock, until: int, off_ns: int, width_ns: int) -> None:
    """Lets a coordinator have asked for a machine's clock, with an error that nobody can know.

    ``width_ns``: from the question to the answer; ``off_ns``: how far from its middle the
    clock was read. The coordinator's own clock is the world's.
    """
    rows = ["sent_ns\tremote_ns\treceived_ns"]
    for sent in range(0, until, max(until // 40, 1)):
        read = sent + width_ns // 2 + off_ns
        rows.append(f"{sent}\t{clock(read)}\t{sent + width_ns}")
    facts = path / "facts"
    facts.mkdir(exist_ok=True)
    (facts / "exchange").write_text("\n".join([*rows, ""]))
