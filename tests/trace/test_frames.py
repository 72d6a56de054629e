# SPDX-License-Identifier: Apache-2.0
"""A compressed recording is the same recording; what is wrong with a frame costs that frame, and
whatever it claims, no more is made of it than a packet."""

from __future__ import annotations

import errno
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from iostrata.cli import status_of
from iostrata.errors import RecordingError
from iostrata.recording import open_recording
from iostrata.trace import frames
from iostrata.trace.follow import SETTLED_NS, Follower
from iostrata.trace.frames import MAGIC, MOST_BYTES, MOST_DAMAGES, MOST_TIMES, frame_of
from iostrata.trace.pseudonyms import Pseudonyms
from iostrata.trace.read import Trace, read_trace
from iostrata.trace.redact import redact_trace
from tests.builder import TraceBuilder
from tests.test_recorded import RECORDINGS
from tests.trace.framed import framed, framed_copy, frames_of, zstd
from tests.trace.growing import Growing, packets
from tests.trace.random_events import random_events, write
from tests.trace.test_damage import check

EVENTS = random_events(11, {"syscall": 40, "block_rq_issue": 25, "clock_sample": 5, "thread": 8})
PACKET_EVENTS = 10
TEMPORARY = tempfile.TemporaryDirectory()
PLAIN = write(Path(tempfile.mkdtemp(dir=TEMPORARY.name)), EVENTS, PACKET_EVENTS)
WHOLE = read_trace(PLAIN)
FRAMES = frames_of(PLAIN / "cpu_0")
STREAM = b"".join(FRAMES)
SOURCE = Path(__file__).parents[1] / "recordings" / "four_methods" / "local"
NAMES = sorted(path.parent.name for path in RECORDINGS.glob("*/recording.json"))
VIEWS = [
    ["replay"],
    ["replay", "--by", "process", "--json", "-", "--csv", "/dev/null"],
    ["replay", "--histogram", "--over-time", "--tail"],
    ["timeline", "--slowest", "2"],
    ["estimate"],
    ["dump"],
]


def read(directory: Path, stream: bytes) -> Trace:
    """With that as the first CPU's; others have their frames."""
    path = framed(write(directory, EVENTS, PACKET_EVENTS))
    (path / "cpu_0.zst").write_bytes(stream)
    return read_trace(path)


def of_first(trace: Trace) -> list[str]:
    return [line for line in trace.damage if line.startswith("cpu_0")]


def skippable(content: bytes) -> bytes:
    return struct.pack("<II", 0x184D2A53, len(content)) + content


