# SPDX-License-Identifier: Apache-2.0
"""Random recordings come back as they were written, by us and by babeltrace2."""

from __future__ import annotations

import mmap
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from iostrata import native
from iostrata.errors import RecordingError
from iostrata.trace import layout, stream
from iostrata.trace.dump import CALLS, THREADS, dump
from iostrata.trace.layout import POINTS
from iostrata.trace.losses import Refused, find_losses, missed
from iostrata.trace.read import read_trace
from iostrata.trace.stream import Stream
from iostrata.trace.write import write_trace
from tests.builder import TraceBuilder
from tests.trace.random_events import (
    all_of,
    counts,
    ordinary,
    packet_sizes,
    random_events,
    rows,
    seeds,
    write,
)


@given(seeds, counts, packet_sizes)
def test_what_is_written_is_read(seed: int, counts: dict[str, int], packet_events: int) -> None:
    events = random_events(seed, counts)
    with tempfile.TemporaryDirectory() as directory:
        trace = read_trace(write(Path(directory), events, packet_events), "server")
        assert trace.machine == "server"
        assert trace.damage == ()
        assert len(trace.losses) == 0
        assert trace.lost_by_point == trace.unknown == {}
        assert trace.event_count == sum(counts.values())
        for name in layout.POINTS:
            points = trace.points[name]
            assert len(points) == counts.get(name, 0)
            assert points.fields == layout.DTYPES[name].names
            assert np.all(np.diff(points["time_ns"].astype(np.int64)) >= 0)
            if name in events:
                assert sorted(rows(all_of(points))) == sorted(rows(events[name]))


@given(seeds, counts)
def test_any_range_is_a_part_of_the_whole(seed: int, counts: dict[str, int]) -> None:
    events = random_events(seed, counts)
    with tempfile.TemporaryDirectory() as directory:
        trace = read_trace(write(Path(directory), events, 7))
        for name in counts:
            points = trace.points[name]
            cut = seed % (len(points) + 1)
            for field in points.fields:
                before = points.columns(field, end=cut)[field]
                after = points.columns(field, begin=cut)[field]
                assert np.array_equal(np.concatenate((before, after)), points[field])


@pytest.mark.parametrize("devices", [1, 2, 14, 15, 16, 17, 50])
def test_the_values_of_a_field_are_those_of_its_column(tmp_path: Path, devices: int) -> None:
    events = random_events(3, {"syscall": 300, "block_rq_issue": 5})
    rng = np.random.default_rng(devices)
    some = rng.integers(0, 1 << 32, devices, np.uint32)
    events["syscall"]["dev"] = some[rng.integers(0, devices, 300)]
    trace = read_trace(write(tmp_path, events, 10))
    for name in events:
        for field in ("dev", "tid"):
            points = trace.points[name]
            assert points.values(field) == frozenset(points[field].tolist())
    assert trace.points["block_getrq"].values("dev") == frozenset()


def test_pages_of_a_file_stay_while_they_are_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "SPAN_BYTES", 100 * 64)
    trace = read_trace(write(tmp_path, random_events(4, {"syscall": 1000}), 10))
    one = max(trace.streams, key=lambda stream: stream.slot_count)
    slots = next(iter(one.slots.values()))
    one.looked_at = None
    for _ in range(10):
        one.release(slots[20:50])
        one.release(slots[10:30])
        assert one.looked_at == (slots[10], slots[49])
    one.release(slots[100:200])
    assert one.looked_at is None
    one.release(slots[:0])
    assert one.looked_at is None


class Mapped(mmap.mmap):
    """``let_go``: of which bytes its pages were, from the first to before the last."""

    let_go: list[tuple[int, int]]

    def madvise(self, option: int, start: int = 0, length: int = 0) -> None:
        assert option == mmap.MADV_DONTNEED
        self.let_go.append((start, start + length))
        super().madvise(option, start, length)


