# SPDX-License-Identifier: Apache-2.0
"""Export: slices of writes in, a Perfetto trace out, for ui.perfetto.dev.

Tracks: the machine; below it ``writes`` (each write, and in it who held the time)
and one a layer (what was at work there, as long as it was). What overlaps is on
several tracks of one name, which Perfetto shows as one. Times stay the machine's
CLOCK_MONOTONIC; its clock samples say what they are by the other clocks.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from iostrata import __version__
from iostrata.errors import UsageError
from iostrata.export.slices import Slices
from iostrata.model import Layer
from iostrata.pipeline import Material
from iostrata.stitch.join import Ints
from iostrata.stitch.spans import Spans

SEQUENCE: Final = 1
UNATTRIBUTED: Final = "unattributed"


def check_perfetto() -> None:
    """UsageError if Perfetto's definitions are not installed."""
    try:
        import perfetto.protos.perfetto.trace.perfetto_trace_pb2  # noqa: F401, PLC0415
    except ImportError as error:
        raise UsageError(
            f"a Perfetto trace needs Perfetto's own package, which cannot be loaded: {error}",
            'pip install "iostrata[perfetto]"',
        ) from error


def write_perfetto(path: Path, found: Material, rows: Ints, slices: Slices) -> None:
    """The writes in ``rows``, their spans and segments, and the machine's clocks."""
    with path.open("wb") as file:
        for packet in _Packets(found).all(rows, slices):
            file.write(packet)


