# SPDX-License-Identifier: Apache-2.0
"""Disks by NVMe over TCP with known truth: each command is its own target's, or nobody's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from iostrata.model import Breakdown
from tests.fabric import (
    EXPORT,
    FLUSHER,
    PATH,
    TARGET_DISK,
    WORKER,
    Connection,
    Costs,
    Initiator,
    Target,
    found_in,
    met,
)
from tests.stitch.test_truth import accounts
from tests.synthetic import Request, Writer, clock, device

OTHER_PATH = device(259, 2)


def drawn(random: Random) -> Costs:
    """As long there as back, so that causality finds the very relation of the clocks."""
    way = random.randint(20_000, 90_000)
    disk = Request(scheduler=None, queue=random.randint(100, 900), sector=8 * random.randint(1, 9),
                   device=random.randint(9_000, 400_000))  # fmt: skip
    return Costs(
        random.randint(100, 900), random.randint(9, 9_000), way, random.randint(9, 90_000),
        random.randint(60, 900), disk, random.randint(2, 900), way, random.randint(9, 9_000),
    )  # fmt: skip


def crossing(breakdown: Breakdown) -> tuple[str, int, int, int]:
    (found,) = breakdown.quality.crossings
    return found.hop, found.asked, found.followed, found.ambiguous


def met_but_for_rounding(found: Breakdown, writer: Writer) -> None:
    """What was awaited of a connection that had ended, or on its way."""
    for mine, true in met(found, 200, writer):
        unknown, lost = (account.pop("target/unfollowed", 0) for account in (mine, true))
        # By so much the clocks' relation is rounded.
        assert abs(unknown - lost) <= 2
        mine["way"] += unknown
        true["way"] += lost
        assert mine == true


@pytest.mark.parametrize("head", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_every_row_is_met(tmp_path: Path, seed: int, head: bool) -> None:
    """One number of 16 generations: what each command is known by comes again every 16th time."""
    random = Random(seed)
    target = Target(clock=clock(86_400_000_000_000))
    initiator, to = Initiator(clock=clock(5_000_000), head=head), Connection(target)
    writer = initiator.writer()
    initiator.write(writer, to, [Costs()])
    for number in range(150):
        initiator.write(writer, to, [drawn(random)], flush=number % 3 == 0)
    found = found_in(tmp_path, initiator, target)
    assert crossing(found) == ("nvme-tcp", 201, 201, 0)
    for mine, true in met(found, 200, writer):
        assert mine == true


@pytest.mark.parametrize("later", [0, 9])
@pytest.mark.parametrize("apart", [False, True])
def test_a_disk_of_two_paths_takes_them_in_turn(tmp_path: Path, apart: bool, later: int) -> None:
    """``apart``: each leads to a machine of its own, that has the disk: what one had of it, the
    other did not. ``later``: the first target was told another id of their host."""
    random, targets = Random(2), [Target(clock=clock(86_400_000_000_000))]
    targets.append(Target("other", clock(3_600_000_000_000)) if apart else targets[0])
    initiator = Initiator(clock=clock(5_000_000), head=True)
    first = Connection(targets[0], host=1, later=later)
    second = Connection(targets[1], 40_001, 78, host=1 + later, controller=2)
    ways = [(PATH, first), (OTHER_PATH, second)]
    writer = initiator.writer()
    for number in range(120):
        path, to = ways[number % 2]
        initiator.disk = path
        initiator.write(writer, to, [drawn(random)], flush=number % 3 == 0)
    found = found_in(tmp_path, initiator, *dict.fromkeys(targets))
    told = [(each.asked, each.followed, each.ambiguous) for each in found.quality.crossings]
    assert told == ([(80, 80, 0)] * 2 if apart else [(160, 160, 0)])
    for mine, true in met(found, 200, writer):
        assert mine == true


def test_like_clockwork_the_generation_tells_which_use_it_is(tmp_path: Path) -> None:
    """Each write is as the one before it, and no clocks tell when anything was."""
    target = Target(clock=clock(86_400_000_000_000))
    initiator, to = Initiator(clock=clock(5_000_000)), Connection(target)
    writer = initiator.writer()
    for _ in range(80):
        initiator.write(writer, to, [Costs()])
    found = found_in(tmp_path, initiator, target)
    assert crossing(found) == ("nvme-tcp", 80, 80, 0)
    for mine, true in met(found, 200, writer):
        assert mine == true


def test_a_target_alone_tells_what_it_served(tmp_path: Path) -> None:
    """Until a worker begins to answer; also where a command's begin was lost, and its control block
    is the one's before it."""
    random, target = Random(7), Target()
    initiator, to = Initiator(), Connection(target)
    writer = initiator.writer()
    drawn_costs = [
        replace(drawn(random), answers=number % 3 * random.randint(40_000, 200_000))
        for number in range(60)
    ]
    for number, costs in enumerate(drawn_costs):
        target.world.deaf_to = "nvmet_req_init" if number % 20 == 7 else ""
        initiator.write(writer, to, [costs])
    found = found_in(tmp_path, target)
    seen = [costs for number, costs in enumerate(drawn_costs) if number % 20 != 7]
    assert [account for served in accounts(found).values() for account in served] == [
        {
            "target": costs.begins + costs.late + costs.answers,
            "block.Q2D": costs.disk.queue,
            "device.data": costs.disk.device,
        }
        for costs in seen
    ]
    assert found.writes.latency_ns.tolist() == [costs.served - costs.waits for costs in seen]


