# SPDX-License-Identifier: Apache-2.0
"""Initiators and targets of iSCSI with known truth: each machine has a clock of its own.

As in ``synthetic``: every step knows how long it kept the write where. A session's thread on the
target takes one command up after the other; what it has asked its disk for goes on without it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, cycle
from pathlib import Path
from random import Random

from iostrata.analysis import analyse
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from tests.stitch.test_truth import conserves
from tests.synthetic import (
    FLUSH_OP,
    NO_SECTOR,
    O_DSYNC,
    PREFLUSH,
    SYNC,
    WRITE,
    Clock,
    Request,
    World,
    Writer,
    device,
    submit,
)

LUN, DISK = device(8, 0), device(259, 0)
PORT = 3260
WRITE_10, SYNCHRONIZE_CACHE = 0x2A, 0x35
SERVER_KIND = 5
LONGEST = 10_000_000_000
RECEIVED, WOKEN = 900, 400
"""From the thread's wake-up to its having the header; from then to its sleep for more data."""


@dataclass
class Costs:
    """Where a request of the initiator's disk spends its time, in ns.

    ``r2t``: from the target's having the command until it had the data that it asked for; 0: all
    went with the command. ``slept``: the backend is a file, for which the thread sleeps.
    ``preempted``: the thread has the command, and no CPU to carry it out. ``woken``: so long
    before the command came, the thread was woken for what has no event, and is still at that;
    ``late``: of the time until it reads the command, it has no CPU. ``hand``: of the way there,
    until all that goes with the command is with the connection.
    """

    queue: int = 700
    submit: int = 3_000
    there: int = 50_000
    r2t: int = 0
    runqueue: int = 2_500
    parse: int = 4_000
    disk: Request = field(default_factory=lambda: Request(scheduler=None))
    finish: int = 6_000
    reply: int = 7_000
    back: int = 50_000
    complete: int = 2_000
    slept: bool = False
    preempted: int = 0
    woken: int = 0
    late: int = 0
    hand: int = 0


def drawn(random: Random, slept: bool = False, large: bool = False) -> Costs:
    def some(upto: int) -> int:
        return random.randint(100, upto)

    way = random.randint(30_000, 90_000)
    disk = Request(
        scheduler=None, queue=some(900), device=some(99_000), sector=random.randint(1, 99) * 16
    )
    return Costs(
        some(900), some(9_000), way, WOKEN + some(90_000) if large else 0, some(9_000),
        RECEIVED + some(9_000), disk, some(9_000), some(9_000), way, some(9_000), slept,
    )  # fmt: skip


@dataclass
class Machine:
    name: str
    clock: Clock = int

    def __post_init__(self) -> None:
        self.world = World(clock=self.clock)


