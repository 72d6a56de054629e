# SPDX-License-Identifier: Apache-2.0
"""Who served which ask: keys used again, groups that look alike, ranges, disks passed by."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest

from iostrata.analysis import analyse, path
from iostrata.columns import Ints, pair_key
from iostrata.hops import graph
from iostrata.hops.hop import Asks, Serves
from iostrata.hops.match import Ties, Times, fitting, match
from iostrata.hops.nfs import Nfs
from iostrata.hops.translation import Extents, translated
from iostrata.hops.virtio import Virtio
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from iostrata.trace.read import Trace
from tests.chain import APART, GUEST_DISK, Chain, Costs
from tests.network import exchanged
from tests.stitch.test_chain import analysed, only_thread, qualified, summed
from tests.stitch.test_truth import conserves
from tests.synthetic import O_DSYNC, Request, Writer, clock, device

# Long until the monitor takes it up, short below.
HOT = Costs(vmm=500_000, client=20_000, there=5_000, svc_queue=1_000, svc=3_000, back=5_000,
            disk=Request(device=20_000, scheduler=None), complete=4_000, inject=6_000,
            interrupt=2_000)  # fmt: skip


def hot(pauses: list[int], error_ns: int, directory: Path) -> tuple[Breakdown, list[Counter[str]]]:
    """One block, written again and again; clocks told by exchange, with that much of an error."""
    chain = Chain((APART[0], clock(3_600_000_000_000, 0), APART[2]))
    writer = chain.writer()
    for pause in pauses:
        chain.durable_write(writer, 8192, HOT)
        writer.now += pause
    chain.recording(directory)
    exchanged(directory / "guest", chain.clocks[0], writer.now, error_ns, 2_000_000)
    exchanged(directory / "host", chain.clocks[1], writer.now, 0, 200_000)
    breakdown = analyse(open_recording(directory))
    conserves(breakdown)
    return breakdown, writer.truth


@pytest.mark.parametrize("error_ns", [0, -900_000, -300_000, 300_000, 900_000])
def test_one_block_again_and_again(error_ns: int, tmp_path: Path) -> None:
    """The bound is more than a serve, the way back and the pause: the ask itself tells."""
    random = Random(1)
    breakdown, truth = hot([random.randint(0, 60_000) for _ in range(300)], error_ns, tmp_path)
    virtio = breakdown.quality.crossings[0]
    assert virtio.clock == "exchange"
    assert (virtio.followed, virtio.asked, virtio.ambiguous) == (300, 300, 0)
    for mine, true in zip(only_thread(breakdown), truth, strict=True):
        assert summed(mine).keys() == summed(qualified(true)).keys()
        for row, ns in summed(qualified(true)).items():
            assert abs(summed(mine)[row] - ns) <= 300, row


@pytest.mark.parametrize("error_ns", [0, 900_000])
def test_like_clockwork_nothing_tells_which_it_was(error_ns: int, tmp_path: Path) -> None:
    """Each write like the one before it, and clocks that may be off by more than a write takes."""
    breakdown, _ = hot([0] * 300, error_ns, tmp_path)
    virtio = breakdown.quality.crossings[0]
    assert virtio.followed == 0
    # At the edges of the recordings one or two have no serve at all.
    assert virtio.ambiguous >= 298
    assert breakdown.quality.unfollowed == len(breakdown.writes) >= 299
    assert "fits as well" in virtio.contradiction
    below = {layer.name for layer in breakdown.layers if layer.machine != "guest"}
    assert below <= {"host/unfollowed", "host/kvm.exit"}


# -- tables of their own -------------------------------------------------------------------


def asks_of(begin: Ints, end: Ints, offset: Ints, size: Ints | int = 8192,
            group: Ints | int = 0) -> Asks:  # fmt: skip
    count, none = len(begin), np.zeros(len(begin), np.int64)
    size = np.broadcast_to(size, count)
    return Asks(np.arange(count), begin, end, pair_key(offset, size),
                np.broadcast_to(group, count), none.astype(np.bool_), none - 1, none - 1,
                offset, size)  # fmt: skip


def serves_of(begin: Ints, end: Ints, offset: Ints, size: Ints | int = 8192,
              group: Ints | int = 0) -> Serves:  # fmt: skip
    count, none = len(begin), np.zeros(len(begin), np.int64)
    size, no = np.broadcast_to(size, count), none.astype(np.bool_)
    return Serves(begin, end, pair_key(offset, size), np.broadcast_to(group, count), no,
                  np.arange(count), none, no, offset, size)  # fmt: skip


def tied(asks: Asks, serves: Serves, ties: dict[int, int] | None = None) -> dict[int, list[int]]:
    """The serves of each ask that has any."""
    times = Times(serves.begin_ns, serves.end_ns)
    known = np.array(sorted((ties or {0: 0}).items()), np.int64)
    pairs = match(asks, serves, times, Ties(known[:, 0], known[:, 1]), (0, 0))
    assert not (set(pairs.ask.tolist()) & set(np.flatnonzero(pairs.ambiguous).tolist()))
    found: dict[int, list[int]] = {}
    for ask, serve in zip(pairs.ask.tolist(), pairs.serve.tolist(), strict=True):
        found.setdefault(ask, []).append(serve)
    return found


def ints(*values: int) -> Ints:
    return np.array(values, np.int64)


def test_two_disks_whose_places_are_the_same() -> None:
    """What one disk was asked is never looked for in the other's image."""
    random = np.random.default_rng(2)
    count = 400
    begin = np.sort(random.integers(0, 4_000_000, count))
    end = begin + random.integers(10_000, 60_000, count)
    group, offset = random.integers(0, 2, count), random.integers(0, 4, count) * 8192
    # Each disk has one request of a place at a time.
    last: dict[tuple[int, int], int] = {}
    for row in range(count):
        place = int(group[row]), int(offset[row])
        shift = max(last.get(place, 0) - int(begin[row]), 0)
        begin[row] += shift
        end[row] += shift
        last[place] = int(end[row]) + 1
    asks = asks_of(begin, end, offset, group=group)
    served = begin + (end - begin) // 4, end - (end - begin) // 4
    serves = serves_of(*served, offset, group=group + 70)
    found = tied(asks, serves, {0: 70, 1: 71})
    assert found == {row: [row] for row in range(count)}
    # By the key alone, many might be the other disk's.
    assert len(fitting(asks, serves, Times(*served))[0]) > 1.1 * count


