# SPDX-License-Identifier: Apache-2.0
"""Requests of io_uring whose completion is told, and the call not that they end with."""

from __future__ import annotations

import pytest

from iostrata.errors import NothingToAnalyse
from iostrata.stitch.collecting import SUBMITS_NS
from iostrata.trace.layout import (
    CALL_FAULT,
    CALL_FSYNC,
    CALL_IO_URING_ENTER,
    THREAD_TARGET,
    THREAD_WORKER,
)
from tests.stitch.test_account import analysed
from tests.synthetic import O_DSYNC, World, device

SUBMITTER, OTHER = 100, 104
LOST = 100_000, 110_000
"""Between what is there before the loss and what is there behind it."""
FILE = {"inode": 12, "dev": device(8, 0), "open_flags": O_DSYNC, "opcode": 23, "size_bytes": 4096}


class Ring:
    """One thread's; another one has an event straight before the loss, and one behind it."""

    def __init__(self, kind: int = THREAD_TARGET) -> None:
        self.world, self.key = World(), 0x70
        self.world.builder.packet_events = 1
        if kind:
            self.world.target(SUBMITTER, kind=kind)
        for time_ns in LOST:
            self.world.target(OTHER, time_ns)
        self.world.builder.refuse("syscall", time_ns=LOST[1] - 5_000, cpu=SUBMITTER % 4)

    def call(self, enter: int, end: int, call: int = CALL_IO_URING_ENTER) -> None:
        self.world.emit("syscall", end, SUBMITTER, enter_ns=enter, tgid=SUBMITTER, call=call,
                        result=-1)  # fmt: skip

    def waited(self, enter: int, end: int, by: int) -> None:
        """For the thread that submits, by another."""
        self.world.emit("syscall", end, by, enter_ns=enter, tgid=by, call=CALL_IO_URING_ENTER,
                        size_bytes=SUBMITTER, result=-1)  # fmt: skip

    def request(self, submit: int, complete: int) -> None:
        self.key += 1
        self.world.emit("io_uring_submit_req", submit, SUBMITTER, request_key=self.key, **FILE)
        self.world.emit("io_uring_complete", complete, 1, request_key=self.key, result=4096,
                        **FILE)  # fmt: skip

    def submitted(self, enter: int, complete: int) -> None:
        """A request, by a call of its own that is told."""
        self.call(enter, enter + 1_000)
        self.request(enter + 500, complete)

    def ended(self) -> list[int]:
        """When those that are analysed ended."""
        try:
            return sorted(analysed(self.world).writes.end_ns.tolist())
        except NothingToAnalyse:
            return []


@pytest.mark.parametrize("polled", [False, True])
def test_one_that_no_call_is_told_of_before_the_loss_is_left_out(*, polled: bool) -> None:
    """It ends with that call, if there is one. What was told before it is as it was."""
    ring = Ring()
    ring.submitted(1_000, 12_000)
    ring.call(11_000, 13_000)
    ring.submitted(20_000, 30_000)
    ring.submitted(120_000, 130_000)
    if not polled:
        ring.call(125_000, 131_000)
    assert ring.ended() == [13_000, 130_000 if polled else 131_000]


@pytest.mark.parametrize(
    ("call", "enter", "known"),
    [
        (CALL_IO_URING_ENTER, 40_000, True),
        (CALL_FSYNC, 40_000, True),
        # In another call, which need not have returned.
        (CALL_FAULT, 40_000, False),
        (CALL_IO_URING_ENTER, LOST[0] + 100, False),
    ],
    ids=["enters", "other call", "fault", "enters behind it"],
)
def test_who_enters_a_call_before_the_loss_had_returned(call: int, enter: int, known: bool) -> None:
    """Whether the call it enters is told before the loss or behind it."""
    ring = Ring()
    ring.submitted(20_000, 30_000)
    ring.call(enter, LOST[1] + 100, call)
    assert ring.ended() == [30_000] * known


@pytest.mark.parametrize(
    ("kind", "last", "known"),
    [
        (THREAD_WORKER, 50_000, True),
        # What names it is lost: behind the last loss each call would be told.
        (0, 130_000, True),
        (0, 50_000, False),
        (THREAD_TARGET, 50_000, False),
    ],
    ids=["named", "seen behind it", "not known", "of the program"],
)
def test_a_thread_of_the_kernel_s_that_submits_makes_no_calls(
    kind: int, last: int, known: bool
) -> None:
    ring = Ring(kind)
    ring.request(20_000, 30_000)
    ring.request(last, last + 10_000)
    before, behind = [30_000, last + 10_000][: 1 + (last < LOST[0])], [last + 10_000]
    assert ring.ended() == (before * known + behind * (last > LOST[0]))


WAITING = 108, 112


@pytest.mark.parametrize(
    ("entered", "known"),
    [((), False), (WAITING[:1], False), (WAITING, True)],
    ids=["none", "one of two", "both"],
)
def test_but_who_has_waited_for_it_may_so_again(entered: tuple[int, ...], known: bool) -> None:
    """The calls of any of them may return in the loss, unless it is known to have entered one."""
    ring = Ring(THREAD_WORKER)
    for key, tid in enumerate(WAITING):
        ring.world.target(tid)
        ring.request(1_000 + 6_000 * key, 5_000 + 6_000 * key)
        ring.waited(2_000 + 6_000 * key, 6_000 + 6_000 * key, tid)
    ring.request(20_000, 30_000)
    for tid in entered:
        ring.waited(40_000, 120_000, tid)
    assert ring.ended() == [6_000, 12_000] + [30_000] * known


@pytest.mark.parametrize("apart_ns", [SUBMITS_NS, SUBMITS_NS + 1])
def test_where_the_last_loss_lasts_to_the_end_it_submits_for_longer_than_a_call(
    apart_ns: int,
) -> None:
    ring = Ring(0)
    begins = 120_000, 120_000 + apart_ns
    for begin in begins:
        ring.request(begin, begin + 10_000)
    for time_ns in (20_000, 30_000):
        ring.world.target(OTHER, begins[1] + time_ns)
    ring.world.builder.refuse("syscall", time_ns=begins[1] + 25_000, cpu=OTHER % 4)
    known = apart_ns > SUBMITS_NS
    assert ring.ended() == [begin + 10_000 for begin in begins] * known
