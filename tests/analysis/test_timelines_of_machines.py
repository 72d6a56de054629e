# SPDX-License-Identifier: Apache-2.0
"""Timelines through several machines: every step's keys are those of one and the same write."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from iostrata.analysis import analyse, prepare, timelines
from iostrata.attribute.choice import Choice
from iostrata.hops import lift
from iostrata.layers import HOPS, STACK
from iostrata.model import Evidence, Timeline
from iostrata.recording import open_recording
from iostrata.report import waterfall
from tests.chain import APART, CONNECTION, Chain
from tests.report.test_golden import golden
from tests.report.test_several_machines import fits, recording
from tests.stitch.test_chain import random_chain

WRITES = 60


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    chain, _ = random_chain(5, APART, WRITES)
    return chain.recording(tmp_path_factory.mktemp("chain"))


@pytest.fixture(scope="module")
def seen(path: Path) -> tuple[Timeline, ...]:
    return timelines(open_recording(path), Choice(numbers=tuple(range(1, WRITES + 1)))).timelines


def behind(timeline: Timeline) -> dict[str, Evidence]:
    return {step.layer.name: step.evidence for step in timeline.steps if step.layer}


def test_keys_on_every_machine(seen: tuple[Timeline, ...]) -> None:
    """The chain's places and xids: 12 places, written again and again, and each call once."""
    for number, timeline in enumerate(seen):
        found, xid = behind(timeline), Chain().xid + 1 + number
        sector = found["guest/block.Q2D"].sector
        assert sector is not None
        call = found["host/syscall"]
        assert (call.call, call.offset_bytes, call.size_bytes) == ("pwritev", sector * 512, 8192)
        data = found["server/device.data"]
        assert (data.device, data.sector, data.size_bytes) == ("sda", sector * 3, 8192)
        for row in ("rpc.queue", "rpc.reply"):
            assert (found[f"host/{row}"].xid, found[f"host/{row}"].connection) == (xid, CONNECTION)
        for row in ("network.there", "network.back", "svc.queue", "svc"):
            assert found[f"server/{row}"].xid == xid
        assert found["server/svc"].offset_bytes == sector * 512
        assert found["host/vmm.submit"].sector == found["guest/virtio.interrupt"].sector == sector


def test_commits_of_a_server() -> None:
    """A served call does not tell its file system; the only commit at work is its own."""
    opened = open_recording(Path(__file__).parents[1] / "recordings" / "kvm_nfs")
    found = [
        step.evidence
        for timeline in timelines(opened, Choice(slowest=WRITES - 1)).timelines
        for step in timeline.steps
        if step.layer and step.layer.name.startswith("server/journal.")
    ]
    assert len(found) > 300
    assert all(one.device == "disk" and one.transaction for one in found)


def test_ways_between_machines_tell_the_clocks_bound(
    path: Path, seen: tuple[Timeline, ...]
) -> None:
    crossings = {one.hop: one for one in analyse(open_recording(path)).quality.crossings}
    between = {rank.row for rank in HOPS}
    for timeline in seen:
        for step in timeline.steps:
            if step.layer is None or step.layer.row not in between:
                assert (step.evidence.hop, step.evidence.bound_ns) == (None, None)
                continue
            hop = "nfs" if step.layer.row.startswith(("network.", "svc.")) else "virtio"
            assert (step.evidence.hop, step.evidence.bound_ns) == (hop, crossings[hop].bound_ns)


def test_steps_add_up_to_what_the_table_counts(path: Path, seen: tuple[Timeline, ...]) -> None:
    breakdown = analyse(open_recording(path))
    for timeline in seen:
        account: Counter[str] = Counter()
        for step in timeline.steps:
            account[step.layer.name if step.layer else ""] += step.end_ns - step.begin_ns
        row = timeline.number - 1
        for layer, time_ns in zip(breakdown.layers, breakdown.time_ns[:, row], strict=True):
            assert account[layer.name] == time_ns
        assert account.total() == timeline.latency_ns


def test_lifted_spans_are_copies_of_their_machines_own(path: Path) -> None:
    """By number: each is on its own machine in its own clock, and lies inside of it."""
    found = prepare(open_recording(path))
    lifted = lift(found.path.graph, found.tops[0].node, np.arange(WRITES))
    firsts = [view.first for view in lifted.views]
    assert [view.node.trace.machine for view in lifted.views] == ["guest", "host", "server"]
    spans = lifted.spans.where(lifted.spans.rank % len(STACK) >= len(HOPS))
    assert (spans.of >= 0).all()
    place = np.searchsorted(firsts, spans.of, side="right") - 1
    for number, view in enumerate(lifted.views):
        mine = spans.where(place == number)
        own = view.spans.rows(mine.of - view.first)
        level = found.path.graph.level(number, view.node.place)
        assert (mine.rank == own.rank + level).all()
        begin, end = mine.begin_ns, mine.end_ns
        for link in view.way:
            begin, end = link.clock.to_lower(begin), link.clock.to_lower(end)
        assert (begin >= own.begin_ns - number).all()
        assert (end <= own.end_ns + number).all()


@pytest.mark.parametrize("width", [40, 80, 120])
def test_waterfall(width: int, tmp_path: Path) -> None:
    found = timelines(open_recording(recording(tmp_path / "chain")), Choice(near=(50,)))
    text = waterfall.render(found.timelines, found.quality, width).plain
    golden(f"waterfall.machines.{width}.txt", fits(text, width))
