# SPDX-License-Identifier: Apache-2.0
"""Disks over wires whose target is the initiator's own machine, or has its disk over a wire
itself; and a volume on two of them. With known truth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.model import Breakdown, Op
from iostrata.recording import open_recording
from tests.reading import RAHEAD, Reader
from tests.stitch.test_chain import close
from tests.stitch.test_reads import served
from tests.stitch.test_truth import accounts, conserves
from tests.synthetic import Clock, clock, device
from tests.wires import (
    BACK,
    CACHED,
    COMPLETE,
    DISK,
    MISSED,
    PAGE,
    QUEUE,
    SUBMIT,
    THERE,
    Backend,
    Iscsi,
    Nbd,
    NvmeTcp,
    Tgt,
    Wire,
)

VOLUME = device(253, 0)
WIRES = [NvmeTcp, Iscsi, Nbd, Tgt]


def found_in(path: Path) -> Breakdown:
    found = analyse(open_recording(path), Op.READ)
    conserves(found)
    return found


def rows_of(account: Mapping[str, int], wires: list[Wire]) -> Counter[str]:
    """Whichever machine they are on; only the clocks' relation splits the way there from the way
    back."""
    rows: Counter[str] = Counter()
    ways = {way for wire in wires for way in wire.way}
    for row, ns in account.items():
        name = row.rpartition("/")[2]
        rows["way" if name in ways else name] += ns
    return rows


@pytest.mark.parametrize("kind", WIRES)
def test_a_target_on_the_initiators_own_machine(kind: type[Wire], tmp_path: Path) -> None:
    wire = kind()
    wire.served_by(wire.initiator)
    for number in range(12):
        place = number * 64 * PAGE
        wire.read(place, 4 * PAGE, MISSED, "device")
        wire.read(place + 4 * PAGE, 4 * PAGE, CACHED, "page cache")
    found = found_in(wire.recording(tmp_path, "initiator"))
    (crossing,) = found.quality.crossings
    assert (crossing.hop, crossing.asked, crossing.followed) == (wire.hop, 24, 24)
    assert crossing.bound_ns == 0
    mine = accounts(found)[wire.reader.tid]
    for account, true in zip(mine, wire.truth, strict=True):
        close(rows_of(account, [wire]), rows_of(true, [wire]))


def over(wire: Wire) -> Backend:
    """What a target's thread asks of a disk that it has by another wire itself, and does not sleep
    for."""

    def asked(thread: Reader, offset: int, size: int) -> None:
        world, queued = wire.initiator, thread.now
        issued = queued + QUEUE
        sent = issued + SUBMIT
        rq = world.pointer("rq", queued, queued + 10_000_000)
        at = {"dev": wire.disk, "sector": offset // 512, "size_bytes": size, "flags": RAHEAD}
        keys = {"request_key": rq, "bio_key": rq + 8}
        world.emit("block_bio_queue", queued, thread.tid, bio_key=rq + 8, kernel_thread=0, **at)
        world.emit("block_rq_issue", issued, thread.tid, **keys, **at)
        worker, wire.count = wire.thread(), wire.count + 1
        worker.account = Counter()
        answered = wire._serve(worker, sent + THERE, offset, size, DISK) + BACK
        complete = answered + COMPLETE
        wire._told(rq, sent, answered, complete)
        world.emit("block_rq_complete", complete, 0, **keys, **at)
        further = Counter({"network.there": THERE, "network.back": BACK}) + worker.account
        thread.account += Counter({f"further/{row}": ns for row, ns in further.items()})
        thread.account += Counter(
            {"block.Q2D": QUEUE, "initiator.submit": SUBMIT, "initiator.complete": COMPLETE}
        )
        thread.now = complete

    return Backend(asked, on_file=False)


@pytest.mark.parametrize(("upper", "lower"), [(Iscsi, NvmeTcp), (NvmeTcp, Iscsi)])
@pytest.mark.parametrize("third", [int, clock(9_000_000_000, 3)])
def test_a_target_that_has_its_disk_over_a_wire(
    upper: type[Wire], lower: type[Wire], third: Clock, tmp_path: Path
) -> None:
    near = upper((int, clock(5_000_000, -2)))
    far = lower((int, third))
    near.further, far.initiator = far.target, near.target
    near.target.builder.block(far.disk, far.name, transport=far.transport)
    for number in range(40):
        near.read(number * 64 * PAGE, 4 * PAGE, over(far), "further device")
    found = found_in(near.recording(tmp_path, "initiator target further"))
    assert [(one.hop, one.asked, one.followed) for one in found.quality.crossings] == [
        (near.hop, 40, 40), (far.hop, 40, 40)
    ]  # fmt: skip
    mine = accounts(found)[near.reader.tid]
    for account, true in zip(mine, near.truth, strict=True):
        close(rows_of(account, [near, far]), rows_of(true, [near, far]))
        held = true["target/further/device.read"]
        assert account["further/device.read"] == pytest.approx(held, abs=2)
    assert list(served(found)) == near.reader.served


class Second(Iscsi):
    disk, name, ends = device(8, 32), "sdc", 8


@pytest.mark.parametrize("of_requests", [False, True])
def test_a_volume_on_two_luns(of_requests: bool, tmp_path: Path) -> None:
    """LVM: each bio is handed on to one of two disks, of which each has its own target. They number
    their commands alike. ``of_requests``: multipath."""
    first, second = Iscsi(), Second()
    first.further, second.initiator, second.reader = second.target, first.initiator, first.reader
    world = first.initiator
    world.builder.block(second.disk, second.name, transport="iscsi")
    world.builder.block(VOLUME, "dm-0", lower_keys=(first.disk, second.disk))
    first.reader.disk = VOLUME
    wires = (first, second)
    for number in range(24):
        wire = wires[number % 2]
        wire.volume, wire.of_requests = VOLUME, of_requests
        wire.read(number * 64 * PAGE, 4 * PAGE, DISK, f"{['target', 'further'][number % 2]} device")
    found = found_in(first.recording(tmp_path, "initiator target further"))
    assert [(one.hop, one.asked, one.followed) for one in found.quality.crossings] == [
        (first.hop, 12, 12), (first.hop, 12, 12)
    ]  # fmt: skip
    for number, account in enumerate(accounts(found)[first.reader.tid]):
        machine, true = ["target", "further"][number % 2], wires[number % 2].truth[number // 2]
        assert {row.partition("/")[0] for row in account} == {"initiator", machine}
        mine, own = rows_of(account, [first]), rows_of(true, [first])
        if of_requests:
            # Its own request is issued before the clone is.
            own += Counter({"block.stacked": QUEUE, "block.Q2D": 200})
            own -= Counter({"block.Q2D": QUEUE, "syscall": 200})
        close(mine, own)
    assert list(served(found)) == first.reader.served
