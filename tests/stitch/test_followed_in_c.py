# SPDX-License-Identifier: Apache-2.0
"""Chains of wake-ups as C follows them, against what ``Wakers`` does level by level."""

from __future__ import annotations

from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iostrata import native
from iostrata.columns import AsOf, Containing
from iostrata.stitch.bios import Bios, Carried
from iostrata.stitch.endings import Endings
from iostrata.stitch.kinds import Kinds
from iostrata.stitch.spans import SpanList
from iostrata.stitch.turns import Numbers
from iostrata.stitch.wakers import Waits, Wakers
from iostrata.stitch.wakeup import Sleeps
from iostrata.trace.layout import THREAD_HELPER, THREAD_JOURNAL, THREAD_WORKER, WAKE_TIMER

TIDS: Final = 5
LATEST_NS: Final = 40
DEVICES, DISKS = 3, 2

pytestmark = pytest.mark.skipif(
    native.LIBRARY is None, reason="libnative.so was not built here: make native"
)


class Some(Wakers):
    """Of made-up columns: no window says that any of it can be."""

    def __init__(self, seed: int, count: int, *, apart: int = 1) -> None:
        """``apart``: the times' unit."""
        self._random, self._count, self._apart = np.random.default_rng(seed), count, apart
        self._sleeps = Sleeps(**{field.name: self._some(TIDS) for field in fields(Sleeps)})
        off, wake, on = np.sort([self._times() for _ in range(3)], axis=0)
        wake[self._some(3) == 0] = 0
        # Nobody waits for who woke those that did not sleep: no such way of it is looked up.
        context = np.where(wake > 0, self._some(4), WAKE_TIMER)
        self._sleeps = replace(
            self._sleeps, off_ns=off, wake_ns=wake, on_ns=on, context=context,
            state=self._some(2) * 0x402, other_work=self._some(2), waker_other_work=self._some(2),
            met=self._some(2), waker=self._some(TIDS) - 1, throttled_ns=self._times() // 8,
        )  # fmt: skip
        rows = {name: self._some(4) - 3 for name in ("bio", "request", "call", "commit")}
        rows["bio"] = np.maximum(self._some(2 * count) - count, -1)
        rows["request"] = np.where(rows["bio"] >= 0, self._some(count + 1) - 1, -1)
        times = self._times()
        self._endings = Endings(
            tid=self._some(TIDS), cpu=self._some(2), time_ns=times, since_ns=times - self._some(3),
            itself=self._some(2), **rows,
        )  # fmt: skip
        columns: dict[str, Any] = {field.name: self._some(TIDS) for field in fields(Bios)}
        columns |= {"queue_ns": self._times(), "held": self._some(3) == 0}
        self._bios = Bios(**columns)
        self._asker, self._numbers = self._some(count) - 1, Numbers(1000, 2000, 3000, 4000)
        self._completed = np.flatnonzero(self._endings.bio >= 0)
        self._told = np.flatnonzero(self._endings.bio < 0)
        self._by_thread = self._by_tid(self._told)
        self._resumed = AsOf(self._sleeps.tid, on)
        self._asking = np.maximum(self._some(2 * count) - count, -1)
        self._woken = np.flatnonzero(self._sleeps.asleep)
        self._awake = AsOf(self._sleeps.tid[self._woken], on[self._woken])
        self._kinds = object.__new__(Kinds)
        kinds = np.array([0, THREAD_HELPER, THREAD_HELPER, THREAD_JOURNAL, THREAD_WORKER, 1])
        self._kinds.kinds = kinds[self._some(len(kinds))]
        self._kinds.told = AsOf(self._some(TIDS), self._times())
        forgotten = np.flatnonzero(self._kinds.kinds == 0)
        self._kinds.forgotten_at = self._times()[forgotten]
        self._kinds.forgotten = AsOf(self._some(TIDS)[forgotten], self._kinds.forgotten_at)
        self._chosen = self._some(2) > 0
        self._commits: Any = SimpleNamespace(
            waker=self._some(TIDS), begin_ns=times, end_ns=times + self._times()
        )
        begin = self._times()
        self.__dict__["_calls"] = begin, Containing(self._some(TIDS), begin, begin + self._times())
        self._device_of_piece, self._disk_of_bio = self._some(DEVICES), self._some(DISKS)
        self._may_be = self._random.integers(0, 2, (DEVICES, DISKS)) > 0
        self.carried = Carried(self._some(count), self._some(count))
        self.owners = self._some(count + 1) - 1, self._some(3) - 1

    def _some(self, most: int) -> np.ndarray:
        return self._random.integers(0, max(most, 1), self._count)

    def _times(self) -> np.ndarray:
        return self._some(LATEST_NS) * self._apart

    def waits(self) -> Waits:
        begin, sleep = self._times(), self._some(self._count)
        return Waits(
            self._some(2 * self._count), sleep, begin, begin + self._times(), self._some(TIDS),
            self._some(2), self._sleeps.context[sleep], self._some(2),
        )  # fmt: skip

    def came_to(self, front: Waits, *, in_c: bool) -> list[Any]:
        spans, ended = SpanList(), np.zeros(self._count, np.bool_)
        of = self.carried, self.owners
        if in_c:
            found = self._followed_in_c(front, lambda: self._own_in_c(*of), spans, ended)
        else:
            found = self._followed(front, lambda: self._own(*of), spans, ended)
        tied, worked, beyond = found
        tables = (spans.collect(), *tied, worked)
        return [ended.tolist(), beyond] + [
            {name: column.tolist() for name, column in vars(table).items()} for table in tables
        ]


