# SPDX-License-Identifier: Apache-2.0
"""Hops: serves, and the asks that each may be of, in; the serves by the group that their disk, or
mount, has most of the time out.

What serves a disk may change while it is recorded: it is moved to another file (a mirror that is
completed, a snapshot), or another daemon takes a mount's requests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from iostrata.columns import NEVER, changes, distinct, order_of
from iostrata.hops.hop import READ_MARK, Asks, Serves
from iostrata.hops.match import ROUNDING_NS, Matched, Ties, Times
from iostrata.hops.processes import ROOM_MARK

LEAST: Final = 4
"""Asks in a row that were found in the other group alone, or there first: fewer may be chance."""


def with_moves(
    asks: Asks, serves: Serves, times: Times, fits: Matched, ties: Ties, tied: Collection[int]
) -> Serves:
    """``fits``: whatever may belong together; ``tied``: the groups of serves that are somebody's.

    While another group has what was asked, the two change places: what is written to the one that
    was left is a copy.
    """
    group = serves.group.copy()
    for upper, lower in zip(ties.upper.tolist(), ties.lower.tolist(), strict=True):
        if upper & READ_MARK:
            continue
        mine = asks.group[fits[0]] == upper
        ask, serve = fits[0][mine], fits[1][mine]
        for other in distinct(serves.group[serve]).tolist():
            if other in tied or not _alike(serves, lower, other):
                continue
            for since, until in _stretches(asks, serves, times, (ask, serve), (lower, other)):
                meanwhile = (times.begin_ns >= since - ROUNDING_NS) & (times.begin_ns < until)
                synced = {*serves.group[meanwhile & serves.flush].tolist()}
                if lower in synced and other not in synced:
                    continue  # what is copied before it is written
                for mark in (0, int(READ_MARK), int(ROOM_MARK)):
                    one = meanwhile & (serves.group == lower ^ mark)
                    group[meanwhile & (serves.group == other ^ mark)] = lower ^ mark
                    group[one] = other ^ mark
    return replace(serves, group=group)


def _alike(serves: Serves, lower: int, other: int) -> bool:
    """Whether one process has both groups, or each is a process."""
    own, others = (distinct(serves.agent[serves.group == one]) for one in (lower, other))
    return bool(np.isin(others, own).all() or ((own == lower).all() and (others == other).all()))


def _stretches(
    asks: Asks, serves: Serves, times: Times, fits: Matched, groups: tuple[int, int]
) -> Iterator[tuple[int, int]]:
    """From when to when the second of the groups had what was asked, and the first one did not, or
    later."""
    ask, serve = fits
    first = np.full((2, len(asks)), NEVER)
    for number, group in enumerate(groups):
        there = serves.group[serve] == group
        np.minimum.at(first[number], ask[there], times.begin_ns[serve[there]])
    found = np.flatnonzero(first.min(axis=0) < NEVER)
    found = found[order_of(asks.begin_ns[found])]
    elsewhere = (first[1] < first[0])[found]
    begins = np.flatnonzero(changes(elsewhere.astype(np.int64)))
    ends = np.append(begins[1:], len(found))
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        if elsewhere[begin] and end - begin >= LEAST:
            until = asks.begin_ns[found[end]] if end < len(found) else NEVER
            yield int(asks.begin_ns[found[begin]]), int(until)
