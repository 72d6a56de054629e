# SPDX-License-Identifier: Apache-2.0
"""Perfetto traces, read back with Perfetto's own definitions."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostrata.analysis import Beside, Prepared, breakdown_of, prepare
from iostrata.export.packets import Sequence
from iostrata.export.perfetto import _lanes, write_perfetto
from iostrata.export.slices import slices_of
from iostrata.recording import open_recording
from tests.cli.recordings import small_recording

protos = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
RECORDING = Path(__file__).parents[1] / "recordings" / "four_methods"

# name, begin, end, depth, annotations
Slice = tuple[str, int, int, int, dict[str, Any]]


@pytest.fixture(scope="module")
def found() -> Prepared:
    return prepare(open_recording(RECORDING))


WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
ANNOTATIONS = st.lists(st.tuples(WORDS, st.integers(-(2**63), 2**63 - 1) | WORDS), max_size=4)
UNSIGNED = st.integers(0, 300) | st.integers(0, 2**64 - 1)


@given(
    number=st.integers(1, 64), track=UNSIGNED, time_ns=UNSIGNED, name=st.integers(1, 400),
    flows=st.lists(UNSIGNED, max_size=3), said=ANNOTATIONS,
)  # fmt: skip
def test_what_is_written_is_what_the_definitions_write(
    number: int,
    track: int,
    time_ns: int,
    name: int,
    flows: list[int],
    said: list[tuple[str, int | str]],
) -> None:
    sequence = Sequence(number, 3, [str(iid) for iid in range(1, 401)])
    packet = protos.TracePacket(
        trusted_packet_sequence_id=number,
        timestamp=time_ns,
        sequence_flags=protos.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE,
    )
    event = packet.track_event
    event.type, event.track_uuid, event.name_iid = event.TYPE_SLICE_BEGIN, track, name
    event.flow_ids.extend(flows)
    for key, value in said:
        kind = "string_value" if isinstance(value, str) else "int_value"
        event.debug_annotations.add(name=key, **{kind: value})
    written = protos.Trace(packet=[packet]).SerializeToString(deterministic=True)
    assert sequence.begin(track, time_ns, str(name), flows, said) == written
    end = protos.TracePacket(trusted_packet_sequence_id=number, timestamp=time_ns)
    end.track_event.type, end.track_event.track_uuid = event.TYPE_SLICE_END, track
    assert sequence.end(track, time_ns) == protos.Trace(packet=[end]).SerializeToString()


def exported(found: Prepared, rows: Any, path: Path) -> Any:
    write_perfetto(path, found, rows, slices_of(Beside(found, rows), rows))
    trace = protos.Trace()
    trace.ParseFromString(path.read_bytes())
    return trace


def tracks(trace: Any) -> dict[int, Any]:
    return {
        packet.track_descriptor.uuid: packet.track_descriptor
        for packet in trace.packet
        if packet.HasField("track_descriptor")
    }


def names_of(trace: Any) -> dict[tuple[int, int], str]:
    """By sequence and number in it."""
    return {
        (packet.trusted_packet_sequence_id, name.iid): name.name
        for packet in trace.packet
        for name in packet.interned_data.event_names
    }


def slices(trace: Any) -> dict[int, list[Slice]]:
    """By track, in order of end; a slice that ends another's, or never, fails."""
    names = names_of(trace)
    done: dict[int, list[Slice]] = defaultdict(list)
    stack: dict[int, list[tuple[str, int, dict[str, Any]]]] = defaultdict(list)
    last: dict[int, int] = defaultdict(int)
    for packet in trace.packet:
        if not packet.HasField("track_event"):
            continue
        event, track = packet.track_event, packet.track_event.track_uuid
        assert packet.timestamp >= last[track]
        last[track] = packet.timestamp
        if event.type == event.TYPE_SLICE_BEGIN:
            said = {one.name: one.string_value or one.int_value for one in event.debug_annotations}
            name = names[packet.trusted_packet_sequence_id, event.name_iid]
            stack[track].append((name, packet.timestamp, said))
        else:
            name, begin, said = stack[track].pop()
            done[track].append((name, begin, packet.timestamp, len(stack[track]), said))
    assert not any(stack.values())
    return done


