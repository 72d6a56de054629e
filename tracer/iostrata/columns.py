# SPDX-License-Identifier: Apache-2.0
"""Vectorised joins of columns: by key and time, by containment, by overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from iostrata import native

Ints = NDArray[np.int64]
Number = TypeVar("Number", bound=np.integer[Any])

NEVER: Final = np.iinfo(np.int64).max
"""Later than any time in ns."""

PLACES: Final = 1 << 62
"""How many pairs of a key and a time can be told apart by one number."""

FEW: Final = 8

WALKS: Final = 1
"""Of a table, for fewer look-ups than it has rows: from then on its keys are worth a table."""
MANY: Final = 4
"""Look-ups for each row: they are worth one at once; as fewer are that are in no order of time."""


def integers(column: ArrayLike) -> Ints:
    """Any integer column as int64; 64-bit keys keep their bits."""
    array = np.asarray(column)
    if array.dtype == np.uint64:
        return array.view(np.int64)
    return array.astype(np.int64, copy=False)


class Fields(Protocol):
    """What has columns to be asked for by name, such as a point's events."""

    def integers(self, *fields: str) -> dict[str, Ints]: ...


def columns_of(points: Fields, *fields: str) -> dict[str, Ints]:
    """A point's times and some of its other fields, int64, in one pass over the files."""
    return points.integers(*fields)


def joined(tables: Sequence[Any]) -> dict[str, Any]:
    """The columns of several tables of one kind, one table below the other.

    Where only one has any rows, they are its own: not to be written to.
    """
    names = tuple(vars(tables[0]))
    filled = [vars(t) for t in tables if len(vars(t)[names[0]])] or [vars(tables[0])]
    if len(filled) == 1:
        return dict(filled[0])
    return {name: np.concatenate([columns[name] for columns in filled]) for name in names}


def pair_key(one: Ints, other: Ints) -> Ints:
    """Two numbers as one key; those of one kind are too few to meet by chance."""
    return one * np.int64(0x9E3779B1) + other


def at(values: Ints, rows: Ints) -> Ints:
    """``values[rows]``, and -1 where the row is -1 (also when there are no values at all)."""
    if not len(values):
        return np.full(len(rows), -1)
    # The sign of a row is all bits of -1, or none.
    return values[rows] | (rows >> 63)


def order_of(*keys: NDArray[np.integer]) -> Ints:
    """The stable order by the first key, then by the second ...

    By NumPy 16 bits at a time: so few it sorts without comparing.
    """
    if native.LIBRARY is not None:
        return native.order_of(keys)
    order: Ints | None = None
    for key in reversed(keys) if len(keys[0]) else ():
        # As unsigned, the distance to the least one is right wherever the keys lie.
        above = (key.astype(np.int64, copy=False) - key.min()).view(np.uint64)
        told = int(np.bitwise_or.reduce(above))
        # Pointers are aligned: their lowest bits tell nothing.
        for shift in range(max(0, (told & -told).bit_length() - 1), told.bit_length(), 16):
            digit = (above >> np.uint64(shift)).astype(np.uint16)
            if order is None:
                order = np.argsort(digit, kind="stable")
            else:
                order = order[np.argsort(digit[order], kind="stable")]
    return np.arange(len(keys[0])) if order is None else order


def ascend(values: Ints) -> bool:
    """Whether none is less than the one before it."""
    return bool(later(values).all())


def in_order(values: Ints) -> Ints:
    """The values themselves, if they ascend; else sorted."""
    if ascend(values):
        return values
    return values[order_of(values)] if native.LIBRARY is None else native.in_order(values)


def later(values: Ints) -> NDArray[np.bool_]:
    """Of each but the first, whether it is no less than the one before it."""
    not_less: NDArray[np.bool_] = values[1:] >= values[:-1]
    return not_less


