# SPDX-License-Identifier: Apache-2.0
"""What C does of the analysis, where it was built: several times as fast, and nothing else.

Who calls one of these has its twin in NumPy, for where there is no library (another type of
CPU), and as the oracle of the tests. Columns are of equal length unless it is said.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ctypes import CDLL, c_int64, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

NAME: Final = "libnative.so"
PACKAGED: Final = Path(__file__).parent / NAME
BUILT: Final = Path(__file__).parents[1] / "native" / "build" / NAME

Ints = NDArray[np.int64]

# Nobody who makes a recording knows where its keys will be looked for.
_SEED: Final = int.from_bytes(os.urandom(8))
_RUN: Final = np.dtype([("time_ns", np.uint64), ("next", np.int64), ("number", np.int64)])
_NUMBERS: Final = 1 << 16
_LOWEST: Final = 256
_FEW: Final = 15
_OF_FIELD: Final = np.dtype(
    [("offset", np.int64), ("count", np.int64), ("value", np.uint32, _FEW + 1)]
)
_TOO_MANY: Final = -2
_CALLS: Final = 256
_OF_CALLS: Final = (
    "time_ns", "enter_ns", "call", "tid", "tgid", "dev", "inode", "open_flags", "rwf", "result",
    "offset_bytes", "size_bytes",
)  # fmt: skip
_OF_OPERATIONS: Final = (
    "begin_ns", "end_ns", "effect_ns", "tid", "tgid", "device_key", "inode", "offset_bytes",
    "size_bytes", "method", "scope", "failed",
)  # fmt: skip
_OF_UNITS: Final = ("end_ns", "tid", "tgid", "device_key", "inode", "engine")
_OF_FIRST: Final = ("begin_ns", "offset_bytes")
_OF_PIECES: Final = ("tid", "begin_ns", "end_ns", "device_key", "request_key")
_FILLED: Final = ("size_bytes", "durable_writes", "pieces", "method", "since_ns")
_FEWEST_BITS: Final = 12
_MORE_BITS: Final = 3
_LANE_BYTES: Final = 16
_FOLDED_BYTES: Final = 64
_NOTHING: Final = np.zeros(0, np.int64)
# Where an array's data is, is told behind an object's head, as NumPy's interface for C has it. Its
# own way of telling takes a microsecond: as long as the work on a few rows.
_MEMORY: Final = (c_uint64 * (1 << 44)).from_address(0)
_DATA: Final = object.__basicsize__
_MOST_DIGITS: Final = 20
FEW_WAITS: Final = 1024
"""Room for so many that others come of, at least."""

# Of each function, what it takes: a: an array, n: a number, u: one without a sign.
_FUNCTIONS: Final = {
    "account": "aaaa",
    "among": "ananaanuaa",
    "apart": "aaa",
    "add_narrow": "anaan",
    "as_of_after": "aaanaaanaanua",
    "as_of_before": "aaanaaanaanuaa",
    "as_of_next": "aanaanua",
    "asked": "a",
    "attribute": "aaaanannaaaaaa",
    "await_flushes": "a",
    "carry_bios": "a",
    "coded": "annnaaa",
    "durable": "aaaaa",
    "end_requests": "a",
    "few": "anan",
    "fold": "anua",
    "follow": "aaaanaaaaaanannnaaaaa",
    "follow_bios": "a",
    "follow_wakers": "aana",
    "gather": "an",
    "kept_spans": "a",
    "kinds_of": "aananaanaa",
    "lines": "annan",
    "lookup_find": "aaannaa",
    "look_at_packets": "aa",
    "lookup_make": "aaanaa",
    "marked": "anan",
    "merge": "aanaaa",
    "numbered": "annaa",
    "once": "aaaaananua",
    "operations_of": "aaa",
    "order_by": "annaaa",
    "overlap": "aaaanaaaannaaaan",
    "overlap_waits": "anaaaanaan",
    "own_endings": "a",
    "pair_requests": "a",
    "put_packets": "aa",
    "ranked": "anana",
    "sort_values": "anaa",
    "spans_of_bios": "a",
    "sweep": "aaa",
    "sweep_levels": "a",
    "turns_told": "a",
}
_TYPES: Final = {"a": c_void_p, "n": c_int64, "u": c_uint64}


def load(paths: Sequence[Path] = (PACKAGED, BUILT)) -> CDLL | None:
    """The first of the libraries that this machine can run, and that is as this module has it."""
    for path in paths:
        try:
            if is_older(path):
                continue
            library = CDLL(str(path))
        except OSError:
            continue
        for name, words in _FUNCTIONS.items():
            function = getattr(library, name)
            function.argtypes = [_TYPES[word] for word in words]
            function.restype = c_int64
        return library
    return None


def is_older(library: Path) -> bool:
    """Whether a source tree has changed since it was built there: what it takes, and how, may be
    something else by now, and it would write to memory that is not its own."""
    if library.parent.name != BUILT.parent.name:
        return False
    built_ns = library.stat().st_mtime_ns
    sources = library.parents[1].glob("*.[ch]")
    return any(source.stat().st_mtime_ns > built_ns for source in sources)


LIBRARY = load()


def as_of_before(
    keys: Ints, times: Ints, order: Ints | None, asked: Ints, at: Ints, until: Ints | None
) -> Ints:
    """Of each key and time that is asked for, the row that is the last at or before; -1: there is
    none.

    ``order``: of the rows by time, stable; None: they are in it. ``asked``, ``at``: as many as
    there are wanted. ``until``: of each row the last time that it is for, None: for all.
    """
    found = np.empty(len(asked), np.int64)
    _call(
        "as_of_before", *_asking(keys, times, order, asked, at),
        None if until is None else _ints(until), found,
    )  # fmt: skip
    return found


def as_of_after(keys: Ints, times: Ints, order: Ints | None, asked: Ints, at: Ints) -> Ints:
    """As above, the first row at or after."""
    found = np.empty(len(asked), np.int64)
    _call("as_of_after", *_asking(keys, times, order, asked, at), found)
    return found


def _asking(
    keys: Ints, times: Ints, order: Ints | None, asked: Ints, at: Ints
) -> Sequence[NDArray[Any] | int | None]:
    own = None if bool((at[1:] >= at[:-1]).all()) else order_of([at])
    return (
        _ints(keys), _ints(times), order, len(keys), _ints(asked), _ints(at), own, len(asked),
        *_slots(len(keys)), _SEED,
    )  # fmt: skip


def next_of(keys: Ints, order: Ints | None) -> Ints:
    """Of each row, its key's next one in order of time; -1: there is none. ``order``: as above."""
    found = np.empty(len(keys), np.int64)
    _call("as_of_next", _ints(keys), order, len(keys), *_slots(len(keys)), _SEED, found)
    return found