@settings(max_examples=200)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.sampled_from([1, 400_000, 1 << 56]))
def test_what_waits_come_to(seed: int, count: int, apart: int) -> None:
    wakers = Some(seed, count, apart=apart)
    front = wakers.waits()
    assert wakers.came_to(front, in_c=True) == wakers.came_to(front, in_c=False)


def test_what_needs_more_room_than_there_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "FEW_WAITS", 0)
    wakers = Some(245, 60)
    front = wakers.waits().where(np.arange(60) == 0)
    found = wakers.came_to(front, in_c=True)
    # So many more than the room of a front of one.
    assert len(found[2]["owner"]) > 4
    assert found == wakers.came_to(front, in_c=False)


@pytest.mark.parametrize(
    ("what", "name"),
    [("_endings", "bio"), ("", "_asking"), ("", "_device_of_piece"), ("", "_disk_of_bio")],
)
@pytest.mark.parametrize("row", [1 << 40, -2, -(1 << 62), 20])
def test_what_leads_nowhere_is_refused(what: str, name: str, row: int) -> None:
    wakers = Some(3, 20)
    columns = vars(vars(wakers)[what] if what else wakers)
    columns[name] = columns[name].copy()
    columns[name][7] = row
    with pytest.raises(IndexError):
        wakers.came_to(wakers.waits(), in_c=True)


@pytest.mark.parametrize(("name", "row"), [("owner", -1), ("sleep", -1), ("sleep", 20)])
def test_who_waits_for_nothing_is_refused(name: str, row: int) -> None:
    wakers = Some(3, 20)
    front = wakers.waits()
    vars(front)[name][7] = row
    with pytest.raises(IndexError):
        wakers.came_to(front, in_c=True)


@pytest.mark.parametrize("row", [1 << 40, -2, -(1 << 62), 3])
@pytest.mark.parametrize("column", ["bio", "by_time", "carried_bio", "carried_request"])
def test_endings_of_nobody_are_refused(column: str, row: int) -> None:
    """Of three bios, and three requests."""
    names = ("bio", "request", "by_time", "carried_bio", "carried_request", "owner")
    own = {name: np.arange(3) for name in names}
    own[column][1] = row
    with pytest.raises(IndexError):
        native.Own.of(
            (own["bio"], own["request"]),
            own["by_time"],
            (own["carried_bio"], own["carried_request"]),
            3,
            [own["owner"]],
        )


def test_endings_of_no_request_that_is_known_are_refused() -> None:
    rows = np.arange(3)
    with pytest.raises(IndexError):
        native.Own.of((rows, rows), rows, (rows[:2], rows[:2]), 2, [rows])
