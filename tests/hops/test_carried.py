# SPDX-License-Identifier: Apache-2.0
"""A guest whose files are on a server, and the host that carries its packets, with known truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from iostrata.analysis import analyse
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from tests.network import NFS_PORT, Call, Connection, Disk, Machine, Served, Stretch, recorded
from tests.stitch.test_truth import accounts, conserves
from tests.synthetic import World, clock

CALL_BYTES, REPLY_BYTES = 8_300, 160
NEAR_THE_END = (1 << 32) - 50_000
"""Of the numbers that a stream's bytes have: they begin anew in the midst of the recording."""
GUEST_CARD, TAP, BRIDGE, CARD, SERVER_CARD = 2, 5, 4, 3, 7
THREAD = 101


@dataclass
class Parts(Call):
    """As long there as back, so that causality finds the very relation of the clocks.

    ``lost_for``: so long after the call left by the carrier's card the client sent it again, as
    the wire had lost it.
    """

    client: int = 4_000
    vnic: int = 30_000
    carrier: int = 9_000
    wire: int = 50_000
    server: int = 6_000
    lost_for: int = 0

    def __post_init__(self) -> None:
        self.back = self.client + self.vnic + self.carrier + self.wire + self.server
        self.there = self.back + self.lost_for


@dataclass
class Server(Machine):
    """``seen_as``: what it makes of its clients' addresses; 0: as they do."""

    seen_as: int = 0

    def serve(
        self, there: int, one: Call, xid: int, by: Connection, served: Served
    ) -> tuple[int, list[Stretch]]:
        by = replace(by, ends=known_by(self, by.ends))
        return super().serve(there, one, xid, by, served)


@dataclass
class Guest(Machine):
    """``host``: carries what it says. ``told``: by which machines' recorders packets are told."""

    host: Machine = field(default_factory=lambda: Machine("host", role="host"))
    server: Machine = field(default_factory=lambda: Server("server", role="server"))
    told: Sequence[str] = ("guest", "host", "server")
    random: Random = field(default_factory=lambda: Random(1))
    call_end: int = NEAR_THE_END
    reply_end: int = NEAR_THE_END

    def _call(
        self, tid: int, made: int, one: Call, served: Served
    ) -> tuple[int, int, list[Stretch]]:
        assert isinstance(one, Parts)
        send, reply, held = super()._call(tid, made, one, served)
        known = Connection(self.connection(one.to), one.to.addresses(self.address))
        theirs = replace(known, ends=known_by(one.to, known.ends))
        parts = (one.client, one.vnic, one.carrier, one.wire, one.server)
        there, back = along(send, parts), along(reply - one.back, parts[::-1])
        self.tell("rpc_stream", self.world, send + 100, known, self.call_end + CALL_BYTES)
        self.passes(known, theirs, there[1 : 4 if one.lost_for else 5], to_server=True)
        if one.lost_for:
            again = [time + one.lost_for for time in there[1:5]]
            self.passes(known, theirs, again, to_server=True)
            there = [*there[:4], *(time + one.lost_for for time in there[4:])]
        self.call_end += CALL_BYTES
        world = one.to.world
        self.tell("svc_stream", world, reply - one.back + 100, theirs, self.reply_end + REPLY_BYTES)
        self.passes(known, theirs, back[1:5], to_server=False)
        self.reply_end += REPLY_BYTES
        names = [f"{one.to.name}/network.{part}" for part in vars(Parts(one.to))][-6:-1]
        held = [stretch for stretch in held if "network." not in stretch[0]]
        ways = [*zip(names, there, there[1:], strict=False),
                *zip(reversed(names), back, back[1:], strict=False)]  # fmt: skip
        return send, reply, [*held, *ways]

    def tell(self, point: str, world: World, time: int, by: Connection, end: int) -> None:
        if self.told:
            xid = max(self._xids.values())
            world.emit(point, time, 55, xid=xid, sequence=end % (1 << 32), connection=by.ports,
                       ends=by.ends)  # fmt: skip

    def passes(
        self, known: Connection, theirs: Connection, times: Sequence[int], to_server: bool
    ) -> None:
        """By four points, or those of them that it got to; the host knows both of a connection's
        numbers."""
        server = self.server
        points = [
            (self, "packet_sent", GUEST_CARD, known),
            (self.host, "packet_received", TAP, known),
            (self.host, "packet_sent", CARD, theirs),
            (server, "packet_received", SERVER_CARD, theirs),
        ]
        if not to_server:
            points = [
                (server, "packet_sent", SERVER_CARD, theirs),
                (self.host, "packet_received", CARD, theirs),
                (self.host, "packet_sent", TAP, known),
                (self, "packet_received", GUEST_CARD, known),
            ]
        for (machine, point, device, by), time in zip(points, times, strict=False):
            self.cut(machine, point, device, by, time, to_server)
        # A bridge has its packets, too, between its ports.
        self.cut(self.host, "packet_received", BRIDGE, known, times[1] + 20, to_server)
        self.cut(self.host, "packet_sent", BRIDGE, known, times[2] - 20, to_server)

    def cut(
        self, machine: Machine, point: str, device: int, by: Connection, time: int, to_server: bool
    ) -> None:
        if machine.name not in self.told:
            return
        begin = self.call_end if to_server else self.reply_end
        size = CALL_BYTES if to_server else REPLY_BYTES
        wire = {"connection": by.ports, "ends": by.ends, "device": device}
        cut(self.random, machine.world, point, time, begin, size, to_server=int(to_server), **wire)


