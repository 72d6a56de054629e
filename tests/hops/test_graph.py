# SPDX-License-Identifier: Apache-2.0
"""Machines as a graph, with known truth: who holds what, whatever the order that they come in."""

from __future__ import annotations

import gc
import json
from collections import Counter
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from random import Random

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.attribute import summarise
from iostrata.clock.line import MAX_DRIFT_PPM
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from tests.chain import APART, Chain, Costs, drawn, recording_of
from tests.network import Call, Disk, Machine, recorded
from tests.network import drawn as call
from tests.stitch.test_truth import conserves
from tests.synthetic import clock


def found_in(path: Path) -> Breakdown:
    breakdown = analyse(open_recording(path))
    conserves(breakdown)
    return breakdown


def accounts_of(breakdown: Breakdown, machine: str, alone: bool = False) -> list[dict[str, int]]:
    """Of the writes of one machine, in order; ``alone``: there is no other, and rows say so."""
    writes = breakdown.writes
    mine = np.flatnonzero(writes.codes["machine"] == list(writes.names["machine"]).index(machine))
    found = []
    for number in mine[np.argsort(writes.begin_ns[mine])].tolist():
        account = {
            f"{machine}/{layer.name}" if alone else layer.name: int(times[number])
            for layer, times in zip(breakdown.layers, breakdown.time_ns, strict=True)
            if times[number]
        }
        if breakdown.residual_ns[number]:
            account["residual"] = int(breakdown.residual_ns[number])
        found.append(account)
    return found


def same(mine: dict[str, int], true: Counter[str], bounds: int) -> None:
    """Each way there and back may be off by the clocks' bound, and nothing else."""
    joined: list[dict[str, int]] = []
    for account in (mine, true):
        ways: Counter[str] = Counter()
        for row, ns in account.items():
            machine, _, name = row.partition("/")
            ways[f"{machine}/network" if name.startswith("network.") else row] += ns
        joined.append(dict(ways))
    tolerance = 30 + bounds + sum(true.values()) * 2 * MAX_DRIFT_PPM // 1_000_000
    assert joined[0].keys() == joined[1].keys()
    for row, ns in joined[1].items():
        assert abs(joined[0][row] - ns) <= tolerance, row


def holds(breakdown: Breakdown, *machines: Machine, bounds: int = 0) -> None:
    several = len({machine for layer in breakdown.layers for machine in [layer.machine]}) > 1
    for machine in machines:
        if machine.truth:
            found = accounts_of(breakdown, machine.name, alone=not several)
            for mine, true in zip(found, machine.truth, strict=True):
                same(mine, true, bounds)


# -- a diamond ---------------------------------------------------------------------


def diamond(seed: int = 1) -> list[Machine]:
    """The client asks A and B at once, and A asks B for what it is asked."""
    random = Random(seed)
    client, a, b = Machine("client"), Machine("a"), Machine("b")
    now = 1_000_000
    for _ in range(40):
        through = call(random, b, [Disk(device=random.randint(1_000, 90_000))])
        work = [call(random, a, [through]), call(random, b, [Disk()])]
        random.shuffle(work)
        now = client.write(400, now, work) + random.randint(1_000, 90_000)
    return [client, a, b]


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_a_diamond_in_any_order(order: Sequence[int], tmp_path: Path) -> None:
    machines = diamond()
    breakdown = found_in(recorded(tmp_path, *(machines[number] for number in order)))
    holds(breakdown, *machines)
    assert breakdown.quality.apart == ()
    assert {(c.upper, c.lower) for c in breakdown.quality.crossings} == {
        ("client", "a"), ("client", "b"), ("a", "b"),
    }  # fmt: skip
    assert all(crossing.followed == crossing.asked for crossing in breakdown.quality.crossings)


# -- branches ----------------------------------------------------------------------


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_branch_that_ends_last_holds_the_time(order: Sequence[int], tmp_path: Path) -> None:
    """A takes 10 ms and B 9 ms: B held nothing of it, however they were found; it is said."""
    client, a, b = Machine("client"), Machine("a"), Machine("b")
    now = 1_000_000
    for number in range(30):
        work = [Call(a, [Disk(device=10_000_000)]), Call(b, [Disk(device=9_000_000)])]
        now = client.write(400, now, work[:: 1 if number % 2 else -1]) + 50_000 + number * 731
    machines = [client, a, b]
    breakdown = found_in(recorded(tmp_path, *(machines[number] for number in order)))
    holds(breakdown, client)
    rows = [layer.name for layer in breakdown.layers]
    assert (breakdown.time_ns[rows.index("a/device.data")] >= 9_990_000).all()
    assert "b/device.data" not in rows
    (hidden,) = breakdown.quality.hidden.items()
    assert hidden[0] == "b"
    assert 9_000_000 < hidden[1] < 9_200_000


