# SPDX-License-Identifier: Apache-2.0
"""Hops: asks, serves and their clocks' relation in, who served which ask out.

The wire key decides, within the group of serves that a group of asks is tied to. A
serve lies within its ask. The uses of one key are assigned as a whole, one to one: an
ask that may have had another one's serve is left untied. Where no serve is of the ask's
key, several together may make up its range, or one the ranges of several (a monitor
merges and splits). What has no key (a flush) is served by all of its group that ran
meanwhile and ended before it: many to many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints, changes, distinct, in_order, order_of, overlapping, ranges
from iostrata.hops.hop import Asks, Pairs, Serves

ROUNDING_NS: Final = 2
"""Between two clocks."""
ROUNDS: Final = 64
"""How often one certain pair may make the next one certain."""

SINCE_EVER: Final = np.iinfo(np.int64).min

Matched = tuple[Ints, Ints]
"""Rows of asks and of serves, equal length."""
NOTHING: Final[Matched] = (np.zeros(0, np.int64), np.zeros(0, np.int64))


@dataclass(frozen=True, eq=False)
class Times:
    """Of the serves, in the asks' clock."""

    begin_ns: Ints
    end_ns: Ints


@dataclass(frozen=True, eq=False)
class Ties:
    """Groups of asks, in order, and the group of serves that each was found to be."""

    upper: Ints
    lower: Ints

    def lower_of(self, group: Ints) -> tuple[Ints, NDArray[np.bool_]]:
        """The groups of serves, and whether there is one."""
        if not len(self.upper):
            return np.zeros(len(group), np.int64), np.zeros(len(group), np.bool_)
        place = np.minimum(np.searchsorted(self.upper, group), len(self.upper) - 1)
        return self.lower[place], self.upper[place] == group


def fitting(asks: Asks, serves: Serves, times: Times) -> Matched:
    """Every ask with every serve that may be its own, be it of another group: by key or range."""
    by_key = within(asks, serves, times)
    rest = ~asks.shared & ~np.isin(asks.group, asks.group[by_key[0]])
    left = np.ones(len(serves), np.bool_)
    left[by_key[1]] = False
    by_range = made_up(asks, serves, times, np.flatnonzero(rest), np.flatnonzero(left))[0]
    return np.concatenate([by_key[0], by_range[0]]), np.concatenate([by_key[1], by_range[1]])


def match(
    asks: Asks, serves: Serves, times: Times, ties: Ties, slack: Sequence[int],
    rivals: Sequence[Times] = (), contested: Ints = NOTHING[0],
) -> Pairs:  # fmt: skip
    """``slack``: how far all serves may lie earlier and later at once. ``rivals``: other times
    of theirs that nothing tells from these: what they tie otherwise is not certain.
    ``contested``: groups of asks whose serves another machine's asks are tied to as well."""
    wanted, crossing = ties.lower_of(asks.group)

    def tied(pairs: Matched) -> Matched:
        ask, serve = pairs
        same = crossing[ask] & (wanted[ask] == serves.group[serve])
        return ask[same], serve[same]

    candidates = tied(within(asks, serves, times))
    ask, serve = assigned(candidates)
    doubtful = np.zeros(len(asks), np.bool_)
    doubtful[candidates[0]] = True
    # What the best relation of the clocks just misses.
    some = rest_of(candidates, asks, serves)
    near = tied(within(asks, serves, times, slack, *some))
    one, other = assigned(near)
    doubtful[near[0]] = True
    ask, serve = np.concatenate([ask, one]), np.concatenate([serve, other])
    # Of copies of a machine, one's own serve may be missed just so, while another's is inside.
    theirs = np.flatnonzero(np.isin(asks.group, contested) & ~asks.shared)
    wide = tied(within(asks, serves, times, slack, theirs))
    several = np.flatnonzero(np.bincount(wide[0], minlength=len(asks)) > 1)
    ask, serve = ask[~np.isin(ask, several)], serve[~np.isin(ask, several)]
    for rival in rivals:
        others = assigned(tied(within(asks, serves, rival)))
        sure = agreeing(ask, serve, *others)
        ask, serve = ask[sure], serve[sure]
    taken = np.concatenate([serve, candidates[1], near[1]])
    some = rest_of((np.flatnonzero(doubtful), taken), asks, serves)
    parts, overfull = made_up(asks, serves, times, *some, tied)
    doubtful[overfull] = True
    doubtful[ask] = False
    shared = by_group(asks, serves, times, ties, slack)
    ask = np.concatenate([ask, parts[0], shared[0]])
    serve = np.concatenate([serve, parts[1], shared[1]])
    order = order_of(ask, times.begin_ns[serve])
    since_ns = np.full(len(order), SINCE_EVER)
    return Pairs(ask[order], serve[order], since_ns, crossing, doubtful)