def coded(values: Ints, least: int, span: int) -> tuple[Ints, Ints]:
    """The different values, in order; and of each value its place among them.

    They are from ``least`` on, below ``least + span``.
    """
    place, code = np.zeros(span, np.int32), np.empty(len(values), np.int64)
    unique = np.empty(min(span, len(values)), np.int64)
    different = _call("coded", _ints(values), len(values), least, span, place, unique, code)
    return unique[:different].copy(), code


def few(values: Ints, most: int) -> Ints | None:
    """The different values, in order; None: they are more than so many."""
    found = np.empty(most, np.int64)
    different = _call("few", _ints(values), len(values), found, most)
    return None if different == _TOO_MANY else found[:different]


class Lookup(NamedTuple):
    """Rows by key and time, to be looked up a few at a time. ``row``, ``time_ns``: key by key.

    ``near``: of each key, close to where it was found last.
    """

    slot_key: Ints
    slot_number: NDArray[np.int32]
    bits: int
    first: Ints
    row: Ints
    time_ns: Ints
    near: Ints

    @staticmethod
    def of(keys: Ints, times: Ints, order: Ints | None) -> Lookup:
        """``order``: of the rows by time, stable; None: they are in it."""
        count = len(keys)
        first, row, time_ns = np.zeros(count + 2, np.int64), *np.empty((2, count), np.int64)
        made = Lookup(*_slots(count), first, row, time_ns, np.zeros(count, np.int64))
        _call(
            "lookup_make", _ints(keys), _ints(times), order, count, words(*made.words),
            np.empty(count, np.int32),
        )  # fmt: skip
        return made

    @property
    def words(self) -> tuple[NDArray[Any] | int, ...]:
        """As C has it."""
        slot_key, slot_number, bits, *rows = self
        return slot_key, slot_number, bits, _SEED, *rows

    def leading_to(self, rows: Ints) -> Lookup:
        """To what the rows are of, instead of to them."""
        return self._replace(row=rows[self.row])

    def find(self, asked: Ints, at: Ints, until: Ints | None, *, after: bool) -> Ints:
        """As ``as_of_before``, or ``as_of_after``."""
        found = np.empty(len(asked), np.int64)
        _call(
            "lookup_find", words(*self.words), _ints(asked), _ints(at), len(asked), int(after),
            None if until is None else _ints(until), found,
        )  # fmt: skip
        return found


class Numbers(NamedTuple):
    """Whole numbers of an event: where they are, and their bytes, below 0 if they have a sign."""

    offset: Ints
    kind: Ints

    @staticmethod
    def of(dtype: np.dtype[np.void], fields: Sequence[str]) -> Numbers | None:
        """None: some are no numbers of at most 8 bytes."""
        types: Mapping[str, Any] = dtype.fields or {}
        own = [types[field] for field in fields]
        kinds = [-one.itemsize if one.kind == "i" else one.itemsize for one, *_ in own]
        if not all(one.kind in "iu" for one, *_ in own):
            return None
        return Numbers(np.array([offset for _, offset, *_ in own], np.int64), np.array(kinds))


class Parts(NamedTuple):
    """A point's events: of each stream its own, all its events, and slots and rows of the point's.

    ``table``: as C has it, a row each; ``kept``: what that leads to.
    """

    table: NDArray[np.uint64]
    kept: Sequence[NDArray[Any]]

    @staticmethod
    def of(
        parts: Sequence[tuple[NDArray[np.void], NDArray[np.uint32], NDArray[np.uint32], int]],
    ) -> Parts:
        """``parts``: events, slots and rows of each, and over how many slots it is looked at."""
        table = [
            words(events, len(events), slots, rows, len(slots), span, 0, 0)
            for events, slots, rows, span in parts
        ]
        return Parts(np.array(table), [array for *arrays, _ in parts for array in arrays])

    def gather(
        self, wanted: Numbers, begin: int, columns: Ints
    ) -> Iterator[Sequence[Sequence[int]]]:
        """Copies numbers of some rows, from ``begin`` on, to columns: shape (numbers, rows).

        As often as some part has been looked at as far as it may, yields of each which events those
        were: the first, and the one behind the last.
        """
        table, (fields, count), done = self.table.copy(), columns.shape, 0
        rows = words(table, len(table), begin, count, *wanted, fields, columns)
        while done < count:
            done += _call("gather", rows, done)
            yield table[:, -2:].tolist()


class Told(NamedTuple):
    """Of the times that events tell besides their own, where they are; none is earlier.

    ``first``: of each point's number, which are its; ``may_be_zero``: what is not known is 0.
    """

    first: Ints
    offset: Ints
    may_be_zero: Ints
    earliest_ns: int

    @staticmethod
    def of(fields: Mapping[int, Sequence[tuple[int, bool]]], earliest_ns: int) -> Told:
        """``fields``: by point number, the offset of each and whether it may be 0."""
        first = np.zeros(_NUMBERS + 1, np.int64)
        for number, own in fields.items():
            first[number + 1] = len(own)
        every = [field for number in sorted(fields) for field in fields[number]]
        offset, zero = np.array(every, np.int64).reshape(-1, 2).T
        return Told(np.cumsum(first), _ints(offset), _ints(zero), earliest_ns)


class Noted:
    """The different values that a field of each point has, where they are few."""

    def __init__(self, offsets: Mapping[int, int]) -> None:
        """``offsets``: by point number, of four bytes."""
        self.rows = np.zeros(_LOWEST, _OF_FIELD)
        for number, offset in offsets.items():
            if number < _LOWEST:
                self.rows["offset"][number] = offset

    def values(self) -> dict[int, frozenset[int]]:
        """By point number, of those that have any, and not too many."""
        count, value = self.rows["count"], self.rows["value"]
        some = np.flatnonzero((count > 0) & (count <= _FEW)).tolist()
        return {number: frozenset(value[number, : count[number]].tolist()) for number in some}


class Slept(NamedTuple):
    """Of the point whose events tell of sleeps its number, and where in each is which thread slept
    (four bytes), since when, and when it was let go (0: that was not seen)."""

    number: int
    tid: int
    off_ns: int
    wake_ns: int


NOBODY_SLEPT: Final = Slept(_NUMBERS, 0, 0, 0)
"""No point has that number."""


WHO_SLEPT: Final = -1
"""In place of a point's number: of the events that tell of sleeps, which thread slept, and since
when, the largest there is where it was let go before."""


