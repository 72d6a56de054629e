# SPDX-License-Identifier: Apache-2.0
"""Which calls a synchronous write consists of, what it makes durable: against a plain account."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iostrata.analysis import analyse
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from iostrata.stitch.account import account
from iostrata.stitch.calls import METHOD, NO_SYNC, PLAIN, Operations
from iostrata.stitch.durability import ALL, FILE, FILE_SYSTEM, RANGE
from iostrata.trace.layout import CALL_COPY_FILE_RANGE
from tests.synthetic import CALLS, O_DSYNC, World, device

THREADS = ((1, 1, 7), (1, 2, 7), (2, 2, 7), (2, 2, 8))
"""Process, thread and its birth: two threads may have had the same number."""


@dataclass(frozen=True)
class Planned:
    """``kind``: a plain write, a durable one, or a scope; ``length`` 0 of a sync: to the end."""

    thread: int
    kind: str
    device: int
    inode: int
    offset: int
    length: int
    failed: bool
    request: bool


kinds = st.sampled_from(["plain", "plain", "plain", "durable", "range", "file", "device", "all"])
planned = st.builds(
    Planned,
    thread=st.integers(0, 3),
    kind=kinds,
    device=st.integers(1, 2),
    inode=st.integers(1, 2),
    offset=st.integers(-1, 6),
    length=st.integers(0, 5),
    failed=st.sampled_from([False] * 5 + [True]),
    request=st.sampled_from([False] * 4 + [True]),
)


@dataclass
class Done:
    """A call with its times; what the plain account says of it."""

    plan: Planned
    begin: int
    end: int = 0
    size: int = 0
    writes: int = 0
    pieces: list[int] = field(default_factory=list)
    oldest: int = 1 << 60
    """When the first of the writes ended that are counted with it."""
    is_plain: bool = False

    @property
    def is_sync(self) -> bool:
        return self.plan.kind not in ("plain", "durable")

    def covers(self, write: Done, byte: int) -> bool:
        """Whether this sync makes a byte of that write durable (-1: nobody knows which byte)."""
        mine, other = self.plan, write.plan
        if self.plan.failed or not self.is_sync or self.begin < write.end:
            return False
        if mine.kind == "all":
            return True
        if mine.kind == "device":
            return mine.device == other.device
        if (mine.device, mine.inode) != (other.device, other.inode):
            return False
        if mine.kind == "file":
            return True
        first = max(mine.offset, 0)
        return byte >= first and (not mine.length or byte < first + mine.length)


def played(plans: list[tuple[Planned, int]]) -> list[Done]:
    """Each thread's calls one after the other, those of several overlapping; no time twice."""
    running: dict[int, Done] = {}
    done: list[Done] = []
    now = 0
    for plan, others in plans:
        # This thread's call before ends first, and some others' may.
        for thread in {plan.thread, *[t for t in running if others >> t & 1]}:
            if thread in running:
                now += 1
                running[thread].end = now
                done.append(running.pop(thread))
        now += 1
        running[plan.thread] = Done(plan, now)
    for call in running.values():
        now += 1
        call.end = now
        done.append(call)
    return done


def settle(done: list[Done]) -> None:
    """The plain account, byte by byte."""
    for number, write in enumerate(done):
        plan = write.plan
        if plan.kind != "plain" or plan.failed or not plan.length:
            continue
        write.is_plain = True
        counted: list[Done] = []
        own_calls: list[Done] = []
        for byte in range(plan.length):
            place = plan.offset + byte if plan.offset >= 0 else -1
            covering = [sync for sync in done if sync.covers(write, place)]
            if not covering:
                continue
            first = min(covering, key=lambda sync: sync.end)
            own = [
                sync
                for sync in covering
                if sync.plan.thread == plan.thread and not sync.plan.request and not plan.request
            ]
            chosen = first
            if own:
                following = min(own, key=lambda sync: sync.begin)
                if first.end > following.begin:
                    chosen = following
                    own_calls.append(following)
            chosen.size += 1
            chosen.oldest = min(chosen.oldest, write.end)
            counted.append(chosen)
        if counted:
            max(counted, key=lambda sync: sync.end).writes += 1
            write.is_plain = False
        if own_calls:
            min(own_calls, key=lambda sync: sync.begin).pieces.append(number)


SCOPES = {"all": ALL, "device": FILE_SYSTEM, "file": FILE, "range": RANGE}


