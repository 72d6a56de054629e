# SPDX-License-Identifier: Apache-2.0
"""Points: where one point's events lie in the stream files to columns in order of time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from iostrata import native
from iostrata.columns import distinct, order_of
from iostrata.errors import RecordingError
from iostrata.trace.layout import EVENT_BYTES
from iostrata.trace.stream import SPAN_BYTES, Slots, Stream, Times
from iostrata.trace.times import DEVICE

SPAN_SLOTS = SPAN_BYTES // EVENT_BYTES
MANY_EVENTS = 1 << 16
"""So many are looked at in turn for what few values a field has."""
PIECE_EVENTS = 8192
"""The fields of how many events are copied in turn: what stays in a core's own cache."""
FEW_EVENTS = 1024
"""A point of so few (threads, mounts) is read once: far apart, each costs a page of the file."""
UINT32_MAX = 0xFFFFFFFF


@dataclass(frozen=True)
class Part:
    """One stream's events of a point: their slots, and their places among all streams' events.

    Both ascend, so that any range of the point is a range of each part.
    """

    stream: Stream
    slots: Slots
    places: Slots

    @property
    def span(self) -> int:
        """Over how many slots it is looked at before their pages are let go."""
        return SPAN_SLOTS if self.stream.in_order else UINT32_MAX

    def range(self, begin: int, end: int) -> tuple[int, int]:
        """Where this part holds a range of the point's events."""
        first, last = self.places.searchsorted(np.array((begin, end), np.uint32)).tolist()
        return first, last


