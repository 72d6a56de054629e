# SPDX-License-Identifier: Apache-2.0
"""Synchronous writes and their pieces as C tells them, against what NumPy finds of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostrata import native
from iostrata.columns import compact
from iostrata.stitch.account import account
from iostrata.stitch.calls import NO_SYNC, PLAIN, Operations
from iostrata.stitch.durability import RANGE
from iostrata.stitch.filled import Filled
from tests.test_native import anything, numbered, twin

pytestmark = pytest.mark.skipif(
    native.LIBRARY is None, reason="libnative.so was not built here: make native"
)

NUMBERS = ("begin_ns", "end_ns", "tid", "tgid", "device_key", "inode", "offset_bytes",
           "size_bytes", "engine", "request_key", "generation", "birth")  # fmt: skip
seeds = st.integers(0, 2**32 - 1)
times = st.sampled_from([[0, 1, 2], [-3, 5, 2**61], [7]])
few = st.sampled_from([[0], [0, 7], [5, -(2**63), 2**63 - 1]])
sizes = st.sampled_from([[4096], [0, 1, 512], [0, 3, 2**40]])


def made_of(seed: int, count: int, told: dict[str, list[int]], ranges: bool) -> Operations:
    random = np.random.default_rng(seed)
    columns: dict[str, Any] = {
        name: compact(random.choice(np.array(told.get(name, [0])), count)) for name in NUMBERS
    }
    scope = random.integers(NO_SYNC, RANGE + ranges, count)
    method = np.where(scope == NO_SYNC, random.integers(PLAIN, 1, count), 3)
    columns["effect_ns"] = np.where(scope == NO_SYNC, columns["end_ns"], columns["begin_ns"])
    columns["failed"] = random.random(count) < 0.2
    return Operations(method=method.astype(np.int8), scope=scope, **columns)


@given(
    seed=seeds, count=st.integers(0, 60), ranges=st.booleans(), begin_ns=times, end_ns=times,
    tid=few, tgid=few, inode=few, generation=few, birth=few, size_bytes=sizes,
    request_key=st.sampled_from([[0], [0, 9]]),
    device_key=st.lists(numbered, min_size=1, max_size=2),
)  # fmt: skip
def test_account(seed: int, count: int, ranges: bool, **told: list[int]) -> None:
    done = made_of(seed, count, told | {"offset_bytes": [-1, 0, 3]}, ranges)
    found = account(done)
    with twin():
        expected = account(done)
    assert found[2] == expected[2]
    for one, other in zip(found[:2], expected[:2], strict=True):
        for name, column in vars(other).items():
            assert getattr(one, name).dtype == column.dtype, name
            assert getattr(one, name).tolist() == column.tolist(), name


@given(st.lists(st.tuples(anything, st.integers(0, 2)), max_size=60), seeds, st.integers(0, 9000))
def test_rows_that_are_alike_have_one_number(
    some: list[tuple[int, int]], seed: int, count: int
) -> None:
    many = np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, count)
    for columns in (np.array(some, np.int64).reshape(-1, 2).T, many[None]):
        numbers: dict[tuple[int, ...], int] = {}
        rows = zip(*columns.tolist(), strict=True)
        expected = [numbers.setdefault(row, len(numbers)) for row in rows]
        assert native.numbered(list(columns)).tolist() == expected


@given(st.lists(st.lists(st.integers(0, 2), max_size=5), max_size=9), seeds)
def test_columns_are_filled_by_parts(parts: list[list[int]], seed: int) -> None:
    found = Filled({"one": np.dtype(np.int64), "other": np.dtype(np.int8)}, 5 * len(parts))
    for place in np.random.default_rng(seed).permutation(len(parts)).tolist():
        told = np.array(parts[place], np.int64)
        found.put(5 * place, {"one": told, "other": (told * 0 + 7).astype(np.int8)})
    whole = [value for part in parts for value in part]
    columns = found.columns()
    assert columns["one"].tolist() == whole
    assert columns["one"].dtype == np.int64
    assert columns["other"].tolist() == [7] * len(whole)
    assert columns["other"].dtype == np.int8
    if whole:
        assert columns["other"].strides == (0,)
        assert (columns["one"].strides == (0,)) == (len(set(whole)) == 1)


def test_what_leads_nowhere_is_refused() -> None:
    done = vars(made_of(1, 8, {"size_bytes": [5]}, ranges=False))
    scope, failed = np.array([NO_SYNC, NO_SYNC, 0, 1] * 2), np.zeros(8, np.bool_)
    done |= {"scope": scope, "method": np.where(scope == NO_SYNC, PLAIN, 1), "failed": failed}
    caller, counted = np.array([0, 1, 3, -1]), np.zeros(4, np.int64)

    def told(caller: np.ndarray, units: int = 4, syncs: int = 4, **other: np.ndarray) -> None:
        native.account(done | other, caller, [counted[:syncs]] * 3, units)

    told(caller)
    for wrong in (4, 1 << 40, (1 << 63) - 1):
        with pytest.raises(IndexError):
            told(np.where(caller == 3, wrong, caller))
    for units, syncs, plain in ((3, 4, 4), (5, 4, 4), (4, 3, 4), (4, 4, 3)):
        with pytest.raises(IndexError):
            told(caller[:plain], units, syncs)
    with pytest.raises(IndexError):
        told(caller, failed=~failed)
    with pytest.raises(IndexError):
        told(caller, method=np.full(8, PLAIN))