def rest_of(used: Matched, asks: Asks, serves: Serves) -> Matched:
    """The asks and the serves that have a key and are not used."""
    return (
        np.flatnonzero(~asks.shared & ~np.isin(np.arange(len(asks)), used[0])),
        np.flatnonzero(~serves.shared & ~np.isin(np.arange(len(serves)), used[1])),
    )


def within(
    asks: Asks,
    serves: Serves,
    times: Times,
    slack: Sequence[int] = (0, 0),
    ask: Ints | None = None,
    serve: Ints | None = None,
) -> Matched:
    """Every ask with every serve of its key that lies within it, of all or of some rows.

    ``slack``: serves may be earlier by the first and later by the second (ns, the
    first negative).
    """
    ask = np.flatnonzero(~asks.shared) if ask is None else ask
    serve = np.flatnonzero(~serves.shared) if serve is None else serve
    keys = np.intersect1d(asks.key[ask], serves.key[serve])
    ask, serve = ask[np.isin(asks.key[ask], keys)], serve[np.isin(serves.key[serve], keys)]
    if not len(keys):
        return NOTHING
    low, high = slack[0] - ROUNDING_NS, slack[1] + ROUNDING_NS
    begins = in_order(times.begin_ns[serve])

    def place(key: Ints, time: Ints) -> Ints:
        # Key and time in one number, the time as its rank: nothing can overflow.
        rank = np.searchsorted(keys, key)
        found: Ints = rank * (len(begins) + 1) + np.searchsorted(begins, time)
        return found

    places = place(serves.key[serve], times.begin_ns[serve])
    order = order_of(places)
    places = places[order]
    first = np.searchsorted(places, place(asks.key[ask], asks.begin_ns[ask] - high))
    last = np.searchsorted(places, place(asks.key[ask], asks.end_ns[ask] - low + 1))
    count = np.maximum(last - first, 0)
    left, right = np.repeat(ask, count), serve[order[np.repeat(first, count) + ranges(count)]]
    begin, end = times.begin_ns[right], times.end_ns[right]
    upper_begin, upper_end = asks.begin_ns[left], asks.end_ns[left]
    # One shift must put both of its ends inside.
    fits = (begin + high >= upper_begin) & (end + low <= upper_end)
    fits &= end - begin <= upper_end - upper_begin + 2 * ROUNDING_NS
    return left[fits], right[fits]


def assigned(pairs: Matched) -> Matched:
    """Those of some candidates that must be, if each ask has one serve, and each serve one ask.

    Candidates that hang together are as many asks as serves, and there is one way only to
    assign them: else nothing tells which is whose.
    """
    ask, serve = pairs
    if not len(ask):
        return NOTHING
    one, other = np.bincount(ask)[ask], np.bincount(serve)[serve]
    alone = (one == 1) & (other == 1)
    found = [(ask[alone], serve[alone])]
    ask, serve = ask[~alone], serve[~alone]
    if len(ask):
        even = balanced(ask, serve)
        found += forced(ask[even], serve[even])
    return np.concatenate([a for a, _ in found]), np.concatenate([s for _, s in found])


def balanced(ask: Ints, serve: Ints) -> NDArray[np.bool_]:
    """Of each pair, whether what hangs together with it has as many asks as serves."""
    asks, upper = np.unique(ask, return_inverse=True)
    serves, lower = np.unique(serve, return_inverse=True)
    lower = lower + len(asks)
    label = np.arange(len(asks) + len(serves))
    while (label[upper] != label[lower]).any():
        least = np.minimum(label[upper], label[lower])
        for side in (label[upper], label[lower]):
            np.minimum.at(label, side, least)
        while (label != label[label]).any():
            label = label[label]
    surplus = np.zeros(len(label), np.int64)
    np.add.at(surplus, label, np.where(np.arange(len(label)) < len(asks), 1, -1))
    even: NDArray[np.bool_] = surplus[label[upper]] == 0
    return even


