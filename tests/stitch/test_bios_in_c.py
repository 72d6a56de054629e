# SPDX-License-Identifier: Apache-2.0
"""Requests and bios as C follows them by their pointers, against what NumPy finds of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iostrata import native
from iostrata.stitch import bios, endings, lives, requests
from iostrata.stitch.begun import Begun, Ends
from iostrata.stitch.bios import Bios, Carried
from iostrata.stitch.lives import Issued, Lives
from iostrata.stitch.requests import Requests, Unended

NEVER: Final = np.iinfo(np.int64).max
LEAST: Final = np.iinfo(np.int64).min
# Near one another, with ties; and as far apart as a recording may have them.
LATEST_NS: Final = (0, 20, NEVER - 1)
KEYS: Final = np.array([0, -1, 1, LEAST, NEVER, 0x7780_0000_0100, -0x7780_0000_0000])

NOTHING: Final = np.zeros(0, np.int64)

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

    def rows(self, count: int, of: int) -> np.ndarray:
        """-1: none."""
        return self.numbers(count, of + 1) - 1

    def distinct(self, count: int) -> np.ndarray:
        return self._random.permutation(count)

    def events(self, count: int, *names: str) -> dict[str, np.ndarray]:
        times = np.sort(self._random.integers(0, self._latest_ns, count, endpoint=True))
        return {"time_ns": times} | {name: self.keys(count) for name in names}


def tables(found: Any) -> list[list[Any]]:
    return [
        column.tolist() for column in (found if isinstance(found, tuple) else vars(found).values())
    ]


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


@settings(max_examples=300)
@given(seeds, latest, st.tuples(counts, counts, counts), st.sampled_from((1, 2, 9)))
def test_what_carried_which(
    seed: int, latest_ns: int, counts: tuple[int, int, int], most: int
) -> None:
    some = Some(seed, 3, latest_ns)
    count, request_count, pairs = counts
    columns: dict[str, Any] = dict.fromkeys(Begun.__annotations__, some.numbers(count, 3))
    begun = Begun(**columns | {"time_ns": some.events(count)["time_ns"]})
    columns = dict.fromkeys(Requests.__annotations__, some.numbers(request_count, 3))
    columns |= {name: some.events(request_count)["time_ns"] for name in ("issue_ns", "complete_ns")}
    columns["unended"] = Unended(*[NOTHING] * 4)
    requests = Requests(**columns | {"flush": some.numbers(request_count) > 0})
    pairs *= request_count > 0
    request = some.numbers(pairs, request_count or 1)
    if seed % 2:
        request.sort()
    followed = Lives(some.rows(count, 9), some.rows(pairs, count), NOTHING, NOTHING)
    point = SimpleNamespace(fields=("above_key",))
    window: Any = SimpleNamespace(trace=SimpleNamespace(points={"block_bio_queue": point}))
    given = window, begun, requests, request, followed
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bios, "MERGED", most)
        carried, *found = bios._settled(*given)
        patch.setattr(native, "LIBRARY", None)
        expected, *wanted = bios._settled(*given)
    assert tables(carried) == tables(expected)
    assert tables(tuple(found)) == tables(tuple(wanted))


def endings_given(seed: int, latest_ns: int, counts: tuple[int, int, int, int]) -> Any:
    some = Some(seed, 3, latest_ns)
    count, bio_count, carried_count, completions = counts
    completed = some.events(completions, "tid", "cpu") | {
        "by_kernel_thread": some.numbers(completions)
    }
    columns: dict[str, Any] = dict.fromkeys(Requests.__annotations__, some.numbers(count, 3))
    columns |= {
        "complete_ns": some.events(count)["time_ns"][::-1],
        "flush": some.numbers(count) > 0,
    }
    columns["completion"] = np.full(count, -1)
    known = some.distinct(min(count, completions))
    columns["completion"][: len(known)] = known
    requests = Requests(**columns)
    columns = dict.fromkeys(Bios.__annotations__, some.numbers(bio_count, 3))
    columns |= {"wants_flush": some.numbers(bio_count) > 0, "parent": some.numbers(bio_count) - 1}
    columns["parent"] = np.minimum(columns["parent"], np.arange(bio_count) - 1)
    columns["request"] = some.rows(bio_count, count)
    columns["lives"] = SimpleNamespace(of_requests=some.rows(completions, bio_count))
    pairs = carried_count * (count > 0) * (bio_count > 0)
    carried = Carried(some.numbers(pairs, bio_count or 1), some.numbers(pairs, count or 1))
    return Bios(**columns), carried, requests, completed


@settings(max_examples=300)
@given(seeds, latest, st.tuples(counts, counts, counts, counts))
def test_what_ended(seed: int, latest_ns: int, counts: tuple[int, int, int, int]) -> None:
    given = endings_given(seed, latest_ns, counts)
    assert tables(endings._of_requests_in_c(*given)) == tables(endings._of_requests(*given))


@pytest.mark.parametrize(
    ("what", "name"), [(1, "request"), (1, "bio"), (2, "completion"), (0, "of_requests")]
)
@pytest.mark.parametrize("row", [1 << 40, 1 << 62, 20])
def test_what_leads_nowhere_is_refused(what: int, name: str, row: int) -> None:
    given = endings_given(3, 20, (20, 20, 20, 20))
    columns = vars(given[what].lives if name == "of_requests" else given[what])
    columns[name] = columns[name].copy()
    columns[name][:] = row
    if name == "of_requests":
        vars(given[1]).update(bio=NOTHING, request=NOTHING)
    with pytest.raises(IndexError):
        endings._of_requests_in_c(*given)


@pytest.mark.parametrize("bio", [-1, 0, 3, 1 << 40])
@pytest.mark.parametrize("request_row", [-1, 0, 3, 1 << 40, LEAST])
def test_what_is_carried_by_nothing_is_refused(bio: int, request_row: int) -> None:
    three = np.arange(3)
    issued = np.array([bio]), np.array([request_row])
    if bio < 0 or bio == request_row == 0:
        found = native.carry_bios((three, three), (three, three), issued, 9)
        assert found
        assert len(found[0]) == (bio == 0)
    else:
        with pytest.raises(IndexError):
            native.carry_bios((three, three), (three, three), issued, 9)


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
