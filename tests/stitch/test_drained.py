# SPDX-License-Identifier: Apache-2.0
"""io_uring's drained requests wait for what those before them in their ring wait for."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from iostrata.stitch.opcodes import RWF_OF_DRAINED, RWF_OF_LINKED
from iostrata.trace.layout import CALL_IO_URING_ENTER, THREAD_WORKER
from tests.stitch.test_truth import accounts, analysed, conserves
from tests.stitch.test_uring import (
    DISK,
    FILE,
    INTERRUPTIBLE,
    UNINTERRUPTIBLE,
    WORKER,
    WRITER,
    resumes,
    worlds,
)
from tests.synthetic import Request, World, submit

WRITE, FSYNC, DEVICE_NS, PAIRS, POLLS = 23, 3, 20_000, 3, 101
RUNS = {WRITE: 2_000, FSYNC: 23_000}
# Until the submitter has a CPU again, and what it has to do then; until the worker has one for a
# write, for its sync, and behind the disk.
LATE_NS, BEGINS_NS, RUNNABLE_NS = 1_000, 700, 1_500


@dataclass
class Ring:
    """Its requests run one after the other, each handed over when the one before is complete."""

    world: World
    now: int = 2_000
    submitter: int = WRITER
    complete_ns: list[int] = field(default_factory=list)
    handed_ns: list[int] = field(default_factory=list)

    def submits(
        self, number: int, opcode: int, time: int, *, drained: bool, linked: bool = False
    ) -> dict[str, int]:
        size = 8192 if opcode == WRITE else 0
        rwf = RWF_OF_DRAINED * drained | RWF_OF_LINKED * linked
        request = {"request_key": 0x70 + number, "opcode": opcode, **FILE, "rwf": rwf,
                   "size_bytes": size}  # fmt: skip
        self.world.emit("io_uring_submit_req", time, self.submitter, **request)
        return request

    def runs(self, request: dict[str, int], *, linked: bool = False) -> None:
        """``linked``: behind the last one, without being handed over."""
        handed, sync = self.now, request["opcode"] == FSYNC
        self.handed_ns.append(handed)
        if not linked:
            self.world.emit("io_uring_queue_async_work", handed, self.submitter, **request)
        resumes(
            self.world,
            WORKER,
            handed - 400,
            handed + 200,
            handed + 700,
            self.submitter,
            INTERRUPTIBLE,
        )
        if sync:
            self.world.emit(
                "io_uring_work", handed + 1_000, WORKER, request_key=request["request_key"]
            )
            submit(self.world, DISK, WORKER, handed + 1_000,
                   Request(queue=500, scheduler=None, device=DEVICE_NS))  # fmt: skip
            resumes(self.world, WORKER, handed + 2_000, handed + 21_500, handed + 22_000, 0,
                    UNINTERRUPTIBLE)  # fmt: skip
        done = handed + RUNS[request["opcode"]]
        self.world.emit("io_uring_complete", done, WORKER, result=0, **request)
        if sync:
            self.world.emit("io_uring_work", done + 100, WORKER, request_key=0)
        self.complete_ns.append(done)
        wake = done + 300
        if self.submitter == WRITER:
            resumes(self.world, WRITER, handed + 500, wake, wake + LATE_NS, WORKER, INTERRUPTIBLE)
        self.now = wake + LATE_NS + BEGINS_NS

    def returns(self) -> int:
        end = self.now + 3_000
        self.world.emit("syscall", end, WRITER, enter_ns=500, call=CALL_IO_URING_ENTER, tgid=WRITER)
        return end


@pytest.mark.parametrize("drained", ["all", "syncs", "none"])
def test_each_waits_for_all_before_it(drained: str) -> None:
    """Three writes and their syncs, by turns: the last sync waits for the disk three times."""
    ring = Ring(worlds())
    requests = [
        ring.submits(number, (WRITE, FSYNC)[number % 2], 1_000 + 100 * number,
                     drained=drained == "all" or (drained == "syncs" and number % 2 > 0))
        for number in range(2 * PAIRS)
    ]  # fmt: skip
    for request in requests:
        ring.runs(request)
    end = ring.returns()
    found = analysed(ring.world)
    conserves(found)
    for number, account in enumerate(accounts(found)[WRITER]):
        if drained == "none":
            assert account["device.data"] == DEVICE_NS
            continue
        assert account["device.data"] == (number + 1) * DEVICE_NS
        # The submitter behind each of all, as it has the call return behind the last.
        late_ns = LATE_NS * len(requests)
        assert account["wakeup.runqueue"] == late_ns + RUNNABLE_NS * (number + 1)
        behind = len(requests) - 2 * number - 1
        assert account["wakeup.reap"] == end - ring.complete_ns[2 * number + 1] - LATE_NS * behind
        # Until each of those before is let go, and begins.
        assert account["residual"] <= (2 * number + 2) * 1_000


def test_another_ring_of_its_thread_is_not_waited_for() -> None:
    """What is before it there goes on behind its own end."""
    ring = Ring(worlds())
    other = ring.submits(9, FSYNC, 900, drained=False)
    ring.world.emit("io_uring_queue_async_work", 950, WRITER, **other)
    requests = [ring.submits(number, FSYNC, 1_000 + 100 * number, drained=True)
                for number in range(2)]  # fmt: skip
    for request in requests:
        ring.runs(request)
    submit(ring.world, DISK, WORKER + 1, 1_500, Request(queue=500, scheduler=None, device=90_000))
    ring.world.emit("io_uring_complete", ring.now, WORKER, result=0, **other)
    ring.returns()
    found = analysed(ring.world)
    conserves(found)
    _, *mine = accounts(found)[WRITER]
    assert [account["device.data"] for account in mine] == [DEVICE_NS, 2 * DEVICE_NS]


def test_what_is_behind_a_drained_one_begins_no_sooner() -> None:
    """A write, whose sync is drained, and another sync, which is not."""
    ring = Ring(worlds())
    requests = [
        ring.submits(number, WRITE if number == 0 else FSYNC, 1_000 + 100 * number,
                     drained=number == 1)
        for number in range(3)
    ]  # fmt: skip
    for request in requests:
        ring.runs(request)
    ring.returns()
    found = analysed(ring.world)
    conserves(found)
    each = accounts(found)[WRITER]
    assert [account["device.data"] for account in each] == [DEVICE_NS, 2 * DEVICE_NS]
    assert all(account["residual"] <= 6_000 for account in each)


def test_a_chain_begins_with_its_first_one() -> None:
    """Each sync is linked behind its write; the second, and with it its chain, is drained."""
    ring = Ring(worlds())
    requests = [
        ring.submits(number, (WRITE, FSYNC)[number % 2], 1_000 + 100 * number,
                     drained=number == 3, linked=number % 2 == 0)
        for number in range(4)
    ]  # fmt: skip
    for number, request in enumerate(requests):
        ring.runs(request, linked=number % 2 > 0)
    ring.returns()
    found = analysed(ring.world)
    conserves(found)
    each = accounts(found)[WRITER]
    assert [account["device.data"] for account in each] == [DEVICE_NS, 2 * DEVICE_NS]


@pytest.mark.parametrize("taken", [True, False])
def test_whose_submitter_is_away_waits_for_it_if_anything_is_there_to_be_taken(
    *, taken: bool
) -> None:
    """Else it may wait for what the recorder does not tell of, as a read of a pipe."""
    ring, enter = Ring(worlds()), 50_000
    write = ring.submits(8, WRITE, 900, drained=False)
    sync = ring.submits(0, FSYNC, 1_000, drained=True)
    call = {"call": CALL_IO_URING_ENTER, "tgid": WRITER}
    ring.world.emit("syscall", 1_600, WRITER, enter_ns=500, **call)
    ring.world.emit("io_uring_complete", enter + 300 if taken else 1_300, WRITER, result=0, **write)
    ring.now = enter + 600
    ring.runs(sync)
    ring.world.emit("syscall", ring.now + 3_000, WRITER, enter_ns=enter, **call)
    found = analysed(ring.world)
    conserves(found)
    (account,) = accounts(found)[WRITER]
    away = account["wakeup.reap" if taken else "residual"]
    # And for what is complete behind it, until its call returns.
    assert enter - 1_600 <= away <= enter + 4_000


@pytest.mark.parametrize("woken", [True, False])
def test_the_kernels_own_thread_is_at_nothing_for_what_is_kept(*, woken: bool) -> None:
    """It looks for more meanwhile, and loses its CPU: the timer before this may not be over yet.

    ``woken``: it slept, until that was.
    """
    world, kept = worlds(), 40_000
    world.emit("thread", 1, WRITER, tgid=WRITER, subject_tid=POLLS, kind=THREAD_WORKER,
               comm=b"iou-sqp-100")  # fmt: skip
    ring = Ring(world, now=kept, submitter=POLLS)
    sync = ring.submits(0, FSYNC, 1_000, drained=True)
    # Nothing but what it did for another tells that it came so far.
    world.emit("io_uring_queue_async_work", 1_200, POLLS, request_key=0x99)
    if woken:
        resumes(world, POLLS, 2_000, kept - 9_000, kept - 1_000, 0, INTERRUPTIBLE)
    else:
        world.emit("sched_resume", kept - 1_000, POLLS, off_ns=kept - 9_000, subject_tid=POLLS)
    ring.runs(sync)
    found = analysed(world)
    conserves(found)
    (account,) = accounts(found)[POLLS]
    assert account["device.data"] == DEVICE_NS
    assert account["syscall"] < 5_000
    late_ns = 8_000 if woken else 0
    assert account["wakeup.runqueue"] == late_ns + RUNNABLE_NS - 500
    assert kept - 1_000 - late_ns - 2_000 <= account["residual"] <= kept + 2_000


def test_what_a_drained_sync_makes_durable_is_written_before_its_turn() -> None:
    """It still waits for what its ring was given before that."""
    ring, other_ns = Ring(worlds()), 90_000
    other = ring.submits(9, FSYNC, 900, drained=False)
    ring.world.emit("io_uring_queue_async_work", 950, WRITER, **other)
    submit(ring.world, DISK, WORKER + 1, 1_500, Request(queue=500, scheduler=None, device=other_ns))
    write = ring.submits(0, WRITE, 1_000, drained=False)
    sync = ring.submits(1, FSYNC, 1_100, drained=True)
    ring.runs(write)
    ring.world.emit("thread", 1, WRITER, tgid=WRITER, subject_tid=WORKER + 1, kind=THREAD_WORKER,
                    comm=b"iou-wrk-100")  # fmt: skip
    ring.world.emit("io_uring_work", 1_400, WORKER + 1, request_key=other["request_key"])
    ring.world.emit("io_uring_complete", 95_000, WORKER + 1, result=0, **other)
    ring.now = 96_000
    ring.runs(sync)
    ring.returns()
    found = analysed(ring.world)
    conserves(found)
    _, account = accounts(found)[WRITER]
    assert account["device.data"] == other_ns + DEVICE_NS
    assert account["residual"] <= 8_000