def forced(ask: Ints, serve: Ints) -> list[Matched]:
    """Pairs of which one side has no other choice, and those that follow from them."""
    found: list[Matched] = []
    for _ in range(ROUNDS):
        must = (np.bincount(ask)[ask] == 1) | (np.bincount(serve)[serve] == 1)
        one, other = ask[must], serve[must]
        if not len(one):
            break
        # Two that have no choice but the same one: nothing is right for both.
        clear = (np.bincount(one)[one] == 1) & (np.bincount(other)[other] == 1)
        found.append((one[clear], other[clear]))
        left = ~np.isin(ask, one) & ~np.isin(serve, other)
        ask, serve = ask[left], serve[left]
    return found


def agreeing(ask: Ints, serve: Ints, others: Ints, theirs: Ints) -> NDArray[np.bool_]:
    """Which pairs the other assignment has, too."""
    count = int(max(serve.max(initial=0), theirs.max(initial=0))) + 1
    same: NDArray[np.bool_] = np.isin(ask * count + serve, others * count + theirs)
    return same


def made_up(
    asks: Asks,
    serves: Serves,
    times: Times,
    ask: Ints,
    serve: Ints,
    among: Callable[[Matched], Matched] = lambda pairs: pairs,
) -> tuple[Matched, Ints]:
    """Some asks with the serves of one group that make up their range, without gap or overlap.

    Also the asks whose range was served more than once meanwhile.
    """
    ask, serve = ask[asks.size_bytes[ask] > 0], serve[serves.size_bytes[serve] > 0]
    order = serve[order_of(times.begin_ns[serve])]
    begins = times.begin_ns[order]
    first = np.searchsorted(begins, asks.begin_ns[ask] - ROUNDING_NS)
    last = np.searchsorted(begins, asks.end_ns[ask], side="right")
    count = np.maximum(last - first, 0)
    left, right = among((np.repeat(ask, count), order[np.repeat(first, count) + ranges(count)]))
    begin = np.maximum(asks.offset_bytes[left], serves.offset_bytes[right])
    end = np.minimum(asks.offset_bytes[left] + asks.size_bytes[left],
                     serves.offset_bytes[right] + serves.size_bytes[right])  # fmt: skip
    some = (begin < end) & (times.end_ns[right] <= asks.end_ns[left] + ROUNDING_NS)
    left, right, begin, end = left[some], right[some], begin[some], end[some]
    order = order_of(left, serves.group[right], begin)
    left, right, begin, end = left[order], right[order], begin[order], end[order]
    opens = changes(left) | changes(serves.group[right])
    # Each begins where the one before it ended, the first and the last where the ask does.
    previous = np.where(opens, asks.offset_bytes[left], np.append([0], end[:-1])[: len(end)])
    closes = np.append(opens[1:], [True])[: len(opens)]
    good = (begin == previous) & (
        ~closes | (end == asks.offset_bytes[left] + asks.size_bytes[left])
    )
    number = np.cumsum(opens) - 1
    whole = np.ones(int(number[-1]) + 1 if len(number) else 0, np.bool_)
    np.logical_and.at(whole, number, good)
    whole = whole[number]
    return (left[whole], right[whole]), distinct(left[begin < previous])


def by_group(asks: Asks, serves: Serves, times: Times, ties: Ties, slack: Sequence[int]) -> Matched:
    """Shared asks: every shared serve of their group that ran meanwhile, and ended before them.

    One that began before the ask may be what it had to wait for, too. Where none ended before
    it by the best relation of the clocks, those are taken that another one allows.
    """
    wanted, crossing = ties.lower_of(asks.group)
    ask, serve = np.flatnonzero(asks.shared & crossing), np.flatnonzero(serves.shared)
    row, column = overlapping(
        wanted[ask], asks.begin_ns[ask], asks.end_ns[ask],
        serves.group[serve], times.begin_ns[serve], times.end_ns[serve],
    )  # fmt: skip
    ask, serve = ask[row], serve[column]
    late = times.end_ns[serve] - asks.end_ns[ask]
    sure = late <= ROUNDING_NS
    near = (late <= ROUNDING_NS - slack[0]) & ~np.isin(ask, ask[sure])
    return ask[sure | near], serve[sure | near]
