# SPDX-License-Identifier: Apache-2.0
"""Perfetto traces of several machines, read back and converted as Perfetto does."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iostrata.analysis import Beside, Prepared, prepare
from iostrata.analysis import Path as MachinesPath
from iostrata.clock import Alignment
from iostrata.clock.line import Line
from iostrata.export.clocks import CONVERSION_NS, MOST_SNAPSHOTS, clock_of, own_times
from iostrata.export.perfetto import MONOTONIC, OWN_CLOCK
from iostrata.export.slices import slices_of
from iostrata.layers import HOPS
from iostrata.recording import open_recording
from tests.export.test_perfetto import exported, names_of, slices, tracks
from tests.report.test_several_machines import WRITES, recording

MACHINES = {1: "guest", 2: "host", 3: "server"}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepare(open_recording(recording(tmp_path_factory.mktemp("chain") / "recording")))


@pytest.fixture(scope="module")
def trace(found: Prepared, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return exported(found, np.arange(WRITES), tmp_path_factory.mktemp("trace") / "x")


def machine_of_track(trace: Any) -> dict[int, str]:
    by_uuid = tracks(trace)

    def root(uuid: int) -> str:
        track = by_uuid[uuid]
        return root(track.parent_uuid) if track.parent_uuid else track.name.partition(",")[0]

    return {uuid: root(uuid) for uuid in by_uuid}


def converted(trace: Any, sequence: int, time_ns: int) -> int:
    """As Perfetto's ClockTracker: the last snapshot before it, and both run alike from there."""
    if sequence == 1:
        return time_ns
    pairs = [
        {clock.clock_id: clock.timestamp for clock in packet.clock_snapshot.clocks}
        for packet in trace.packet
        if packet.HasField("clock_snapshot") and packet.trusted_packet_sequence_id == sequence
    ]
    own, top = max(
        ((pair[OWN_CLOCK], pair[MONOTONIC]) for pair in pairs if pair[OWN_CLOCK] <= time_ns),
        default=(pairs[0][OWN_CLOCK], pairs[0][MONOTONIC]),
    )
    return int(top + time_ns - own)


def test_groups_are_machines_and_their_segments(trace: Any) -> None:
    by_uuid = tracks(trace)
    roots = [track for track in by_uuid.values() if not track.parent_uuid]
    assert [track.name.partition(",")[0] for track in roots] == ["guest", "host", "server"]
    groups = {
        root.name.partition(",")[0]: [
            track.name for track in by_uuid.values() if track.parent_uuid == root.uuid
        ]
        for root in roots
    }
    assert groups["guest"] == ["writes", "guest OS", "hypervisor and below"]
    assert groups["host"] == ["hypervisor", "host OS", "network and server"]
    assert groups["server"] == ["network", "server OS", "device"]


def test_what_was_not_recorded_is_a_group_that_says_so(tmp_path: Path) -> None:
    found = prepare(open_recording(recording(tmp_path / "recording", "guest")))
    by_uuid = tracks(exported(found, np.arange(WRITES), tmp_path / "x"))
    (device,) = [track for track in by_uuid.values() if track.name == "device.data"]
    assert by_uuid[device.parent_uuid].name == "hypervisor and below"


def test_each_machine_has_its_own_clock(found: Prepared, trace: Any) -> None:
    """Its slices bear the times of its own events, and convert to where the write was."""
    first: dict[int, Any] = {}
    for packet in trace.packet:
        first.setdefault(packet.trusted_packet_sequence_id, packet)
    clocks = {n: one.trace_packet_defaults.timestamp_clock_id for n, one in first.items()}
    assert clocks == {1: MONOTONIC, 2: OWN_CLOCK, 3: OWN_CLOCK}
    machines, by_uuid, seen = machine_of_track(trace), tracks(trace), 0
    server = next(m.trace for m in found.path.members if m.trace.machine == "server")
    issued = server.points["block_rq_issue"].time_ns.astype(np.int64)
    for track, done in slices(trace).items():
        if (machines[track], by_uuid[track].name) != ("server", "device.data"):
            continue
        for _, begin, end, _, said in done:
            seen += 1
            assert np.abs(issued - begin).min() <= 2
            row = said["write"] - 1
            there, back = converted(trace, 3, begin), converted(trace, 3, end)
            assert found.writes.begin_ns[row] < there < back < found.writes.end_ns[row]
    assert seen == WRITES


