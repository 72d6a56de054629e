# SPDX-License-Identifier: Apache-2.0
"""Latest: a growing recording's writes are each in one interval, as in the whole of it."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from iostrata.analysis import analyse
from iostrata.attribute.selection import joined
from iostrata.live import History, Interval, Latest, latest
from iostrata.live.latest import LEAST_EVENTS, LOOK_NS, MOST_EVENTS, affordable
from iostrata.recording import RecordedMachine, open_recording
from iostrata.trace import follow
from iostrata.trace.layout import CALL_IO_URING_ENTER
from tests.synthetic import O_DSYNC, World, Writer, write
from tests.trace.growing import Growing

RECORDING = Path(__file__).parents[1] / "recordings" / "four_methods"
MACHINE = RecordedMachine("local", "local", "local")


def intervals(tmp_path: Path, steps: int) -> list[Interval]:
    growing = Growing(RECORDING / "local", tmp_path / "local")
    source, found = Latest(tmp_path, MACHINE), []
    # Beyond the end, so that the last writes are settled, too.
    for step in range(1, steps + 1):
        growing.until(growing.begin_ns + (growing.end_ns - growing.begin_ns) * step // steps)
        if interval := source.interval():
            found.append(interval)
    source.close()
    return found


def test_every_write_is_in_one_interval(tmp_path: Path) -> None:
    whole = analyse(open_recording(RECORDING))
    found = intervals(tmp_path, 9)
    assert len(found) > 3
    assert all(interval.skipped_ns == 0 for interval in found)
    assert all(a.end_ns == b.begin_ns for a, b in pairwise(found))
    seen = joined([interval.breakdown for interval in found if interval.breakdown])
    rows = np.flatnonzero(whole.writes.end_ns <= found[-1].end_ns)
    assert len(rows) > 100
    assert (seen.writes.end_ns == whole.writes.end_ns[rows]).all()
    assert (seen.writes.latency_ns == whole.writes.latency_ns[rows]).all()
    held = {layer.name: time for layer, time in zip(seen.layers, seen.time_ns, strict=True)}
    for layer, times in zip(whole.layers, whole.time_ns, strict=True):
        assert (held.get(layer.name, 0) == times[rows]).all(), layer.name
    assert (seen.time_ns.sum(axis=0) + seen.residual_ns == seen.writes.latency_ns).all()


def test_what_costs_too_much_is_skipped_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latest, "MOST_EVENTS", 1500)
    monkeypatch.setattr(latest, "LEAST_EVENTS", 1500)
    monkeypatch.setattr(follow, "SETTLED_NS", 1_000_000)
    found = intervals(tmp_path, 2)
    assert any(interval.skipped_ns > 0 for interval in found)
    for interval in found:
        assert (interval.skipped_events > 0) == (interval.skipped_ns > 0)
    events = analyse(open_recording(RECORDING)).quality.cost
    assert events
    assert sum(one.events + one.skipped_events for one in found) <= events.events
    whole = analyse(open_recording(RECORDING)).writes
    looked = 0
    for interval in found:
        assert interval.seen_ns is not None
        ended = (whole.end_ns > interval.begin_ns) & (whole.end_ns <= interval.end_ns)
        expected = whole.end_ns[ended & (whole.latency_ns <= interval.seen_ns)]
        seen = interval.breakdown.writes.end_ns if interval.breakdown else expected[:0]
        # No part of what is short enough is missing, however much is.
        assert np.isin(expected, seen).all()
        looked += len(expected)
    assert looked > 10


def test_what_a_look_took_bounds_the_next() -> None:
    assert affordable(MOST_EVENTS, LOOK_NS // 2) == MOST_EVENTS
    assert affordable(20_000, 2 * LOOK_NS) == 10_000
    assert affordable(20_000, 1) == 25_000
    assert affordable(20_000, 1 << 62) == LEAST_EVENTS


ENGINES = {"call": 1, "io_uring": 3, "libaio": 2}
"""How many events a write has, by what asks for it."""


def asked(writer: Writer, engine: str) -> None:
    """Of a write that the writer entered, and that is over now."""
    world, begin, end = writer.world, writer._enter, writer.now
    file = {"inode": writer.inode, "dev": writer.disk, "open_flags": O_DSYNC}
    if engine == "call":
        writer.leave("fsync")
    elif engine == "io_uring":
        # Freed, and used again, each time; whom it interrupts tells of its end, on the same CPU.
        own = {"request_key": 0x8880, "opcode": 23, "size_bytes": 4096, **file}
        world.emit("io_uring_submit_req", begin + 500, writer.tid, result=7, **own)
        world.emit("io_uring_complete", end - 700, 104, result=4096, **own)
        world.emit("syscall", end, writer.tid, enter_ns=begin, tgid=writer.tid, result=1,
                   call=CALL_IO_URING_ENTER)  # fmt: skip
    else:
        own = {"iocb_key": 0x70, "opcode": 1, **file}
        world.emit("aio_submit", begin + 900, writer.tid, enter_ns=begin, size_bytes=4096, **own)
        world.emit("aio_complete", end, writer.tid, enter_ns=end - 500, result=4096, **own)


def test_what_is_complete_in_one_interval_and_collected_in_the_next_counts_once(
    tmp_path: Path,
) -> None:
    """A look may end between the two: then the request ends with its completion."""
    world, complete = World(), []
    world.builder.packet_events = 1
    writer = Writer(world, 100, 0, 1_000_000)
    for _ in range(60):
        writer.enter()
        begin = writer.now
        writer.cpu(130_000_000)
        own = {"inode": 12, "dev": 0, "open_flags": O_DSYNC, "opcode": 23, "size_bytes": 4096}
        for key in (0x10, 0x20):
            world.emit("io_uring_submit_req", begin + key, 100, request_key=key, **own)
            complete.append(writer.now - 60_000_000 + key)
            world.emit("io_uring_complete", complete[-1], 104, request_key=key, result=4096, **own)
        world.emit("syscall", writer.now, 100, enter_ns=begin, tgid=100, result=2,
                   call=CALL_IO_URING_ENTER)  # fmt: skip
    growing = Growing(write(world, tmp_path / "source"), tmp_path / "local")
    source, found = Latest(tmp_path, MACHINE), []
    for time_ns in range(700_000_000, growing.end_ns + 1, 100_000_000):
        growing.until(time_ns)
        if interval := source.interval():
            found.append(interval)
    source.close()
    truth = sum(found[0].begin_ns < one <= found[-1].end_ns for one in complete)
    assert truth > 100
    assert sum(kind.calls for one in found for kind in one.ended.values()) == truth
    assert sum(len(one.breakdown.writes) for one in found if one.breakdown) == truth


@pytest.mark.parametrize(
    ("parts", "packet_events", "sleeps", "engine"),
    [
        (1, 50, 0, "call"),
        (10, 3_000, 70, "call"),
        (1, 50, 0, "io_uring"),
        (10, 3_000, 70, "libaio"),
    ],
)
def test_a_load_that_is_as_regular_as_the_looks_counts_as_it_was(
    parts: int,
    packet_events: int,
    sleeps: int,
    engine: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of each second, or of each part of it, the first half has many short writes, and the second
    one few long ones: of more events each, where a packet has some of both."""
    for name in ("MOST_EVENTS", "LEAST_EVENTS"):
        monkeypatch.setattr(latest, name, 1200 * ENGINES[engine])
    world, truth = World(), []
    world.builder.packet_events = packet_events * ENGINES[engine]
    writer = Writer(world, 100, 0, 1_000_000)
    for part in range(1, 30 * parts + 1):
        for count, took_ns, gap_ns in ((4_000, 10_000, 115_000), (100, 4_000_000, 990_000)):
            for _ in range(count // parts):
                writer.enter()
                times = sleeps * ENGINES[engine] if count == 100 else 0
                for _ in range(times):
                    writer.preempted(10_000)
                writer.cpu(took_ns - times * 10_000)
                asked(writer, engine)
                writer.now += gap_ns
                truth.append(took_ns)
        writer.now = 1_000_000 + part * 1_000_000_000 // parts
    growing = Growing(write(world, tmp_path / "source"), tmp_path / "local")
    source, history = Latest(tmp_path, MACHINE), History(30)
    for second in range(1, 31):
        growing.until(1_200_000 + second * 1_000_000_000)
        if interval := source.interval():
            history.add(interval)
    source.close()
    summary = history.summary({})
    assert summary.table
    assert summary.sampled < 0.3
    assert summary.error is not None
    assert summary.error < 0.05
    assert summary.missing == 0
    assert summary.writes_per_s[5] == pytest.approx(4_100, rel=0.03)
    assert summary.table.total.mean_ns == pytest.approx(np.mean(truth), rel=0.04)
