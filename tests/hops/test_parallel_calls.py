# SPDX-License-Identifier: Apache-2.0
"""Several calls of one write to one server, flushes that are shared, commits that several await.

What held the time is told by a second world, in which one kind of work takes a little
longer: by as much as the write then takes longer, that kind held it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest

from iostrata.hops.match import Ties, Times, match
from tests.chain import GUEST_DISK, IMAGE_INODE, NFS, VMM, Chain, Costs
from tests.hops.test_graph import accounts_of, found_in, holds
from tests.hops.test_match import asks_of, ints, serves_of
from tests.network import DISK, MOUNT, STEP, Call, Disk, Machine, recorded
from tests.stitch.test_chain import analysed
from tests.synthetic import FLUSH_OP, NO_SECTOR, O_DSYNC, PREFLUSH, Commit, Request, Writer

CALLS = 6


# -- one server, several calls at once, and a COMMIT ---------------------------------


def calls_at_once(server: Machine, transfer: int, disk: int) -> list[Call]:
    """Through one wire, one behind the other, to a disk that does one thing at a time."""
    calls, free = [], 0
    for number in range(CALLS):
        one = Call(server, queue=5_000, svc_queue=900, svc=1_100, back=7_000, reply=3_000)
        there = (number + 1) * transfer - number * STEP
        # The time since the first call was made, when the request is issued and complete.
        issued = number * STEP + one.queue + there + one.svc_queue + one.svc + 300
        free = max(issued, free) + disk
        calls.append(replace(one, there=there, work=[Disk(300, free - issued)]))
    return calls


def world(transfer: int, disk: int) -> tuple[Machine, Machine]:
    client, server = Machine("client"), Machine("server")
    now = 1_000_000
    for number in range(20):
        commit = Call(server, [Disk(300, 80_000)], there=20_000, back=7_000)
        work = calls_at_once(server, transfer, disk)
        now = client.write(400, now, work, then=[commit]) + 50_000 + number * 731
    return client, server


def both_ways(account: dict[str, int]) -> int:
    """Of the calls that were made at once: without what the COMMIT took, and the last reply."""
    return account["server/network.there"] + account["server/network.back"] - 20_000 - 2 * 7_000


def test_a_wire_that_calls_queue_for_holds_their_time(tmp_path: Path) -> None:
    """By as much as the wire, or the disk, is slower the write is, and that is their row."""
    client, server = world(90_000, 20_000)
    wire, disk = world(90_900, 20_000)[0], world(90_000, 20_200)[0]
    due = [100 * (slower.latencies[0] - client.latencies[0]) for slower in (wire, disk)]
    assert due == [CALLS * 90_000, 20_000]
    breakdown = found_in(recorded(tmp_path, client, server))
    holds(breakdown, client)
    for account in accounts_of(breakdown, "client"):
        assert both_ways(account) == pytest.approx(due[0], abs=2 * STEP * CALLS)
        assert account["server/device.data"] - 80_000 == pytest.approx(due[1], abs=30)


def test_the_last_calls_own_way_is_the_networks_whatever_it_waits_for_then(tmp_path: Path) -> None:
    """While it was on the wire the disk was at work for the others: no row has that."""
    client, server = world(9_000, 70_000)
    breakdown = found_in(recorded(tmp_path, client, server))
    holds(breakdown, client)
    for account in accounts_of(breakdown, "client"):
        assert both_ways(account) == pytest.approx(CALLS * 9_000, abs=2 * STEP * CALLS)


# -- a commit that several branches wait for -------------------------------------------


def served(server: Machine, tid: int, there: int, xid: int, commit: Commit, after: int) -> int:
    """A thread of the server that waits for a commit, and then works on; when it has replied."""
    server.thread(tid)
    thread = Writer(server.world, tid, DISK, there + 3_000, floor="svc", kind=5)
    thread.cpu(2_000)
    thread.wait_for(commit)
    thread.cpu(after)
    server.world.emit("svc_call", thread.now, tid, enqueue_ns=there, dequeue_ns=there + 3_000,
                      receive_ns=there + 3_050, offset_bytes=0, size_bytes=8192, xid=xid,
                      connection=server.port << 16 | 2049, operation=1)  # fmt: skip
    return thread.now


def called(client: Machine, tid: int, made: int, xid: int, reply: int, port: int) -> None:
    world = client.world
    task = world.pointer("task", made, reply + 3_001)
    world.emit("nfs_call", made, tid, call_key=task, inode=12, dev=MOUNT, offset_bytes=0,
               size_bytes=8192, stable=2, operation=1)  # fmt: skip
    world.emit("rpc_call", reply + 3_000, 50_000 + tid, call_key=task, send_ns=made + 1_000,
               ready_ns=reply, reply_ns=reply + 200, xid=xid,
               connection=port << 16 | 2049)  # fmt: skip


def returned(client: Machine, tid: int, begin: int, off: int, last: int, waker: int) -> int:
    """The thread's sleep from ``off`` until its last reply was there, and its return."""
    on = last + 3_000 + 1_800
    client.world.emit("sched_resume", on, tid, off_ns=off, wake_ns=last + 3_700, waker_tid=waker,
                      state=2, subject_tid=tid)  # fmt: skip
    client.world.emit("syscall", on + 1_000, tid, enter_ns=begin, inode=12, offset_bytes=0,
                      dev=MOUNT, result=8192, size_bytes=8192, tgid=tid, open_flags=O_DSYNC,
                      call=2)  # fmt: skip
    return on + 1_000


