# SPDX-License-Identifier: Apache-2.0
"""A guest that stands still for a while, as one that is migrated does: its clock jumps."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.chain import Chain, drawn
from tests.stitch.test_chain import analysed, only_thread, qualified, summed
from tests.synthetic import Clock, clock

SECOND = 1_000_000_000
WRITES = 300
HALTED = WRITES // 3 * SECOND // 20
BELOW = ("host/", "server/")


def standing_still(halt_ns: int) -> Clock:
    """From HALTED on it is behind by so much."""
    return lambda true_ns: (
        7 * SECOND + (true_ns if true_ns < HALTED else max(HALTED, true_ns - halt_ns))
    )


@pytest.mark.parametrize("halt_ns", [SECOND // 100, 2 * SECOND, 60 * SECOND])
def test_what_it_asked_at_another_time_of_its_clock_is_not_followed(
    halt_ns: int, tmp_path: Path
) -> None:
    """One steady clock holds on one side of the halt only. What it does not hold for has its
    time in no other's row, and is counted."""
    random = Random(halt_ns)
    chain = Chain((standing_still(halt_ns), clock(3600 * SECOND, 20), clock(0, -7)))
    writer = chain.writer()
    for number in range(WRITES):
        moved = halt_ns if number >= WRITES // 3 else 0
        writer.now = max(writer.now, number * SECOND // 20 + random.randrange(SECOND // 25) + moved)
        sector = random.randint(1, 12) * 16
        chain.durable_write(writer, sector * 512, drawn(random, sector))
    found = analysed(chain, tmp_path / "recording")
    followed = 0
    for truth, rows in zip(map(qualified, writer.truth), only_thread(found), strict=True):
        if "host/unfollowed" in rows:
            assert not any(row.startswith(BELOW) for row in rows if row != "host/unfollowed")
            assert sum(rows.values()) == sum(truth.values())
            continue
        followed += 1
        # Each clock goes by its own rate.
        assert summed(rows) == pytest.approx(summed(truth), abs=100)
    assert found.quality.unfollowed == WRITES - followed
    assert WRITES // 3 - 2 <= followed < WRITES
