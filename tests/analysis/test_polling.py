# SPDX-License-Identifier: Apache-2.0
"""Of several requests that io_uring's thread (SQPOLL) has at once, nothing is claimed."""

from __future__ import annotations

import pytest

from iostrata.analysis.left_out import AT_ONCE
from iostrata.errors import NothingToAnalyse
from iostrata.trace.layout import THREAD_WORKER
from tests.stitch.test_truth import analysed, conserves
from tests.synthetic import World, device

WRITER, POLLS, OTHER = 100, 101, 102
FILE = {"inode": 12, "dev": device(8, 0), "opcode": 3}


def submitted(*times: tuple[int, int], by: int = POLLS, world: World | None = None) -> World:
    """fdatasync, from when to when."""
    world = world or World()
    world.target(WRITER)
    comm = b"iou-sqp-100" if by == POLLS else b"fio"
    world.emit("thread", 1, WRITER, tgid=WRITER, subject_tid=by, kind=THREAD_WORKER if by == POLLS
               else 1, comm=comm)  # fmt: skip
    for number, (begin, end) in enumerate(times):
        key = 0x70 + number + 0x100 * by
        world.emit("io_uring_submit_req", begin, by, request_key=key, **FILE)
        world.emit("io_uring_complete", end, by, request_key=key, result=0, **FILE)
    return world


@pytest.mark.parametrize(
    ("times", "left_out"),
    [
        ([(1_000, 2_000), (3_000, 4_000)], 0),
        ([(1_000, 3_000), (2_000, 4_000), (5_000, 6_000)], 2),
        # The first one is under way during all others, which do not meet each other.
        ([(1_000, 9_000), (2_000, 3_000), (4_000, 5_000), (9_500, 9_900)], 3),
    ],
)
def test_requests_that_met(times: list[tuple[int, int]], left_out: int) -> None:
    breakdown = analysed(submitted(*times))
    conserves(breakdown)
    assert breakdown.left_out == ({AT_ONCE: left_out} if left_out else {})
    assert len(breakdown.writes) == len(times) - left_out


def test_requests_of_others_meet_as_they_like() -> None:
    world = submitted((1_000, 3_000), (4_000, 5_000))
    breakdown = analysed(submitted((2_000, 4_500), (2_500, 5_500), by=OTHER, world=world))
    assert (breakdown.left_out, len(breakdown.writes)) == ({}, 4)


def test_where_nothing_is_left_it_says_what_to_do() -> None:
    with pytest.raises(NothingToAnalyse, match="SQPOLL") as told:
        analysed(submitted((1_000, 3_000), (2_000, 4_000)))
    assert "depth 1" in told.value.hint
