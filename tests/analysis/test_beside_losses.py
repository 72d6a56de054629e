# SPDX-License-Identifier: Apache-2.0
"""What no loss reaches is as it would be without that loss: the same writes, the same times.

A pointer that is used again while events are lost is another's behind that.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pytest

from iostrata import native
from iostrata.analysis import analyse, prepare
from iostrata.columns import NEVER
from iostrata.errors import NothingToAnalyse
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from iostrata.stitch import requests_of, whole
from iostrata.trace.layout import EVENT_BYTES
from iostrata.trace.packet import HEAD, HEAD_BYTES
from iostrata.trace.write import packet
from tests.stitch.test_account import analysed
from tests.synthetic import World
from tests.test_recorded import NAMES, RECORDINGS

DAMAGES = 15
PACKETS = 12
SIZE_AT = 48
"""Of a packet, in its head; bits."""
# How far clocks are apart is known by less: what one direction has less, the other has more.
ONE_WAY = {"network.there": "network", "network.back": "network"}

Rows = dict[tuple[int, int, int, int], dict[str, int]]


def rows_of(found: Breakdown) -> Rows:
    """Of each write, by thread, begin, end and place, what each of its layers held; ns."""
    every: Rows = {}
    writes = found.writes
    names = [f"{one.machine} {ONE_WAY.get(one.row, one.row)}" for one in found.layers]
    told = (writes.tid, writes.begin_ns, writes.latency_ns, writes.offset_bytes)
    for row, whose in enumerate(zip(*(column.tolist() for column in told), strict=True)):
        held = every[whose] = {"": int(found.residual_ns[row])}
        for name, time_ns in zip(names, found.time_ns[:, row].tolist(), strict=True):
            if time_ns:
                held[name] = held.get(name, 0) + time_ns
    return every


def damage(directory: Path, seed: int) -> None:
    """In turn: some bits of its events are others; the first packet of each CPU is lost; a packet
    is gone; a file is cut; an event is missing in the midst of a packet."""
    draw = random.Random(seed)
    streams = sorted(path for path in directory.rglob("cpu_*") if path.stat().st_size)
    kind = seed % 5
    chosen = draw.choices(streams, k=1 + draw.randrange(3)) if kind == 0 else [draw.choice(streams)]
    for stream in streams if kind == 1 else chosen:
        data = bytearray(stream.read_bytes())
        begin, end = (0, 0) if kind == 0 else draw.choice(packets(data))
        if kind == 0:
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        elif kind == 1:
            data[HEAD_BYTES] ^= 1
        elif kind == 2:
            del data[begin:end]
        elif kind == 3:
            del data[draw.randrange(len(data)) :]
        else:
            first = draw.randrange(begin + HEAD_BYTES, end, EVENT_BYTES)
            del data[first : first + EVENT_BYTES]
        stream.write_bytes(data)


def packets(data: bytearray) -> list[tuple[int, int]]:
    """From where to where each is."""
    found, at = [], 0
    while at < len(data):
        end = at + int.from_bytes(data[at + SIZE_AT : at + SIZE_AT + 8], "little") // 8
        found.append((at, end))
        at = end
    return found


def cut_up(directory: Path, events: int) -> list[tuple[Path, int]]:
    """The same recording in packets of so many events; of each, its file and its number."""
    found = []
    for stream in sorted(directory.rglob("cpu_*")):
        data = bytearray(stream.read_bytes())
        parts: list[bytes] = []
        for begin, end in packets(data):
            _, uuid, _, first_ns, last_ns, _, _, _, discarded, cpu, _ = HEAD.unpack_from(
                data, begin
            )
            at = begin + HEAD_BYTES
            while at < end:
                until = min(at + events * EVENT_BYTES, end)
                times = np.frombuffer(data[at:until], np.uint64)[:: EVENT_BYTES // 8]
                until_ns = last_ns if until == end else int(times[-1])
                span_ns = (first_ns if at == begin + HEAD_BYTES else int(times[0]), until_ns)
                body = bytes(data[at:until])
                parts.append(packet(body, 0, cpu, uuid, span_ns, len(parts), discarded))
                at = until
        stream.write_bytes(b"".join(parts))
        found += [(stream, number) for number in range(len(parts))]
    return found


def compared(recording: Path, every: Rows, machines: set[str]) -> int:
    """How many rows are left; none of them has more than the whole one's (``every``)."""
    try:
        found = analyse(open_recording(recording))
    except NothingToAnalyse:
        return 0
    left = rows_of(found)
    # Of what a machine did of which nothing is left, another one's row has the time; and where
    # nothing of a workload is left, there may be what was made for it.
    if {one.machine for one in found.layers} != machines or not left.keys() & every.keys():
        return 0
    assert left.keys() <= every.keys()
    for whose, held in left.items():
        more = {row for row, time_ns in held.items() if time_ns > every[whose].get(row, 0)}
        assert more <= {""}
    return len(left)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_left_of_a_damaged_recording_is_as_in_the_whole_one(
    name: str, tmp_path: Path
) -> None:
    """Or some of its time is unattributed there; in no row it has more."""
    whole = analyse(open_recording(RECORDINGS / name))
    every, machines = rows_of(whole), {one.machine for one in whole.layers}
    rows = 0
    for seed in range(DAMAGES):
        copy = tmp_path / str(seed)
        shutil.copytree(RECORDINGS / name, copy)
        damage(copy, seed)
        rows += compared(copy, every, machines)
    assert rows


