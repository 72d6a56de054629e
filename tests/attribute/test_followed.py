# SPDX-License-Identifier: Apache-2.0
"""Sides of which one was followed less: what that tells of other machines is not judged."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

from iostrata.attribute.compare import compare
from iostrata.attribute.run import Run, run_of
from iostrata.attribute.selection import Wanted, chosen
from iostrata.model import Breakdown, Comparison, Layer
from tests.cluster import Client, Machine, Osd, Part, found_in
from tests.hops.test_ceph import drawn

WRITES = 40
OWN = {"syscall", "initiator.submit", "initiator.complete"}
BOTH = {"block.Q2D", "wakeup.interrupt", "wakeup.runqueue"}
OSDS = {"osd.queue", "osd.op", "bluestore.log", "device.journal"}


def recorded(path: Path, seed: int, elsewhere: int, *, beside: bool = False) -> Breakdown:
    """Writes that take about as long each, some of them with an OSD that nobody recorded.

    ``beside``: the other one is on the client's own machine.
    """
    random, client = Random(seed), Client()
    here = client if beside else Machine("a")
    osds = Osd(here, 0), Osd(Machine("b"), 1)
    for number in range(WRITES):
        client.write(Part(osds[number < elsewhere], drawn(random)))
    return found_in(path, *dict.fromkeys((client, here)))


def runs(path: Path, seed: int, elsewhere: int, *, beside: bool) -> list[Run]:
    return [
        run_of(recorded(path / f"{seed}{number}", 10 * seed + number, elsewhere, beside=beside))
        for number in range(3)
    ]


def layers(found: Comparison, *, unlike: bool) -> list[Layer]:
    return [row.layer for row in found.groups[0].rows if row.layer and row.unlike == unlike]


def rows(found: Comparison, *, unlike: bool) -> set[str]:
    return {layer.row for layer in layers(found, unlike=unlike)}


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("elsewhere", [3, WRITES // 2, WRITES - 1, WRITES])
def test_what_one_side_followed_less_is_not_judged(
    tmp_path: Path, elsewhere: int, *, beside: bool
) -> None:
    """Its OSDs were at work as well, and their disks: nothing tells how long."""
    a, b = runs(tmp_path, 1, 0, beside=beside), runs(tmp_path, 2, elsewhere, beside=beside)
    for one, other in ((a, b), (b, a)):
        found = compare(one, other, limit=0.001)
        assert rows(found, unlike=True) >= {*OSDS, "device.data", "initiator.call"}
        # Of two machines, each has such rows of its own.
        assert rows(found, unlike=False) == (OWN if beside else {*OWN, *BOTH})
        assert {"client"} == {each.machine for each in layers(found, unlike=False)}
        named = {each.row for each in found.regressions}
        assert not named & {layer.name for layer in layers(found, unlike=True)}


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("elsewhere", [0, 2, WRITES])
def test_what_both_sides_followed_alike_is_judged(
    tmp_path: Path, elsewhere: int, *, beside: bool
) -> None:
    a, b = (runs(tmp_path, seed, elsewhere, beside=beside) for seed in (1, 2))
    assert not rows(compare(a, b), unlike=True)
    assert rows(compare(a, b), unlike=False) >= (OWN if elsewhere == WRITES else {*OWN, *OSDS})


def test_how_much_was_followed_is_told_of_all_writes(tmp_path: Path) -> None:
    """Not of those that were chosen."""
    found = recorded(tmp_path, 1, 10)
    some = chosen(found, Wanted(slower_ns=int(np.median(found.writes.latency_ns))))
    assert len(some.writes) == WRITES // 2
    assert run_of(some).unfollowed == run_of(found).unfollowed == 0.25
