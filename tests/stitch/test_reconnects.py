# SPDX-License-Identifier: Apache-2.0
"""An NFS client whose connection breaks, with known truth: each call is told by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.recording import open_recording
from iostrata.stitch import Downs
from tests.network import Call, Machine, recorded
from tests.stitch.test_truth import accounts, analysed, conserves
from tests.synthetic import O_DSYNC, World, device

MOUNT = device(0, 44)
CONNECTION, OTHER = 800 << 16 | 2049, 801 << 16 | 2049
TRANSPORT, ANOTHER = 0xFFFF_8881_0000_0000, 0xFFFF_8881_0000_4000
TID = 100
RECOVERED_NS = 228_041_322
RECORDINGS = Path(__file__).parent.parent / "recordings"


def turn(
    world: World, time: int, connected: int, transport: int = TRANSPORT, by: int = CONNECTION
) -> None:
    world.emit("rpc_transport", time, 0, transport_key=transport, connection=by,
               connected=connected)  # fmt: skip


def write(world: World, made: int, send: int, reply: int, connection: int = CONNECTION) -> int:
    """Entered 1,000 ns before its call is made, back 1,000 ns after that has ended; its key."""
    world.target(TID)
    end, key = reply + 500, world.pointer("task", made, reply + 1_000)
    world.emit("nfs_call", made, TID, call_key=key, inode=12, dev=MOUNT, offset_bytes=0,
               size_bytes=8192, stable=2, operation=1)  # fmt: skip
    world.emit("rpc_call", end, 67, call_key=key, send_ns=send, ready_ns=reply,
               reply_ns=reply + 100, xid=7, connection=connection)  # fmt: skip
    world.emit("sched_resume", end, TID, off_ns=made, wake_ns=end, waker_tid=67, state=2,
               subject_tid=TID)  # fmt: skip
    world.emit("syscall", end + 1_000, TID, enter_ns=made - 1_000, inode=12, offset_bytes=0,
               dev=MOUNT, result=8192, size_bytes=8192, tgid=TID, open_flags=O_DSYNC,
               call=2)  # fmt: skip
    return key


def account_of(world: World) -> dict[str, int]:
    found = analysed(world)
    conserves(found)
    ((account,),) = accounts(found).values()
    return account


def test_what_waited_for_a_connection_was_in_no_queue() -> None:
    """The server was stopped before the call was made, and is there again at 700,000."""
    world = World()
    turn(world, 50_000, 0)
    turn(world, 300_000, 0)  # An attempt that was refused.
    turn(world, 700_000, 1)
    write(world, 100_000, 720_000, 800_000)
    account = account_of(world)
    assert account["rpc.reconnect"] == 700_000 - 100_000
    assert account["rpc.queue"] == 20_000
    assert account["rpc.call"] == 80_000


def test_a_call_under_way_waits_for_the_connection_too() -> None:
    """Sent at 110,000; the connection breaks at 200,000 and is there again, by another number."""
    world = World()
    turn(world, 1_000, 1)
    turn(world, 200_000, 0)
    turn(world, 500_000, 1, by=OTHER)
    write(world, 100_000, 110_000, 600_000, connection=OTHER)
    account = account_of(world)
    assert account["rpc.reconnect"] == 300_000
    assert account["rpc.queue"] == 10_000
    assert account["rpc.call"] == 90_000 + 100_000


RECOVERY, DELAY = 1, 2


def waited(world: World, begin: int, end: int, reason: int, key: int) -> None:
    for time, waits in ((begin, 1), (end, 0)):
        world.emit("rpc_wait", time, 0, call_key=key, reason=reason, waits=waits)


def test_what_waits_for_the_session_or_its_time_is_in_no_queue() -> None:
    """The server was stopped, came back, and knew nothing of its client."""
    world = World()
    turn(world, 50_000, 0)
    turn(world, 300_000, 1)
    key = write(world, 100_000, 720_000, 800_000)
    waited(world, 150_000, 340_000, DELAY, key)
    waited(world, 360_000, 500_000, RECOVERY, key)
    waited(world, 510_000, 700_000, DELAY, key)
    account = account_of(world)
    assert account["rpc.reconnect"] == 300_000 - 100_000
    assert account["rpc.delay"] == (340_000 - 300_000) + (700_000 - 510_000)
    assert account["rpc.recovery"] == 140_000
    assert account["rpc.queue"] == 20_000 + 10_000 + 20_000
    assert account["rpc.call"] == 80_000


@pytest.mark.parametrize("case", ["another call", "before", "not its end", "old recording"])
def test_what_waits_for_nothing_is_in_the_queue(case: str) -> None:
    world = World()
    key = write(world, 100_000, 720_000, 800_000)
    match case:
        case "another call":
            waited(world, 150_000, 340_000, RECOVERY, key + 0x140)
        case "before":
            waited(world, 50_000, 90_000, RECOVERY, key)
        case "not its end":
            world.emit("rpc_wait", 150_000, 0, call_key=key, reason=RECOVERY, waits=1)
    account = account_of(world)
    assert account["rpc.queue"] == 620_000
    assert {"rpc.recovery", "rpc.delay"}.isdisjoint(account)


@pytest.mark.parametrize("case", ["another transport", "before", "after", "none told"])
def test_a_connection_that_stands_takes_nothing(case: str) -> None:
    world = World()
    match case:
        case "another transport":
            turn(world, 1_000, 1)
            turn(world, 1_000, 1, ANOTHER, OTHER)
            turn(world, 150_000, 0, ANOTHER, OTHER)
            turn(world, 250_000, 1, ANOTHER, OTHER)
        case "before":
            turn(world, 20_000, 0)
            turn(world, 90_000, 1)
        case "after":
            turn(world, 20_000, 1)
            turn(world, 700_000, 0)
    write(world, 100_000, 110_000, 600_000)
    account = account_of(world)
    assert "rpc.reconnect" not in account
    assert (account["rpc.queue"], account["rpc.call"]) == (10_000, 490_000)


def test_what_comes_up_first_had_no_connection_before() -> None:
    """The recording began while the client was trying."""
    world = World()
    world.emit("clock_sample", 40_000, 0)
    turn(world, 400_000, 1)
    write(world, 100_000, 410_000, 600_000)
    assert account_of(world)["rpc.reconnect"] == 300_000


def told(world: World, time: int, resent: int, connection: int = CONNECTION) -> None:
    world.emit("rpc_connection", time, 0, local_high=0, local_low=0xFFFF << 32 | 0x0A000002,
               remote_high=0, remote_low=0xFFFF << 32 | 0x0A000001, connection=connection,
               rtt_us=100, rtt_deviation_us=5, retransmit_count=resent)  # fmt: skip


def test_what_was_lost_on_a_connection_is_said() -> None:
    """TCP's count begins anew with each socket: 7, 9; 3, 4 are 2 + 3 + 1 more."""
    world = World()
    for time, resent in ((20_000, 7), (40_000, 9), (710_000, 3), (790_000, 4)):
        told(world, time, resent)
    turn(world, 50_000, 0)
    turn(world, 700_000, 1)
    for xid in (5, 6):
        world.emit("rpc_retransmit", 705_000, 0, transport_key=TRANSPORT, xid=xid,
                   connection=CONNECTION)  # fmt: skip
    write(world, 100_000, 720_000, 800_000)
    assert analysed(world).quality.connections == (
        "to 10.0.0.1: none for 650 us (1 time), 2 calls sent again, 6 TCP segments sent again",
    )


