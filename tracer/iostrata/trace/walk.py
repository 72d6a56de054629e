# SPDX-License-Identifier: Apache-2.0
"""Walk: a stream's bytes in, its good packets, its damage and the slots of each point out.

A packet that fails any check is left out whole, and the next one is found by its magic number
and UUID. A file that is still being written is followed by its tail, in memory
(``iostrata.trace.follow``).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata import native
from iostrata.columns import distinct
from iostrata.trace.growing import Growing
from iostrata.trace.layout import EVENT_BYTES
from iostrata.trace.packet import (
    EVENT_BITS,
    HEAD,
    HEAD_BITS,
    HEAD_BYTES,
    HEAD_SLOTS,
    MAGIC,
    Data,
    Packet,
    checksum,
)
from iostrata.trace.stream import (
    RECORDER_CPU,
    SINCE_BEGIN,
    SPAN_BYTES,
    UNKNOWN_COUNT,
    UNTIL_END,
    Gap,
    Stream,
    Times,
)
from iostrata.trace.times import BEFORE_NS, LATEST_NS, Expected, impossible

ANYTHING = Expected()
# Packets, of a file of noise that was made for it, may be claimed anywhere, each up to its end.
MOST_CUT_BYTES: Final = 64 << 20
MOST_IN_VAIN: Final = 64
"""Times the file's size that are read for checksums which are wrong."""
MOST_DAMAGES: Final = 1000
"""Stretches of one file: behind them it is not read."""


