# SPDX-License-Identifier: Apache-2.0
"""Small recordings of much: a chain of machines, clients of a server, one machine's real ones."""

from __future__ import annotations

from pathlib import Path
from random import Random

import tests
from tests.chain import APART, Chain, drawn
from tests.fuzz.mutate import Files, files_of
from tests.network import Call, Disk, Machine, recorded

RECORDINGS = Path(tests.__file__).parent / "recordings"
KEPT = ("loop_on_ext4", "ext4_journal")
WRITES = 4


def sources(directory: Path) -> list[Files]:
    """``directory``: where they are made. The made ones are many times as fast to read."""
    server = Machine("server", role="server")
    clients = [Machine("one", port=700), Machine("two", port=720)]
    for number, client in enumerate(clients):
        at = 1_000_000 + number * 40_000
        for _ in range(WRITES):
            at = client.write(100 + number, at, [Disk(), Call(server, [Disk()])]) + 10_000
    network = files_of(recorded(directory / "network", *clients, server))
    chain = Chain(APART)
    writer = chain.writer()
    for number in range(WRITES):
        chain.durable_write(writer, number * 8192, drawn(Random(number), number * 16))
    (directory / "chain").mkdir()
    guest = files_of(chain.recording(directory / "chain"))
    kept = [files_of(RECORDINGS / name) for name in KEPT]
    return [network, guest] * 3 + kept
