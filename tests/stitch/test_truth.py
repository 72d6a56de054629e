# SPDX-License-Identifier: Apache-2.0
"""Random synthetic stacks: the analysis must give every nanosecond back where it was put."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from iostrata.analysis import analyse
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from iostrata.stitch import window
from tests.synthetic import O_DSYNC, O_SYNC, Commit, Request, World, Writer, device

Steps = list[tuple[str, object]]

time = st.integers(1, 50_000)
places = st.integers(0, 1 << 30)
requests = st.builds(Request, queue=time, scheduler=st.none() | time, device=time, sector=places)
throttled = st.builds(
    Request, queue=st.integers(60_000, 90_000), asleep=time, scheduler=st.none() | time,
    device=time, sector=places,
)  # fmt: skip
steps = st.lists(
    st.one_of(
        st.tuples(st.just("cpu"), time),
        st.tuples(st.just("data"), requests | throttled),
        st.tuples(st.just("flush"), time),
        st.tuples(st.just("preempted"), time),
        st.tuples(st.just("lock"), time),
        st.tuples(st.just("unexplained"), time),
    ),
    max_size=6,
)
methods = st.sampled_from(["open_datasync", "open_sync", "fdatasync", "fsync", "msync"])
writes = st.lists(st.tuples(methods, steps, steps, time), min_size=1, max_size=4)


def analysed(world: World) -> Breakdown:
    """The breakdown, which must not depend on how the recording is cut into windows."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "machine"
        world.builder.write(path)
        whole = analyse(open_recording(path))
        with mock.patch.multiple(window, WINDOW_PIECES=1, MARGIN_NS=0):
            piecemeal = analyse(open_recording(path))
    assert accounts(piecemeal) == accounts(whole)
    return whole


def accounts(breakdown: Breakdown) -> dict[int, list[dict[str, int]]]:
    """Per thread, in order: where each write's time went, without zeros."""
    result: dict[int, list[dict[str, int]]] = {}
    for number, tid in enumerate(breakdown.writes.tid.tolist()):
        account = {
            layer.name: int(times[number])
            for layer, times in zip(breakdown.layers, breakdown.time_ns, strict=True)
            if times[number]
        }
        if breakdown.residual_ns[number]:
            account["residual"] = int(breakdown.residual_ns[number])
        result.setdefault(tid, []).append(account)
    return result


def conserves(breakdown: Breakdown) -> None:
    total = breakdown.time_ns.sum(axis=0) + breakdown.residual_ns
    assert total.tolist() == breakdown.writes.latency_ns.tolist()


def play(writer: Writer, steps: Steps) -> None:
    for kind, value in steps:
        writer.cpu(150)  # no step begins in the instant another one ends
        match kind, value:
            case "cpu", int(duration):
                writer.cpu(duration)
            case "data", Request() as request:
                writer.data(request)
            case "flush", int(duration):
                writer.flush(device=duration)
            case "preempted", int(duration):
                writer.preempted(duration)
            case "lock", int(duration):
                asleep_for_a_peer(writer, duration)
            case "unexplained", int(duration):
                writer.sleep(duration, waker=STRANGER, row=None)
    writer.cpu(150)


STRANGER = 12345


def asleep_for_a_peer(writer: Writer, duration: int) -> None:
    """Another thread of the workload, in a call to another file, lets go of something."""
    peer = Writer(writer.world, writer.tid + 1000, device(9, 0), writer.now - 10, inode=77)
    peer.enter()
    writer.sleep(duration, waker=peer.tid, row="lock")
    peer.now += duration + 20
    peer.leave("pwrite64", result=1, size=1)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(writes, min_size=1, max_size=3), st.integers(0, 3000))