def cut(
    random: Random, world: World, point: str, time: int, begin: int, size: int, **wire: int
) -> None:
    """Some packets, in any order, of which the last is there at that time."""
    edges = [0, *sorted(random.sample(range(1, size), random.randint(0, 5))), size]
    pieces = list(pairwise(edges))
    random.shuffle(pieces)
    for number, (since, until) in enumerate(reversed(pieces)):
        sequence = (begin + since) % (1 << 32)
        world.emit(point, time - number, 0, sequence=sequence, size_bytes=until - since, **wire)


def known_by(server: Machine, ends: int) -> int:
    assert isinstance(server, Server)
    return server.seen_as or ends


def along(begin: int, parts: Sequence[int]) -> list[int]:
    times = [begin]
    for part in parts:
        times.append(times[-1] + part)
    return times


def world(told: Sequence[str] = ("guest", "host", "server"), seen_as: int = 0) -> Guest:
    host = Machine("host", clock(5_000_000, 0), role="host")
    host.world.builder.vmm(300, "guest")
    server = Server("server", clock(3_600_000_000_000, 0), role="server", seen_as=seen_as)
    server.address = "server"
    guest = Guest("guest", int, "guest", host=host, told=told, server=server)
    guest.address = "guest"
    guest.world.builder.card("eth0", "virtio_net")
    return guest


def write(guest: Guest, begin: int, **parts: int) -> int:
    call = Parts(guest.server, [Disk()], **parts)
    return guest.write(THREAD, begin, [call]) + 50_000


def analysed(path: Path, guest: Guest, machines: str = "guest host server") -> Breakdown:
    there = {"guest": guest, "host": guest.host, "server": guest.server}
    breakdown = analyse(open_recording(recorded(path, *(there[n] for n in machines.split()))))
    conserves(breakdown)
    return breakdown


def written(guest: Guest, count: int = 40) -> None:
    random, begin = Random(3), 1_000_000
    for _ in range(count):
        begin = write(guest, begin, **{
            part: random.randint(200, 90_000)
            for part in ("client", "vnic", "carrier", "wire", "server")
        })  # fmt: skip


def truth_of(guest: Guest) -> list[dict[str, int]]:
    return [dict(account) for account in guest.truth]