class Index:
    """Where the events of each point of a stream are, and when they were: packets by packets.

    ``noted``: of all that are looked at; if something is wrong, it is of no use any more.
    """

    def __init__(self, told: Told, noted: Noted, slept: Slept) -> None:
        self._known = (*told, noted.rows, *slept)
        self._kept = told, noted
        # As ``struct point`` of native/index.c: the last is of who slept.
        self._points = np.zeros((_LOWEST + 1, 5), np.int64)
        self._room: Sequence[NDArray[Any]] = ()
        self._looked: Sequence[NDArray[Any]] = ()

    def look_at(
        self,
        events: NDArray[np.void],
        packets: Sequence[tuple[int, int, int, int]],
        total: int,
        last_ns: int,
    ) -> dict[int, int] | None:
        """How many events of each number are in some packets; None: something is wrong with their
        times, or a number is higher than most.

        ``packets``: first slot, events, begin and end; ``total``: events of all. ``last_ns``: when
        the last event was before them.
        """
        columns = list(zip(*packets, strict=True))
        told = [np.array(column, np.int64) for column in columns[:2]]
        told += [np.array(column, np.uint64) for column in columns[2:]]
        if not self._room or len(self._room[0]) < total:
            kinds = np.uint8, np.uint64, np.uint32, np.uint64
            self._room = [np.empty(total, kind) for kind in kinds]
        given = words(events, len(events), *told, len(packets), last_ns)
        index = words(*self._known, self._points, *self._room, len(self._room[0]))
        self._looked = given, index, events, *told
        try:
            if _call("look_at_packets", given, index) == _TOO_MANY:
                return None
        except IndexError:
            return None
        more = self._points[:, 0]
        some = np.flatnonzero(more)
        return {
            number if number < _LOWEST else WHO_SLEPT: count
            for number, count in zip(some.tolist(), more[some].tolist(), strict=True)
        }

    def put_at(
        self, number: int, numbers: NDArray[np.uint32], times: NDArray[np.uint64], count: int
    ) -> None:
        """Where what comes of a number is put: behind the first rows, of which there are so many,
        of columns that are kept meanwhile."""
        if number < _LOWEST:
            self._points[number, 1:] = words(numbers, times, count, len(numbers)).view(np.int64)

    def put(self) -> int:
        """The slots and times of the packets that were looked at last; when the last event was.

        Errors: IndexError, where there is no room for one.
        """
        return _call("put_packets", *self._looked[:2])


def apart(
    parts: Sequence[Sequence[NDArray[Any]]],
    ends: NDArray[np.uint64],
    others: Sequence[NDArray[Any]],
) -> bool:
    """Whether no two sleeps of a thread overlap, and each ends after it began.

    ``parts``: of each stream's, who slept, since when, and the place in order of the end, which
    ascends; ``ends``: of all, in that order. ``others``: thread, begin and end of further ones, in
    order of the end: of those that end at once, they come behind.
    """
    kinds = np.uint32, np.uint64, np.uint64
    further = [np.ascontiguousarray(*one) for one in zip(others, kinds, strict=True)]
    table = np.array([words(*part, len(part[0]), 0) for part in parts], np.uint64)
    bits = _FEWEST_BITS
    while True:
        room = np.empty(1 << bits, np.int64), np.empty(1 << bits, np.int32)
        latest, rows = np.empty(1 << bits, np.uint64), table.copy()
        found = _call(
            "apart", words(rows, len(parts), ends, len(ends)), words(*further, len(further[0]), 0),
            words(*room, bits, _SEED, latest, 0),
        )  # fmt: skip
        if found != _TOO_MANY:
            return not found
        bits += _MORE_BITS


def merge(times: Sequence[NDArray[np.uint64]]) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
    """Of times that ascend in each part, each one's place among all, and all in order."""
    own = [np.ascontiguousarray(part, np.uint64) for part in times]
    edges = np.cumsum([0, *(len(part) for part in own)])
    places, merged = np.empty(edges[-1], np.uint32), np.empty(edges[-1], np.uint64)
    _call("merge", words(*own), edges, len(own), np.empty(len(own), _RUN), places, merged)
    return places, merged


def order_of(keys: Sequence[NDArray[np.integer[Any]]]) -> Ints:
    """The stable order by the first key, then by the second ..."""
    if len(keys[0]) < 2:
        return np.arange(len(keys[0]))
    found = np.empty(len(keys[0]), np.int64)
    *others, last = keys
    order_by(_ints(last), found, as_is=True)
    for key in reversed(others):
        order_by(_ints(key), found)
    return found


def order_by(key: Ints, order: Ints, *, as_is: bool = False) -> None:
    """Brings rows (a permutation of them) in order of a key, those of one key as they are.

    ``as_is``: as they are as rows, whatever ``order`` has.
    """
    _call("order_by", key, len(key), int(as_is), order, *np.empty((2, len(key)), np.uint64))


def in_order(values: Ints) -> Ints:
    """The values, in order."""
    found, room = np.empty(len(values), np.int64), np.empty(len(values), np.int64)
    if _call("sort_values", _ints(values), len(values), found, room) == _TOO_MANY:
        return np.sort(values)
    return found.astype(values.dtype, copy=False)


def overlap(
    rows: tuple[Ints, Ints, Ints],
    order: Ints | None,
    others: tuple[Ints, Ints, Ints],
    other_order: Ints | None,
    most: int | None,
) -> tuple[Ints, Ints]:
    """All pairs of a row and another of the same key whose intervals overlap: two columns.

    ``rows``, ``others``: keys, begins and ends. ``order``: of the rows by key, stable;
    ``other_order``: of the others by key and begin; None: they are in it. ``most``: of how many at
    each end of a row's interval.
    """
    count, other_count = len(rows[0]), len(others[0])
    mine, theirs = [_ints(column) for column in rows], [_ints(column) for column in others]
    begin, reach = np.empty(other_count, np.int64), np.empty(other_count, np.int64)
    pairs = count + other_count
    while True:
        left, right = np.empty(pairs, np.int64), np.empty(pairs, np.int64)
        pairs = _call(
            "overlap", *mine, order, count, *theirs, other_order, other_count, most or 0, begin,
            reach, left, right, pairs,
        )  # fmt: skip
        if pairs <= len(left):
            return left[:pairs].copy(), right[:pairs].copy()