def test_random_stacks(threads: list[list[tuple[str, Steps, Steps, int]]], stagger: int) -> None:
    world = World()
    truth: dict[int, list[Counter[str]]] = {}
    for number, planned in enumerate(threads):
        writer = Writer(world, 100 + number, device(8, 16 * number), 1000 + stagger * number)
        for method, before, after, pause in planned:
            synchronous = {"open_datasync": O_DSYNC, "open_sync": O_SYNC}.get(method, 0)
            writer.enter()
            play(writer, before)
            writer.leave("pwrite64", flags=synchronous, result=8192, size=8192)
            if not synchronous:
                writer.now += pause
                writer.enter()
                writer.floor, enter = "fs", writer.now
                play(writer, after)
                writer.synced(enter, None)
                writer.floor = "syscall"
                writer.leave(method)
            writer.finish()
            writer.now += pause
        truth[writer.tid] = writer.truth
    breakdown = analysed(world)
    conserves(breakdown)
    assert accounts(breakdown) == {
        tid: [{row: spent for row, spent in account.items() if spent} for account in accounts]
        for tid, accounts in truth.items()
    }


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 400_000), min_size=1, max_size=4),
    st.tuples(time, time),
    st.lists(requests, min_size=1, max_size=3),
)
def test_a_shared_commit_is_charged_to_each_writer_from_when_it_waits(
    arrivals: list[int], phases: tuple[int, int], log: list[Request]
) -> None:
    world = World()
    disk, begin = device(8, 0), 200_000
    for request in log:
        request.meta = True
    commit = Commit(world, disk, begin, transaction=41).run(*phases, log)
    world.emit("thread", 1, commit.tid, tgid=commit.tid, subject_tid=commit.tid, kind=2)
    truth = {}
    for number, arrival in enumerate(arrivals):
        writer = Writer(world, 100 + number, disk, 1000 + arrival % (commit.end - 2000))
        writer.enter()
        writer.cpu(100)
        writer.floor, enter = "fs", writer.now
        # Awake inside the commit: that time is the commit's already.
        writer.wait_for(commit, interrupt=500 + number)
        writer.synced(enter, commit)
        writer.floor = "syscall"
        writer.cpu(100)
        writer.leave("fsync")
        writer.finish()
        truth[writer.tid] = writer.truth
    breakdown = analysed(world)
    conserves(breakdown)
    assert set(breakdown.writes.tid.tolist()) == set(truth)
    for tid, got in accounts(breakdown).items():
        # What the shared thread's queue wait is called depends on nothing but its own events.
        expected = {row: spent for row, spent in truth[tid][0].items() if spent}
        assert got == [expected]


def test_two_flushes_at_once_are_both_waited_for() -> None:
    """A flush that runs already must end before one's own begins: both are device time."""
    world, disk = World(), device(8, 0)
    first = Writer(world, 100, disk, 1_000)
    second = Writer(world, 101, disk, 11_000)
    first.enter()
    first.flush(queue=1_000, device=40_000, tail=500)  # issued 2000, complete 42000
    first.leave("fdatasync")
    second.enter()
    second.flush(queue=33_000, device=40_000, tail=500)  # issued 44000: waits for the first
    second.leave("fdatasync")
    got = accounts(analysed(world))
    assert got[100][0]["device.flush"] == 40_000
    assert got[101][0]["device.flush"] == 31_000 + 40_000
    assert got[101][0]["block.Q2D"] == 2_000


def test_a_write_that_a_loss_touches_is_left_out_and_counted() -> None:
    world = World()
    world.builder.packet_events = 12
    writer = Writer(world, 100, device(8, 0), 1_000)
    for _ in range(50):
        writer.enter()
        writer.data(Request())
        writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
        writer.now += 1_000_000
    whole = analysed(world)
    assert len(whole.writes) == 50
    world.builder.refuse("block_rq_issue", time_ns=25_000_000, count=3)
    holed = analysed(world)
    assert 1 <= holed.left_out["events lost meanwhile"] <= 6
    assert len(holed.writes) + holed.left_out["events lost meanwhile"] == 50
    assert holed.quality.lost == {"local:block_rq_issue": 3}


def test_a_loss_in_a_commit_that_is_waited_for_later_touches_who_waits() -> None:
    """Its log's bio was lost before the write began: its time would be in no device."""
    world, disk = World(), device(8, 0)
    world.builder.packet_events = 1
    for number in range(3):
        begin = 1_000_000 * (1 + number)
        commit = Commit(world, disk, begin, transaction=7 + number)
        commit.run(1_000, 1_000, [Request(queue=300, scheduler=None, device=500_000, meta=True)])
        writer = Writer(world, 100 + number, disk, begin + 20_000)
        writer.enter()
        enter = writer.now
        writer.wait_for(commit)
        writer.synced(enter, commit)
        writer.leave("fdatasync")
    whole = analysed(world)
    assert [account[0]["device.journal"] for account in accounts(whole).values()] == [482_700] * 3
    queued = world.builder._rows["block_bio_queue"]
    lost = queued.pop(1)
    world.builder.refuse("block_bio_queue", time_ns=lost["time_ns"], cpu=lost["cpu"])
    found = analysed(world)
    assert found.writes.tid.tolist() == [100, 102]
    assert found.left_out == {"events lost meanwhile": 1}
    # The request of the lost one bears the pointer of the first one's bio, which was complete.
    assert accounts(found) == {tid: accounts(whole)[tid] for tid in (100, 102)}


@pytest.mark.parametrize("point", ["block_rq_issue", "block_rq_complete", "block_bio_queue"])
def test_an_orphan_becomes_residual_and_never_a_wrong_latency(point: str) -> None:
    world = World(deaf_to=point)
    writer = Writer(world, 100, device(8, 0), 1_000)
    writer.enter()
    writer.data(Request(device=70_000))
    writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    breakdown = analysed(world)
    conserves(breakdown)
    assert breakdown.residual_ns[0] >= 70_000