def test_a_write_that_takes_several_commands_is_followed_in_all(tmp_path: Path) -> None:
    """The queue is deep: a worker is at one after the other, and each one's bios are its own."""
    random, target = Random(1), Target()
    initiator, to = Initiator(), Connection(target)
    writer = initiator.writer()
    for _ in range(40):
        one = drawn(random)
        disks = [Request(scheduler=None, sector=2048 * part, queue=one.disk.queue,
                         device=random.randint(9_000, 400_000)) for part in range(4)]  # fmt: skip
        parts = [replace(one, disk=disk, waits=one.waits + 2_000 * part)
                 for part, disk in enumerate(disks)]  # fmt: skip
        initiator.write(writer, to, parts)
    found = found_in(tmp_path, initiator, target)
    assert crossing(found) == ("nvme-tcp", 160, 160, 0)
    for mine, true in met(found, 200, writer):
        assert mine == true


@pytest.mark.parametrize("told", [True, False])
def test_data_that_is_asked_for_is_on_its_way_until_it_is_there(tmp_path: Path, told: bool) -> None:
    """And no command of the target's queue meanwhile. ``told``: when it was there; else it is as a
    worker begins to carry the command out."""
    random, target = Random(5), Target(clock=clock(86_400_000_000_000))
    initiator, to = Initiator(clock=clock(5_000_000)), Connection(target)
    writer = initiator.writer()
    initiator.write(writer, to, [Costs()])
    for number in range(60):
        costs = replace(drawn(random), r2t=number % 3 * random.randint(40_000, 200_000))
        initiator.write(writer, to, [costs], flush=number % 4 == 0)
    if not told:
        for event in target.world.builder._rows["nvmet_data"]:
            event["ready_ns"] = 0
    found = found_in(tmp_path, initiator, target)
    assert crossing(found) == ("nvme-tcp", 76, 76, 0)
    for mine, true in met(found, 200, writer):
        if not told and "target/network.r2t" in true:
            for account in (mine, true):
                account["target/network.r2t"] += account.pop("target/target.queue", 0)
        assert mine == true


@pytest.mark.parametrize("late", [False, True])
def test_of_data_that_is_asked_for_each_ones_part_is_told(tmp_path: Path, late: bool) -> None:
    """The target's until it asks, and the initiator's until it has sent; and so has what goes with
    a command its part that is the initiator's. ``late``: its sender returns when all is there."""
    random, target = Random(8), Target()
    initiator, to = Initiator(), Connection(target)
    writer, reach = initiator.writer(), -9_000 if late else 20_000
    for number in range(60):
        costs = Costs(submit=2_000, hands=random.randint(100, 60_000 if late else 40_000))
        if number % 3:
            asks, sends, others = (random.randint(30_000, 90_000) for _ in range(3))
            costs = replace(costs, r2t=asks + sends + others, asks=asks, sends=sends, reach=reach)
        initiator.write(writer, to, [costs], flush=number % 4 == 0)
    found = found_in(tmp_path, initiator, target)
    assert crossing(found) == ("nvme-tcp", 75, 75, 0)
    for mine, true in met(found, 200, writer):
        # When something is there the clocks' relation tells, which is not known to the last of ns.
        assert mine == pytest.approx(true, rel=0, abs=300 if late else 0)


