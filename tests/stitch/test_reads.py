# SPDX-License-Identifier: Apache-2.0
"""Reads of known truth: each nanosecond where it was spent, each read from where it was served."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iostrata.analysis import analyse, timelines
from iostrata.attribute import Choice, summarise
from iostrata.errors import NothingToAnalyse, UsageError
from iostrata.model import Breakdown, Op
from iostrata.recording import open_recording
from iostrata.report import timeline_json, waterfall
from iostrata.stitch import window
from iostrata.stitch.opcodes import AIO_READS
from iostrata.trace.layout import (
    CALL_FAULT,
    CALL_PREAD64,
    CALL_READ,
    THREAD_JOURNAL,
    WAKE_INTERRUPT,
)
from tests.reading import O_DIRECT, OPEN_OF_DEVICE, STRANGER, Reader, reading_world
from tests.stitch.test_truth import accounts, asleep_for_a_peer, conserves
from tests.synthetic import O_DSYNC, Commit, Request, World, Writer, device

DISK = device(8, 0)
PAGE = 4096


def analysed(world: World) -> Breakdown:
    """The reads' breakdown, which must not depend on how the recording is cut into windows."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "machine"
        world.builder.write(path)
        whole = analyse(open_recording(path), Op.READ)
        with mock.patch.multiple(window, WINDOW_PIECES=1, MARGIN_NS=0):
            piecemeal = analyse(open_recording(path), Op.READ)
    assert accounts(piecemeal) == accounts(whole)
    assert list(served(piecemeal)) == list(served(whole))
    return whole


def served(breakdown: Breakdown) -> Iterator[str]:
    for code in breakdown.writes.codes["served"].tolist():
        yield breakdown.writes.names["served"][code]


def holds(world: World, *readers: Reader) -> Breakdown:
    """Everything was found where the readers had put it."""
    found = analysed(world)
    conserves(found)
    truth = {
        one.tid: [{row: ns for row, ns in account.items() if ns} for account in one.truth]
        for one in readers
    }
    assert accounts(found) == truth
    told: dict[int, list[str]] = {}
    for tid, name in zip(found.writes.tid.tolist(), served(found), strict=True):
        told.setdefault(tid, []).append(name)
    assert told == {one.tid: one.served for one in readers}
    return found


@pytest.mark.parametrize(("flags", "served"), [(0, "device behind a limit"), (O_DIRECT, "device")])
def test_what_a_limit_held_back_is_from_the_disk(flags: int, served: str) -> None:
    """A worker of the kernel hands it on: whether it is a readahead is not told. Past the page
    cache nobody waits for what another one asked for."""
    world = reading_world()
    reader = Reader(world, 100, DISK, 10_000)
    reader.enter()
    reader.cpu(700)
    reader.wait(reader.ask(0, PAGE, held=90_000, told=not flags), "device.read")
    reader.cpu(900)
    reader.done(0, PAGE, served, flags=flags)
    holds(world, reader)


@pytest.mark.parametrize("own", [True, False])
def test_what_a_limit_held_back_beside_what_it_did_not(*, own: bool) -> None:
    """The furthest place is the disk that the read itself asked; that of which that is not told, is
    farther than what was surely read ahead."""
    world = reading_world()
    reader = Reader(world, 100, DISK, 10_000)
    if not own:
        before = Reader(world, 200, DISK, 10_000)
        before.enter()
        flight = before.ask(PAGE, PAGE, device=200_000)
        before.wait(flight, "device.read")
        before.done(PAGE, PAGE, "device")
    reader.enter()
    reader.cpu(700)
    if own:
        flight = reader.ask(PAGE, PAGE, device=200_000)
    reader.ask(0, PAGE, held=90_000)
    reader.wait(flight, "device.read" if own else "device.readahead")
    reader.done(0, 2 * PAGE, "device" if own else "device behind a limit")
    found = analysed(world)
    told = dict(zip(found.writes.tid.tolist(), served(found), strict=True))
    assert told[100] == reader.served[0]


