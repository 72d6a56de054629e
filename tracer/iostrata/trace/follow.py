# SPDX-License-Identifier: Apache-2.0
"""Follow: a directory that a recorder is still writing in, a Trace of its last seconds out.

What is no longer among the last seconds is given back to the disk: a recording that is only looked
at takes no room. Of what is skipped nothing is kept in memory.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints, distinct, order_of, records, some_records
from iostrata.errors import RecordingError
from iostrata.trace.frames import Packets, is_framed
from iostrata.trace.layout import EVENT_BYTES
from iostrata.trace.metadata import Metadata
from iostrata.trace.packet import EVENT_BITS, HEAD, HEAD_BITS, HEAD_BYTES, MAGIC, Packet
from iostrata.trace.read import Trace, assemble, read_metadata, stream_order
from iostrata.trace.stream import UNKNOWN_CPU, Stream, stream_cpu
from iostrata.trace.stream_files import read_once, stream_file
from iostrata.trace.times import Expected, time_fields
from iostrata.trace.walk import Walk

REMEMBERED: Final = (
    "thread", "task", "file_name", "file_system", "rpc_connection", "loss", "miss", "probe",
    "unseen",
)  # fmt: skip
"""Points whose events matter ever after."""
TOLD_ANEW: Final = ("thread", "task")
"""Those of them that are told again and again, mostly as before."""
KEEP_SIZE_PUNCH_HOLE: Final = 0x01 | 0x02
MEMORY_STREAM: Final = "remembered"
SETTLED_NS: Final = 500_000_000
"""By then every CPU's events are in its file: the recorder writes them each 250 ms."""
MOST_REMEMBERED: Final = 1 << 16
FEW_REMEMBERED: Final = 1 << 12
SAID_AT: Final = 16
"""Of an event, where what it says begins: behind when, where and by whom it was said."""
STEP: Final = 16
MOST_KEPT_BYTES: Final = 1 << 28
EVENT: Final = np.dtype(f"V{EVENT_BYTES}")
TIMED: Final = np.dtype([("time_ns", "<i8")])
Keep = Callable[[NDArray[np.void]], NDArray[np.void]]
"""Makes of the events of a point, in their order, what is kept of them: rows with ``time_ns``."""
NOTHING_KEPT: Final[Mapping[str, Keep]] = MappingProxyType({})


class Marks(NamedTuple):
    """When a packet's events were: one time for ``each`` so many of them."""

    times: Ints
    each: float


