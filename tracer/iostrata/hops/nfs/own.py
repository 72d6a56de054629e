# SPDX-License-Identifier: Apache-2.0
"""Hop nfs: a client's trace in, a line for each of its servers that is the same machine out."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Final

from iostrata.trace import Mount, Trace

KINDS: Final = ("nfs", "nfs4")
PART: Final = "the CPU and the disk that it takes are this machine's, and in rpc.call"


def own_servers(upper: Trace) -> Iterator[str]:
    """Of those that were called: by loopback, or by the address that is the client's, too."""
    mounts = [mount for mount in upper.facts.mounts if mount.file_system in KINDS]
    own = {address: mount for mount in mounts if (address := _own_address(mount))}
    if not own or not len(upper.points["rpc_call"]):
        return
    used = set(upper.points["syscall"].values("dev"))
    for address in sorted({address for address, mount in own.items() if mount.device_key in used}):
        yield f"the NFS server {address} is this machine: {PART}"


def _own_address(mount: Mount) -> str:
    """Empty: the server is another machine, or its mount does not say."""
    options = dict(option.partition("=")[::2] for option in mount.options.split(","))
    address = options.get("addr", "")
    try:
        loopback = ip_address(address).is_loopback
    except ValueError:
        return ""
    return address if loopback or address == options.get("clientaddr") else ""