def account_of(commit: Commit) -> Counter[str]:
    found: Counter[str] = Counter()
    for row, begin, end in commit.timeline:
        found[row] += end - begin
    return found


def test_a_commit_that_two_branches_of_a_write_wait_for_counts_once(tmp_path: Path) -> None:
    """Each call's thread waits for the same commit: the call that ends last holds it."""
    random = Random(1)
    client, server = Machine("client"), Machine("server", port=800)
    client.world.target(400)
    begin, truth = 1_000_000, []
    for number in range(30):
        first, second = begin + 2_000, begin + 2_400
        there = [made + 1_000 + random.randint(10_000, 40_000) for made in (first, second)]
        commit = Commit(server.world, DISK, max(there) + 20_000, 7 + number)
        commit.run(
            4_000, 0, [Request(scheduler=None, device=random.randint(9_000, 90_000), meta=True)]
        )
        after = random.choice([(1_000, 60_000), (60_000, 1_000)])
        done = [
            served(server, 700 + way, there[way], 2 * number + way + 1, commit, after[way])
            for way in range(2)
        ]
        reply = [end + 25_000 for end in done]
        for way, made in enumerate((first, second)):
            called(client, 400, made, 2 * number + way + 1, reply[way], 800)
        end = returned(client, 400, begin, second + 500, max(reply), 50_400)
        truth.append((end - begin, account_of(commit)))
        begin = end + random.randint(1_000, 90_000)
    breakdown = found_in(recorded(tmp_path, client, server))
    assert breakdown.quality.unfollowed == 0
    for (latency, held), mine in zip(truth, accounts_of(breakdown, "client"), strict=True):
        assert sum(mine.values()) == latency
        for row in ("journal.locking", "journal.logging", "device.journal", "block.Q2D"):
            assert mine[f"server/{row}"] == held[row], row
        assert "residual" not in mine


def test_a_commit_that_two_clients_wait_for_is_each_ones(tmp_path: Path) -> None:
    """Each has all of it from when its own call began to wait."""
    random = Random(2)
    server = Machine("server", port=800)
    clients = [Machine("left", xid=1_000), Machine("right", xid=9_000)]
    begin, truth = 1_000_000, []
    for client, tid in zip(clients, (400, 401), strict=True):
        client.world.target(tid)
    for number in range(30):
        there = [begin + 3_000 + random.randint(10_000, 40_000) for _ in clients]
        commit = Commit(server.world, DISK, max(there) + 20_000, 7 + number)
        commit.run(
            4_000, 0, [Request(scheduler=None, device=random.randint(9_000, 90_000), meta=True)]
        )
        ends = []
        for way, (client, tid) in enumerate(zip(clients, (400, 401), strict=True)):
            xid = client.xid + number
            done = served(server, 700 + way, there[way], xid, commit, random.randint(1, 9_000))
            called(client, tid, begin + 2_000, xid, done + 25_000, 800)
            ends.append(returned(client, tid, begin, begin + 2_500, done + 25_000, 50_000 + tid))
        truth.append(account_of(commit))
        begin = max(ends) + random.randint(1_000, 90_000)
    breakdown = found_in(recorded(tmp_path, *clients, server))
    for client in clients:
        for held, mine in zip(truth, accounts_of(breakdown, client.name), strict=True):
            for row in ("journal.locking", "journal.logging", "device.journal", "block.Q2D"):
                assert mine[f"server/{row}"] == held[row], row