@pytest.fixture
def mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mapped]:
    """A stream's file, spans of which are 100 slots."""
    monkeypatch.setattr(stream, "SPAN_BYTES", 100 * 64)
    read_trace(write(tmp_path, random_events(4, {"syscall": 1000}), 10))
    with max(tmp_path.glob("cpu_*"), key=lambda path: path.stat().st_size).open("rb") as file:
        mapped = Mapped(file.fileno(), 0, access=mmap.ACCESS_READ)
    mapped.let_go = []
    yield mapped
    mapped.close()


def test_what_is_looked_at_stays_mapped_and_nothing_else(mapped: Mapped) -> None:
    one = Stream("cpu_0", 0, mapped)
    page, end = mmap.PAGESIZE, len(mapped) // mmap.PAGESIZE * mmap.PAGESIZE
    slots = np.arange(len(mapped) // 64)
    one.release(slots[:70])
    assert mapped.let_go == []
    one.release(slots[70:140], stay=True)
    assert mapped.let_go == [(0, page), (3 * page, end)]
    # Back again: what is behind that is let go of, too.
    one.release(slots[:64], stay=True)
    assert mapped.let_go[2:] == [(page, end)]
    one.release(slots[64:], stay=True)
    one.release(slots[:70])
    one.release(slots[70:140])
    assert mapped.let_go[3:] == [(0, end), (0, end)]


def test_the_begin_of_a_file_stays_mapped_while_there_is_memory(
    mapped: Mapped, monkeypatch: pytest.MonkeyPatch
) -> None:
    slots = np.arange(0, len(mapped) // 64, 10)
    page, end = mmap.PAGESIZE, len(mapped) // mmap.PAGESIZE * mmap.PAGESIZE
    for kept_bytes in (0, 5000, end - 1, end):
        Stream("cpu_0", 0, mapped, kept_bytes=kept_bytes).release(slots)
    assert mapped.let_go == [(0, end), (2 * page, end)]
    monkeypatch.setattr(stream, "in_files", lambda: True)
    Stream("cpu_0", 0, mapped, kept_bytes=end).release(slots)
    assert mapped.let_go[-1] == (0, end)


@pytest.mark.parametrize("span", [64, 640, 1 << 20])
def test_the_size_of_a_span_does_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, span: int
) -> None:
    events = random_events(1, {"syscall": 300, "block_rq_issue": 5, "clock_sample": 3})
    whole = {name: all_of(read_trace(write(tmp_path, events, 10)).points[name]) for name in events}
    monkeypatch.setattr(stream, "SPAN_BYTES", span)
    monkeypatch.setattr("iostrata.trace.points.SPAN_SLOTS", span // 64)
    monkeypatch.setattr("iostrata.trace.points.PIECE_EVENTS", 4)
    trace = read_trace(tmp_path)
    assert trace.damage == ()
    for name, expected in whole.items():
        assert rows(all_of(trace.points[name])) == rows(expected)


@pytest.mark.parametrize("span", [1, 7, 1 << 20])
@pytest.mark.parametrize("in_order", [True, False])
def test_numbers_are_read_file_by_file_or_a_span_of_all_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, span: int, in_order: bool
) -> None:
    monkeypatch.setattr("iostrata.trace.points.FEW_EVENTS", 0)
    monkeypatch.setattr("iostrata.trace.points.SPAN_SLOTS", span)
    trace = read_trace(write(tmp_path, random_events(7, {"syscall": 5000, "block_rq_issue": 9})))
    for one in trace.streams:
        one.in_order = in_order
    for points in trace.points.values():
        names = [name for name in points.fields if points.dtype[name].kind in "iu"]
        for begin, end in ((0, len(points)), (1, 4000), (4000, 4001), (3, 3)):
            found = points.integers(*names, begin=begin, end=end)
            with monkeypatch.context() as patch:
                patch.setattr(native, "LIBRARY", None)
                twin = points.integers(*names, begin=begin, end=end)
            assert [column.tolist() for column in found.values()] == [
                column.tolist() for column in twin.values()
            ]


def test_an_empty_recording_is_a_trace(tmp_path: Path) -> None:
    trace = read_trace(write(tmp_path, {}))
    assert trace.event_count == trace.begin_ns == trace.end_ns == len(trace.losses) == 0
    assert all(len(points["time_ns"]) == 0 for points in trace.points.values())
    assert trace.points["syscall"]["result"].dtype == np.dtype("<i4")
    assert list(dump(trace)) == []
    (tmp_path / "cpu_0").touch()
    assert read_trace(tmp_path).damage == ()


def test_an_older_recording_tells_which_field_it_lacks(tmp_path: Path) -> None:
    names = [name for name in layout.DTYPES["syscall"].names or () if name != "rwf"]
    older = {"syscall": layout.DTYPES["syscall"][names], "gone": layout.DTYPES["block_rq_issue"]}
    write_trace(
        tmp_path,
        {"syscall": {"time_ns": [5], "result": [7]}, "gone": {"time_ns": [1, 2]}},
        points={"syscall": 1, "gone": 99},
        dtypes=older,
    )
    trace = read_trace(tmp_path)
    assert trace.points["syscall"]["result"].tolist() == [7]
    assert trace.unknown == {"gone": 2}
    assert len(trace.points["block_rq_issue"]) == 0
    with pytest.raises(RecordingError, match=r"syscall .* no field rwf") as caught:
        trace.points["syscall"]["rwf"]
    assert caught.value.hint


def test_events_missing_from_the_metadata_are_counted(tmp_path: Path) -> None:
    write(tmp_path, random_events(2, {"syscall": 4, "probe": 2}))
    points = {name: number for name, number in layout.POINTS.items() if name != "syscall"}
    with tempfile.TemporaryDirectory() as other:
        write_trace(Path(other), {}, points=points)
        (tmp_path / "metadata").write_bytes((Path(other) / "metadata").read_bytes())
    trace = read_trace(tmp_path)
    assert trace.unknown == {"1": 4}
    assert trace.event_count == 6


def test_builder_refuses_what_no_point_has() -> None:
    with pytest.raises(ValueError, match="syscall has no field sector"):
        TraceBuilder().add("syscall", time_ns=1, sector=5)


VALUE = re.compile(r'(\w+) = ("(?:[^"\\]|\\.)*"|[^ ,}]+)')
LINE = re.compile(r"\[(\d+)\] (?:\S+ )?(\w+): \{[^}]*\}, (\{.*\})$")
Row = tuple[int, str, tuple[tuple[str, str | int], ...]]


def by_babeltrace(babeltrace: str, directory: Path) -> tuple[list[Row], str]:
    done = subprocess.run(
        [babeltrace, "--clock-cycles", "--no-delta", str(directory)],
        capture_output=True,
        text=True,
        check=True,
    )
    return [babeltrace_row(line) for line in done.stdout.splitlines()], done.stderr


def babeltrace_row(line: str) -> Row:
    match = LINE.match(line)
    assert match, line
    fields = [(name, value_of(value)) for name, value in VALUE.findall(match[3])]
    return int(match[1]), match[2], tuple(fields)


def value_of(text: str) -> str | int:
    if text.startswith('"'):
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return int(text, 0)


def by_us(directory: Path) -> list[Row]:
    trace = read_trace(directory)
    found = []
    for name, points in trace.points.items():
        fields = [field for field in points.fields if field not in ("time_ns", "point")]
        columns = points.columns("time_ns", *fields)
        texts = [
            [value.decode() if isinstance(value, bytes) else value for value in column.tolist()]
            for column in columns.values()
        ]
        for time_ns, *values in zip(*texts, strict=True):
            found.append((time_ns, name, tuple(zip(fields, values, strict=True))))
    return found


@settings(max_examples=15)
@given(seeds, counts, packet_sizes)
def test_babeltrace_reads_the_same(
    babeltrace: str, seed: int, counts: dict[str, int], packet_events: int
) -> None:
    events = random_events(seed, counts)
    with tempfile.TemporaryDirectory() as directory:
        path = write(Path(directory), events, packet_events)
        theirs, story = by_babeltrace(babeltrace, path)
        assert sorted(theirs, key=repr) == sorted(by_us(path), key=repr)
        assert story == ""


def test_babeltrace_tells_the_same_losses(babeltrace: str, tmp_path: Path) -> None:
    builder = TraceBuilder(packet_events=2)
    builder.extend("syscall", time_ns=np.arange(1, 8) * 10, cpu=1)
    builder.refuse("syscall", time_ns=35, cpu=1, count=3)
    builder.refuse("thread", time_ns=1000, cpu=1, count=4)
    builder.refuse("thread", time_ns=50, cpu=2, count=9)
    builder.write(tmp_path)
    trace = read_trace(tmp_path)
    assert trace.lost_by_point == {"syscall": 3, "thread": 13}
    losses = trace.losses
    windows = [column.tolist() for column in (losses.begin_ns, losses.end_ns, losses.cpu)]
    assert list(zip(*windows, losses.count.tolist(), strict=True)) == [
        (10, 50, 2, 9),
        (20, 40, 1, 3),
        (60, 1000, 1, 4),
    ]
    _, story = by_babeltrace(babeltrace, tmp_path)
    of_first_packets = ["9"]  # babeltrace2 has nothing to compare them with
    told = re.findall(r"discarded (\d+) event", story)
    assert of_first_packets + told == ["9", "3", "4"]


@pytest.mark.parametrize("exact", [True, False])
def test_a_recorder_that_tells_when_is_believed(tmp_path: Path, *, exact: bool) -> None:
    """An older one's packets have but what was counted by then: the next count is behind it."""
    builder = TraceBuilder(packet_events=2)
    builder.extend("syscall", time_ns=np.arange(1, 8) * 10, cpu=1)
    builder.refuse("syscall", time_ns=35, cpu=1, count=3)
    builder.write(tmp_path)
    trace = read_trace(tmp_path)
    counted = Refused(*(np.array([number]) for number in (1000, 1, POINTS["syscall"], 3)))
    losses = find_losses(
        list(trace.streams), counted, missed(trace.points["miss"]), (), 0, 2000, exact=exact
    )
    found = losses.begin_ns.tolist(), losses.end_ns.tolist(), losses.count.tolist()
    assert found == ([20], [40 if exact else 1000], [3])


DUMPED = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\S+)')
NUMBERS = {
    name: value
    for names in (CALLS, THREADS)
    for value, name in names.items()
}  # fmt: skip


def dumped_row(line: str) -> Row:
    seconds, cpu, tid, point, *_ = line.split()
    fields: list[tuple[str, str | int]] = [("cpu", int(cpu)), ("tid", int(tid))]
    fields += [(name, number_of(text)) for name, text in DUMPED.findall(line) if name != "op"]
    return int(seconds.replace(".", "")), point, tuple(fields)


def number_of(text: str) -> str | int:
    if ":" in text and not text.startswith('"'):
        major, minor = text.split(":")
        return int(major) << 20 | int(minor)
    return NUMBERS[text] if text in NUMBERS else value_of(text)


def test_dump_prints_what_babeltrace_prints(
    babeltrace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = dict.fromkeys(ordinary, 20)
    path = write(tmp_path, random_events(5, counts))
    theirs, _ = by_babeltrace(babeltrace, path)
    monkeypatch.setattr(sys.modules[dump.__module__], "CHUNK_EVENTS", 50)
    ours = [dumped_row(line) for line in dump(read_trace(path))]
    assert [time_ns for time_ns, *_ in ours] == sorted(time_ns for time_ns, *_ in theirs)
    assert sorted(ours, key=repr) == sorted(theirs, key=repr)
