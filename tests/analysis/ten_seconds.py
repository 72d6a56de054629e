# SPDX-License-Identifier: Apache-2.0
"""A recording of one write of ten seconds, of which the recorder tells something of itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from iostrata.model import Quality
from tests.stitch.test_truth import analysed
from tests.synthetic import O_DSYNC, Request, World, Writer, device

SECOND: Final = 1_000_000_000


def of_ten_seconds(field: str, values: Sequence[int]) -> Quality:
    """``values``: of a field of its samples, which are as far from one another each."""
    world = World()
    writer = Writer(world, 100, device(8, 0), 1_000)
    writer.enter()
    writer.data(Request(device=10 * SECOND - 100_000))
    writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    took_ns, parts = writer.now - 1_000, max(len(values) - 1, 1)
    samples = [(1_000 + part * took_ns // parts, value) for part, value in enumerate(values)]
    world.builder.recorded(writer.now, field, samples)
    return analysed(world).quality
