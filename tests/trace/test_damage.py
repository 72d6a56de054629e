# SPDX-License-Identifier: Apache-2.0
"""Damage is found, named and becomes a loss; what is whole beside it is still read."""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from iostrata.errors import RecordingError
from iostrata.trace import layout
from iostrata.trace.losses import NO_RECORDER
from iostrata.trace.packet import CRC_AT, HEAD, HEAD_BYTES
from iostrata.trace.read import Trace, read_trace
from iostrata.trace.walk import MOST_DAMAGES
from iostrata.trace.write import Columns, write_trace
from tests.builder import TraceBuilder
from tests.test_recorded import RECORDINGS
from tests.trace.random_events import Events, all_of, random_events, rows, write

COUNTS = {"syscall": 40, "block_rq_issue": 25, "clock_sample": 5, "thread": 8}
EVENTS = random_events(11, COUNTS)
PACKET_EVENTS = 10
CONTENT_AT = 40
BEGIN_AT, DISCARDED_AT = 24, 64


def fresh() -> Path:
    return write(Path(tempfile.mkdtemp(dir=TEMPORARY.name)), EVENTS, PACKET_EVENTS)


TEMPORARY = tempfile.TemporaryDirectory()
WHOLE = read_trace(fresh())
STREAMS = {stream.name: (WHOLE.directory / stream.name).read_bytes() for stream in WHOLE.streams}
places = st.sampled_from(sorted(STREAMS)).flatmap(
    lambda name: st.tuples(st.just(name), st.integers(0, len(STREAMS[name]) - 1))
)


def with_file(name: str, data: bytes) -> Trace:
    """The trace as it is read with one file replaced."""
    with tempfile.TemporaryDirectory() as directory:
        path = write(Path(directory), EVENTS, PACKET_EVENTS)
        (path / name).write_bytes(data)
        trace = read_trace(path)
        for points in trace.points.values():
            events = all_of(points)
            if "dev" in points.fields:
                assert points.values("dev") == frozenset(events["dev"].tolist())
        return trace


def check(trace: Trace, events: Events = EVENTS) -> int:
    """How many events are missing: each within a loss; nothing is read that was not written."""
    missing = 0
    for name, points in trace.points.items():
        expected = Counter(rows(events[name])) if name in events else Counter()
        found = Counter(rows(all_of(points)))
        assert not found - expected
        for row in (expected - found).elements():
            missing += 1
            cpu = 0xFFFF if name == "clock_sample" else row[2]
            assert inside_loss(trace, int(str(cpu)), int(str(row[0]))), row
    return missing


def inside_loss(trace: Trace, cpu: int, time_ns: int) -> bool:
    """A trace that lost its first or last events begins later or ends earlier."""
    losses = trace.losses
    time_ns = min(max(time_ns, trace.begin_ns), trace.end_ns)
    inside = (losses.begin_ns <= time_ns) & (losses.end_ns >= time_ns) & (losses.cpu == cpu)
    return bool(inside.any())


@given(places, st.integers(1, 255))
def test_a_flipped_byte_costs_its_packet(place: tuple[str, int], flip: int) -> None:
    name, at = place
    data = bytearray(STREAMS[name])
    data[at] ^= flip
    trace = with_file(name, bytes(data))
    assert check(trace) > 0
    assert any(line.startswith(f"{name}: packet") for line in trace.damage)
    assert -1 in trace.losses.count


@given(places)
def test_a_truncated_stream_costs_its_end(place: tuple[str, int]) -> None:
    name, at = place
    trace = with_file(name, STREAMS[name][:at])
    whole_packet = at in packet_places(name)
    if whole_packet:
        assert trace.damage == ((NO_RECORDER,) if place == ("recorder", 0) else ())
        return
    check(trace)
    assert any("truncated" in line for line in trace.damage)


