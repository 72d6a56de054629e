# SPDX-License-Identifier: Apache-2.0
"""Disks by iSCSI with known truth: which command is whose, and where each spent its time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from iostrata.model import Breakdown
from tests.iscsi import Costs, Machine, Session, analysed, drawn, offsets, truth_of
from tests.stitch.test_truth import accounts
from tests.synthetic import O_DSYNC, Writer, clock

APART = clock(5_000_000, 0), clock(86_400_000_000_000, 0)


def pair(*clocks: object, told: bool = False, bursts: bool = False) -> Session:
    one, other = clocks or (int, int)
    initiator, target = Machine("initiator", one), Machine("target", other)  # type: ignore[arg-type]
    return Session(initiator, target, told=told, bursts=bursts)


def same(found: Iterable[dict[str, int]], truth: Iterable[dict[str, int]], target: str) -> None:
    """Only the clocks' relation splits the way there from the way back."""
    for account, true in zip(found, truth, strict=True):
        for rows in (account, true):
            ways = (rows.pop(f"{target}/network.{way}", 0) for way in ("there", "back"))
            rows["way"] = sum(ways)
        assert account == true


def followed(breakdown: Breakdown) -> list[tuple[int, int]]:
    return [(one.asked, one.followed) for one in breakdown.quality.crossings]


