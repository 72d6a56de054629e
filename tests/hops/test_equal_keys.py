# SPDX-License-Identifier: Apache-2.0
"""Calls that bear the same xids on several connections, and calls of which nothing is found."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from iostrata.attribute import summarise
from iostrata.model import Breakdown
from iostrata.report import json as report
from iostrata.report import table
from tests.hops.test_graph import accounts_of, found_in
from tests.network import Call, Connection, Disk, Machine, Served, Stretch, recorded
from tests.network import drawn as call
from tests.synthetic import clock

XID = 1_000


def some_clock(random: Random):  # type: ignore[no-untyped-def]
    return clock(random.randint(0, 10**13), random.randint(-20, 20))


def world(
    seed: int, path: Path, ports: int, writes: int = 40, addressed: bool = False
) -> tuple[list[Machine], Path]:
    """Some clients, each of which asks all of some servers, in an order of its own.

    ``ports``: from one client's to the next one's. ``addressed``: the events tell of addresses.
    """
    random = Random(seed)
    servers = [Machine(f"s{n}", some_clock(random)) for n in range(random.randint(2, 4))]
    clients = [
        Machine(f"c{n}", some_clock(random), port=800 + ports * n, xid=XID)
        for n in range(random.randint(1, 3))
    ]
    for machine in [*servers, *clients] if addressed else []:
        machine.address = machine.name
    for number, client in enumerate(clients):
        now = random.randint(1_000_000, 2_000_000)
        for _ in range(writes):
            work = [
                call(random, random.choice(servers), [Disk(device=random.randint(999, 200_000))])
                for _ in range(random.randint(1, 2))
            ]
            now = client.write(400 + number, now, work) + random.randint(1_000, 400_000)
    machines = [*clients, *servers]
    random.shuffle(machines)
    return clients, recorded(path, *machines)


def by_machine(account: dict[str, int] | Counter[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for row, ns in account.items():
        found[row.partition("/")[0]] += ns
    return found


def true_ones(
    found: list[dict[str, int]], truth: list[Counter[str]]
) -> Iterator[tuple[dict[str, int], Counter[str]]]:
    """Each write that was analysed, with its truth: a server may not have been there for some."""
    left = iter(truth)
    for mine in found:
        took = sum(mine.values())
        yield mine, next(true for true in left if abs(true.total() - took) <= 100)


def untrue(breakdown: Breakdown, clients: list[Machine]) -> int:
    """How many writes are said to have been followed, but to where they never were."""
    wrong = 0
    for client in clients:
        found = accounts_of(breakdown, client.name)
        for mine, true in true_ones(found, client.truth):
            if not any(row.endswith(("/unfollowed", "/rpc.call")) for row in mine):
                one, other = by_machine(mine), by_machine(true)
                wrong += any(abs(one[name] - other[name]) > 1_000 for name in one | other)
    return wrong


@pytest.mark.parametrize("seed", range(12))
def test_connections_with_equal_xids(seed: int, tmp_path: Path) -> None:
    """A connection has a number of its own: nothing is left to chance."""
    clients, path = world(seed, tmp_path, ports=100)
    breakdown = found_in(path)
    assert untrue(breakdown, clients) == 0
    assert breakdown.quality.unfollowed == 0
    assert not any(crossing.contradiction for crossing in breakdown.quality.crossings)


@pytest.mark.parametrize("seed", [2, 7, 20, 24, 28])
def test_connections_with_equal_xids_and_equal_ports(seed: int, tmp_path: Path) -> None:
    """Time alone tells two clients of one server: what it does not tell is not followed."""
    clients, path = world(seed, tmp_path, ports=0)
    breakdown = found_in(path)
    assert untrue(breakdown, clients) == 0
    assert breakdown.quality.unfollowed <= 0.15 * len(breakdown.writes)


@pytest.mark.parametrize("seed", range(12))
def test_clones_of_one_machine_are_told_apart_by_their_addresses(seed: int, tmp_path: Path) -> None:
    """Equal xids, equal ports, and few writes: each client's calls are its own."""
    clients, path = world(seed, tmp_path, ports=0, writes=8, addressed=True)
    breakdown = found_in(path)
    assert untrue(breakdown, clients) == 0
    assert breakdown.quality.unfollowed == 0


@pytest.mark.parametrize("seed", range(12))
def test_clones_of_one_machine_without_addresses_are_not_mixed_up(
    seed: int, tmp_path: Path
) -> None:
    """Few writes: what time does not tell apart is not followed, and that is said."""
    clients, path = world(seed, tmp_path, ports=0, writes=8)
    assert untrue(found_in(path), clients) == 0


@pytest.mark.parametrize("seed", range(4))
def test_what_clocks_just_miss_is_not_another_copys_call(seed: int, tmp_path: Path) -> None:
    """One's own serve is nearer than clocks are known, and that of the other's call is inside."""
    random = Random(seed)
    server = Machine("server", clock(7 * 10**9))
    clients = [Machine(name, clock(offset), xid=XID) for name, offset in (("l", 0), ("r", 10**9))]
    now = 1_000_000
    for turn in range(40):
        if turn == 20:
            quick = Call(server, [Disk(device=40_000)], there=2_000, back=300_000)
            slow = Call(server, [Disk(device=60_000)], there=30_000, back=200_000)
            clients[0].write(400, now, [quick])
            now = clients[1].write(401, now + 20_000, [slow]) + 300_000
        for number, client in enumerate(clients):
            work = [Disk(device=random.randint(9_000, 90_000))]
            usual = Call(server, work, there=20_000, back=5_000)
            now = client.write(400 + number, now, [usual]) + random.randint(9_000, 400_000)
    breakdown = found_in(recorded(tmp_path, *clients, server))
    assert len(breakdown.writes) == 82
    assert breakdown.quality.unfollowed <= 2
    disk = "server/device.data"
    for client in clients:
        for mine, true in true_ones(accounts_of(breakdown, client.name), client.truth):
            assert "server/unfollowed" in mine or abs(mine[disk] - true[disk]) <= 20


