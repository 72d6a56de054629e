# SPDX-License-Identifier: Apache-2.0
"""A guest that stands still for a while, as one that is migrated does: its clock jumps. And one
whose clock has another pace from then on."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from iostrata.attribute import summarise
from iostrata.clock.line import MAX_DRIFT_PPM
from iostrata.model import Breakdown
from tests.chain import Chain, drawn
from tests.stitch.test_chain import analysed, only_thread, qualified, summed
from tests.synthetic import Clock, clock

MS, SECOND = 1_000_000, 1_000_000_000
WRITES = 300
HALTED = WRITES // 3 * SECOND // 20
BELOW = ("host/", "server/")


def standing_still(halt_ns: int) -> Clock:
    """From HALTED on it is behind by so much."""
    return lambda true_ns: (
        7 * SECOND + (true_ns if true_ns < HALTED else max(HALTED, true_ns - halt_ns))
    )


def halted(halt_ns: int, directory: Path) -> tuple[Breakdown, list[dict[str, int]]]:
    """Also the truth about each write."""
    return written(standing_still(halt_ns), halt_ns, directory)


def wandering(ppm: int) -> Clock:
    """From HALTED on it is faster by so much."""
    return lambda true_ns: 7 * SECOND + true_ns + max(true_ns - HALTED, 0) * ppm // 1_000_000


def written(guest: Clock, halt_ns: int, directory: Path) -> tuple[Breakdown, list[dict[str, int]]]:
    chain, truths = writes(guest, halt_ns)
    return analysed(chain, directory), truths


def writes(guest: Clock, halt_ns: int) -> tuple[Chain, list[dict[str, int]]]:
    random = Random(halt_ns)
    chain = Chain((guest, clock(3600 * SECOND, 20), clock(0, -7)))
    writer = chain.writer()
    for number in range(WRITES):
        moved = halt_ns if number >= WRITES // 3 else 0
        writer.now = max(writer.now, number * SECOND // 20 + random.randrange(SECOND // 25) + moved)
        sector = random.randint(1, 12) * 16
        chain.durable_write(writer, sector * 512, drawn(random, sector))
    return chain, [qualified(account) for account in writer.truth]


@pytest.mark.parametrize("halt_ns", [SECOND // 100, 2 * SECOND, 60 * SECOND])
def test_what_it_asked_at_another_time_of_its_clock_is_not_followed(
    halt_ns: int, tmp_path: Path
) -> None:
    """One steady clock holds on one side of the halt only. What it does not hold for has its
    time in no other's row, and is counted."""
    found, truths = halted(halt_ns, tmp_path / "recording")
    followed = 0
    for truth, rows in zip(truths, only_thread(found), strict=True):
        if "host/unfollowed" in rows:
            assert not any(row.startswith(BELOW) for row in rows if row != "host/unfollowed")
            assert sum(rows.values()) == sum(truth.values())
            continue
        followed += 1
        # Each clock goes by its own rate.
        assert summed(rows) == pytest.approx(summed(truth), abs=100)
    assert found.quality.unfollowed == WRITES - followed
    assert WRITES // 3 - 2 <= followed < WRITES


def test_what_its_cpus_did_at_another_time_of_its_clock_is_not_its_own(tmp_path: Path) -> None:
    """Its virtual CPU was out of guest mode all the while, and each 7 ms for one. By a clock that
    does not hold any more, that was while it wrote."""
    halt_ns = 2 * SECOND
    chain, truths = writes(standing_still(halt_ns), halt_ns)
    sampled(chain, standing_still(halt_ns), halt_ns)
    chain.exit(HALTED, HALTED + halt_ns)
    for number in range(3 * SECOND // (7 * MS)):
        begin = HALTED + halt_ns + number * 7 * MS
        chain.exit(begin, begin + MS)
    breakdown = analysed(chain, tmp_path / "recording")
    strayed = 0
    for truth, rows in zip(truths, only_thread(breakdown), strict=True):
        if "host/unfollowed" in rows:
            strayed += 1
            below = {row for row in rows if row.startswith(BELOW)}
            assert below == {"host/unfollowed"}
            assert rows["guest/syscall"] == truth["guest/syscall"]
    assert WRITES // 3 - 2 <= strayed < WRITES
    places = {group.name: group.count for group in summarise(breakdown, "vcpu_placement").groups}
    assert places == {"virtual CPU 0 on CPU 0": WRITES - strayed, "unknown": strayed}


def sampled(chain: Chain, guest: Clock, halt_ns: int) -> None:
    """The guest's own clock beside its CPUs' counter, each second that it runs."""
    chain.guest.builder.env["clocksource"] = "kvm-clock"
    for number in range(20):
        true_ns = SECOND // 2 + number * SECOND
        if not HALTED <= true_ns < HALTED + halt_ns:
            time_ns = guest(true_ns)
            chain.guest.builder.add("clock_sample", time_ns=time_ns, boottime_ns=time_ns,
                                    tsc=int(true_ns * 2.6), width_ns=200)  # fmt: skip


def test_what_was_not_found_on_the_host_is_not_said_to_be_below_it(tmp_path: Path) -> None:
    """Two thirds of the writes: whether the host or the server had them, nothing tells."""
    found, truths = halted(2 * SECOND, tmp_path / "recording")
    below = unfollowed = 0
    for truth, rows in zip(truths, only_thread(found), strict=True):
        if lost := rows.get("host/unfollowed", 0):
            unfollowed += lost
        else:
            below += sum(ns for row, ns in truth.items() if row.startswith("server/"))
    figures = summarise(found).overall.operators
    means = {one.name: one.figures.mean_ns for one in figures}
    assert means["DAVG"] * WRITES == pytest.approx(below, rel=1e-3)
    assert means["unfollowed"] * WRITES == pytest.approx(unfollowed)
    known = means["KAVG"] + means["DAVG"]
    assert means["GAVG"] == pytest.approx(known + means["unfollowed"])


def test_what_a_clock_of_another_pace_does_not_allow_is_not_followed(tmp_path: Path) -> None:
    """300 ppm more from 5 s on, for 10 s: requests take 1.5 ms."""
    found, truths = written(wandering(300), 0, tmp_path / "recording")
    accounts = only_thread(found)
    lost = [any(row.endswith("/unfollowed") for row in rows) for rows in accounts]
    virtio, nfs = found.quality.crossings
    bounds_ns = virtio.bound_ns + nfs.bound_ns
    for truth, rows, unknown in zip(truths, accounts, lost, strict=True):
        if not unknown:
            tolerance_ns = 20 + sum(truth.values()) * 2 * MAX_DRIFT_PPM // 1_000_000
            assert summed(rows) == pytest.approx(summed(truth), abs=bounds_ns + tolerance_ns)
    assert virtio.contradiction.endswith("with any steady clock within 500 ppm")
    assert 0 < sum(lost) == found.quality.unfollowed < WRITES // 2


@pytest.mark.parametrize("ppm", [1000, 10_000])
def test_a_machine_with_no_steady_clock_is_said_to_be_apart_for_that(
    ppm: int, tmp_path: Path
) -> None:
    found, _ = written(wandering(ppm), 0, tmp_path / "recording")
    host, server = found.quality.apart
    assert host.startswith("host: what guest asked is not found there, as ")
    assert host.endswith("with any steady clock within 500 ppm")
    assert server == "server: what it served was for host, which stands apart itself"