@given(places)
def test_of_a_cut_packet_the_whole_events_are_read(place: tuple[str, int]) -> None:
    """All that are before the cut, and none that is not; where one is as late as the packet's last,
    that may be it, and something before it be missing."""
    name, at = place
    data = STREAMS[name][:at]
    trace = with_file(name, data)
    begins = [begin for begin in packet_places(name) if begin <= at]
    events = [max(0, end - begin - HEAD_BYTES) // 64 for begin, end in pairwise([*begins, at])]
    if at not in packet_places(name) and events[-1]:
        _, _, _, _, end_ns, *_ = HEAD.unpack_from(data, begins[-1])
        last = begins[-1] + HEAD_BYTES + 64 * (events[-1] - 1)
        events[-1] *= int.from_bytes(data[last : last + 8], "little") < end_ns
    whole = sum(events)
    stream = next((one for one in trace.streams if one.name == name), None)
    assert (stream.event_count if stream else 0) == whole


@pytest.mark.parametrize("missing", [64, 100, 128])
@pytest.mark.parametrize("event", range(PACKET_EVENTS))
def test_nothing_is_read_of_a_packet_that_lacks_some_of_its_midst(event: int, missing: int) -> None:
    """Which events they were nobody knows: all of its time is lost. The last one is there."""
    data = STREAMS["cpu_0"]
    last = packet_places("cpu_0")[-1]
    at = last + HEAD_BYTES + event * 64
    if at + missing > len(data) - 64:
        return
    trace = with_file("cpu_0", data[:at] + data[at + missing :])
    check(trace)
    (stream,) = (one for one in trace.streams if one.name == "cpu_0")
    assert stream.event_count == (last - HEAD_BYTES * (len(packet_places("cpu_0")) - 1)) // 64


def packet_places(name: str) -> list[int]:
    places, at = [], 0
    data = STREAMS[name]
    while at < len(data):
        places.append(at)
        at += struct.unpack_from("<Q", data, 48)[0] // 8
    return places


# A head whose sizes are no packet's is not that of a packet that was cut.
TWO_SIZES = [(("recorder", 42), b"\1" + bytes(7) + b"\2"), (("recorder", 200), b"\0")]


@given(st.lists(st.tuples(places, st.binary(min_size=1, max_size=200)), max_size=5))
@example(TWO_SIZES)
def test_overwritten_stretches_are_never_misread(
    changes: list[tuple[tuple[str, int], bytes]],
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = write(Path(directory), EVENTS, PACKET_EVENTS)
        for (name, at), noise in changes:
            data = bytearray((path / name).read_bytes())
            data[at : at + len(noise)] = noise
            (path / name).write_bytes(data)
        check(read_trace(path))


@given(st.binary(max_size=300))
def test_a_stream_of_noise_is_all_lost(noise: bytes) -> None:
    trace = with_file("cpu_0", noise)
    if noise:
        check(trace)
        assert trace.damage


def test_a_missing_packet_is_named() -> None:
    places = packet_places("cpu_0")
    assert len(places) > 2
    data = STREAMS["cpu_0"]
    trace = with_file("cpu_0", data[: places[1]] + data[places[2] :])
    assert trace.damage == ("cpu_0: packet 1: 1 packet missing before it",)
    assert check(trace) == PACKET_EVENTS
    trace = with_file("cpu_0", data[places[2] :])
    assert trace.damage == ("cpu_0: packet 0: 2 packets missing before it",)
    assert check(trace) == 2 * PACKET_EVENTS


def test_what_a_packet_of_an_earlier_time_refused_may_be_lost_at_either() -> None:
    """The first packet of a stream once more, behind the last: it tells of two refused events."""
    begin, end = packet_places("cpu_0")[:2]

    def refused(packet: bytearray) -> None:
        struct.pack_into("<Q", packet, DISCARDED_AT, 2)

    again = resealed(STREAMS["cpu_0"], begin, refused)[begin:end]
    trace = with_file("cpu_0", STREAMS["cpu_0"] + again)
    first_ns, last_ns = struct.unpack_from("<QQ", again, BEGIN_AT)
    (at,) = np.flatnonzero(trace.losses.count == 2)
    assert trace.losses.begin_ns[at] <= first_ns
    assert trace.losses.end_ns[at] > last_ns


def test_a_packet_of_another_trace_is_left_out(tmp_path: Path) -> None:
    write_trace(tmp_path, EVENTS, packet_events=PACKET_EVENTS, uuid=bytes(16))
    foreign = (tmp_path / "cpu_0").read_bytes()
    trace = with_file("cpu_0", foreign)
    assert trace.damage == ("cpu_0: packet 0: it belongs to another trace (UUID)",)
    check(trace)


def resealed(data: bytes, at: int, change: Callable[[bytearray], None]) -> bytes:
    """A packet changed by its writer: the checksum is right."""
    size = struct.unpack_from("<Q", data, at + 48)[0] // 8
    packet = bytearray(data[at : at + size])
    change(packet)
    struct.pack_into("<I", packet, CRC_AT, 0)
    struct.pack_into("<I", packet, CRC_AT, zlib.crc32(packet))
    return data[:at] + bytes(packet) + data[at + size :]


def reverse_events(packet: bytearray) -> None:
    slots = [packet[at : at + 64] for at in range(HEAD_BYTES, len(packet), 64)]
    packet[HEAD_BYTES:] = b"".join(reversed(slots))


def test_events_out_of_order_are_named_and_put_in_order() -> None:
    trace = with_file("cpu_0", resealed(STREAMS["cpu_0"], 0, reverse_events))
    assert trace.damage == ("cpu_0: packet 0: its events are not in order of time",)
    assert check(trace) == 0
    for points in trace.points.values():
        assert np.all(np.diff(points["time_ns"].astype(np.int64)) >= 0)


def shifted(at: int, by: int) -> Callable[[bytearray], None]:
    """One field of a packet's third event, by so much."""

    def change(packet: bytearray) -> None:
        place = HEAD_BYTES + 2 * 64 + at
        (value,) = struct.unpack_from("<Q", packet, place)
        struct.pack_into("<Q", packet, place, max(value + by, 0) if by else 0)

    return change


@pytest.mark.parametrize("by", [1 << 62, -1_000_000_000])
def test_an_event_of_another_time_than_its_packet_is_left_out(by: int) -> None:
    trace = with_file("cpu_0", resealed(STREAMS["cpu_0"], 0, shifted(0, by)))
    assert trace.damage == ("cpu_0: packet 0: 1 event tells a time that cannot be",)
    assert check(trace) == 1
    assert trace.end_ns == WHOLE.end_ns


ENTERED: Columns = {"time_ns": range(1_000, 11_000, 1_000), "enter_ns": range(900, 10_900, 1_000)}


@pytest.mark.parametrize("by", [0, 1 << 62, 101, 10_000])
def test_an_event_that_began_never_or_after_its_end_is_left_out(by: int, tmp_path: Path) -> None:
    write_trace(tmp_path, {"syscall": ENTERED}, packet_events=5)
    data = (tmp_path / "cpu_0").read_bytes()
    (tmp_path / "cpu_0").write_bytes(resealed(data, 0, shifted(16, by)))
    trace = read_trace(tmp_path)
    assert trace.damage == ("cpu_0: packet 0: 1 event tells a time that cannot be",)
    assert trace.points["syscall"]["time_ns"].tolist() == [
        time for time in range(1_000, 11_000, 1_000) if time != 3_000
    ]
    assert windows(trace) == [(1_000, 5_000, 0, -1)]


def test_an_event_that_began_long_before_the_recording_is_left_out(tmp_path: Path) -> None:
    hour = 3_600_000_000_000
    write_trace(tmp_path, {"syscall": {"time_ns": [hour, hour + 9], "enter_ns": [7, hour + 1]}})
    trace = read_trace(tmp_path)
    assert trace.points["syscall"]["time_ns"].tolist() == [hour + 9]
    assert len(trace.damage) == 1


def test_what_is_not_told_is_no_damage(tmp_path: Path) -> None:
    columns: Columns = {"time_ns": [50, 60], "off_ns": [40, 50], "wake_ns": [0, 55]}
    write_trace(tmp_path, {"sched_resume": columns, "aio_complete": {"time_ns": [70]}})
    trace = read_trace(tmp_path)
    assert trace.damage == ()
    assert len(trace.points["sched_resume"]) + len(trace.points["aio_complete"]) == 3


def test_a_packet_of_a_time_that_no_machine_reaches_is_left_out(tmp_path: Path) -> None:
    late = (1 << 62) + 5
    write_trace(tmp_path, {"syscall": {"time_ns": [10, late], "enter_ns": [9, late]}},
                packet_events=1)  # fmt: skip
    trace = read_trace(tmp_path)
    assert trace.damage == ("cpu_0: packet 1: its head contradicts itself",)
    assert trace.end_ns == 10


@pytest.mark.parametrize(
    ("field_at", "value", "why"),
    [
        (24, 1 << 62, "its head contradicts itself"),
        (32, 1, "its head contradicts itself"),
        (72, 7, "it is of CPU 7"),
        (72, 1 << 16, "its head contradicts itself"),
        (56, 0, "sequence number 0 again"),
        (20, 1, "its head contradicts itself"),
    ],
)
def test_a_head_that_contradicts_is_named(field_at: int, value: int, why: str) -> None:
    fmt = "<I" if field_at in (20, 72) else "<Q"
    second = packet_places("cpu_0")[1]
    data = resealed(
        STREAMS["cpu_0"], second, lambda packet: struct.pack_into(fmt, packet, field_at, value)
    )
    assert any(why in line for line in with_file("cpu_0", data).damage)


def test_files_that_are_no_streams_are_named(tmp_path: Path) -> None:
    write(tmp_path, EVENTS)
    (tmp_path / "notes.txt").write_text("nothing of ours")
    (tmp_path / ".hidden").write_text("nothing of ours")
    (tmp_path / "directory").mkdir()
    trace = read_trace(tmp_path)
    assert trace.damage == ("notes.txt: no stream of this trace",)
    assert len(trace.losses) == 0
    assert check(trace) == 0


def test_a_stream_that_cannot_be_opened_is_all_lost(tmp_path: Path) -> None:
    write(tmp_path, EVENTS)
    (tmp_path / "cpu_0").unlink()
    (tmp_path / "cpu_0").symlink_to("cpu_0")
    trace = read_trace(tmp_path)
    assert "cpu_0: cannot be read" in trace.damage[0]
    check(trace)


def test_behind_a_hole_nothing_is_read(tmp_path: Path) -> None:
    """It may be as long as it likes, and is a few bytes of an archive."""
    write(tmp_path, EVENTS)
    stream = tmp_path / "cpu_0"
    size = stream.stat().st_size
    os.truncate(stream, 1 << 32)
    trace = read_trace(tmp_path)
    # The file's last block is filled up with zeros.
    begin = -(-size // stream.stat().st_blksize) * stream.stat().st_blksize
    assert trace.damage[-1].endswith(f"a hole: {(1 << 32) - begin} bytes are not read")
    assert check(trace) == 0
    assert -1 in trace.losses.count


def test_a_file_that_is_a_hole_is_all_lost(tmp_path: Path) -> None:
    write(tmp_path, EVENTS)
    (tmp_path / "cpu_0").unlink()
    (tmp_path / "cpu_0").touch()
    os.truncate(tmp_path / "cpu_0", 1 << 32)
    trace = read_trace(tmp_path)
    assert trace.damage == (f"cpu_0: packet 0: a hole: {1 << 32} bytes are not read",)
    check(trace)


def test_packets_that_are_claimed_everywhere_are_not_looked_for_for_ever() -> None:
    """Each says that it reaches to the end of the file, of which the checksum is then read."""
    stream = STREAMS["cpu_0"]
    (place, *_) = packet_places("cpu_0")
    head = bytearray(stream[place : place + HEAD_BYTES])
    count = 2 * MOST_DAMAGES
    data = bytearray()
    for left in range(count, 0, -1):
        bits = left * HEAD_BYTES * 8
        struct.pack_into("<QQ", head, CONTENT_AT, bits, bits)
        data += head
    damage = [line for line in with_file("cpu_0", bytes(data)).damage if line.startswith("cpu_0")]
    assert len(damage) <= MOST_DAMAGES + 1
    assert "too much is wrong" in damage[-1]


def windows(trace: Trace) -> list[tuple[int, ...]]:
    losses = trace.losses
    columns = (losses.begin_ns, losses.end_ns, losses.cpu, losses.count)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def test_losses_after_a_stream_ended_reach_to_the_end(tmp_path: Path) -> None:
    builder = TraceBuilder()
    builder.add("syscall", time_ns=10, cpu=0).add("syscall", time_ns=90, cpu=1)
    builder.add("loss", time_ns=95, cpu=0, lost_point=1, lost_count=6)
    builder.add("loss", time_ns=95, cpu=5, lost_point=2, lost_count=1)
    trace = read_trace(builder.write(tmp_path))
    assert trace.lost_by_point == {"syscall": 6, "thread": 1}
    assert windows(trace) == [(10, 95, 0, 6), (10, 95, 5, 1)]


def test_refusals_that_no_loss_event_explains_have_no_name(tmp_path: Path) -> None:
    times = {"syscall": {"time_ns": [10, 20, 30, 40]}}
    write_trace(tmp_path, times, packet_events=2, discarded={0: [(15, 4)]})
    trace = read_trace(tmp_path)
    assert trace.lost_by_point == {"unknown": 4}
    assert windows(trace) == [(10, 40, 0, 4)]


def test_refusals_younger_than_their_packet_are_within_the_window(tmp_path: Path) -> None:
    """A ring that is full refuses what comes after its last event."""
    loss: Columns = {
        "time_ns": [35, 55, 56, 85],
        "lost_point": [1, 1, 2, 1],
        "lost_count": [2, 3, 5, 9],
        "cpu": 0,
    }
    events: dict[str, Columns] = {"syscall": {"time_ns": range(10, 100, 10)}, "loss": loss}
    write_trace(tmp_path, events, packet_events=3, discarded={0: [(25, 8), (65, 6)]})
    trace = read_trace(tmp_path)
    assert trace.lost_by_point == {"syscall": 9, "thread": 5}
    assert windows(trace) == [(10, 56, 0, 8), (60, 90, 0, 6)]


KILLED = (
    "the recorder still runs, was killed, or could write no more (a full disk): "
    "from {} on, events may be missing"
)


def ended(directory: Path, events: int, *, end: bool = True, before: int = 0) -> Path:
    """Six events of two CPUs, of which the recorder says that there were so many; ``before``: and
    so many the time before."""
    builder = TraceBuilder(env={"machine_cpus": 3}, packet_events=2)
    builder.extend("syscall", time_ns=np.arange(6) * 10 + 10, cpu=[0, 1, 0, 1, 0, 1])
    if before:
        builder.add("recorder", time_ns=50, event_count=before)
    builder.add("recorder", time_ns=100, event_count=events)
    if end:
        builder.add("end", time_ns=99, reason=layout.END_COMMAND)
    return builder.write(directory)


def test_a_recorder_that_ended_by_itself_counted_what_is_there(tmp_path: Path) -> None:
    trace = read_trace(ended(tmp_path, 6))
    assert trace.damage == ()
    assert windows(trace) == []


def test_a_recorder_that_was_killed_is_told(tmp_path: Path) -> None:
    trace = read_trace(ended(tmp_path, 4))
    assert trace.damage == (KILLED.format("0 ns"),)
    assert windows(trace) == [(10, 100, 2, -1), (50, 100, 0, -1), (60, 100, 1, -1)]


@pytest.mark.parametrize(
    ("before", "missing", "told"), [(0, 0, False), (0, 3, False), (6, 3, False), (7, 3, True)]
)
def test_so_is_one_that_had_counted_all_that_there_is_or_more(
    tmp_path: Path, before: int, missing: int, *, told: bool
) -> None:
    """What one that still runs counted last may not be written yet; what it had before is."""
    trace = read_trace(ended(tmp_path, 6 + missing, end=False, before=before))
    counted = (f"events that the recorder counted are missing: {missing}",) if told else ()
    assert trace.damage == (KILLED.format("0 ns"), *counted)
    assert windows(trace) == [(10, 100, 2, -1), (50, 100, 0, -1), (60, 100, 1, -1)]


def test_a_stream_cut_between_packets_is_told(tmp_path: Path) -> None:
    path = ended(tmp_path, 6)
    stream = (path / "cpu_1").read_bytes()
    (path / "cpu_1").write_bytes(stream[: -HEAD_BYTES - 64])
    trace = read_trace(path)
    assert trace.damage == ("events that the recorder counted are missing: 1",)
    assert (40, 100, 1, -1) in windows(trace)
    (path / "cpu_1").unlink()
    assert (10, 100, 1, -1) in windows(read_trace(path))


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        (None, "no file metadata"),
        (b"", "empty"),
        (b"\xff\xfe\x00", "no text"),
        (b"\x57\x1d\xd1\x75packetised", "no text"),
        (b"/* CTF 1.8 */ trace { major = 1; };", "does not say that iostrata"),
    ],
)
def test_without_metadata_there_is_no_trace(
    tmp_path: Path, metadata: bytes | None, why: str
) -> None:
    write(tmp_path, EVENTS)
    (tmp_path / "metadata").unlink()
    if metadata is not None:
        (tmp_path / "metadata").write_bytes(metadata)
    with pytest.raises(RecordingError, match=why) as caught:
        read_trace(tmp_path)
    assert caught.value.hint


@pytest.mark.parametrize("left", [None, b""])
def test_a_recorder_that_tells_nothing_is_damage(tmp_path: Path, left: bytes | None) -> None:
    """What it counted, lost and missed is in that file: without it nobody knows."""
    kept = shutil.copytree(RECORDINGS / "four_methods" / "local", tmp_path / "trace")
    assert not read_trace(kept).damage
    (kept / "recorder").unlink()
    if left is not None:
        (kept / "recorder").write_bytes(left)
    assert read_trace(kept).damage == (NO_RECORDER,)


@pytest.mark.parametrize("counted", [True, False], ids=["counted", "not counted"])
def test_a_cpu_without_a_file_is_damage(tmp_path: Path, *, counted: bool) -> None:
    """Whoever counted its events: each CPU's file is made as the recording begins."""
    kept = shutil.copytree(RECORDINGS / "four_methods" / "local", tmp_path / "trace")
    (kept / "cpu_1").unlink()
    if not counted:
        (kept / "recorder").unlink()
    trace = read_trace(kept)
    assert trace.damage == ("cpu_1: missing", *[NO_RECORDER] * (not counted))
    assert windows(trace)[0] == (trace.begin_ns, trace.end_ns, 1, -1)
