# SPDX-License-Identifier: Apache-2.0
"""Export: slices of writes in, a Perfetto trace out, for ui.perfetto.dev.

A group of tracks a machine: on the one with the workload ``writes``, or ``reads`` (each write,
and in it who held the time); on each, one track a layer (what was at work there, as long
as it was), below its segment where the path has more of them than a system and its
devices. What overlaps is on several tracks of one name, which Perfetto shows as one.

Each machine's times are its own CLOCK_MONOTONIC. The top machine's is the trace's;
any other is a clock of that machine's sequence of packets, which snapshots tie to it.
Flows lead through a write's slices on the top machine, and from what asked another
machine along the ways there and back.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from iostrata import __version__
from iostrata.columns import Ints, distinct
from iostrata.export.clocks import (
    MachineClock,
    by_first_clock,
    clock_of,
    first_times,
    own_times,
)
from iostrata.export.packets import Sequence
from iostrata.export.slices import Slices
from iostrata.foreign import shown
from iostrata.layers import HOPS, STACK
from iostrata.model import Layer

if TYPE_CHECKING:
    from iostrata.analysis import Prepared
    from iostrata.stitch import Spans

# perfetto.protos.BuiltinClock; from 64 on a clock is of one sequence.
REALTIME: Final = 1
MONOTONIC: Final = 3
BOOTTIME: Final = 6
OWN_CLOCK: Final = 64
UNATTRIBUTED: Final = "unattributed"
PLAIN: Final = frozenset({"OS", "device"})
FIRST_WAY: Final = 1 << 32
"""Flows below are writes', by number."""


def write_perfetto(path: Path, found: Prepared, rows: Ints, slices: Slices) -> None:
    """The writes in ``rows``, their spans and segments, and the machines' clocks."""
    found = replace(found, writes=by_first_clock(found))
    spans, segments = (_by_first_clock(found, of) for of in (slices.spans, slices.segments))
    slices = replace(slices, spans=spans, segments=segments)
    with path.open("wb") as file:
        for packet in _packets(found, rows, slices):
            file.write(packet)


def _by_first_clock(found: Prepared, spans: Spans) -> Spans:
    begin, end = (
        first_times(found, spans.owner, times) for times in (spans.begin_ns, spans.end_ns)
    )
    return replace(spans, begin_ns=begin, end_ns=end)


def _packets(found: Prepared, rows: Ints, slices: Slices) -> Iterator[bytes]:
    begin, end = int(found.writes.begin_ns[rows].min()), int(found.writes.end_ns[rows].max())
    flows, uuids = _Flows(slices.spans, found.path.graph.level(1, 0, above=True)), count(1)
    for number in range(len(found.path.members)):
        machine = _Machine(found, number, clock_of(found.path, number, begin, end), uuids)
        yield from machine.itself()
        if number == 0:
            yield from machine.of_writes(rows, slices.segments)
        yield from machine.of_layers(slices.spans, flows)


class _Flows:
    """Which flows each span is in: that of its write, that of a way between machines."""

    def __init__(self, spans: Spans, below: int) -> None:
        """``below``: the first rank that is not of a machine with a workload."""
        way = (spans.rank % len(STACK) < len(HOPS)) & (spans.of >= 0)
        asked = np.isin(spans.of, distinct(spans.of[way])) & (spans.of >= 0)
        self._write = np.where(spans.rank < below, spans.owner + 1, 0)
        self._way = np.where(asked, FIRST_WAY + spans.of, 0)

    def of(self, rows: Ints) -> Iterator[list[int]]:
        """Of each of some spans."""
        pairs = zip(self._write[rows].tolist(), self._way[rows].tolist(), strict=True)
        return ([flow for flow in pair if flow] for pair in pairs)


