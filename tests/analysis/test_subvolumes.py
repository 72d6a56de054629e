# SPDX-License-Identifier: Apache-2.0
"""A btrfs whose subvolumes number their files alike: told apart where the recording tells them."""

from __future__ import annotations

import pytest

from iostrata.trace.subvolumes import SUBVOLUME_SHIFT
from tests.stitch.test_account import Caller, analysed, sizes
from tests.synthetic import World, device

DISK, NUMBER = device(8, 0), 257
ONE, TWO = (subvolume << SUBVOLUME_SHIFT | NUMBER for subvolume in (5, 1 << 23))


@pytest.mark.parametrize(("one", "two", "told"), [(ONE, TWO, True), (NUMBER, NUMBER, False)])
def test_files_of_one_number(one: int, two: int, *, told: bool) -> None:
    """Two files where the recording has the subvolume, one and a line where it has not."""
    world = World()
    world.builder.mount(DISK, "/srv", "btrfs")
    first, second = Caller(world, 100, 100, inode=one), Caller(world, 100, 100, inode=two)
    first.call("pwrite64", offset=0, size=1_000_000)
    second.call("pwrite64", offset=0, size=100)
    second.call("fsync")
    first.call("fsync")
    found = analysed(world)
    assert sizes(found) == ([1_000_000, 100] if told else [1_000_100, 0])
    assert found.writes.inode.tolist() == [NUMBER, NUMBER]
    lines = [gap.layer for gap in found.quality.not_observed if "subvolumes" in gap.layer]
    assert lines == ([] if told else ["btrfs subvolumes"])


def test_elsewhere_a_number_is_all_of_it() -> None:
    world = World()
    world.builder.mount(DISK, "/srv", "xfs")
    caller = Caller(world, 100, 100, inode=TWO)
    caller.call("pwrite64", offset=0, size=100)
    caller.call("fsync")
    assert analysed(world).writes.inode.tolist() == [TWO - (1 << 64) if TWO >> 63 else TWO]
