# SPDX-License-Identifier: Apache-2.0
"""Following: a recording read while it grows holds what it holds when it is read as a whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from iostrata.errors import RecordingError
from iostrata.trace import follow
from iostrata.trace.follow import SETTLED_NS, Follower, Snapshot
from iostrata.trace.names import ThreadNames
from iostrata.trace.read import read_trace
from tests.synthetic import World, Writer, write
from tests.trace.growing import Growing

SOURCE = Path(__file__).parents[1] / "recordings" / "four_methods" / "local"
EVERYTHING_NS = 10**12
MANY = 10**9


def last_snapshot(
    growing: Growing, follower: Follower, steps: int, most_events: int = MANY
) -> Snapshot:
    found = None
    for step in range(1, steps + 1):
        time_ns = growing.begin_ns + (growing.end_ns - growing.begin_ns) * step // steps
        growing.until(time_ns, torn=step % 3 * 70)
        found = follower.snapshot(EVERYTHING_NS, most_events) or found
    assert found
    return found


@pytest.mark.parametrize("steps", [1, 7])
def test_what_was_written_in_parts_is_read_as_a_whole(tmp_path: Path, steps: int) -> None:
    whole = read_trace(SOURCE)
    growing = Growing(SOURCE, tmp_path / "local")
    snapshot = last_snapshot(growing, Follower(growing.directory, "local"), steps)
    assert snapshot.end_ns == whole.end_ns - SETTLED_NS
    assert not snapshot.trace.damage
    assert len(snapshot.trace.losses) == 0
    for name, points in whole.points.items():
        seen = snapshot.trace.points[name]
        times = points.time_ns[points.time_ns <= snapshot.end_ns]
        assert (seen.time_ns[seen.time_ns <= snapshot.end_ns] == times).all(), name
    assert (snapshot.trace.points["thread"]["comm"] == whole.points["thread"]["comm"]).all()


def test_a_look_costs_no_more_than_allowed(tmp_path: Path) -> None:
    growing = Growing(SOURCE, tmp_path / "local")
    snapshot = last_snapshot(growing, Follower(growing.directory, "local"), 7, most_events=3000)
    assert 0 < snapshot.trace.event_count <= 3000
    # What is told once is still known: the threads of long ago.
    assert len(snapshot.trace.points["thread"]) == len(read_trace(SOURCE).points["thread"])
    assert not snapshot.trace.damage


def fsyncs() -> World:
    """400 of a microsecond, in 2 s, in packets of 4 events."""
    world = World()
    writer = Writer(world, 100, 0, 1_000_000)
    world.builder.packet_events = 4
    for _ in range(400):
        writer.enter()
        writer.cpu(1_000)
        writer.leave("fsync")
        writer.now += 5_000_000
    return world


def test_what_is_over_takes_no_room(tmp_path: Path) -> None:
    """All but the last half second, which may not be whole yet, and what is looked at."""
    growing = Growing(write(fsyncs(), tmp_path / "source"), tmp_path / "local")
    follower = Follower(growing.directory, "local")
    last_snapshot(growing, follower, 7, most_events=10)
    follower.close()
    grown = (growing.directory / "cpu_0").stat()
    assert grown.st_size == (tmp_path / "source" / "cpu_0").stat().st_size
    assert grown.st_blocks * 512 <= grown.st_size / 2


def test_a_packet_that_holds_too_much_is_looked_at_in_part(tmp_path: Path) -> None:
    """On many CPUs the last packet of each is more than may be looked at."""
    growing = Growing(SOURCE, tmp_path / "local")
    follower = Follower(growing.directory, "local")
    snapshot = last_snapshot(growing, follower, 7, most_events=10)
    assert snapshot.trace.event_count == 10
    assert snapshot.begin_ns < snapshot.trace.end_ns <= snapshot.end_ns


def test_a_file_system_that_takes_nothing_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "_punch", lambda *_: False)
    growing = Growing(SOURCE, tmp_path / "local")
    follower = Follower(growing.directory, "local")
    growing.until((growing.begin_ns + growing.end_ns) // 2)
    assert follower.snapshot(EVERYTHING_NS, MANY)
    growing.until(growing.end_ns)
    monkeypatch.setattr(follow, "MOST_KEPT_BYTES", 1000)
    with pytest.raises(RecordingError, match="cannot take back"):
        follower.snapshot(0, MANY)


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "MOST_REMEMBERED", 3)
    growing = Growing(SOURCE, tmp_path / "local")
    snapshot = last_snapshot(growing, Follower(growing.directory, "local"), 7)
    assert len(snapshot.trace.points["thread"]) + len(snapshot.trace.points["probe"]) == 3


def test_losses_are_those_of_the_time_that_is_looked_at(tmp_path: Path) -> None:
    world = fsyncs()
    world.builder.refuse("syscall", time_ns=20_000_000, count=3)
    world.builder.refuse("syscall", time_ns=1_450_000_000, count=2)
    growing = Growing(write(world, tmp_path / "source"), tmp_path / "local")
    follower = Follower(growing.directory, "local")
    growing.until(growing.end_ns)
    late = follower.snapshot(500_000_000, MANY)
    assert late
    assert late.trace.lost_by_point == {"syscall": 5}
    assert late.begin_ns > 20_000_000
    assert late.trace.losses.count.tolist() == [2]


def test_what_is_no_packet(tmp_path: Path) -> None:
    growing = Growing(SOURCE, tmp_path / "local")
    (growing.directory / "cpu_0").write_bytes(bytes(1000))
    with pytest.raises(RecordingError, match="no packet begins where one must"):
        Follower(growing.directory, "local").snapshot(EVERYTHING_NS, MANY)


def test_nothing_yet(tmp_path: Path) -> None:
    growing = Growing(SOURCE, tmp_path / "local")
    assert Follower(growing.directory, "local").snapshot(EVERYTHING_NS, MANY) is None


def test_what_is_told_anew_takes_no_place_of_what_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file's name, long ago; and of a thread all names that it had."""
    monkeypatch.setattr(follow, "MOST_REMEMBERED", 64)
    monkeypatch.setattr(follow, "FEW_REMEMBERED", 8)
    world, second = World(), 1_000_000_000
    world.builder.packet_events = 1
    world.emit("file_name", 1, 100, inode=7, dev=8 << 20, text=b"name", last=1)
    names = [b"first"] * 100 + [b"second"] * 100 + [b"first"] * 100
    for number, comm in enumerate(names):
        world.target(100, (number + 1) * second, comm=comm)
    world.target(104, 310 * second)
    growing = Growing(write(world, tmp_path / "source"), tmp_path / "local")
    trace = last_snapshot(growing, Follower(growing.directory, "local"), 40).trace
    assert len(trace.points["file_name"]) == 1
    assert len(trace.points["thread"]) < 64
    asked = np.array([50, 150, 290], np.int64) * second
    (texts, place), _ = ThreadNames(trace).at(np.full(3, 100), asked)
    assert [texts[one].split()[0] for one in place.tolist()] == ["first", "second", "first"]
