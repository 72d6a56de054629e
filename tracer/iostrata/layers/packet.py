# SPDX-License-Identifier: Apache-2.0
"""The parts of a way between two machines, by the packets that went it."""

from __future__ import annotations

from typing import Final

from iostrata.layers.declaration import Declaration, Depth, Rank, Row

POINTS: Final = (
    *("rpc_stream", "svc_stream", "iscsi_stream", "target_sent", "nvme_stream", "nvmet_stream"),
    *("packet_sent", "packet_received"),
)


def _row(name: str, meaning: str, grows: str, colour: str) -> Row:
    return Row(f"network.{name}", "network", meaning, POINTS, grows, colour, "net")


PACKET: Final = Declaration(
    rows=(
        _row(
            "client",
            "in the client: TCP, queues, what it routes for containers; call and reply",
            "the client's connection waits for room (its window), a queue of its card is full or "
            "holds packets back, or its softirqs are late. A call is several packets: while the "
            "first ones are handed over, which may be an exit each, the last one waits here.",
            "#a2d149",
        ),
        _row(
            "vnic",
            "between a guest's network card and its host's, there and back",
            "the guest's way out (an exit, or vhost's or the VMM's thread, which has no CPU), or "
            "its interrupt, is late. vhost spares the VMM.",
            "#b4dd8a",
        ),
        _row(
            "carrier",
            "in a machine between the two: bridge, address translation, queues",
            "its softirqs are late, its rules many, or a queue of its cards holds packets back.",
            "#86b93f",
        ),
        _row(
            "wire",
            "between two machines' network cards, there and back",
            "distance, a switch, a slow link; packets that were lost, and sent again.",
            "#5f9133",
        ),
        _row(
            "server",
            "in the server: TCP, queues, what it routes for containers; call and reply",
            "the server's softirqs are late, its connection waits for room, or a queue of its card "
            "holds packets back.",
            "#2c5a17",
        ),
    ),
    ranks=tuple(
        Rank(f"network.{name}", f"network.{name}", Depth.WAY)
        for name in ("client", "vnic", "carrier", "wire", "server")
    ),
)