def test_the_page_cache_and_the_device() -> None:
    """A read that the cache serves holds the CPU only; one that it does not, waits for a disk."""
    world = reading_world()
    reader = Reader(world, 100, DISK, 10_000)
    reader.missed(0, PAGE)
    reader.cached(0, PAGE)
    reader.missed(8 * PAGE, 2 * PAGE, device=70_000)
    reader.cached(8 * PAGE, PAGE, duration=2_300)
    holds(world, reader)


def test_what_is_read_ahead_is_not_waited_for() -> None:
    """Only its own pages are: what else a call asks for takes none of its time."""
    world = reading_world()
    reader = Reader(world, 100, DISK, 10_000)
    reader.enter()
    reader.cpu(500)
    own = reader.ask(0, 4 * PAGE, device=30_000)
    ahead = reader.ask(4 * PAGE, 32 * PAGE, device=400_000)
    reader.wait(own, "device.read")
    reader.cpu(2_000)
    reader.done(0, 4 * PAGE, "device")
    reader.now += 5_000
    # The next one finds its pages on their way.
    reader.enter()
    reader.wait(ahead, "device.readahead")
    reader.cpu(2_500)
    reader.done(4 * PAGE, 4 * PAGE, "readahead under way")
    reader.now += 100
    # And the one after that, all of them; it starts what comes behind, and does not wait for it.
    reader.enter()
    reader.floor = "read.cached"
    reader.cpu(300)
    reader.ask(36 * PAGE, 32 * PAGE, device=900_000)
    reader.cpu(1_900)
    reader.done(8 * PAGE, 4 * PAGE, "page cache")
    holds(world, reader)


def test_pages_on_both_sides_of_a_hole_that_one_bio_reads() -> None:
    """Their blocks are neighbours on the disk: pages 0 and 3, with a hole of two in between."""
    world = reading_world()
    first, behind, inside = (Reader(world, 100 + one, DISK, 10_000) for one in range(3))
    first.enter()
    first.cpu(500)
    both = first.ask(0, 2 * PAGE, hole=2 * PAGE)
    first.wait(both, "device.read")
    first.cpu(900)
    first.done(0, PAGE, "device")
    # Of two pages the one is on its way; then it asks for the other one itself.
    behind.now = 20_000
    behind.enter()
    behind.wait(both, "device.readahead")
    behind.cpu(800)
    behind.wait(behind.ask(4 * PAGE, PAGE, device=50_000), "device.read")
    behind.cpu(900)
    behind.done(3 * PAGE, 2 * PAGE, "device")
    # The hole is in memory at once, though the bio is complete only while it is read.
    inside.now = both.complete - 500
    inside.cached(PAGE, PAGE)
    holds(world, first, behind, inside)


def test_readahead_that_is_complete_at_once_is_not_what_was_waited_for() -> None:
    """Both are complete in one interrupt, its own pages first; then the reader is let go."""
    world = reading_world()
    reader = Reader(world, 100, DISK, 10_000)
    reader.enter()
    own = reader.ask(0, PAGE, device=30_000)
    reader.ask(PAGE, 32 * PAGE, device=30_400)
    off, wake = reader.now, own.complete + 1_000
    reader.now = wake + 2_000
    world.emit("sched_resume", reader.now, 100, off_ns=off, wake_ns=wake, waker_tid=0, state=2,
               waker_context=WAKE_INTERRUPT, subject_tid=100)  # fmt: skip
    reader.account.update({"block.Q2D": 300, "device.read": 30_000, "wakeup.interrupt": 1_000,
                           "wakeup.runqueue": 2_000})  # fmt: skip
    reader.done(0, PAGE, "device")
    holds(world, reader)


def test_pages_that_another_thread_asked_for() -> None:
    world = reading_world()
    first, second = (Reader(world, tid, DISK, 10_000 + tid) for tid in (100, 200))
    first.enter()
    flight = first.ask(0, 8 * PAGE, device=60_000)
    second.now = flight.issued + 4_000
    second.enter()
    second.wait(flight, "device.readahead")
    second.done(4 * PAGE, PAGE, "readahead under way")
    first.wait(flight, "device.read")
    first.done(0, PAGE, "device")
    holds(world, first, second)


