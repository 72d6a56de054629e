# SPDX-License-Identifier: Apache-2.0
"""Spans of bios, and the flushes that they wait for, as C has them, against NumPy's."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iostrata import native
from iostrata.columns import distinct
from iostrata.stitch import blockio
from iostrata.stitch.bios import Bios, Carried
from iostrata.stitch.blockio import Awaited, flushes_awaited, spans_of_bios
from iostrata.stitch.requests import Requests

NEVER: Final = np.iinfo(np.int64).max
LATEST_NS: Final = (5, 60, NEVER - 1)

pytestmark = pytest.mark.skipif(
    native.LIBRARY is None, reason="libnative.so was not built here: make native"
)

seeds = st.integers(0, 2**32 - 1)
counts = st.tuples(st.integers(0, 40), st.integers(0, 60), st.integers(0, 50))


class Some:
    """Made-up bios and requests; what has times may have none of some kind (-1)."""

    def __init__(self, seed: int, latest_ns: int, counts: tuple[int, int, int]) -> None:
        self.random, self._latest_ns = np.random.default_rng(seed), latest_ns
        count, request_count, pairs = counts
        self.requests = self._requests(request_count)
        self.bios = self._bios(count, request_count)
        pairs *= min(count, request_count) > 0
        self.carried = Carried(self.below(pairs, count), self.below(pairs, request_count))
        flushes = self.below(pairs, request_count)
        self.awaited = Awaited(
            self.below(pairs, count), flushes, self.times(pairs), self.times(pairs)
        )

    def below(self, count: int, most: int) -> np.ndarray:
        return self.random.integers(0, max(most, 1), count)

    def flags(self, count: int) -> np.ndarray:
        return self.random.integers(0, 3, count) > 0

    def times(self, count: int) -> np.ndarray:
        times = self.random.integers(0, self._latest_ns, count, endpoint=True)
        return np.where(self.random.integers(0, 4, count) > 0, times, -1)

    def _requests(self, count: int) -> Requests:
        columns: dict[str, Any] = dict.fromkeys(Requests.__annotations__, self.below(count, 3))
        columns |= {"device_key": self.below(count, 3) - 1, "flush": self.flags(count)}
        columns |= {"issue_ns": np.sort(self.times(count)), "complete_ns": self.times(count)}
        return Requests(**columns | {"disks": distinct(columns["device_key"])})

    def _bios(self, count: int, request_count: int) -> Bios:
        names = list(Bios.__annotations__)
        columns: dict[str, Any] = dict.fromkeys(names, self.below(count, 4) - 1)
        columns |= {name: self.flags(count) for name in names if name in FLAGS}
        columns |= {name: self.times(count) for name in names if name.endswith("_ns")}
        columns["request"] = self.below(count, request_count + 1) - 1
        return Bios(**columns)


FLAGS: Final = frozenset(("meta", "discard", "read", "wants_flush", "lowered"))


def rows(found: Any) -> list[list[Any]]:
    return [column.tolist() for column in vars(found).values()]


@settings(max_examples=300)
@given(seeds, st.sampled_from(LATEST_NS), counts)
def test_spans(seed: int, latest_ns: int, counts: tuple[int, int, int]) -> None:
    some = Some(seed, latest_ns, counts)
    owner, journal = some.below(len(some.bios), 5) - 1, some.flags(len(some.bios))
    for stacked in (np.zeros(0, np.int64), np.array([1])):
        given = (
            some.bios, some.requests, some.carried, some.awaited, owner, journal, stacked,
        )  # fmt: skip
        found = spans_of_bios(*given).collect()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(native, "LIBRARY", None)
            assert rows(found) == rows(spans_of_bios(*given).collect())
        assert len(found) == 0 or found.rank.dtype == np.int16


@settings(max_examples=300)
@given(seeds, st.sampled_from(LATEST_NS), counts, st.sampled_from((1, 2, 16)), st.booleans())
def test_flushes_that_are_awaited(
    seed: int, latest_ns: int, counts: tuple[int, int, int], most: int, ordered: bool
) -> None:
    some = Some(seed, latest_ns, counts)
    if not ordered:
        some.requests.issue_ns[:] = some.random.permutation(some.requests.issue_ns)
    asked = np.flatnonzero(some.flags(len(some.bios)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blockio, "MOST", most)
        found = flushes_awaited(some.bios, asked, some.requests)
        assert rows(found) == rows(blockio._awaited(some.bios, asked, some.requests))
        # Of many disks, each would be looked for among all.
        patch.setattr(blockio, "FEW", 0)
        assert rows(found) == rows(flushes_awaited(some.bios, asked, some.requests))


@pytest.mark.parametrize("row", [-1, 40, 1 << 40, 1 << 62])
@pytest.mark.parametrize(
    ("table", "name"),
    [("carried", "bio"), ("carried", "request"), ("awaited", "bio"), ("awaited", "flush")],
)
def test_what_leads_nowhere_is_refused(table: str, name: str, row: int) -> None:
    some = Some(1, 60, (40, 40, 20))
    owner, journal = np.zeros(40, np.int64), np.zeros(40, np.bool_)
    vars(getattr(some, table))[name][:] = row
    with pytest.raises(IndexError):
        spans_of_bios(
            some.bios, some.requests, some.carried, some.awaited, owner, journal,
            np.zeros(0, np.int64),
        )  # fmt: skip
    with pytest.raises(IndexError):
        flushes_awaited(some.bios, np.array([row]), some.requests)