class Walk:
    """From packet to packet through one file, indexing a span of events at a time.

    ``before``: the packet before the first of ``data``, which is a file's tail then. ``broken``:
    where it is known that there is no packet, and why.
    """

    def __init__(
        self,
        stream: Stream,
        data: Data,
        uuid: bytes,
        before: Packet | None = None,
        expected: Expected = ANYTHING,
        broken: Mapping[int, str] | None = None,
    ) -> None:
        self._stream = stream
        self._before = before
        self._expected = expected
        self._broken = broken or {}
        self._data = data
        self._uuid = uuid
        self._mark = struct.pack("<I16s", MAGIC, uuid)
        self._packets: list[Packet] = []
        # Of each point, slots and times.
        self._points: dict[int, Growing] = {}
        self._last_ns = 0
        self._number = before.number + 1 if before else 0
        self._patience_bytes = MOST_IN_VAIN * len(data)
        self._damages = 0
        told = native.Told.of(
            {
                number: [(one.offset, one.zero) for one in fields]
                for number, fields in expected.fields.items()
            },
            max(expected.begin_ns - BEFORE_NS, 0),
        )
        self._devices, self._all_noted = native.Noted(expected.devices), True
        self._index_in_c = native.Index(told, self._devices, expected.slept)

    def run(self, missing_bytes: int = 0) -> None:
        """``missing_bytes``: what the file has behind the data, and is not looked at."""
        previous = self._before
        self._stream.discarded = previous.discarded if previous else 0
        damaged = False
        span_at = 0
        for packet in self.walk():
            if packet is None:
                damaged = True
                continue
            self._follow(previous, packet, damaged)
            previous, damaged = packet, False
            self._packets.append(packet)
            if packet.end - span_at >= SPAN_BYTES:
                self._index()
                span_at = packet.end
        if missing_bytes > 0:
            self._damage(f"a hole: {missing_bytes} bytes are not read")
            damaged = True
        if damaged:
            self._gap(previous.end_ns if previous else SINCE_BEGIN, UNTIL_END, UNKNOWN_COUNT)
        self._index()
        slept = self._points.pop(native.WHO_SLEPT, None)
        for number, point in self._points.items():
            self._stream.slots[number], self._stream.times[number] = point.values
        if self._all_noted:
            self._stream.devices = self._devices.values()
            self._stream.slept = slept.values if slept else None

    def walk(self) -> Iterator[Packet | None]:
        """Each good packet, or what there is of the last; None for a stretch that is none."""
        at = 0
        while at < len(self._data):
            found = self._packet(at)
            if isinstance(found, Packet):
                yield found
                at = found.end
            else:
                following = self._next(at + EVENT_BYTES)
                self._damages += 1
                if self._patience_bytes < 0 or self._damages > MOST_DAMAGES:
                    self._damage(f"too much is wrong: {len(self._data) - at} bytes are not read")
                    yield None
                    return
                cut = self._cut(at) if following == len(self._data) else None
                self._damage(f"{found}; {cut.count} events are read" if cut else found)
                at = following
                yield from (cut, None) if cut else (None,)
            self._number += 1

    def _packet(self, at: int) -> Packet | str:
        """The packet at a place in the file, or why there is none."""
        if at in self._broken:
            return self._broken[at]
        left = len(self._data) - at
        if left < HEAD_BYTES:
            return f"truncated: {left} bytes where a packet's head belongs"
        (
            magic,
            uuid,
            stream_id,
            begin_ns,
            end_ns,
            content_bits,
            packet_bits,
            sequence,
            discarded,
            cpu,
            crc,
        ) = HEAD.unpack_from(self._data, at)
        if magic != MAGIC:
            return "no packet begins here (bad magic number)"
        if uuid != self._uuid:
            return "it belongs to another trace (UUID)"
        size = packet_bits // 8
        if packet_bits % EVENT_BITS or size < HEAD_BYTES or content_bits > packet_bits:
            return "its sizes are impossible"
        if size > left:
            return f"truncated: {left} of {size} bytes"
        if checksum(self._data, at, size) != crc:
            self._patience_bytes -= size
            return "checksum mismatch"
        if stream_id != 0 or begin_ns > end_ns or end_ns > LATEST_NS:
            return "its head contradicts itself"
        if max(sequence, discarded) > UNTIL_END or cpu > RECORDER_CPU:
            return "its head contradicts itself"
        count = max(0, -(-(content_bits - HEAD_BITS) // EVENT_BITS))
        return Packet(
            self._number,
            at // EVENT_BYTES + HEAD_SLOTS,
            count,
            begin_ns,
            end_ns,
            sequence,
            discarded,
            cpu,
            at + size,
        )

    def _cut(self, at: int) -> Packet | None:
        """What there is of a file's last packet where its end is missing; None: it was not cut.

        No checksum vouches for it: its events follow each other in its time, and the last of them
        is missing. Where that is there, or what follows is none of its, nobody knows which are.
        """
        left = len(self._data) - at
        if left < HEAD_BYTES + EVENT_BYTES:
            return None
        magic, uuid, stream_id, begin_ns, end_ns, content_bits, packet_bits, *rest = (
            HEAD.unpack_from(self._data, at)
        )
        sequence, discarded, cpu, _ = rest
        if magic != MAGIC or uuid != self._uuid or stream_id != 0:
            return None
        # Where all that it holds is there, or its sizes are not of one packet, its head is wrong.
        size = HEAD_BYTES + -(-(content_bits - HEAD_BITS) // EVENT_BITS) * EVENT_BYTES
        if left >= size or packet_bits != size * 8:
            return None
        if max(end_ns, sequence, discarded) > LATEST_NS or cpu > RECORDER_CPU:
            return None
        first = at // EVENT_BYTES + HEAD_SLOTS
        times = self._stream.column("<u8", 0)[first : len(self._data) // EVENT_BYTES]
        times = times[: MOST_CUT_BYTES // EVENT_BYTES]
        wrong = (times >= end_ns) | (times < np.append(np.uint64(begin_ns), times[:-1]))
        if wrong.any() or times[0] != begin_ns:
            return None
        last_ns, count = int(times[-1]), len(times)
        end = at + HEAD_BYTES + count * EVENT_BYTES
        return Packet(self._number, first, count, begin_ns, last_ns, sequence, discarded, cpu, end)

    def _next(self, at: int) -> int:
        """Where the next packet's head is; the end of the file if there is none."""
        while (at := self._data.find(self._mark, at)) >= 0:
            if at % EVENT_BYTES == 0:
                return at
            at += 1
        return len(self._data)

    def _follow(self, previous: Packet | None, packet: Packet, damaged: bool) -> None:
        """What happened between two good packets."""
        stream = self._stream
        since_ns = previous.end_ns if previous else SINCE_BEGIN
        if not stream.packet_count:
            stream.begin_ns = packet.begin_ns
        if previous is None:
            stream.cpu = packet.cpu
        elif packet.cpu != previous.cpu:
            self._damage(f"it is of CPU {packet.cpu}, the one before of CPU {previous.cpu}")
        missing = packet.sequence - (previous.sequence + 1 if previous else 0)
        if missing < 0:
            self._damage(f"sequence number {packet.sequence} again")
        elif missing and not damaged:
            self._damage(f"{missing} packet{'s' * (missing > 1)} missing before it")
        if missing > 0 or damaged:
            self._gap(since_ns, max(since_ns, packet.begin_ns), UNKNOWN_COUNT)
        refused = packet.discarded - stream.discarded
        if refused < 0:
            self._damage("its count of refused events is below the one before")
        elif refused:
            # Of a packet that is earlier than the one before it, nobody knows when.
            first_ns = since_ns if since_ns <= packet.end_ns else packet.begin_ns
            self._gap(first_ns, max(since_ns, packet.end_ns), refused, packet.discarded)
        stream.discarded = max(stream.discarded, packet.discarded)
        stream.packet_count += 1
        stream.event_count += packet.count
        stream.end_ns = max(stream.end_ns, packet.end_ns)

    def _index(self) -> None:
        """Note the slots of the packets collected, by point; check their times."""
        packets, self._packets = self._packets, []
        total = sum(packet.count for packet in packets)
        if not total or self._index_whole(packets, total):
            return
        self._all_noted = False
        ranges = [(packet.first_slot, packet.first_slot + packet.count) for packet in packets]
        every_time, every_number = self._stream.column("<u8", 0), self._stream.column("<u2", 8)
        slots = np.concatenate([np.arange(begin, end) for begin, end in ranges])
        times = np.concatenate([every_time[begin:end] for begin, end in ranges])
        numbers = np.concatenate([every_number[begin:end] for begin, end in ranges])
        owner = np.repeat(np.arange(len(packets)), [packet.count for packet in packets])
        order = np.argsort(numbers, kind="stable")
        if len(wrong := self._wrong(packets, slots, times, numbers, order)):
            self._leave_out(packets, owner[wrong])
            kept = np.ones(total, np.bool_)
            kept[wrong] = False
            slots, times, numbers, owner = slots[kept], times[kept], numbers[kept], owner[kept]
            if not len(slots):
                return
            order = np.argsort(numbers, kind="stable")
        self._check_order(packets, owner, times)
        times, ordered = times[order], slots[order].astype(np.uint32)
        for number, begin, end in _runs(numbers[order]):
            point = self._points.setdefault(number, Growing())
            point.extend(ordered[begin:end], times[begin:end], self._share(packets))
            self._index_in_c.put_at(number, point.numbers, point.times, point.count)
        self._stream.release(slots)

    def _index_whole(self, packets: list[Packet], total: int) -> bool:
        """The same, if C is there and nothing is wrong."""
        if native.LIBRARY is None:
            return False
        spans = [(one.first_slot, one.count, one.begin_ns, one.end_ns) for one in packets]
        index, slots = self._index_in_c, self._stream.column("V64", 0)
        counts = index.look_at(slots, spans, total, self._last_ns)
        if counts is None:
            return False
        for number, count in counts.items():
            point = self._points.setdefault(number, Growing())
            if point.make_room(count, self._share(packets)):
                index.put_at(number, point.numbers, point.times, point.count)
            point.count += count
        self._last_ns = index.put()
        first, last = packets[0], packets[-1]
        self._stream.release(np.array([first.first_slot, last.first_slot + last.count - 1]))
        return True

    def _share(self, packets: list[Packet]) -> float:
        """How much of the file is known with some packets."""
        return packets[-1].end / len(self._data)

    def _wrong(
        self,
        packets: list[Packet],
        slots: NDArray[np.int64],
        times: Times,
        numbers: NDArray[np.uint16],
        order: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        """The events that tell times which cannot be, or are none of their packet's.

        ``order``: all rows, by number.
        """
        wrong = np.zeros(len(times), np.bool_)
        first = 0
        for packet in packets:
            last = first + packet.count
            own = times[first:last]
            if len(own) and not packet.begin_ns <= own.min() <= own.max() <= packet.end_ns:
                wrong[first:last] = (own < packet.begin_ns) | (own > packet.end_ns)
            first = last
        for number, begin, end in _runs(numbers[order]):
            rows = order[begin:end]
            for one in self._expected.fields.get(number, ()):
                told = self._stream.column("<u8", one.offset)[slots[rows]]
                wrong[rows] |= impossible(told, times[rows], one.zero, self._expected.begin_ns)
        return np.flatnonzero(wrong)

    def _leave_out(self, packets: list[Packet], owner: NDArray[np.int64]) -> None:
        """``owner``: of each event that is left out, its packet."""
        for index, count in zip(*np.unique(owner, return_counts=True), strict=True):
            packet = packets[index]
            what = "event tells a time" if count == 1 else "events tell times"
            self._stream.damage.append(
                f"{self._stream.name}: packet {packet.number}: {count} {what} that cannot be"
            )
            self._gap(packet.begin_ns, packet.end_ns, UNKNOWN_COUNT)

    def _check_order(self, packets: list[Packet], owner: NDArray[np.int64], times: Times) -> None:
        stream = self._stream
        last_ns, self._last_ns = self._last_ns, int(times[-1])
        if times[0] >= last_ns and (times[1:] >= times[:-1]).all():
            return
        before = np.concatenate(([np.uint64(last_ns)], times[:-1]))
        for index in distinct(owner[times < before]).tolist():
            stream.in_order = False
            why = "its events are not in order of time"
            stream.damage.append(f"{stream.name}: packet {packets[index].number}: {why}")

    def _gap(self, begin_ns: int, end_ns: int, count: int, total: int = 0) -> None:
        self._stream.gaps.append(Gap(begin_ns, end_ns, self._stream.cpu, count, total))

    def _damage(self, why: str) -> None:
        self._stream.damage.append(f"{self._stream.name}: packet {self._number}: {why}")


def _runs(numbers: NDArray[np.uint16]) -> Iterator[tuple[int, int, int]]:
    """Each of the ascending numbers, and where its rows begin and end."""
    edges = [0, *(np.flatnonzero(np.diff(numbers)) + 1).tolist(), len(numbers)]
    for begin, end in pairwise(edges):
        yield int(numbers[begin]), begin, end
