# SPDX-License-Identifier: Apache-2.0
"""Audits of all machines' windows in, what no write consists of out (law 9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from iostrata.columns import Ints, Union, among, distinct, joined, meets, pair_key, rows_of
from iostrata.model import LeftOver
from iostrata.stitch import KINDS, Activities, Audit, Idle, Ways
from iostrata.trace import Facts

NOTHING: Final = np.zeros(0, np.int64)
FEW_ROWS: Final = 1 << 18
PART: Final = 63
"""One identity in so many and one, by its lowest bits, which those of times are part of."""


class Audits:
    """Those of all windows, as they come: what several of them saw is kept once.

    Windows overlap: where much is under way at once, each sees most of its neighbours'.
    """

    def __init__(self, audits: Sequence[Audit] = ()) -> None:
        self._parts: list[Audit] = []
        self._rows, self._most = 0, FEW_ROWS
        self.extend(audits)

    def extend(self, audits: Sequence[Audit]) -> None:
        self._parts.extend(audits)
        self._rows += _rows(audits)
        if self._rows > self._most:
            self._parts = [replace(one, used=_once(one.used)) for one in self.fold()]
            self._rows = _rows(self._parts)
            self._most = self._rows + max(FEW_ROWS, self._rows)

    @property
    def beyond(self) -> Counter[str]:
        """By machine, how many waits were behind more others than are followed."""
        found: Counter[str] = Counter()
        for one in self._parts:
            found[one.machine] += one.beyond
        return found

    def fold(self) -> Sequence[Audit]:
        """One of each machine; ``used`` may have some twice."""
        return list(_together(self._parts))


def left_over(audits: Audits) -> tuple[tuple[LeftOver, ...], tuple[LeftOver, ...], int]:
    """What all windows of all machines left over, what is background, and the writes' time.

    That time (ns) is of the sleeps during anything left over, each instant once.
    """
    told: list[LeftOver] = []
    background: list[LeftOver] = []
    total_ns = 0
    for audit in audits.fold():
        machine, facts, found, idle = audit.machine, audit.facts, audit.unused, audit.idle
        loose = found.rows(np.flatnonzero(~found.foreign))
        background += _background(machine, facts, found)
        total_ns += _beside(facts, loose, idle)
        told += _told(machine, facts, loose, idle)
    return tuple(told), tuple(background), total_ns


def _once(used: Ints) -> Ints:
    """Each once, if more than a tenth is there twice, as a part of them tells: where little is
    under way at once, windows have little in common."""
    some = used[used & PART == 0]
    return used if len(distinct(some)) * 10 > len(some) * 9 else distinct(used)


def _rows(audits: Sequence[Audit]) -> int:
    return sum(len(one.used) + len(one.unused.key) + len(one.idle) for one in audits)


def _together(audits: Sequence[Audit]) -> Iterator[Audit]:
    """What is unused in one window may be part of a write in another."""
    for machine in dict.fromkeys(audit.machine for audit in audits):
        mine = [audit for audit in audits if audit.machine == machine]
        used = np.concatenate([audit.used for audit in mine])
        idle = Idle(**joined([audit.idle for audit in mine]))
        beyond = sum(audit.beyond for audit in mine)
        yield Audit(machine, mine[0].facts, used, _unused(mine, used), idle, beyond)


def _unused(audits: Sequence[Audit], used: Ints) -> Activities:
    parts = [audit.unused for audit in audits]
    identity, first, same = np.unique(
        np.concatenate([pair_key(part.key, part.begin_ns) for part in parts]),
        return_index=True, return_inverse=True,
    )  # fmt: skip
    foreign = np.zeros(len(identity), np.bool_)
    foreign[same[np.concatenate([part.foreign for part in parts])]] = True
    left = np.flatnonzero(~among(identity, used))
    # One column after the other: all of all parts at once would take the most memory of all.
    rows = first[left]
    found = {
        name: np.concatenate([getattr(part, name) for part in parts])[rows]
        for name in vars(parts[0])
    }
    return Activities(**found | {"foreign": foreign[left]})


def _background(machine: str, facts: Facts, found: Activities) -> Iterator[LeftOver]:
    took = found.end_ns - found.begin_ns
    for kind, place, rows in _groups(found):
        yield LeftOver(machine, KINDS[kind], facts.device_name(place), len(rows),
                       int(took[rows].sum()))  # fmt: skip


def _beside(facts: Facts, loose: Activities, idle: Idle) -> int:
    """For how many ns pieces were idle while anything went on that they may have waited for."""
    total_ns, ways = 0, Ways(facts, loose.place, loose.mounts)
    for key, stacked, sleeps in _asleep(idle):
        below = loose.rows(ways.down(key, stacked))
        total_ns += int(
            Union(below.begin_ns, below.end_ns).within(sleeps.begin_ns, sleeps.end_ns).sum()
        )
    return total_ns


def _asleep(idle: Idle) -> Iterator[tuple[int, bool, Idle]]:
    for stacked in (False, True):
        some = idle.rows(np.flatnonzero(idle.stacked == stacked))
        for key, rows in rows_of(some.device_key).items():
            yield key, stacked, some.rows(rows)


def _told(machine: str, facts: Facts, loose: Activities, idle: Idle) -> Iterator[LeftOver]:
    groups, above = list(_groups(loose)), dict[int, list[Idle]]()
    ways = Ways(facts, np.array([place for _, place, _ in groups], np.int64), loose.mounts)
    for key, stacked, sleeps in _asleep(idle):
        for group in ways.down(key, stacked).tolist():
            above.setdefault(group, []).append(sleeps)
    for group, (kind, place, rows) in enumerate(groups):
        if group not in above:
            continue
        mine = Idle(**joined(above[group]))
        begin, end = loose.begin_ns[rows], loose.end_ns[rows]
        beside_ns = int(Union(begin, end).within(mine.begin_ns, mine.end_ns).sum())
        if beside_ns:
            count = int(np.count_nonzero(meets(begin, end, mine.begin_ns, mine.end_ns)))
            yield LeftOver(machine, KINDS[kind], facts.device_name(place), count, beside_ns)


def _groups(found: Activities) -> Iterator[tuple[int, int, Ints]]:
    for kind, some in rows_of(found.kind).items():
        for place, rows in rows_of(found.place[some]).items():
            yield kind, place, some[rows]