@pytest.mark.parametrize("view", VIEWS, ids=" ".join)
@pytest.mark.parametrize("name", NAMES)
def test_every_table_is_the_same(
    name: str, view: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(RECORDINGS / name, tmp_path / "plain")
    framed_copy(RECORDINGS / name, tmp_path / "framed")
    assert not list((tmp_path / "framed").rglob("cpu_*[0-9]"))
    found = []
    for kind in ("plain", "framed"):
        status = status_of([view[0], str(tmp_path / kind), *view[1:]])
        out, err = capfd.readouterr()
        found.append((status, out.replace(f"/{kind}", ""), err.replace(f"/{kind}", "")))
    assert found[0] == found[1]
    assert found[0][1]


def test_zstd_makes_the_plain_stream_of_it(tmp_path: Path) -> None:
    program = shutil.which("zstd")
    if not program:
        pytest.skip("there is no zstd(1)")
    framed_copy(SOURCE, tmp_path / "local")
    streams = sorted((tmp_path / "local").glob("*.zst"))
    assert streams
    subprocess.run([program, "-d", "-q", "--rm", *streams], check=True)
    for stream in streams:
        assert stream.with_suffix("").read_bytes() == (SOURCE / stream.stem).read_bytes()


DESCRIPTORS = {sum(map(len, FRAMES[:number])) + 4 for number in range(len(FRAMES))}
"""Where each frame says whether it has a checksum behind it."""


@given(st.integers(0, len(STREAM) - 1), st.integers(1, 255))
@example(4, 4)
def test_a_flipped_byte_costs_its_frame(at: int, flip: int) -> None:
    data = bytearray(STREAM)
    data[at] ^= flip
    with tempfile.TemporaryDirectory() as directory:
        trace = read(Path(directory), bytes(data))
        lost = check(trace, EVENTS)
    assert lost <= PACKET_EVENTS
    # Its checksum is taken for another frame, but its events are there.
    assert lost or (at in DESCRIPTORS and flip == 4)
    assert any(line.startswith("cpu_0.zst: packet") for line in trace.damage)


@given(st.integers(0, len(STREAM)))
def test_of_a_cut_file_the_whole_frames_are_read(at: int) -> None:
    whole, size = 0, 0
    while whole < len(FRAMES) and size + len(FRAMES[whole]) <= at:
        size += len(FRAMES[whole])
        whole += 1
    with tempfile.TemporaryDirectory() as directory:
        trace = read(Path(directory), STREAM[:at])
        if at > size:
            check(trace, EVENTS)
    (stream,) = (stream for stream in trace.streams if stream.name == "cpu_0.zst")
    assert stream.packet_count == whole
    left = at - size
    truncated = f"cpu_0.zst: packet {whole}: truncated: {left} bytes of a frame"
    assert of_first(trace) == ([truncated] if left else [])


@given(st.lists(st.tuples(st.integers(0, len(STREAM)), st.binary(max_size=200)), max_size=5))
def test_overwritten_stretches_are_never_misread(changes: list[tuple[int, bytes]]) -> None:
    data = bytearray(STREAM)
    for at, noise in changes:
        data[at : at + len(noise)] = noise
    with tempfile.TemporaryDirectory() as directory:
        check(read(Path(directory), bytes(data)), EVENTS)


@pytest.mark.parametrize("without", range(len(FRAMES)))
def test_a_frame_that_is_missing_is_a_missing_packet(without: int, tmp_path: Path) -> None:
    trace = read(tmp_path, b"".join(FRAMES[:without] + FRAMES[without + 1 :]))
    told = [f"cpu_0.zst: packet {without}: 1 packet missing before it"]
    # Nothing tells of the last one but the recorder, which counts none here.
    assert of_first(trace) == (told if without < len(FRAMES) - 1 else [])
    if told == of_first(trace):
        assert check(trace, EVENTS) == PACKET_EVENTS


def test_nothing_of_a_frame_is_taken_whose_checksum_is_wrong(tmp_path: Path) -> None:
    """The packet itself is as it was: it is the frame that says it is not."""
    last = bytearray(FRAMES[1])
    last[-1] ^= 1
    trace = read(tmp_path, b"".join([FRAMES[0], bytes(last), *FRAMES[2:]]))
    assert of_first(trace) == [
        "cpu_0.zst: packet 1: a frame is damaged, or takes more memory than any packet"
    ]
    assert check(trace, EVENTS) == PACKET_EVENTS


def test_frames_without_packets(tmp_path: Path) -> None:
    """Empty ones and ones that are to be skipped are no part of the stream."""
    nothing = zstd().compress(b"")
    trace = read(tmp_path, b"".join([skippable(b"x" * 99), nothing, *FRAMES, skippable(b"")]))
    assert trace.damage == ()
    assert check(trace, EVENTS) == 0


def test_an_empty_file_is_a_cpu_without_events(tmp_path: Path) -> None:
    plain, with_frames = write(tmp_path / "p", EVENTS), framed(write(tmp_path / "f", EVENTS))
    (plain / "cpu_0").write_bytes(b"")
    (with_frames / "cpu_0.zst").write_bytes(b"")
    one, other = read_trace(plain), read_trace(with_frames)
    assert one.damage == other.damage == ()
    assert one.event_count == other.event_count
    assert [stream.cpu for stream in one.streams] == [stream.cpu for stream in other.streams]


@pytest.mark.parametrize("garbage", [b"x", bytes(500), MAGIC * 50, skippable(b"x")[:-1]])
def test_garbage_behind_the_last_frame(garbage: bytes, tmp_path: Path) -> None:
    trace = read(tmp_path, STREAM + garbage)
    assert len(of_first(trace)) == 1
    assert check(trace, EVENTS) == 0


@pytest.mark.parametrize("pieces", [2, 3])
def test_a_packet_in_several_frames_is_one(pieces: int, tmp_path: Path) -> None:
    """As zstd -d makes it: where a frame ends says nothing of the stream."""
    made = []
    for _, packet in packets(PLAIN / "cpu_0"):
        slots = len(packet) // 64
        edges = [slots * piece // pieces * 64 for piece in range(pieces + 1)]
        made += [frame_of(packet[begin:end]) for begin, end in pairwise(edges)]
    trace = read(tmp_path, b"".join(made))
    assert trace.damage == ()
    assert check(trace, EVENTS) == 0


def test_all_packets_in_one_frame_are_read_if_they_are_few(tmp_path: Path) -> None:
    trace = read(tmp_path, frame_of((PLAIN / "cpu_0").read_bytes()))
    assert trace.damage == ()
    assert check(trace, EVENTS) == 0


def without_size(content: bytes) -> bytes:
    """As of who does not know how much there will be."""
    made = zstd().ZstdCompressor(options={zstd().CompressionParameter.window_log: 17})
    return bytes(made.compress(content) + made.flush())


BOMBS = {
    "that it tells": (zstd().compress, 1 << 28),
    "that it does not tell": (without_size, 1 << 28),
    "one byte too many": (zstd().compress, MOST_BYTES + 1),
    "no slots": (zstd().compress, 100),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_damage(bomb: str, tmp_path: Path) -> None:
    make, size = BOMBS[bomb]
    trace = read(tmp_path, b"".join([FRAMES[0], make(bytes(size)), *FRAMES[1:]]))
    (told,) = of_first(trace)
    assert told.startswith("cpu_0.zst: packet 1: a frame")
    assert check(trace, EVENTS) == 0
    (stream,) = (stream for stream in trace.streams if stream.name == "cpu_0.zst")
    assert stream.mapped is not None
    assert len(stream.mapped) == (PLAIN / "cpu_0").stat().st_size + 64


CLAIM = MAGIC + bytes([0b1110_0000]) + struct.pack("<Q", 1 << 62)
READ = """
import resource, sys
from pathlib import Path
from iostrata.trace.read import read_trace
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]), int(sys.argv[2])))
print("\\n".join(read_trace(Path(sys.argv[1])).damage))
"""


def test_memory_is_not_what_a_frame_claims(tmp_path: Path) -> None:
    """Of its content, or of the window that it says it needs."""
    window = bytearray(without_size(bytes(1 << 16)))
    window[5] = 21 << 3  # 2 GiB
    assert zstd().get_frame_info(bytes(window)).decompressed_size is None
    read(tmp_path, FRAMES[0] + CLAIM + bytes(99) + bytes(window) + b"".join(FRAMES[1:]))
    words = [sys.executable, "-c", READ, str(tmp_path), str(1 << 30)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines()[0] == (
        f"cpu_0.zst: packet 1: a frame of {1 << 62} bytes, and no packet has as many"
    )


def test_many_small_bombs_do_not_fill_the_disk(tmp_path: Path) -> None:
    bomb = zstd().compress(bytes(MOST_BYTES))
    count = 200
    trace = read(tmp_path, b"".join([*FRAMES, *[bomb] * count]))
    assert len(bomb) * MOST_TIMES < MOST_BYTES
    told = next(one for one in trace.streams if one.name == "cpu_0.zst")
    assert told.mapped is not None
    allowed = MOST_TIMES * (len(STREAM) + len(bomb) * count) + 2 * MOST_BYTES
    assert len(told.mapped) <= allowed < MOST_BYTES * count
    assert any("too much is made of too little" in line or "bad magic" in line
               for line in of_first(trace))  # fmt: skip
    assert check(trace, EVENTS) == 0


def test_a_file_of_claims_has_an_end(tmp_path: Path) -> None:
    trace = read(tmp_path, STREAM + MAGIC * 4 * MOST_DAMAGES)
    assert any("too much is wrong" in line or "truncated" in line or "frame" in line
               for line in of_first(trace))  # fmt: skip
    assert check(trace, EVENTS) == 0


def test_a_cpu_that_is_there_both_ways_is_read_once(tmp_path: Path) -> None:
    path = write(tmp_path / "a", EVENTS, PACKET_EVENTS)
    (path / "cpu_0.zst").write_bytes(STREAM[:100])
    trace = read_trace(path)
    assert trace.damage == ("cpu_0.zst: not read, as cpu_0 is there, too",)
    assert check(trace, EVENTS) == 0
    redact_trace(path, tmp_path / "b", Pseudonyms())
    assert not (tmp_path / "b" / "cpu_0.zst").exists()
    assert (tmp_path / "b" / "cpu_0").exists()


def test_whatever_somebody_compressed_is_read(tmp_path: Path) -> None:
    """And read once, as long as its name tells what it was."""
    path = write(tmp_path, EVENTS)
    (path / "recorder.zst").write_bytes(frame_of((path / "recorder").read_bytes()))
    assert read_trace(path).damage == ("recorder.zst: not read, as recorder is there, too",)
    (path / "recorder").unlink()
    trace = read_trace(path)
    assert trace.damage == ()
    assert check(trace, EVENTS) == 0


@pytest.mark.parametrize("steps", [1, 7])
def test_one_that_grows_is_followed(steps: int, tmp_path: Path) -> None:
    growing = Growing(SOURCE, tmp_path / "local", frame_of)
    follower = Follower(growing.directory, "local")
    span_ns = growing.end_ns - growing.begin_ns
    found = None
    for step in range(1, steps + 1):
        growing.until(growing.begin_ns + span_ns * step // steps, torn=step % 3 * 70)
        found = follower.snapshot(10**12, 10**9) or found
    follower.close()
    assert found
    whole = read_trace(SOURCE)
    assert not found.trace.damage
    assert found.end_ns == whole.end_ns - SETTLED_NS
    for name, points in whole.points.items():
        times = points.time_ns[points.time_ns <= found.end_ns]
        seen = found.trace.points[name].time_ns
        assert (seen[seen <= found.end_ns] == times).all(), name


def test_one_that_is_damaged_is_followed_no_further(tmp_path: Path) -> None:
    growing = Growing(SOURCE, tmp_path / "local", frame_of)
    follower = Follower(growing.directory, "local")
    half_ns = (growing.begin_ns + growing.end_ns) // 2
    growing.until(half_ns)
    assert follower.snapshot(10**12, 10**9)
    for path in growing.directory.glob("cpu_*.zst"):
        with path.open("ab") as file:
            file.write(bytes(64))
    growing.until(growing.end_ns)
    with pytest.raises(RecordingError, match="no packet begins where one must"):
        follower.snapshot(10**12, 10**9)
    follower.close()


def test_a_redacted_copy_has_frames_as_well(tmp_path: Path) -> None:
    """Of the very packets that the copy of one without frames has."""
    framed_copy(SOURCE, tmp_path / "source")
    for source, target in ((SOURCE, "plain"), (tmp_path / "source", "framed")):
        redact_trace(source, tmp_path / target, Pseudonyms())
    streams = sorted((tmp_path / "framed").glob("cpu_*"))
    assert streams
    for stream in streams:
        assert b"".join(frames_of(tmp_path / "plain" / stream.stem)) == stream.read_bytes()


def test_a_damaged_one_is_redacted_to_the_same_losses(tmp_path: Path) -> None:
    before = read(tmp_path / "a", b"".join([FRAMES[0], FRAMES[1][:-9], *FRAMES[2:]]))
    redact_trace(tmp_path / "a", tmp_path / "b", Pseudonyms())
    after = read_trace(tmp_path / "b")
    assert len(before.damage) == len(after.damage) == 1
    for name in ("begin_ns", "end_ns", "cpu", "count"):
        assert getattr(before.losses, name).tolist() == getattr(after.losses, name).tolist()


def test_it_is_joined_with_others(tmp_path: Path) -> None:
    part = framed_copy(RECORDINGS / "nfs", tmp_path / "framed")
    words = ["join", f"a:host={part / 'host'}", f"b:server={RECORDINGS / 'nfs' / 'server'}"]
    assert status_of([*words, "-o", str(tmp_path / "joined")]) == 0
    for trace, name in zip(
        open_recording(tmp_path / "joined").traces(), ("host", "server"), strict=True
    ):
        assert trace.event_count == read_trace(RECORDINGS / "nfs" / name).event_count
        assert trace.damage == ()


def test_without_zstd_it_is_said_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> object:
        raise ImportError(name)

    monkeypatch.setattr(frames, "import_module", missing)
    assert read_trace(write(tmp_path / "plain", EVENTS)).damage == ()
    with pytest.raises(RecordingError, match="is compressed") as raised:
        read(tmp_path / "framed", STREAM)
    assert "zstd -d" in raised.value.hint


def test_a_full_disk_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    real, shim = os.write, SimpleNamespace(**vars(os))
    shim.write = full
    monkeypatch.setattr(frames, "os", shim)
    with pytest.raises(RecordingError, match="cannot be kept in") as raised:
        read(tmp_path, STREAM)
    assert str(raised.value).endswith(": No space left on device")
    assert "TMPDIR" in raised.value.hint
    assert os.write is real


def test_as_much_room_is_left_as_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shim = SimpleNamespace(**vars(os))
    monkeypatch.setattr(frames, "os", shim)
    shim.fstatvfs = lambda fd: SimpleNamespace(f_blocks=1, f_bavail=1 << 16, f_frsize=1)
    assert read(tmp_path / "a", STREAM).damage == ()
    shim.fstatvfs = lambda fd: SimpleNamespace(f_blocks=1, f_bavail=1, f_frsize=512)
    with pytest.raises(RecordingError, match="cannot be kept in"):
        read(tmp_path / "b", STREAM)


def test_where_no_file_can_be_made_it_is_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "absent"))
    trace = read(tmp_path / "recording", STREAM)
    assert trace.damage == ()
    assert check(trace, EVENTS) == 0


def test_its_packets_are_in_a_file_without_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    trace = read(tmp_path / "recording", STREAM)
    mapped = Path("/proc/self/maps").read_text()
    assert f"{place}/" in mapped
    assert list(place.iterdir()) == []
    assert trace.event_count == WHOLE.event_count


def test_a_loss_that_no_packet_follows(tmp_path: Path) -> None:
    """A packet without events is a frame as any other."""
    builder = TraceBuilder().refuse("syscall", time_ns=5_000, count=3)
    plain = builder.add("syscall", time_ns=1_000, tid=1).write(tmp_path / "plain")
    one, other = read_trace(plain), read_trace(framed_copy(plain, tmp_path / "framed"))
    assert one.lost_by_point == other.lost_by_point == {"syscall": 3}
    assert len(one.losses) == len(other.losses) == 1