@pytest.mark.parametrize("hands", [9_000, 45_000])
def test_a_sender_without_a_cpu_may_say_that_it_sent_after_the_answer(
    tmp_path: Path, hands: int
) -> None:
    """Once it has none it sends nothing: what goes with the command went before."""
    target, initiator = Target(), Initiator()
    to, writer = Connection(target), initiator.writer()
    for number in range(20):
        costs = Costs(submit=2_000, complete=60_000)
        if number % 2:
            costs = replace(costs, hands=hands, lost=True)
        initiator.write(writer, to, [costs])
    found = found_in(tmp_path, initiator, target)
    for mine, true in met(found, 200, writer):
        assert mine == true
        assert true.get("initiator/initiator.send", 0) in (0, hands)


@pytest.mark.parametrize("part", ["trails", "answers"])
def test_a_part_that_comes_later_is_told(tmp_path: Path, part: str) -> None:
    """Data behind its command is on its way, though a worker has read that by then; an answer is
    the target's until a worker sends it."""
    random, target = Random(6), Target(clock=clock(86_400_000_000_000))
    initiator, to = Initiator(clock=clock(5_000_000)), Connection(target)
    writer = initiator.writer()
    # As long to the target as from it, once: causality finds the very relation of the clocks.
    initiator.write(writer, to, [Costs()])
    for number in range(60):
        costs = drawn(random)
        setattr(costs, part, number % 3 * random.randint(40_000, 200_000))
        initiator.write(writer, to, [costs], flush=number % 4 == 0)
    found = found_in(tmp_path, initiator, target)
    assert crossing(found) == ("nvme-tcp", 76, 76, 0)
    for mine, true in met(found, 200, writer):
        assert mine == true


def test_a_connection_that_ends_takes_its_answers_with_it(tmp_path: Path) -> None:
    """The driver completes what it gives back: an answer that never came was not on its way."""
    target, initiator = Target(), Initiator()
    one, other, writer = Connection(target), Connection(target, 40_001), initiator.writer()
    # As long to the target as from it: causality finds the very relation of the clocks.
    costs = Costs(submit=2_000)
    for _ in range(5):
        initiator.write(writer, one, [costs])
    initiator.interrupted(writer, one, other, costs, 5_000_000, 3_000_000_000)
    for _ in range(5):
        initiator.write(writer, other, [costs])
    found = found_in(tmp_path, initiator, target)
    assert crossing(found) == ("nvme-tcp", 12, 12, 0)
    met_but_for_rounding(found, writer)


def test_a_path_that_fails_has_its_bios_taken_by_the_other(tmp_path: Path) -> None:
    """Its request ends without them: that is no answer, and what was awaited until then, nobody
    knows."""
    target, initiator = Target(), Initiator(head=True)
    one, other, writer = Connection(target), Connection(target, 40_001), initiator.writer()
    costs = Costs(submit=2_000)
    for _ in range(5):
        initiator.write(writer, one, [costs])
    initiator.failed_over(writer, one, (OTHER_PATH, other), costs, 5_000_000, 3_000_000)
    for _ in range(5):
        initiator.write(writer, other, [costs])
    found = found_in(tmp_path, initiator, target)
    assert crossing(found) == ("nvme-tcp", 12, 12, 0)
    assert found.quality.connections == (
        "initiator: 259:1 (a path of NVMe over TCP): 1 request not carried out, for "
        "another path: block.stacked until then",
    )
    met_but_for_rounding(found, writer)