def test_slices_convert_to_the_spans_that_they_are(found: Prepared, trace: Any) -> None:
    rows = np.arange(WRITES)
    spans = slices_of(Beside(found, rows), rows).spans
    expected: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for rank, begin, end in zip(
        spans.rank.tolist(), spans.begin_ns.tolist(), spans.end_ns.tolist(), strict=True
    ):
        if layer := found.path.layer_of(rank):
            expected[layer.machine, layer.row].append((begin, end))
    machines, got = machine_of_track(trace), defaultdict(list)
    number = {name: sequence for sequence, name in MACHINES.items()}
    for track, done in slices(trace).items():
        machine = machines[track]
        for name, begin, end, _, said in done:
            if "latency_ns" not in said and "/" not in name and name != "unattributed":
                got[machine, name].append(
                    (converted(trace, number[machine], begin),
                     converted(trace, number[machine], end))
                )  # fmt: skip
    assert got.keys() == expected.keys()
    for key, times in expected.items():
        difference = np.array(sorted(times)) - np.array(sorted(got[key]))
        assert np.abs(difference).max() <= CONVERSION_NS + 4, key


def test_flows_lead_from_what_asks_along_the_ways(trace: Any) -> None:
    names = names_of(trace)
    flows: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for packet in trace.packet:
        sequence, event = packet.trusted_packet_sequence_id, packet.track_event
        for flow in event.flow_ids:
            time = converted(trace, sequence, packet.timestamp)
            name = names[sequence, event.name_iid]
            flows[flow].append((time, f"{MACHINES[sequence]}/{name}"))
    ways = [
        [name for _, name in sorted(steps) if name != "host/vmm.runqueue"]
        for flow, steps in flows.items()
        if flow > WRITES
    ]
    virtio = [way for way in ways if way[0].startswith("guest/")]
    nfs = [way for way in ways if way[0].startswith("host/")]
    assert (len(virtio), len(nfs), len(ways)) == (WRITES, WRITES, 2 * WRITES)
    for way in virtio:
        assert way[2:] == [
            "host/vmm.submit", "host/vmm.complete", "host/kvm.inject", "guest/virtio.interrupt",
        ]  # fmt: skip
        assert set(way[:2]) == {"guest/device.data", "guest/virtio.submit"}
    for way in nfs:
        assert set(way[:2]) == {"host/rpc.call", "server/network.there"}
        assert way[2:] == ["server/svc.queue", "server/network.back"]


def drifting(path: MachinesPath, drift_ppm: int) -> MachinesPath:
    link = next(link for link in path.links if link.hop.name == "virtio")
    line = Line.drifting(0, 7_000_000, drift_ppm)
    clock = Alignment(line, 1_000, "causality")
    return replace(path, graph=replace(path.graph, links=(replace(link, clock=clock),)))


@pytest.mark.parametrize("drift_ppm", [-80, 0, 80])
def test_drift_is_followed_and_order_is_kept(found: Prepared, drift_ppm: int) -> None:
    path = drifting(found.path, drift_ppm)
    begin, end = 10**9, 3 * 10**9
    clock = clock_of(path, 1, begin, end)
    needed = 2 * abs(drift_ppm) * 1000 // CONVERSION_NS
    assert max(needed, 1) <= len(clock.own_ns) <= needed + 1
    assert len(clock.own_ns) <= MOST_SNAPSHOTS
    times = np.linspace(begin, end, 777_777).astype(np.int64)
    told = clock.of(own_times(path, 1, times))
    last = np.searchsorted(clock.own_ns, told, side="right") - 1
    back = clock.top_ns[last] + told - clock.own_ns[last]
    assert (np.diff(back) >= 0).all()
    assert np.abs(back - times).max() <= CONVERSION_NS + 2


def test_hop_rows_are_on_the_machine_that_they_are_of(found: Prepared, trace: Any) -> None:
    machines, by_uuid = machine_of_track(trace), tracks(trace)
    between = {rank.row for rank in HOPS}
    on = {(by_uuid[track].name, machines[track]) for track in slices(trace)}
    layers = {layer for layer in found.path.layers if layer}
    assert {pair for pair in on if pair[0] in between} <= {(x.row, x.machine) for x in layers}
    assert {("virtio.submit", "guest"), ("vmm.submit", "host"), ("network.there", "server")} <= on