@pytest.mark.parametrize("slow", [400, 401])
@pytest.mark.parametrize("vms", [(0, 1), (1, 0)])
@pytest.mark.parametrize("lost", [0, 3])
def test_a_mirrors_slow_disk_is_not_its_quick_one(
    slow: int, vms: tuple[int, int], lost: int, tmp_path: Path
) -> None:
    """What the quick one is asked lies within what the slow one is: its image fits both.

    ``lost``: calls of the slow one's monitor that were not seen.
    """
    one = Chain(vm=vms[0])
    other = Chain(beside=one, vm=vms[1])
    other.guest = one.guest
    one.guest.builder.block(device(253, 32), "vdc")
    writers = [one.writer(), Writer(one.guest, 401, device(253, 32), 1_000_000)]
    costs = {tid: Costs(disk=Request(device=20_000 + 880_000 * (tid == slow), scheduler=None))
             for tid in (400, 401)}  # fmt: skip
    random = Random(1)
    for number in range(60):
        now = max(writer.now for writer in writers) + random.randint(1_000, 90_000)
        for chain, writer, late in zip((one, other), writers, (0, 500), strict=True):
            writer.now = now + late
            chain.host.deaf_to = "syscall" if number < lost and writer.tid == slow else ""
            chain.durable_write(writer, (number % 8 + 1) * 8192, costs[writer.tid])
    one.recording(tmp_path)
    for name in ("guest", "host", "server"):
        exchanged(tmp_path / name, int, writers[0].now, 100, 2_000)
    breakdown = analyse(open_recording(tmp_path))
    conserves(breakdown)
    virtio = breakdown.quality.crossings[0]
    assert (virtio.followed, virtio.asked, virtio.bypassed) == (120 - lost, 120, ())
    rows = [layer.name for layer in breakdown.layers]
    found = breakdown.time_ns[rows.index("server/device.data")]
    for tid in (400, 401):
        mine = found[breakdown.writes.tid == tid]
        assert (mine[mine > 0] == costs[tid].disk.device).all()


def test_two_at_once_of_one_key_are_not_told_apart() -> None:
    asks = asks_of(ints(0, 10, 500), ints(100, 110, 600), ints(0, 0, 0))
    serves = serves_of(ints(20, 40, 520), ints(30, 50, 550), ints(0, 0, 0))
    assert tied(asks, serves) == {2: [2]}


def test_what_fits_one_only_tells_the_others() -> None:
    """The first serve is before the second ask, so that the second serve is the second's."""
    asks = asks_of(ints(0, 15, 45), ints(100, 110, 130), ints(0, 0, 0))
    serves = serves_of(ints(5, 40, 60), ints(9, 50, 120), ints(0, 0, 0))
    assert tied(asks, serves) == {0: [0], 1: [1], 2: [2]}


def test_a_serve_that_is_missing_leaves_those_that_it_may_be_of() -> None:
    asks = asks_of(ints(0, 10), ints(100, 110), ints(0, 0))
    serves = serves_of(ints(20), ints(30), ints(0))
    assert tied(asks, serves) == {}


def test_several_serves_make_up_an_ask() -> None:
    asks = asks_of(ints(0, 0), ints(100, 100), ints(0, 65536), 16384)
    serves = serves_of(ints(10, 12, 14), ints(40, 60, 50), ints(0, 8192, 65536), 8192)
    # Of the second one, half is missing.
    assert tied(asks, serves) == {0: [0, 1]}