def merged(account: dict[str, int], into: dict[str, str]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for row, ns in account.items():
        found[into.get(row, row)] += ns
    return dict(found)


@pytest.mark.parametrize("seen_as", [0, 4711])
def test_every_part_of_the_way_is_met(tmp_path: Path, seen_as: int) -> None:
    """Through a bridge, and where the host changes the guest's address to its own."""
    guest = world(seen_as=seen_as)
    written(guest)
    found = analysed(tmp_path, guest)
    assert accounts(found)[THREAD] == truth_of(guest)
    assert found.quality.apart == ()
    assert found.quality.virtual == ()


def test_what_the_wire_loses_is_the_wires(tmp_path: Path) -> None:
    """The call is sent again: it passed the client, and the host, when it did so first."""
    guest = world()
    begin = 1_000_000
    for number in range(20):
        begin = write(guest, begin, lost_for=3_000_000 if number % 5 == 2 else 0)
    found = accounts(analysed(tmp_path, guest))[THREAD]
    assert [account["server/network.wire"] for account in found] == [
        account["server/network.wire"] for account in guest.truth
    ]
    assert max(account["server/network.wire"] for account in found) == 3_100_000


def test_a_host_of_which_nothing_is_told(tmp_path: Path) -> None:
    """What lies between the two ends' cards is one row."""
    guest = world(told=("guest", "server"))
    written(guest)
    found = analysed(tmp_path, guest)
    into = {f"server/network.{part}": "server/network.wire" for part in ("vnic", "carrier")}
    assert accounts(found)[THREAD] == [merged(account, into) for account in truth_of(guest)]
    assert any("nothing ties" in line for line in found.quality.apart)


def test_a_server_of_which_nothing_is_told(tmp_path: Path) -> None:
    """The last part is as long as what no point is of: there is no row for it but the way's own."""
    guest = world(told=("guest", "host"))
    written(guest)
    found = accounts(analysed(tmp_path, guest))[THREAD]
    for account, true in zip(found, truth_of(guest), strict=True):
        ways = sum(ns for row, ns in account.items() if "/network." in row)
        assert ways == sum(ns for row, ns in true.items() if "/network." in row)
        for part in ("client", "vnic", "carrier"):
            assert account[f"server/network.{part}"] == true[f"server/network.{part}"]
        assert "server/network.wire" not in account
        assert "server/network.server" not in account


def test_without_packets_the_way_is_as_it_was(tmp_path: Path) -> None:
    guest = world(told=())
    written(guest)
    for account, true in zip(
        accounts(analysed(tmp_path, guest))[THREAD], truth_of(guest), strict=True
    ):
        ways = {row for row in account if "/network." in row}
        assert ways == {"server/network.there", "server/network.back"}
        assert sum(account[row] for row in ways) == sum(
            ns for row, ns in true.items() if "/network." in row
        )


def test_what_was_seen_is_told(tmp_path: Path) -> None:
    guest = world()
    written(guest)
    (line,) = analysed(tmp_path, guest).quality.connections
    assert line.startswith("guest to server: 40 of 40 calls and replies seen as packets, by host")


def test_a_port_that_nobody_uses_is_told(tmp_path: Path) -> None:
    """NFS's packets are told; of another port that was asked for, on the guest, there was none."""
    guest = world()
    written(guest)
    for machine in (guest, guest.host, guest.server):
        machine.world.builder.env["packets"] = str(NFS_PORT)
    guest.world.builder.env["packets"] = f"{NFS_PORT} 2050"
    found = analysed(tmp_path, guest).quality
    assert [(gap.where, gap.reason) for gap in found.not_observed if "packets" in gap.layer] == [
        ("packets of port 2050 on guest", "there was none")
    ]


@pytest.mark.parametrize(("machines", "words"), [("guest", 1), ("guest host server", 0)])
def test_packets_that_divide_nothing_are_told(tmp_path: Path, machines: str, words: int) -> None:
    """Who asked for them on the client only has no part of the way, and learns why."""
    guest = world()
    written(guest)
    guest.world.builder.env["packets"] = str(NFS_PORT)
    found = analysed(tmp_path, guest, machines).quality
    gaps = [gap.reason for gap in found.not_observed if "parts of the network" in gap.layer]
    what = "only of NFS by TCP, and iSCSI to LIO, whose client and server are both recorded"
    assert gaps == [what] * words


def test_packets_that_were_refused_are_not_missing(tmp_path: Path) -> None:
    """Why there is none is told then: their programs did not attach."""
    guest = world(told=())
    written(guest)
    guest.world.builder.env["packets"] = str(NFS_PORT)
    for program in ("packet_sent", "packet_received"):
        guest.world.emit("probe", 1, 0, program=program.encode(), error=-22)
    gaps = [gap.layer for gap in analysed(tmp_path, guest).quality.not_observed]
    assert [layer for layer in gaps if "packet" in layer] == [
        "packet: packet_sent, packet_received"
    ]


def test_what_a_carriers_recorder_lost_is_told(tmp_path: Path) -> None:
    guest = world()
    written(guest)
    guest.host.world.builder.refuse("packet_received", time_ns=guest.host.clock(2_000_000), count=3)
    assert analysed(tmp_path, guest).quality.lost == {"host:packet_received": 3}