@pytest.mark.parametrize(("told", "bursts"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("seed", range(6))
def test_every_row_is_met(tmp_path: Path, seed: int, told: bool, bursts: bool) -> None:
    """Of a disk (even seeds) or a file; three tags for some hundred commands."""
    random, session = Random(seed), pair(*APART, told=told, bursts=bursts)
    writer, places, file = session.writer(), offsets(), seed % 2 == 1
    session.write(writer, next(places), Costs())
    for number in range(40):
        flush = drawn(random, file) if number % 3 == 0 else None
        costs = drawn(random, file, large=number % 4 == 0)
        costs = replace(costs, hand=random.randint(100, 9_000) if bursts else 0)
        if bursts and costs.r2t:
            # What is between the two clocks is more than what these are apart by.
            costs = replace(costs, r2t=costs.r2t + 100_000)
        # Written again and again: the tag tells, not the place.
        session.write(writer, random.randint(0, 3) * 8192, costs, flush)
    found = analysed(tmp_path, session.initiator, session.target)
    assert followed(found) == [(41 + 14, 41 + 14)]
    assert found.quality.crossings[0].hop == "iscsi"
    same(accounts(found)[writer.tid], truth_of(writer, "initiator"), "target")


@pytest.mark.parametrize("told", [False, True])
def test_a_receiver_without_a_cpu_is_in_its_run_queue(tmp_path: Path, told: bool) -> None:
    """It has read a command, and has not handed it to the disk yet, nor said that it is at it."""
    random, session = Random(5), pair(*APART, told=told)
    writer = session.writer()
    session.write(writer, 0, Costs())
    for number in range(40):
        preempted = random.randint(100, 90_000) if number % 3 else 0
        session.write(writer, 8192 * number, replace(drawn(random), preempted=preempted))
    found = analysed(tmp_path, session.initiator, session.target)
    assert followed(found) == [(41, 41)]
    same(accounts(found)[writer.tid], truth_of(writer, "initiator"), "target")


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("submit", [8_100, 200_000])
def test_a_receiver_that_was_woken_for_something_else(
    tmp_path: Path, submit: int, told: bool
) -> None:
    """Before the command was issued, or then but before it was sent: the command is the network's
    until it comes, or where that is not told, until it is read."""
    random, session, places = Random(6), pair(told=told), offsets()
    writer = session.writer()
    for number in range(40):
        # As long to it as from it: causality finds the very relation of the clocks.
        costs = Costs(submit=8_100)
        if number % 3 == 1:
            costs = replace(costs, submit=submit, woken=150_000)
        writer.now += random.randint(1_000, 900_000)
        session.write(writer, next(places), costs)
    found = analysed(tmp_path, session.initiator, session.target)
    assert followed(found) == [(40, 40)]
    same(accounts(found)[writer.tid], truth_of(writer, "initiator"), "target")


@pytest.mark.parametrize(
    ("late", "came", "told"), [(30_000, False, True), (0, False, False), (30_000, True, False)]
)
def test_how_long_a_receiver_that_was_awake_may_have_kept_commands_waiting_is_said(
    tmp_path: Path, late: int, came: bool, told: bool
) -> None:
    """Whether they were there already when it had no CPU, nothing tells but what comes in."""
    random, session, places = Random(6), pair(told=came), offsets()
    writer = session.writer()
    for number in range(40):
        costs = Costs(submit=8_100, woken=150_000, late=late) if number % 2 else Costs(submit=8_100)
        writer.now += random.randint(1_000, 900_000)
        session.write(writer, next(places), costs)
    found = analysed(tmp_path, session.initiator, session.target)
    gaps = [gap.reason for gap in found.quality.not_observed if gap.layer == "arrival"]
    if came:
        same(accounts(found)[writer.tid], truth_of(writer, "initiator"), "target")
    wanted = (
        "20 of 40 commands came while the target's thread did not sleep: "
        "it had no CPU for up to 15.0 us a command"
    )
    assert gaps == [wanted] * told


def test_a_receiver_that_read_another_command_first(tmp_path: Path) -> None:
    """It was woken once this one was sent, for one of which it has to ask for data."""
    random, session, places = Random(7), pair(), offsets()
    writer, world = session.writer(), session.target.world
    for number in range(40):
        # As long to it as from it: causality finds the very relation of the clocks.
        costs = Costs(submit=8_100, woken=30_000 if number % 3 == 1 else 0)
        writer.now += random.randint(1_000, 900_000)
        session.write(writer, next(places), costs)
        if costs.woken:
            began = world.builder._rows["target_sequencer_start"][-1]["time_ns"] - 5_000
            told = {"command_key": 0xFFFF_8882_0000_0000, "itt": 0x99, "opcode": 0x2A}
            world.emit("target_sequencer_start", began, session.receiver.tid, **told)
    found = analysed(tmp_path, session.initiator, session.target)
    assert followed(found) == [(40, 40)]
    same(accounts(found)[writer.tid], truth_of(writer, "initiator"), "target")


def rounds(random: Random, sessions: list[Session], count: int = 25) -> list[Writer]:
    writers = [session.writer() for session in sessions]
    for _ in range(count):
        for session, writer in zip(sessions, writers, strict=True):
            session.write(writer, random.randint(0, 3) * 8192, drawn(random))
    return writers


@pytest.mark.parametrize("addressed", [True, False])
def test_sessions_number_alike(tmp_path: Path, addressed: bool) -> None:
    """Two initiators of one target use the same tags at the same time; their ports differ, or
    where these are the same as well, their addresses."""
    target = Machine("target", clock(10**12, 0))
    sessions = [
        Session(
            Machine(f"i{n}", clock(n * 10**9, 0)), target, n, 40_000 if addressed else 40_000 + n,
            addresses=7 + n if addressed else 0,
        )
        for n in range(2)
    ]  # fmt: skip
    writers = rounds(Random(1), sessions)
    found = analysed(tmp_path, *(session.initiator for session in sessions), target)
    assert followed(found) == [(25, 25), (25, 25)]
    for session, writer in zip(sessions, writers, strict=True):
        name = session.initiator.name
        same(accounts(found)[writer.tid], truth_of(writer, name), "target")


@pytest.mark.parametrize("addressed", [True, False])
def test_sessions_do_the_same_at_the_same_time(tmp_path: Path, addressed: bool) -> None:
    """What the target's disks had of it differs; nothing but the connections tells whose it was."""
    target = Machine("target")
    sessions = [
        Session(
            Machine(f"i{n}"), target, n, 40_000 if addressed else 40_000 + n,
            addresses=7 + n if addressed else 0,
        )
        for n in range(2)
    ]  # fmt: skip
    writers = [session.writer() for session in sessions]
    for session, writer, queue in zip(sessions, writers, (300, 10_300), strict=True):
        for number in range(8):
            costs = Costs()
            costs.disk.queue, costs.disk.device = queue, 30_300 + number * 500 - queue
            session.write(writer, number * 8192, costs)
    found = analysed(tmp_path, *(session.initiator for session in sessions), target)
    assert followed(found) == [(8, 8), (8, 8)]
    for session, writer in zip(sessions, writers, strict=True):
        name = session.initiator.name
        same(accounts(found)[writer.tid], truth_of(writer, name), "target")


def test_targets_number_alike(tmp_path: Path) -> None:
    """One initiator has a disk of each of two: the same tags, from ports of its own."""
    initiator = Machine("initiator", clock(10**9, 0))
    sessions = [
        Session(initiator, Machine(f"t{n}", clock(n * 10**12, 0)), n, 40_000 + n, addresses=7 + n)
        for n in range(2)
    ]
    writers = rounds(Random(2), sessions)
    found = analysed(tmp_path, initiator, *(session.target for session in sessions))
    assert followed(found) == [(25, 25), (25, 25)]
    for session, writer in zip(sessions, writers, strict=True):
        same(accounts(found)[writer.tid], truth_of(writer, "initiator"), session.target.name)


def test_several_commands_are_under_way_at_once(tmp_path: Path) -> None:
    """The target's thread is at the second while the disk is at the first, and this ends last."""
    session, places = pair(), offsets()
    slow = Costs()
    slow.disk.device = 400_000
    first, second = session.writer(), session.writer(tid=300)
    for number in range(5):
        begin = 1_000_000 * (number + 1)
        first.now, second.now = begin, begin + 30_000
        session.write(first, next(places), slow)
        session.write(second, next(places), Costs())
    found = analysed(tmp_path, session.initiator, session.target)
    assert followed(found) == [(10, 10)]
    for writer in (first, second):
        same(accounts(found)[writer.tid], truth_of(writer, "initiator"), "target")


def test_a_write_is_split_and_all_of_it_is_followed(tmp_path: Path) -> None:
    """Two commands of one write, with data that the target asks for: the last one holds it."""
    session, writer = pair(), None
    writer = session.writer()
    for number in range(4):
        offset = number * 16_384
        writer.enter()
        writer.cpu(4_000)
        begin = writer.now
        session.request(writer, begin, offset, Costs(r2t=40_000))
        writer.account.clear()
        writer.account["syscall"] = 4_000
        done = session.request(writer, begin + 200_000, offset + 8192, Costs(r2t=40_000))
        writer._wait(done - begin, 1_000, 2_000)
        writer.cpu(1_500)
        writer.leave("pwrite64", flags=O_DSYNC, result=16_384, size=16_384)
        writer.finish()
        writer.now += 10_000
    found = analysed(tmp_path, session.initiator, session.target)
    assert followed(found) == [(8, 8)]
    assert all(one["target/network.r2t"] == 80_000 for one in accounts(found)[writer.tid])


def test_what_is_sent_while_another_is_awaited_holds_the_time(tmp_path: Path) -> None:
    """The first of a write's two commands is with its target while the second is sent."""
    session = pair()
    writer = session.writer()
    for number in range(4):
        writer.enter()
        offset, begin = number * 16_384, writer.now
        session.request(writer, begin, offset, Costs())
        writer.account.clear()
        done = session.request(writer, begin + 15_000, offset + 8192, Costs())
        alone = dict(writer.account)
        writer._wait(done - begin, 1_000, 2_000)
        writer.leave("pwrite64", flags=O_DSYNC, result=16_384, size=16_384)
        writer.finish()
        writer.now += 10_000
    found = analysed(tmp_path, session.initiator, session.target)
    assert followed(found) == [(8, 8)]
    for account in accounts(found)[writer.tid]:
        assert account["initiator/initiator.submit"] >= alone["initiator.submit"]
        assert "initiator/initiator.call" not in account


def test_a_tag_that_was_not_seen_is_told_by_its_place(tmp_path: Path) -> None:
    session, places = pair(*APART), offsets()
    writer = session.writer()
    for number in range(12):
        session.unseen = frozenset({"iscsi_sent"}) if number % 3 == 2 else frozenset()
        session.write(writer, next(places), Costs())
    found = analysed(tmp_path, session.initiator, session.target)
    assert followed(found) == [(12, 12)]
    for number, account in enumerate(accounts(found)[writer.tid]):
        # Nothing tells when it was with the connection: that is the network's, with the way.
        assert ("initiator/initiator.submit" in account) == (number % 3 != 2)
        assert account["target/device.data"] == 30_000


def test_without_tags_one_place_at_once_is_ambiguous(tmp_path: Path) -> None:
    """Two threads write the same place of one disk at once: whose is whose, nothing tells."""
    session, places = pair(), offsets()
    first, second = session.writer(), session.writer(tid=300)
    for _ in range(6):
        session.write(first, next(places), Costs())
    second.now = first.now + 40_000
    session.unseen = frozenset({"iscsi_sent"})
    for writer in (first, second):
        session.write(writer, 1 << 20, Costs(there=150_000))
    session.unseen = frozenset()
    session.write(first, next(places), Costs())
    found = analysed(tmp_path, session.initiator, session.target)
    (crossing,) = found.quality.crossings
    assert (crossing.asked, crossing.followed, crossing.ambiguous) == (9, 7, 2)
    one, other = accounts(found)[first.tid], accounts(found)[second.tid]
    lost = ["target/unfollowed" in account for account in [*one, *other]]
    assert lost == [False] * 6 + [True, False, True]


@pytest.mark.parametrize("received", [True, False])
def test_a_connection_that_ends_takes_its_answers_with_it(tmp_path: Path, received: bool) -> None:
    """An answer that never came was not on its way: nothing tells what was waited for then, and
    until the request was issued again, it was queued."""
    session, places = pair(), offsets()
    writer = session.writer()
    # As long to the target as from it, so that causality finds the very relation of the clocks.
    costs = Costs(submit=5_600)
    for number in range(12):
        if number % 5 == 2:
            session.interrupted(writer, next(places), costs, received, 5_000_000, 3_000_000_000)
        else:
            session.write(writer, next(places), costs)
    found = analysed(tmp_path, session.initiator, session.target)
    assert followed(found) == [(14, 14 if received else 12)]
    assert found.quality.connections == (
        "initiator: sda (iSCSI): 2 requests given back by its driver, issued again after 3.00 s at "
        "most: block.Q2D",
    )
    same(accounts(found)[writer.tid], truth_of(writer, "initiator"), "target")


def test_a_connection_that_is_away_while_nothing_is_under_way_is_told(tmp_path: Path) -> None:
    session, places = pair(), offsets()
    writer = session.writer()
    for number in range(12):
        session.write(writer, next(places), Costs(queue=3_000_000_000 if number == 5 else 700))
    found = analysed(tmp_path, session.initiator, session.target)
    assert found.quality.connections == (
        "initiator: sda (iSCSI): 1 request waited with none under way, for 3.00 s at most: "
        "that is in block.Q2D",
    )


@pytest.mark.parametrize("deaf", ["target_sequencer_start", "target_cmd_complete"])
def test_what_the_target_did_not_tell_is_not_followed(tmp_path: Path, deaf: str) -> None:
    """Its recorder was late: one honest row, and a number."""
    random, session, places = Random(3), pair(*APART), offsets()
    writer = session.writer()
    for number in range(10):
        session.target.world.deaf_to = deaf if number < 4 else ""
        session.write(writer, next(places), drawn(random))
    found = analysed(tmp_path, session.initiator, session.target)
    assert followed(found) == [(10, 6)]
    for number, account in enumerate(accounts(found)[writer.tid]):
        lost = account.get("target/unfollowed", 0)
        assert (lost > 100_000) == (number < 4)
        assert ("target/device.data" in account) == (number >= 4)


def test_what_is_read_meanwhile_is_no_part_of_a_write(tmp_path: Path) -> None:
    """A target that was asked for reads, too: such a command has the place of the one before it,
    and says when its data was sent."""
    random, session = Random(4), pair(*APART)
    writer, world = session.writer(), session.target.world
    for number in range(20):
        session.write(writer, number * 8192, drawn(random))
        then, tid = writer.now + 200_000, session.receiver.tid
        key = world.builder._rows["target_sequencer_start"][-1]["command_key"]
        told = {"command_key": key, "itt": 0x61, "size_bytes": 8192, "opcode": 0x28}
        world.emit("target_sequencer_start", then, tid, **told, **session.place)
        world.emit("target_work", then + 1_000, tid, request_key=key)
        world.emit("target_work", then + 9_000, tid, request_key=0)
        world.emit("target_cmd_complete", then + 30_000, 88, **told, **session.place)
        world.emit("target_sent", then + 50_000, tid + 1, command_key=key)
        session.idle_ns = then + 10_000
        writer.now = then + 100_000
    found = analysed(tmp_path, session.initiator, session.target)
    assert followed(found) == [(20, 20)]
    same(accounts(found)[writer.tid], truth_of(writer, "initiator"), "target")


def test_without_the_target_it_is_one_row(tmp_path: Path) -> None:
    session, places = pair(), offsets()
    writer = session.writer()
    for _ in range(5):
        session.write(writer, next(places), Costs())
    found = analysed(tmp_path, session.initiator)
    assert not found.quality.crossings
    for account, true in zip(
        accounts(found)[writer.tid], truth_of(writer, "", several=False), strict=True
    ):
        beyond = sum(ns for row, ns in true.items() if row.startswith("target/"))
        assert account["initiator.call"] == beyond
        assert (account["initiator.submit"], account["initiator.complete"]) == (3_000, 2_000)


def test_a_target_alone_has_its_commands_until_their_answers_are_sent(tmp_path: Path) -> None:
    session, places = pair(told=True), offsets()
    writer = session.writer()
    for _ in range(5):
        session.write(writer, next(places), Costs(), Costs())
    found = analysed(tmp_path, session.target)
    sent = session.target.world.builder._rows["target_sent"]
    assert sorted(found.writes.end_ns.tolist()) == sorted(event["time_ns"] for event in sent)
    served = accounts(found)[session.receiver.tid]
    assert not any("residual" in account for account in served)
    assert len(found.writes.tid) == 10
    assert sorted(found.writes.size_bytes.tolist()) == [0] * 5 + [8192] * 5