def test_one_serve_makes_up_several_asks() -> None:
    asks = asks_of(ints(0, 5, 8), ints(100, 110, 90), ints(0, 8192, 32768))
    serves = serves_of(ints(20), ints(60), ints(0), 16384)
    assert tied(asks, serves) == {0: [0], 1: [0]}


def test_a_range_that_is_served_twice_meanwhile_is_nobodys() -> None:
    asks = asks_of(ints(0), ints(100), ints(0), 16384)
    serves = serves_of(ints(10, 12, 14), ints(40, 60, 50), ints(0, 8192, 8192), 8192)
    assert tied(asks, serves) == {}


@pytest.mark.parametrize("seed", range(20))
def test_random_uses_are_never_tied_wrong(seed: int) -> None:
    """Few keys, many at once, some serves lost: what is tied is right, and most is."""
    random = np.random.default_rng(seed)
    count = 600
    begin = np.sort(random.integers(0, 2_000_000, count))
    length = random.integers(2_000, 40_000, count)
    early, late = random.random(count) * 0.4, random.random(count) * 0.4
    offset = random.integers(0, 30, count) * 8192
    served = (
        begin + (length * early).astype(np.int64),
        begin + length - (length * late).astype(np.int64),
    )
    kept = np.flatnonzero(random.random(count) < 0.97)
    asks = asks_of(begin, begin + length, offset)
    serves = serves_of(served[0][kept], served[1][kept], offset[kept])
    found = tied(asks, serves)
    wrong = [ask for ask, mine in found.items() if kept[mine].tolist() != [ask]]
    # Where a serve was lost, another's may stand in for it; that is as rare as losses are.
    assert len(wrong) <= 0.01 * count
    assert len(found) > 0.6 * count


# -- between key and key -------------------------------------------------------------------


class Partitioned(Virtio):
    """A guest's disk that is a part of the host's, first at one place, then moved."""

    moved_ns = 0

    def translated(self, asks: Asks, upper: Trace, lower: Trace) -> Asks:
        disk, end = np.full(2, GUEST_DISK), np.full(2, 1 << 40)
        since = np.array([0, self.moved_ns])
        until = np.array([self.moved_ns, 1 << 60])
        return translated(asks, Extents(disk, disk * 0, end, ints(1 << 20, 1 << 30), since, until))


class Shifted(Chain):
    """What is at a place of the guest's disk is elsewhere in the host's file."""

    by = 1 << 20

    def carried_out(self, enter: int, offset: int, costs: Costs, account: Counter[str]) -> int:
        return super().carried_out(enter, offset + self.by, costs, account)


def test_a_disk_that_is_an_extent_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = Shifted()
    writer = chain.writer()
    for number in range(60):
        if number == 30:
            Shifted.by, Partitioned.moved_ns = 1 << 30, writer.now
        costs = Costs(vmm=51_000, there=65_000, back=65_000)
        chain.durable_write(writer, number % 7 * 8192, costs)
    plain = analysed(chain, tmp_path / "plain")
    assert plain.quality.apart == (
        "host: nothing ties its events to another machine's",
        "server: what it served was for host, which stands apart itself",
    )
    for module in (graph, path):
        monkeypatch.setattr(module, "HOPS", (Partitioned(), Nfs()))
    breakdown = analysed(chain, tmp_path / "known")
    virtio = breakdown.quality.crossings[0]
    assert (virtio.followed, virtio.asked) == (60, 60)
    for mine, true in zip(only_thread(breakdown), writer.truth, strict=True):
        for row, ns in summed(qualified(true)).items():
            assert abs(summed(mine)[row] - ns) <= 30, row


# -- past the machine below ----------------------------------------------------------------

PASSED = device(259, 0)


def test_a_disk_that_the_host_sees_nothing_of(tmp_path: Path) -> None:
    """It is no zero in the hypervisor's rows: its time is below, and a line says so."""
    chain = Chain()
    chain.guest.builder.block(PASSED, "nvme0n1")
    writer = chain.writer()
    other = Writer(chain.guest, 404, PASSED, 0)
    for number in range(30):
        chain.durable_write(writer, number * 8192, Costs(vmm=51_000, there=65_000, back=65_000))
        other.now = writer.now
        other.enter()
        other.data(Request(device=40_000 + number, scheduler=None, sector=8 * number))
        other.leave("pwrite64", flags=O_DSYNC, result=8192)
        other.finish()
        writer.now = other.now + 10_000
    breakdown = analysed(chain, tmp_path)
    assert [crossing.bypassed for crossing in breakdown.quality.crossings] == [("nvme0n1",), ()]
    assert (breakdown.quality.unfollowed, breakdown.quality.apart) == (30, ())
    (row,) = (n for n, layer in enumerate(breakdown.layers) if layer.name == "guest/device.data")
    mine = breakdown.writes.tid == 404
    assert sorted(breakdown.time_ns[row, mine].tolist()) == [40_000 + n for n in range(30)]
    host = [n for n, layer in enumerate(breakdown.layers) if layer.segment == "hypervisor"]
    assert not breakdown.time_ns[host][:, mine].any()