@dataclass
class Tail:
    """The last packets of one stream file, by their places in it.

    ``marks``: of each of the packets; ``before``: the packet before the first of them. ``known``:
    where in the file the packets end. ``framed``: what was made of the file, which is read instead
    of it; None: it has no frames.
    """

    path: Path
    uuid: bytes
    fd: int
    expected: Expected
    framed: Packets | None = None
    packets: list[Packet] = field(default_factory=list)
    marks: list[Marks] = field(default_factory=list)
    before: Packet | None = None
    known: int = 0

    def grow(self) -> list[Packet]:
        """Takes up what was written since; the new packets."""
        if self.framed:
            self.framed.take(stream_file(self.path), grows=True)
        first, size_bytes = len(self.packets), os.fstat(self.fd).st_size
        while (packet := self._next(size_bytes)) is not None:
            self.packets.append(packet)
            self.known = packet.end
        return self.packets[first:]

    def forget(self, before_ns: int) -> None:
        """Drops the packets that end before that time."""
        count = 0
        while count < len(self.packets) and self.packets[count].end_ns < before_ns:
            count += 1
        if count:
            self.before = self.packets[count - 1]
            del self.packets[:count], self.marks[:count]
            self._give_back()

    def between(self, since_ns: int, until_ns: int) -> Stream:
        """The packets that end since then and begin by then, as a stream."""
        first, last = 0, len(self.packets)
        while last and self.packets[last - 1].begin_ns > until_ns:
            last -= 1
        while first < last and self.packets[first].end_ns < since_ns:
            first += 1
        before = self.packets[first - 1] if first else self.before
        cpu, begin = stream_cpu(self.path.name), before.end if before else 0
        size_bytes = self.packets[last - 1].end - begin if last > first else 0
        data = os.pread(self.fd, size_bytes, begin)
        stream = Stream(self.path.name, UNKNOWN_CPU if cpu is None else cpu, data)
        Walk(stream, data, self.uuid, before, self.expected).run()
        return stream

    def events(self, packet: Packet) -> bytes:
        """Those of a packet."""
        return os.pread(self.fd, packet.count * EVENT_BYTES, packet.first_slot * EVENT_BYTES)

    def close(self) -> None:
        os.close(self.fd)
        if self.framed:
            self.framed.close()

    def _begin(self) -> int:
        return self.before.end if self.before else 0

    def _next(self, size_bytes: int) -> Packet | None:
        """The packet after the last known one, if all of it is there; its sum is not checked."""
        at, last = self.known, self.packets[-1] if self.packets else self.before
        if size_bytes - at < HEAD_BYTES:
            return None
        (magic, uuid, _, begin_ns, end_ns, content_bits, packet_bits, sequence, discarded, cpu, _
         ) = HEAD.unpack(os.pread(self.fd, HEAD.size, at))  # fmt: skip
        if magic != MAGIC or uuid != self.uuid:
            raise RecordingError(
                f"{self.path}: no packet begins where one must", "record again; is the disk full?"
            )
        end = at + packet_bits // 8
        if end > size_bytes:
            return None
        count = max(0, -(-(content_bits - HEAD_BITS) // EVENT_BITS))
        number = last.number + 1 if last else 0
        return Packet(
            number, (at + HEAD_BYTES) // EVENT_BYTES, count, begin_ns, end_ns, sequence, discarded,
            cpu, end,
        )  # fmt: skip

    def _give_back(self) -> None:
        if not _punch(self.fd, self._begin()) and self.known > MOST_KEPT_BYTES:
            raise RecordingError(
                f"{self.path} grows, and its file system cannot take back what was read",
                "set TMPDIR to a directory on a local file system: ext4, xfs, btrfs, tmpfs",
            )


class Course:
    """How many events there were at what time: to ``STEP`` of a packet's."""

    def __init__(self, marks: Sequence[Marks]) -> None:
        times = np.concatenate([one.times for one in marks])
        order = order_of(times)
        each = np.concatenate([np.full(len(one.times), one.each) for one in marks])
        self._times, self._until = times[order], np.cumsum(each[order])

    def happened(self, since_ns: int, until_ns: int) -> float:
        """After one time until another."""
        return self._by(until_ns) - self._by(since_ns)

    def by(self, since_ns: int, until_ns: int, count: float) -> int:
        """By when there were so many after ``since_ns``; no later than ``until_ns``."""
        row = int(np.searchsorted(self._until, self._by(since_ns) + count))
        by_ns = int(self._times[row]) if row < len(self._times) else until_ns
        return min(max(by_ns, since_ns), until_ns)

    def begin(self, until_ns: int, span_ns: int, most_events: int) -> int:
        """Since when it is so long until then, or there were so many events."""
        row = int(np.searchsorted(self._until, self._by(until_ns) - most_events, side="right"))
        return max(until_ns - span_ns, int(self._times[row - 1]) if row else 0)

    def _by(self, time_ns: int) -> float:
        row = int(np.searchsorted(self._times, time_ns, side="right"))
        return float(self._until[row - 1]) if row else 0.0


@dataclass(frozen=True)
class Snapshot:
    """``trace``: what happened from ``begin_ns`` until ``end_ns`` is whole in it.

    What ended after ``since_ns`` is asked for; ``events``: so many of that time, beside
    ``skipped_events`` in ``skipped_ns`` since the last snapshot. ``each``: for how many writes one
    of that time stands, that all of these places together have them as often as they were.
    ``kept``: of the events since the last snapshot, of skipped ones, too.
    """

    trace: Trace
    begin_ns: int
    since_ns: int
    end_ns: int
    events: int
    skipped_events: int
    skipped_ns: int
    each: float
    kept: NDArray[np.void]


class Follower:
    """Reads one machine's directory again and again while it grows.

    ``keep``: by points; all make the same columns. Errors, of every method: RecordingError,
    OSError.
    """

    def __init__(
        self, directory: Path, machine: str, keep: Mapping[str, Keep] = NOTHING_KEPT
    ) -> None:
        self._directory, self._machine = directory, machine
        self._metadata: Metadata = read_metadata(directory)
        self._expected = Expected(time_fields(self._metadata.points, self._metadata.dtypes))
        self._tails: dict[str, Tail] = {}
        self._keep = {name: one for name, one in keep.items() if name in self._metadata.points}
        self._kept = self._kept_of([])
        self._remembered = bytearray()
        self._most_bytes = FEW_REMEMBERED * EVENT_BYTES
        self._settled_ns = 0
        numbers = [self._metadata.points.get(name, 0) for name in REMEMBERED]
        self._numbers = [number for number in numbers if number]
        self._is_remembered = np.zeros(1 << 16, np.bool_)
        self._is_remembered[self._numbers] = True

    def close(self) -> None:
        for tail in self._tails.values():
            tail.close()
        self._tails.clear()

    def snapshot(self, span_ns: int, most_events: int, place: float = 1.0) -> Snapshot | None:
        """What happened since the last one, and as much before it: ``span_ns`` in all, or less
        where that held more events than ``most_events``.

        ``place``: where among those since the last one, if they are more than half as many, are
        those that are asked for: from 0 to 1, so that all places together have each event in them
        as often. None: there is nothing yet, or nothing new.
        """
        self._grow()
        tails = list(self._tails.values())
        ends = [tail.packets[-1].end_ns for tail in tails if tail.packets]
        if not ends or max(ends) - SETTLED_NS <= self._settled_ns:
            return None
        settled_ns, half = max(ends) - SETTLED_NS, most_events // 2
        course = Course([marks for tail in tails for marks in tail.marks])
        first_ns = min(tail.packets[0].begin_ns for tail in tails if tail.packets) - 1
        last_ns = self._settled_ns or min(max(settled_ns - span_ns // 2, first_ns), settled_ns)
        kept = self._kept_until(settled_ns)
        if not self._settled_ns:
            kept = some_records(kept, kept["time_ns"] > last_ns)
        had, each, since_ns, end_ns = course.happened(last_ns, settled_ns), 1.0, last_ns, settled_ns
        if had > half:
            each = (had + half) / half
            behind = place * (had + half)
            since_ns = course.by(last_ns, settled_ns, behind - half)
            end_ns = course.by(last_ns, settled_ns, behind)
        begin_ns = course.begin(end_ns, span_ns, most_events)
        for tail in tails:
            # The next part may begin just behind this time.
            tail.forget(min(begin_ns, course.begin(settled_ns, span_ns, most_events)))
        streams = [tail.between(begin_ns, end_ns) for tail in tails]
        begin_ns = max(begin_ns, _since(streams, end_ns, most_events))
        since_ns = max(since_ns, begin_ns)
        self._settled_ns = settled_ns
        events = round(course.happened(since_ns, end_ns))
        for stream in streams:
            _cut(stream, begin_ns, end_ns)
        damage = [line for stream in streams for line in stream.damage]
        for stream in streams:
            for number in self._numbers:
                stream.slots.pop(number, None)
        streams.append(self._memory())
        trace = assemble(
            self._directory, self._machine, self._metadata, streams, damage, whole=False,
            alone=True,
        )  # fmt: skip
        return Snapshot(
            trace, begin_ns, since_ns, end_ns, events, max(round(had) - events, 0),
            settled_ns - last_ns - (end_ns - since_ns), each, kept,
        )  # fmt: skip

    def _kept_of(self, parts: Sequence[Mapping[str, NDArray[np.void]]]) -> NDArray[np.void]:
        """``parts``: events by their points."""
        found = []
        for name, keep in self._keep.items():
            events = np.concatenate([np.zeros(0, EVENT), *(part[name] for part in parts)])
            found.append(keep(events.view(self._metadata.dtypes[name])))
        return records(found) if found else np.zeros(0, TIMED)

    def _kept_until(self, until_ns: int) -> NDArray[np.void]:
        """What happened by then, which is over with that."""
        over = self._kept["time_ns"] <= until_ns
        found, self._kept = some_records(self._kept, over), some_records(self._kept, ~over)
        return found

    def _grow(self) -> None:
        kept = []
        for path in read_once(sorted(self._directory.iterdir(), key=stream_order))[0]:
            if stream_cpu(path.name) is None:
                continue
            if path.name not in self._tails:
                self._tails[path.name] = self._tail(path)
            tail = self._tails[path.name]
            for packet in tail.grow():
                data = tail.events(packet)
                events = np.frombuffer(data, EVENT)
                points = _points(events)
                tail.marks.append(_marks(data))
                self._remember(events[self._is_remembered[points]])
                kept.append({
                    name: events[np.flatnonzero(points == self._metadata.points[name])]
                    for name in self._keep
                })  # fmt: skip
        if kept:
            self._kept = records([self._kept, self._kept_of(kept)])
        if len(self._remembered) > self._most_bytes:
            self._forget_what_was_said()
            twice = 2 * max(len(self._remembered), FEW_REMEMBERED * EVENT_BYTES)
            self._most_bytes = min(twice, MOST_REMEMBERED * EVENT_BYTES // 2)

    def _tail(self, path: Path) -> Tail:
        framed = Packets(path) if is_framed(path.name) else None
        fd = os.dup(framed.fd) if framed else os.open(path, os.O_RDWR | os.O_CLOEXEC)
        return Tail(path, self._metadata.uuid, fd, self._expected, framed)

    def _remember(self, events: NDArray[np.void]) -> None:
        self._remembered += events.tobytes()
        del self._remembered[: -MOST_REMEMBERED * EVENT_BYTES]

    def _forget_what_was_said(self) -> None:
        """Of a thread what it was told to be before, unless that is so new that something in
        between may still come."""
        slots = np.frombuffer(self._remembered, np.uint8).reshape(-1, EVENT_BYTES)
        times, points = slots.view("<u8")[:, 0].astype(np.int64), slots.view("<u2")[:, 4]
        kept = np.ones(len(slots), np.bool_)
        for name in TOLD_ANEW:
            rows = np.flatnonzero(points == self._metadata.points.get(name, 0))
            if not len(rows):
                continue
            told = slots[rows].view(self._metadata.dtypes[name])[:, 0]
            order = order_of(told["subject_tid"].astype(np.int64), times[rows])
            rows, subject = rows[order], told["subject_tid"][order]
            said = slots[rows, SAID_AT:]
            again = np.zeros(len(rows), np.bool_)
            again[1:] = (subject[1:] == subject[:-1]) & (said[1:] == said[:-1]).all(axis=1)
            again &= times[rows] < times.max() - 2 * SETTLED_NS
            kept[rows[again]] = False
        self._remembered = bytearray(slots[kept].tobytes())

    def _memory(self) -> Stream:
        """The remembered events as a stream of their own."""
        stream = Stream(MEMORY_STREAM, UNKNOWN_CPU, bytes(self._remembered), in_order=False)
        numbers = stream.column("<u2", 8)
        times = stream.column("<u8", 0)
        for number in distinct(numbers).tolist():
            slots = np.flatnonzero(numbers == number)
            stream.slots[number], stream.times[number] = slots.astype(np.uint32), times[slots]
        return stream


def _points(events: NDArray[np.void]) -> NDArray[np.uint16]:
    """Of each event; in a row of their own, as they are looked at more than once."""
    told = events.view("<u2").reshape(-1, EVENT_BYTES // 2)[:, 4]
    return np.ascontiguousarray(told)


def _marks(data: bytes) -> Marks:
    times = np.frombuffer(data, "<i8").reshape(-1, EVENT_BYTES // 8)[::STEP, 0].copy()
    return Marks(times, len(data) / EVENT_BYTES / max(len(times), 1))


def _since(streams: list[Stream], until_ns: int, most_events: int) -> int:
    """Since when there were no more than so many; 0: there never were. Packets are of up to a
    quarter of a second, and there is one of each CPU."""
    every = [times for stream in streams for times in stream.times.values()]
    times = np.concatenate([np.zeros(0, np.uint64), *every])
    times = times[times <= until_ns]
    if len(times) <= most_events:
        return 0
    return int(np.partition(times, -most_events)[-most_events])


def _cut(stream: Stream, begin_ns: int, end_ns: int) -> None:
    """Leaves only what happened in that time."""
    for number, times in stream.times.items():
        kept = (times >= begin_ns) & (times <= end_ns)
        stream.slots[number], stream.times[number] = stream.slots[number][kept], times[kept]
    stream.event_count = sum(len(slots) for slots in stream.slots.values())


def _punch(fd: int, size_bytes: int) -> bool:
    """Gives a file's first bytes back to the disk; its size, and who writes on, see nothing.

    False: its file system cannot do that.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    offset = ctypes.c_int64
    error: int = libc.fallocate(fd, KEEP_SIZE_PUNCH_HOLE, offset(0), offset(size_bytes))
    return error == 0