@pytest.mark.parametrize("name", NAMES)
def test_so_it_is_without_any_one_packet(name: str, tmp_path: Path) -> None:
    """By turns, of packets of a few hundred events."""
    whole = analyse(open_recording(RECORDINGS / name))
    every, machines = rows_of(whole), {one.machine for one in whole.layers}
    copy, rows = tmp_path / "copy", 0
    shutil.copytree(RECORDINGS / name, copy)
    size = sum(stream.stat().st_size for stream in copy.rglob("cpu_*"))
    streams = cut_up(copy, max(size // EVENT_BYTES // PACKETS, 1))
    assert rows_of(analyse(open_recording(copy))) == every
    for stream, number in streams[:: max(len(streams) // PACKETS, 1)]:
        data = stream.read_bytes()
        begin, end = packets(bytearray(data))[number]
        stream.write_bytes(data[:begin] + data[end:])
        rows += compared(copy, every, machines)
        stream.write_bytes(data)
    assert rows


KEY, REQUEST = 0x70, 0x90


def two_uses(*, lost: bool, silent: bool = False) -> World:
    """Two writes with one pointer of a bio and of a request, the second one's begin lost or not.

    ``silent``: nor was the first one's end seen.
    """
    world = World()
    world.builder.packet_events = 1
    world.target(100)
    for number, begin in enumerate((1_000_000, 50_000_000)):
        block = {"bio_key": KEY, "dev": 8 << 20, "sector": 4096, "size_bytes": 8192}
        world.deaf_to = "*" if number and lost else ""
        world.emit("block_bio_queue", begin + 1_000, 100, flags=1, **block)
        world.emit("block_rq_issue", begin + 2_000, 100, request_key=REQUEST, flags=1, **block)
        if number and lost:
            world.builder.refuse("block_bio_queue", time_ns=begin + 1_000, cpu=0)
            world.builder.refuse("block_rq_issue", time_ns=begin + 2_000, cpu=0)
        world.deaf_to = "*" if silent and not number else ""
        world.emit("block_rq_complete", begin + 20_000, 1, request_key=REQUEST, bio_key=KEY,
                   dev=8 << 20, size_bytes=8192)  # fmt: skip
        # It waits for a CPU for much longer than for the disk.
        world.emit("sched_resume", begin + 90_000, 0, off_ns=begin + 3_000, wake_ns=begin + 22_000,
                   waker_tid=1, state=2, subject_tid=100, waker_context=2)  # fmt: skip
        world.deaf_to = ""
        world.emit("syscall", begin + 100_000, 100, enter_ns=begin, tgid=100, dev=8 << 20, inode=7,
                   call=2, open_flags=0o10000, size_bytes=8192, result=8192)  # fmt: skip
        # What is lost is behind this.
        world.target(104, begin + 200_000)
    return world


def test_a_pointer_that_is_used_again_in_a_loss_is_another_s_behind_it() -> None:
    first = {"local wakeup.runqueue": 68_000, "local device.data": 18_000}
    for lost in (False, True):
        found = analysed(two_uses(lost=lost))
        assert len(found.writes) == 2 - lost
        (own, *_) = rows_of(found).values()
        assert first.items() <= own.items()


@pytest.mark.parametrize("in_c", [True, False])
@pytest.mark.parametrize("silent", [False, True])
def test_a_request_does_not_end_behind_a_loss_that_began_after_it(
    *, in_c: bool, silent: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all of a trace, as of what one machine asks another for."""
    if not in_c:
        monkeypatch.setattr(native, "LIBRARY", None)
    elif native.LIBRARY is None:
        pytest.skip("the library is not built here")
    two_uses(lost=True, silent=silent).builder.write(tmp_path / "local")
    requests, _ = requests_of(whole(open_recording(tmp_path / "local").traces()[0]))
    took = (requests.complete_ns - requests.issue_ns).tolist()
    assert took == ([] if silent else [18_000])


def test_a_window_is_on_one_side_of_each_loss(tmp_path: Path) -> None:
    two_uses(lost=True).builder.write(tmp_path / "local")
    (top,) = prepare(open_recording(tmp_path / "local")).tops
    assert [section.rows.tolist() for section in top.windows] == [[0], [1]]
    losses = top.trace.losses
    begins, ends = top.pieces.begin_ns, top.pieces.end_ns
    assert losses.begun_by(begins).tolist() == [0, 1]
    # The second begins within it.
    assert losses.over_by(begins).tolist() == [0, 0]
    assert losses.next(begins)[0] == losses.begin_ns[0] - 1
    since, until = losses.around(begins[:1], ends[:1])
    assert since == 0
    assert ends[0] < until <= losses.begin_ns[0]
    assert losses.around(np.array([0]), np.array([1 << 50])) == (0, NEVER)