def operations(done: list[Done]) -> Operations:
    def column(values: list[int]) -> np.ndarray:
        return np.array(values, np.int64)

    plans = [call.plan for call in done]
    method = {"plain": PLAIN, "durable": METHOD["open_datasync"]}
    return Operations(
        begin_ns=column([call.begin for call in done]),
        end_ns=column([call.end for call in done]),
        effect_ns=column([call.end if call.plan.kind in method else call.begin for call in done]),
        tid=column([THREADS[plan.thread][1] for plan in plans]),
        tgid=column([THREADS[plan.thread][0] for plan in plans]),
        device_key=column([plan.device for plan in plans]),
        inode=column([plan.inode for plan in plans]),
        offset_bytes=column([plan.offset for plan in plans]),
        size_bytes=column([plan.length for plan in plans]),
        method=column([method.get(plan.kind, METHOD["fsync"]) for plan in plans]),
        engine=column([int(plan.request) for plan in plans]),
        scope=column([SCOPES.get(plan.kind, NO_SYNC) for plan in plans]),
        failed=np.array([plan.failed for plan in plans], np.bool_),
        request_key=column([plan.request * (1 + n) for n, plan in enumerate(plans)]),
        generation=column([0] * len(plans)),
        birth=column([THREADS[plan.thread][2] for plan in plans]),
    )


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(planned, st.integers(0, 15)), max_size=25))
def test_random_calls_against_a_plain_account(plans: list[tuple[Planned, int]]) -> None:
    done = played(plans)
    settle(done)
    units, pieces, plain = account(operations(done))
    # Every sync and every durable write is one unit, in the order of the calls.
    mine = [number for number, call in enumerate(done) if call.plan.kind != "plain"]
    assert units.end_ns.tolist() == [done[number].end for number in mine]
    assert plain == sum(call.is_plain for call in done)
    by_time = {(call.begin, call.end): number for number, call in enumerate(done)}
    belongs: Counter[int] = Counter()
    for row, number in enumerate(mine):
        call = done[number]
        of = np.flatnonzero(pieces.unit == row)
        times = zip(pieces.begin_ns[of].tolist(), pieces.end_ns[of].tolist(), strict=True)
        got = [by_time[time] for time in times]
        belongs.update(got)
        assert got == [*call.pieces, number]
        assert units.pieces[row] == len(got)
        assert units.begin_ns[row] == done[got[0]].begin
        assert units.latency_ns[row] == sum(done[n].end - done[n].begin for n in got)
        failed_or_sync = call.plan.failed or call.is_sync
        assert units.size_bytes[row] == (call.size if failed_or_sync else call.plan.length)
        assert units.since_ns[row] <= min(call.oldest, call.begin)
        assert units.durable_writes[row] == (call.writes if call.is_sync else 1)
    assert max(belongs.values(), default=1) == 1
    assert len(pieces) == belongs.total()


# -- the same from recordings ------------------------------------------------------


class Caller:
    """Calls of one thread on one file, 1 us each, at the time that the world has come to."""

    clock = 1_000
    generation = 0

    def __init__(self, world: World, tgid: int, tid: int, inode: int = 12) -> None:
        self.world, self.tgid, self.tid, self.inode = world, tgid, tid, inode
        world.emit("thread", 1, tid, tgid=tgid, subject_tid=tid, kind=1, comm=b"caller")

    def tell(self, birth: int) -> None:
        self.world.emit(
            "thread", Caller.clock, self.tid, tgid=self.tgid, subject_tid=self.tid, kind=1,
            comm=b"caller", birth=birth,
        )  # fmt: skip

    def call(
        self, name: str, *, offset: int = -1, size: int = 0, result: int | None = None,
        flags: int = 0, rwf: int = 0,
    ) -> None:  # fmt: skip
        enter = Caller.clock
        Caller.clock += 1_500
        written = size if CALLS[name] <= CALLS["pwritev2"] else 0
        self.world.emit(
            "syscall", enter + 1_000, self.tid, enter_ns=enter, inode=self.inode,
            offset_bytes=offset, dev=device(8, 0), result=written if result is None else result,
            size_bytes=size, tgid=self.tgid, open_flags=flags, call=CALLS[name], rwf=rwf,
            generation=self.generation,
        )  # fmt: skip


def analysed(world: World) -> Breakdown:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "machine"
        world.builder.write(path)
        return analyse(open_recording(path))


def sizes(breakdown: Breakdown) -> list[int]:
    found: list[int] = breakdown.writes.size_bytes.tolist()
    return found


def test_what_one_thread_writes_another_makes_durable() -> None:
    world = World()
    writer, syncer = Caller(world, 100, 100), Caller(world, 100, 101)
    for number in range(100):
        writer.call("pwrite64", offset=number * 3000, size=3000)
        syncer.call("fdatasync")
    writer.call("pwrite64", offset=300_000, size=100)
    writer.call("fsync")
    found = analysed(world)
    assert sizes(found) == [3000] * 100 + [100]
    assert found.writes.durable_writes.tolist() == [1] * 101
    # Its own latency is the syncing thread's alone; the last one is of two calls.
    assert found.writes.latency_ns.tolist() == [1_000] * 100 + [2_000]
    assert found.writes.pieces.tolist() == [1] * 100 + [2]
    assert found.quality.plain_writes == 0


