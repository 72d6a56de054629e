# SPDX-License-Identifier: Apache-2.0
"""What recording took of a CPU is told, unless what the recorder tells of it cannot be."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.analysis.ten_seconds import SECOND, of_ten_seconds

CANNOT_BE = "recorder: the CPU time that it tells cannot be: what it took is not known"


def told(cpu_ns: tuple[int, ...]) -> tuple[int | None, Sequence[str]]:
    """What the recorder took, and damage, of a recording of 10 s of one CPU."""
    quality = of_ten_seconds("cpu_ns", cpu_ns)
    assert quality.cost
    return quality.cost.recorder_cpu_ns, quality.damage


@pytest.mark.parametrize(
    ("cpu_ns", "took_ns"),
    [
        ((5 * SECOND, 5 * SECOND, 6 * SECOND), SECOND),
        ((5 * SECOND, 5 * SECOND), 0),
        ((5 * SECOND, 25 * SECOND), 20 * SECOND),
        ((5 * SECOND,), None),
    ],
)
def test_it_is_what_was_taken_since_it_was_set_up(
    cpu_ns: tuple[int, ...], took_ns: int | None
) -> None:
    found, damage = told(cpu_ns)
    assert found == took_ns
    assert CANNOT_BE not in damage


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "cpu_ns",
    [
        (5 * SECOND, 4 * SECOND),
        (5 * SECOND, 9 * SECOND, 8 * SECOND),
        (5 * SECOND, 500 * SECOND),
        (1 << 63, (1 << 63) + SECOND),
        ((1 << 64) - 1, 3, 1 << 63),
    ],
)
def test_what_cannot_be_is_damage(cpu_ns: tuple[int, ...]) -> None:
    found, damage = told(cpu_ns)
    assert found is None
    assert CANNOT_BE in damage