class _Machine:
    """The packets of one machine of the path: its clock, its tracks, its slices."""

    def __init__(
        self, found: Prepared, number: int, clock: MachineClock, uuids: Iterator[int]
    ) -> None:
        self._found, self._number, self._clock = found, number, clock
        self._trace = found.path.members[number].trace
        ordered = found.path.in_order()
        self._layers = [layer for layer in ordered if layer.machine == self._trace.machine]
        names = [layer.row for layer in self._layers]
        if number == 0:
            names += [layer.name for layer in ordered]
            names += [UNATTRIBUTED, *found.writes.names["method"]]
        own = OWN_CLOCK if number else MONOTONIC
        self._sequence = Sequence(number + 1, own, names, uuids)
        self._track = 0

    def itself(self) -> Iterator[bytes]:
        """What comes before its slices: names, clock, and the track that holds all others."""
        yield self._sequence.first()
        for times in self._snapshots():
            yield self._sequence.snapshot(times)
        name = f"{self._trace.machine}, {shown(str(self._trace.env.get('hostname', '?')))}"
        self._track, packet = self._sequence.track(name, 0)
        yield packet

    def _snapshots(self) -> Iterator[dict[int, int]]:
        """The top machine's own samples of its clocks; of another, how it is aligned."""
        if self._number:
            for top_ns, own_ns in zip(
                self._clock.top_ns.tolist(), self._clock.own_ns.tolist(), strict=True
            ):
                yield {MONOTONIC: top_ns, OWN_CLOCK: own_ns}
            return
        samples = self._trace.points["clock_sample"]
        columns = (samples.time_ns, samples["boottime_ns"], samples["realtime_ns"])
        for times in zip(*(column.tolist() for column in columns), strict=True):
            yield dict(zip((MONOTONIC, BOOTTIME, REALTIME), times, strict=True))
        if not len(samples):
            yield {MONOTONIC: self._trace.begin_ns}

    def _told(self, top_ns: Ints) -> Ints:
        """Times of the top machine's clock as this one's packets bear them."""
        return self._clock.of(own_times(self._found.path, self._number, top_ns))

    def of_layers(self, spans: Spans, flows: _Flows) -> Iterator[bytes]:
        """One track a layer, or more where its spans overlap."""
        places = {layer: place for place, layer in enumerate(self._layers)}
        place_of_rank = np.array(
            [places.get(layer, -1) if layer else -1 for layer in self._found.path.layers]
        )
        place = place_of_rank[self._found.path.place_of(spans.rank)]
        seen = {self._found.path.layer_of(rank) for rank in distinct(spans.rank).tolist()}
        plain = {layer.segment for layer in seen if layer} <= PLAIN
        segments: dict[str, int] = {}
        for number, layer in enumerate(self._layers):
            rows = np.flatnonzero(place == number)
            if not len(rows):
                continue
            if not plain and layer.segment not in segments:
                track, packet = self._sequence.track(layer.segment, self._track, number + 1)
                segments[layer.segment] = track
                yield packet
            parent = segments.get(layer.segment, self._track)
            for lane in _lanes(spans.begin_ns[rows], spans.end_ns[rows]):
                track, packet = self._sequence.track(layer.row, parent, number + 1, layer.meaning)
                yield packet
                yield from self._slices(track, layer, spans, rows[lane], flows)

    def _slices(
        self, track: int, layer: Layer, spans: Spans, rows: Ints, flows: _Flows
    ) -> Iterator[bytes]:
        begin, end = self._told(spans.begin_ns[rows]), self._told(spans.end_ns[rows])
        word, name, sequence = self._found.op.word, layer.row, self._sequence
        numbers = (spans.owner[rows] + 1).tolist()
        for number, begin_ns, end_ns, own in zip(
            numbers, begin.tolist(), end.tolist(), flows.of(rows), strict=True
        ):
            yield sequence.begin(track, begin_ns, name, own, ((word, number),))
            yield sequence.end(track, end_ns)

    def of_writes(self, rows: Ints, segments: Spans) -> Iterator[bytes]:
        """Each write is a slice; in it, who held its time."""
        writes, sequence = self._found.writes, self._sequence
        group, packet = sequence.track(
            f"{self._found.op.word}s", self._track, 0, f"by iostrata {__version__}"
        )
        yield packet
        begin, end, threads = writes.begin_ns[rows], writes.end_ns[rows], writes.tid[rows]
        first = np.searchsorted(segments.owner, rows, side="left")
        last = np.searchsorted(segments.owner, rows, side="right")
        names = [UNATTRIBUTED]
        names += [layer.name if layer else UNATTRIBUTED for layer in self._found.path.layers]
        place = self._found.path.place_of(segments.rank).tolist()
        begins, ends = segments.begin_ns.tolist(), segments.end_ns.tolist()
        whose = writes.codes["machine"][rows].astype(np.int64) << 32 | threads
        for one_of in distinct(whose):
            mine = np.flatnonzero(whose == one_of)
            thread = int(threads[mine[0]])
            process = writes.names["process"][writes.codes["process"][rows[mine[0]]]]
            name = f"thread {thread} of {process}"
            for lane in _lanes(begin[mine], end[mine]):
                track, packet = sequence.track(name, group)
                yield packet
                for one in mine[lane].tolist():
                    row = int(rows[one])
                    method = writes.names["method"][int(writes.codes["method"][row])]
                    yield sequence.begin(
                        track, int(begin[one]), method, (row + 1,), _said(self._found, row)
                    )
                    for part in range(first[one], last[one]):
                        held = names[place[part] + 1]
                        yield sequence.begin(track, begins[part], held)
                        yield sequence.end(track, ends[part])
                    yield sequence.end(track, int(end[one]))


def _said(found: Prepared, row: int) -> Iterator[tuple[str, int | str]]:
    writes = found.writes
    yield found.op.word, row + 1
    yield "latency_ns", int(writes.latency_ns[row])
    for name in ("process", "file_system", "device"):
        yield name, writes.names[name][writes.codes[name][row]]
    for name in ("tid", "size_bytes", "offset_bytes", "inode"):
        yield name, int(getattr(writes, name)[row])


def _lanes(begin_ns: Ints, end_ns: Ints) -> list[list[int]]:
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
