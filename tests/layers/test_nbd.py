# SPDX-License-Identifier: Apache-2.0
"""A network block device with known truth: what was on the wire is told from its driver's time."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import pytest

from tests.stitch.test_truth import accounts, analysed, conserves
from tests.synthetic import O_DSYNC, Commit, Request, World, Writer, device

DISK = device(43, 0)
OTHER = device(8, 0)


@dataclass
class Wired(World):
    """Each request of the disk is sent ``send`` after its issue, answered ``reply`` before its end.

    ``deaf_to``: that point of all that are emitted is not seen. ``unread``: so long before that the
    answer is said to have come in; -1: that is not told.
    """

    send: int = 3_000
    reply: int = 2_000
    unread: int = -1
    issued: int = 0

    def emit(self, point: str, time_ns: int, tid: int, **fields: int | bytes) -> None:
        super().emit(point, time_ns, tid, **fields)
        if fields.get("dev") != DISK:
            return
        wire = {"request_key": fields.get("request_key", 0), "wire_key": 7, "dev": DISK}
        if point == "block_rq_issue":
            self.issued = time_ns
        if point == "block_rq_complete":
            super().emit("nbd_payload_sent", self.issued + self.send, 66, **wire)
            read = time_ns - self.reply
            ready = read - self.unread if self.unread >= 0 else 0
            super().emit("nbd_header_received", read, 67, ready_ns=ready, **wire)


def write(world: World, requests: list[Request], disk: int = DISK) -> dict[str, int]:
    writer = Writer(world, 200, disk, 1_000_000)
    writer.enter()
    for request in requests:
        writer.cpu(500)
        writer.data(request)
    writer.cpu(500)
    writer.leave("pwrite64", flags=O_DSYNC, result=8192, size=8192)
    writer.finish()
    return dict(writer.truth[0])


def on_the_wire(world: Wired, account: dict[str, int], row: str = "device.data") -> dict[str, int]:
    """The account with the device's time as the three stages of its requests."""
    device_ns = account.pop(row)
    account["initiator.submit"], account["initiator.complete"] = world.send, world.reply
    account["initiator.call"] = device_ns - world.send - world.reply
    return account


@pytest.mark.parametrize("seed", range(5))
def test_stages_are_found_where_they_were(seed: int) -> None:
    random = Random(seed)
    world = Wired(send=random.randint(1, 9_000), reply=random.randint(1, 9_000))
    request = Request(device=random.randint(20_000, 90_000))
    account = on_the_wire(world, write(world, [request]))
    found = analysed(world)
    conserves(found)
    assert accounts(found)[200] == [account]


def test_a_requests_pointer_that_is_used_again_is_another_request() -> None:
    world = Wired()
    account = write(world, [Request(device=40_000), Request(device=70_000)])
    account["device.data"] -= world.send + world.reply
    account = on_the_wire(world, account)
    account["initiator.submit"] *= 2
    account["initiator.complete"] *= 2
    assert accounts(analysed(world))[200] == [account]


@pytest.mark.parametrize(("unread", "late"), [(0, 0), (25_000, 25_000), (37_500, 0), (99_000, 0)])
def test_an_answer_that_waits_to_be_read_is_there(unread: int, late: int) -> None:
    """But not before what it answers was sent: what came then was something else."""
    world = Wired(unread=unread)
    account = on_the_wire(world, write(world, [Request(device=40_000)]))
    account["initiator.call"] -= late
    account["initiator.complete"] += late
    assert accounts(analysed(world))[200] == [account]


@pytest.mark.parametrize("deaf_to", ["nbd_payload_sent", "nbd_header_received"])
def test_what_was_not_seen_is_in_what_was_beside_it(deaf_to: str) -> None:
    """Of a request that was on the wire nothing is its device's."""
    world = Wired(deaf_to=deaf_to)
    account = on_the_wire(world, write(world, [Request(device=40_000)]))
    unseen = "initiator.submit" if deaf_to == "nbd_payload_sent" else "initiator.complete"
    account["initiator.call"] += account.pop(unseen)
    assert accounts(analysed(world))[200] == [account]


def test_other_disks_have_no_such_rows() -> None:
    world = Wired()
    account = write(world, [Request()], OTHER)
    assert accounts(analysed(world))[200] == [account]


def test_a_journal_on_such_a_disk_is_on_the_wire_as_well() -> None:
    world = Wired()
    writer = Writer(world, 200, DISK, 1_000_000)
    writer.enter()
    writer.cpu(500)
    commit = Commit(world, DISK, writer.now + 1_000, 5).run(900, 0, [Request(meta=True)])
    since = writer.now
    writer.wait_for(commit)
    writer.synced(since, commit)
    writer.cpu(500)
    writer.leave("fdatasync")
    writer.finish()
    account = on_the_wire(world, dict(writer.truth[0]), "device.journal")
    found = accounts(analysed(world))[200][0]
    assert {row: found.get(row) for row in account if row.startswith("initiator.")} == {
        row: ns for row, ns in account.items() if row.startswith("initiator.")
    }
    assert "device.journal" not in found