def test_tracks_are_the_machine_its_threads_and_layers(found: Prepared, tmp_path: Path) -> None:
    by_uuid = tracks(exported(found, np.arange(20), tmp_path / "x"))
    (root,) = [track for track in by_uuid.values() if not track.parent_uuid]
    assert root.name.startswith("local, ")
    below = [track.name for track in by_uuid.values() if track.parent_uuid == root.uuid]
    ordered = sorted(
        (track.sibling_order_rank, track.name)
        for track in by_uuid.values()
        if track.parent_uuid == root.uuid
    )
    assert below[0] == "writes"
    assert [name for _, name in ordered] == below
    assert below.index("syscall") < below.index("fs") < below.index("device.data")


def test_slices_of_a_write_are_its_account(found: Prepared, tmp_path: Path) -> None:
    rows = np.arange(100, 160)
    trace = exported(found, rows, tmp_path / "x")
    breakdown = breakdown_of(found)
    by_uuid, seen = tracks(trace), 0
    for track, done in slices(trace).items():
        if not by_uuid[track].name.startswith("thread "):
            continue
        for method, begin, end, depth, said in done:
            if depth:
                continue
            seen += 1
            row = said["write"] - 1
            assert (begin, end) == (breakdown.writes.begin_ns[row], breakdown.writes.end_ns[row])
            assert said["latency_ns"] == breakdown.writes.latency_ns[row]
            assert method == breakdown.writes.names["method"][breakdown.writes.codes["method"][row]]
            held: dict[str, int] = defaultdict(int)
            for name, first, last, level, _ in done:
                if level and begin <= first and last <= end:
                    held[name] += last - first
            expected = {
                layer.name: int(breakdown.time_ns[number, row])
                for number, layer in enumerate(breakdown.layers)
            } | {"unattributed": int(breakdown.residual_ns[row])}
            assert held == {name: time for name, time in expected.items() if time}
    assert seen == len(rows)


def test_clocks(found: Prepared, tmp_path: Path) -> None:
    trace = exported(found, np.arange(1), tmp_path / "x")
    samples = found.tops[0].trace.points["clock_sample"]
    snapshots = [packet.clock_snapshot for packet in trace.packet
                 if packet.HasField("clock_snapshot")]  # fmt: skip
    assert len(snapshots) == len(samples) > 1
    clocks = protos.BuiltinClock
    for number, snapshot in enumerate(snapshots):
        assert snapshot.primary_trace_clock == clocks.BUILTIN_CLOCK_MONOTONIC
        assert {clock.clock_id: clock.timestamp for clock in snapshot.clocks} == {
            clocks.BUILTIN_CLOCK_MONOTONIC: samples["time_ns"][number],
            clocks.BUILTIN_CLOCK_BOOTTIME: samples["boottime_ns"][number],
            clocks.BUILTIN_CLOCK_REALTIME: samples["realtime_ns"][number],
        }
    defaults = trace.packet[0].trace_packet_defaults
    assert defaults.timestamp_clock_id == clocks.BUILTIN_CLOCK_MONOTONIC


def test_without_clock_samples_there_is_one_clock(tmp_path: Path) -> None:
    found = prepare(open_recording(small_recording(tmp_path / "machine")))
    trace = exported(found, np.arange(40), tmp_path / "x")
    (snapshot,) = [packet.clock_snapshot for packet in trace.packet
                   if packet.HasField("clock_snapshot")]  # fmt: skip
    assert len(snapshot.clocks) == 1


def test_lanes_hold_what_does_not_overlap() -> None:
    begin, end = np.array([0, 5, 10, 2, 10]), np.array([10, 8, 20, 30, 11])
    assert [list(lane) for lane in _lanes(begin, end)] == [[0, 2], [3], [1, 4]]