def asked(
    spans: Sequence[NDArray[Any]],
    first: int,
    own: Sequence[NDArray[Any]],
    kind: NDArray[np.uint8] | None,
    of_rank: NDArray[np.int16],
    alike: bool,
) -> tuple[Ints, Ints, Ints]:
    """Which lifted spans are of a machine's own that have a kind (None: all have); which that is;
    and the same number, not below 0, of those of one owner and rank that are as they are there.

    ``spans``: owner, rank, begin, end and of; ``own``, which have numbers from ``first`` on: rank,
    begin and end; ``of_rank``: of each rank, the own one's. ``alike``: False: none are.
    """
    owner, rank, begin, end, of = spans
    count, found = len(of), np.empty((3, len(of)), np.int64)
    rank, ranks = np.ascontiguousarray(rank, np.int32), int(rank.max(initial=0)) + 1
    lifted = _ints(owner), rank, _ints(begin), _ints(end), _ints(of)
    theirs = np.ascontiguousarray(own[0], np.int16), _ints(own[1]), _ints(own[2])
    every = words(
        count, *lifted, first, len(theirs[0]), *theirs, 0 if kind is None else kind,
        len(of_rank), of_rank, ranks * alike, *found,
    )  # fmt: skip
    row, number, whose = found[:, : _call("asked", every)]
    return row, number, whose


def kinds_of(
    rank: NDArray[np.int16], of: Ints, of_rank: NDArray[np.uint8], first: Ints, last: Ints
) -> tuple[NDArray[np.uint8], Ints]:
    """Of each span its kind, and how many have each: its rank's, if what it is ``of`` is from that
    kind's first number on, before its last one; else 0.

    ``of_rank``: of each rank; ``first``, ``last``: of each kind.
    """
    kind, counts = np.empty(len(rank), np.uint8), np.zeros(len(first), np.int64)
    _call(
        "kinds_of", np.ascontiguousarray(rank, np.int16), _ints(of), len(rank), of_rank,
        len(of_rank), _ints(first), _ints(last), len(first), kind, counts,
    )  # fmt: skip
    return kind, counts


def turns_told(
    whose: Ints, waits: Sequence[Ints], turns: Sequence[Ints], most: int
) -> tuple[Ints, Ints, Ints, Ints] | None:
    """Which waits (rows), from when to when, and whose turn (row) it was then; where those of one
    place and ``whose`` meet, if that is not below 0, for one of them. None: turns of one place
    overlap where only some of a wait's are told.

    ``waits``, ``turns``: places, begins and ends; turns in order of place and begin. ``most``: of
    how many turns it is told at each end of a wait, where there are more than both; 0: of all.
    """
    own, theirs = [_ints(column) for column in waits], [_ints(column) for column in turns]
    whose, count, turn_count = _ints(whose), len(whose), len(theirs[0])
    told, reach = np.empty((3, 2 * count), np.int64), np.empty(turn_count, np.int64)
    last, parts = [(*_slots(count), _SEED) for _ in range(2)], count + turn_count
    while True:
        found = np.empty((4, parts), np.int64)
        every = words(
            *last[0], *last[1], count, whose, *own, *theirs, turn_count, reach, most, *told, 0,
            *found, parts, 0,
        )  # fmt: skip
        parts = _call("turns_told", every)
        if parts == _TOO_MANY:
            return None
        if parts <= len(found[0]):
            row, begin, end, turn = found[:, :parts]
            return row, begin, end, turn


class Ranked(NamedTuple):
    """Spans of pieces. ``ranks``: those that any has, in order."""

    ranks: Ints
    number: NDArray[np.int32]
    columns: Sequence[NDArray[Any]]
    pieces: Sequence[Ints]
    first: Ints

    @staticmethod
    def of(
        owner: Ints, rank: NDArray[np.integer[Any]], times: Sequence[Ints], pieces: Sequence[Ints]
    ) -> Ranked | None:
        """None: they have too many ranks. ``times``, ``pieces``: begins and ends."""
        number = np.zeros(int(rank.max(initial=-1)) + 2, np.int32)
        begins, ends = (_ints(one) for one in times)
        columns = _ints(owner), np.ascontiguousarray(rank, np.int32), begins, ends
        own, first = [_ints(one) for one in pieces], np.zeros(len(pieces[0]) + 1, np.int64)
        found = Ranked(_NOTHING, number, columns, own, first)
        if _call("sweep_levels", found.words(0)) == _TOO_MANY:
            return None
        return found._replace(ranks=np.flatnonzero(number) - 1)

    def words(self, edges: Ints | int) -> NDArray[np.uint64]:
        """As C has it."""
        own, begins = self.columns[0], self.pieces[0]
        return words(
            *self.columns, len(own), *self.pieces, len(begins), self.number, len(self.number),
            self.first, edges,
        )  # fmt: skip


class Sums(NamedTuple):
    """To be added up: of each level its ``row``, of each piece its ``column``, -1: none.

    ``sums``: int64, or uint32.
    """

    row: Ints
    column: Ints
    sums: NDArray[np.integer[Any]]


def sweep(
    spans: Ranked, kept: NDArray[np.bool_], sums: Sums | None = None
) -> tuple[NDArray[np.bool_], Ints, Ints, Ints, Ints] | None:
    """Which ranks any span has within its piece's time; and of stretches of pieces' time the
    level, which is a row of ``ranks``, the piece, and since when and until; None: they are too
    long, or a sum has no room. ``kept``: of each rank that is there, whether its stretches are
    wanted.
    """
    levels, count = len(spans.ranks), len(spans.columns[0])
    wanted, met = np.zeros((2, levels + 1), np.bool_)
    wanted[1:] = kept
    working, last = np.zeros(levels + 1, np.int32), np.full(levels + 1, -1)
    time_ns, own = np.zeros(levels + 1, np.int64), np.zeros(len(spans.first), np.int64)
    edges, held = np.empty(4 * count, np.uint64), [np.empty(2 * count, np.int64) for _ in range(4)]
    holding = words(wanted, met, working, last, time_ns, levels, edges, *held, 0)
    added = None
    if sums:
        row, column = _ints(sums.row), _ints(sums.column)
        tables = (sums.sums, 0) if sums.sums.dtype == np.uint32 else (0, sums.sums)
        added = words(row, column, *tables, *sums.sums.shape)
    stretches = _call("sweep", spans.words(own), holding, added)
    if stretches == _TOO_MANY:
        return None
    level, piece, since, until = (column[:stretches] for column in held)
    return met[1:], level, piece, since, until


