# SPDX-License-Identifier: Apache-2.0
"""History: the moment is of the last beats, and of the chosen writes only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.attribute.selection import by_segment, joined, select
from iostrata.live import Beat, History, Replayed
from iostrata.model import Breakdown
from iostrata.recording import open_recording

RECORDINGS = Path(__file__).parents[1] / "recordings"


@pytest.fixture(scope="module")
def breakdown() -> Breakdown:
    return analyse(open_recording(RECORDINGS / "four_methods"))


def replayed(breakdown: Breakdown, speed: float) -> list[Beat]:
    source, found = Replayed(breakdown, speed), []
    while beat := source.beat(1.0):
        found.append(beat)
    assert source.over
    return found


def test_a_replay_shows_every_write_once(breakdown: Breakdown) -> None:
    found = replayed(breakdown, 0.01)
    assert len(found) > 10
    ends = np.concatenate([beat.breakdown.writes.end_ns for beat in found if beat.breakdown])
    assert sorted(ends.tolist()) == sorted(breakdown.writes.end_ns.tolist())
    for beat in found:
        if beat.breakdown:
            last = beat.breakdown.writes.end_ns
            assert ((beat.begin_ns < last) & (last <= beat.end_ns)).all()


def test_the_moment_is_of_the_last_beats(breakdown: Breakdown) -> None:
    history = History(3)
    found = replayed(breakdown, 0.01)
    for beat in found:
        history.add(beat)
    moment = history.moment({})
    last = [beat.breakdown for beat in found[-3:] if beat.breakdown]
    assert moment.table
    assert moment.table.count == sum(len(one.writes) for one in last)
    assert moment.seconds == pytest.approx(sum(b.end_ns - b.begin_ns for b in found[-3:]) / 1e9)
    assert moment.sampled == 1
    assert len(moment.writes_per_s) == len(found)
    assert all(len(strip) == len(found) for strip in moment.strips.values())
    for number, beat in enumerate(found):
        mean = float(beat.breakdown.writes.latency_ns.mean()) if beat.breakdown else None
        assert moment.strips["", "total"][number] == mean


def test_chosen_writes(breakdown: Breakdown) -> None:
    history = History(1000)
    for beat in replayed(breakdown, 0.05):
        history.add(beat)
    methods = history.names("method")
    assert set(methods) == {"fdatasync", "fsync", "open_datasync", "open_sync"}
    moment = history.moment({"method": "fsync", "device": "vda"})
    assert moment.table
    assert moment.table.count == 200
    assert history.moment({"method": "msync"}).table is None


def test_nothing_yet() -> None:
    moment = History(10).moment({})
    assert moment.table is None
    assert moment.seconds == 0
    assert moment.sampled == 1


def test_parts_joined_are_the_whole() -> None:
    """Names and layers of each part are its own."""
    one = analyse(open_recording(RECORDINGS / "ext4_journal"))
    other = analyse(open_recording(RECORDINGS / "xfs_log"))
    both = joined([one, other])
    assert len(both.writes) == len(one.writes) + len(other.writes)
    assert (both.time_ns.sum(axis=0) + both.residual_ns == both.writes.latency_ns).all()
    for column in one.writes.codes:
        names = [
            part.writes.names[column][code]
            for part in (one, other)
            for code in part.writes.codes[column]
        ]
        assert [both.writes.names[column][code] for code in both.writes.codes[column]] == names
    again = select(both, np.arange(len(one.writes), len(both.writes)))
    held = dict(zip(again.layers, again.time_ns, strict=True))
    for layer, times in zip(other.layers, other.time_ns, strict=True):
        assert (held[layer] == times).all()


def test_segments_hold_what_their_layers_hold(breakdown: Breakdown) -> None:
    found = by_segment(breakdown)
    assert [layer.segment for layer in found.layers] == ["OS", "device"]
    device = [layer.segment == "device" for layer in breakdown.layers]
    assert (found.time_ns[1] == breakdown.time_ns[device].sum(axis=0)).all()
    total = found.time_ns.sum(axis=0) + found.residual_ns
    assert (total == breakdown.writes.latency_ns).all()