class Points:
    """All events of one point on one machine, in order of time; ties in order of CPU.

    ``points["field"]`` gathers a column from the files each time it is asked
    for, unless there are few events: keep it rather than ask twice. Columns
    have the recording's own types; char arrays are bytes (``S16``). ``known``: the recorder
    knew of the point.
    """

    def __init__(
        self,
        name: str,
        number: int,
        dtype: np.dtype[np.void],
        parts: list[tuple[Stream, Slots]],
        *,
        known: bool = True,
    ) -> None:
        self.name = name
        self.number = number
        self.dtype = dtype
        self.known = known
        self._unordered = parts
        self._ordering = Lock()
        self._parts: list[Part] | None = None
        self._count = sum(len(slots) for _, slots in parts)
        self._time_ns = np.empty(0, np.uint64)
        self._values: dict[str, frozenset[int]] = {}
        devices = [stream.devices.get(number) for stream, _ in parts]
        if None not in devices:
            self._values[DEVICE] = frozenset().union(*(one for one in devices if one))
        self._few: NDArray[np.void] | None = None
        self._found: dict[tuple[str, ...], native.Numbers | None] = {}

    def __len__(self) -> int:
        return self._count

    def __repr__(self) -> str:
        return f"Points({self.name!r}, {len(self)} events)"

    def __getitem__(self, field: str) -> NDArray[np.generic]:
        if field == "time_ns":
            return self.time_ns
        return self.columns(field)[field]

    @property
    def fields(self) -> tuple[str, ...]:
        return self.dtype.names or ()

    @property
    def time_ns(self) -> NDArray[np.uint64]:
        """Kept after the first use: the order of the events rests on it."""
        self._order()
        return self._time_ns

    def columns(
        self, *fields: str, begin: int = 0, end: int | None = None
    ) -> dict[str, NDArray[np.generic]]:
        """Several columns in one pass over the files; RecordingError for a field not recorded."""
        if not len(self):
            # A point that an older recording knows by other fields, or not at all.
            return {field: np.empty(0, self._type(field)) for field in fields}
        for field in fields:
            self._check(field)
        begin, end, _ = slice(begin, end).indices(len(self))
        found = {field: np.empty(max(0, end - begin), self.dtype[field]) for field in fields}
        self._gather(found, begin, end)
        return found

    def integers(
        self, *fields: str, begin: int = 0, end: int | None = None, stay: bool = False
    ) -> dict[str, NDArray[np.int64]]:
        """``time_ns`` and other columns as int64; 64-bit keys keep their bits. Errors as above.

        ``stay``: what is beside them in the files is looked at next.
        """
        begin, end, _ = slice(begin, end).indices(len(self))
        table = np.empty((len(fields), max(0, end - begin)), np.int64)
        found = dict(zip(fields, table, strict=True))
        if len(self):
            for field in fields:
                self._check(field)
            self._gather(found, begin, end, table, stay=stay)
        return {"time_ns": self.time_ns[begin:end].view(np.int64)} | found

    def pieces(self, *fields: str) -> Iterator[dict[str, NDArray[np.int64]]]:
        """As ``integers``, one part of the events after the other: for a point of any number."""
        for begin in range(0, len(self), MANY_EVENTS):
            yield self.integers(*fields, begin=begin, end=begin + MANY_EVENTS)

    def slept(self) -> list[tuple[NDArray[np.uint32], Times, Slots]] | None:
        """Of events that tell of sleeps, as each of the streams has noted it, who slept, since
        when, and their places among all streams' events: once. None: not all of them have."""
        found = []
        for part in self._order():
            slept, part.stream.slept = part.stream.slept, None
            if slept is None:
                return None
            found.append((*slept, part.places))
        return found

    def without(self, events: NDArray[np.int64]) -> Points:
        """All but some of the events, by their places among them."""
        kept = np.ones(len(self), np.bool_)
        kept[events] = False
        place = np.cumsum(kept, dtype=np.uint32) - np.uint32(1)
        rest = Points(self.name, self.number, self.dtype, [], known=self.known)
        rest._parts = [
            Part(part.stream, part.slots[kept[part.places]], place[part.places[kept[part.places]]])
            for part in self._order()
        ]
        rest._time_ns = self.time_ns[kept]
        rest._count = len(rest._time_ns)
        return rest

    def values(self, field: str) -> frozenset[int]:
        """The different values of a field of few, in no order; kept after the first use."""
        if field not in self._values:
            found: set[int] = set()
            for some in self.pieces(field):
                found.update(distinct(some[field]).tolist())
            self._values[field] = frozenset(found)
        return self._values[field]

    def _gather(
        self,
        found: Mapping[str, NDArray[np.generic]],
        begin: int,
        end: int,
        table: NDArray[np.int64] | None = None,
        *,
        stay: bool = False,
    ) -> None:
        """Fills the columns with a range of the events; nothing is looked at for none.

        ``table``: what the columns are rows of, where all are wanted as int64.
        """
        if len(self) > FEW_EVENTS:
            self._read(found, begin, end, table, stay=stay)
            return
        if self._few is None:
            few = np.empty(len(self), self.dtype)
            every = {field: few[field] for field in self.fields}
            self._read(every, 0, len(self), None, stay=stay)
            self._few = few
        for field, column in found.items():
            column[:] = self._few[field][begin:end]

    def _read(
        self,
        found: Mapping[str, NDArray[np.generic]],
        begin: int,
        end: int,
        table: NDArray[np.int64] | None,
        *,
        stay: bool,
    ) -> None:
        if not found:
            return
        if (
            native.LIBRARY is not None
            and table is not None
            and (numbers := self._numbers(tuple(found)))
        ):
            for read in self._in_c.gather(numbers, begin, table):
                for part, (first, last) in zip(self._order(), read, strict=True):
                    part.stream.release(part.slots[first:last], stay=stay)
            self._check_files()
            return
        for part in self._order():
            first, last = part.range(begin, end)
            events = part.stream.events(self.dtype)
            for slots, places in spans(part, first, last):
                _copy(events, slots, places, begin, found)
                part.stream.release(slots, stay=stay)
        self._check_files()

    def _check_files(self) -> None:
        for part in self._order():
            part.stream.check()

    def _numbers(self, fields: tuple[str, ...]) -> native.Numbers | None:
        """Where C finds some fields: every window asks for the same ones."""
        if fields not in self._found:
            self._found[fields] = native.Numbers.of(self.dtype, fields)
        return self._found[fields]

    @cached_property
    def _in_c(self) -> native.Parts:
        """The parts as C has them."""
        return native.Parts.of(
            [
                (part.stream.events(self.dtype), part.slots, part.places, part.span)
                for part in self._order()
            ]
        )

    def source(self, begin: int, end: int) -> tuple[NDArray[np.uint16], NDArray[np.uint32]]:
        """Which stream (its place among this point's) and slot each event of a range is in."""
        streams = np.empty(end - begin, np.uint16)
        slots = np.empty(end - begin, np.uint32)
        for part in self._order():
            first, last = part.range(begin, end)
            places = part.places[first:last] - begin
            streams[places] = max(0, part.stream.cpu)
            slots[places] = part.slots[first:last]
        return streams, slots

    def _type(self, field: str) -> np.dtype[np.generic]:
        return self.dtype[field] if field in self.fields else np.dtype(np.int64)

    def _check(self, field: str) -> None:
        if field not in self.fields:
            raise RecordingError(
                f"the events {self.name} of this recording have no field {field}",
                "it was made by another version of iostrata: record again, or use that version",
            )

    def _order(self) -> list[Part]:
        # Several threads may ask for the first of its columns.
        with self._ordering:
            if self._parts is None:
                times = [stream.times.pop(self.number) for stream, _ in self._unordered]
                self._parts, self._time_ns = ordered(self._unordered, times)
                self._unordered = []
        return self._parts