def kept_spans(
    owner: Ints, rank: int | NDArray[np.int16], begin_ns: Ints, end_ns: Ints, of: Ints | None
) -> tuple[Ints, NDArray[np.int16], Ints, Ints, Ints]:
    """Owner, rank, begin, end and of, of those that are somebody's (0 and above) and not empty.

    ``rank``: of all, or of each; ``of``: None: of nothing (-1).
    """
    count, own = len(owner), [_ints(column) for column in (owner, begin_ns, end_ns)]
    ranks = (0, rank) if isinstance(rank, int) else (np.ascontiguousarray(rank, np.int16), 0)
    known = 0 if of is None else _ints(of)
    columns, kept_rank = np.empty((4, count), np.int64), np.empty(count, np.int16)
    kept = _call("kept_spans", words(count, *own, *ranks, known, *columns, kept_rank))
    kept_owner, begin, end, kept_of = columns[:, :kept]
    return kept_owner, kept_rank[:kept], begin, end, kept_of


class Followed(NamedTuple):
    """Who waited for what: columns of whole numbers, shape (columns, rows).

    ``spans``: owner, rank, begin, end, and what each is of. ``ties``: to bios, calls and commits:
    owner, row of that, begin and end. ``services``: owner, thread, begin and end. ``beyond``: how
    many waits are not followed as they are behind too many others.
    """

    spans: Ints
    ties: Sequence[Ints]
    services: Ints
    beyond: int


def follow_wakers(known: NDArray[np.uint64], front: Sequence[Ints], ended: Ints) -> Followed | None:
    """What some waits come to; None: more has to be known for that.

    ``known``: a ``struct chain`` of native/chain.h; ``front``: the columns of ``struct wait``;
    ``ended``: of each sleep, is set to 1 if anybody is known to have caused its end.
    """
    own = [_ints(column) for column in front]
    room = 4 * len(own[0]) + FEW_WAITS
    while True:
        # One by one: what is large comes fresh from the kernel each time (``iostrata.memory``).
        waits = [np.empty((room, len(own)), np.int64) for _ in range(3)]
        ending = np.empty(room, np.int64)
        spans, deeds = (np.empty((5, room), np.int64) for _ in range(2))
        *ties, services = (np.empty((4, room), np.int64) for _ in range(4))
        found = words(
            room, 0, 0, 0, 0, 0, 0, spans, *ties, services, ended, *waits, ending, deeds
        )  # fmt: skip
        result = _call("follow_wakers", known, words(*own), len(own[0]), found)
        if result != _TOO_MANY:
            tables, (*counts, beyond) = (spans, *ties, services), found[1:7].tolist()
            spans, *ties, services = (
                table[:, :count] for table, count in zip(tables, counts, strict=True)
            )
            return None if result else Followed(spans, ties, services, beyond)
        room *= 4


def attribute(
    stretches: Sequence[Ints], wanted: NDArray[np.bool_], pieces: int
) -> tuple[Ints, Ints, Ints]:
    """Levels, pieces, and how long that level held that piece, never 0, in order of both.

    ``stretches``: level, piece, since when and until, in order of piece; ``wanted``: of each level,
    whether it is.
    """
    own = [_ints(column) for column in stretches]
    count, levels = len(own[0]), len(wanted)
    first, row_of = np.zeros(levels + 2, np.int64), np.zeros(levels, np.int64)
    unordered, found = np.empty((2, 3, count), np.int64)
    wanted = np.ascontiguousarray(wanted, np.bool_)
    rows = _call("attribute", *own, count, wanted, levels, pieces, first, row_of, unordered, *found)
    of_level, of_piece, time_ns = found[:, :rows]
    return of_level, of_piece, time_ns


def follow(
    spans: tuple[NDArray[np.int16], Ints, Ints, Ints],
    edges: tuple[Ints, Ints, Ints, Ints, Ints],
    seen: tuple[NDArray[np.int16], Ints] | None,
) -> tuple[Ints, NDArray[np.int16], Ints, Ints, Ints]:
    """Spans (rank, begin, end, of) as those of whom edges lead to: owner, rank, begin, end, of.

    ``edges``: the first of the spans that each is for, how many, to whom (below 0: to nobody),
    since when and until. ``seen``: kinds of edges by ranks, what they come to; and of each edge
    which kind it is.
    """
    table, kind = seen or (None, None)
    kinds, ranks = table.shape if table is not None else (0, 0)
    room = int(edges[1].sum())
    owner, begin, end, of = (np.empty(room, np.int64) for _ in range(4))
    rank = np.empty(room, np.int16)
    rows = _call(
        "follow", np.ascontiguousarray(spans[0], np.int16), *map(_ints, spans[1:]), len(spans[0]),
        *map(_ints, edges), kind, len(edges[0]), table, kinds, ranks, room, owner, rank, begin, end,
        of,
    )  # fmt: skip
    return owner[:rows], rank[:rows], begin[:rows], end[:rows], of[:rows]


def once(spans: tuple[Ints, NDArray[np.int16], Ints, Ints, Ints]) -> Ints:
    """The rows of spans (owner, rank, begin, end, of) that are not the same as one before."""
    owner, rank, *others = spans
    bits = _bits(len(owner))
    places = np.empty(1 << bits, np.int32)
    rows = np.empty(len(owner), np.int64)
    begin, end, of = map(_ints, others)
    count = _call(
        "once", _ints(owner), np.ascontiguousarray(rank, np.int16), begin, end, of, len(owner),
        places, bits, _SEED, rows,
    )  # fmt: skip
    return rows[:count]


def crc32(data: NDArray[np.uint8], before: int) -> int:
    """As zlib's, which has the rest, and all where the CPU cannot multiply so."""
    whole, found = len(data) // _FOLDED_BYTES * _FOLDED_BYTES, np.empty(_LANE_BYTES, np.uint8)
    done = _call("fold", data, whole, before ^ 0xFFFFFFFF, found) if whole else _TOO_MANY
    if done == _TOO_MANY:
        return zlib.crc32(data.data, before)
    return zlib.crc32(data[whole:].data, zlib.crc32(found.data, 0xFFFFFFFF))


def pair_requests(
    issued: Sequence[Ints], done: Sequence[Ints], back: Sequence[Ints]
) -> tuple[Ints, Ints, Ints]:
    """Of each request, the row of ``done`` that it ended with, -1: none; when it was over, -1:
    never; and 1 if it was given back then.

    ``issued``: key, time and size of each. ``done``, ``back``: keys and times, all in order of
    time; ``done``: sizes and bios, too.
    """
    parts = [[_ints(column) for column in columns] for columns in (issued, done, back)]
    found = np.empty((3, len(issued[0])), np.int64)
    slot_key, slot_row, bits = _slots(len(issued[0]))
    begun, ended, returned = parts
    requests = words(
        slot_key, slot_row, bits, _SEED, len(begun[0]), *begun, len(ended[0]), *ended,
        len(returned[0]), *returned, *found,
    )  # fmt: skip
    _call("pair_requests", requests)
    return found[0], found[1], found[2]


