# SPDX-License-Identifier: Apache-2.0
"""NFS mounts become the routes and connections that carry them; a mount may lack anything."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from iostrata.record.mounts import (
    Carried,
    NetworkMount,
    carried_mounts,
    network_mounts,
    write_connections,
)
from iostrata.record.route import Connection, Route, connections_to, route_to

OPTIONS = "rw,vers=4.2,rsize=1048576,proto={proto},timeo=600,addr={address}{more}"
MESSAGES = 20


def line(kind: str, options: str, point: str = "/mnt/nas", source: str = "nas:/export") -> str:
    return f"36 25 0:52 / {point} rw,relatime shared:7 - {kind} {source} {options}"


def nfs(address: str, proto: str = "tcp", more: str = "") -> str:
    return line("nfs4", OPTIONS.format(proto=proto, address=address, more=more))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (nfs("192.0.2.5"), NetworkMount("/mnt/nas", "nas:/export", "192.0.2.5", 2049, "tcp")),
        (
            nfs("2001:db8::5", "tcp6", ",port=20049"),
            NetworkMount("/mnt/nas", "nas:/export", "2001:db8::5", 20049, "tcp"),
        ),
        (
            nfs("fe80::5%eth1", "rdma"),
            NetworkMount("/mnt/nas", "nas:/export", "fe80::5", 2049, "rdma"),
        ),
        (
            line("nfs", "rw,vers=3,mountport=635,addr=192.0.2.5", r"/a\040b", r"nas:/c\040d"),
            NetworkMount("/a b", "nas:/c d", "192.0.2.5", 2049, "tcp"),
        ),
        (
            line("nfs4", "rw,addr=192.0.2.5,port=0"),
            NetworkMount("/mnt/nas", "nas:/export", "192.0.2.5", 2049, "tcp"),
        ),
        (line("nfs", "rw,vers=3"), None),
        (line("ext4", "rw,addr=192.0.2.5", source="/dev/vda1"), None),
        (line("nfsd", "rw"), None),
        ("", None),
        ("nonsense", None),
        (nfs("192.0.2.5").partition(" - ")[0], None),
    ],
)
def test_mounts(text: str, found: NetworkMount | None) -> None:
    assert list(network_mounts([text])) == ([found] if found else [])


@contextmanager
def conversation(family: socket.AddressFamily, address: str) -> Iterator[tuple[int, int]]:
    """A TCP connection that was used: the server's port and ours."""
    with ExitStack() as stack:
        try:
            server = stack.enter_context(socket.create_server((address, 0), family=family))
        except OSError:
            pytest.skip(f"there is no {address}")
        port = server.getsockname()[1]
        client = stack.enter_context(socket.create_connection((address, port)))
        other = stack.enter_context(server.accept()[0])
        for _ in range(MESSAGES):
            client.sendall(bytes(8192))
            assert other.recv(8192, socket.MSG_WAITALL)
            other.sendall(b"done")
            assert client.recv(4)
        yield port, client.getsockname()[1]


@pytest.mark.parametrize(
    ("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]
)
def test_a_connection_is_found(family: socket.AddressFamily, address: str, tmp_path: Path) -> None:
    with conversation(family, address) as (port, local_port):
        (found,) = connections_to(address, port)
        assert found.local_port == local_port
        # Some 20 round trips on this machine: microseconds, not zero, not a second.
        assert 0 < found.min_rtt_us <= found.rtt_us < 1_000_000
        assert found.segment_bytes > 0
        assert found.retransmitted_count == 0
        mountinfo = tmp_path / "mountinfo"
        mountinfo.write_text("\n".join([nfs(address, more=f",port={port}"), nfs("192.0.2.5")]))
        near, _ = carried_mounts(mountinfo)
        assert near.route
        assert near.route.interface == "lo"
        assert near.connections[0].local_port == local_port
    assert connections_to(address, port) == ()


@pytest.mark.parametrize("address", ["nonsense", "", "1.2.3"])
def test_no_route_to_nowhere(address: str) -> None:
    assert route_to(address) is None


def test_the_fact(tmp_path: Path) -> None:
    mount = NetworkMount("/mnt/my\tnas", "nas:/x", "192.0.2.5", 2049, "tcp")
    route = Route("eth0", "", "192.0.2.1")
    both = (Connection(900, 300, 20, 250, 1448, 1), Connection(901, 310, 30, 260, 1448, 0))
    write_connections(
        tmp_path, [Carried(mount, route, both), Carried(mount, None, ()), Carried(mount, route, ())]
    )
    lines = (tmp_path / "facts" / "connections").read_text().splitlines()
    head, *rows = (row.split("\t") for row in lines)
    assert dict(zip(head, rows[0], strict=True)) == {
        "mount_point": "/mnt/my nas",
        "source": "nas:/x",
        "address": "192.0.2.5",
        "port": "2049",
        "protocol": "tcp",
        "interface": "eth0",
        "gateway": "-",
        "local_address": "192.0.2.1",
        "local_port": "900",
        "rtt_us": "300",
        "rtt_variation_us": "20",
        "min_rtt_us": "250",
        "segment_bytes": "1448",
        "retransmitted_count": "1",
    }
    assert [row[-6:] for row in rows[2:]] == [["-"] * 6] * 2
    assert len(rows) == 4


def test_no_mount_no_fact(tmp_path: Path) -> None:
    write_connections(tmp_path, [])
    assert not list(tmp_path.iterdir())
