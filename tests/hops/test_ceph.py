# SPDX-License-Identifier: Apache-2.0
"""Disks of Ceph with known truth: each operation is its own OSD's, and waits for the slowest."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from iostrata.model import Breakdown
from tests.cluster import Client, Copy, Costs, Machine, Osd, Part, account, found_in
from tests.stitch.test_truth import accounts
from tests.synthetic import Request, clock


def drawn(random: Random) -> Costs:
    def some(upto: int) -> int:
        return random.randint(100, upto)

    data = Request(queue=some(900), scheduler=None, device=some(400_000), sector=some(999))
    log = Request(queue=some(900), scheduler=None, device=some(400_000), size=4096,
                  sector=some(999) + 9_000)  # fmt: skip
    return Costs(
        some(90_000), some(90_000), some(900), random.choice([data, None]), some(9_000),
        some(9_000), some(9_000), some(9_000), log, some(9_000), some(9_000), some(9_000),
    )  # fmt: skip


def check(found: Breakdown, client: Client) -> None:
    mine = accounts(found)[client.writer.tid]
    for rows, true in zip(mine, client.writer.truth, strict=True):
        assert account(rows) == account(true)


@pytest.mark.parametrize("seed", range(3))
def test_every_row_of_one_osd_is_met(tmp_path: Path, seed: int) -> None:
    random, machine, client = Random(seed), Machine("a"), Client()
    osd = Osd(machine, 0)
    for _ in range(60):
        client.write(Part(osd, drawn(random), way=random.randint(20_000, 90_000)))
    found = found_in(tmp_path, client, machine)
    (crossing,) = found.quality.crossings
    assert (crossing.hop, crossing.asked, crossing.followed) == ("ceph", 60, 60)
    check(found, client)


@pytest.mark.parametrize("seed", range(3))
def test_the_slowest_of_three_is_what_is_waited_for(tmp_path: Path, seed: int) -> None:
    """Its rows are the write's, be it the primary itself or another."""
    random, client = Random(seed), Client()
    machines = [Machine(name) for name in "abc"]
    osds = [Osd(machine, number) for number, machine in enumerate(machines)]
    for _ in range(80):
        primary, *others = random.sample(osds, 3)
        copies = [Copy(osd, drawn(random), random.randint(9_000, 90_000)) for osd in others]
        client.write(Part(primary, drawn(random), copies))
    check(found_in(tmp_path, client, *machines), client)
