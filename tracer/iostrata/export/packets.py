# SPDX-License-Identifier: Apache-2.0
"""Export: names and times in, packets of a Perfetto trace out.

Each packet comes as a field of the whole trace, so that they can be appended.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

from iostrata.errors import MissingPackage


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
        packet = self._packet(
            timestamp=time_ns,
            sequence_flags=self._protos.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE,
        )
        event = packet.track_event
        event.type, event.track_uuid = event.TYPE_SLICE_BEGIN, track
        event.name_iid = self._names[name]
        event.flow_ids.extend(flows)
        for key, value in said:
            if isinstance(value, str):
                event.debug_annotations.add(name=key, string_value=value)
            else:
                event.debug_annotations.add(name=key, int_value=value)
        return self._bytes(packet)

    def end(self, track: int, time_ns: int) -> bytes:
        packet = self._packet(timestamp=time_ns)
        packet.track_event.type = packet.track_event.TYPE_SLICE_END
        packet.track_event.track_uuid = track
        return self._bytes(packet)

    def _packet(self, **fields: Any) -> Any:
        return self._protos.TracePacket(trusted_packet_sequence_id=self._number, **fields)

    def _bytes(self, packet: Any) -> bytes:
        whole: bytes = self._protos.Trace(packet=[packet]).SerializeToString()
        return whole