@dataclass
class Session:
    """A disk of an initiator's, which is a target's. ``tags``: the ITTs that it uses in turn.

    ``addresses``: what both ends make of their addresses. ``number``: of the session on its
    machines, each of which has threads and disks of its own. ``unseen``: points of which no event
    of the initiator's is seen. ``told``: when data came in on a connection, but of its first
    command, before which nobody looked; ``bursts``: and when more data was asked for, sent, and so
    on, and all was handed over.
    """

    initiator: Machine
    target: Machine
    number: int = 0
    port: int = 40_000
    tags: Sequence[int] = (0x61, 0x62, 0x63)
    addresses: int = 7
    unseen: frozenset[str] = frozenset()
    told: bool = False
    bursts: bool = False

    def __post_init__(self) -> None:
        self.lun, self.disk = LUN + 16 * self.number, DISK + self.number
        self.initiator.world.builder.block(self.lun, f"sd{'ab'[self.number]}", transport="iscsi")
        self.target.world.builder.block(self.disk, f"nvme{self.number}n1")
        self.receiver = Writer(
            self.target.world, 700 + 4 * self.number, self.disk, 0, floor="target",
            kind=SERVER_KIND,
        )  # fmt: skip
        self.connect(self.port)
        self.next_tag = cycle(self.tags)
        self.idle_ns = 1_000

    def connect(self, port: int) -> None:
        self.port = port
        self.place = {"connection": port << 16 | PORT, "ends": self.addresses}
        self.watched = False

    def writer(self, now: int = 1_000_000, tid: int = 0) -> Writer:
        return Writer(self.initiator.world, tid or 200 + 8 * self.number, self.lun, now)

    def write(self, writer: Writer, offset: int, costs: Costs, flush: Costs | None = None) -> None:
        """One O_DSYNC write; ``flush``: of the disk's cache, after it."""
        writer.enter()
        writer.cpu(4_000)
        self._one(writer, offset, costs)
        if flush:
            self._one(writer, 0, flush, flush=True)
        writer.cpu(1_500)
        writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
        writer.finish()
        writer.now += 10_000

    def _one(self, writer: Writer, offset: int, costs: Costs, flush: bool = False) -> None:
        complete = self.request(writer, writer.now, offset, costs, flush=flush)
        writer._wait(complete - writer.now, 1_000, 2_000)

    def request(
        self,
        writer: Writer,
        queued: int,
        offset: int,
        costs: Costs,
        flush: bool = False,
        again: int = 0,
    ) -> int:
        """When it was complete; the account is the writer's. ``again``: the request, if it was
        given back when it was queued."""
        world, issued = self.initiator.world, queued + costs.queue
        sent, itt = issued + costs.submit, next(self.next_tag)
        answered = self.served(sent, itt, offset, costs, flush, writer.account) + costs.back
        complete = answered + costs.complete
        rq = again or world.pointer("rq", queued, complete + 1)
        size = 0 if flush else 8192
        place = {"dev": self.lun, "sector": 0 if flush else offset // 512, "size_bytes": size}
        asked = {"bio_key": rq + 8, "flags": WRITE | (PREFLUSH if flush else 0), **place}
        keys = {"request_key": rq, "bio_key": 0 if flush else rq + 8, **place}
        keys |= {"flags": FLUSH_OP, "sector": NO_SECTOR} if flush else {"flags": WRITE}
        wire = {"request_key": rq, "dev": self.lun, "itt": itt}
        if not again:
            world.emit("block_bio_queue", queued, writer.tid, kernel_thread=0, **asked)
        world.emit("block_rq_issue", issued, writer.tid, **keys)
        if "iscsi_sent" not in self.unseen:
            world.emit("iscsi_sent", sent, 66, **wire, **self.place)
            if costs.r2t:
                # It is asked for more data, and asks whether all of the command is sent.
                handed = self._burst(sent, costs, 4)
                world.emit("iscsi_sent", handed, 66, **wire, **self.place)
            if self.bursts:
                world.emit("iscsi_handed", sent + costs.hand, 66, **wire)
                for part in (3, 8) if costs.r2t else ():
                    world.emit("iscsi_asked", self._burst(sent, costs, part), 0, **wire)
                    world.emit("iscsi_handed", self._burst(sent, costs, part + 1), 66, **wire)
        if "iscsi_answered" not in self.unseen:
            world.emit("iscsi_answered", answered, 0, **wire)
        world.emit("block_rq_complete", complete, 0, **keys)
        if flush:
            done = {"request_key": rq + 64, "bio_key": rq + 8, "flags": asked["flags"], **place}
            world.emit("block_rq_complete", complete, 0, **done)
        writer.account += Counter({
            "block.Q2D": costs.queue, "initiator.submit": costs.submit,
            self._row("network.back"): costs.back, "initiator.complete": costs.complete,
        })  # fmt: skip
        return complete

    def interrupted(
        self, writer: Writer, offset: int, costs: Costs, received: bool, noticed: int, away: int
    ) -> None:
        """A write whose command is sent by a connection that ends before its answer is there.

        ``received``: the target carried it out, and could not tell. ``noticed``: until it was
        given back; ``away``: until it was issued again, by a new connection.
        """
        world, itt = self.initiator.world, next(self.next_tag)
        writer.enter()
        writer.cpu(4_000)
        queued, issued = writer.now, writer.now + costs.queue
        lost = sent = issued + costs.submit
        rq = world.pointer("rq", queued, queued + LONGEST)
        place = {"bio_key": rq + 8, "dev": self.lun, "sector": offset // 512, "size_bytes": 8192}
        keys = {"request_key": rq, "flags": WRITE, **place}
        world.emit("block_bio_queue", queued, writer.tid, kernel_thread=0, flags=WRITE, **place)
        world.emit("block_rq_issue", issued, writer.tid, **keys)
        world.emit("iscsi_sent", sent, 66, request_key=rq, dev=self.lun, itt=itt, **self.place)
        if received:
            lost = self.served(sent, itt, offset, costs, False, writer.account, answers=False)
        back = lost + noticed
        world.emit("block_rq_requeue", back, 0, **keys)
        # Of what the target had nothing of, all is not followed.
        writer.account += Counter({
            "block.Q2D": costs.queue, "initiator.submit": costs.submit if received else 0,
            self._row("unfollowed"): noticed + (0 if received else costs.submit),
        })  # fmt: skip
        self.connect(self.port + 1)
        again = replace(costs, queue=away)
        complete = self.request(writer, back, offset, again, again=rq)
        writer._wait(complete - queued, 1_000, 2_000)
        writer.cpu(1_500)
        writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
        writer.finish()
        writer.now += 10_000

    def _row(self, row: str) -> str:
        return f"{self.target.name}/{row}"

    def served(
        self,
        sent: int,
        itt: int,
        offset: int,
        costs: Costs,
        flush: bool,
        account: Counter[str],
        answers: bool = True,
    ) -> int:
        """The target's thread with the command; when the response was with the connection, or the
        command was complete."""
        world, tid = self.target.world, self.receiver.tid
        told = self.told and self.watched
        came = there = sent + costs.there
        begun = there + costs.runqueue + RECEIVED
        size = 0 if flush else 8192
        if costs.r2t:
            self._sleeps(there, 300)
            begun = there + 300 + RECEIVED
            self.idle_ns, there = begun + WOKEN, begun + costs.r2t
        self._sleeps(there - costs.woken, costs.runqueue)
        ran = begun - 100
        if costs.late:
            replace(self.receiver, now=ran)._resume(ran - costs.late, 0, 0, 0)
        execute = there + costs.runqueue + costs.parse + costs.preempted
        # What was there already when it had been at another command is taken up at once.
        key = world.pointer("cmd", begun, execute + 10_000_000)
        command = {"command_key": key, "itt": itt, "lun": 0, "size_bytes": size, **self.place}
        command |= {"opcode": SYNCHRONIZE_CACHE if flush else WRITE_10}
        command |= {"r2t_count": int(costs.r2t > 0)}
        self.watched = True
        ready = came if told else 0
        world.emit("target_sequencer_start", begun, tid, **command, ready_ns=ready)
        if costs.r2t and self.bursts:
            for ready, part in ((came + 150, 1), (self._burst(sent, costs, 5), 6)):
                made, asked = (self._burst(sent, costs, each) for each in (part, part + 1))
                world.emit("target_asked", made, tid, request_key=key, ready_ns=ready)
                world.emit("target_sent", asked, tid + 1, command_key=key)
        if costs.preempted:
            replace(self.receiver, now=begun + 100 + costs.preempted)._resume(begun + 100, 0, 0, 0)
        ready = there if told else 0
        world.emit("target_work", execute, tid, request_key=key, ready_ns=ready)
        own: Counter[str] = Counter()
        done, rest = self._disk(execute + 500, costs, flush, own)
        world.emit("target_work", rest, tid, request_key=0)
        self.idle_ns = rest + 200
        complete = done + costs.finish
        place = {} if flush else {"offset_bytes": offset}
        world.emit("target_cmd_complete", complete, 88, **command, **place)
        answer = complete + (costs.reply if answers else 0)
        if answers:
            world.emit("target_sent", answer, tid + 1, command_key=key)
        own["wakeup.runqueue"] += costs.preempted
        taken = there + costs.runqueue
        if costs.woken:
            # It is awake as the command comes; nothing tells that but what comes in.
            there = taken = there if told else begun
            own["wakeup.runqueue"] += max(ran - max(ran - costs.late, there), 0)
        own["target"] = answer - taken - sum(own.values())
        own["target.queue"] = taken - there
        if costs.r2t:
            own |= Counter({"network.r2t": costs.r2t})
            own["target.queue"] += begun - came if told else 0
            there = came if told else begun
            if self.bursts:
                # Twice the target's until it has asked, and the initiator's until it has sent.
                took = costs.r2t // 10
                own["network.r2t"] -= 6 * took
                own["target.queue"] += 4 * took - 150
                there = came + 150
                account[f"{self.initiator.name}/initiator.send"] += 2 * took
        hand = costs.hand if self.bursts else 0
        account[f"{self.initiator.name}/initiator.send"] += hand
        own["network.there"] = there - sent - hand
        account += Counter({self._row(row): ns for row, ns in own.items()})
        return answer

    def _burst(self, sent: int, costs: Costs, part: int) -> int:
        """Since the command was read: more is asked for (1), is it with the connection (2), with
        the initiator (3), and sent (4), and that is there (5): twice."""
        begun = sent + costs.there + 300 + RECEIVED
        return begun + costs.r2t // 10 * part

    def _sleeps(self, wake_ns: int, runqueue: int) -> None:
        """The thread had nothing to do, or no data, until then."""
        thread = replace(self.receiver, now=wake_ns + runqueue)
        thread._resume(self.idle_ns, wake_ns, 0, state=1)

    def _disk(self, now: int, costs: Costs, flush: bool, own: Counter[str]) -> tuple[int, int]:
        """When the disk had done it, and when the thread was done with it."""
        thread = replace(self.receiver, now=now, account=Counter())
        if costs.slept:
            if flush:
                thread.flush()
            else:
                thread.data(costs.disk)
            own += thread.account
            return thread.now, thread.now + 300
        if flush:
            own += Counter({"block.Q2D": 800, "device.flush": 30_000})
            return self._flushed(now, 800, 30_000), now + 1_000
        own += (spent := submit(self.target.world, self.disk, thread.tid, now, costs.disk))
        return now + sum(spent.values()), now + 1_000

    def _flushed(self, queued: int, queue: int, took: int) -> int:
        world, done = self.target.world, queued + queue + took
        bio = world.pointer("flush", queued, done + 1)
        flags = WRITE | SYNC | PREFLUSH
        own = {"request_key": 0xFFFF_8881_1111_0000 + self.disk, "bio_key": 0, "sector": NO_SECTOR}
        own |= {"dev": self.disk, "size_bytes": 0, "flags": FLUSH_OP | PREFLUSH}
        asked = {"bio_key": bio, "sector": 0, "dev": self.disk, "size_bytes": 0, "flags": flags}
        tid = self.receiver.tid
        world.emit("block_bio_queue", queued, tid, kernel_thread=1, **asked)
        world.emit("block_rq_issue", queued + queue, 77, **own)
        world.emit("block_rq_complete", done, 0, **own)
        world.emit("block_rq_complete", done, 0, request_key=bio + 64, **asked)
        return done


def truth_of(writer: Writer, machine: str, several: bool = True) -> list[dict[str, int]]:
    """``several``: machines were recorded, by whose names the rows are told apart."""
    own = f"{machine}/" if several else ""
    return [
        {row if "/" in row else own + row: ns for row, ns in account.items() if ns}
        for account in writer.truth
    ]


def analysed(path: Path, *machines: Machine) -> Breakdown:
    for machine in machines:
        machine.world.builder.write(path / machine.name)
    described = [{"name": m.name, "role": "local", "directory": m.name} for m in machines]
    text = {"format": "iostrata.recording/1", "created": "", "machines": described}
    (path / "recording.json").write_text(json.dumps(text))
    breakdown = analyse(open_recording(path))
    conserves(breakdown)
    return breakdown


def offsets() -> Iterator[int]:
    """Places on the disk, each for one write."""
    return count(0, 8192)
