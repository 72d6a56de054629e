# SPDX-License-Identifier: Apache-2.0
"""Lab stage: steps of NFS in, a directory served by one machine and mounted by another out."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from typing import Final

from iostrata.lab.machine import RunningMachine
from iostrata.lab.site import Site
from iostrata.lab.steps import NfsMount, NfsServer

# fsid=0: version 4 mounts it as /, since the machine's own root, an overlay, can't be exported.
EXPORT: Final = "rw,sync,no_root_squash,no_subtree_check,insecure,fsid=0"
MOUNTD_PORT: Final = 20048
# Only version 3 needs to be announced; without locks, nobody need be told of a reboot.
VERSIONS: Final = {
    3: ("rpcbind", "-N 4", f"vers=3,nolock,proto=tcp,mountproto=tcp,mountport={MOUNTD_PORT}"),
    4: (":", "-N 3 -V 4.1 -V 4.2", "vers=4"),
}


def serve(step: NfsServer, machine: RunningMachine, down: ExitStack) -> None:
    """Without grace periods, which are for servers that had clients before."""
    announce, versions, _ = VERSIONS[step.version]
    unwanted = "-N 4" if step.version == 3 else "-N 3"
    client = shlex.quote(f"*:{step.directory}")
    machine.command(
        f"""set -e
        modprobe nfsd
        mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
        mkdir -p /run/rpc_pipefs /var/lib/nfs/nfsdcld /var/lib/nfs/v4recovery
        mountpoint -q /run/rpc_pipefs || mount -t rpc_pipefs pipes /run/rpc_pipefs
        : >/var/lib/nfs/etab; : >/var/lib/nfs/rmtab
        {announce}
        nfsdcld
        rpc.mountd {unwanted} -p {MOUNTD_PORT}
        exportfs -i -o {EXPORT} {client}
        rpc.nfsd {versions} -U -G 10 -L 10 {step.threads}"""
    )
    down.callback(
        machine.command,
        f"""rpc.nfsd 0; exportfs -u {client}
        kill $(pidof rpc.mountd nfsdcld rpcbind); umount /run/rpc_pipefs""",
    )


def mount(step: NfsMount, site: Site, down: ExitStack) -> None:
    machine = site.machines[step.machine]
    server, _ = site.steps[step.server]
    assert isinstance(server, NfsServer)
    *_, options = VERSIONS[server.version]
    exported = "/" if server.version == 4 else server.directory
    source = f"{site.address(server.machine, step.machine)}:{exported}"
    directory = shlex.quote(step.directory)
    machine.command(
        f"mkdir -p {directory} && "
        f"mount -t nfs -o {shlex.quote(f'{step.options},{options}')} {source} {directory}"
    )
    down.callback(machine.command, f"umount {directory}")
