# SPDX-License-Identifier: Apache-2.0
"""Disks that a program serves from a file (nbd-server, tgtd), with known truth: each machine has a
clock of its own."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pytest

from iostrata.analysis import analyse
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from iostrata.trace.layout import THREAD_DAEMON
from tests.stitch.test_truth import accounts, conserves
from tests.synthetic import (
    CALLS,
    FLUSH_OP,
    FUA,
    NO_SECTOR,
    O_DSYNC,
    Clock,
    Request,
    World,
    Writer,
    clock,
    device,
)

SERVER_DISK = device(8, 0)
SERVER, EXPORT_INODE = 600, 31


@dataclass
class Costs:
    """Where a request of the client's disk spends its time, in ns.

    ``unread``: its answer is in the client's socket, whose receiver has no CPU.
    """

    queue: int = 700
    send: int = 3_000
    there: int = 50_000
    disk: Request | None = None
    back: int = 50_000
    reply: int = 2_000
    unread: int = 0


class Pair:
    """A client whose disk is a file of a server's."""

    hop, way, between = "nbd", ("nbd.there", "nbd.back"), "nbd.server"
    disk, name, transport, program = device(43, 0), "nbd0", "", b"nbd-server"

    def __init__(self, clocks: tuple[Clock, Clock] = (int, int)) -> None:
        self.client, self.server = World(clock=clocks[0]), World(clock=clocks[1])
        self.client.builder.block(self.disk, self.name, transport=self.transport)
        self.server.builder.block(SERVER_DISK, "sda")
        self.writer = Writer(self.client, 200, self.disk, 1_000_000)
        self.thread = Writer(self.server, SERVER, SERVER_DISK, 0, kind=THREAD_DAEMON)
        self.server.target(SERVER, comm=self.program, kind=THREAD_DAEMON)
        self.free_ns = 0

    def durable_write(
        self, offset: int, costs: Costs, *, flush: bool = False, sync: bool = False
    ) -> None:
        """``flush``: the client asks for one. ``sync``: and one behind the data (FUA)."""
        writer = self.writer
        writer.enter()
        writer.cpu(4_000)
        self._request(offset, costs, sync=sync)
        if flush:
            self._request(offset, costs, flush=True)
        writer.cpu(1_500)
        writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
        writer.finish()
        writer.now += 10_000

    def flushed(self, costs: Costs) -> None:
        """Of what nobody has written since."""
        writer = self.writer
        writer.enter()
        writer.cpu(4_000)
        self._request(0, costs, flush=True)
        writer.cpu(1_500)
        writer.leave("fdatasync")
        writer.finish()

    def _request(
        self, offset: int, costs: Costs, *, flush: bool = False, sync: bool = False
    ) -> None:
        world, writer = self.client, self.writer
        queued, issued = writer.now, writer.now + costs.queue
        sent = issued + costs.send
        answered = self._served(sent + costs.there, offset, costs, flush, sync)
        answered += costs.back
        read = answered + costs.unread
        complete = read + costs.reply
        rq = world.pointer("rq", queued, complete + 1)
        size = 0 if flush else 8192
        place = {"dev": self.disk, "sector": 0 if flush else offset // 512, "size_bytes": size}
        fua = FUA if sync else 0
        asked = {"bio_key": rq + 8, "flags": 1 | fua | (1 << 18 if flush else 0), **place}
        keys = {"request_key": rq, "bio_key": 0 if flush else rq + 8, **place}
        keys |= {"flags": FLUSH_OP, "sector": NO_SECTOR} if flush else {"flags": 1 | fua}
        world.emit("block_bio_queue", queued, writer.tid, kernel_thread=0, **asked)
        world.emit("block_rq_issue", issued, writer.tid, **keys)
        self._told(rq, sent, answered, read)
        world.emit("block_rq_complete", complete, 0, **keys)
        if flush:
            done = {"request_key": rq + 64, "bio_key": rq + 8, "flags": asked["flags"], **place}
            world.emit("block_rq_complete", complete, 0, **done)
        writer._wait(complete - queued, 1_000, 2_000)
        writer.account += Counter({
            "block.Q2D": costs.queue, "initiator.submit": costs.send,
            f"server/{self.way[0]}": costs.there, f"server/{self.way[1]}": costs.back,
            "initiator.complete": costs.unread + costs.reply,
        })  # fmt: skip

    def _told(self, rq: int, sent: int, answered: int, read: int) -> None:
        wire = {"request_key": rq, "wire_key": rq & 0xFFFF, "dev": self.disk}
        self.client.emit("nbd_payload_sent", sent, self.writer.tid, **wire)
        self.client.emit("nbd_header_received", read, 67, ready_ns=answered, **wire)

    def _served(self, begin: int, offset: int, costs: Costs, flush: bool, sync: bool) -> int:
        thread = replace(self.thread, now=begin - 2_000, account=Counter())
        if begin > self.free_ns + 9_000:
            # It slept until the request came.
            thread._resume(begin - 9_000, begin - 4_000, 0)
        thread.now = begin
        thread.cpu(3_000)
        if costs.disk and not flush:
            thread.data(costs.disk)
        if flush:
            thread.flush()
        thread.cpu(900)
        call = CALLS["fdatasync" if flush else "pwrite64"]
        size = 0 if flush else 8192
        self.server.emit("syscall", thread.now, thread.tid, enter_ns=begin, inode=EXPORT_INODE,
                         dev=SERVER_DISK, offset_bytes=offset, size_bytes=size, result=size,
                         tgid=thread.tid, open_flags=2, call=call)  # fmt: skip
        if sync:
            thread.now += 700
            self.writer.account[f"server/{self.between}"] += 700
            begin = thread.now
            thread.flush()
            self.server.emit("syscall", thread.now, SERVER, enter_ns=begin, inode=EXPORT_INODE,
                             dev=SERVER_DISK, offset_bytes=-1, size_bytes=0, result=0,
                             tgid=SERVER, open_flags=2, call=CALLS["fsync"])  # fmt: skip
        self.writer.account += Counter({f"server/{row}": ns for row, ns in thread.account.items()})
        self.free_ns = thread.now
        return thread.now

    def analysed(self, path: Path, machines: str = "client server") -> Breakdown:
        self.recording(path, machines)
        breakdown = analyse(open_recording(path))
        conserves(breakdown)
        return breakdown

    def recording(self, path: Path, machines: str) -> None:
        for name in machines.split():
            getattr(self, name).builder.write(path / name)
        described = [{"name": n, "role": n, "directory": n} for n in machines.split()]
        text = {"format": "iostrata.recording/1", "created": "", "machines": described}
        (path / "recording.json").write_text(json.dumps(text))

    def truth(self) -> list[dict[str, int]]:
        """Of its writer of the moment."""
        return [
            {row if "/" in row else f"client/{row}": ns for row, ns in account.items() if ns}
            for account in self.writer.truth
        ]


class Tgt(Pair):
    """tgtd, whose disk the client has by iSCSI."""

    hop, way, between = "iscsi-tgt", ("tgt.there", "tgt.back"), "tgt.server"
    disk, name, transport, program = device(8, 16), "sdb", "iscsi", b"tgtd"

    def _told(self, rq: int, sent: int, answered: int, read: int) -> None:
        wire = {"request_key": rq, "dev": self.disk, "itt": 0x61, "ends": 7}
        self.client.emit("iscsi_sent", sent, 66, connection=40_000 << 16 | 3260, **wire)
        self.client.emit("iscsi_answered", read, 67, **wire)


KINDS = [Pair, Tgt]


def drawn(random: Random) -> Costs:
    way = random.randint(20_000, 90_000)
    disk = Request(
        scheduler=None, device=random.randint(9_000, 99_000), sector=random.randint(1, 9)
    )
    return Costs(
        random.randint(1, 900), random.randint(1, 9_000), way, disk, way, random.randint(1, 9_000)
    )


def same_but_for_ways(pair: Pair, account: dict[str, int], truth: dict[str, int]) -> None:
    """Only the clocks' relation splits the way there from the way back."""
    for rows in (account, truth):
        rows["way"] = sum(rows.pop(f"server/{way}", 0) for way in pair.way)
    assert account == truth


def all_met(pair: Pair, path: Path, count: int) -> None:
    """So many writes, each where it was in truth; none is left untied."""
    found = pair.analysed(path)
    (crossing,) = found.quality.crossings
    assert (crossing.hop, crossing.asked, crossing.followed) == (pair.hop, count, count)
    assert crossing.ambiguous == 0
    (mine,) = accounts(found).values()
    for account, truth in zip(mine, pair.truth(), strict=True):
        same_but_for_ways(pair, account, truth)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_every_row_is_met(tmp_path: Path, seed: int, kind: type[Pair]) -> None:
    """As long there as back, so that causality finds the very relation of the clocks."""
    random = Random(seed)
    pair = kind((clock(5_000_000, 0), clock(86_400_000_000_000, 0)))
    pair.durable_write(0, Costs())
    for number in range(40):
        sector = random.randint(1, 6)
        pair.durable_write(sector * 8192, drawn(random), flush=number % 3 == 0, sync=seed % 2 == 0)
    all_met(pair, tmp_path, 41)


def test_an_answer_that_is_there_is_not_on_its_way(tmp_path: Path) -> None:
    """Its receiver, a worker of the client's kernel, has no CPU."""
    pair = Pair((clock(5_000_000, 0), clock(86_400_000_000_000, 0)))
    for number in range(20):
        costs = Costs(unread=number % 4 * 30_000_000)
        pair.durable_write(number * 8192, costs, flush=number % 3 == 0)
    all_met(pair, tmp_path, 20)


@pytest.mark.parametrize("kind", KINDS)
def test_without_the_server_it_is_one_row(tmp_path: Path, kind: type[Pair]) -> None:
    pair = kind()
    for number in range(5):
        pair.durable_write(number * 8192, Costs())
    found = pair.analysed(tmp_path, "client")
    # The row says what the network and the server took: nothing of it is in device.
    assert found.quality.virtual == ()
    (mine,) = accounts(found).values()
    assert all(account["initiator.call"] == 50_000 + 3_900 + 50_000 for account in mine)
    assert not any(pair.way[0] in account for account in mine)


@pytest.mark.parametrize("kind", KINDS)
def test_another_daemon_is_not_the_server(tmp_path: Path, kind: type[Pair]) -> None:
    pair = kind()
    for event in pair.server.builder._rows["thread"]:
        event["comm"] = b"virtiofsd"
    for number in range(5):
        pair.durable_write(number * 8192, Costs())
    found = pair.analysed(tmp_path)
    assert not found.quality.crossings
    assert found.quality.apart == ("server: nothing ties its events to another machine's",)


@pytest.mark.parametrize("seen", [range(6, 20), range(14), range(5, 12)])
@pytest.mark.parametrize("kind", KINDS)
def test_what_the_server_did_not_tell_is_not_followed(
    tmp_path: Path, kind: type[Pair], seen: range
) -> None:
    """Its recorder was late, or ended early: nothing of that is the way's, or a disk's."""
    random, pair = Random(3), kind((clock(5_000_000, 0), clock(86_400_000_000_000, 0)))
    for number in range(20):
        pair.server.deaf_to = "" if number in seen else "*"
        pair.durable_write(number * 8192, drawn(random), flush=number % 3 == 0)
    found = pair.analysed(tmp_path)
    (mine,) = accounts(found).values()
    # Behind the last that it told, writes are left out.
    assert len(mine) + sum(found.left_out.values()) == 20
    assert len(mine) >= seen.stop
    for number, account in enumerate(mine):
        followed = any(row.startswith("server/device.") for row in account)
        assert followed == (number in seen)
        assert ("server/unfollowed" in account) == (number not in seen)


@pytest.mark.parametrize("kind", KINDS)
def test_a_flush_of_anothers_that_the_same_thread_takes_at_once(
    tmp_path: Path, kind: type[Pair]
) -> None:
    """It was there already when the thread had answered a write: no sync of that."""
    pair = kind()
    writers = [pair.writer, Writer(pair.client, 300, pair.disk, 0)]
    for number in range(6):
        pair.writer, costs = writers[0], Costs()
        pair.durable_write(number * 8192, costs)
        pair.writer = writers[1]
        # As long after the write as it takes to answer that: its way there was longer.
        pair.writer.now = pair.free_ns + 1_500 - 100_000
        there = 100_000 - 4_000 - costs.queue - costs.send
        pair.flushed(replace(costs, there=there))
        writers[0].now = max(writer.now for writer in writers) + 50_000
    found = pair.analysed(tmp_path)
    (crossing,) = found.quality.crossings
    assert (crossing.asked, crossing.followed) == (6, 6)
    for pair.writer in writers:
        mine = accounts(found)[pair.writer.tid]
        for account, truth in zip(mine, pair.truth(), strict=True):
            same_but_for_ways(pair, account, truth)


OTHER, ELSEWHERE = 601, 5_000 * 8192
WAY_NS = 20_000_000


def beside_another_client(pair: Pair, process: int) -> None:
    """Forty writes with a flush each, while each of which is on its way a thread of ``process``
    writes and syncs for somebody else, at another place."""
    pair.server.emit("thread", 1, OTHER, tgid=process, subject_tid=OTHER, kind=THREAD_DAEMON,
                     comm=pair.program)  # fmt: skip
    other = Writer(pair.server, OTHER, SERVER_DISK, 0, kind=THREAD_DAEMON)
    costs, pair.writer.now = Costs(there=WAY_NS, back=WAY_NS), WAY_NS
    for number in range(40):
        thread = replace(other, now=pair.writer.now + 2 * WAY_NS + 3_000_000, account=Counter())
        for call, offset, size in (("pwrite64", ELSEWHERE, 8192), ("fdatasync", -1, 0)):
            enter = thread.now
            thread.cpu(3_000)
            if not size:
                thread.flush()
            pair.server.emit("syscall", thread.now, OTHER, enter_ns=enter, inode=EXPORT_INODE,
                             dev=SERVER_DISK, offset_bytes=offset, size_bytes=size, result=size,
                             tgid=process, open_flags=2, call=CALLS[call])  # fmt: skip
            thread.now += 1_000
            thread._resume(thread.now - 900, thread.now - 200, 0)
        pair.durable_write(number * 8192, costs, flush=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sync_of_a_process_that_serves_another_client_is_no_flush_of_ours(
    tmp_path: Path, kind: type[Pair]
) -> None:
    """Of the same file: nbd-server has a process for each of them."""
    pair = kind()
    beside_another_client(pair, OTHER)
    all_met(pair, tmp_path, 40)


@pytest.mark.parametrize("kind", KINDS)
def test_flushes_by_a_process_that_does_nothing_else(tmp_path: Path, kind: type[Pair]) -> None:
    """Of a client's connections nbd-server has a process each, and one may have no writes."""
    pair = kind()
    writes, syncs = pair.thread, Writer(pair.server, OTHER, SERVER_DISK, 0, kind=THREAD_DAEMON)
    pair.server.target(OTHER, comm=pair.program, kind=THREAD_DAEMON)
    disk = Request(scheduler=None, device=9_000, sector=5)
    for number in range(40):
        pair.thread = writes
        pair.durable_write(number * 8192, Costs(disk=disk))
        pair.thread = syncs
        pair.flushed(Costs())
    all_met(pair, tmp_path, 40)


@pytest.mark.parametrize("known", [True, False])
def test_what_was_given_back_may_have_been_served_before(tmp_path: Path, *, known: bool) -> None:
    """Its connection ended, and nobody heard of that; else another client, of whom it is, may have
    any of the syncs."""
    pair = Pair()
    beside_another_client(pair, SERVER)
    if known:
        given = {"request_key": 0xF0, "bio_key": 0xF8, "dev": pair.disk, "flags": 1,
                 "sector": ELSEWHERE // 512, "size_bytes": 8192}  # fmt: skip
        pair.client.emit("block_rq_issue", 1, 66, **given)
        pair.client.emit("block_rq_requeue", pair.writer.now, 0, **given)
    (crossing,) = pair.analysed(tmp_path).quality.crossings
    assert crossing.ambiguous == (0 if known else 40)


@pytest.mark.parametrize("kind", KINDS)
def test_which_of_two_syncs_is_a_flush_nothing_tells_where_one_process_serves_others_too(
    tmp_path: Path, kind: type[Pair]
) -> None:
    """tgtd does: its time is in no row of the way's, nor of a disk."""
    no_flush_is_tied(kind(), tmp_path)


def no_flush_is_tied(pair: Pair, path: Path) -> None:
    """Where its process serves another client as well."""
    beside_another_client(pair, SERVER)
    found = pair.analysed(path)
    (crossing,) = found.quality.crossings
    assert (crossing.asked, crossing.followed, crossing.ambiguous) == (80, 40, 40)
    (mine,) = accounts(found).values()
    for account in mine:
        assert account["server/unfollowed"] >= 2 * WAY_NS
        assert not any(row.startswith("server/device.flush") for row in account)
