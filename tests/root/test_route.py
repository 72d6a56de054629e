# SPDX-License-Identifier: Apache-2.0
"""A server in a network namespace of its own: the interface, gateway and connection to it."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import IO, Final

import pytest
from pyroute2 import IPRoute, NetlinkError

from iostrata.record.route import connections_to, route_to

HERE, THERE, BEYOND = "198.18.0.1", "198.18.0.2", "198.18.7.9"
PORT: Final = 2049
LINK: Final = "iostrata-test"
# Answers each 8 kB after 5 ms, as a server does: that is no round trip of the network. Stays until
# it is killed: a namespace that nobody is in takes the cable with it at a time of the kernel's.
SERVER: Final = f"""
import socket, sys, time
from pyroute2 import IPRoute
print("unshared", flush=True)
sys.stdin.readline()
with IPRoute() as ip:
    index = ip.link_lookup(ifname="{LINK}1")[0]
    ip.addr("add", index=index, address="{THERE}", prefixlen=24)
    ip.link("set", index=index, state="up")
with socket.create_server(("{THERE}", {PORT})) as server:
    print("listening", flush=True)
    client, _ = server.accept()
    while client.recv(8192, socket.MSG_WAITALL):
        time.sleep(0.005)
        client.sendall(b"done")
sys.stdin.read()
"""


@pytest.fixture
def server() -> Iterator[None]:
    """A cable to a namespace with a server."""
    unshare = shutil.which("unshare")
    if not unshare:
        pytest.skip("there is no unshare")
    with (
        IPRoute() as ip,
        subprocess.Popen(
            [unshare, "--net", sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert process.stdin
        assert process.stdout
        try:
            expect(process.stdout, "unshared")
            plug(ip, process.pid)
            process.stdin.write("\n")
            process.stdin.flush()
            expect(process.stdout, "listening")
            yield
        finally:
            for index in ip.link_lookup(ifname=f"{LINK}0"):
                ip.link("del", index=index)
            process.kill()


def expect(said: IO[str], word: str) -> None:
    assert said.readline() == f"{word}\n"


def plug(ip: IPRoute, pid: int) -> None:
    try:
        ip.link("add", ifname=f"{LINK}0", kind="veth", peer={"ifname": f"{LINK}1"})
    except NetlinkError as error:
        pytest.skip(f"there is no veth: {error}")
    (near,), (far,) = (ip.link_lookup(ifname=f"{LINK}{end}") for end in "01")
    ip.link("set", index=far, net_ns_pid=pid)
    ip.addr("add", index=near, address=HERE, prefixlen=24)
    ip.link("set", index=near, state="up")
    ip.route("add", dst="198.18.7.0/24", gateway=THERE)


@pytest.mark.usefixtures("server")
def test_what_leads_to_a_server() -> None:
    neighbour, remote = route_to(THERE), route_to(BEYOND)
    assert neighbour
    assert remote
    assert (neighbour.interface, neighbour.gateway) == (f"{LINK}0", "")
    assert (remote.interface, remote.gateway) == (f"{LINK}0", THERE)
    assert neighbour.local_address == remote.local_address == HERE
    assert connections_to(THERE, PORT) == ()
    with socket.create_connection((THERE, PORT)) as client:
        begin_ns = time.monotonic_ns()
        for _ in range(40):
            client.sendall(bytes(8192))
            assert client.recv(4, socket.MSG_WAITALL) == b"done"
        answer_us = (time.monotonic_ns() - begin_ns) / 40 / 1000
        (found,) = connections_to(THERE, PORT)
    assert found.local_port
    assert found.segment_bytes <= 1460
    # The kernel times the acknowledgement: not what the server takes to answer.
    assert 0 < found.min_rtt_us < 5000 < answer_us