@pytest.mark.parametrize("recorded_too", ["", "other"])
def test_a_call_that_nobody_recorded_and_that_ends_last_holds_the_time(
    recorded_too: str, tmp_path: Path
) -> None:
    """Its own disk held nothing of what the caller waited for, be the server seen or not."""
    client, away, other = Machine("client"), Machine("away"), Machine("other", port=900)
    now = 1_000_000
    for number in range(30):
        late = number % 3 > 0
        own = Disk(device=600_000 if late else 900_000)
        work: list[Disk | Call] = [own, Call(away, [Disk(device=600_000)])]
        then = [Call(other)] if recorded_too else []
        now = client.write(400, now, work[:: 1 if number % 2 else -1], then) + 50_000 + number * 731
    found = found_in(recorded(tmp_path, client, *([other] if recorded_too else [])))
    rows = {layer.row: times for layer, times in zip(found.layers, found.time_ns, strict=True)}
    beyond = ("network.there", "network.back", "svc.queue", "svc", "block.Q2D", "device.data",
              "wakeup.interrupt", "wakeup.runqueue")  # fmt: skip
    for number, true in enumerate(client.truth):
        call = sum(true[f"away/{row}"] for row in beyond)
        assert rows["device.data"][number] == true["client/device.data"]
        assert rows["rpc.call"][number] == call
        assert (call > 600_000) == (number % 3 > 0)


def test_replicas_are_all_awaited(tmp_path: Path) -> None:
    """A primary that writes itself and to two others: whoever is last holds the time."""
    random = Random(3)
    client, *osds = (Machine(name) for name in ("client", "one", "two", "three"))
    now = 1_000_000
    for _ in range(60):
        replicas = [call(random, osd, [Disk(device=random.randint(9_000, 300_000))])
                    for osd in osds[1:]]  # fmt: skip
        primary = call(random, osds[0], [Disk(device=random.randint(9_000, 600_000)), *replicas])
        now = client.write(400, now, [primary]) + random.randint(1_000, 90_000)
    breakdown = found_in(recorded(tmp_path, client, *osds))
    holds(breakdown, client)
    held = {row.partition("/")[0] for one in client.truth for row in one if "device" in row}
    assert held == {"one", "two", "three"}


# -- one machine twice ---------------------------------------------------------------


def test_a_machine_that_is_reached_twice_on_the_way(tmp_path: Path) -> None:
    """A asks B, which asks A: what A did for B is in the same rows as what it did itself."""
    random = Random(4)
    a, b = Machine("a", clock(7_000_000, 3)), Machine("b", clock(90_000_000_000, -4))
    now = 1_000_000
    for _ in range(60):
        back = call(random, a, [Disk(device=random.randint(9_000, 90_000))])
        now = a.write(400, now, [call(random, b, [back])]) + random.randint(1_000, 90_000)
    breakdown = found_in(recorded(tmp_path, b, a))
    holds(breakdown, a)
    assert [layer.name for layer in breakdown.layers].count("a/device.data") == 1


def test_a_machine_that_serves_itself(tmp_path: Path) -> None:
    random = Random(5)
    local = Machine("local")
    now = 1_000_000
    for _ in range(60):
        work = [call(random, local, [Disk(device=random.randint(9_000, 90_000))])]
        now = local.write(400, now, work) + random.randint(1_000, 90_000)
    breakdown = found_in(recorded(tmp_path, local))
    (crossing,) = breakdown.quality.crossings
    assert (crossing.followed, crossing.asked, crossing.bound_ns) == (60, 60, 0)
    names = {f"local/{layer.row}" for layer in breakdown.layers}
    assert {"local/svc", "local/network.there", "local/network.back", "local/device.data"} <= names
    holds(breakdown, local)


