# SPDX-License-Identifier: Apache-2.0
"""Images that keep a guest's blocks elsewhere: what was not followed is said, never mixed up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.attribute import summarise
from iostrata.model import Breakdown
from iostrata.recording import open_recording
from iostrata.report import table
from tests.chain import GUEST_DISK, Costs
from tests.images import HOST_DISK, Local
from tests.stitch.test_truth import accounts, conserves
from tests.synthetic import Request, Writer, device

BLOCK = 8192
SECOND_DISK = device(253, 33)
FIRST = 5 * BLOCK
"""Header, tables and counts of references come first in a file of such a format."""
DEEP, ROUNDS = 8, 12
LATE = Costs(vmm=620_000, client=3_000, disk=Request(device=60_000, scheduler=None),
             complete=40_000, inject=9_000, interrupt=2_000)  # fmt: skip
"""Where many wait, each waits long until the monitor takes it up."""


def deep(chain: Local, disk: int = GUEST_DISK, first: int = 0) -> list[Writer]:
    """A disk that is written to block after block, with ``DEEP`` requests under way."""
    tids = [400 + disk % 16 + 4 * number for number in range(DEEP)]
    writers = [Writer(chain.guest, tid, disk, 0) for tid in tids]
    for number in range(ROUNDS * DEEP):
        writer = writers[number % DEEP]
        writer.now = 1_000_000 + number * 100_000 + number * number % 997
        request = replace(LATE.disk, device=60_000 + 100 * number)
        chain.durable_write(writer, first + number * BLOCK, replace(LATE, disk=request))
    return writers


def found(chain: Local, path: Path) -> Breakdown:
    breakdown = analyse(open_recording(chain.recording(path, "guest host")))
    conserves(breakdown)
    return breakdown


def test_many_at_once_to_a_raw_image(tmp_path: Path) -> None:
    """Each has its own: they take different times."""
    chain = Local()
    writers = deep(chain)
    breakdown = found(chain, tmp_path)
    (virtio,) = breakdown.quality.crossings
    assert (virtio.followed, virtio.asked) == (DEEP * ROUNDS, DEEP * ROUNDS)
    mine = accounts(breakdown)
    for writer in writers:
        held = [account["host/device.data"] for account in mine[writer.tid]]
        assert held == pytest.approx([true["host/device.data"] for true in writer.truth], abs=9)


def test_what_another_block_was_written_for_is_not_taken_for_it(tmp_path: Path) -> None:
    """Five blocks further on in the file is where another request of the guest's wants to go."""
    chain = Local(placed=lambda offset: offset + FIRST)
    chain.host.builder.image(HOST_DISK, chain.image, "qcow2")
    deep(chain)
    breakdown = found(chain, tmp_path)
    assert breakdown.quality.crossings == ()
    (apart,) = breakdown.quality.apart
    assert apart == "host: where in it an image of qcow2 keeps what a guest writes is not known"
    assert not any(layer.machine == "host" for layer in breakdown.layers)


def test_a_disk_beside_a_raw_one(tmp_path: Path) -> None:
    """One is followed; of the other, nothing that the host saw is said to be it."""
    raw = Local()
    other = Local(beside=raw, vm=1, placed=lambda offset: offset + FIRST)
    other.guest = raw.guest
    raw.guest.builder.block(SECOND_DISK, "vdc")
    raw.host.builder.image(HOST_DISK, other.image, "qcow2")
    deep(raw)
    deep(other, SECOND_DISK, 1 << 30)
    breakdown = found(raw, tmp_path)
    (virtio,) = breakdown.quality.crossings
    assert (virtio.followed, virtio.asked) == (DEEP * ROUNDS, DEEP * ROUNDS)
    assert virtio.bypassed == ("vdc",)
    printed = " ".join(table.plain(summarise(breakdown)).split())
    assert "nothing that host saw is known to be what vdc was asked; it is not followed" in printed
