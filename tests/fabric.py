# SPDX-License-Identifier: Apache-2.0
"""Initiators and targets of NVMe over TCP, with known truth: each machine has a clock of its own.

A command is what both ends number alike: host, controller, queue, and an identifier of a few
numbers, each of which has 16 generations and is used again at once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from iostrata.analysis import analyse
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from iostrata.trace.layout import THREAD_HELPER
from tests.stitch.test_truth import accounts, conserves
from tests.synthetic import (
    FLUSH_OP,
    NO_SECTOR,
    O_DSYNC,
    Clock,
    Request,
    World,
    Writer,
    device,
    submit,
)

PATH, HEAD, TARGET_DISK = device(259, 1), device(259, 0), device(8, 0)
WORKER, FLUSHER, EXPORT = 700, 701, 31
FLUSH, WRITE = 0, 1
EMPTY = 1 | 1 << 18
GENERATIONS, HANDED_ON = 16, 90
LONGEST = 10_000_000_000


@dataclass
class Costs:
    """Where a command spends its time, in ns; ``disk``: the target's, ``queue``: the initiator's.

    ``waits``: there, until a worker carries it out; half as long until one reads it. ``late``:
    complete there after its disk. ``r2t``: from the target's having the command until it had the
    data that it asked for, as it had read it; 0: all went with the command. ``trails``: then it may
    have come later than the command. ``answers``: complete until a worker begins to answer, if
    that is told. So are, if they are not 0, ``hands``: sent until all that goes with the command is
    with the connection (``lost``: then its sender has no CPU until the answer is there); ``asks``:
    read until a worker asks for the data; ``sends``: asked for them until they are with the
    connection; and they are there ``reach`` later, or earlier.
    """

    queue: int = 700
    submit: int = 3_000
    there: int = 50_000
    waits: int = 4_000
    begins: int = 900
    disk: Request = field(default_factory=lambda: Request(scheduler=None))
    late: int = 600
    back: int = 50_000
    complete: int = 2_000
    r2t: int = 0
    trails: int = 0
    answers: int = 0
    hands: int = 0
    lost: bool = False
    asks: int = 0
    sends: int = 0
    reach: int = 3_000

    @property
    def served(self) -> int:
        there = self.r2t + self.trails + self.waits
        return there + self.begins + self.disk.queue + self.disk.device + self.late + self.answers

    @property
    def total(self) -> int:
        way = self.there + self.served + self.back
        return self.queue + self.submit + way + self.complete

    def rows(self, initiator: str, target: str, flush: bool) -> Counter[str]:
        read = min(self.waits // 2, self.r2t) + self.asks
        hands, sends = min(self.hands, self.there), self.sends and self.sends + min(self.reach, 0)
        return Counter({
            f"{initiator}/block.Q2D": self.queue, f"{initiator}/initiator.submit": self.submit,
            f"{initiator}/initiator.send": hands + sends,
            f"{target}/network.there": self.there + self.trails - hands,
            f"{target}/network.r2t": self.r2t - read - sends,
            f"{target}/target.queue": self.waits + read,
            f"{target}/target": self.begins + self.late + self.answers,
            f"{target}/block.Q2D": self.disk.queue,
            f"{target}/device.{'flush' if flush else 'data'}": self.disk.device,
            f"{target}/network.back": self.back,
            f"{initiator}/initiator.complete": self.complete,
        })  # fmt: skip


class Machine:
    role = "host"

    def __init__(self, name: str, clock: Clock = int) -> None:
        self.name, self.world = name, World(clock=clock)


class Target(Machine):
    role = "server"

    def __init__(self, name: str = "target", clock: Clock = int) -> None:
        super().__init__(name, clock)
        self.world.builder.block(TARGET_DISK, "sda")
        self.world.target(WORKER, kind=THREAD_HELPER, comm=b"kworker/0:1H")

    def serve(
        self, arrived: int, wire: dict[str, int], costs: Costs, flush: bool, worker: int
    ) -> None:
        """A worker reads the command as it arrives, carries it out later, and is free again."""
        world, end = self.world, arrived + costs.served - costs.answers
        key = world.pointer("nvmet", arrived, end + 1)
        data = arrived + costs.r2t + costs.trails
        taken = data + costs.waits
        queued = taken + costs.begins
        command = {"request_key": key, "opcode": FLUSH if flush else WRITE, **wire}
        read = arrived + costs.waits // 2
        world.emit("nvmet_req_init", read, worker, ready_ns=arrived, **command)
        if costs.asks:
            world.emit("nvmet_asked", read + costs.asks, worker, request_key=key)
        world.emit("nvmet_work", taken, worker, request_key=key)
        if costs.r2t or costs.trails:
            told = {"request_key": key, "ready_ns": data, "asked": int(costs.r2t > 0)}
            world.emit("nvmet_data", taken + 1, worker, **told)
        if flush:
            self._flush(queued, costs.disk, worker)
        else:
            submit(world, TARGET_DISK, worker, queued, costs.disk)
        world.emit("nvmet_work", queued + 50, worker, request_key=0)
        size = 0 if flush else costs.disk.size
        world.emit("nvmet_req_complete", end, 0, ready_ns=arrived, dev=TARGET_DISK,
                   offset_bytes=costs.disk.sector * 512, size_bytes=size, **command)  # fmt: skip
        if costs.answers:
            world.emit("nvmet_answer", end + costs.answers, worker, request_key=key)

    def _flush(self, queued: int, disk: Request, worker: int) -> None:
        """An empty bio that asks for a flush, for which the block layer has a request."""
        world, issued = self.world, queued + disk.queue
        done = issued + disk.device
        bio = world.pointer("flushing", queued, done + 2)
        asked = {"bio_key": bio, "sector": 0, "dev": TARGET_DISK, "size_bytes": 0, "flags": EMPTY}
        own = {"request_key": bio + 64, "bio_key": 0, "sector": NO_SECTOR, "dev": TARGET_DISK,
               "size_bytes": 0, "flags": FLUSH_OP}  # fmt: skip
        world.emit("block_bio_queue", queued, worker, kernel_thread=1, **asked)
        world.emit("block_rq_issue", issued, 77, **own)
        world.emit("block_rq_complete", done, 0, **own)
        world.emit("block_rq_complete", done + 1, 0, request_key=bio + 32, **asked)


@dataclass(frozen=True)
class Connection:
    """One queue of a controller, as each end knows it; ``ends``: 0, where nothing is told.

    ``later``: by how much the host's id was another one when its initiator's next controller was
    connected: on Linux before 6.5, that is what it has of this one since.
    """

    target: Target
    port: int = 40_000
    ends: int = 77
    host: int = 0x1234
    controller: int = 1
    queue: int = 1
    later: int = 0

    @property
    def own(self) -> dict[str, int]:
        """As its initiator knows it."""
        return self.wire | {"host": self.host + self.later}

    @property
    def wire(self) -> dict[str, int]:
        told = {"connection": self.port << 16 | 4420, "ends": self.ends, "host": self.host}
        return told | {"controller": self.controller, "queue": self.queue}


class Initiator(Machine):
    """``head``: its writes go to a disk of several paths, which hands them to this one."""

    def __init__(
        self, name: str = "initiator", clock: Clock = int, head: bool = False, disk: int = PATH
    ) -> None:
        super().__init__(name, clock)
        self.head, self.disk = head, disk
        # No path to a disk of several has an entry of its own.
        self.world.builder.block(HEAD if head else disk, "nvme0n1", transport="tcp")
        self.used: Counter[tuple[Connection, int]] = Counter()

    def writer(self, tid: int = 200, now: int = 1_000_000) -> Writer:
        return Writer(self.world, tid, HEAD if self.head else self.disk, now)

    def identifier(self, to: Connection, begin: int, end: int) -> int:
        """A number that is free, in its next generation."""
        number = self.world.pointer(f"tag{to.port}", begin, end) % 0x1_0000 // 0x140
        self.used[to, number] += 1
        return self.used[to, number] % GENERATIONS << 12 | number

    def write(
        self, writer: Writer, to: Connection, commands: Sequence[Costs], *, flush: bool = False,
        worker: int = WORKER, gone: int = 0,
    ) -> None:  # fmt: skip
        """An O_DSYNC write: all of its commands at once, then, if asked for, a flush.

        ``gone``: that is not answered, and by the driver ended so long after it was sent.
        """
        begin = writer.now
        writer.enter()
        writer.now += 4_000
        for costs in commands:
            self._request(writer, to, costs, worker)
        last = max(commands, key=lambda costs: costs.total)
        held = self._rows(last, to)
        self._sleep(writer, last.total)
        if flush:
            last = replace(last, r2t=0, asks=0, sends=0)
            if gone:
                last = replace(last, there=gone - last.served - last.back)
            self._request(writer, to, last, worker, flush=True, gone=gone > 0)
            rows = self._rows(last, to, flush=True)
            if gone:
                lower = [row for row in rows if row.startswith(f"{to.target.name}/")]
                rows[f"{to.target.name}/unfollowed"] += sum(rows.pop(row) for row in lower)
                for row in ("initiator.submit", "initiator.complete"):
                    rows[f"{to.target.name}/unfollowed"] += rows.pop(f"{self.name}/{row}")
            held += rows
            self._sleep(writer, last.total)
        self._left(writer, begin, held, 1 + flush)

    def interrupted(
        self, writer: Writer, to: Connection, again: Connection, costs: Costs, noticed: int,
        away: int,
    ) -> None:  # fmt: skip
        """An O_DSYNC write whose command is carried out, but its connection ends before the answer.

        ``noticed``: until the driver says that it is complete, and gives it back; ``away``: until
        it is issued again, by another connection.
        """
        begin = writer.now
        queued, back, keys = self._unanswered(writer, to, costs, noticed)
        self.world.emit("block_rq_requeue", back, 67, **keys)
        held = self._rows(costs, to) + self._rows(costs, again)
        held[f"{self.name}/block.Q2D"] += away - costs.queue
        held[f"{to.target.name}/network.back"] -= costs.back
        held[f"{to.target.name}/unfollowed"] += noticed
        held[f"{self.name}/initiator.complete"] -= costs.complete
        writer.now = back + away - costs.queue
        self._request(writer, again, costs, WORKER, again=keys["request_key"])
        writer.now = queued
        self._sleep(writer, back + away - queued + costs.total - costs.queue)
        self._left(writer, begin, held, 1)

    def failed_over(
        self, writer: Writer, to: Connection, again: tuple[int, Connection], costs: Costs,
        noticed: int, away: int,
    ) -> None:  # fmt: skip
        """An O_DSYNC write of a disk of several paths, whose path fails before the answer.

        ``noticed``: until the driver takes its bio back and completes the request without it, empty
        (blk_steal_bios); ``away``: until it hands the bio to another path, ``again``.
        """
        begin = writer.now
        queued, back, keys = self._unanswered(writer, to, costs, noticed)
        empty = {"bio_key": 0, "sector": NO_SECTOR, "size_bytes": 0}
        self.world.emit("block_rq_complete", back, 67, **keys | empty)
        held = self._rows(costs, to)
        held[f"{self.name}/initiator.complete"] -= costs.complete
        held[f"{to.target.name}/network.back"] -= costs.back
        held[f"{to.target.name}/unfollowed"] += noticed
        path, to = again
        self.disk = path
        held[f"{self.name}/block.stacked"] += away
        held += self._rows(costs, to)
        writer.now = back + away
        self._request(writer, to, costs, WORKER, again=keys["request_key"])
        writer.now = queued
        self._sleep(writer, back + away - queued + costs.total)
        self._left(writer, begin, held, 1)

    def _unanswered(
        self, writer: Writer, to: Connection, costs: Costs, noticed: int
    ) -> tuple[int, int, dict[str, int]]:
        """A write whose command is carried out; ``noticed``: until the driver says it is complete.

        When it was queued, and when that is; its request, as its events have it.
        """
        writer.enter()
        writer.now += 4_000
        world, queued = self.world, writer.now
        issued = queued + costs.queue
        sent = issued + costs.submit
        back = sent + costs.there + costs.served + noticed
        rq = world.pointer("rq", queued, queued + LONGEST)
        place = {"bio_key": rq + 8, "flags": 1, "sector": costs.disk.sector}
        place |= {"size_bytes": costs.disk.size}
        keys = {"request_key": rq, "dev": self.disk, **place}
        wire = to.wire | {"command": self.identifier(to, queued, back)}
        at = {"request_key": rq, "wire_key": wire["command"], "dev": self.disk}
        world.emit("block_bio_queue", queued, writer.tid, kernel_thread=0, dev=writer.disk, **place)
        if self.head:
            world.emit("block_bio_remap", queued + HANDED_ON, writer.tid, dev=self.disk,
                       old_dev=HEAD, old_sector=costs.disk.sector, **place)  # fmt: skip
        world.emit("block_rq_issue", issued, writer.tid, **keys)
        world.emit("nvme_tcp_send", sent, 66, **at)
        to.target.serve(sent + costs.there, wire, costs, False, WORKER)
        world.emit("nvme_complete_rq", back - 100, 67, request_key=rq, dev=self.disk, opcode=WRITE,
                   **wire | to.own)  # fmt: skip
        return queued, back, keys

    def _left(self, writer: Writer, begin: int, held: Counter[str], slept: int) -> None:
        writer.now += 1_500
        writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
        held += Counter({
            f"{self.name}/syscall": 4_000 + 1_500, f"{self.name}/wakeup.interrupt": 1_000 * slept,
            f"{self.name}/wakeup.runqueue": 2_000 * slept,
        })  # fmt: skip
        assert sum(held.values()) == writer.now - begin
        writer.account = held
        writer.finish()
        writer.now += 10_000

    def _rows(self, costs: Costs, to: Connection, *, flush: bool = False) -> Counter[str]:
        """Of several paths, until one had it, it was in the disk that they are of."""
        rows = costs.rows(self.name, to.target.name, flush)
        if self.head:
            rows[f"{self.name}/block.Q2D"] -= HANDED_ON
            rows[f"{self.name}/block.stacked"] += HANDED_ON
        return rows

    def _sleep(self, writer: Writer, duration: int) -> None:
        writer._wait(duration, 1_000, 2_000)
        writer.account = Counter()

    def _request(
        self, writer: Writer, to: Connection, costs: Costs, worker: int, *, flush: bool = False,
        again: int = 0, gone: bool = False,
    ) -> None:  # fmt: skip
        """``again``: the request, if it was given back when it was queued; ``gone``: to nobody."""
        world, queued = self.world, writer.now
        issued = queued + costs.queue
        sent = issued + costs.submit
        arrived = sent + costs.there
        answered = arrived + costs.served + costs.back
        complete = answered + costs.complete
        rq = again or world.pointer("rq", queued, complete + 1)
        size, sector = (0, 0) if flush else (costs.disk.size, costs.disk.sector)
        place = {"sector": sector, "size_bytes": size}
        asked = {"bio_key": rq + 8, "flags": EMPTY if flush else 1, **place}
        keys = {"request_key": rq, "bio_key": 0 if flush else rq + 8, "dev": self.disk, **place}
        keys |= {"flags": FLUSH_OP, "sector": NO_SECTOR} if flush else {"flags": 1}
        wire = to.wire | {"command": self.identifier(to, queued, complete)}
        at = {"request_key": rq, "wire_key": wire["command"], "dev": self.disk}
        if not again:
            world.emit("block_bio_queue", queued, writer.tid, kernel_thread=0, dev=writer.disk,
                       **asked)  # fmt: skip
        if self.head:
            world.emit("block_bio_remap", queued + HANDED_ON, writer.tid, dev=self.disk,
                       old_dev=HEAD, old_sector=sector, **asked)  # fmt: skip
        world.emit("nvme_setup_cmd", issued - costs.queue // 9, writer.tid, **at)
        world.emit("block_rq_issue", issued, writer.tid, **keys)
        world.emit("nvme_tcp_send", sent, 66, **at)
        if costs.hands:
            back = sent + costs.hands
            if costs.lost:
                back = answered + 20_000
                world.emit("sched_resume", back, 66, off_ns=sent + costs.hands, wake_ns=0,
                           state=0, subject_tid=66)  # fmt: skip
            world.emit("nvme_tcp_handed", back, 66, request_key=rq)
        if costs.sends:
            came = arrived + costs.r2t - costs.reach - costs.sends
            read = came + costs.sends // 2
            world.emit("nvme_tcp_asked", read, 67, request_key=rq, ready_ns=came)
            world.emit("nvme_tcp_handed", came + costs.sends, 67, request_key=rq)
        if not gone:
            to.target.serve(arrived, wire, costs, flush, worker)
        last = wire | to.own
        if costs.r2t:
            # Where the command was, is what its data went with.
            last["command"] = wire["command"] % 7
        world.emit("nvme_complete_rq", complete - costs.complete // 2, 67, request_key=rq,
                   ready_ns=answered, dev=self.disk, opcode=WRITE, failed=gone, **last)  # fmt: skip
        world.emit("block_rq_complete", complete, 0, **keys)
        if flush:
            done = {"request_key": rq + 64, "dev": self.disk, **asked}
            world.emit("block_rq_complete", complete, 0, **done)


def found_in(path: Path, *machines: Machine) -> Breakdown:
    for machine in machines:
        machine.world.builder.write(path / machine.name)
    described = [
        {"name": each.name, "role": each.role, "directory": each.name} for each in machines
    ]
    text = {"format": "iostrata.recording/1", "created": "", "machines": described}
    (path / "recording.json").write_text(json.dumps(text))
    breakdown = analyse(open_recording(path))
    conserves(breakdown)
    return breakdown


def ways_together(account: dict[str, int]) -> dict[str, int]:
    """Only the clocks' relation splits the way there from the way back."""
    account = {row: ns for row, ns in account.items() if ns}
    there = {row for row in account if row.endswith(("network.there", "network.back"))}
    return {row: ns for row, ns in account.items() if row not in there} | {
        "way": sum(account[row] for row in there)
    }


def met(breakdown: Breakdown, tid: int, writer: Writer) -> list[tuple[dict[str, int], ...]]:
    """Each write's account as it was found, and as it is."""
    found = accounts(breakdown)[tid]
    return [
        (ways_together(mine), ways_together(dict(true)))
        for mine, true in zip(found, writer.truth, strict=True)
    ]
