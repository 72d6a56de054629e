# SPDX-License-Identifier: Apache-2.0
"""Requests and bios as C follows them by their pointers, against what NumPy finds of them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iostrata import native
from iostrata.stitch import lives, requests
from iostrata.stitch.begun import Begun, Ends
from iostrata.stitch.lives import Issued

NEVER: Final = np.iinfo(np.int64).max
LEAST: Final = np.iinfo(np.int64).min
# Near one another, with ties; and as far apart as a recording may have them.
LATEST_NS: Final = (0, 20, NEVER - 1)
KEYS: Final = np.array([0, -1, 1, LEAST, NEVER, 0x7780_0000_0100, -0x7780_0000_0000])

pytestmark = pytest.mark.skipif(
    native.LIBRARY is None, reason="libnative.so was not built here: make native"
)

seeds = st.integers(0, 2**32 - 1)
counts = st.integers(0, 30)
keys = st.integers(1, len(KEYS))
latest = st.sampled_from(LATEST_NS)


class Some:
    """Made-up events, in order of time."""

    def __init__(self, seed: int, keys: int, latest_ns: int) -> None:
        self._random, self._keys, self._latest_ns = np.random.default_rng(seed), keys, latest_ns

    def numbers(self, count: int, most: int = 2) -> np.ndarray:
        return self._random.integers(0, most, count)

    def keys(self, count: int) -> np.ndarray:
        found: np.ndarray = KEYS[self.numbers(count, self._keys)]
        return found

    def events(self, count: int, *names: str) -> dict[str, np.ndarray]:
        times = np.sort(self._random.integers(0, self._latest_ns, count, endpoint=True))
        return {"time_ns": times} | {name: self.keys(count) for name in names}


def tables(found: Any) -> list[list[Any]]:
    columns = vars(found).values() if isinstance(found, lives.Lives) else found
    return [column.tolist() for column in columns]


@settings(max_examples=300)
@given(seeds, keys, latest, counts, counts, st.integers(0, 8))
def test_which_completion_a_request_ended_with(
    seed: int, keys: int, latest_ns: int, count: int, done_count: int, back_count: int
) -> None:
    some = Some(seed, keys, latest_ns)
    issued = some.events(count, "request_key") | {"size_bytes": some.numbers(count) * 512}
    done = some.events(done_count, "request_key")
    done |= {"size_bytes": some.numbers(done_count) * 512, "bio_key": some.numbers(done_count)}
    back = some.events(back_count, "request_key")
    found, wanted = (pair(issued, done, back) for pair in (requests._paired_in_c, requests._paired))
    assert tables(found) == tables(wanted)


def of_bios(seed: int, keys: int, latest_ns: int, counts: tuple[int, int, int, int]) -> Any:
    some = Some(seed, keys, latest_ns)
    count, completions, alone, issued = counts
    began = some.events(count, "bio_key")
    columns = dict.fromkeys(Begun.__annotations__, began["bio_key"])
    columns |= {"time_ns": began["time_ns"], "device_key": some.numbers(count)}
    begun = Begun(**columns)
    ends = object.__new__(Ends)
    ends.of_requests, ends.alone = (
        some.events(completions, "bio_key"),
        some.events(alone, "bio_key"),
    )
    ends.given_back = some.numbers(completions, 4) == 0
    # What belongs to it besides is told a little later than the request.
    parts = [some.events(each, "bio_key") for each in (issued, issued // 2)]
    key, time = (np.concatenate([part[name] for part in parts]) for name in ("bio_key", "time_ns"))
    return begun, ends, Issued(key, time, some.numbers(len(key)))


@settings(max_examples=300)
@given(seeds, keys, latest, st.tuples(counts, counts, counts, counts))
def test_what_is_whose(
    seed: int, keys: int, latest_ns: int, counts: tuple[int, int, int, int]
) -> None:
    given = of_bios(seed, keys, latest_ns, counts)
    assert tables(lives._followed_in_c(*given)) == tables(lives._followed(*given))


@pytest.mark.parametrize("which", range(2))
def test_times_that_do_not_ascend_lead_nowhere(which: int) -> None:
    """They do, in whatever is read: nothing is asked of what comes of others."""
    random = np.random.default_rng(which)
    begun, ended, alone, issued = (list(random.integers(LEAST, NEVER, (3, 50))) for _ in range(4))
    found = native.follow_bios(begun, [*ended[:2], ended[2] & 1], alone[:2], issued)
    assert all(((column >= -1) & (column < 50)).all() for column in found[1:])
    done = [*ended, issued[0] & 1]
    completion, _, returned = native.pair_requests(begun, done, alone[:2])
    assert ((completion >= -1) & (completion < 50)).all()
    assert set(returned.tolist()) <= {0, 1}
