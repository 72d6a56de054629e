# SPDX-License-Identifier: Apache-2.0
"""When what was read of a connection had come in: of bursts, of numbers that begin anew."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from iostrata.hops.iscsi.arrivals import came_in
from iostrata.stitch import whole
from iostrata.trace import read_trace
from tests.synthetic import World

CIRCLE = 1 << 32
ONE, OTHER = (40_000 << 16 | 3260, 7), (40_001 << 16 | 3260, 7)
Come = tuple[int, tuple[int, int], int]


def found(path: Path, comes: list[Come], reads: list[Come]) -> list[int]:
    """``comes``, ``reads``: (time, connection, up to which byte)."""
    world = World()
    for when, (ports, ends), up_to in comes:
        place = {"connection": ports, "ends": ends, "sequence": up_to % CIRCLE}
        world.emit("target_ready", when, 0, **place)
    world.builder.write(path)
    time, number, sequence = np.array(
        [(when, ends << 32 | ports, up_to % CIRCLE) for when, (ports, ends), up_to in reads]
    ).T
    answers: list[int] = came_in(whole(read_trace(path)), number, sequence, time).tolist()
    return answers


def test_what_waits_in_a_burst_came_when_it_did(tmp_path: Path) -> None:
    comes = [(10, ONE, 100), (20, ONE, 200), (30, ONE, 300), (40, ONE, 400)]
    reads = [(50, ONE, 200), (51, ONE, 250), (52, ONE, 300), (53, ONE, 400)]
    assert found(tmp_path, comes, reads) == [20, 30, 30, 40]


def test_what_was_there_first_and_what_was_not_told_of_is_not_known(tmp_path: Path) -> None:
    comes = [(10, ONE, 100), (20, ONE, 200)]
    reads = [(5, ONE, 50), (15, ONE, 100), (16, ONE, 60), (50, ONE, 201), (50, OTHER, 200)]
    assert found(tmp_path, comes, reads) == [-1] * 5
    assert found(tmp_path / "none", [], reads) == [-1] * 5


def test_numbers_begin_anew(tmp_path: Path) -> None:
    near = CIRCLE - 150
    comes = [(10 * n, ONE, near + 100 * n) for n in range(5)]
    reads = [(99, ONE, near + 100 * n) for n in range(5)]
    assert found(tmp_path, comes, reads) == [-1, 10, 20, 30, 40]


def test_connections_are_apart_also_those_of_the_same_ends(tmp_path: Path) -> None:
    comes = [
        (10, ONE, 1000), (11, OTHER, 5000), (20, ONE, 1100), (21, OTHER, 5100),
        (30, ONE, 400), (40, ONE, 500),
    ]  # fmt: skip
    reads = [(25, ONE, 1100), (25, OTHER, 5100), (35, ONE, 400), (45, ONE, 500), (45, ONE, 350)]
    assert found(tmp_path, comes, reads) == [20, 21, -1, 40, -1]