def follow_bios(
    begun: Sequence[Ints], ended: Sequence[Ints], alone: Sequence[Ints], issued: Sequence[Ints]
) -> tuple[Ints, Ints, Ints, Ints]:
    """Of each bio, when it was last complete before its key was used again, -1: never. Of each that
    ended, and each that did so ``alone``, the last bio with its key that had begun; of each that
    was issued that one, if it was not complete yet, and is on its device; -1: there is none.

    Keys and times, all in order of time; ``begun``, ``issued``: devices, too; ``ended``: 1 where it
    was given back instead.
    """
    parts = [[_ints(column) for column in part] for part in (begun, ended, alone, issued)]
    begun, ended, alone, issued = parts
    end, of_ended, of_alone, found = (np.empty(len(part[0]), np.int64) for part in parts)
    slot_key, slot_row, bits = _slots(len(end))
    lives = words(
        slot_key, slot_row, bits, _SEED, len(end), *begun, len(of_ended), *ended, of_ended,
        len(of_alone), *alone, 0, of_alone, len(found), *issued, found, end,
    )  # fmt: skip
    _call("follow_bios", lives)
    return end, of_ended, of_alone, found


def carry_bios(
    bios: Sequence[Ints], requests: Sequence[Ints], issued: Sequence[Ints], most: int
) -> tuple[Ints, Ints, Ints, Ints, Ints] | None:
    """Bios and requests that carried their data, in order of both; and of each bio the first, when
    that was issued (-1: there is none), and when all was complete. None: it takes more.

    ``bios``: when each was complete, and else was; ``requests``: issues and completions;
    ``issued``: bio, -1: none, and request. ``most``: so many bios of a request are told.
    """
    parts = [[_ints(column) for column in part] for part in (bios, requests, issued)]
    own, theirs, pairs = parts
    count = len(own[0])
    place, told = np.empty(count + 1, np.int64), np.empty(len(theirs[0]), np.int64)
    bio, request = np.empty((2, len(pairs[0])), np.int64)
    of_each = np.empty((3, count), np.int64)
    every = words(
        count, *own, len(told), *theirs, len(bio), *pairs, most, place, told, bio, request,
        *of_each,
    )  # fmt: skip
    rows = _call("carry_bios", every)
    if rows == _TOO_MANY:
        return None
    first, issue, end = of_each
    return bio[:rows], request[:rows], first, issue, end


def end_requests(
    flushes: Sequence[Ints],
    soon_ns: int,
    requests: Sequence[Ints],
    bios: Sequence[NDArray[Any]],
    carried: Sequence[Ints],
    completions: Sequence[Ints],
) -> Ints:
    """Thread, CPU, time, since when the device was done, bio, request, and by whom, of each
    completion that is a bio's: as rows. The columns of ``struct all`` of native/endings.c.

    ``flushes``: devices and times, in order of these; ``bios``: whether each wants a flush first.
    """
    wants_flush, *of_bios = bios
    parts = [[_ints(column) for column in part] for part in (requests, of_bios, carried)]
    asked, told = ([_ints(column) for column in part] for part in (flushes, completions))
    slot_key, slot_row, bits = _slots(len(asked[0]))
    request_of, bio_of = np.empty(len(told[0]), np.int64), np.empty(len(requests[0]), np.int64)
    found = np.empty((7, len(told[0])), np.int64)
    every = words(
        slot_key, slot_row, bits, _SEED, len(asked[0]), *asked, soon_ns,
        len(parts[0][0]), *parts[0], len(wants_flush), wants_flush, *parts[1],
        len(parts[2][0]), *parts[2], len(told[0]), *told, request_of, bio_of, *found,
    )  # fmt: skip
    return found[:, : _call("end_requests", every)]


class Own(NamedTuple):
    """Rows of endings of so many owners: each one's in order of time, from ``first`` of it on."""

    owners: int
    first: Ints
    ending: Ints

    @staticmethod
    def of(
        endings: Sequence[Ints],
        by_time: Ints,
        carried: Sequence[Ints],
        requests: int,
        owners: Sequence[Ints],
    ) -> Own:
        """``endings``: bios and requests; ``by_time``: rows of those that have bios. ``carried``:
        bios and requests, of so many of these. ``owners``: of each bio, as many as it can have.
        """
        parts, own, every = ([_ints(one) for one in some] for some in (endings, carried, owners))
        whose, order = words(*every), _ints(by_time)
        room = [np.empty(rows, np.int64) for rows in (requests, len(parts[0]), len(own[0]))]
        count = max(int(of.max(initial=-1)) for of in every) + 1
        ending = np.empty(len(every) * (len(order) + len(own[0])), np.int64)
        found = Own(count, np.zeros(count + 2, np.int64), ending)
        told = words(
            len(parts[0]), *parts, order, len(order), len(own[0]), *own,
            len(every), whose, len(every[0]), count, requests, *room, found.first, found.ending,
        )  # fmt: skip
        _call("own_endings", told)
        return found


def await_flushes(
    bios: Sequence[Ints],
    wants_flush: NDArray[np.bool_],
    flush: NDArray[np.bool_],
    requests: Sequence[Ints],
    asked: Sequence[Ints],
    most: int,
) -> tuple[Ints, Ints, Ints, Ints] | None:
    """Which bios wait for which flushes, since when and until, of each disk. None: the requests
    (``flush``: which are flushes) are in another order than that of their issue.

    ``bios``: devices, begins and ends; ``requests``: devices, issues and completions. ``asked``:
    rows of the bios, and disks. ``most``: of how many flushes at each end of a bio, where there
    are more than both.
    """
    own, theirs, parts = ([_ints(column) for column in part] for part in (bios, requests, asked))
    wants, flush = (np.ascontiguousarray(one, np.bool_) for one in (wants_flush, flush))
    known = np.empty((3, len(flush)), np.int64)
    room = len(parts[0]) + len(flush)
    while True:
        found = np.empty((4, room), np.int64)
        every = words(
            len(wants), *own, wants, len(flush), flush, *theirs, len(parts[0]), parts[0],
            len(parts[1]), parts[1], most, 0, *known, room, *found, 0,
        )  # fmt: skip
        room = _call("await_flushes", every)
        if room == _TOO_MANY:
            return None
        if room <= len(found[0]):
            bio, awaited, begin, end = found[:, :room]
            return bio, awaited, begin, end


