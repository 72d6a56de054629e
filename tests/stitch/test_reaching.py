# SPDX-License-Identifier: Apache-2.0
"""How far a loss reaches: what is told at its end only, and what is told of once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from iostrata.recording import open_recording
from iostrata.stitch import reach_of, reaching
from iostrata.stitch.kinds import Kinds
from iostrata.stitch.opcodes import RWF_OF_SILENT
from iostrata.trace.layout import (
    CALL_FSYNC,
    THREAD_HELPER,
    THREAD_JOURNAL,
    THREAD_SERVER,
    THREAD_TARGET,
    THREAD_WORKER,
    WAKE_THREAD,
)
from tests.stitch.test_below import FLUSH, KWORKER, LOOP, SDA, Block
from tests.stitch.test_serving import awakes, on_loop, work
from tests.stitch.test_wakers import IDLE, resume
from tests.synthetic import World

BEGIN, END = 100_000, 110_000
"""Between what is there before the loss and what is there behind it."""
OTHER = 78


@pytest.fixture(autouse=True)
def _no_other_of_the_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows knows who was let go before the loss, but where it says so."""
    monkeypatch.setattr(reaching, "TAKEN_OVER_NS", 0)


def losing() -> World:
    """A worker's run on a loop device until 20000, and a loss much later."""
    world = on_loop()
    world.builder.packet_events = 1
    work(world, KWORKER, 10_000, 20_000)
    world.target(100, time_ns=BEGIN - 1)
    world.builder.refuse("loop_work", time_ns=END - 5_000)
    world.target(104, time_ns=END)
    return world


def reached(world: World, directory: Path) -> list[tuple[int, int]]:
    world.builder.write(directory / "local")
    (trace,) = open_recording(directory / "local").traces()
    reach = reach_of(trace)
    return list(zip(reach.begins.tolist(), reach.ends.tolist(), strict=True))


def test_a_loss_of_which_nothing_is_left_open_reaches_no_further(tmp_path: Path) -> None:
    world = losing()
    Block(world, LOOP).request(11_000, 19_000, 0xA0, 0xB0)
    ((begin, end),) = reached(world, tmp_path)
    assert BEGIN - 2 <= begin < end <= END + 1


@pytest.mark.parametrize(
    ("issue", "since"), [(30_000, 30_000), (15_000, 20_000)], ids=["behind the run", "within it"]
)
def test_back_to_the_run_of_a_worker_that_is_lost(issue: int, since: int, tmp_path: Path) -> None:
    """It began behind the one before, and what it served then is complete long before the loss."""
    world = losing()
    Block(world, LOOP).request(issue, 40_000, 0xA0, 0xB0)
    ((begin, _),) = reached(world, tmp_path)
    assert begin == since


@pytest.mark.parametrize("device", [LOOP, SDA])
def test_to_what_a_stacked_device_had_to_do_meanwhile(device: int, tmp_path: Path) -> None:
    """What a disk was asked for by others, nobody waits for in that device's worker."""
    world = losing()
    world.deaf_to = "block_rq_complete"
    Block(world, device).request(15_500, BEGIN + 1_000, 0xA0, 0xB0)
    world.deaf_to = "block_rq_issue"
    Block(world, device).request(BEGIN + 1_000, 170_000, 0xA1, 0xB1)
    ((begin, end),) = reached(world, tmp_path)
    assert (begin <= 20_000, end == 170_000) == ((True, True) if device == LOOP else (False, False))


def test_on_to_the_end_of_what_a_stacked_device_is_told_to_be_given_in_the_loss(
    tmp_path: Path,
) -> None:
    """By another CPU: what began behind the loss does not look for it there."""
    world = losing()
    Block(world, LOOP).request(END - 2_000, 150_000, 0xA0, 0xB0)
    ((begin, end),) = reached(world, tmp_path)
    assert begin >= BEGIN - 2
    assert end == 150_000


def test_back_to_when_a_loop_device_s_pool_may_have_let_one_go_that_ran_in_the_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reaching, "TAKEN_OVER_NS", 40_000)
    world = losing()
    Block(world, LOOP).request(11_000, 19_000, 0xA0, 0xB0)
    ((begin, _),) = reached(world, tmp_path)
    assert begin == BEGIN - 2 - 40_000


