# SPDX-License-Identifier: Apache-2.0
"""A machine's clock stands still while it is suspended, or halted by its hypervisor: its writes
take no longer, and that is said."""

from __future__ import annotations

import pytest

from tests.stitch.test_truth import analysed
from tests.synthetic import O_DSYNC, Request, World, Writer
from tests.synthetic import device as numbered

MS = 1_000_000
TOOK_NS = 100_000
SUSPENSION = "{}, for which its clock stood still: in no latency"


@pytest.mark.parametrize(
    ("samples", "told"),
    [
        # CLOCK_BOOTTIME beside CLOCK_MONOTONIC, and what asking for both took.
        (((0, 100), (3_000 * MS, 100)), "3.00 s"),
        (((7_000 * MS, 100), (7_000 * MS, 100), (7_250 * MS, 200)), "250 ms"),
        (((5_000 * MS, 100), (5_000 * MS, 100)), ""),
        # The recorder had no CPU between the two: its machine was not suspended.
        (((0, 100), (8 * MS, 8 * MS)), ""),
        (((0, 100), (0, 100), (MS // 2, 100)), ""),
        ((), ""),
    ],
)
def test_what_it_was_suspended_for_is_said(samples: tuple[tuple[int, int], ...], told: str) -> None:
    world = World()
    writer = Writer(world, 100, numbered(8, 0), 1_000)
    writer.enter()
    writer.data(Request(device=TOOK_NS))
    writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    for number, (ahead_ns, width_ns) in enumerate(samples):
        time_ns = 1_000 + number * 1_000
        world.builder.add(
            "clock_sample", time_ns=time_ns, boottime_ns=time_ns + ahead_ns, width_ns=width_ns
        )
    found = analysed(world)
    gaps = [gap for gap in found.quality.not_observed if gap.layer == "suspension"]
    assert [gap.reason for gap in gaps] == ([SUSPENSION.format(told)] if told else [])
    device = [layer.name for layer in found.layers].index("device.data")
    assert found.time_ns[device].tolist() == [TOOK_NS]


SECOND = 1_000_000_000
TSC_GHZ = 2.6
HALT = "{}, for which its hypervisor had its clock stand still: in no latency"


@pytest.mark.parametrize(
    ("stretches", "told"),
    [
        # How far the clock went from sample to sample, and for how long its counter went on more.
        ([(SECOND, 0), (SECOND, 2 * SECOND), (SECOND, 0), (SECOND, 0)], "2.00 s"),
        ([(SECOND, 0)] * 3 + [(SECOND, 5 * MS), (SECOND, SECOND)], "1.00 s"),
        # A clock that is adjusted goes by so much less in a second.
        ([(SECOND, 0), (SECOND, MS // 2), (SECOND, 0), (SECOND, MS // 2)], ""),
        ([(SECOND, 0), (SECOND, 0), (SECOND, 0)], ""),
        # Which of the two was the clock's pace, nothing tells.
        ([(SECOND, 0), (SECOND, 2 * SECOND)], ""),
        # Another counter, or none.
        ([(SECOND, 0), (SECOND, -2 * SECOND), (SECOND, 0), (SECOND, 0)], ""),
        ([(SECOND, -SECOND)] * 4, ""),
        ([], ""),
    ],
)
@pytest.mark.parametrize("clocksource", ["kvm-clock", "tsc", ""])
def test_what_it_was_halted_for_is_said(
    stretches: list[tuple[int, int]], told: str, clocksource: str
) -> None:
    world = World()
    world.builder.env["clocksource"] = clocksource
    writer = Writer(world, 100, numbered(8, 0), 1_000)
    writer.enter()
    writer.data(Request(device=TOOK_NS))
    writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    time_ns = truth_ns = 1_000
    for passed_ns, more_ns in [*stretches, (0, 0)]:
        world.builder.add("clock_sample", time_ns=time_ns, boottime_ns=time_ns,
                          tsc=int(truth_ns * TSC_GHZ), width_ns=200)  # fmt: skip
        time_ns, truth_ns = time_ns + passed_ns, truth_ns + passed_ns + more_ns
    found = analysed(world)
    gaps = [gap for gap in found.quality.not_observed if gap.layer == "halt"]
    said = told and clocksource == "kvm-clock"
    assert [gap.reason for gap in gaps] == ([HALT.format(told)] if said else [])
