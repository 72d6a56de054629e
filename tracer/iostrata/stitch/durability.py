# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: plain writes and syncs in, out which sync each write's call and bytes go with.

A sync makes durable what anybody had written within its scope (everything, a file
system, a file, a range of it) before it began. A write goes with the next such sync
of its own thread, if no other had ended before that one began; otherwise with the
first to end of those that began after the write had returned. So each byte is counted once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata import native
from iostrata.columns import NEVER, AsOf, Ints, at, changes, distinct, numbers, order_of, ranges

ALL, FILE_SYSTEM, FILE, RANGE = 0, 1, 2, 3
"""Scopes of a sync, from the widest to the narrowest."""
NOBODY: Final = -1
Codes = NDArray[np.int8] | Ints
"""As they come: few are different."""
# Agents, devices, files and cells of files are counted or numbered below this.
PLACES: Final = 1 << 32


@dataclass(frozen=True, eq=False)
class Made:
    """Calls and requests, of which some are plain writes, and some syncs: one row each.

    ``effect_ns``: of a write, from when on a sync finds it; of a sync, when it looks. ``end_ns``:
    when it returned. ``agent``: number of the thread whose call it was, ``NOBODY``: no call.
    ``device_key``: of the file system; ``file``: number of the file; ``offset_bytes`` of it, -1:
    not known; ``size_bytes``: written; of a sync, the length of its range, 0: to the end.
    ``scope``: of a sync.
    """

    effect_ns: Ints
    end_ns: Ints
    agent: Ints
    device_key: Ints
    file: Ints
    offset_bytes: Ints
    size_bytes: Ints
    scope: Codes


@dataclass(frozen=True, eq=False)
class _Written:
    """Writes that nothing makes durable by themselves: one row each.

    ``low``, ``high``: bytes of the file from, to (not with); ``low`` -1: only how many is known.
    """

    end_ns: Ints
    agent: Ints
    device_key: Ints
    file: Ints
    low: Ints
    high: Ints

    def __len__(self) -> int:
        return len(self.end_ns)


@dataclass(frozen=True, eq=False)
class _Synced:
    """Syncs: one row each; columns as above, ``low``, ``high`` of a range only."""

    begin_ns: Ints
    end_ns: Ints
    agent: Ints
    scope: Codes
    device_key: Ints
    file: Ints
    low: Ints
    high: Ints


@dataclass(frozen=True, eq=False)
class Durability:
    """``caller``: of each write, the sync of its own thread that its call belongs to: its place
    among the syncs, -1: none.

    ``size_bytes``, ``count``: of each sync, bytes that are counted with it, and writes, each with
    the sync that the last of it is counted with, if there is one.
    ``since_ns``: of each sync, when the last one of all that is in its scope began that had
    ended before it; 0: there is none. What was written before that is not counted with it.
    """

    caller: Ints
    size_bytes: Ints
    count: Ints
    since_ns: Ints


def durability(made: Made, plain: Ints, syncs: Ints) -> Durability:
    """Which sync each write goes with. ``plain``, ``syncs``: rows of what succeeded."""
    scopes = np.bincount(made.scope[syncs], minlength=RANGE + 1)
    if native.LIBRARY is not None and not scopes[RANGE]:
        return Durability(*native.durable(tuple(vars(made).values()), plain, syncs, scopes[:RANGE]))
    return _durability(_written(made, plain), _synced(made, syncs))


def _written(made: Made, plain: Ints) -> _Written:
    low = made.offset_bytes[plain]
    return _Written(
        made.effect_ns[plain], made.agent[plain], made.device_key[plain], made.file[plain],
        low, np.maximum(low, 0) + made.size_bytes[plain],
    )  # fmt: skip


def _synced(made: Made, syncs: Ints) -> _Synced:
    scope, length = made.scope[syncs], made.size_bytes[syncs]
    begin = np.maximum(made.offset_bytes[syncs], 0)
    to_the_end = (scope == RANGE) & (length == 0)
    return _Synced(
        made.effect_ns[syncs], made.end_ns[syncs], made.agent[syncs], scope,
        made.device_key[syncs], made.file[syncs], begin,
        np.where(to_the_end, NEVER, begin + length),
    )  # fmt: skip


def _durability(written: _Written, synced: _Synced) -> Durability:
    parts = _parts(written, synced)
    end = written.end_ns[parts.write]
    agent = written.agent[parts.write]
    first, own = np.full(len(end), -1), np.full(len(end), -1)
    for rows, key, key_of_part in _scopes(written, synced, parts):
        begin = synced.begin_ns[rows]
        ends_first = _ends_first(key, begin, synced.end_ns[rows])
        following = AsOf(key, begin).at_or_after(key_of_part, end)
        first = _earlier(first, at(rows, at(ends_first, following)), synced.end_ns)
        by_agent = AsOf(synced.agent[rows] * PLACES + key, begin)
        mine = np.where(agent >= 0, agent * PLACES + key_of_part, -1)
        own = _earlier(own, at(rows, by_agent.at_or_after(mine, end)), synced.begin_ns)
    # Durable already, when its own thread asked for it: then that asked for something else.
    is_own = (own >= 0) & (at(synced.end_ns, first) > at(synced.begin_ns, own))
    counted = np.where(is_own, own, first)
    caller = _least(parts.write, np.where(is_own, own, -1), synced.begin_ns, len(written))
    by = _least(parts.write, counted, -synced.end_ns, len(written))
    some, count = counted >= 0, len(synced.begin_ns)
    size = np.zeros(count, np.int64)
    np.add.at(size, counted[some], parts.size_bytes[some])
    writes = np.bincount(by[by >= 0], minlength=count)
    return Durability(caller, size, writes, _since(synced))