def spans_of_bios(
    bios: Sequence[Ints],
    told: Sequence[NDArray[np.bool_] | None],
    requests: Sequence[Ints],
    rows: Sequence[Sequence[Ints]],
    ranks: Sequence[int],
) -> tuple[Ints, NDArray[np.int16], Ints, Ints, Ints]:
    """Owner, rank, begin, end and what each is of, of the spans of bios.

    The columns of ``struct all`` of native/blockio.c: ``bios``, ``told``: numbers and flags of each
    (None: of none); ``requests``: issue, completion, and disks that have any; ``rows``: carried,
    and awaited.
    """
    *numbers, device = (_ints(column) for column in bios)
    flags = [0 if one is None else np.ascontiguousarray(one, np.bool_) for one in told]
    issue, complete, disks = (_ints(column) for column in requests)
    carried, awaited = ([_ints(column) for column in part] for part in rows)
    last, room = np.empty(len(device), np.int64), 4 * len(carried[0]) + len(awaited[0])
    while True:
        owner, begin, end, of = np.empty((4, room), np.int64)
        rank = np.empty(room, np.int16)
        every = words(
            len(device), *numbers, *flags, device, len(issue), issue, complete, len(disks), disks,
            len(carried[0]), *carried, len(awaited[0]), *awaited, *ranks, last, room, owner, rank,
            begin, end, of, 0,
        )  # fmt: skip
        room = _call("spans_of_bios", every)
        if room <= len(of):
            return owner[:room], rank[:room], begin[:room], end[:room], of[:room]


def overlap_waits(
    ended: Lookup, wait_begins: Ints, keys: Ints, begins: Ints, ends: Ints
) -> tuple[Ints, Ints]:
    """All pairs of an interval and a wait of its key that overlap: rows of both, in their order.

    ``ended``: looks the waits up by when they ended; those of one key do not overlap.
    """
    asked, pairs = [_ints(column) for column in (keys, begins, ends)], len(keys)
    while True:
        left, right = np.empty(pairs, np.int64), np.empty(pairs, np.int64)
        pairs = _call(
            "overlap_waits", words(*ended.words), len(wait_begins), _ints(wait_begins), *asked,
            len(keys), left, right, len(left),
        )  # fmt: skip
        if pairs <= len(left):
            return left[:pairs].copy(), right[:pairs].copy()


def _call(name: str, *words: NDArray[Any] | int | None) -> int:
    """IndexError: something leads out of its columns."""
    given = [
        _MEMORY[id(word) + _DATA >> 3] if isinstance(word, np.ndarray) else word for word in words
    ]
    result: int = getattr(LIBRARY, name)(*given)
    if result == -1:
        raise IndexError(f"{name}: an index out of bounds")
    return result


def words(*parts: NDArray[Any] | int) -> NDArray[np.uint64]:
    """Numbers, and where arrays are, as a struct of C has them: while those are kept."""
    given = [
        _MEMORY[id(part) + _DATA >> 3] if isinstance(part, np.ndarray) else part for part in parts
    ]
    return np.array(given, np.uint64)


def _slots(rows: int) -> tuple[Ints, NDArray[np.int32], int]:
    """Room for half as many keys again as there are rows, at least; and its bits."""
    bits = _bits(rows)
    return np.empty(1 << bits, np.int64), np.empty(1 << bits, np.int32), bits


