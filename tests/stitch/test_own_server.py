# SPDX-License-Identifier: Apache-2.0
"""A client of NFS whose server is the same machine: what that takes is not another's."""

from __future__ import annotations

import pytest

from tests.stitch.test_reconnects import MOUNT, write
from tests.stitch.test_truth import analysed
from tests.synthetic import World, device

THIS = "the NFS server {} is this machine: the CPU and the disk that it takes are this machine's, "


@pytest.mark.parametrize(
    ("file_system", "options", "address"),
    [
        ("nfs4", "rw,vers=4.2,clientaddr=127.0.0.1,addr=127.0.0.1", "127.0.0.1"),
        ("nfs4", "rw,vers=4.2,clientaddr=::1,addr=::1", "::1"),
        ("nfs", "rw,vers=3,mountaddr=127.0.0.1,addr=127.0.0.1", "127.0.0.1"),
        ("nfs4", "rw,clientaddr=192.0.2.5,addr=192.0.2.5", "192.0.2.5"),
        ("nfs4", "rw,clientaddr=192.0.2.6,addr=192.0.2.5", ""),
        ("nfs", "rw,vers=3,addr=192.0.2.5", ""),
        ("nfs4", "rw,addr=nas", ""),
        ("nfs4", "rw", ""),
        ("ext4", "rw,addr=127.0.0.1", ""),
    ],
)
def test_it_is_told_of(file_system: str, options: str, address: str) -> None:
    world = World()
    world.builder.mount(MOUNT, "/mnt", file_system, "nas:/a", options)
    # Of what nobody used, nothing is told.
    world.builder.mount(device(0, 99), "/other", "nfs4", "nas:/b", "rw,addr=127.0.0.9")
    write(world, 100_000, 110_000, 600_000)
    told = analysed(world).quality.virtual
    assert len(told) == bool(address)
    assert all(line.startswith(THIS.format(address)) for line in told)
