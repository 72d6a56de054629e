# SPDX-License-Identifier: Apache-2.0
"""Hops: asks, serves and their clocks' relation in, who served which ask out.

The wire key decides; time only settles which use of a key it was. What has no key
(a flush) is served by all of its group that ran meanwhile: many to many.
"""

from __future__ import annotations

import numpy as np

from iostrata.columns import AsOf, Ints, at, overlapping
from iostrata.hops.hop import Asks, Pairs, Serves


def match(asks: Asks, serves: Serves, begin_ns: Ints, end_ns: Ints, slack_ns: int) -> Pairs:
    """``begin_ns``, ``end_ns``: of the serves in the asks' clock, give or take the slack."""
    ask, serve = _by_key(asks, serves, begin_ns, end_ns, slack_ns)
    upper, lower = _tied_groups(asks.group[ask], serves.group[serve])
    same = lower[np.searchsorted(upper, asks.group[ask])] == serves.group[serve]
    ask, serve = ask[same], serve[same]
    used, count = np.unique(serve, return_counts=True)
    once = ~np.isin(serve, used[count > 1])
    ambiguous = len(ask) - int(np.count_nonzero(once))
    shared_ask, shared_serve = _by_group(asks, serves, begin_ns, end_ns, upper, lower)
    ask = np.concatenate([ask[once], shared_ask])
    serve = np.concatenate([serve[once], shared_serve])
    order = np.lexsort((begin_ns[serve], ask))
    return Pairs(ask[order], serve[order], np.isin(asks.group, upper), ambiguous)


def _by_key(
    asks: Asks, serves: Serves, begin_ns: Ints, end_ns: Ints, slack_ns: int
) -> tuple[Ints, Ints]:
    """The first serve of the key that fits into the ask."""
    keyed = np.flatnonzero(~asks.shared)
    candidates = np.flatnonzero(~serves.shared)
    found = AsOf(serves.key[candidates], begin_ns[candidates]).at_or_after(
        asks.key[keyed], asks.begin_ns[keyed] - slack_ns
    )
    serve = at(candidates, found)
    fits = (serve >= 0) & (at(end_ns, serve) <= asks.end_ns[keyed] + slack_ns)
    return keyed[fits], serve[fits]


def _tied_groups(upper: Ints, lower: Ints) -> tuple[Ints, Ints]:
    """For each group of asks (in order) the group of serves that most of its keys were found in."""
    pairs, count = np.unique(np.stack([upper, lower], axis=1), axis=0, return_counts=True)
    pairs = pairs[np.lexsort((-count, pairs[:, 0]))]
    first = np.unique(pairs[:, 0], return_index=True)[1]
    return pairs[first, 0], pairs[first, 1]


def _by_group(
    asks: Asks, serves: Serves, begin_ns: Ints, end_ns: Ints, upper: Ints, lower: Ints
) -> tuple[Ints, Ints]:
    """Shared asks: every shared serve of their group that ran meanwhile."""
    parts: list[tuple[Ints, Ints]] = []
    for group, other in zip(upper.tolist(), lower.tolist(), strict=True):
        ask = np.flatnonzero(asks.shared & (asks.group == group))
        serve = np.flatnonzero(serves.shared & (serves.group == other))
        row, column = overlapping(
            np.zeros(len(ask), np.int64), asks.begin_ns[ask], asks.end_ns[ask],
            np.zeros(len(serve), np.int64), begin_ns[serve], end_ns[serve],
        )  # fmt: skip
        parts.append((ask[row], serve[column]))
    none = np.zeros(0, np.int64)
    return (
        np.concatenate([none, *(ask for ask, _ in parts)]),
        np.concatenate([none, *(serve for _, serve in parts)]),
    )
