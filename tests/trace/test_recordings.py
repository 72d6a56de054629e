# SPDX-License-Identifier: Apache-2.0
"""Recordings of real kernels, kept: still read, still dumped the same, babeltrace2 agrees."""

from __future__ import annotations

from pathlib import Path

import pytest

from iostrata.recording import open_recording
from iostrata.trace import RECORDER_CPU
from iostrata.trace.dump import dump
from tests.trace.test_round_trip import Row, by_babeltrace, by_us

RECORDINGS = Path(__file__).parents[1] / "recordings"
GOLDEN = Path(__file__).parent / "golden"
NAMES = sorted(path.parent.name for path in RECORDINGS.glob("*/recording.json"))
WARM_UP = 1000
LINES = 60


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_damaged_or_lost(name: str) -> None:
    for trace in open_recording(RECORDINGS / name).traces():
        assert trace.damage == ()
        assert trace.unknown == trace.lost_by_point == {}
        assert len(trace.losses) == 0
        told = ("syscall", "svc_call", "vfio_interrupt")
        assert sum(len(trace.points[point]) for point in told) > 0
        of_bpf = sum(int((rows["cpu"] != RECORDER_CPU).sum()) for rows in trace.points.values())
        assert int(trace.points["recorder"]["event_count"][-1]) == of_bpf


@pytest.mark.parametrize("name", NAMES)
def test_babeltrace_reads_the_same(babeltrace: str, name: str) -> None:
    for machine in open_recording(RECORDINGS / name).machines:
        path = RECORDINGS / name / machine.directory
        theirs, story = by_babeltrace(babeltrace, path)
        ours = by_us(path)
        assert sorted(corrected(theirs, ours), key=repr) == sorted(ours, key=repr)
        assert story == ""


def corrected(theirs: list[Row], ours: list[Row]) -> list[Row]:
    """babeltrace2 tells of an empty text what an earlier event had there."""
    empty = {said_first(row) for row in ours if row[2] and row[2][-1] == ("text", "")}
    return [
        (time_ns, name, (*fields[:-1], ("text", ""))) if said_first(row) in empty else row
        for row in theirs
        for time_ns, name, fields in [row]
    ]


def said_first(row: Row) -> tuple[object, ...]:
    """An event up to its last field."""
    time_ns, name, fields = row
    return (time_ns, name, *fields[:-1])


@pytest.mark.parametrize("golden", sorted(GOLDEN.glob("*.txt")), ids=lambda path: path.stem)
def test_the_dump_is_as_it_was(golden: Path) -> None:
    """Events from the middle; ``iostrata dump`` without its filters prints them all."""
    (trace,) = open_recording(RECORDINGS / golden.stem).traces()
    lines = list(dump(trace, limit=WARM_UP + LINES))[WARM_UP:]
    assert "".join(f"{line}\n" for line in lines) == golden.read_text()
