# SPDX-License-Identifier: Apache-2.0
"""Export: names and times in, packets of a Perfetto trace out.

Each packet comes as a field of the whole trace, so that they can be appended. Those of which there
are many are written here, byte by byte: Perfetto's own definitions take several times as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import count
from typing import Any, Final

from iostrata.errors import MissingPackage

# Of fields: number << 3 | kind, in the order of their numbers.
PACKET: Final = b"\x0a"
TIMESTAMP: Final = b"\x40"
SEQUENCE: Final = b"\x50"
TRACK_EVENT: Final = b"\x5a"
NEEDS_STATE: Final = b"\x68\x02"
ANNOTATION: Final = b"\x22"
INT_VALUE: Final = b"\x20"
STRING_VALUE: Final = b"\x32"
ANNOTATION_NAME: Final = b"\x52"
BEGIN: Final = b"\x48\x01"
END: Final = b"\x48\x02"
NAME_IID: Final = b"\x50"
TRACK: Final = b"\x58"
FLOW_ID: Final = b"\xf9\x02"
FLOW_BYTES: Final = 8

BYTES: Final = tuple(bytes([number]) for number in range(128))
WORD: Final = (1 << 64) - 1
PAIR_BITS: Final = 14
OF_PAIR: Final = (1 << PAIR_BITS) - 1


def varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first; one below 0 as one of 64 bits."""
    if 0 <= number < len(BYTES):
        return BYTES[number]
    rest, pairs, digits = number & WORD, _pairs(), b""
    while rest > OF_PAIR:
        digits += pairs[rest & OF_PAIR]
        rest >>= PAIR_BITS
    if rest >= len(BYTES):
        digits += bytes([rest & 127 | 128])
        rest >>= 7
    return digits + BYTES[rest]


@cache
def _pairs() -> tuple[bytes, ...]:
    """Two bytes that more come behind."""
    return tuple(bytes([low | 128, high | 128]) for high in range(128) for low in range(128))


def _sized(text: bytes) -> bytes:
    return varint(len(text)) + text


@lru_cache
def _begin(name: int, track: int) -> bytes:
    return BEGIN + NAME_IID + varint(name) + TRACK + varint(track)


@lru_cache
def _end(track: int) -> bytes:
    return END + TRACK + varint(track)


@lru_cache
def _name(key: str) -> bytes:
    return ANNOTATION_NAME + _sized(key.encode())


def _annotation(key: str, value: int | str) -> bytes:
    if isinstance(value, str):
        return ANNOTATION + _sized(STRING_VALUE + _sized(value.encode()) + _name(key))
    return ANNOTATION + _sized(INT_VALUE + varint(value) + _name(key))


def check_perfetto() -> None:
    """MissingPackage if Perfetto's definitions are not installed."""
    try:
        import perfetto.protos.perfetto.trace.perfetto_trace_pb2  # noqa: F401, PLC0415
    except ImportError as error:
        raise MissingPackage(
            f"a Perfetto trace needs Perfetto's own package, which cannot be loaded: {error}",
            'pip install "iostrata[perfetto]"',
        ) from error


class Sequence:
    """The packets of one machine: its names are its own, and so may its clock be.

    ``number``: from 1. ``clock``: of its times. ``uuids``: of the whole trace's tracks.
    """

    def __init__(
        self, number: int, clock: int, names: Iterable[str], uuids: Iterator[int] | None = None
    ) -> None:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos  # noqa: PLC0415

        self._protos: Any = protos
        self._number, self._clock = number, clock
        self._own = SEQUENCE + varint(number) + TRACK_EVENT
        self._names = {name: iid for iid, name in enumerate(dict.fromkeys(names), 1)}
        self._uuids = uuids or count(1)

    def first(self) -> bytes:
        packet = self._packet(sequence_flags=self._protos.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED)
        packet.trace_packet_defaults.timestamp_clock_id = self._clock
        for name, iid in self._names.items():
            packet.interned_data.event_names.add(iid=iid, name=name)
        return self._bytes(packet)

    def snapshot(self, times: dict[int, int]) -> bytes:
        """One instant by several clocks, of which the first is the trace's own."""
        primary, *_ = times
        packet = self._packet(timestamp=times[primary])
        if primary != self._clock:
            packet.timestamp_clock_id = primary
        packet.clock_snapshot.primary_trace_clock = primary
        for clock, time_ns in times.items():
            packet.clock_snapshot.clocks.add(clock_id=clock, timestamp=time_ns)
        return self._bytes(packet)

    def track(self, name: str, parent: int, rank: int = 0, said: str = "") -> tuple[int, bytes]:
        """A track's number, and what declares it; ``rank``: its place in its parent."""
        uuid = next(self._uuids)
        packet = self._packet()
        track = packet.track_descriptor
        track.uuid, track.name = uuid, name
        if parent:
            track.parent_uuid = parent
            track.sibling_order_rank = rank
        if said:
            track.description = said
        track.child_ordering = track.ChildTracksOrdering.EXPLICIT
        return uuid, self._bytes(packet)

    def begin(
        self,
        track: int,
        time_ns: int,
        name: str,
        flows: Iterable[int] = (),
        said: Iterable[tuple[str, int | str]] = (),
    ) -> bytes:
        event = b"".join([_annotation(key, value) for key, value in said])
        event += _begin(self._names[name], track)
        for flow in flows:
            event += FLOW_ID + flow.to_bytes(FLOW_BYTES, "little")
        return self._event(time_ns, event, NEEDS_STATE)

    def end(self, track: int, time_ns: int) -> bytes:
        return self._event(time_ns, _end(track), b"")

    def _event(self, time_ns: int, event: bytes, flags: bytes) -> bytes:
        packet = TIMESTAMP + varint(time_ns) + self._own + _sized(event) + flags
        return PACKET + _sized(packet)

    def _packet(self, **fields: Any) -> Any:
        return self._protos.TracePacket(trusted_packet_sequence_id=self._number, **fields)

    def _bytes(self, packet: Any) -> bytes:
        whole: bytes = self._protos.Trace(packet=[packet]).SerializeToString()
        return whole
