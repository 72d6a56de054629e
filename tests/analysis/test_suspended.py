# SPDX-License-Identifier: Apache-2.0
"""A machine's clock stands still while it is suspended: its writes take no longer, and that is
said."""

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
