# SPDX-License-Identifier: Apache-2.0
"""Record stage: a server's address in, how this machine's kernel reaches it out.

Seen from our network namespace; what another one carries is not found. pyroute2 takes
as long to import as all the rest, and few machines have network mounts: only when needed.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

ESTABLISHED: Final = 1 << 1
# INET_DIAG_INFO, as a bit of what is to be told of each socket.
WITH_TCP_INFO: Final = 1 << 1


@dataclass(frozen=True)
class Route:
    """``gateway``: empty if the server is a neighbour."""

    interface: str
    gateway: str
    local_address: str


@dataclass(frozen=True)
class Connection:
    """An established TCP connection to the server, and its TCP_INFO at this moment.

    ``rtt_us``: the kernel's smoothed round trip time of what it sent; ``min_rtt_us``: its least.
    """

    local_port: int
    rtt_us: int
    rtt_variation_us: int
    min_rtt_us: int
    segment_bytes: int
    retransmitted_count: int


def route_to(address: str) -> Route | None:
    """None: the kernel knows of none."""
    from pyroute2 import IPRoute, NetlinkError  # noqa: PLC0415

    with IPRoute() as kernel:
        try:
            (found, *_) = kernel.route("get", dst=address)
            (link, *_) = kernel.link("get", index=found.get_attr("RTA_OIF"))
        except (NetlinkError, OSError, ValueError):
            return None
        return Route(
            link.get_attr("IFLA_IFNAME"),
            found.get_attr("RTA_GATEWAY") or "",
            found.get_attr("RTA_PREFSRC") or "",
        )


def connections_to(address: str, port: int) -> tuple[Connection, ...]:
    """By their local port; none where the kernel refuses to tell."""
    return tuple(sorted(_connections(address, port), key=lambda found: found.local_port))


def _connections(address: str, port: int) -> Iterator[Connection]:
    from pyroute2 import DiagSocket, NetlinkError  # noqa: PLC0415

    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with DiagSocket() as kernel:
        kernel.bind()
        try:
            sockets = kernel.get_sock_stats(family, ESTABLISHED, extensions=WITH_TCP_INFO)
        except (NetlinkError, OSError):
            return
    for each in sockets:
        info = each.get_attr("INET_DIAG_INFO")
        if info and (each["idiag_dst"], each["idiag_dport"]) == (address, port):
            yield Connection(
                each["idiag_sport"],
                info["tcpi_rtt"],
                info["tcpi_rttvar"],
                info["tcpi_min_rtt"],
                info["tcpi_snd_mss"],
                info["tcpi_total_retrans"],
            )