def among(ascending: Ints, others: Ints) -> NDArray[np.bool_]:
    """Which of some values, which all differ, are among others: those may be many, in any order."""
    if native.LIBRARY is not None:
        return native.among(ascending, others)
    place = np.searchsorted(ascending, others)
    known = np.flatnonzero(place < len(ascending))
    place = place[known]
    found = np.zeros(len(ascending), np.bool_)
    found[place[ascending[place] == others[known]]] = True
    return found


def one_of(values: NDArray[np.integer], wanted: ArrayLike) -> NDArray[np.bool_]:
    """As ``np.isin``, which looks longer at what it was given than a few comparisons take.

    ``wanted``: many rows often have few different values, such as threads.
    """
    some = np.asarray(wanted)
    if not len(values) or not len(some):
        return np.zeros(len(values), np.bool_)
    if len(some) > FEW and len(some := distinct(some)) > FEW:
        return np.isin(values, some)
    # Numbers of Python's own: what is narrow is compared as it is.
    first, *others = some.tolist()
    found: NDArray[np.bool_] = values == first
    for other in others:
        found |= values == other
    return found


def records(parts: Sequence[NDArray[np.void]]) -> NDArray[np.void]:
    """As ``np.concatenate``, which copies them field by field."""
    dtype = parts[0].dtype
    return np.concatenate([part.view(f"V{dtype.itemsize}") for part in parts]).view(dtype)


def some_records(found: NDArray[np.void], wanted: Ints | NDArray[np.bool_]) -> NDArray[np.void]:
    """Rows, or those that are so; else copied as ``records`` says."""
    return found.view(f"V{found.dtype.itemsize}")[wanted].view(found.dtype)


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """The different values, in order.

    As ``np.unique``, which does not look at runs, and loads what knows masked arrays.
    """
    flat = np.ravel(values)
    if native.LIBRARY is not None and flat.dtype == np.int64:
        found = native.few(flat, FEW)
        if found is not None:
            return found
    ascending = flat[changes(flat)]
    whole = ascending.dtype.kind == "i"
    ascending = in_order(ascending) if whole else np.sort(ascending)
    return ascending[changes(ascending)]


def coded(values: Ints) -> tuple[Ints, Ints]:
    """The different values, which are few, in order; and of each value its place among them."""
    least, most = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if least == most:
        return values[:1].copy(), np.zeros(len(values), np.int64)
    span = most - least + 1
    if span <= 4 * len(values):
        if native.LIBRARY is not None:
            return native.coded(values, least, span)
        present = np.bincount(values - least, minlength=span) > 0
        return np.flatnonzero(present) + least, (np.cumsum(present) - 1)[values - least]
    unique = distinct(values)
    return unique, np.searchsorted(unique, values)


def compact(values: NDArray[Number]) -> NDArray[Number]:
    """The same; if they are all one number, they take the room of that: not to be written to."""
    if len(values) > 1 and not constant(values) and bool((values == values[0]).all()):
        return np.broadcast_to(values[:1].copy(), values.shape)
    return values


def constant(values: NDArray[Any]) -> bool:
    """Whether it takes the room of one number, which all of it is."""
    return len(values) > 0 and not values.strides[0]


def taken(values: NDArray[Number], rows: Ints) -> NDArray[Number]:
    """``values[rows]``; of what is one number and takes the room of that, as little."""
    return np.broadcast_to(values[0], len(rows)) if constant(values) else values[rows]


def are_all(rows: Ints, count: int) -> bool:
    """Whether some rows, each of which is there once, are all of so many, in order."""
    return len(rows) == count and ascend(rows)


