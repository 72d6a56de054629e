# SPDX-License-Identifier: Apache-2.0
"""What is left out beside losses is mostly what took long: where it is, that is said."""

from __future__ import annotations

import pytest

from tests.stitch.test_truth import analysed
from tests.synthetic import O_DSYNC, World, Writer, device

DISK = device(254, 16)
SHORT, LOST = 30, 12


def line(lost_ns: int, lost: int = LOST) -> str:
    """Of 30 writes of 100 us, and some that a loss falls into."""
    world = World()
    writer = Writer(world, 100, DISK, 1_000_000)
    for number in range(SHORT + lost):
        begin = writer.now
        writer.enter()
        writer.cpu(100_000 if number < SHORT else lost_ns)
        writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
        if number >= SHORT:
            world.builder.add("miss", time_ns=begin + 60_000, since_ns=begin + 50_000,
                              missed_count=1, program=b"block_rq_issue")  # fmt: skip
        writer.now += 1_000_000
    found = analysed(world)
    assert found.left_out == {"events lost meanwhile": lost}
    told = [gap for gap in found.quality.not_observed if gap.layer == "writes beside losses"]
    return told[0].reason if told else ""


def test_what_took_longer_is_said() -> None:
    assert line(900_000) == (
        "12 of those that are left out took 900 us on average, and the analysed ones 100 us"
    )


@pytest.mark.parametrize(("lost_ns", "lost"), [(110_000, LOST), (900_000, 9)])
def test_few_are_not_nor_what_is_like_the_rest(lost_ns: int, lost: int) -> None:
    assert not line(lost_ns, lost)