def _copy(
    events: NDArray[np.void],
    slots: Slots,
    places: Slots,
    begin: int,
    found: Mapping[str, NDArray[np.generic]],
) -> None:
    for piece in range(0, len(slots), PIECE_EVENTS):
        slot = slots[piece : piece + PIECE_EVENTS].astype(np.intp)
        where = places[piece : piece + PIECE_EVENTS].astype(np.intp) - begin
        for field, column in found.items():
            column[where] = events[field][slot]


def ordered(parts: list[tuple[Stream, Slots]], times: list[Times]) -> tuple[list[Part], Times]:
    """The parts with each event's place in order of time, and all times in that order."""
    for index, (stream, slots) in enumerate(parts):
        if not stream.in_order:
            order = order_of(times[index])
            parts[index], times[index] = (stream, slots[order]), times[index][order]
    if len(parts) == 1:
        ((stream, slots),) = parts
        return [Part(stream, slots, np.arange(len(slots), dtype=np.uint32))], times[0]
    places, together = merged(times)
    edges = np.cumsum([len(slots) for _, slots in parts])[:-1]
    return [
        Part(stream, slots, part)
        for (stream, slots), part in zip(parts, np.split(places, edges), strict=False)
    ], together


def merged(times: list[Times]) -> tuple[Slots, Times]:
    """Of times that ascend in each part, each one's place among all, and all in order."""
    if native.LIBRARY is not None and times:
        return native.merge(times)
    together = np.concatenate([np.empty(0, np.uint64), *times])
    order = order_of(together)
    places = np.empty(len(order), np.uint32)
    places[order] = np.arange(len(order), dtype=np.uint32)
    return places, together[order]


def spans(part: Part, first: int, last: int) -> Iterator[tuple[Slots, Slots]]:
    """Slots and places of a range, cut so that each piece touches few pages of the file."""
    if not part.stream.in_order:
        yield part.slots[first:last], part.places[first:last]
        return
    slots = part.slots
    while first < last:
        limit = np.uint32(min(int(slots[first]) + SPAN_SLOTS, UINT32_MAX))
        cut = last
        if slots[last - 1] >= limit:
            cut = first + int(slots[first:last].searchsorted(limit))
        yield slots[first:cut], part.places[first:cut]
        first = cut