def test_what_asked_for_a_flush_is_complete_without_an_issue(tmp_path: Path) -> None:
    world = losing()
    Block(world, LOOP).queue(120_000, 100, 0xB2, size=0, flags=FLUSH)
    Block(world, LOOP).flush(121_000, 150_000, 0xA2, 0xB2, asked=0xA3)
    ((_, end),) = reached(world, tmp_path)
    assert end <= END + 1


def test_on_to_the_end_of_a_commit_that_began_in_it(tmp_path: Path) -> None:
    world = losing()
    log = {"iclog_key": 0x1C, "lsn": 7, "bio_key": 0xB3, "dev": SDA}
    world.emit("xlog_iclog_sync_done", 180_000, KWORKER, **log)
    ((_, end),) = reached(world, tmp_path)
    assert end == 180_000


COMMIT = {
    "jbd2": ("jbd2_start_commit", "jbd2_end_commit", {"journal_key": 0x10}, "transaction"),
    "xfs": ("xlog_iclog_sync", "xlog_iclog_sync_done", {"iclog_key": 0x1C, "bio_key": 0xB3}, "lsn"),
}


@pytest.mark.parametrize("kind", COMMIT)
@pytest.mark.parametrize("again", [True, False], ids=["and began anew", "and was not seen again"])
def test_what_began_in_a_loss_was_over_before_the_next_one_if_its_journal_began_anew(
    kind: str, *, again: bool, tmp_path: Path
) -> None:
    """What its end was is lost, but not in the loss behind that: all between is as it was."""
    started, ended, names, number = COMMIT[kind]
    world = losing()
    world.emit(started, END - 3_000, KWORKER, dev=SDA, **names, **{number: 6})
    if again:
        world.emit(started, 150_000, KWORKER, dev=SDA, **names, **{number: 7})
        world.emit(ended, 160_000, KWORKER, dev=SDA, **names, **{number: 7})
    world.target(108, time_ns=200_000)
    world.builder.refuse("thread", time_ns=205_000)
    world.target(112, time_ns=210_000)
    begins = [begin for begin, _ in reached(world, tmp_path)]
    assert len(begins) == (2 if again else 1)
    assert (begins[-1] >= 200_000 - 2) == again


def test_while_a_worker_is_at_it_whose_name_is_lost(tmp_path: Path) -> None:
    world = losing()
    Block(world, LOOP).request(120_000, 130_000, 0xA0, 0xB0)
    awakes(world, OTHER, 210_000, 211_000, KWORKER)
    work(world, OTHER, 212_000, 219_000)
    awakes(world, KWORKER, 220_000, 221_000, OTHER)
    reach = reached(world, tmp_path)
    assert (210_000, 220_000) in reach
    world.target(OTHER, kind=THREAD_HELPER)
    assert len(reached(world, tmp_path / "named")) == 1


def unnamed(*, state: int) -> World:
    """No stacked device; behind the loss a thread that slept lets a writer go."""
    world = World()
    world.builder.packet_events = 1
    world.target(100, time_ns=BEGIN - 1)
    world.builder.refuse("thread", time_ns=END - 5_000)
    world.target(104, time_ns=END)
    # Older ones tell of no helper.
    world.emit("sched_woken", END + 1, 100, subject_tid=104)
    resume(world, OTHER, 120_000, 210_000, 211_000, 100, context=WAKE_THREAD, state=state)
    resume(world, 100, 130_000, 220_000, 221_000, OTHER, context=WAKE_THREAD)
    return world


def test_while_others_wait_for_who_may_be_anybody(tmp_path: Path) -> None:
    assert (130_000, 221_000) in reached(unnamed(state=2), tmp_path)


@pytest.mark.parametrize("point", ["", "aio_submit", "io_uring_submit_req"])
def test_while_one_of_the_kernel_s_works_whose_pool_is_lost(point: str, tmp_path: Path) -> None:
    """It rests as those do; what others of its pool did for requests may have waited for it."""
    world = unnamed(state=IDLE)
    if point:
        world.emit(point, 120_000, 100)
    assert ((210_000, 220_000) in reached(world, tmp_path)) == bool(point)


