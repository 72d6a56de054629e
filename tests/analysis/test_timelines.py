# SPDX-License-Identifier: Apache-2.0
"""Timelines: what they show is what the table counts, and their keys are the kernel's."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from unittest.mock import Mock

import pytest

from iostrata.analysis import analyse, timelines
from iostrata.attribute.choice import Choice, percentile
from iostrata.errors import UsageError
from iostrata.hops import lift
from iostrata.model import Timeline
from iostrata.recording import open_recording
from iostrata.stitch import window
from tests.cli.recordings import PAUSE_NS, WRITES, small_recording, small_world
from tests.synthetic import Commit, Request, World, Writer, device, write

RECORDINGS = sorted(path for path in (Path(__file__).parents[1] / "recordings").iterdir()
                    if path.is_dir())  # fmt: skip


def seen(path: Path, choice: Choice) -> tuple[Timeline, ...]:
    return timelines(open_recording(path), choice).timelines


def account(timeline: Timeline) -> Counter[str]:
    time: Counter[str] = Counter()
    for step in timeline.steps:
        time[step.layer.name if step.layer else ""] += step.end_ns - step.begin_ns
    return time


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_steps_add_up_to_what_the_table_counts(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "WINDOW_PIECES", 100)
    breakdown = analyse(open_recording(path))
    count = len(breakdown.writes)
    numbers = tuple({1, 2, count // 3, count // 2, count - 1, count})
    for timeline in seen(path, Choice(slowest=5, numbers=numbers)):
        row = timeline.number - 1
        expected = Counter(
            {
                layer.name: int(time)
                for layer, time in zip(breakdown.layers, breakdown.time_ns[:, row], strict=True)
            }
        )
        expected[""] = int(breakdown.residual_ns[row])
        assert account(timeline) == +expected
        assert timeline.latency_ns == breakdown.writes.latency_ns[row] == account(timeline).total()
        assert {lane.layer.name if lane.layer else "": lane.time_ns for lane in timeline.lanes} == (
            +expected
        )


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_steps_are_in_order_and_cover_each_call(path: Path) -> None:
    for timeline in seen(path, Choice(slowest=20)):
        steps = timeline.steps
        assert steps[0].begin_ns == 0
        for before, after in pairwise(steps):
            assert before.end_ns <= after.begin_ns
            assert after.called_ns == before.called_ns + before.end_ns - before.begin_ns
        gaps = sum(after.begin_ns - before.end_ns for before, after in pairwise(steps))
        assert gaps == timeline.caller_ns


def test_only_windows_with_chosen_writes_are_stitched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once: what is left over beside them is told by the way."""
    path = small_recording(tmp_path / "machine")
    monkeypatch.setattr(window, "WINDOW_PIECES", 4)
    stitched = Mock(wraps=lift)
    monkeypatch.setattr("iostrata.analysis.beside.lift", stitched)
    assert len(seen(path, Choice(numbers=(1, 2, 40)))) == 3
    assert stitched.call_count == 2


def test_the_chosen_writes(tmp_path: Path) -> None:
    path = small_recording(tmp_path / "machine")
    # Odd ones are O_DSYNC and fast, even ones synced and slow; both get slower with time.
    of_all = seen(path, Choice(slowest=2, near=(0, 100)))
    assert [(one.number, one.why) for one in of_all] == [
        (1, "p0"), (2 * WRITES, "p100, slowest"), (2 * WRITES - 2, "slowest but 1")
    ]  # fmt: skip
    by_method = seen(path, Choice(slowest=1, by="method"))
    assert [(one.number, one.why) for one in by_method] == [
        (2 * WRITES, "slowest of fdatasync"), (2 * WRITES - 1, "slowest of open_datasync")
    ]  # fmt: skip
    assert [one.number for one in seen(path, Choice(numbers=(7, 3)))] == [7, 3]
    with pytest.raises(UsageError, match="no write 41"):
        seen(path, Choice(numbers=(41,)))


def test_keys_behind_steps(tmp_path: Path) -> None:
    (timeline,) = seen(small_recording(tmp_path / "machine"), Choice(numbers=(2,)))
    behind = {step.layer.name: step.evidence for step in timeline.steps if step.layer}
    assert {step.evidence.call for step in timeline.steps} == {"pwrite64", "fdatasync", None}
    data, flush = behind["device.data"], behind["device.flush"]
    assert (data.device, data.sector, data.size_bytes) == ("vda", 4096, 8192)
    assert flush.device == "vda"
    assert flush.sector is None
    assert flush.request_key is not None
    assert flush.request_key >> 32 == 0xFFFF8881
    assert behind["block.I2D"].request_key == data.request_key
    assert data.request_key not in (None, flush.request_key)


def test_the_transaction_of_a_commit(tmp_path: Path) -> None:
    world = World()
    disk = device(254, 0)
    writer = Writer(world, 100, disk, 1_000, floor="fs")
    writer.enter()
    entered = writer.now
    writer.cpu(500)
    commit = Commit(world, disk, writer.now + 2_000, transaction=77)
    commit.run(1_000, 500, [Request()])
    writer.wait_for(commit)
    writer.synced(entered, commit)
    writer.leave("fsync")
    (timeline,) = seen(write(world, tmp_path / "machine"), Choice(slowest=1))
    transactions = {
        step.layer.name: step.evidence.transaction for step in timeline.steps if step.layer
    }
    assert transactions["journal.start"] == transactions["journal.locking"] == 77


def test_wall_clock_by_the_sample_before(tmp_path: Path) -> None:
    world = small_world()
    for time, real in ((1, 5_000_000_001), (3 * PAUSE_NS, 5_000_000_777 + 3 * PAUSE_NS)):
        world.builder.add("clock_sample", time_ns=time, realtime_ns=real, cpu=0xFFFF, tid=0)
    path = write(world, tmp_path / "machine")
    first, last = seen(path, Choice(numbers=(1, 2 * WRITES)))
    assert first.realtime_ns == first.begin_ns + 5_000_000_000
    assert last.realtime_ns == last.begin_ns + 5_000_000_777


@pytest.mark.parametrize(("text", "percent"), [("p99.9", 99.9), ("50", 50.0), ("max", 100.0)])
def test_percentiles(text: str, percent: float) -> None:
    assert percentile(text) == percent


@pytest.mark.parametrize("text", ["p", "p101", "-1", "slow", "nan", ""])
def test_what_is_no_percentile(text: str) -> None:
    with pytest.raises(UsageError, match="no percentile"):
        percentile(text)
