# SPDX-License-Identifier: Apache-2.0
"""Fast commits of ext4: whoever syncs writes data, and behind it the log, which nothing marks."""

from __future__ import annotations

import pytest

from tests.stitch.test_truth import accounts, analysed, conserves
from tests.synthetic import Request, World, Writer, device

DISK = device(8, 0)


@pytest.mark.parametrize(
    ("block_count", "data", "log"),
    [(0, 70_000, 0), (1, 30_000, 40_000), (2, 10_000, 60_000), (5, 0, 70_000)],
    ids=["none", "one", "two", "more than were seen"],
)
def test_the_last_that_it_wrote_is_the_log(block_count: int, data: int, log: int) -> None:
    world = World()
    other = Writer(world, 101, DISK, 1_500)
    writer = Writer(world, 100, DISK, 1_000)
    for one in (writer, other):
        one.enter()
    for place, took in enumerate((10_000, 20_000, 40_000)):
        writer.data(Request(queue=500, scheduler=None, device=took, sector=8 * place))
    if block_count:
        world.emit("ext4_fc_commit_stop", writer.now, 100, dev=DISK, block_count=block_count)
    other.data(Request(queue=500, scheduler=None, device=90_000, sector=800))
    # Behind it is data again.
    writer.cpu(100)
    writer.data(Request(queue=500, scheduler=None, device=5_000, sector=80))
    for one in (writer, other):
        one.leave("fsync")
    found = analysed(world)
    conserves(found)
    mine = accounts(found)[100][0]
    assert mine.get("device.data", 0) == data + 5_000
    assert mine.get("device.journal", 0) == log
    assert accounts(found)[101][0]["device.data"] == 90_000