def test_pages_that_another_thread_asks_for_meanwhile() -> None:
    """The one that comes to them second waits, though its call began first."""
    world = reading_world()
    first, second = (Reader(world, tid, DISK, 10_000 + tid) for tid in (100, 200))
    second.enter()
    second.cpu(1_000)
    first.enter()
    first.now = second.now
    first.account["syscall"] += 900
    flight = first.ask(0, 8 * PAGE, device=60_000)
    second.wait(flight, "device.readahead")
    second.done(4 * PAGE, PAGE, "readahead under way")
    first.wait(flight, "device.read")
    first.done(0, PAGE, "device")
    found = analysed(world)
    assert dict(zip(found.writes.tid.tolist(), served(found), strict=True)) == {
        100: "device",
        200: "readahead under way",
    }


def test_what_is_still_on_its_way_was_not_waited_for() -> None:
    """Its page was cut off and is read anew, by another thread, as it returns."""
    world = reading_world()
    reader, other = Reader(world, 100, DISK, 10_000), Reader(world, 200, DISK, 10_500)
    reader.enter()
    reader.floor = "read.cached"
    reader.cpu(2_000)
    other.enter()
    other.wait(other.ask(0, PAGE, device=90_000), "device.read")
    other.done(0, PAGE, "device")
    reader.done(0, PAGE, "page cache")
    holds(world, reader, other)


def test_another_file_and_another_part_are_nobodys_here() -> None:
    """The same disk is busy meanwhile, with pages that the read has no need of."""
    world = reading_world()
    reader, other = Reader(world, 100, DISK, 10_000), Reader(world, 200, DISK, 9_000, inode=77)
    for one in (other, Reader(world, 300, DISK, 9_500)):
        one.enter()
        flight = one.ask(64 * PAGE, PAGE, device=50_000)
        one.wait(flight, "device.read")
    reader.cached(0, PAGE, duration=4_000)
    found = analysed(world)
    assert accounts(found) == {100: [{"read.cached": 4_000}]}
    assert list(served(found)) == ["page cache"]


def test_a_sleep_that_nothing_explains_is_told_of_nothing() -> None:
    """Whether the cache had it cannot be told, and so it is not; what only kept it waiting can."""
    world = reading_world()
    reader = Reader(world, 100, DISK, 100_000)
    reader.enter()
    reader.cpu(500)
    reader.sleep(20_000, waker=STRANGER, row=None)
    reader.cpu(500)
    reader.done(0, PAGE, "not told")
    reader.now += 100
    for preempted in (False, True):
        reader.enter()
        reader.floor = "read.cached"
        reader.cpu(400)
        if preempted:
            reader.preempted(7_000)
        else:
            asleep_for_a_peer(reader, 9_000)
        reader.cpu(600)
        reader.done(0, PAGE, "page cache")
        reader.now += 100
    found = analysed(world)
    assert accounts(found)[100] == [dict(one) for one in reader.truth]
    assert [name for name, tid in zip(served(found), found.writes.tid, strict=True) if tid == 100] \
        == reader.served  # fmt: skip


def test_bios_of_which_the_file_is_not_told() -> None:
    """Where the sleep tells what it was for, that does; else nothing is said."""
    world = reading_world()
    reader = Reader(world, 100, DISK, 10_000)
    reader.enter()
    reader.wait(reader.ask(0, PAGE, told=False), "device.read")
    reader.done(0, PAGE, "device")
    reader.now += 100
    reader.enter()
    reader.cpu(300)
    flight = reader.ask(PAGE, PAGE, told=False)
    reader.cpu(flight.complete - reader.now + 500)
    reader.done(PAGE, PAGE, "not told")
    reader.now += 100
    # A file system above the one that the pages are of (overlay): its file has another number.
    reader.enter()
    reader.wait(reader.ask(0, PAGE, inode=4711), "device.read")
    reader.done(0, PAGE, "device")
    holds(world, reader)


def test_metadata_is_no_data() -> None:
    """What says where a file's pages are was on the disk, too; the pages are what is served."""
    world = reading_world()
    reader = Reader(world, 100, DISK, 10_000)
    reader.enter()
    reader.wait(reader.ask(1 << 30, PAGE, meta=True, told=False), "device.meta")
    reader.wait(reader.ask(0, PAGE), "device.read")
    reader.done(0, PAGE, "device")
    holds(world, reader)


