# SPDX-License-Identifier: Apache-2.0
"""Blocks of pieces: every span once, with its piece, and no more at once than was asked for."""

from __future__ import annotations

import sys
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostrata.attribute import blocks
from iostrata.stitch import Spans


@pytest.mark.parametrize("most", [1, 4, 1000])
@given(st.integers(1, 6), st.lists(st.integers(0, 5), max_size=40))
def test_each_span_is_in_the_block_of_its_piece(most: int, pieces: int, owners: list[int]) -> None:
    owner = np.array([one % pieces for one in owners], np.int64)
    number = np.arange(len(owner))
    spans = Spans(owner, number.astype(np.int16), number, number + 1, number)
    with patch.object(sys.modules[blocks.__module__], "MOST_SPANS", most):
        found = list(blocks(spans, pieces))
    edges = [first for first, _, _ in found] + [pieces]
    assert edges[0] == 0
    assert [end for _, end, _ in found] == edges[1:]
    assert sorted(one for *_, some in found for one in some.of.tolist()) == number.tolist()
    for first, end, some in found:
        assert (some.owner + first == owner[some.of]).all()
        assert first < end
        for piece in range(end - first):
            assert (np.diff(some.of[some.owner == piece]) > 0).all()
        # Besides those of one piece.
        assert len(some) - np.bincount(some.owner, minlength=1).max() <= most
