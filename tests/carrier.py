# SPDX-License-Identifier: Apache-2.0
"""A guest, the host that carries its packets, and a target: when and where each message passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from random import Random
from typing import Final, Protocol

from tests.hops.test_carried import cut
from tests.synthetic import World

CARD, TAP, OUT, TARGET_CARD = 2, 5, 3, 7
PARTS: Final = ("client", "vnic", "carrier", "wire", "server")
LEAST: Final = 2_000
"""Of each part: longer than what the clocks' relation is off by."""


class Machine(Protocol):
    world: World


def parts_of(random: Random, way: int) -> list[int]:
    """How long each of the parts takes, of which a way there consists."""
    rest = way - len(PARTS) * LEAST
    edges = [0, *sorted(random.sample(range(1, rest), len(PARTS) - 1)), rest]
    return [LEAST + until - since for since, until in pairwise(edges)]


def goes(
    random: Random,
    machines: Sequence[Machine],
    times: Sequence[int],
    begin: int,
    size: int,
    to_server: int,
    place: Mapping[str, int],
) -> int:
    """A message passes by the guest, the host and the target; its ``size``."""
    guest, host, target = machines
    points = [
        (guest, "packet_sent", CARD),
        (host, "packet_received", TAP),
        (host, "packet_sent", OUT),
        (target, "packet_received", TARGET_CARD),
    ]
    if not to_server:
        points = [
            (target, "packet_sent", TARGET_CARD),
            (host, "packet_received", OUT),
            (host, "packet_sent", TAP),
            (guest, "packet_received", CARD),
        ]
    for (machine, point, device), time in zip(points, times, strict=True):
        cut(random, machine.world, point, time, begin, size, to_server=to_server, device=device,
            **place)  # fmt: skip
    return size
