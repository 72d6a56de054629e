# SPDX-License-Identifier: Apache-2.0
"""Waits for a CPU of those who serve as C finds them, against what NumPy finds."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iostrata import native
from iostrata.stitch import serving
from iostrata.stitch.serving import Service
from iostrata.stitch.wakeup import Sleeps

NEVER: Final = np.iinfo(np.int64).max
TIDS: Final = np.array([0, 1, -1, 1 << 31, -(1 << 63), NEVER])

pytestmark = pytest.mark.skipif(
    native.LIBRARY is None, reason="libnative.so was not built here: make native"
)


def sleeps_of_threads(random: np.random.Generator, each: int, latest_ns: int) -> Sleeps:
    """One after the other of each thread; of all, in any order."""
    step = random.integers(1, latest_ns // (3 * each + 1) + 1, (len(TIDS), 3 * each), endpoint=True)
    times = np.cumsum(step, axis=1)
    off, wake, on = times.reshape(-1, 3).T
    wake = np.where(random.integers(0, 4, len(off)) == 0, 0, wake)
    columns: dict[str, Any] = dict.fromkeys(Sleeps.__dataclass_fields__, off)
    columns |= {"tid": np.repeat(TIDS, each), "wake_ns": wake, "on_ns": on}
    return Sleeps(**columns).rows(random.permutation(len(off)))


def services(random: np.random.Generator, count: int, latest_ns: int) -> Service:
    tid = TIDS[random.integers(0, len(TIDS), count)]
    begin, end = random.integers(0, latest_ns, (2, count), endpoint=True)
    return Service(np.arange(count), tid, begin, end)


@settings(max_examples=300)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 8),
    st.integers(0, 20),
    st.sampled_from([0, 100, NEVER // 2]),
)
def test_waits_meanwhile(seed: int, each: int, count: int, latest_ns: int) -> None:
    random = np.random.default_rng(seed)
    sleeps, service = sleeps_of_threads(random, each, latest_ns), services(random, count, latest_ns)
    found, wanted = (
        [column.tolist() for column in meanwhile(service, sleeps)]
        for meanwhile in (serving._meanwhile_in_c, serving._meanwhile)
    )
    assert found == wanted


def test_a_table_that_leads_out_of_the_waits_is_refused() -> None:
    random = np.random.default_rng(7)
    sleeps, service = sleeps_of_threads(random, 8, 30), services(random, 20, 30)
    with pytest.raises(IndexError):
        native.overlap_waits(
            sleeps.resumed.lookup, sleeps.runnable_ns[:1], service.tid, service.begin_ns,
            service.end_ns,
        )  # fmt: skip
