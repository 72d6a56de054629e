# SPDX-License-Identifier: Apache-2.0
"""Columns that grow: every row once, in order, of the kinds that were asked for."""

from __future__ import annotations

import sys
from unittest.mock import patch

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from iostrata.analysis.kept import Kept


@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 7))
def test_every_row_is_kept_once(lengths: list[int], fewest: int) -> None:
    kept, number = Kept(np.int32, np.int64), 0
    with patch.object(sys.modules[Kept.__module__], "FEWEST_ROWS", fewest):
        for length in lengths:
            rows = np.arange(number, number + length)
            kept.extend((rows, rows << 40))
            number += length
    narrow, wide = kept.joined()
    assert narrow.dtype == np.dtype(np.int32)
    assert wide.dtype == np.dtype(np.int64)
    assert narrow.tolist() == list(range(number))
    assert wide.tolist() == [one << 40 for one in range(number)]
    assert [len(column) for column in kept.joined()] == [0, 0]
