# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: libaio's submissions and completions in, which of these is of each of those out.

The kernel copies a control block, whose address the key is: several under way may have one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints, distinct, in_order, numbers, one_of, order_of
from iostrata.stitch.completions import completion_of


class Told(NamedTuple):
    """Submissions, or completions: when, and how much was asked for, or done."""

    key: Ints
    time_ns: Ints
    size_bytes: Ints

    def rows(self, rows: Ints) -> Told:
        return Told(self.key[rows], self.time_ns[rows], self.size_bytes[rows])


class _Pairs(NamedTuple):
    """Rows of submissions and of their completions; ``group``: from when none of a key was under
    way until none was again, from 0."""

    begun: Ints
    done: Ints
    group: Ints


def completion_of_copied(begun: Told, done: Told) -> tuple[Ints, NDArray[np.bool_]]:
    """As ``completion_of``, where several under way may have one key; and of which of them it may
    be another's.

    The first of a size has the first of that size: what they took together is right, whichever is
    whose.
    """
    row = completion_of(begun.key, begun.time_ns, done.key, done.time_ns)
    exchanged = np.zeros(len(row), np.bool_)
    spare = np.ones(len(done.key), np.bool_)
    spare[row[row >= 0]] = False
    without = begun.key[row < 0]
    shared = distinct(without[one_of(without, done.key[spare])])
    if not len(shared):
        return row, exchanged
    mine = np.flatnonzero(one_of(begun.key, shared))
    row[mine] = -1
    theirs = np.flatnonzero(one_of(done.key, shared))
    mine = mine[_not_last(begun.rows(mine), done.rows(theirs))]
    pairs = _by_size(begun.rows(mine), done.rows(theirs))
    submitted = mine[pairs.begun]
    row[submitted] = theirs[pairs.done]
    exchanged[submitted] = np.bincount(pairs.group)[pairs.group] > 1
    return row, exchanged


def _not_last(begun: Told, done: Told) -> Ints:
    """The rows without those that are still under way at the end.

    Where several of a key were under way at once, and none had begun before, these are its last.
    """
    pairs = _in_order(begun, done)
    at_once = begun.key[pairs.begun[np.bincount(pairs.group)[pairs.group] > 1]]
    unpaired = np.ones(len(done.key), np.bool_)
    unpaired[pairs.done] = False
    some = one_of(begun.key, at_once) & ~one_of(begun.key, done.key[unpaired])
    order = order_of(begun.key, begun.time_ns)
    key, ended = begun.key[order], in_order(done.key)
    place = np.arange(len(key)) - np.searchsorted(key, key)
    count = np.searchsorted(ended, key, "right") - np.searchsorted(ended, key)
    last = np.zeros(len(key), np.bool_)
    last[order] = place >= count
    return np.flatnonzero(~(some & last))


def _by_size(begun: Told, done: Told) -> _Pairs:
    """Where the sizes of a group are not those of its completions, all count as of one."""
    pairs = _in_order(begun, done)
    begun, done, group = begun.rows(pairs.begun), done.rows(pairs.done), pairs.group
    mine, theirs = order_of(group, begun.size_bytes), order_of(group, done.size_bytes)
    differs = begun.size_bytes[mine] != done.size_bytes[theirs]
    differs |= begun.time_ns[mine] > done.time_ns[theirs]
    of_one = np.zeros(len(group), np.bool_)
    of_one[group[differs]] = True
    sizes = (np.where(of_one[group], 0, one.size_bytes) for one in (begun, done))
    key = numbers(np.append(group, group), np.concatenate([*sizes]))
    again = _in_order(begun._replace(key=key[: len(group)]), done._replace(key=key[len(group) :]))
    return _Pairs(pairs.begun[again.begun], pairs.done[again.done], again.group)


def _in_order(begun: Told, done: Told) -> _Pairs:
    """Each key's first has its first, of those that have any: which have, is told as of brackets.

    What nobody completed stays open for ever, and takes none from those behind it.
    """
    count = len(begun.key)
    key, time_ns = np.append(begun.key, done.key), np.append(begun.time_ns, done.time_ns)
    order = order_of(key, time_ns, (np.arange(len(key)) >= count).astype(np.int64))
    key, step = key[order], np.where(order < count, 1, -1)
    depth = np.cumsum(step) + (step < 0)
    nested = order_of(key, depth)
    opens, closes = nested[:-1], nested[1:]
    pair = (step[opens] > 0) & (step[closes] < 0)
    pair &= (key[opens] == key[closes]) & (depth[opens] == depth[closes])
    paired = np.zeros(len(key), np.bool_)
    paired[opens[pair]] = paired[closes[pair]] = True
    order, step = order[paired], step[paired]
    begins = step > 0
    group = np.cumsum(begins & (np.cumsum(step) == 1))[begins] - 1
    return _Pairs(order[begins], order[~begins] - count, group)