def test_what_no_call_went_by_is_not_said() -> None:
    world = World()
    for time, resent in ((20_000, 7), (40_000, 9)):
        told(world, time, resent, OTHER)
    told(world, 50_000, 7)
    turn(world, 50_000, 0, ANOTHER, OTHER)
    turn(world, 70_000, 1, ANOTHER, OTHER)
    write(world, 100_000, 120_000, 800_000)
    assert analysed(world).quality.connections == ()


def test_what_is_left_beside_times_without_a_connection() -> None:
    """Of three ways: one without a break, one with two of them, one that is nothing else."""
    none = np.zeros(0, np.int64)
    downs = Downs(
        transport=np.array([1, 1]), begin_ns=np.array([50, 20]), end_ns=np.array([60, 30]),
        up_key=np.array([7, 7]), up_ns=np.array([30, 60]), up_transport=np.array([1, 1]),
    )  # fmt: skip
    begin, end = np.array([70, 10, 52]), np.array([80, 90, 58])
    found = downs.apart_from(np.array([7, 7, 7]), begin, end)
    columns = (column.tolist() for column in found)
    left = [one for one in zip(*columns, strict=True) if one[1] < one[2]]
    assert left == [(0, 70, 80), (1, 10, 20), (1, 30, 50), (1, 60, 90)]
    assert [len(column) for column in downs.apart_from(none, none, none)] == [0, 0, 0]


def test_what_broke_on_its_way_to_a_server_is_not_the_networks(tmp_path: Path) -> None:
    """Sent, lost or dropped, sent again: the server has it once there is a connection again."""
    client, server = Machine("client"), Machine("server", role="server")
    begin = 10_000
    for _ in range(20):
        begin = client.write(TID, begin, [Call(server, there=40_000, back=40_000)]) + 20_000
    sent = begin + 2_000 + 5_000
    for time, connected in ((sent + 100_000, 0), (sent + 300_000, 1)):
        turn(client.world, time, connected, by=client.connection(server))
    client.write(TID, begin, [Call(server, there=400_000, back=40_000)])
    found = analyse(open_recording(recorded(tmp_path / "recording", client, server)))
    conserves(found)
    last = accounts(found)[TID][-1]
    assert last["client/rpc.reconnect"] == 200_000
    assert last["server/network.there"] + last["server/network.back"] == 100_000 + 40_000
    assert last["server/unfollowed"] == 100_000
    assert last["client/rpc.queue"] == client.truth[-1]["client/rpc.queue"]


def test_a_transport_is_told_of_once_whatever_its_connections_numbers() -> None:
    world = World()
    for time, connected, by in ((10_000, 1, CONNECTION), (300_000, 0, 0), (400_000, 1, OTHER)):
        turn(world, time, connected, by=by)
    write(world, 100_000, 110_000, 200_000)
    write(world, 410_000, 420_000, 500_000, connection=OTHER)
    # It came up at 10,000 for the first time since the recording began.
    (line,) = analysed(world).quality.connections
    assert line.startswith("to port 2049: none for ")
    assert line.endswith(" (2 times)")


def test_a_servers_restart_as_it_was_recorded() -> None:
    """nfsd was stopped for 2 s: one write waited for it, and then for its session."""
    found = analyse(open_recording(RECORDINGS / "nfs_restart"))
    rows = {layer.name: times for layer, times in zip(found.layers, found.time_ns, strict=True)}
    (hit,) = np.flatnonzero(rows["rpc.reconnect"])
    # From rpc_task_sleep in the queue of the client's state manager to its rpc_task_wakeup.
    assert rows["rpc.recovery"][hit] == RECOVERED_NS
    assert rows["rpc.recovery"].sum() == RECOVERED_NS
    assert rows["rpc.queue"][hit] < 0.02 * found.writes.latency_ns[hit]
