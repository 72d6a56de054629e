# SPDX-License-Identifier: Apache-2.0
"""Which completion is whose, where several requests of one key are under way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from iostrata.columns import Ints
from iostrata.stitch.completions import completion_of
from iostrata.stitch.copied import Told, completion_of_copied
from tests.stitch.test_truth import analysed, conserves
from tests.synthetic import O_DSYNC, World, device

DISK = device(8, 0)
KEY = 0x7F00


@dataclass(frozen=True)
class Use:
    """Of a key: from when to when, -1: of its completion nobody tells."""

    key: int
    begin: int
    end: int
    size: int = 8192


def told_of(uses: list[Use]) -> tuple[Told, Told, Ints]:
    """Also which use each completion is of; both are in order of time, as events are."""
    uses.sort(key=lambda use: use.begin)
    ended = sorted((use.end, row) for row, use in enumerate(uses) if use.end >= 0)
    begun = [(use.key, use.begin, use.size) for use in uses]
    done = [(uses[row].key, end, uses[row].size) for end, row in ended]
    columns = (np.array(rows, np.int64).reshape(-1, 3).T for rows in (begun, done))
    first, second = (Told(*column) for column in columns)
    return first, second, np.array([row for _, row in ended], np.int64)


def paired(*uses: Use) -> tuple[list[int], list[bool]]:
    """The end that each use has, in order of their begins, -1: none; and which may be another's."""
    begun, done, _ = told_of(list(uses))
    row, exchanged = completion_of_copied(begun, done)
    return np.where(row >= 0, done.time_ns[row], -1).tolist(), exchanged.tolist()


def test_the_first_has_the_first() -> None:
    assert paired(Use(1, 10, 40), Use(1, 20, 50), Use(1, 60, 70)) == (
        [40, 50, 70], [True, True, False],
    )  # fmt: skip


def test_each_has_that_of_its_size() -> None:
    large = Use(1, 10, 90, size=1 << 22)
    assert paired(large, Use(1, 20, 30), Use(1, 40, 50)) == ([90, 30, 50], [False] * 3)
    # None of them is of one of these sizes: whose is whose is not known.
    failed = Use(1, 20, 30, size=-5)
    begun, done, _ = told_of([Use(1, 10, 90), failed])
    row, exchanged = completion_of_copied(begun._replace(size_bytes=np.array([8192, 8192])), done)
    assert (row.tolist(), exchanged.tolist()) == ([0, 1], [True, True])


def test_what_nobody_told_the_end_of_takes_none_from_others() -> None:
    """A process reads libaio's ring by itself, and asks the kernel now and then."""
    unseen, later = Use(1, 10, -1), [Use(1, 100 * n, 100 * n + 50) for n in (1, 2, 3)]
    assert paired(unseen, *later) == ([-1, 150, 250, 350], [False] * 4)


def test_what_is_under_way_at_the_end() -> None:
    """Where several were at once before: the last of them, and what is there is the others'."""
    steady = [Use(1, 10 * n, 10 * n + 25) for n in range(1, 8)]
    cut = [Use(1, use.begin, use.end if use.end < 70 else -1) for use in steady]
    together = [Use(1, 1, 3), Use(1, 2, 4)]
    assert paired(*together, *cut)[0] == [3, 4, 35, 45, 55, 65, -1, -1, -1]


def test_what_had_begun_before() -> None:
    begun, done, _ = told_of([Use(1, 10, 20), Use(1, 30, 40), Use(2, 50, 60)])
    later = begun.rows(np.array([1, 2]))
    row, exchanged = completion_of_copied(later, done)
    assert (row.tolist(), exchanged.tolist()) == ([1, 2], [False, False])


uses = st.lists(
    st.builds(
        # No two things happen to one key at one instant.
        lambda key, begin, took, size: Use(key, 2 * begin, 2 * (begin + took) + 1, size),
        st.integers(1, 3), st.integers(0, 200), st.integers(0, 60), st.sampled_from([4096, 8192]),
    ),
    max_size=30,
    unique_by=(lambda use: (use.key, use.begin), lambda use: (use.key, use.end)),
)  # fmt: skip


@given(uses)
def test_what_they_took_together_is_right_whichever_is_whose(uses: list[Use]) -> None:
    begun, done, whose = told_of(uses)
    row, exchanged = completion_of_copied(begun, done)
    assert sorted(row.tolist()) == list(range(len(uses)))
    assert (done.key[row] == begun.key).all()
    took = done.time_ns[row] - begun.time_ns
    assert (took >= 0).all()
    assert took.sum() == sum(use.end - use.begin for use in uses)
    assert (whose[row] == np.arange(len(uses)))[~exchanged].all()


@given(uses, st.data())
def test_one_at_a_time_each_has_its_own_or_none(uses: list[Use], data: st.DataObject) -> None:
    """As of io_uring, some of whose completions are not told."""
    free: dict[int, int] = {}
    apart = []
    for use in sorted(uses, key=lambda use: use.begin):
        if use.begin > free.get(use.key, -1):
            free[use.key] = use.end
            apart.append(use if data.draw(st.booleans()) else Use(use.key, use.begin, -1, use.size))
    begun, done, whose = told_of(apart)
    row, exchanged = completion_of_copied(begun, done)
    assert not exchanged.any()
    assert row.tolist() == completion_of(*begun[:2], *done[:2]).tolist()
    seen = row >= 0
    assert whose[row[seen]].tolist() == np.flatnonzero(seen).tolist()
    assert seen.tolist() == [use.end >= 0 for use in sorted(apart, key=lambda use: use.begin)]


def with_one_block(*times: tuple[int, int]) -> World:
    world = World()
    world.target(100)
    world.target(101)
    shared = {"iocb_key": KEY, "inode": 12, "dev": DISK, "open_flags": O_DSYNC, "opcode": 1}
    for enter, end in times:
        world.emit("aio_submit", enter + 3_000, 100, enter_ns=enter, size_bytes=8192, **shared)
        world.emit("aio_complete", end, 101, enter_ns=end - 1_000, result=8192, **shared)
    return world


def test_a_control_block_of_several_requests_under_way() -> None:
    """The kernel has copied it: it is the next one's at once."""
    breakdown = analysed(with_one_block((10_000, 50_000), (20_000, 60_000), (30_000, 90_000)))
    conserves(breakdown)
    assert breakdown.writes.latency_ns.tolist() == [40_000, 40_000, 60_000]
    assert not breakdown.left_out
    told = [gap for gap in breakdown.quality.not_observed if gap.layer == "libaio's completions"]
    assert [gap.reason.partition(" ")[0] for gap in told] == ["3"]


def test_behind_a_loss_nobody_knows_whose_is_whose() -> None:
    """One that is missing would give each of them another's, to the end."""
    times = (10_000, 50_000), (20_000, 60_000), (70_000, 100_000), (80_000, 110_000)
    world = with_one_block(*times)
    assert not analysed(world).left_out
    world = with_one_block(*times)
    world.builder.packet_events = 1
    world.target(101, time_ns=62_000)
    world.builder.refuse("aio_complete", time_ns=65_000, cpu=101 % 4)
    breakdown = analysed(world)
    assert breakdown.writes.latency_ns.tolist() == [40_000, 40_000]
    assert sum(breakdown.left_out.values()) == 2