def changes(values: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Whether each of the values differs from the one before it; the first does."""
    new = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return new


def rows_of(values: Ints) -> dict[int, Ints]:
    """The rows of each of the different values, which are in order, as the rows are."""
    order = order_of(values)
    first = np.flatnonzero(changes(values[order]))
    return dict(zip(values[order[first]].tolist(), np.split(order, first[1:]), strict=False))


def numbers(*columns: Ints) -> Ints:
    """The same number for the same values: from 0, as many as there are different ones."""
    _, result = coded(columns[0])
    for column in columns[1:]:
        values, code = coded(column)
        _, result = coded(result * max(len(values), 1) + code)
    return result


class AsOf:
    """Looks rows up by key and time: the last one at or before, the first at or after.

    ``keys``, ``times``: int64, equal length, any order. Every answer is the row's
    index in the given columns, -1 where there is none. O(log n) a look-up, or less.
    """

    def __init__(self, keys: Ints, times: Ints) -> None:
        self._keys, self._given = keys, times
        self._walks = 0

    @cached_property
    def _by_time(self) -> Ints | None:
        """The rows' stable order by time; None: they are in it."""
        return None if ascend(self._given) else order_of(self._given)

    @cached_property
    def lookup(self) -> native.Lookup:
        """For C: as it is needed."""
        return native.Lookup.of(self._keys, self._given, self._by_time)

    @cached_property
    def _ordered(self) -> _Ordered:
        """Made when first asked for: much of what can be looked up, nobody looks up."""
        return _ordered(self._keys, self._given)

    def _find(
        self, keys: Ints, times: Ints, until: Ints | None = None, *, after: bool = False
    ) -> Ints:
        """``until``: of each row that is found before a time, the last one that it is for."""
        if not len(self._keys) or not len(keys):
            return np.full(len(keys), -1)
        if native.LIBRARY is None:
            found = self._search(keys, times, after=after)
            return found if until is None else np.where(times <= at(until, found), found, -1)
        few = len(keys) < len(self._keys)
        many = len(keys) >= MANY * len(self._keys) or not ascend(times)
        if "lookup" in vars(self) or (self._walks == WALKS if few else many):
            return self.lookup.find(keys, times, until, after=after)
        self._walks += few
        rows = self._keys, self._given, self._by_time
        if after:
            return native.as_of_after(*rows, keys, times)
        return native.as_of_before(*rows, keys, times, until)

    def _search(self, keys: Ints, times: Ints, *, after: bool) -> Ints:
        ordered = self._ordered
        rank = np.searchsorted(ordered.unique, keys)
        known = np.minimum(rank, len(ordered.unique) - 1)
        rank = np.where(ordered.unique[known] == keys, rank, -1)
        if ordered.ticks is not None and after:
            times = np.searchsorted(ordered.ticks, times)
        elif ordered.ticks is not None:
            times = np.searchsorted(ordered.ticks, times, side="right") - 1
        first = ordered.origin - 1
        # Clipped before it is subtracted from: what is asked for may be any number.
        since = np.clip(times, first, first + ordered.span - 1) - first
        place = rank * ordered.span + since
        side: Literal["left", "right"] = "left" if after else "right"
        if ascend(place):
            position = np.searchsorted(ordered.place, place, side)
        else:
            order = order_of(rank)
            position = np.empty(len(keys), np.int64)
            # What ascends is found several times as fast as what does not.
            position[order] = np.searchsorted(ordered.place, place[order], side)
        if not after:
            position -= 1
        return np.where(ordered.rank[position] == rank, ordered.order[position], -1)

    def at_or_before(self, keys: Ints, times: Ints) -> Ints:
        """Index of the key's last row with time <= the given one."""
        return self._find(keys, times)

    def within(self, keys: Ints, times: Ints, until: Ints) -> Ints:
        """As ``at_or_before``, of rows that are for no later time than ``until``; -1: of none."""
        return self._find(keys, times, until)

    def at_or_after(self, keys: Ints, times: Ints) -> Ints:
        """Index of the key's first row with time >= the given one."""
        return self._find(keys, times, after=True)

    def at_or_nearest(self, keys: Ints, times: Ints) -> Ints:
        """As ``at_or_before``; before the key's first row that one: who a thread is may be told
        late, and its number is used again."""
        found = self.at_or_before(keys, times)
        earlier = np.flatnonzero(found < 0)
        found[earlier] = self.at_or_after(keys[earlier], times[earlier])
        return found

    def following(self) -> Ints:
        """Of each row, the time of its key's next one; the largest int64 where there is none."""
        following = np.full(len(self._keys), NEVER)
        if not len(following):
            return following
        if native.LIBRARY is not None:
            row = native.next_of(self._keys, self._by_time)
            return np.where(row >= 0, self._given[row], NEVER)
        ordered = self._ordered
        same = np.flatnonzero(ordered.rank[1:-1] == ordered.rank[:-2])
        following[ordered.order[same]] = ordered.times[same + 1]
        return following


@dataclass(frozen=True, eq=False)
class _Ordered:
    """Rows by key, then time. ``place``: both as one number, from ``origin`` on, each key's times
    beside the next one's; ``ticks``: all times, where only their places among all fit into it."""

    unique: Ints
    times: Ints
    order: Ints
    rank: Ints
    place: Ints
    origin: int
    span: int
    ticks: Ints | None


def _ordered(keys: Ints, times: Ints) -> _Ordered:
    if ascend(times):
        order = order_of(keys)
    else:
        order = order_of(times)
        order = order[order_of(keys[order])]
    keys, times = keys[order], times[order]
    new = changes(keys)
    rank, unique = np.cumsum(new) - 1, keys[new]
    ticks, place = None, times
    origin = int(times.min())
    span = int(times.max()) - origin + 3
    if len(unique) * span > PLACES:
        ticks = distinct(times)
        place = np.searchsorted(ticks, times)
        origin, span = 0, len(ticks) + 3
    place = rank * span + (place - origin + 1)
    # The row behind the last, which is also that before the first, is of no key.
    order, rank = np.append(order, -1), np.append(rank, -2)
    return _Ordered(unique, times, order, rank, place, origin, span, ticks)


class Containing:
    """Finds the interval of a key that holds a time; a key's intervals do not overlap."""

    def __init__(self, keys: Ints, begins: Ints, ends: Ints) -> None:
        self.begins, self.ends = AsOf(keys, begins), ends

    def find(self, keys: Ints, times: Ints) -> Ints:
        """Index of the interval with begin <= time <= end, -1 where there is none."""
        return self.begins.within(keys, times, self.ends)


class Union:
    """The instants that any of some intervals hold, each once."""

    def __init__(self, begins: Ints, ends: Ints) -> None:
        order = order_of(begins)
        begins, reach = begins[order], np.maximum.accumulate(ends[order])
        opens = np.flatnonzero(np.append(True, begins[1:] > reach[:-1])[: len(begins)])
        closes = np.append(opens[1:], len(begins))[: len(opens)] - 1
        self.begins, self.ends = begins[opens], reach[closes]
        self._until = np.append(0, np.cumsum(self.ends - self.begins))

    def within(self, begins: Ints, ends: Ints) -> Ints:
        """How much of each of some intervals it holds."""
        return self._before(ends) - self._before(begins)

    def _before(self, times: Ints) -> Ints:
        if not len(self.ends):
            return np.zeros(len(times), np.int64)
        begun = np.searchsorted(self.begins, times, side="right")
        after = np.where(begun > 0, self.ends[begun - 1] - times, 0)
        return self._until[begun] - np.maximum(after, 0)


def merged(key: Ints, begin_ns: Ints, end_ns: Ints) -> tuple[Ints, Ints, Ints]:
    """Times (by key, since when and until), those that overlap as one; in order."""
    times, place = coded(np.concatenate([begin_ns, np.maximum(end_ns, begin_ns)]))
    keys, number = coded(key)
    # By their places among all: of a later key, they are later.
    count = max(len(times), 1)
    held = Union(*(place.reshape(2, -1) + number * count))
    return keys[held.begins // count], times[held.begins % count], times[held.ends % count]


def meets(begins: Ints, ends: Ints, other_begins: Ints, other_ends: Ints) -> NDArray[np.bool_]:
    """Which intervals share an instant with any of the others, however many do.

    None of them is empty.
    """
    begun = np.searchsorted(in_order(other_begins), ends, side="left")
    over = np.searchsorted(in_order(other_ends), begins, side="right")
    met: NDArray[np.bool_] = begun > over
    return met


def overlapping(
    keys: Ints,
    begins: Ints,
    ends: Ints,
    other_keys: Ints,
    other_begins: Ints,
    other_ends: Ints,
    most: int | None = None,
) -> tuple[Ints, Ints]:
    """All pairs (row, other row) of one key whose intervals overlap, as two index columns.

    Exact for any intervals: candidates come from the others sorted by begin, reaching
    back by the longest of them, so the cost is that of the pairs plus the long ones.
    ``most``: of how many at each end of a row's interval, where there are more than both.
    """
    nothing = np.zeros(0, np.int64)
    if not len(keys) or not len(other_keys):
        return nothing, nothing
    if native.LIBRARY is not None:
        rows, others = (keys, begins, ends), (other_keys, other_begins, other_ends)
        order = None if ascend(keys) else order_of(keys)
        other_order = None
        if not ascend(other_keys) or not (changes(other_keys)[1:] | later(other_begins)).all():
            other_order = order_of(other_keys, other_begins)
        return native.overlap(rows, order, others, other_order, most)
    pairs: list[tuple[Ints, Ints]] = []
    for key in distinct(other_keys):
        mine = np.flatnonzero(keys == key)
        theirs = np.flatnonzero(other_keys == key)
        if not len(mine):
            continue
        theirs = theirs[order_of(other_begins[theirs])]
        # The running maximum of the ends is sorted, so the first candidate is found by bisection.
        reach = np.maximum.accumulate(other_ends[theirs])
        first = np.searchsorted(reach, begins[mine], side="right")
        last = np.searchsorted(other_begins[theirs], ends[mine], side="left")
        whole = count = np.maximum(last - first, 0)
        if most is not None:
            count = np.minimum(whole, 2 * most)
        left, place = np.repeat(mine, count), ranges(count)
        if most is not None:
            place += np.where(place < most, 0, np.repeat(whole - count, count))
        right = theirs[np.repeat(first, count) + place]
        keep = (other_begins[right] < ends[left]) & (other_ends[right] > begins[left])
        pairs.append((left[keep], right[keep]))
    if not pairs:
        return nothing, nothing
    return np.concatenate([p[0] for p in pairs]), np.concatenate([p[1] for p in pairs])


def outside(
    begins: Ints, ends: Ints, row: Ints, gap_begins: Ints, gap_ends: Ints
) -> tuple[Ints, Ints, Ints]:
    """What is left of some times (row, from when to when) without gaps in them (``row``: in which).

    Gaps of one row lie within it and do not overlap; what is left may be empty, and comes row by
    row: at first of those without a gap.
    """
    holed = np.zeros(len(begins), np.bool_)
    holed[row] = True
    some, whole = np.flatnonzero(holed), np.flatnonzero(~holed)
    if bool((row[1:] > row[:-1]).all()):
        # One gap each: what is before it, and behind it.
        return (
            np.append(whole, np.repeat(some, 2)),
            np.append(begins[whole], np.column_stack([begins[some], gap_ends])),
            np.append(ends[whole], np.column_stack([gap_begins, ends[some]])),
        )
    number, since, until = (
        np.append(*pair)
        for pair in ((some, row), (begins[some], gap_ends), (ends[some], gap_begins))
    )
    first, last = order_of(number, since), order_of(number, until)
    return (
        np.append(whole, number[first]),
        np.append(begins[whole], since[first]),
        np.append(ends[whole], until[last]),
    )


def ranges(counts: Ints) -> Ints:
    """0..n-1 for each n, one after the other: ``[2, 3] -> [0, 1, 0, 1, 2]``."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total) - np.repeat(ends - counts, counts)