# -- many ----------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_eight_machines(seed: int, tmp_path: Path) -> None:
    """Each asks the next one, of some writes two at once; three of them have a workload."""
    random = Random(seed)
    machines = [
        Machine(f"m{n}", clock(random.randint(0, 10**12), random.randint(-9, 9))) for n in range(8)
    ]

    def asked_of(number: int, further: int) -> list[Disk | Call]:
        own: list[Disk | Call] = [Disk(device=random.randint(1_000, 200_000))]
        if further and number + 1 < len(machines):
            own.append(call(random, machines[number + 1], asked_of(number + 1, further - 1)))
        random.shuffle(own)
        return own

    for writer in (0, 3, 5):
        now = 1_000_000
        for _ in range(40):
            now = machines[writer].write(400 + writer, now, asked_of(writer, 7))
            now += random.randint(1_000, 400_000)
    order = list(machines)
    random.shuffle(order)
    breakdown = found_in(recorded(tmp_path, *order))
    assert len(breakdown.writes) == 120
    holds(breakdown, *machines)
    groups = summarise(breakdown, "machine").groups
    assert [(group.name, group.count) for group in groups] == [("m0", 40), ("m3", 40), ("m5", 40)]


def test_ten_guests_on_one_host(tmp_path: Path) -> None:
    """All write the same places at the same times: none gets what another's disk was asked."""
    first = Chain(APART)
    chains = [first] + [Chain((clock(n * 10**9), *APART[1:]), beside=first, vm=n)
                        for n in range(1, 10)]  # fmt: skip
    for chain in chains:
        random, writer = Random(chain.vm), chain.writer(1_000_000 + chain.vm * 7_000)
        for number in range(40):
            sector = (number % 8 + 1) * 16
            chain.durable_write(writer, sector * 512, drawn(random, sector))
            writer.now += random.randint(0, 50_000)
        chain.written = writer.truth
    breakdown = found_in(recording_of(tmp_path, chains))
    assert len(breakdown.writes) == 400
    assert breakdown.quality.apart == ()
    for chain in chains:
        name = f"guest{chain.vm}"
        found = accounts_of(breakdown, name)
        for mine, true in zip(found, chain.written, strict=True):
            named = Counter({
                row.replace("guest/", f"{name}/") if "/" in row else f"{name}/{row}": ns
                for row, ns in true.items() if ns
            })  # fmt: skip
            both = summed(mine, name), summed(named, name)
            assert both[0].keys() == both[1].keys()
            for row, ns in both[1].items():
                assert abs(both[0][row] - ns) <= 2_000, row


def guests(count: int, seeds: tuple[int, int]) -> tuple[Chain, Chain]:
    """Two on hosts of their own that write one place, as quickly if their seeds are the same."""
    chains = Chain(APART), Chain((clock(10**9), clock(5), clock(9)), vm=1)
    for chain, seed in zip(chains, seeds, strict=True):
        random, writer = Random(seed), chain.writer(1_000_000)
        for _ in range(count):
            chain.durable_write(writer, 8192, drawn(random, 16))
            writer.now += random.randint(0, 50_000)
    return chains


def test_of_guests_alike_like_clockwork_nothing_tells_which_one_is_here(tmp_path: Path) -> None:
    """Two that write one place, at once and as quickly; the other one's host is not recorded."""
    here, there = guests(count=40, seeds=(7, 7))
    breakdown = found_in(recording_of(tmp_path, [here, there]))
    crossings = [one for one in breakdown.quality.crossings if one.lower == "host"]
    assert sum(one.followed for one in crossings) == 0
    assert sum(one.ambiguous for one in crossings) == 80


def test_a_guest_that_fits_another_ones_disk_by_chance_is_no_rival(tmp_path: Path) -> None:
    """The host of one of two guests is not recorded; both write one place, each in its own time."""
    here, there = guests(count=100, seeds=(0, 1))
    breakdown = found_in(recording_of(tmp_path, [here, there]))
    (crossing,) = [
        one for one in breakdown.quality.crossings
        if one.upper == "guest0" and one.lower == "host"
    ]  # fmt: skip
    assert crossing.followed == 100


def test_a_guest_that_recorded_nothing_says_so(tmp_path: Path) -> None:
    """What its host did for it is taken for its twin's, whose own host was not recorded."""
    here, there = guests(count=40, seeds=(7, 7))
    here.guest.builder = Chain(APART).guest.builder
    quality = found_in(recording_of(tmp_path, [here, there])).quality
    assert (quality.crossings[0].upper, quality.crossings[0].followed) == ("guest1", 40)
    assert quality.apart == (
        "guest0: it recorded nothing that it asked of another machine; what that did for it may be "
        "taken for what it did for another guest that asked the same",
    )