@pytest.mark.parametrize("older", [False, True])
def test_a_flush_whose_path_fails_is_ended_as_if_it_had_been_done(
    tmp_path: Path, *, older: bool
) -> None:
    """It has no bio that another path could take. ``older``: a recording that does not tell which
    commands failed."""
    target, initiator = Target(), Initiator(head=True)
    one, writer = Connection(target), initiator.writer()
    costs = Costs(submit=2_000)
    for number in range(5):
        initiator.write(writer, one, [costs], flush=True, gone=5_000_000 * (number == 2))
    if older:
        initiator.world.builder.lacking["nvme_complete_rq"] = "failed"
    found = found_in(tmp_path, initiator, target)
    assert crossing(found) == ("nvme-tcp", 10, 9, 0)
    assert found.quality.unfollowed == 1
    assert found.quality.connections == (
        "initiator: 259:1 (a path of NVMe over TCP): 1 flush not carried out, and whoever waited "
        "was told that it was done",
    ) * (not older)
    met_but_for_rounding(found, writer)


def two(random: Random, *connections: Connection) -> tuple[list[Initiator], list[Writer]]:
    """Two initiators that write the same places at the same times, each to its own target.

    What one target serves would do for the other's initiator just as well.
    """
    initiators = [Initiator(f"initiator{number}") for number in range(2)]
    writers = [each.writer(200 + number) for number, each in enumerate(initiators)]
    for _ in range(120):
        now, costs = (
            max(writer.now for writer in writers) + random.randint(1_000, 90_000),
            drawn(random),
        )
        for number, each in enumerate(initiators):
            writers[number].now = now
            disk = replace(costs.disk, device=costs.disk.device + 300 * number)
            # One connection is one worker's at a time.
            each.write(writers[number], connections[number], [replace(costs, disk=disk)],
                       worker=WORKER + number)  # fmt: skip
    return initiators, writers


@pytest.mark.parametrize(
    "other",
    [{"host": 9}, {"controller": 2}, {"queue": 2}, {"port": 40_001}, {"ends": 78}],
    ids=lambda other: next(iter(other)),
)
@pytest.mark.parametrize("together", [False, True])
def test_what_two_number_alike_is_not_mixed(
    tmp_path: Path, other: dict[str, int], together: bool
) -> None:
    """They differ in one thing only. ``together``: both are served by one target."""
    one = Target("target0")
    targets = [one, one if together else Target("target1")]
    first = Connection(targets[0])
    initiators, writers = two(Random(3), first, replace(first, target=targets[1], **other))
    found = found_in(tmp_path, *initiators, *dict.fromkeys(targets))
    assert sum(each.followed for each in found.quality.crossings) == 240
    assert not any(each.ambiguous for each in found.quality.crossings)
    for writer in writers:
        for mine, true in met(found, writer.tid, writer):
            assert mine == true


def test_what_nothing_tells_apart_is_nobodys(tmp_path: Path) -> None:
    """A machine and its copy, each with a target of its own, alike in all that is told of them."""
    targets = [Target("target0"), Target("target1")]
    first = Connection(targets[0], ends=0)
    initiators, _ = two(Random(4), first, replace(first, target=targets[1]))
    found = found_in(tmp_path, *initiators, *targets)
    told = [(each.asked, each.followed, each.ambiguous) for each in found.quality.crossings]
    assert told == [(120, 0, 120)] * 2
    assert found.quality.unfollowed == len(found.writes)
    rows = {layer.name for layer in found.layers if layer.machine.startswith("target")}
    assert {row.partition("/")[2] for row in rows} == {"unfollowed"}


@pytest.mark.parametrize("point", ["nvmet_req_init", "nvmet_req_complete", "nvme_complete_rq"])
def test_what_was_lost_is_nobodys_and_no_others(tmp_path: Path, point: str) -> None:
    random, target = Random(5), Target()
    initiator, to = Initiator(), Connection(target)
    writer = initiator.writer()
    for number in range(200):
        lost = point if number % 20 == 7 else ""
        machine = initiator if point == "nvme_complete_rq" else target
        machine.world.deaf_to = lost
        initiator.write(writer, to, [drawn(random)])
    found = found_in(tmp_path, initiator, target)
    ours = crossing(found)
    assert ours[2] == 190
    for number, (mine, true) in enumerate(met(found, 200, writer)):
        if number % 20 != 7:
            assert mine == true
        else:
            assert not any(row.startswith("target/device") for row in mine)


