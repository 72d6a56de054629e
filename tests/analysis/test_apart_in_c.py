# SPDX-License-Identifier: Apache-2.0
"""Which lifted spans are told of, as C finds them, against what NumPy finds."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostrata import native
from iostrata.analysis import who
from iostrata.layers import STACK
from iostrata.stitch import Spans

pytestmark = pytest.mark.skipif(
    native.LIBRARY is None, reason="libnative.so was not built here: make native"
)


def spans_of(random: np.random.Generator, count: int, dtype: Any, levels: int) -> Spans:
    owner, begin, end, of = random.integers(-1, 6, (4, count))
    ranks = random.choice([0, 1, 2, 60, len(STACK) - 1], count)
    ranks += len(STACK) * random.integers(0, levels, count)
    return Spans(abs(owner), ranks.astype(dtype), begin, end, of)


@given(
    st.integers(0, 2**32 - 1), st.integers(0, 40), st.integers(0, 6), st.integers(0, 3),
    st.booleans(), st.booleans(),
)  # fmt: skip
def test_asked(seed: int, count: int, own: int, first: int, told: bool, below: bool) -> None:
    random = np.random.default_rng(seed)
    spans, theirs = spans_of(random, count, np.int32, 3), spans_of(random, own, np.int16, 1)
    view: Any = SimpleNamespace(spans=theirs, first=first, way=(None,) * below)
    kinds = random.integers(0, 3, own).astype(np.uint8) if told else None
    found = [column.tolist() for column in who._asked(spans, view, kinds)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "LIBRARY", None)
        expected = [column.tolist() for column in who._asked(spans, view, kinds)]
    assert found == expected
    assert below <= (max(found[2], default=-1) < 0)


def test_ranks_and_owners_that_are_none_are_refused() -> None:
    one, rank = np.zeros(1, np.int64), np.zeros(1, np.int16)
    for owner, lifted in ((one - 1, one), (one, one - 1)):
        with pytest.raises(IndexError):
            native.asked((owner, lifted, one, one, one), 0, (rank, one, one), None, rank, True)
