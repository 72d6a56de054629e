# SPDX-License-Identifier: Apache-2.0
"""A nested machine for real: disks of every kind, one after the other, and a link to a machine
that it is not nested in, from which it mounts a directory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from iostrata.lab.cache import new_lab_directory
from iostrata.lab.contradictions import contradictions
from iostrata.lab.lab import Lab
from iostrata.lab.run import furnished
from iostrata.lab.scenario import Scenario, with_keys
from iostrata.lab.stack import build
from tests.lab.test_oracles import Quiet

pytestmark = [
    pytest.mark.lab,
    # QEMU is known by its number, not by the object that started it.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

DOCUMENT: dict[str, Any] = {
    "description": "a guest with a link to a server of its own",
    "machines": [
        {
            "name": "guest",
            "nested": "host",
            "memory_mib": 512,
            # For the disks that it gets later.
            "modules": ["virtio_scsi", "sd_mod", "nvme"],
        },
        {"name": "host", "memory_mib": 2048},
        {"name": "server"},
    ],
    "links": [{"name": "lan", "addresses": {"guest": "192.0.2.2/24", "server": "192.0.2.1/24"}}],
    "stack": [
        {"kind": "null_blk", "name": "far", "machine": "server"},
        {
            "kind": "file_system",
            "name": "export",
            "machine": "server",
            "device": "far",
            "directory": "/srv/export",
        },
        {"kind": "nfs_server", "name": "nfsd", "machine": "server", "directory": "/srv/export"},
        {"kind": "null_blk", "name": "near", "machine": "host", "size_mib": 1024},
        {"kind": "null_blk", "name": "raw", "machine": "host"},
        {
            "kind": "file_system",
            "name": "images",
            "machine": "host",
            "device": "near",
            "directory": "/mnt/images",
        },
        {
            "kind": "nfs_mount",
            "name": "mount",
            "machine": "guest",
            "server": "nfsd",
            "directory": "/mnt/far",
        },
        {
            "kind": "image",
            "name": "image",
            "machine": "host",
            "guest": "guest",
            "directory": "/mnt/images",
            "format": "qcow2",
        },
        {
            "kind": "file_system",
            "name": "ext4",
            "machine": "guest",
            "device": "image",
            "directory": "/mnt/data",
        },
    ],
    "workloads": [{"kind": "methods", "machine": "guest", "directory": "/mnt/data"}],
}
FIO = "fio --name=x --rw=write --bs=8k --size=256k --fdatasync=1 --directory="


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    scenario = msgspec.convert(DOCUMENT, Scenario)
    assert [*contradictions(scenario)] == []
    with furnished(scenario, new_lab_directory("nested"), Quiet(), keep=False) as found:
        yield found


def test_a_guest_is_a_client_of_another_machine(lab: Lab) -> None:
    guest, server = lab.machines["guest"], lab.machines["server"]
    assert "192.0.2.1:/ on /mnt/far type nfs4" in guest.command("mount")
    guest.command(f"{FIO}/mnt/far")
    assert "262144" in server.command("stat -c %s /srv/export/x.0.0")


KINDS: dict[str, tuple[dict[str, Any], str]] = {
    "raw": ({"format": "raw", "aio": "native", "iothread": True}, "vd"),
    "over another": ({"backing": "raw", "cache": "writeback"}, "vd"),
    "virtio-scsi": ({"bus": "virtio-scsi", "iothread": True, "cache": "directsync"}, "sd"),
    "nvme": ({"bus": "nvme", "aio": "io_uring"}, "nvme"),
    "a disk": ({"directory": None, "device": "raw", "format": "raw"}, "vd"),
    "qcow2 on a disk": ({"directory": None, "device": "raw"}, "vd"),
    "by QEMU itself": (
        {
            "directory": None,
            "format": "raw",
            "transport": {"driver": "null-co", "size": 256 << 20, "read-zeroes": True},
        },
        "",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_disk_is_plugged_in_written_and_unplugged(kind: str, lab: Lab) -> None:
    """The one before is unplugged; what cannot hold a file system is only looked at."""
    keys, device = KINDS[kind]
    stack = with_keys(lab.scenario.stack, {"image": keys})
    build(stack if device else stack[:-1], lab.site)
    guest = lab.machines["guest"]
    if device:
        assert guest.command("grep ' /mnt/data ' /proc/mounts").startswith(f"/dev/{device}")
        guest.command(f"{FIO}/mnt/data; sync")
    path = lab.site.device("guest", "image").removeprefix("/dev/")
    cache = guest.command(f"cat /sys/block/{path}/queue/write_cache").strip()
    through = keys.get("cache") in ("directsync", "writethrough")
    assert cache == ("write through" if through else "write back")