class BehindARouter(Machine):
    """A server that sees none of its clients' own addresses; nor ports, unless they stay."""

    moved = 7

    def serve(self, there: int, one: Call, xid: int, by: Connection,
              served: Served) -> tuple[int, list[Stretch]]:  # fmt: skip
        seen = Connection(by.ports + (self.moved << 16), self.addresses("router"))
        return super().serve(there, one, xid, seen, served)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("moved", [0, 7])
@pytest.mark.parametrize("address", ["", "far"])
def test_a_connection_that_is_changed_on_the_way(
    seed: int, moved: int, address: str, tmp_path: Path
) -> None:
    """No number is the same on both sides, or the ports alone: what is left, the xids tell."""
    random = Random(seed)
    near = Machine("near", some_clock(random), address=address and "near")
    far = BehindARouter("far", some_clock(random), address=address)
    far.moved = moved
    client = Machine("client", some_clock(random), address=address and "client")
    now = 1_000_000
    for _ in range(40):
        work = [call(random, to, [Disk(device=random.randint(999, 90_000))]) for to in (near, far)]
        now = client.write(400, now, work) + random.randint(1_000, 90_000)
    breakdown = found_in(recorded(tmp_path, client, near, far))
    assert untrue(breakdown, [client]) == 0
    assert breakdown.quality.unfollowed == 0
    changed = {one.lower: one.readdressed for one in breakdown.quality.crossings}
    assert changed == {"near": 0, "far": 40 if address else 0}


def test_a_copy_of_the_client_between_it_and_the_server_is_no_secret(tmp_path: Path) -> None:
    """It was not recorded: its calls have the xids and the ports of those that they are for."""
    random = Random(3)
    client, copy, server = (
        Machine(name, some_clock(random), xid=XID, address=name)
        for name in ("client", "copy", "server")
    )
    now = 1_000_000
    for _ in range(20):
        beyond = call(random, server, [Disk(device=random.randint(999, 90_000))])
        now = client.write(400, now, [call(random, copy, [beyond])]) + random.randint(999, 90_000)
    summary = summarise(found_in(recorded(tmp_path, client, server)))
    (crossing,) = summary.quality.crossings
    assert (crossing.followed, crossing.readdressed) == (20, 20)
    said = "addresses client and server know different ones of what carried 20 of these"
    assert said in " ".join(table.plain(summary).split())
    (told,) = json.loads(report.render(summary))["quality"]["crossings"]
    assert told["readdressed"] == 20


# -- what is said of what was not found -------------------------------------------------


def test_a_server_that_was_not_recorded_is_no_way_down(tmp_path: Path) -> None:
    """Of three writes one asks it: longer than what it asks the other one, or shorter."""
    random = Random(6)
    client, here, elsewhere = Machine("client"), Machine("here"), Machine("elsewhere")
    now = 1_000_000
    for number in range(60):
        work = [call(random, here, [Disk(device=50_000)])]
        if number % 3 == 0:
            work.append(Call(elsewhere, [Disk(device=random.choice([1_000, 900_000]))]))
        now = client.write(400, now, work) + random.randint(1_000, 90_000)
    breakdown = found_in(recorded(tmp_path, client, here))
    (crossing,) = breakdown.quality.crossings
    assert (crossing.followed, crossing.asked) == (60, 60)
    assert breakdown.quality.unfollowed == 20


def test_what_is_hidden_and_not_found_is_not_followed(tmp_path: Path) -> None:
    """A call whose service was lost, beside a longer one: it holds no time, but was not found."""
    random = Random(7)
    client, one, other = Machine("client"), Machine("one"), Machine("other")
    now = 1_000_000
    for _ in range(40):
        work = [
            Call(one, [Disk(device=900_000)]),
            Call(other, [Disk(device=random.randint(1, 9999))]),
        ]
        now = client.write(400, now, work) + random.randint(1_000, 90_000)
    served = other.world.builder._rows["svc_call"]
    del served[10:15]
    breakdown = found_in(recorded(tmp_path, client, one, other))
    assert not any(layer.row == "unfollowed" for layer in breakdown.layers)
    assert breakdown.quality.unfollowed == 5


def test_a_call_of_a_server_that_is_not_found_counts_at_the_top(tmp_path: Path) -> None:
    random = Random(8)
    client, one, other = Machine("client"), Machine("one"), Machine("other")
    now = 1_000_000
    for _ in range(40):
        below = call(random, other, [Disk(device=random.randint(1_000, 90_000))])
        now = client.write(400, now, [call(random, one, [below])]) + random.randint(1_000, 90_000)
    served = other.world.builder._rows["svc_call"]
    del served[10:15]
    breakdown = found_in(recorded(tmp_path, client, one, other))
    assert breakdown.quality.unfollowed == 5