def test_what_the_file_system_reads_ahead_of_itself() -> None:
    """Inode tables, without the mark of metadata: in the pages of its device's node."""
    world = reading_world()
    reader = Reader(world, 100, DISK, 10_000)
    reader.enter()
    reader.floor = "read.cached"
    reader.cpu(300)
    reader.ask(1 << 30, 8 * PAGE, inode=0, device=90_000)
    reader.cpu(2_000)
    reader.done(0, PAGE, "page cache")
    holds(world, reader)


def test_a_raw_disk_is_another_file_than_those_on_it() -> None:
    """Their numbers are the same; where their pages lie, is not."""
    world = reading_world()
    raw, file = Reader(world, 100, DISK, 10_000, inode=9), Reader(world, 200, DISK, 11_000)
    raw.enter()
    flight = raw.ask(0, PAGE, inode=0, device=80_000)
    file.cached(0, PAGE)
    raw.wait(flight, "device.read")
    raw.done(0, PAGE, "device", flags=OPEN_OF_DEVICE)
    holds(world, raw, file)


def test_past_the_page_cache_all_is_waited_for() -> None:
    """O_DIRECT: no page tells of the file, and the call has two requests out at once."""
    world = reading_world()
    reader = Reader(world, 100, DISK, 10_000)
    reader.enter()
    reader.cpu(400)
    reader.ask(0, PAGE, told=False, queue=100, device=90_000)
    last = reader.ask(PAGE, PAGE, told=False, queue=200, device=91_000)
    off = reader.now
    reader.now = last.complete + 3_000
    reader._resume(off, last.complete + 1_000, 0)
    reader.account.update({"block.Q2D": 100, "device.read": 91_100, "wakeup.interrupt": 1_000,
                           "wakeup.runqueue": 2_000})  # fmt: skip
    reader.done(0, 2 * PAGE, "device", flags=O_DIRECT)
    found = holds(world, reader)
    assert found.writes.names["method"][found.writes.codes["method"][0]] == "read_direct"


def test_what_read_nothing_is_counted() -> None:
    """At the end of a file there is nothing to be served; what failed is no read."""
    world = reading_world()
    reader = Reader(world, 100, DISK, 10_000)
    reader.cached(0, PAGE)
    for result in (0, 0, -5):
        reader.enter()
        reader.cpu(300)
        reader.done(PAGE, result, "")
        reader.now += 100
    found = holds(world, reader)
    assert found.left_out == {"nothing left to read: the file's end": 2, "the call failed": 1}
    assert found.op is Op.READ


def test_a_commit_that_waits_for_the_same_disk() -> None:
    """Who is let go by a read's completion need not be a read: here a journal's thread is."""
    world = reading_world()
    reader = Reader(world, 100, DISK, 10_000)
    reader.enter()
    flight = reader.ask(0, PAGE, device=90_000)
    commit = Commit(world, DISK, 20_000, transaction=5, tid=900).run(4_000, 200_000, [])
    world.target(900, kind=THREAD_JOURNAL)
    world.emit("sched_resume", flight.complete + 900, 900, off_ns=30_000, state=2, waker_tid=0,
               wake_ns=flight.complete + 300, waker_context=2, subject_tid=900)  # fmt: skip
    reader.wait(flight, "device.read")
    reader.cpu(commit.end - reader.now)
    reader.done(0, PAGE, "device")
    holds(world, reader)


def test_writes_and_reads_do_not_meet() -> None:
    """Each table is of its own calls: a write has waited for a disk that a read waited for, too."""
    world = reading_world()
    reader, writer = Reader(world, 100, DISK, 10_000), Writer(world, 200, DISK, 12_000)
    reader.missed(0, PAGE)
    writer.enter()
    writer.cpu(500)
    writer.data(Request(scheduler=None))
    writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    writer.finish()
    reader.cached(0, PAGE)
    holds(world, reader)
    with tempfile.TemporaryDirectory() as directory:
        world.builder.write(Path(directory) / "machine")
        synced = analyse(open_recording(Path(directory) / "machine"))
    assert accounts(synced) == {200: [dict(writer.truth[0])]}
    assert "served" not in synced.writes.codes


