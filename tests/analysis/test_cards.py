# SPDX-License-Identifier: Apache-2.0
"""Network cards that are a hypervisor's program: what is said of them, and of its host."""

from __future__ import annotations

from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.model import Quality
from iostrata.recording import open_recording
from iostrata.trace.layout import THREAD_VMM
from tests.network import Call, Disk, Machine, recorded

BEYOND = "what a hypervisor takes of what goes by it is in the network's part"


def quality(path: Path, *machines: Machine, remote: bool = True) -> Quality:
    """``remote``: the first one's writes are calls to the last one, else its own disk's."""
    client, server = machines[0], machines[-1]
    begin = 1_000_000
    for _ in range(6):
        begin = 100_000 + client.write(101, begin, [Call(server, [Disk()])] if remote else [Disk()])
    return analyse(open_recording(recorded(path, *machines))).quality


def guest_and_server() -> tuple[Machine, Machine]:
    client, server = Machine("client"), Machine("server", role="server")
    client.world.builder.card("eth0", "virtio_net").card("eth1", "e1000e")
    server.world.builder.card("ens3", "vmxnet3")
    return client, server


def test_those_at_both_ends_of_a_network(tmp_path: Path) -> None:
    assert quality(tmp_path, *guest_and_server()).virtual == (
        f"client: eth0 is a virtio network card: {BEYOND}",
        f"server: ens3 is a VMware network card: {BEYOND}",
    )


def test_the_one_of_a_client_whose_server_was_not_recorded(tmp_path: Path) -> None:
    client, server = guest_and_server()
    quality(tmp_path, client, server)
    alone = analyse(open_recording(tmp_path / "client")).quality
    assert alone.virtual == (f"eth0 is a virtio network card: {BEYOND}",)


def test_none_of_a_machine_that_asks_no_other(tmp_path: Path) -> None:
    client, _ = guest_and_server()
    assert quality(tmp_path, client, remote=False).virtual == ()


CARRIES = "what its virtual machines send by their network cards is not followed through it"


@pytest.mark.parametrize(("runs", "more"), [(True, f"; {CARRIES}"), (False, "")])
def test_a_host_that_carries(tmp_path: Path, runs: bool, more: str) -> None:
    """It has nothing that its guest asked for but packets, which no point tells of."""
    client, server = guest_and_server()
    host = Machine("host", role="host")
    host.world.target(300, kind=THREAD_VMM, comm=b"qemu")
    host.write(300, 2_000_000, [Disk()])
    if runs:
        host.world.builder.vmm(300, "guest")
    found = quality(tmp_path, client, host, server)
    assert found.apart == (f"host: nothing ties its events to another machine's{more}",)