def summed(account: dict[str, int] | Counter[str], guest: str) -> dict[str, int]:
    """The rows that only the clocks' relation splits, as one."""
    ways = {f"{guest}/virtio.submit": "down", "host/vmm.submit": "down",
            "host/vmm.complete": "down", "host/kvm.inject": "down",
            f"{guest}/virtio.interrupt": "down", "server/network.there": "net",
            "server/network.back": "net"}  # fmt: skip
    found: Counter[str] = Counter()
    for row, ns in account.items():
        found[ways.get(row, row)] += ns
    return dict(found)


@pytest.mark.parametrize("xid", [0, 1_000])
def test_two_clients_with_the_same_port(xid: int, tmp_path: Path) -> None:
    """The server's connections look alike; so do calls (``xid``), where one may be told."""
    random = Random(8)
    server = Machine("server")
    clients = [Machine("left", clock(5 * 10**9), xid=xid),
               Machine("right", clock(8 * 10**9), xid=xid)]  # fmt: skip
    for number, client in enumerate(clients):
        now = 1_000_000 + number * 333
        for _ in range(60):
            work = [call(random, server, [Disk(device=random.randint(1_000, 90_000))])]
            now = client.write(400 + number, now, work) + random.randint(1_000, 90_000)
    breakdown = found_in(recorded(tmp_path, *clients, server))
    assert len(breakdown.writes) == 120
    if not xid:
        holds(breakdown, *clients)
        return
    ambiguous = sum(crossing.ambiguous for crossing in breakdown.quality.crossings)
    assert breakdown.quality.unfollowed == ambiguous < 40
    for client in clients:
        found = accounts_of(breakdown, client.name)
        for mine, true in zip(found, client.truth, strict=True):
            if "server/unfollowed" not in mine:
                same(mine, true, 0)


@pytest.mark.parametrize("roles", ["vm hypervisor nas", "target guest initiator"])
def test_a_role_is_a_word(roles: str, tmp_path: Path) -> None:
    """Which machine is whose lower one is told by the events."""
    chain = Chain()
    writer = chain.writer()
    for number in range(20):
        chain.durable_write(writer, number * 8192, Costs())
    expected = analyse(open_recording(chain.recording(tmp_path)))
    text = json.loads((tmp_path / "recording.json").read_text())
    for machine, role in zip(text["machines"], roles.split(), strict=True):
        machine["role"] = role
    (tmp_path / "recording.json").write_text(json.dumps(text))
    found = analyse(open_recording(tmp_path))
    assert [layer.name for layer in found.layers] == [layer.name for layer in expected.layers]
    assert found.time_ns.tolist() == expected.time_ns.tolist()


# -- anything ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_random_worlds(seed: int, tmp_path: Path) -> None:
    """Any machine may ask any, of several at once, also itself; each has a clock that drifts."""
    random = Random(100 + seed)
    machines = [
        Machine(f"m{n}", clock(random.randint(0, 10**13), random.randint(-20, 20)))
        for n in range(random.randint(2, 6))
    ]

    def some(depth: int) -> list[Disk | Call]:
        work: list[Disk | Call] = [Disk(random.randint(100, 900), random.randint(999, 200_000))]
        for _ in range(random.randint(0, 2) if depth else 0):
            work.append(call(random, random.choice(machines), some(depth - 1)))
        random.shuffle(work)
        return work

    writers = random.sample(range(len(machines)), random.randint(1, len(machines)))
    for writer in writers:
        now = random.randint(1_000_000, 2_000_000)
        for _ in range(40):
            now = machines[writer].write(400 + writer, now, some(3))
            now += random.randint(1_000, 400_000)
    breakdown = found_in(recorded(tmp_path, *random.sample(machines, len(machines))))
    assert len(breakdown.writes) == 40 * len(writers)
    for number in writers:
        found = accounts_of(breakdown, machines[number].name)
        for mine, true in zip(found, machines[number].truth, strict=True):
            for row in mine.keys() | true.keys():
                # Clocks by causality alone, with a drift: exact to a microsecond, of up to 2 ms.
                assert abs(mine.get(row, 0) - true[row]) <= 1_000, row


def test_what_was_analysed_is_let_go_of(tmp_path: Path) -> None:
    """Nothing holds a recording's files open until the collector of cycles comes by."""
    chain = Chain()
    writer = chain.writer()
    for number in range(3):
        chain.durable_write(writer, number * 8192, Costs())
    path = chain.recording(tmp_path)
    gc.collect()
    gc.disable()
    try:
        breakdown = analyse(open_recording(path))
        mapped = Path("/proc/self/maps").read_text()
    finally:
        gc.enable()
    assert len(breakdown.writes) == 3
    assert str(path) not in mapped
