# SPDX-License-Identifier: Apache-2.0
"""History: the summary is of the last intervals, and of the chosen writes only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.attribute.selection import by_segment, joined, select
from iostrata.live import History, Interval, Replayed
from iostrata.live.ended import UNKNOWN, Kind
from iostrata.model import Breakdown
from iostrata.recording import open_recording

RECORDINGS = Path(__file__).parents[1] / "recordings"


@pytest.fixture(scope="module")
def breakdown() -> Breakdown:
    return analyse(open_recording(RECORDINGS / "four_methods"))


def replayed(breakdown: Breakdown, speed: float) -> list[Interval]:
    source, found = Replayed(breakdown, speed), []
    while interval := source.interval(1.0):
        found.append(interval)
    assert source.over
    return found


def test_a_replay_shows_every_write_once(breakdown: Breakdown) -> None:
    found = replayed(breakdown, 0.01)
    assert len(found) > 10
    ends = np.concatenate([one.breakdown.writes.end_ns for one in found if one.breakdown])
    assert sorted(ends.tolist()) == sorted(breakdown.writes.end_ns.tolist())
    for interval in found:
        if interval.breakdown:
            last = interval.breakdown.writes.end_ns
            assert ((interval.begin_ns < last) & (last <= interval.end_ns)).all()


def test_the_summary_is_of_the_last_intervals(breakdown: Breakdown) -> None:
    history = History(3)
    found = replayed(breakdown, 0.01)
    for interval in found:
        history.add(interval)
    summary = history.summary({})
    last = [interval.breakdown for interval in found[-3:] if interval.breakdown]
    assert summary.table
    assert summary.table.count == sum(len(one.writes) for one in last)
    assert summary.seconds == pytest.approx(sum(b.end_ns - b.begin_ns for b in found[-3:]) / 1e9)
    assert summary.sampled == 1
    assert len(summary.writes_per_s) == len(found)
    assert all(len(strip) == len(found) for strip in summary.strips.values())
    for number, interval in enumerate(found):
        mean = float(interval.breakdown.writes.latency_ns.mean()) if interval.breakdown else None
        assert summary.strips["", "total"][number] == (mean and pytest.approx(mean))


def test_chosen_writes(breakdown: Breakdown) -> None:
    history = History(1000)
    for interval in replayed(breakdown, 0.05):
        history.add(interval)
    methods = history.names("method")
    assert set(methods) == {"fdatasync", "fsync", "open_datasync", "open_sync"}
    summary = history.summary({"method": "fsync", "device": "vda"})
    assert summary.table
    assert summary.table.count == 200
    assert history.summary({"method": "msync"}).table is None


def test_nothing_yet() -> None:
    summary = History(10).summary({})
    assert summary.table is None
    assert summary.seconds == 0
    assert summary.sampled == 1


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


def test_how_much_is_analysed_is_of_what_happened() -> None:
    """However long nothing did: of a second of pause all is, of a busy one a tenth."""
    history = History(10)
    busy = Interval(900, 1000, 900, 18_000, 2_000, 100, None, {})
    history.add(busy)
    history.add(Interval(1000, 2000, 0, 0, 3, 1000, None, {}))
    assert round(history.summary({}).sampled, 2) == 0.1
    assert History(10).summary({}).sampled == 1.0


def test_a_second_of_which_little_was_looked_at_counts_for_all_that_it_had(
    breakdown: Breakdown,
) -> None:
    """In busy ones writes are many, and shorter than in idle ones, of which all is looked at."""
    order = np.argsort(breakdown.writes.latency_ns)
    short, long = select(breakdown, order[:100]), select(breakdown, order[-50:])
    history = History(2)
    for number, (part, skipped, each) in enumerate(((short, 9_000, 10.0), (long, 0, 1.0))):
        kinds = np.full(len(part.writes), UNKNOWN)
        history.add(
            Interval(number, number + 1, 0, skipped, 1_000, None, part, {}, each=each, kinds=kinds)
        )
    summary = history.summary({})
    shorter, longer = (float(one.writes.latency_ns.mean()) for one in (short, long))
    assert summary.table
    assert summary.table.total.mean_ns == pytest.approx((1000 * shorter + 50 * longer) / 1050)
    assert summary.sampled == pytest.approx(2_000 / 11_000)
    figures = [row.figures.mean_ns for row in summary.table.rows]
    total = sum(figures) + summary.table.residual.mean_ns
    assert total == pytest.approx(summary.table.total.mean_ns)


def test_writes_stand_for_all_that_ended_like_them(breakdown: Breakdown) -> None:
    """How many of each kind there were is known of all, how long they took of some."""
    order = np.argsort(breakdown.writes.latency_ns)
    short, long = select(breakdown, order[:100]), select(breakdown, order[-50:])
    shorter, longer = (float(one.writes.latency_ns.mean()) for one in (short, long))
    history = History(3)
    for number, (part, kind) in enumerate(((short, 7), (short, 7), (long, 8))):
        kinds = np.full(len(part.writes), kind)
        ended = {7: Kind(400, 1_000), 8: Kind(20, 3_000)}
        history.add(Interval(number, number + 1, 0, 9_000, 1_000, 5, part, {}, 0, 1, ended, kinds))
    summary = history.summary({})
    assert summary.table
    expected = (1200 * shorter + 60 * longer) / 1260
    assert summary.table.total.mean_ns == pytest.approx(expected)
    assert summary.table.total.p50_ns < shorter * 2
    assert summary.table.total.max_ns == long.writes.latency_ns.max()
    figures = [row.figures.mean_ns for row in summary.table.rows]
    total = sum(figures) + summary.table.residual.mean_ns
    assert total == pytest.approx(expected)
    segments = sum(one.figures.mean_ns for one in summary.table.segments)
    assert segments == pytest.approx(sum(figures))
    assert summary.writes_per_s == (420 * 1e9,) * 3
    assert summary.error == pytest.approx(0)
    assert summary.missing == 0
    assert summary.seen_ns is None


def test_calls_like_which_none_was_looked_at_are_missing(breakdown: Breakdown) -> None:
    kinds = np.full(len(breakdown.writes), 7)
    ended = {7: Kind(9_000, 1_000), 9: Kind(1, 3_000)}
    history = History(1)
    history.add(Interval(0, 10**9, 0, 9_000, 1_000, 5, breakdown, {}, 0, 1, ended, kinds))
    summary = history.summary({})
    assert summary.missing == 0.75
    assert list(summary.writes_per_s) == [9_001]
    chosen = history.summary({"method": "fsync"})
    assert list(chosen.writes_per_s) == [9_000 * 200 / 800]