def test_a_file_that_takes_a_deleted_ones_inode_is_another() -> None:
    world = World()
    caller = Caller(world, 100, 100)
    for generation in (7, 8):
        caller.generation = generation
        caller.call("pwrite64", offset=0, size=generation)
    caller.call("fsync")
    found = analysed(world)
    assert sizes(found) == [8]
    assert found.writes.pieces.tolist() == [2]
    assert found.quality.plain_writes == 1


def test_where_one_does_not_tell_which_file_has_the_inode_it_is_one() -> None:
    """Requests of io_uring do not: what they write is not missing from the sync behind them."""
    world = World()
    caller, engine = Caller(world, 100, 100), Caller(world, 100, 101)
    for generation in (7, 8):
        caller.generation = generation
        engine.call("pwrite64", offset=0, size=10)
        caller.call("fsync")
    assert sizes(analysed(world)) == [10, 10]


def test_a_thread_of_another_process_had_the_same_number() -> None:
    world = World()
    Caller(world, 100, 150).call("pwrite64", offset=0, size=8192)
    other = Caller(world, 120, 150)
    other.call("pwrite64", offset=8192, size=4096)
    other.call("fdatasync")
    found = analysed(world)
    assert found.writes.pieces.tolist() == [2]
    assert found.writes.latency_ns.tolist() == [2_000]
    assert sizes(found) == [8192 + 4096]


@pytest.mark.parametrize(("birth", "pieces"), [(8, 1), (7, 2)], ids=["another", "renamed"])
def test_a_thread_that_takes_an_ended_one_s_number_is_another(birth: int, pieces: int) -> None:
    """Whether it is of the same process or of one that has that one's number, too."""
    world = World()
    first = Caller(world, 100, 100)
    first.tell(7)
    first.call("pwrite64", offset=0, size=8192)
    first.tell(birth)
    first.call("fsync")
    found = analysed(world)
    assert sizes(found) == [8192]
    assert found.writes.pieces.tolist() == [pieces]
    assert found.writes.latency_ns.tolist() == [pieces * 1_000]


def test_a_range_makes_durable_what_lies_in_it() -> None:
    world = World()
    caller = Caller(world, 100, 100)
    for number in range(50):
        caller.call("pwrite64", offset=number * 8192, size=8192)
    caller.call("sync_file_range", offset=0, size=8192, rwf=7)
    caller.call("sync_file_range", offset=8192, size=0, rwf=7)
    found = analysed(world)
    assert sizes(found) == [8192, 49 * 8192]
    assert found.writes.pieces.tolist() == [2, 50]


def test_a_range_may_be_a_part_of_one_write() -> None:
    world = World()
    caller = Caller(world, 100, 100)
    caller.call("pwrite64", offset=0, size=400_000)
    caller.call("sync_file_range", offset=0, size=8192, rwf=7)
    caller.call("msync", offset=8192, size=400_000 - 8192, rwf=4)
    caller.call("fsync")
    found = analysed(world)
    assert sizes(found) == [8192, 400_000 - 8192, 0]
    assert found.writes.pieces.tolist() == [2, 1, 1]


def test_what_writes_nothing_is_no_write() -> None:
    world = World()
    caller = Caller(world, 100, 100)
    caller.call("write", offset=0, flags=O_DSYNC)
    caller.call("write", offset=0, size=512, flags=O_DSYNC)
    caller.call("write", offset=512)
    caller.call("fsync")
    found = analysed(world)
    assert sizes(found) == [512, 0]
    assert found.writes.pieces.tolist() == [1, 1]
    assert found.quality.plain_writes == 0


def test_a_sync_that_failed_makes_nothing_durable() -> None:
    world = World()
    caller = Caller(world, 100, 100)
    caller.call("write", offset=0, size=512)
    caller.call("fsync", result=-5)
    caller.call("fsync")
    found = analysed(world)
    assert found.left_out == {"the call failed": 1}
    assert sizes(found) == [512]
    assert found.writes.pieces.tolist() == [2]


@pytest.mark.parametrize(("synced", "durable"), [((11, 12), True), ((12, 11), False), ((), False)])
def test_a_copy_that_btrfs_shares_is_durable_where_its_source_is(
    synced: tuple[int, ...], *, durable: bool
) -> None:
    """It synchronises both files, at last the one that is written, which is not synchronous."""
    world = World()
    Caller(world, 1, 2, inode=99).call("fsync")
    world.emit("btrfs_sync_file", 5_000, 1, inode=12, dev=device(8, 0))
    for number, inode in enumerate(synced):
        world.emit("btrfs_sync_file", 20_000 + number, 1, inode=inode,
                   dev=device(8, 0))  # fmt: skip
    world.emit("syscall", 40_000, 1, enter_ns=10_000, call=CALL_COPY_FILE_RANGE, inode=12,
               dev=device(8, 0), tgid=1, open_flags=0o100002, result=8192)  # fmt: skip
    found = analysed(world)
    assert sorted(found.writes.latency_ns.tolist()) == [1_000] + [30_000] * durable
    assert found.quality.plain_writes == 1 - durable
