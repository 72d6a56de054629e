# SPDX-License-Identifier: Apache-2.0
"""The tail beside the middle: it adds up, and it names the layer that was made slow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from iostrata.attribute.summarise import GROUPINGS
from iostrata.attribute.tail import FEWEST, tail
from iostrata.model import Breakdown, Layer, Quality, Writes

LAYERS = tuple(Layer(name, "OS", "local", "") for name in ("syscall", "fs", "device.data"))


def breakdown(time_ns: NDArray[np.int64], residual_ns: NDArray[np.int64]) -> Breakdown:
    count = time_ns.shape[1]
    latency = time_ns.sum(axis=0) + residual_ns
    none = np.zeros(count, np.int64)
    begin = np.arange(count) * 1_000_000
    writes = Writes(
        begin,
        begin + latency,
        latency,
        none,
        none,
        none,
        none,
        none,
        none,
        none,
        none,
        codes=dict.fromkeys(GROUPINGS, none.astype(np.int32)),
        names=dict.fromkeys(GROUPINGS, ("one",)),
    )
    return Breakdown(writes, LAYERS, time_ns, residual_ns, {}, Quality())


@given(
    st.lists(
        st.tuples(*[st.integers(0, 10**9)] * 3, st.integers(-(10**6), 10**6)),
        min_size=FEWEST, max_size=60,
    )
)  # fmt: skip
def test_excesses_add_up(rows: list[tuple[int, ...]]) -> None:
    columns = np.array(rows, np.int64).T
    found = tail(breakdown(columns[:3], columns[3]), np.arange(len(rows)))
    assert found is not None
    parts = [row.excess for row in found.rows] + [found.residual]
    for figure in ("typical_ns", "slow_ns", "excess_ns"):
        total = getattr(found.total, figure)
        assert sum(getattr(part, figure) for part in parts) == pytest.approx(total, abs=1e-3)
    assert sum(part.leads for part in parts) == found.slow
    segments = [one.excess for one in found.segments]
    assert sum(one.excess_ns for one in segments) == pytest.approx(
        found.total.excess_ns - found.residual.excess_ns, abs=1e-3
    )
    assert found.typical_to_ns <= found.slow_from_ns


def test_the_layer_that_was_made_slow() -> None:
    time_ns = np.full((3, 1000), 10_000, np.int64)
    time_ns[1] += np.arange(1000)
    time_ns[2, 100:110] += 500_000
    found = tail(breakdown(time_ns, np.zeros(1000, np.int64)), np.arange(1000))
    assert found is not None
    assert (found.slow, found.typical) == (10, 100)
    leads = {row.layer.name: row.excess.leads for row in found.rows}
    assert leads == {"syscall": 0, "fs": 0, "device.data": 10}
    device = found.rows[2].excess
    assert (device.typical_ns, device.slow_ns, device.excess_ns) == (10_000, 510_000, 500_000)


def test_too_few_writes() -> None:
    few = breakdown(np.ones((3, FEWEST - 1), np.int64), np.zeros(FEWEST - 1, np.int64))
    assert tail(few, np.arange(FEWEST - 1)) is None


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 9)), min_size=FEWEST, max_size=250))
def test_of_those_that_took_as_long_the_last_are_slow(some: list[tuple[int, int]]) -> None:
    """As if all were put in order, those that took as long as they are."""
    latency, one = np.array(some, np.int64).T
    time_ns = np.array([one, latency * 0, latency * 0])
    found = tail(breakdown(time_ns, latency - one), np.arange(len(some)))
    order, count = np.argsort(latency, kind="stable"), len(some)
    slow, typical = (
        order[count - (count + 99) // 100 :],
        order[count * 45 // 100 : count * 55 // 100],
    )
    assert found is not None
    assert (found.slow, found.slow_from_ns) == (len(slow), latency[slow[0]])
    assert found.typical == len(typical)
    assert (found.typical_from_ns, found.typical_to_ns) == tuple(latency[typical[[0, -1]]])
    told = {row.layer: row.excess for row in found.rows}.get(LAYERS[0])
    means = (told.slow_ns, told.typical_ns) if told else (0, 0)
    assert means == (one[slow].sum() / len(slow), one[typical].sum() / len(typical))
