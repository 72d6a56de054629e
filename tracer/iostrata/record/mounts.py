# SPDX-License-Identifier: Apache-2.0
"""Record stage: this machine's NFS mounts in, what carries each of them out.

The fact ``connections`` of a trace: one line a connection, or one for a mount that has none
(``-``: not known). Its round trip time is the kernel's own witness of the network.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from iostrata.record.route import Connection, Route, connections_to, route_to
from iostrata.trace import Mount, parse_mount, write_whole

MOUNTINFO: Final = Path("/proc/self/mountinfo")
KINDS: Final = ("nfs", "nfs4")
NFS_PORT: Final = 2049
FILE: Final = "facts/connections"
ABSENT: Final = "-"


@dataclass(frozen=True)
class NetworkMount:
    """``source``: ``SERVER:/EXPORT``. ``protocol``: tcp, rdma, udp."""

    mount_point: str
    source: str
    address: str
    port: int
    protocol: str


@dataclass(frozen=True)
class Carried:
    """``route`` None: there is none from here. Several connections: nconnect."""

    mount: NetworkMount
    route: Route | None
    connections: tuple[Connection, ...]


def carried_mounts(mountinfo: Path = MOUNTINFO) -> tuple[Carried, ...]:
    """Each NFS mount of this machine, with what carries it now."""
    lines = mountinfo.read_text(errors="replace").splitlines()
    return tuple(
        Carried(mount, route_to(mount.address), _connections(mount))
        for mount in network_mounts(lines)
    )


def _connections(mount: NetworkMount) -> tuple[Connection, ...]:
    return connections_to(mount.address, mount.port) if mount.protocol == "tcp" else ()


def network_mounts(lines: Sequence[str]) -> Iterator[NetworkMount]:
    """Of /proc/PID/mountinfo; what is no NFS mount, or does not say its server, is passed over."""
    for line in lines:
        try:
            mount = parse_mount(line)
        except (ValueError, IndexError):
            continue
        if mount.file_system in KINDS and (found := _network_mount(mount)):
            yield found


def _network_mount(mount: Mount) -> NetworkMount | None:
    options = dict(option.partition("=")[::2] for option in mount.options.split(","))
    address, _, _ = options.get("addr", "").partition("%")
    port = options.get("port", "")
    if not address:
        return None
    return NetworkMount(
        mount.mount_point,
        mount.source,
        address,
        int(port) if port.isdecimal() and port != "0" else NFS_PORT,
        options.get("proto", "tcp").removesuffix("6"),
    )


def write_connections(trace: Path, mounts: Sequence[Carried]) -> None:
    """Beside the other facts of the trace; nothing where there is no NFS mount."""
    if not mounts:
        return
    columns = [field.name for kind in (NetworkMount, Route, Connection) for field in fields(kind)]
    rows = [columns, *(row for mount in mounts for row in _rows(mount))]
    file = trace / FILE
    file.parent.mkdir(exist_ok=True)
    write_whole(file, "".join("\t".join(row) + "\n" for row in rows).encode())


def _rows(carried: Carried) -> Iterator[list[str]]:
    for connection in carried.connections or (None,):
        yield [
            *_cells(carried.mount, NetworkMount),
            *_cells(carried.route, Route),
            *_cells(connection, Connection),
        ]


def _cells(
    value: NetworkMount | Route | Connection | None,
    kind: type[NetworkMount] | type[Route] | type[Connection],
) -> list[str]:
    texts = (str(getattr(value, field.name, "")) for field in fields(kind))
    return [" ".join(text.split()) or ABSENT for text in texts]