@pytest.mark.parametrize("shows", ["rest", "a call", "its work"])
def test_not_where_it_shows_what_it_is(shows: str, tmp_path: Path) -> None:
    world = unnamed(state=IDLE if shows == "rest" else 2)
    if shows == "a call":
        call = {"enter_ns": 115_000, "tgid": OTHER, "dev": SDA, "inode": 7, "call": CALL_FSYNC}
        world.emit("syscall", 250_000, OTHER, **call)
    elif shows == "its work":
        world.emit("io_uring_work", 250_000, OTHER, request_key=0)
    world.builder.write(tmp_path / "local")
    (trace,) = open_recording(tmp_path / "local").traces()
    assert len(reach_of(trace).begins) == 1
    shown = {"rest": THREAD_HELPER, "a call": THREAD_TARGET, "its work": THREAD_WORKER}[shows]
    assert Kinds(trace).of(np.array([OTHER]), np.array([220_000])).tolist() == [shown]


@pytest.mark.parametrize("name", [b"writer", b"iou-sqp-100"])
def test_who_makes_a_worker_is_what_its_name_says_that_it_gives_it(
    name: bytes, tmp_path: Path
) -> None:
    """Who only collects makes no calls of those that are told."""
    world = unnamed(state=2)
    made = {"tgid": 100, "subject_tid": 79, "kind": THREAD_WORKER}
    world.emit("thread", 250_000, OTHER, comm=name, **made)
    world.builder.write(tmp_path / "local")
    (trace,) = open_recording(tmp_path / "local").traces()
    kind = THREAD_TARGET if name == b"writer" else THREAD_WORKER
    assert Kinds(trace).of(np.array([OTHER]), np.array([220_000])).tolist() == [kind]
    assert len(reach_of(trace).begins) == 1


@pytest.mark.parametrize("lost", [True, False])
def test_who_is_told_to_be_forgotten_was_a_helper_until_then(*, lost: bool, tmp_path: Path) -> None:
    """As nobody else is; its name is told with that, once more."""
    world = losing()
    name = b"kworker/0:1H"
    if not lost:
        world.target(OTHER, 1, kind=THREAD_HELPER, comm=name)
    world.target(OTHER, 220_000, kind=0, comm=name)
    world.target(OTHER, 240_000, kind=THREAD_HELPER, comm=name)
    world.builder.write(tmp_path / "local")
    (trace,) = open_recording(tmp_path / "local").traces()
    kinds, times = Kinds(trace), np.array([210_000, 230_000, 250_000])
    others = np.full(3, OTHER)
    assert kinds.of(others, times).tolist() == [THREAD_HELPER, 0, THREAD_HELPER]
    assert kinds.bound_pool_of(others, times).tolist() == [0, -1, 0]


@pytest.mark.parametrize("anew", [True, False], ids=["and is told anew", "and is not"])
def test_while_a_worker_is_at_it_whose_name_is_lost_until_it_is_told_anew(
    *, anew: bool, tmp_path: Path
) -> None:
    """Amid its work, behind the loss: it is the same that it was before."""
    world = losing()
    Block(world, LOOP).request(120_000, 130_000, 0xA0, 0xB0)
    awakes(world, OTHER, 210_000, 211_000, KWORKER)
    if anew:
        world.target(OTHER, 211_500, kind=THREAD_HELPER, comm=b"kworker/1:0")
    work(world, OTHER, 212_000, 219_000)
    awakes(world, KWORKER, 220_000, 221_000, OTHER)
    beside = reached(world, tmp_path)
    assert len(beside) == (1 if anew else 2)
    assert ((210_000, 220_000) in beside) != anew


ASKED = {"request_key": 0xC0, "inode": 7, "dev": SDA, "opcode": 23, "size_bytes": 4096}


def test_on_to_the_end_of_a_request_that_was_under_way_in_it(tmp_path: Path) -> None:
    """Whoever runs it keeps those waiting that are handed to it behind the loss."""
    world = losing()
    world.emit("io_uring_submit_req", BEGIN - 50, 100, **ASKED)
    world.emit("io_uring_complete", 190_000, OTHER, **ASKED)
    ((_, end),) = reached(world, tmp_path)
    assert end == 190_000