class _Packets:
    """Makes the trace's packets, each as a field of the whole, so that they can be appended."""

    def __init__(self, found: Material) -> None:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos  # noqa: PLC0415

        self._protos: Any = protos
        self._trace, self._writes = found.trace, found.writes
        self._layers = found.path.in_order()
        self._layer_of_rank = found.path.layers
        self._last_track = 0
        self._names = {
            name: number
            for number, name in enumerate(
                [
                    *(layer.name for layer in self._layers),
                    UNATTRIBUTED,
                    *found.writes.names["method"],
                ],
                1,
            )
        }

    def all(self, rows: Ints, slices: Slices) -> Iterator[bytes]:
        yield self._first()
        yield from self._clocks()
        machine = self._track(f"{self._trace.machine}, {self._trace.env.get('hostname', '?')}", 0)
        yield machine[1]
        yield from self._of_writes(machine[0], rows, slices.segments)
        places = {layer: place for place, layer in enumerate(self._layers)}
        place_of_rank = np.array(
            [places.get(layer, -1) if layer else -1 for layer in self._layer_of_rank]
        )
        number = place_of_rank[slices.spans.rank]
        for place, layer in enumerate(self._layers):
            spans = slices.spans.where(number == place)
            if len(spans):
                yield from self._of_layer(machine[0], place + 1, layer, spans)

    def _packet(self, **fields: Any) -> Any:
        return self._protos.TracePacket(trusted_packet_sequence_id=SEQUENCE, **fields)

    def _bytes(self, packet: Any) -> bytes:
        whole: bytes = self._protos.Trace(packet=[packet]).SerializeToString()
        return whole

    def _first(self) -> bytes:
        packet = self._packet(sequence_flags=self._protos.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED)
        packet.trace_packet_defaults.timestamp_clock_id = (
            self._protos.BuiltinClock.BUILTIN_CLOCK_MONOTONIC
        )
        for name, number in self._names.items():
            packet.interned_data.event_names.add(iid=number, name=name)
        return self._bytes(packet)

    def _clocks(self) -> Iterator[bytes]:
        """Each of the recording's clock samples; without any, there is only the one clock."""
        kinds = self._protos.BuiltinClock
        samples = self._trace.points["clock_sample"]
        columns = [samples.time_ns, samples["boottime_ns"], samples["realtime_ns"]]
        rows = np.stack([column.astype(np.int64) for column in columns], axis=1).tolist()
        clocks = (
            kinds.BUILTIN_CLOCK_MONOTONIC, kinds.BUILTIN_CLOCK_BOOTTIME,
            kinds.BUILTIN_CLOCK_REALTIME,
        )  # fmt: skip
        for row in rows or [[self._trace.begin_ns]]:
            packet = self._packet(timestamp=row[0])
            snapshot = packet.clock_snapshot
            snapshot.primary_trace_clock = kinds.BUILTIN_CLOCK_MONOTONIC
            for clock, time in zip(clocks, row, strict=False):
                snapshot.clocks.add(clock_id=clock, timestamp=time)
            yield self._bytes(packet)

    def _track(self, name: str, parent: int, rank: int = 0, said: str = "") -> tuple[int, bytes]:
        self._last_track += 1
        packet = self._packet()
        track = packet.track_descriptor
        track.uuid, track.name = self._last_track, name
        if parent:
            track.parent_uuid = parent
            track.sibling_order_rank = rank
        if said:
            track.description = said
        track.child_ordering = track.ChildTracksOrdering.EXPLICIT
        return self._last_track, self._bytes(packet)

    def _of_writes(self, machine: int, rows: Ints, segments: Spans) -> Iterator[bytes]:
        """Each write is a slice; in it, who held its time."""
        writes = self._writes
        group = self._track("writes", machine, 0, f"by iostrata {__version__}")
        yield group[1]
        begin, end, threads = writes.begin_ns[rows], writes.end_ns[rows], writes.tid[rows]
        first = np.searchsorted(segments.owner, rows, side="left")
        last = np.searchsorted(segments.owner, rows, side="right")
        names = [UNATTRIBUTED]
        names += [layer.name if layer else UNATTRIBUTED for layer in self._layer_of_rank]
        for thread in np.unique(threads):
            mine = np.flatnonzero(threads == thread)
            process = writes.names["process"][writes.codes["process"][rows[mine[0]]]]
            name = f"thread {thread} of {process}"
            for lane in _lanes(begin[mine], end[mine]):
                track, packet = self._track(name, group[0])
                yield packet
                for one in mine[lane].tolist():
                    yield self._begin(
                        track, int(begin[one]), self._method(int(rows[one])),
                        int(rows[one]) + 1, self._said(int(rows[one])),
                    )  # fmt: skip
                    for part in range(first[one], last[one]):
                        held = names[segments.rank[part] + 1]
                        yield self._begin(track, int(segments.begin_ns[part]), held)
                        yield self._end(track, int(segments.end_ns[part]))
                    yield self._end(track, int(end[one]))

    def _of_layer(self, machine: int, rank: int, layer: Layer, spans: Spans) -> Iterator[bytes]:
        for lane in _lanes(spans.begin_ns, spans.end_ns):
            track, packet = self._track(layer.name, machine, rank, layer.meaning)
            yield packet
            for one in lane:
                number = int(spans.owner[one]) + 1
                yield self._begin(
                    track, int(spans.begin_ns[one]), layer.name, number, (("write", number),)
                )
                yield self._end(track, int(spans.end_ns[one]))

    def _begin(
        self,
        track: int,
        time_ns: int,
        name: str,
        flow: int = 0,
        said: Iterable[tuple[str, int | str]] = (),
    ) -> bytes:
        packet = self._packet(
            timestamp=time_ns,
            sequence_flags=self._protos.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE,
        )
        event = packet.track_event
        event.type, event.track_uuid = event.TYPE_SLICE_BEGIN, track
        event.name_iid = self._names[name]
        if flow:
            event.flow_ids.append(flow)
        for key, value in said:
            if isinstance(value, str):
                event.debug_annotations.add(name=key, string_value=value)
            else:
                event.debug_annotations.add(name=key, int_value=value)
        return self._bytes(packet)

    def _end(self, track: int, time_ns: int) -> bytes:
        packet = self._packet(timestamp=time_ns)
        packet.track_event.type = packet.track_event.TYPE_SLICE_END
        packet.track_event.track_uuid = track
        return self._bytes(packet)

    def _method(self, row: int) -> str:
        name: str = self._writes.names["method"][int(self._writes.codes["method"][row])]
        return name

    def _said(self, row: int) -> Iterator[tuple[str, int | str]]:
        writes = self._writes
        yield "write", row + 1
        yield "latency_ns", int(writes.latency_ns[row])
        for name in ("process", "file_system", "device"):
            yield name, writes.names[name][writes.codes[name][row]]
        for name in ("tid", "size_bytes", "offset_bytes", "inode"):
            yield name, int(getattr(writes, name)[row])


def _lanes(begin_ns: Ints, end_ns: Ints) -> Sequence[list[int]]:
    """Rows by lane, in order of time: no two of a lane overlap."""
    lanes: list[list[int]] = []
    free: list[tuple[int, int]] = []
    begins, ends = begin_ns.tolist(), end_ns.tolist()
    for row in np.lexsort((end_ns, begin_ns)).tolist():
        if free and free[0][0] <= begins[row]:
            lane = heapq.heappop(free)[1]
        else:
            lane = len(lanes)
            lanes.append([])
        lanes[lane].append(row)
        heapq.heappush(free, (ends[row], lane))
    return lanes