# -- flushes ---------------------------------------------------------------------------


def test_flushes_are_served_by_all_of_their_group_that_ended_meanwhile() -> None:
    """What ends after an ask was answered did not serve it; what began before it may have."""
    asks = asks_of(ints(0, 20, 0), ints(100, 140, 90), ints(0, 0, 0), 0, ints(0, 0, 1))
    serves = serves_of(ints(10, 50, 15), ints(60, 120, 80), ints(0, 0, 0), 0, ints(70, 70, 71))
    asks = replace(asks, shared=np.ones(3, np.bool_))
    serves = replace(serves, shared=np.ones(3, np.bool_))
    ties = Ties(ints(0, 1), ints(70, 71))
    pairs = match(asks, serves, Times(serves.begin_ns, serves.end_ns), ties, (0, 0))
    assert list(zip(pairs.ask.tolist(), pairs.serve.tolist(), strict=True)) == [
        (0, 0), (1, 0), (1, 1), (2, 2),
    ]  # fmt: skip


def test_a_flush_that_clocks_put_a_little_late_is_found() -> None:
    asks = replace(asks_of(ints(0), ints(100), ints(0), 0), shared=np.ones(1, np.bool_))
    serves = replace(serves_of(ints(60), ints(105), ints(0), 0), shared=np.ones(1, np.bool_))
    times, ties = Times(serves.begin_ns, serves.end_ns), Ties(ints(0), ints(0))
    assert match(asks, serves, times, ties, (-9, 9)).serve.tolist() == [0]
    assert match(asks, serves, times, ties, (-2, 2)).serve.tolist() == []


def flushed(chain: Chain, writer: Writer, begin: int, end: int) -> None:
    """An fdatasync of a guest's thread: its only work is a flush, from bio to completion."""
    world = chain.guest
    rq = world.pointer("rq", begin, end)
    place = {"dev": GUEST_DISK, "sector": NO_SECTOR, "size_bytes": 0, "flags": FLUSH_OP | PREFLUSH}
    queued = place | {"sector": 0}
    writer.now = begin - 1_000
    writer.enter()
    world.emit("block_bio_queue", begin, writer.tid, bio_key=rq + 8, kernel_thread=0, **queued)
    world.emit("block_rq_issue", begin, writer.tid, request_key=rq, bio_key=rq + 8, **place)
    world.emit("block_rq_complete", end, 0, request_key=rq, bio_key=rq + 8, **place)
    writer.now = begin
    writer._wait(end - begin, 1_000, 2_000)
    writer.leave("fdatasync")


def synced(chain: Chain, tid: int, begin: int, end: int) -> None:
    chain.host.emit("syscall", end, tid, enter_ns=begin, inode=IMAGE_INODE, dev=NFS, tgid=VMM,
                    offset_bytes=-1, size_bytes=0, result=0, open_flags=0, call=7)  # fmt: skip


def test_two_flushes_at_once_share_what_served_both(tmp_path: Path) -> None:
    """The first one's only serve is the second one's, too, which has one more of its own."""
    chain = Chain()
    one, other = chain.writer(), Writer(chain.guest, 402, GUEST_DISK, 0)
    for number in range(20):
        chain.durable_write(one, number * 8192, Costs())
        begin = one.now + 50_000
        flushed(chain, one, begin, begin + 100_000)
        flushed(chain, other, begin + 30_000, begin + 160_000)
        synced(chain, 501, begin + 10_000, begin + 60_000)
        synced(chain, 502, begin + 61_000, begin + 150_000)
        one.now = begin + 200_000
    breakdown = analysed(chain, tmp_path, "guest host")
    row = [layer.name for layer in breakdown.layers].index("host/syscall")
    sizes, held = breakdown.writes.size_bytes, breakdown.time_ns[row]
    mine = (sizes == 0) & (breakdown.writes.tid == 400)
    assert np.unique(held[mine]).tolist() == [50_000]
    theirs = breakdown.writes.tid == 402
    (crossing,) = breakdown.quality.crossings
    assert (np.abs(held[theirs] - (30_000 + 89_000)) <= crossing.bound_ns).all()