def _bits(rows: int) -> int:
    return (rows + rows // 2 + 1).bit_length()


def _ints(column: NDArray[np.integer[Any]]) -> Ints:
    """In a row, as C reads them."""
    return np.ascontiguousarray(column, np.int64)


def ranked(values: Ints, places: Sequence[int]) -> list[int]:
    """The numbers that are at some places of all of them in ascending order."""
    found = np.empty(len(places), np.int64)
    _call("ranked", _ints(values), len(values), np.array(places), len(places), found)
    return [int(number) for number in found]


def add_narrow(
    sums: NDArray[np.integer[Any]], rows: Ints, numbers: NDArray[np.integer[Any]]
) -> bool:
    """Adds numbers to the sums of some rows; False: the sums have no room for them, and stay.

    Both are uint32.
    """
    numbers = np.ascontiguousarray(numbers)
    added = _call("add_narrow", sums, len(sums), _ints(rows), numbers, len(rows))
    return added != _TOO_MANY


def among(values: Ints, others: Ints) -> NDArray[np.bool_]:
    """Which of some values, which all differ, are among others."""
    found, (slot_key, slot_number, bits) = np.zeros(len(values), np.bool_), _slots(len(values))
    _call(
        "among", _ints(values), len(values), _ints(others), len(others), slot_key, slot_number,
        bits, _SEED, np.zeros(1 << bits, np.uint8), found,
    )  # fmt: skip
    return found


def marked(numbers: Ints, count: int) -> NDArray[np.bool_]:
    """Which numbers from 0 on, below ``count``, are there; others may be, too."""
    found = np.zeros(count, np.bool_)
    _call("marked", _ints(numbers), len(numbers), found, count)
    return found


class Cells(NamedTuple):
    """What stands in a column of text: ``value`` of each row, or which of some names.

    ``text``: of all names, one behind the other, bytes; None: there are none. ``end``: of each.
    """

    value: NDArray[np.integer[Any]]
    text: NDArray[np.uint8] | None = None
    end: Ints = _NOTHING

    @property
    def width(self) -> int:
        """Characters of the longest one, at most."""
        if self.text is None:
            return _MOST_DIGITS
        return int(np.diff(self.end, prepend=0).max(initial=0))


def lines(columns: Sequence[Cells], rows: int) -> NDArray[np.uint8]:
    """Rows of some columns as text: commas between the cells, a line feed behind the last."""
    text = np.empty(rows * sum(cells.width + 1 for cells in columns) + _MOST_DIGITS, np.uint8)
    # Kept while they are read.
    given = [
        (_ints(cells.value), *_sized(cells.text), cells.end, len(cells.end)) for cells in columns
    ]
    told = words(*(part for cells in given for part in cells))
    return text[: _call("lines", told, len(columns), rows, text, len(text))]


def _sized(text: NDArray[np.uint8] | None) -> tuple[NDArray[np.uint8] | int, int]:
    return (0, 0) if text is None else (text, len(text))


def durable(
    made: Sequence[NDArray[Any]], plain: Ints, syncs: Ints, scopes: Ints
) -> tuple[Ints, Ints, Ints, Ints]:
    """``caller``, ``size_bytes``, ``count`` and ``since_ns`` of a ``Durability``.

    ``made``: columns as of ``Made``; ``plain``, ``syncs``: rows; ``scopes``: how many syncs there
    are of each scope, none of which is a range.
    """
    writes, synced = len(plain), len(syncs)
    _, _, agent, _, file, *_ = made
    # Of whatever scope, agents are few, and of the narrowest, files are.
    files, agents = (
        int(number.max(initial=-1)) + 2 if number.min(initial=0) >= -1 else synced
        for number in (file, agent)
    )
    any_of = [*scopes[:-1].tolist(), min(int(scopes[-1]), files)]
    own = [min(count, most * agents) for count, most in zip(scopes.tolist(), any_of, strict=True)]
    tables = [_slots(count) for count in (*any_of, *own)]
    goes = (np.empty(writes, np.int64), *np.zeros((3, synced), np.int64))
    effect_ns, end_ns, *others, scope = made
    columns = [
        _ints(effect_ns), _ints(end_ns), *(part for one in others for part in _column(one)),
        np.ascontiguousarray(scope, np.int8),
    ]  # fmt: skip
    some = [_ints(plain), _ints(syncs)]
    orders = [_order(effect_ns[plain]), _order(effect_ns[syncs]), _order(end_ns[syncs])]
    _call(
        "durable", words(*columns, len(scope)),
        words(some[0], orders[0], 0, writes), words(some[1], *orders[1:], synced),
        words(*scopes.tolist(), *(part for table in tables for part in (*table, _SEED))),
        words(*goes),
    )  # fmt: skip
    return goes


def account(
    done: Mapping[str, NDArray[Any]], caller: Ints, synced: Sequence[Ints], count: int
) -> tuple[dict[str, NDArray[Any]], dict[str, Ints]]:
    """The columns of ``Units``, of which there are so many, and of ``Pieces``.

    ``done``: those of ``Operations``; ``caller``, ``synced`` (``size_bytes``, ``count`` and
    ``since_ns``): of a ``Durability`` of these.
    """
    pieces = count + int(np.count_nonzero(caller >= 0))
    codes = [np.ascontiguousarray(done[name], np.int8) for name in ("method", "scope")]
    failed = np.ascontiguousarray(done["failed"], np.bool_)
    told = [part for name in ("begin_ns", "end_ns", "size_bytes") for part in _column(done[name])]
    own, first, copied = (
        _Copied(done, names, rows)
        for names, rows in ((_OF_UNITS, count), (_OF_FIRST, count), (_OF_PIECES, pieces))
    )
    unit, (latency, *filled) = np.empty(pieces, np.int64), np.empty((6, count), np.int64)
    flags, syncs = np.empty((2, count), np.bool_), [_ints(column) for column in synced]
    unit_of, following = np.empty(len(syncs[0]), np.int64), np.empty(count, np.int64)
    room = [word for column in filled for word in (column, 0, 0)]
    found = words(*room, latency, *flags, following, *own.words, *first.words, count)
    _call(
        "account", words(*told, *codes, failed, len(failed)),
        words(_ints(caller), len(caller), *syncs, unit_of, len(unit_of)),
        found, words(unit, *copied.words, pieces),
    )  # fmt: skip
    ones = found[: len(room)].view(np.int64).reshape(-1, 3)[:, 1:]
    units = {
        name: column if varies else np.broadcast_to(one, count)
        for name, column, (one, varies) in zip(_FILLED, filled, ones, strict=True)
    }
    units |= {"latency_ns": latency, "failed": flags[0], **own.columns, **first.columns}
    return units, {"unit": unit} | copied.columns


class _Copied:
    """Room for columns that C copies, but for those of one number: they stay that."""

    def __init__(self, given: Mapping[str, Ints], names: Sequence[str], rows: int) -> None:
        self.columns: dict[str, Ints] = {}
        self._kept: list[NDArray[Any] | int] = []
        for name in names:
            column, step = _column(given[name])
            if step:
                self.columns[name] = np.empty(rows, np.int64)
                self._kept += column, self.columns[name]
            else:
                self.columns[name] = np.broadcast_to(column[0], rows)
        self._table = words(*self._kept)

    @property
    def words(self) -> tuple[NDArray[Any] | int, ...]:
        """As C has it."""
        return self._table, len(self._kept) // 2


def numbered(columns: Sequence[Ints]) -> Ints:
    """The same number for rows that are alike in all of some columns; from 0 on."""
    given, bits = [_ints(column) for column in columns], _FEWEST_BITS
    rows = len(given[0])
    found = np.empty(rows, np.int64)
    # Mostly they are few.
    while True:
        slot_row = np.empty(1 << bits, np.int32)
        keys = words(0, slot_row, bits, _SEED)
        if _call("numbered", words(*given), len(given), rows, keys, found) != _TOO_MANY:
            return found
        bits += _MORE_BITS


def _column(values: Ints) -> tuple[Ints, int]:
    """As ``struct column`` of native/column.h: of one number, that alone."""
    return (values, 0) if len(values) and not values.strides[0] else (_ints(values), 1)


def _order(values: Ints) -> NDArray[np.int64] | int:
    """As C takes it: none, where they are in it."""
    return 0 if bool((values[1:] >= values[:-1]).all()) else order_of([values])


class Common(NamedTuple):
    """What calls are whose own columns tell all: ``struct meaning`` of native/calls.c.

    ``tables``: by number, a call's kind, method and scope.
    """

    tables: NDArray[np.int8]
    numbers: tuple[int, ...]

    @staticmethod
    def of(
        writes: Iterable[int],
        transfers: Iterable[int],
        syncs: Mapping[int, tuple[int, int]],
        rare: Iterable[int],
        *numbers: int,
    ) -> Common:
        """Numbers of calls: that write with flags of their own and without, that make durable, with
        the method and scope of each, and of which more must be known. ``numbers``: the others of
        the struct.
        """
        tables = np.zeros((3, _CALLS), np.int8)
        for kind, some in enumerate((writes, transfers, syncs, rare), 1):
            tables[0, list(some)] = kind
        for number, told in syncs.items():
            tables[1:, number] = told
        return Common(tables, numbers)


def operations(
    calls: Mapping[str, Ints], found: Mapping[str, NDArray[Any]], common: Common
) -> int | None:
    """Fills the first rows of columns of ``Operations`` (a row for each call there is); how many.

    None: there is a call of which more must be known. ``calls``: columns of ``syscall``, in rows.
    """
    told = [_ints(calls[name]) for name in _OF_CALLS]
    count = _call(
        "operations_of",
        words(*told, calls.get("generation", 0), len(told[0])),
        words(*common.tables, *common.numbers),
        words(*(found[name] for name in _OF_OPERATIONS), found.get("generation", 0)),
    )
    return None if count == _TOO_MANY else count
