# SPDX-License-Identifier: Apache-2.0
"""Runs of the same thing that drift: hundreds of pairs, of which few may be called different."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from iostrata.attribute.compare import compare
from iostrata.attribute.drift import drift_of
from iostrata.attribute.run import MIX_COLUMNS, Figure, Run, RunGroup
from iostrata.model import Comparison, Layer, Quality

PAIRS = 200
RUNS = 5
LEVEL = 0.05
LAYERS = tuple(
    Layer(name, "OS" if name == "fs" else "device", "local", "")
    for name in ("fs", "device.data", "device.flush")
)
MEANS = np.array([8e3, 60e3, 30e3])
RESIDUAL = 2e3


def run(number: int, levels: NDArray[np.float64], p99: float) -> Run:
    means = MEANS * levels
    total = float(means.sum()) + RESIDUAL
    group = RunGroup(
        count=1000,
        total=Figure(total, total * 0.005),
        p50=Figure(total * 0.9, total * 0.005),
        p99=Figure(total * 3 * p99, total * 0.02),
        layers={
            ("local", layer.name): Figure(mean, mean * 0.005)
            for layer, mean in zip(LAYERS, means.tolist(), strict=True)
        },
        residual=Figure(RESIDUAL, 10.0),
    )
    parts = {column: {"all": 1.0} for column in MIX_COLUMNS}
    return Run(LAYERS, {"all": group}, parts, Quality(), f"2026-01-01T00:{number:02}:00+00:00")


def drifting(random: np.random.Generator, count: int, kind: str) -> NDArray[np.float64]:
    """What each of the runs is above the others, as a logarithm."""
    each = random.normal(0, 1, count)
    if kind == "alike as the last":
        for number in range(1, count):
            each[number] = 0.3 * each[number - 1] + (1 - 0.3**2) ** 0.5 * each[number]
    if kind == "wandering":
        each += np.cumsum(random.normal(0, 0.5, count))
    return LEVEL * each


def series(random: np.random.Generator, kind: str, slower: Sequence[float]) -> list[Run]:
    """Runs one after the other; ``slower``: by how much each is made so, 0: not at all."""
    count = len(slower)
    disk = drifting(random, count, kind)
    own = np.array([drifting(random, count, kind) / 2 for _ in LAYERS]).T
    p99 = drifting(random, count, "each by itself") / 2
    return [
        run(number, np.exp(disk[number] + own[number]) * (1 + slower[number]), np.exp(p99[number]))
        for number in range(count)
    ]


def claims(found: Comparison) -> int:
    (group,) = found.groups
    changes = [group.total, group.p50, group.p99, *(row.change for row in group.rows)]
    return sum(change.real for change in changes)


@pytest.mark.parametrize("turns", [False, True])
@pytest.mark.parametrize("kind", ["each by itself", "alike as the last", "wandering"])
def test_what_drifts_is_no_change(kind: str, turns: bool) -> None:
    """Not one line of the table, in more than 5 of 100 pairs of what is the same."""
    random = np.random.default_rng(1)
    wrong = 0
    for _ in range(PAIRS):
        runs = series(random, kind, [0.0] * (2 * RUNS))
        a, b = (runs[::2], runs[1::2]) if turns else (runs[:RUNS], runs[RUNS:])
        wrong += bool(claims(compare(a, b)))
    assert wrong <= 0.05 * PAIRS


def test_by_turns_a_change_is_found_that_is_lost_in_drift() -> None:
    random = np.random.default_rng(2)
    found = {"turns": 0, "after": 0}
    for _ in range(PAIRS // 2):
        by_turns = series(random, "wandering", [0.0, 0.25] * RUNS)
        found["turns"] += compare(by_turns[::2], by_turns[1::2]).groups[0].total.verdict == "slower"
        after = series(random, "wandering", [0.0] * RUNS + [0.25] * RUNS)
        found["after"] += compare(after[:RUNS], after[RUNS:]).groups[0].total.verdict == "slower"
    assert found["turns"] > 0.8 * PAIRS / 2
    assert found["after"] < found["turns"]


def test_the_order_matters_and_not_which_side_is_called_first() -> None:
    times = [f"2026-01-01T00:{number:02}:00" for number in range(10)]
    after, before = drift_of(times[:5], times[5:]), drift_of(times[5:], times[:5])
    turns = drift_of(times[::2], times[1::2])
    assert after
    assert before
    assert turns
    assert np.allclose(after.factors, before.factors)
    assert after.factors.min() > 1 > turns.factors.max()
    flat = np.zeros(5)
    assert turns.factor(flat, flat) == after.factor(flat, flat) == 1
    assert drift_of(times[:5], ["", *times[6:]]) is None