def _since(synced: _Synced) -> Ints:
    """Of ranges, only the same one is known to hold all of it."""
    since = np.zeros(len(synced.begin_ns), np.int64)
    ranged = (synced.scope == RANGE).any()
    for scope, key in (
        (ALL, np.zeros(len(since), np.int64)),
        (FILE_SYSTEM, synced.device_key),
        (FILE, synced.file),
        (RANGE, numbers(synced.file, synced.low, synced.high) if ranged else synced.file),
    ):
        wide, narrow = np.flatnonzero(synced.scope == scope), np.flatnonzero(synced.scope >= scope)
        if not len(wide):
            continue
        ended = AsOf(key[wide], synced.end_ns[wide])
        before = ended.at_or_before(key[narrow], synced.begin_ns[narrow])
        since[narrow] = np.maximum(since[narrow], at(synced.begin_ns[wide], before))
    return since


@dataclass(frozen=True, eq=False)
class _Parts:
    """The writes, cut wherever a range begins or ends: of which write, how much, and where.

    ``cell``: number of the stretch between two cuts of one file, -1: not known.
    ``of_range``, ``cell_of_range``: which ranges hold which cells.
    """

    write: Ints
    size_bytes: Ints
    cell: Ints
    of_range: Ints
    cell_of_range: Ints


def _parts(written: _Written, synced: _Synced) -> _Parts:
    ranged = np.flatnonzero(synced.scope == RANGE)
    count = len(written)
    if not len(ranged):
        none = np.zeros(0, np.int64)
        whole = written.high - np.maximum(written.low, 0)
        return _Parts(np.arange(count), whole, np.full(count, -1), none, none)
    low, high, file = synced.low[ranged], synced.high[ranged], synced.file[ranged]
    offsets = distinct(np.concatenate([low, high]))
    width = len(offsets) + 1
    begin = file * width + np.searchsorted(offsets, low)
    end = file * width + np.searchsorted(offsets, high)
    cuts = distinct(np.concatenate([begin, end]))
    # Cell n lies from cut n to the next one; what lies before a file's first cut is in none of it.
    first, last = np.searchsorted(cuts, begin), np.searchsorted(cuts, end)
    of_range = np.repeat(np.arange(len(ranged)), last - first)
    cell_of_range = np.repeat(first, last - first) + ranges(last - first)

    known = written.low >= 0
    low, high = np.maximum(written.low, 0), written.high
    since = written.file * width + np.searchsorted(offsets, low, side="right") - 1
    until = written.file * width + np.searchsorted(offsets, high, side="left")
    before = np.searchsorted(cuts, since, side="right") - 1
    inside = np.where(known, np.searchsorted(cuts, until, side="left") - 1 - before, 0)
    write = np.repeat(np.arange(count), inside + 1)
    step = ranges(inside + 1)
    cell = before[write] + step
    place = offsets[np.append(cuts, 0)[cell] % width] if len(cuts) else cell
    begins = np.where(step > 0, place, low[write])
    ends = np.append(begins[1:], 0)
    final = step == inside[write]
    ends = np.where(final, high[write], ends)
    return _Parts(write, ends - begins, np.where(known[write], cell, -1), ranged[of_range],
                  cell_of_range)  # fmt: skip


def _scopes(written: _Written, synced: _Synced, parts: _Parts) -> Iterator[tuple[Ints, Ints, Ints]]:
    """The syncs of each scope that there are, what they cover, and in what each part lies."""
    write = parts.write
    for scope, key, key_of_write in (
        (ALL, np.zeros(len(synced.scope), np.int64), np.zeros(len(written), np.int64)),
        (FILE_SYSTEM, synced.device_key, written.device_key),
        (FILE, synced.file, written.file),
    ):
        rows = np.flatnonzero(synced.scope == scope)
        if len(rows):
            yield rows, key[rows], key_of_write[write]
    if len(parts.of_range):
        yield parts.of_range, parts.cell_of_range, parts.cell


def _ends_first(key: Ints, begin: Ints, end: Ints) -> Ints:
    """Of those of one key that begin with each row or after it, which one ends first."""
    order = order_of(key, begin)
    place = np.empty(len(key), np.int64)
    by_end = order_of(end)
    place[by_end] = np.arange(len(key))
    # From the last to the first, each key's places lie below those of the keys before.
    keys = key[order]
    shift = np.cumsum(np.append(False, keys[1:] != keys[:-1])[: len(keys)]) * len(key)
    least = np.minimum.accumulate((place[order] + shift)[::-1])[::-1] - shift
    result = np.empty(len(key), np.int64)
    result[order] = by_end[least]
    return result


def _earlier(one: Ints, other: Ints, time_ns: Ints) -> Ints:
    """The row with the lesser time of two, either of which may be -1."""
    if not len(time_ns):
        return one
    return np.where((other >= 0) & ((one < 0) | (time_ns[other] < time_ns[one])), other, one)


def _least(write: Ints, row: Ints, time_ns: Ints, count: int) -> Ints:
    """Of each write's rows, the one with the least time; -1: it has none."""
    some = np.flatnonzero(row >= 0)
    if not changes(write[some]).all():
        some = some[order_of(-time_ns[row[some]])]
    result = np.full(count, -1)
    # Of several with one index, the last stays.
    result[write[some]] = row[some]
    return result