@pytest.mark.parametrize(
    ("ended", "flags", "since"),
    [
        (0, 0, 30_000),
        (190_000, 0, 30_000),
        (190_000, RWF_OF_SILENT, 30_000),
        (0, RWF_OF_SILENT, None),
        (80_000, 0, None),
    ],
    ids=["lost", "behind it", "failed behind it", "silent", "before it"],
)
@pytest.mark.parametrize("hands", [True, False])
def test_back_to_a_request_that_was_under_way_when_it_began(
    *, ended: int, flags: int, since: int | None, hands: bool, tmp_path: Path
) -> None:
    """Of a thread that hands requests over: what follows waits for whoever runs this one."""
    world = losing()
    if hands:
        other = ASKED | {"request_key": 0xC1}
        for number, point in enumerate(("submit_req", "queue_async_work", "complete")):
            world.emit(f"io_uring_{point}", 20_000 + number, 100, **other)
    world.emit("io_uring_submit_req", 30_000, 100, rwf=flags, **ASKED)
    if ended:
        world.emit("io_uring_complete", ended, OTHER, rwf=flags, **ASKED)
    ((begin, _),) = reached(world, tmp_path)
    assert begin == (since if since and hands else BEGIN - 2)


def test_back_to_whom_a_call_let_go_that_is_told_from_the_loss_on(tmp_path: Path) -> None:
    """What its thread had until then, that one waited for: the call's end tells of it."""
    world = losing()
    resume(world, 100, 60_000, 70_000, 71_000, 101, context=WAKE_THREAD)
    resume(world, 100, 80_000, 85_000, 86_000, 102, context=WAKE_THREAD)
    for tid, enter, end in ((101, 50_000, END + 5_000), (102, 75_000, 90_000)):
        world.target(tid, time_ns=1)
        call = {"enter_ns": enter, "tgid": tid, "dev": SDA, "inode": 7, "call": CALL_FSYNC}
        world.emit("syscall", end, tid, **call)
    world.emit("syscall", 95_000, 100, enter_ns=55_000, tgid=100, dev=SDA, inode=7, call=CALL_FSYNC)
    first, (begin, _) = reached(world, tmp_path)
    assert first == (60_000, 71_000)
    assert begin >= BEGIN - 2


@pytest.mark.parametrize("point", ["syscall", "aio_submit", "aio_complete"])
def test_not_to_whom_a_call_let_go_that_is_told_before_the_loss(point: str, tmp_path: Path) -> None:
    """Those of libaio, too, which only their blocks tell of."""
    world = losing()
    world.target(101, time_ns=1)
    resume(world, 100, 60_000, 70_000, 71_000, 101, context=WAKE_THREAD)
    world.emit("syscall", 95_000, 100, enter_ns=55_000, tgid=100, dev=SDA, inode=7, call=CALL_FSYNC)
    world.emit(point, 90_000, 101, enter_ns=65_000, dev=SDA, inode=7)
    ((begin, _),) = reached(world, tmp_path)
    assert begin >= BEGIN - 2
    world.emit("aio_complete", 94_000, 101, enter_ns=0, dev=SDA, inode=7)
    assert [begin for begin, _ in reached(world, tmp_path / "kernel")] == [begin]


SERVER = 300


def served(world: World, kind: str, since: int, until: int) -> None:
    """A call of a client's that a server's thread is in."""
    if kind == "nfsd":
        world.emit("svc_call", until, SERVER, dequeue_ns=since)
    else:
        world.emit("target_work", since, SERVER, request_key=0xC0)
        world.emit("target_work", until, SERVER, request_key=0)


@pytest.mark.parametrize("kind", ["nfsd", "lio"])
@pytest.mark.parametrize("told", ["before", "behind", "never"])
def test_a_server_s_thread_is_in_the_calls_of_its_clients(
    kind: str, told: str, tmp_path: Path
) -> None:
    """It makes none of its own. Whom it let go in one that had ended before the loss, waited for
    nothing that is lost; and whom in another, did."""
    world = losing()
    world.target(SERVER, time_ns=1, kind=THREAD_SERVER)
    world.target(OTHER, time_ns=2, kind=THREAD_JOURNAL)
    until = {"before": 60_000, "behind": 150_000, "never": END - 1_000}[told]
    world.deaf_to = "*" if told == "never" else ""
    served(world, kind, 30_000, until)
    world.deaf_to = ""
    resume(world, OTHER, 20_000, 40_000, 41_000, SERVER, context=WAKE_THREAD)
    assert (min(begin for begin, _ in reached(world, tmp_path)) == 20_000) == (told != "before")