def test_sums_by_place() -> None:
    """How many each place served, and how long one took there."""
    world = reading_world()
    reader = Reader(world, 100, DISK, 10_000)
    reader.missed(0, PAGE)
    for number in range(3):
        reader.cached(0, PAGE, duration=1_000 + number * 500)
    found = summarise(analysed(world), "served")
    assert [(one.name, one.count, one.share, one.mean_ns) for one in found.served] == [
        ("page cache", 3, 0.75, 1_500.0),
        ("device", 1, 0.25, float(sum(reader.truth[0].values()))),
    ]
    assert [group.name for group in found.groups] == ["device", "page cache"]


def test_a_read_as_a_waterfall(tmp_path: Path) -> None:
    """Step by step, with the request that it waited for; the page cache's needs none."""
    world = reading_world()
    reader = Reader(world, 100, DISK, 10_000)
    reader.missed(3 * PAGE, PAGE)
    reader.cached(3 * PAGE, PAGE, duration=1_700)
    world.builder.write(tmp_path / "machine")
    seen = timelines(open_recording(tmp_path / "machine"), Choice(numbers=(1, 2)), op=Op.READ)
    missed, cached = seen.timelines
    assert [(step.layer.name, step.end_ns - step.begin_ns) for step in missed.steps if step.layer] \
        == [("syscall", 700), ("block.Q2D", 300), ("device.read", 30_000),
            ("wakeup.interrupt", 1_000), ("wakeup.runqueue", 2_000), ("syscall", 900)]  # fmt: skip
    assert missed.steps[2].evidence.request_key is not None
    assert [step.layer.name for step in cached.steps if step.layer] == ["read.cached"]
    assert "read 1 of 2" in waterfall.render(seen.timelines, seen.quality).plain
    assert {write.op for write in timeline_json.document(seen.timelines, seen.quality).writes} == {
        "read"
    }


def test_faults_of_a_mapped_file_are_reads() -> None:
    """Of a page each, through the page cache, however the file was opened; and no writes, if what
    is written to it is durable."""
    world = reading_world()
    reader = Reader(world, 100, DISK, 10_000)
    for number in range(4):
        place = number * 8 * PAGE
        reader.enter()
        reader.cpu(700)
        flight = reader.ask(place, 4 * PAGE)
        reader.wait(flight, "device.read")
        reader.cpu(900)
        reader.done(place, PAGE, "device", call=CALL_FAULT, flags=O_DSYNC)
        reader.now += 100
        reader.enter()
        reader.floor = "read.cached"
        reader.cpu(600)
        reader.done(place + PAGE, PAGE, "page cache", call=CALL_FAULT, flags=O_DSYNC)
        reader.floor = "syscall"
    found = holds(world, reader)
    names = found.writes.names["method"]
    assert {names[code] for code in found.writes.codes["method"].tolist()} == {"fault"}
    assert not any(gap.layer == "fault" for gap in found.quality.not_observed)
    with tempfile.TemporaryDirectory() as directory:
        world.builder.write(Path(directory) / "machine")
        with pytest.raises(NothingToAnalyse):
            analyse(open_recording(Path(directory) / "machine"))


def test_what_is_read_in_no_call_is_said() -> None:
    """Page faults of a mapped file ask for its pages outside of calls; others' are not the
    workload's, and what a call asks for beyond its own is its. So is what io_submit asks for,
    which is told with the blocks that it took only."""
    world = reading_world()
    reader = Reader(world, 100, DISK, 10_000)
    reader.missed(0, PAGE)
    reader.enter()
    reader.ask(PAGE, 32 * PAGE, device=400_000)
    reader.cpu(1_000)
    reader.done(0, PAGE, "page cache", call=CALL_READ)
    reader.now += 5_000
    for number in range(2):
        reader.ask((200 + number) * PAGE, PAGE)
        for order in range(number + 1):
            world.emit("aio_submit", reader.now + 900 + order, 100, enter_ns=reader.now - 100,
                       iocb_key=0x10 + order, inode=12, dev=DISK, order=order, size_bytes=PAGE,
                       opcode=AIO_READS[0])  # fmt: skip
        reader.now += 5_000
    reader.ask(64 * PAGE, 4 * PAGE)
    reader.ask(96 * PAGE, 8 * PAGE)
    stranger = Reader(world, 300, DISK, reader.now, kind=THREAD_JOURNAL)
    stranger.ask(128 * PAGE, PAGE)
    said = "2 requests (48k) of its threads, outside of the calls that are recorded: "
    others = "calls such as sendfile, splice and readahead"
    for what in (f"page faults of mapped files, or {others}", others):
        gaps = analysed(world).quality.not_observed
        assert [gap.reason for gap in gaps if gap.layer == "fault"] == [said + what]
        # Where these are seen, they are reads themselves.
        world.emit("probe", 1, 0, program=b"fault_begin", error=0)


