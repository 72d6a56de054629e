# SPDX-License-Identifier: Apache-2.0
"""Disks over wires whose target is no last machine, with known truth: it is the initiator's own, or
an initiator itself."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from tests import fabric
from tests.hops.test_iscsi import followed, same
from tests.iscsi import Costs, Machine, Session, analysed, drawn, truth_of
from tests.stitch.test_truth import accounts
from tests.synthetic import Request, clock


def test_a_target_on_the_initiators_machine(tmp_path: Path) -> None:
    """As in trials, and where a hypervisor has its storage itself (hyperconverged)."""
    random, both = Random(1), Machine("both", clock(5_000_000, 0))
    session = Session(both, both)
    writer = session.writer()
    for number in range(30):
        flush = drawn(random) if number % 3 == 0 else None
        session.write(writer, random.randint(0, 3) * 8192, drawn(random), flush)
    found = analysed(tmp_path, both)
    assert followed(found) == [(40, 40)]
    truth = [
        dict(Counter({row.partition("/")[2] or row: 0 for row in account}))
        for account in writer.truth
    ]
    for account, true in zip(truth, writer.truth, strict=True):
        for row, ns in true.items():
            account[row.partition("/")[2] or row] += ns
    assert accounts(found)[writer.tid] == [
        {row: ns for row, ns in account.items() if ns} for account in truth
    ]


@dataclass
class Relay(Session):
    """Its target's disk is another machine's, by NVMe over TCP."""

    below: fabric.Costs = field(default_factory=fabric.Costs)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.last = fabric.Target("last", clock(9_000_000_000, 0))
        self.near = fabric.Initiator(self.target.name, disk=self.disk)
        self.near.world = self.target.world
        self.to = fabric.Connection(self.last)
        self.rows: Counter[str] = Counter()

    def _disk(self, now: int, costs: Costs, flush: bool, own: Counter[str]) -> tuple[int, int]:
        thread = replace(self.receiver, now=now)
        self.near._request(thread, self.to, self.below, fabric.WORKER)
        self.rows = self.below.rows(self.near.name, self.last.name, False)
        own["beyond"] = self.below.total
        return now + self.below.total, now + 1_000


def test_a_target_that_is_an_initiator(tmp_path: Path) -> None:
    random, relay = Random(2), Relay(Machine("initiator", clock(5_000_000, 0)), Machine("target"))
    writer, truth = relay.writer(), []
    for number in range(40):
        way = random.randint(20_000, 90_000)
        relay.below = fabric.Costs(
            there=way, back=way, waits=random.randint(9, 90_000),
            disk=Request(scheduler=None, sector=8 * number, device=random.randint(9_000, 400_000)),
        )  # fmt: skip
        relay.write(writer, random.randint(0, 3) * 8192, drawn(random))
        (true,) = truth_of(writer, "initiator")[-1:]
        assert true.pop("target/beyond") == relay.below.total
        truth.append(true | {row: ns for row, ns in relay.rows.items() if ns})
    found = analysed(tmp_path, relay.initiator, relay.target, relay.last)  # type: ignore[arg-type]
    assert [(one.hop, one.asked, one.followed) for one in found.quality.crossings] == [
        ("iscsi", 40, 40), ("nvme-tcp", 40, 40),
    ]  # fmt: skip
    for rows in (truth, mine := accounts(found)[writer.tid]):
        for account in rows:
            ways = (account.pop(f"last/network.{way}", 0) for way in ("there", "back"))
            account["beyond"] = sum(ways)
    same(mine, truth, "target")
