# SPDX-License-Identifier: Apache-2.0
"""Disks of Ceph with known truth: each operation is its own OSD's, and waits for the slowest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from iostrata.hops.ceph.serves import serves_of
from iostrata.model import Breakdown, LeftOver, Op
from iostrata.trace.read import read_trace
from tests.cluster import Client, Copy, Costs, Machine, Osd, Part, account, found_in
from tests.stitch.test_truth import accounts
from tests.synthetic import Request, World, clock


def far(random: Random) -> int:
    """Farther than the relation of clocks is wrong where the way there takes longer than back."""
    return random.randint(40_000, 90_000)


def drawn(random: Random) -> Costs:
    def some(upto: int) -> int:
        return random.randint(100, upto)

    data = Request(queue=some(900), scheduler=None, device=some(400_000), sector=some(999))
    log = Request(queue=some(900), scheduler=None, device=some(400_000), size=4096,
                  sector=some(999) + 9_000)  # fmt: skip
    return Costs(
        some(90_000), some(90_000), 1_000 + some(9_000), random.choice([data, None]), some(9_000),
        some(9_000), some(9_000), some(9_000), log, some(9_000), some(9_000), some(9_000),
        some(9_000), some(9_000), some(90_000), turn=some(900),
    )  # fmt: skip


def check(found: Breakdown, client: Client) -> None:
    mine = accounts(found)[client.writer.tid]
    for rows, true in zip(mine, client.writer.truth, strict=True):
        assert account(rows) == account(true)


@pytest.mark.parametrize("told", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_every_row_of_one_osd_is_met(tmp_path: Path, seed: int, *, told: bool) -> None:
    """``told``: when the client's messenger comes to a message, and when an answer was there."""
    random, machine, client = Random(seed), Machine("a"), Client(told=told)
    osd = Osd(machine, 0)
    for _ in range(60):
        turn, reads, way = random.randint(0, 90_000), random.randint(0, 90_000), far(random)
        part = Part(osd, drawn(random), way=way, turn=turn, hands=way // 3, reads=reads)
        client.write(part)
    found = found_in(tmp_path, client, machine)
    (crossing,) = found.quality.crossings
    assert (crossing.hop, crossing.asked, crossing.followed) == ("ceph", 60, 60)
    check(found, client)


@pytest.mark.parametrize("seed", range(3))
def test_the_slowest_of_three_is_what_is_waited_for(tmp_path: Path, seed: int) -> None:
    """Its rows are the write's, be it the primary itself or another."""
    random, client = Random(seed), Client()
    machines = [Machine(name) for name in "abc"]
    osds = [Osd(machine, number) for number, machine in enumerate(machines)]
    for _ in range(80):
        primary, *others = random.sample(osds, 3)
        copies = [Copy(osd, drawn(random), far(random)) for osd in others]
        client.write(Part(primary, drawn(random), copies))
    check(found_in(tmp_path, client, *machines), client)


def test_a_message_for_a_copy_that_waits_is_the_first_osds(tmp_path: Path) -> None:
    """Its turn comes late at the messenger, while another copy and the own store are at work."""
    random, client = Random(12), Client()
    machines = [Machine(name) for name in "abc"]
    osds = [Osd(machine, number) for number, machine in enumerate(machines)]
    for _ in range(40):
        late = Copy(osds[2], drawn(random), far(random), turn=random.randint(200_000, 7_000_000))
        copies = random.sample([Copy(osds[1], drawn(random), far(random)), late], 2)
        client.write(Part(osds[0], replace(drawn(random), data=None), copies))
    found = found_in(tmp_path, client, *machines)
    check(found, client)
    # The other copy was made meanwhile.
    assert found.quality.hidden["b"] > 0


def test_each_machine_has_a_clock_of_its_own(tmp_path: Path) -> None:
    """As long there as back everywhere, so that causality finds the very relation of the clocks."""
    random, client = Random(9), Client(clock(86_400_000_000_000))
    machines = [Machine(name, clock(n * 3_600_000_000_000)) for n, name in enumerate("abc")]
    osds = [Osd(machine, number) for number, machine in enumerate(machines)]
    client.write(Part(osds[0], Costs(), [Copy(osds[1], Costs(), 100), Copy(osds[2], Costs(), 100)]))
    for _ in range(60):
        primary, *others = random.sample(osds, 3)
        copies = [Copy(osd, drawn(random), far(random)) for osd in others]
        client.write(Part(primary, drawn(random), copies, way=far(random)))
    found = found_in(tmp_path, client, *machines)
    assert all(each.followed == each.asked for each in found.quality.crossings)
    assert all(sum(rows.values()) for rows in accounts(found)[200])


@pytest.mark.parametrize("seed", range(3))
def test_a_write_to_several_objects_waits_for_the_last(tmp_path: Path, seed: int) -> None:
    random, client = Random(seed), Client()
    machines = [Machine(name) for name in "ab"]
    osds = [Osd(machine, number) for number, machine in enumerate(machines)]
    for _ in range(50):
        parts = [Part(osd, drawn(random), way=far(random)) for osd in osds]
        client.write(*random.sample(parts, random.randint(1, 2)))
    check(found_in(tmp_path, client, *machines), client)


def test_until_an_osd_was_started_anew_nothing_is_known(tmp_path: Path) -> None:
    """It is neither on its way, nor is any of it another OSD's."""
    random, client, machine = Random(8), Client(), Machine("a")
    osd, other = Osd(machine, 0), Osd(machine, 1)
    for number in range(20):
        client.write(Part((osd, other)[number % 2], drawn(random), way=far(random)))
    again = Osd(machine, 0, anew=True)
    client.write(Part(again, drawn(random), before=(osd, 30_000_000)))
    for number in range(20):
        client.write(Part((again, other)[number % 2], drawn(random), way=far(random)))
    found = found_in(tmp_path, client, machine)
    rows, true = (each[20] for each in (accounts(found)[200], client.writer.truth))
    assert "a/network.there" not in rows
    way = true["a/unfollowed"] + true["a/network.there"] + true["a/network.back"]
    assert rows.pop("a/unfollowed") + rows["a/network.back"] == way
    others = zip(accounts(found)[200], client.writer.truth, strict=True)
    assert {account(mine) == account(truth) for mine, truth in others if truth is not true} == {
        True
    }
    (line,) = (each for each in found.quality.not_observed if each.layer == "osd.0")
    assert (line.machines, line.merged_into) == (("a",), "unfollowed")
    assert found.quality.unfollowed == 1


def test_until_another_osd_has_what_one_did_not_answer_nothing_is_known(tmp_path: Path) -> None:
    random, client = Random(8), Client()
    machines = [Machine(name) for name in "ab"]
    osds = [Osd(machine, number) for number, machine in enumerate(machines)]
    for number in range(20):
        client.write(Part(osds[number % 2], drawn(random), way=far(random)))
    client.write(Part(osds[1], drawn(random), before=(osds[0], 30_000_000)))
    for _ in range(20):
        client.write(Part(osds[1], drawn(random), way=far(random)))
    found = found_in(tmp_path, client, *machines)
    rows, true = accounts(found)[200][20], client.writer.truth[20]
    assert "b/network.there" not in rows
    way = true["b/unfollowed"] + true["b/network.there"] + true["b/network.back"]
    assert rows["b/unfollowed"] + rows["b/network.back"] == way
    (line,) = (each for each in found.quality.not_observed if each.layer == "osd.1")
    assert (line.machines, line.merged_into) == (("b",), "unfollowed")
    assert found.quality.unfollowed == 1


def test_an_osd_that_was_stopped_is_told_of(tmp_path: Path) -> None:
    """By a signal: nobody is woken for what comes meanwhile, and so that is the network's."""
    random, client, machine = Random(7), Client(), Machine("b")
    osd = Osd(machine, 2)
    for number in range(4):
        if number == 2:
            begin = client.writer.now
            machine.world.emit("sched_resume", begin + 2_500_000, osd.worker, off_ns=begin,
                               wake_ns=begin + 2_400_000, waker_tid=1, state=0x104,
                               subject_tid=osd.worker)  # fmt: skip
        client.write(Part(osd, drawn(random)))
    told = list(found_in(tmp_path, client, machine).quality.connections)
    assert told == [
        f"b: ceph-osd ({osd.tgid}) was stopped for 2.40 ms: what of that is in writes is in the "
        "way to it, or back, or in the row of what it was at"
    ]


@pytest.mark.parametrize(("threads", "lasted_ms"), [(3, 200), (1, 200), (3, 20)])
def test_an_osd_that_was_frozen_is_told_of(tmp_path: Path, threads: int, lasted_ms: int) -> None:
    """All that read what comes stood still; one that waits for a lock, or all for a short while, is
    none such."""
    random, client, machine = Random(7), Client(), Machine("b")
    osd, frozen = Osd(machine, 2), 0x2001
    readers = (osd.reader, osd.worker, osd.kv)
    for number in range(6):
        begin = client.writer.now
        if number == 3:
            for tid in readers[:threads]:
                end = begin + lasted_ms * 1_000_000
                machine.world.emit("sched_resume", end, tid, off_ns=begin, wake_ns=end - 1,
                                   waker_tid=1, state=frozen, subject_tid=tid)  # fmt: skip
            client.writer.now = end
        client.write(Part(osd, drawn(random)))
    for tid in readers[1:]:
        machine.world.emit("osd_message", client.writer.now, tid, op_key=9, number=1, peer=0,
                           type=9, peer_kind=1, message_key=0, tgid=osd.tgid,
                           osd_number=2)  # fmt: skip
    told = list(found_in(tmp_path, client, machine).quality.connections)
    assert told == [
        f"b: ceph-osd ({osd.tgid}) was frozen (cgroup.freeze) for 200 ms: what of that is in "
        "writes is in the way to it, or back, or in the row of what it was at"
    ] * (threads > 1 and lasted_ms > 100)


def test_operations_that_an_osd_lets_wait_are_counted(tmp_path: Path) -> None:
    """Its messenger was at them before: what it let wait is in the way, which is so far said."""
    random, client, machines = Random(8), Client(), [Machine(name) for name in "ab"]
    osds = [Osd(machine, number) for number, machine in enumerate(machines, start=1)]
    for number in range(12):
        costs = replace(drawn(random), early=0, kept=0, timed=number in (2, 3, 7))
        client.write(Part(osds[number % 4 == 3], costs))
    quality = found_in(tmp_path, client, *machines).quality
    limit = (
        "read when a timer was over, as its messenger takes no more than so many at once "
        "(osd_client_message_cap, or another throttle)"
    )
    told = [gap for gap in quality.not_observed if "osd" in gap.layer]
    assert [(gap.where, gap.reason, gap.merged_into) for gap in told] == [
        ("osd.1 on a", f"1 operation was {limit}", "network.there"),
        ("osd.2 on b", f"2 operations were {limit}", "network.there"),
    ]  # fmt: skip


@pytest.mark.parametrize("copied", [False, True])
def test_who_does_the_next_step_may_lack_its_cpu(tmp_path: Path, *, copied: bool) -> None:
    """By a quota, or as others have it: of an OSD that others wait for as well."""
    random, client = Random(9), Client()
    first, other = Osd(Machine("a"), 0), Osd(Machine("b"), 1)
    for _ in range(20):
        costs = replace(drawn(random), quota=random.randint(500, 900_000), crowd=700_000)
        copies = [Copy(other, costs, far(random))] if copied else []
        mine = replace(drawn(random), data=None) if copied else costs
        client.write(Part(first, mine, copies))
    machines = [first.machine, other.machine][: 1 + copied]
    check(found_in(tmp_path, client, *machines), client)


def test_what_a_limit_holds_back_of_a_store_is_the_limits(tmp_path: Path) -> None:
    """Who hands it on did not ask for it: of a disk, a request's place tells who did."""
    random, client, machine = Random(9), Client(), Machine("a")
    osd = Osd(machine, 0)
    for _ in range(20):
        held = tuple(random.choice((0, random.randint(100_000, 90_000_000))) for _ in range(2))
        costs = drawn(random)
        client.write(Part(osd, replace(costs, held=(held[0] * (costs.data is not None), held[1]))))
    check(found_in(tmp_path, client, machine), client)


def test_what_others_have_parts_of_is_theirs(tmp_path: Path) -> None:
    """With erasure coding: as long as the OSD's own store is not at it, too."""
    random, client, machine = Random(9), Client(), Machine("a")
    osd = Osd(machine, 4)
    for number in range(20):
        shards = random.randint(100_000, 90_000_000) * (number % 4 > 0)
        client.write(Part(osd, replace(drawn(random), shards=shards)))
    found = found_in(tmp_path, client, machine)
    check(found, client)
    (line,) = (each for each in found.quality.not_observed if each.layer == "osd.4")
    assert line.reason == (
        "15 operations waited for parts of other OSDs (a pool with erasure coding), which is not "
        "followed"
    )
    assert (line.merged_into, found.quality.unfollowed) == ("osd.replicas", 15)


def test_what_is_handed_on_is_not_followed(tmp_path: Path) -> None:
    """By an OSD of a cache tier; to others' OSDs, that have nothing to do with the writes."""
    random, client, machine = Random(9), Client(), Machine("a")
    osd, other = Osd(machine, 4), Osd(machine, 5)
    for number in range(20):
        handed = random.randint(100_000, 90_000_000)
        costs = replace(drawn(random), handed=handed, looks=True, error=True)
        client.write(Part(osd, costs) if number % 4 else Part(other, drawn(random)))
    found = found_in(tmp_path, client, machine)
    check(found, client)
    (line,) = (each for each in found.quality.not_observed if each.layer.startswith("osd."))
    assert (line.layer, line.reason) == (
        "osd.4", "15 operations were handed on to other OSDs (a cache tier), which is not followed"
    )  # fmt: skip
    assert (line.merged_into, found.quality.unfollowed) == ("osd.replicas", 15)


def test_what_is_put_aside_waits_for_no_cpu(tmp_path: Path) -> None:
    """Until its placement group is there: the thread that put it aside is at others, or has no CPU
    for these."""
    random, client, machine = Random(9), Client(), Machine("a")
    osd = Osd(machine, 0)
    for number in range(12):
        aside = random.randint(300_000, 900_000) if number % 3 == 1 else 0
        client.write(Part(osd, replace(drawn(random), aside=aside)))
    check(found_in(tmp_path, client, machine), client)


def test_what_is_written_to_its_place_later_is_no_writes(tmp_path: Path) -> None:
    """Small data goes with the log; it is on its way to its place while the next write waits."""
    random, client, machine = Random(7), Client(), Machine("a")
    osd, late = Osd(machine, 0), Request(scheduler=None, device=700_000, sector=77)
    for _ in range(30):
        client.write(Part(osd, replace(drawn(random), data=None, deferred=late), way=far(random)))
    found = found_in(tmp_path, client, machine)
    check(found, client)
    rows = {name for each in accounts(found)[client.writer.tid] for name in each}
    assert "a/device.data" not in rows
    assert found.quality.background == (LeftOver("a", "request", "sda", 30, 30 * 700_000),)


def test_osds_of_one_machine_are_told_apart(tmp_path: Path) -> None:
    """Both have a copy of each, by one number: one is slower than the other, at the same time."""
    random, client = Random(4), Client()
    primary, others = Machine("a"), Machine("b")
    first = Osd(primary, 0)
    slow, quick = Osd(others, 1), Osd(others, 2)
    for _ in range(40):
        data = Request(scheduler=None, device=random.randint(300_000, 400_000))
        copies = [Copy(slow, Costs(data=data), 40_000), Copy(quick, Costs(data=None), 30_000)]
        client.write(Part(first, drawn(random), copies))
    found = found_in(tmp_path, client, primary, others)
    asked = {(each.upper, each.lower): each for each in found.quality.crossings}
    assert asked["a", "b"].followed == asked["a", "b"].asked == 80
    check(found, client)


def test_what_is_not_recorded_is_in_one_row(tmp_path: Path) -> None:
    """The slowest copy is made by an OSD that nobody recorded."""
    random, client = Random(6), Client()
    primary, other, unseen = Machine("a"), Machine("b"), Machine("c")
    osd, near, far = Osd(primary, 0), Osd(other, 1), Osd(unseen, 2)
    slow = Costs(data=Request(scheduler=None, device=900_000))
    for _ in range(30):
        copies = [Copy(near, drawn(random), 9_000), Copy(far, slow, 90_000)]
        client.write(Part(osd, drawn(random), copies))
    found = found_in(tmp_path, client, primary, other)
    mine = accounts(found)[client.writer.tid]
    for rows, true in zip(mine, client.writer.truth, strict=True):
        away = sum(ns for row, ns in true.items() if row.startswith("c/"))
        assert account(rows)["a/osd.replicas"] == away
        assert not any(row.startswith("c/") for row in rows)
    asked = {(each.upper, each.lower): each for each in found.quality.crossings}
    assert asked["a", "b"].followed == 30
    (line,) = (each for each in found.quality.not_observed if "osd.2" in each.layer)
    assert line.merged_into == "osd.replicas"


def test_whose_copies_alone_are_not_recorded_is_told_too(tmp_path: Path) -> None:
    """The only OSD that was asks for these of nobody that was."""
    random, client = Random(5), Client()
    primary, unseen = Machine("a"), Machine("c")
    osd, far = Osd(primary, 0), Osd(unseen, 2)
    slow = Costs(data=Request(scheduler=None, device=900_000))
    for _ in range(12):
        client.write(Part(osd, drawn(random), [Copy(far, slow, 90_000)]))
    found = found_in(tmp_path, client, primary)
    told = [each for each in found.quality.not_observed if "osd." in each.layer]
    assert [(each.where, each.merged_into) for each in told] == [("osd.2 on a", "osd.replicas")]


def test_what_no_write_waited_for_is_not_told(tmp_path: Path) -> None:
    """A copy of an operation of somebody else's, which was made before it was recorded."""
    random, client = Random(5), Client()
    primary, unseen = Machine("a"), Machine("c")
    osd, far, other = Osd(primary, 0), Osd(unseen, 2), Client(number=99)
    other.write(Part(osd, drawn(random), [Copy(far, Costs(data=None), 30_000)]))
    client.writer.now = other.writer.now + 50_000
    for _ in range(12):
        client.write(Part(osd, drawn(random)))
    found = found_in(tmp_path, client, primary)
    assert not any("osd." in each.layer for each in found.quality.not_observed)


def test_an_osd_that_does_not_say_which_it_is(tmp_path: Path) -> None:
    """Older kernels do not tell the recorder's programs: the only one that there is, is meant."""
    random, client, machine = Random(6), Client(), Machine("a")
    osd = Osd(machine, 3, known=False)
    for _ in range(30):
        client.write(Part(osd, drawn(random)))
    check(found_in(tmp_path, client, machine), client)


def test_without_the_osds_it_is_the_disks_call(tmp_path: Path) -> None:
    random, client, machine = Random(2), Client(), Machine("a")
    osd = Osd(machine, 0)
    for _ in range(20):
        client.write(Part(osd, drawn(random)))
    found = found_in(tmp_path, client)
    for rows, true in zip(accounts(found)[200], client.writer.truth, strict=True):
        beyond = sum(ns for row, ns in true.items() if row.startswith("a/"))
        assert rows["initiator.call"] == beyond
    assert not found.quality.virtual


def test_reads_are_not_followed_and_said_not_to_be(tmp_path: Path) -> None:
    random, client, machine = Random(4), Client(), Machine("a")
    osd = Osd(machine, 0)
    for world in (client.world, machine.world):
        world.builder.env["reads"] = 1
    for number in range(12):
        client.write(Part(osd, drawn(random)))
        if number % 2:
            client.read(osd)
    quality = found_in(tmp_path, client, machine, op=Op.DIRECT).quality
    assert quality.unfollowed == 6
    (gap,) = (gap for gap in quality.not_observed if gap.layer == "ceph")
    assert (gap.reason, gap.merged_into) == (
        "what client reads by it is not followed", "initiator.call"
    )  # fmt: skip
    assert found_in(tmp_path, client, machine).quality.unfollowed == 0


def test_osds_alone_tell_what_they_did(tmp_path: Path) -> None:
    """Operations for clients that nobody recorded are the writes then, if they write anything."""
    random, client = Random(3), Client()
    machines = [Machine(name) for name in "ab"]
    osds = [Osd(machine, number) for number, machine in enumerate(machines)]
    costs = [drawn(random) for _ in range(30)]
    for each in costs:
        client.write(Part(osds[0], each, [Copy(osds[1], Costs(data=None), 200)]))
        client.write(Part(osds[0], replace(each, looks=True)))
    found = found_in(tmp_path, *machines)
    served = [rows for each in accounts(found).values() for rows in each]
    assert len(served) == 30


def test_of_osds_that_serve_one_another_only_what_a_client_asked_is_a_write(tmp_path: Path) -> None:
    random, client = Random(3), Client()
    machine = Machine("a")
    osds = [Osd(machine, number) for number in range(3)]
    for number in range(30):
        primary, *others = [osds[(number + each) % 3] for each in range(3)]
        copies = [Copy(osd, drawn(random), 9_000) for osd in others]
        client.write(Part(primary, drawn(random), copies))
    found = found_in(tmp_path, machine)
    assert len(found.writes) == 30
    (crossing,) = found.quality.crossings
    assert (crossing.asked, crossing.followed) == (60, 60)


def test_one_that_ends_without_an_answer_is_left_out(tmp_path: Path) -> None:
    """An OSD is restarted: another process, with the same number, goes on."""
    random, client, machine = Random(8), Client(), Machine("a")
    before = Osd(machine, 0)
    for _ in range(10):
        client.write(Part(before, drawn(random)))
    machine.world.deaf_to = "osd_reply osd_written"
    client.write(Part(before, drawn(random)))
    machine.world.deaf_to = ""
    after = Osd(machine, 0)
    after.tgid += 7_000
    after.reader, after.worker, after.kv, after.final = range(after.tgid, after.tgid + 4)
    after.kv_since = client.writer.now
    for tid in range(after.tgid, after.tgid + 4):
        machine.world.emit("thread", client.writer.now, tid, tgid=after.tgid, subject_tid=tid,
                           comm=b"ceph-osd", kind=5)  # fmt: skip
    for _ in range(10):
        client.write(Part(after, drawn(random)))
    found = found_in(tmp_path, client, machine)
    (crossing,) = found.quality.crossings
    assert (crossing.asked, crossing.followed) == (21, 20)
    for number, (rows, true) in enumerate(
        zip(accounts(found)[200], client.writer.truth, strict=True)
    ):
        mine, truth = account(rows), account(true)
        if number == 11:
            # It may have been sent again, as far as anybody knows.
            assert mine["a/unfollowed"] > 0
            mine["a/way"] += mine.pop("a/unfollowed")
        if number == 10:
            assert mine["a/unfollowed"] > 0
        else:
            assert mine == truth


def test_a_message_that_nobody_was_woken_for_is_there_once_read(tmp_path: Path) -> None:
    """Its reader was at another one."""
    random, client, machine = Random(5), Client(), Machine("a")
    osd, drew = Osd(machine, 0), []
    client.write(Part(osd, Costs(), way=100))
    for _ in range(30):
        drew.append(replace(drawn(random), early=None))
        client.write(Part(osd, drew[-1], way=far(random)))
    found = accounts(found_in(tmp_path, client, machine))[client.writer.tid]
    for rows, true, costs in zip(found[1:], client.writer.truth[1:], drew, strict=True):
        assert rows["a/osd.queue"] == costs.queue
        assert account(rows)["a/way"] == account(true)["a/way"] + costs.woken


@pytest.mark.parametrize(
    ("kept", "between", "there"),
    [
        (9_000_000, 0, 9_000_000),
        (9_000_000, 2_000_000, 9_000_000),
        (9_000_000, 8_000_000, 500_000),
        (20_000, 0, None),
    ],
)
def test_a_message_is_there_while_its_reader_mostly_lacks_its_cpu(
    tmp_path: Path, kept: int, between: int, there: int | None
) -> None:
    """Amid other work, so that nobody was woken for it; else it is there once read. What it then
    has its CPU for is the queue's."""
    random, client, machine = Random(5), Client(), Machine("a")
    osd, drew = Osd(machine, 0), []
    for _ in range(30):
        # By these the relation of the clocks is known.
        client.write(Part(osd, Costs(), way=100))
        costs = replace(drawn(random), early=None, kept=kept, between=between)
        drew.append(replace(costs, reads=random.randint(30_000, 90_000)))
        client.write(Part(osd, drew[-1], way=far(random)))
    found = accounts(found_in(tmp_path, client, machine))[client.writer.tid]
    for rows, true, costs in zip(found[1::2], client.writer.truth[1::2], drew, strict=True):
        known = 0 if there is None else there + costs.reads
        lacked = 0 if there is None else there - between if there == kept else there
        assert rows["a/osd.queue"] == costs.queue + known - lacked
        way = account(true)["a/way"] - between - costs.reads
        assert account(rows)["a/way"] == way + costs.woken + kept + costs.reads - known


def test_an_answer_for_a_copy_is_there_since_its_reader_was_woken(tmp_path: Path) -> None:
    """What the first OSD's messenger then takes to read it is that OSD's."""
    random, client = Random(6), Client()
    osds = [Osd(Machine(name), number) for number, name in enumerate("ab")]
    for _ in range(30):
        costs, woken = drawn(random), random.randint(100, 900_000)
        copy = Copy(osds[1], costs, far(random), woken=woken, reads=random.randint(100, 9_000))
        client.write(Part(osds[0], replace(drawn(random), data=None), [copy]))
    check(found_in(tmp_path, client, *(osd.machine for osd in osds)), client)


@pytest.mark.parametrize("state", [0, 2])
def test_a_message_whose_reader_has_no_cpu_is_there(tmp_path: Path, state: int) -> None:
    """It was woken for it, and then preempted, or has a page of its own to wait for."""
    random, client, machine = Random(5), Client(), Machine("a")
    osd = Osd(machine, 0)
    for _ in range(30):
        client.write(Part(osd, replace(drawn(random), kept=80_000, state=state), way=90_000))
    check(found_in(tmp_path, client, machine), client)


def test_a_message_that_came_while_another_was_read_is_there_once_read(tmp_path: Path) -> None:
    """Sent before the reader was woken for the other."""
    client, machine = Client(), Machine("a")
    osd, later = Osd(machine, 0), Costs(early=None, queue=5_000_000)
    for _ in range(20):
        client.write(Part(osd, Costs(), way=50_000), Part(osd, later, way=70_000))
    for rows in accounts(found_in(tmp_path, client, machine))[client.writer.tid]:
        assert rows["a/osd.queue"] == later.queue


def test_an_answer_is_sent_when_its_turn_comes(tmp_path: Path) -> None:
    """Two clients' operations have one number: whose answer is sent is not known at all times."""
    world = World()
    told = {"tgid": 900, "osd_number": 0, "number": 77, "message_key": 5}
    when = {
        1: (10, 100, 200),
        2: (20, 110, 210),
        3: (1_010, 1_100, 1_200),
        4: (1_300, 1_400, 1_500),
    }
    for client, (there, answered, sent) in when.items():
        world.emit(
            "osd_message", there, 901, op_key=client, peer=client, type=42, peer_kind=8, **told
        )
        world.emit("osd_reply", answered, 902, op_key=client, size_bytes=4096)
        world.emit("osd_written", sent, 901, op_key=0, peer=0, type=43, peer_kind=0, **told)
    world.builder.write(tmp_path)
    serves, pieces = serves_of(read_trace(tmp_path))
    assert serves.end_ns.tolist() == pieces.end_ns.tolist() == [100, 110, 1_200, 1_500]