def test_recordings_without_reads_are_refused(tmp_path: Path) -> None:
    """Not an empty table: that would say that nothing was read."""
    world = World()
    Reader(world, 100, DISK, 10_000).missed(0, PAGE)
    world.builder.write(tmp_path / "none")
    with pytest.raises(NothingToAnalyse, match="not asked for"):
        analyse(open_recording(tmp_path / "none"), Op.READ)
    world = reading_world()
    world.target(100)
    world.builder.write(tmp_path / "empty")
    with pytest.raises(NothingToAnalyse, match="no read of a file"):
        analyse(open_recording(tmp_path / "empty"), Op.READ)
    world = reading_world()
    Reader(world, 100, DISK, 10_000).missed(0, PAGE)
    world.builder.write(tmp_path / "reads")
    with pytest.raises(NothingToAnalyse, match="no synchronous write") as told:
        analyse(open_recording(tmp_path / "reads"))
    assert told.value.hint.endswith("replay --op read")


def test_a_writes_sort_needs_reads(tmp_path: Path) -> None:
    world = World()
    writer = Writer(world, 200, DISK, 12_000)
    writer.enter()
    writer.data(Request())
    writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    world.builder.write(tmp_path / "machine")
    with pytest.raises(UsageError, match="served"):
        summarise(analyse(open_recording(tmp_path / "machine")), "served")


offsets = st.integers(0, 15)
plans = st.lists(
    st.one_of(
        st.tuples(st.just("missed"), offsets, st.integers(1_000, 90_000)),
        st.tuples(st.just("cached"), offsets, st.integers(200, 9_000)),
        st.tuples(st.just("ahead"), offsets, st.integers(1_000, 400_000)),
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(plans, min_size=1, max_size=3), st.integers(0, 3_000))
def test_random_readers(threads: list[list[tuple[str, int, int]]], stagger: int) -> None:
    """Each with a file of its own, on one disk; what was read ahead is waited for, or not."""
    world = reading_world()
    readers = []
    for number, plan in enumerate(threads):
        reader = Reader(world, 100 + number, DISK, 1_000 + stagger * number, inode=50 + number)
        readers.append(reader)
        for step, (kind, offset, duration) in enumerate(plan):
            place = (step * 64 + offset) * PAGE
            if kind == "missed":
                reader.missed(place, PAGE, device=duration)
            elif kind == "cached":
                reader.cached(place, PAGE, duration=duration)
            else:
                _ahead(reader, place, duration)
    holds(world, *readers)


def _ahead(reader: Reader, place: int, device_ns: int) -> None:
    """A read that starts another, which the next one waits for."""
    reader.enter()
    reader.cpu(200)
    own = reader.ask(place, PAGE)
    ahead = reader.ask(place + PAGE, 16 * PAGE, device=device_ns)
    reader.wait(own, "device.read")
    reader.done(place, PAGE, "device", call=CALL_PREAD64)
    reader.now += 150
    reader.enter()
    if ahead.complete > reader.now:
        reader.wait(ahead, "device.readahead")
        reader.cpu(100)
        reader.done(place + PAGE, PAGE, "readahead under way")
    else:
        reader.floor = "read.cached"
        reader.cpu(100)
        reader.done(place + PAGE, PAGE, "page cache")
        reader.floor = "syscall"
    reader.now += 150
