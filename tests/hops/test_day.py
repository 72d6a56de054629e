# SPDX-License-Identifier: Apache-2.0
"""A day of rare writes, on machines whose clocks go apart by seconds: as right as a minute."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from random import Random

import pytest

from iostrata.analysis import analyse
from iostrata.recording import open_recording
from tests.chain import Chain, drawn
from tests.stitch.test_chain import only_thread, qualified, summed
from tests.stitch.test_truth import conserves
from tests.synthetic import clock

SECOND = 1_000_000_000
DAY_S = 86_400
EVERY_S = 240
ASKED_EVERY_S = 20
CLOCKS = (clock(5_000_000), clock(3_600 * SECOND, 20), clock(DAY_S * SECOND, -35))
MOST_BYTES = 100 << 20


def asked_for_their_clocks(recording: Path, random: Random) -> None:
    """By a machine of its own; there and back take 50 us at least."""
    own = clock(123_456_789_000, 3)
    for name, its in zip(("guest", "host", "server"), CLOCKS, strict=True):
        rows = ["sent_ns\tremote_ns\treceived_ns"]
        for number in range(DAY_S // ASKED_EVERY_S):
            sent = number * ASKED_EVERY_S * SECOND + random.randrange(SECOND)
            read = sent + 50_000 + int(random.expovariate(1 / 100_000))
            received = read + 50_000 + int(random.expovariate(1 / 100_000))
            rows.append(f"{own(sent)}\t{its(read)}\t{own(received)}")
        facts = recording / name / "facts"
        facts.mkdir(exist_ok=True)
        (facts / "exchange").write_text("\n".join([*rows, ""]))


def by_place(account: dict[str, int]) -> dict[str, int]:
    """What lies between guest and host is split by their clocks, to some us: as one."""
    whole = summed(account)
    edges = ("guest/block.Q2D", "guest/virtio.submit", "host/kvm.exit")
    whole["between"] = sum(whole.pop(row, 0) for row in edges)
    return whole


def test_a_day(tmp_path: Path) -> None:
    """The calls' numbers begin anew meanwhile, and guest and server are 3 s apart at its end."""
    random = Random(1)
    chain = Chain(CLOCKS, xid=(1 << 32) - 200)
    writer = chain.writer()
    for number in range(DAY_S // EVERY_S):
        if chain.xid == (1 << 32) - 1:
            chain.xid = -1
        at_s = number * EVERY_S + random.randrange(EVERY_S // 2)
        writer.now = max(writer.now, at_s * SECOND)
        sector = random.randint(1, 12) * 16
        chain.durable_write(writer, sector * 512, drawn(random, sector))
    asked_for_their_clocks(chain.recording(tmp_path), random)
    tracemalloc.start()
    try:
        found = analyse(open_recording(tmp_path))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    conserves(found)
    assert peak < MOST_BYTES
    assert (found.quality.unfollowed, found.quality.apart) == (0, ())
    for truth, rows in zip(map(qualified, writer.truth), only_thread(found), strict=True):
        assert by_place(rows) == pytest.approx(by_place(truth), abs=100)