def test_a_target_that_was_recorded_late_has_what_it_saw(tmp_path: Path) -> None:
    random, target = Random(6), Target()
    initiator, to = Initiator(), Connection(target)
    writer = initiator.writer()
    for number in range(60):
        target.world.deaf_to = "*" if number < 20 else ""
        initiator.write(writer, to, [drawn(random)])
    found = found_in(tmp_path, initiator, target)
    assert crossing(found)[2] == 40
    accounts_of = met(found, 200, writer)
    early = [mine for mine, true in accounts_of if mine != true]
    assert early == [mine for mine, _ in accounts_of[:20]]
    for mine in early:
        assert not any(row.startswith("target/device") for row in mine)


def test_without_the_target_it_is_one_row(tmp_path: Path) -> None:
    initiator, to = Initiator(), Connection(Target())
    writer = initiator.writer()
    for _ in range(5):
        initiator.write(writer, to, [Costs()])
    found = found_in(tmp_path, initiator)
    (mine,) = accounts(found).values()
    costs = Costs()
    assert all(
        (account["initiator.call"], account["initiator.submit"], account["initiator.complete"])
        == (costs.there + costs.served + costs.back, costs.submit, costs.complete)
        for account in mine
    )
    assert not any(row.startswith(("network", "device")) for account in mine for row in account)


def test_a_kernel_that_does_not_tell_when_it_sends(tmp_path: Path) -> None:
    initiator, to = Initiator(), Connection(Target())
    initiator.world.deaf_to = "nvme_tcp_send"
    writer = initiator.writer()
    initiator.write(writer, to, [Costs()])
    found = found_in(tmp_path, initiator)
    assert "network.there" in {gap.merged_into for gap in found.quality.not_observed}
    (mine,) = accounts(found).values()
    costs = Costs()
    assert "initiator.submit" not in mine[0]
    called = costs.submit + costs.there + costs.served + costs.back
    assert mine[0]["initiator.call"] == called


def test_a_kernel_that_does_not_tell_which_command_is_carried_out(tmp_path: Path) -> None:
    """The disk's time is in the target's row then, which is said."""
    target = Target()
    initiator, to = Initiator(), Connection(target)
    target.world.deaf_to = "nvmet_work"
    writer = initiator.writer()
    for _ in range(5):
        initiator.write(writer, to, [Costs()])
    found = found_in(tmp_path, initiator, target)
    costs = Costs()
    for mine in accounts(found)[200]:
        assert mine["target/target"] == costs.served - costs.waits // 2
        assert not any(row.startswith("target/device") for row in mine)
    (said,) = (gap for gap in found.quality.not_observed if gap.merged_into == "target")
    assert said.where == "what commands are carried out by on target"


class Exporter(Target):
    """Its namespace is a file, which another worker synchronises."""

    def _flush(self, queued: int, disk: Request, worker: int) -> None:
        world, done = self.world, queued + disk.queue + disk.device
        (key,) = {event["request_key"] for event in self.world.builder._rows["nvmet_req_init"][-1:]}
        world.emit("nvmet_work", queued, FLUSHER, request_key=key)
        world.emit("ext4_sync_file", done, FLUSHER, enter_ns=queued, inode=EXPORT,
                   dev=TARGET_DISK, request_key=0, result=0, datasync=1)  # fmt: skip
        world.emit("nvmet_work", done + 1, FLUSHER, request_key=0)


def test_a_file_is_synchronised_by_whoever_is_at_the_command(tmp_path: Path) -> None:
    target = Exporter()
    initiator, to = Initiator(), Connection(target)
    writer = initiator.writer()
    for _ in range(5):
        initiator.write(writer, to, [Costs()], flush=True)
    costs = Costs()
    for mine in accounts(found_in(tmp_path, initiator, target))[200]:
        assert mine["target/fs"] == costs.disk.queue + costs.disk.device
        assert mine["target/device.data"] == costs.disk.device
