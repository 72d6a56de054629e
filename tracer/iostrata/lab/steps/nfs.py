# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a directory that one machine serves by NFS and another one mounts."""

from __future__ import annotations

import shlex
from contextlib import ExitStack
from typing import Final, Literal

from iostrata.lab.problem import Problems, unless_known
from iostrata.lab.schema import Count, Name, Place
from iostrata.lab.steps.step import Ground, Site, Step

# fsid=0: version 4 mounts it as /, since the machine's own root, an overlay, can't be exported.
EXPORT: Final = "rw,sync,no_root_squash,no_subtree_check,insecure,fsid=0"
MOUNTD_PORT: Final = 20048
# Only version 3 needs to be announced; without locks, nobody need be told of a reboot.
VERSIONS: Final = {
    3: ("rpcbind", "-N 4", f"vers=3,nolock,proto=tcp,mountproto=tcp,mountport={MOUNTD_PORT}"),
    4: (":", "-N 3 -V 4.1 -V 4.2", "vers=4"),
}


class NfsServer(Step, tag="nfs_server", tag_field="kind", frozen=True, kw_only=True):
    """Exports ``directory``, synchronously."""

    directory: Place
    version: Literal[3, 4] = 4
    threads: Count = 8

    def packages(self, machine: str) -> tuple[str, ...]:
        return ("nfs-kernel-server",)

    def modules(self, machine: str) -> tuple[str, ...]:
        return ("nfsd",)

    def check(self, ground: Ground) -> Problems:
        yield from ground.unless_mounted("directory", self.machine, self.directory)

    def build(self, site: Site, down: ExitStack) -> None:
        """Without grace periods, which are for servers that had clients before."""
        machine, client = site.machines[self.machine], shlex.quote(f"*:{self.directory}")
        announce, versions, _ = VERSIONS[self.version]
        unwanted = "-N 4" if self.version == 3 else "-N 3"
        machine.command(
            f"""set -e
            mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
            mkdir -p /run/rpc_pipefs /var/lib/nfs/nfsdcld /var/lib/nfs/v4recovery
            mountpoint -q /run/rpc_pipefs || mount -t rpc_pipefs pipes /run/rpc_pipefs
            : >/var/lib/nfs/etab; : >/var/lib/nfs/rmtab
            {announce}
            nfsdcld
            rpc.mountd {unwanted} -p {MOUNTD_PORT}
            exportfs -i -o {EXPORT} {client}
            rpc.nfsd {versions} -U -G 10 -L 10 {self.threads}"""
        )
        down.callback(
            machine.command,
            f"""rpc.nfsd 0; exportfs -u {client}
            kill $(pidof rpc.mountd nfsdcld rpcbind); umount /run/rpc_pipefs""",
        )


class NfsMount(Step, tag="nfs_mount", tag_field="kind", frozen=True, kw_only=True):
    """``server``: an earlier nfs_server, on this machine or at the other end of a link."""

    server: Name
    directory: Place
    options: str = "rw"

    def packages(self, machine: str) -> tuple[str, ...]:
        return ("nfs-common",)

    def modules(self, machine: str) -> tuple[str, ...]:
        return ("nfs", "nfsv3", "nfsv4")

    def mounts(self) -> tuple[str, ...]:
        return (self.directory,)

    def check(self, ground: Ground) -> Problems:
        servers = [name for name, step in ground.steps.items() if isinstance(step, NfsServer)]
        yield from unless_known("server", self.server, servers, "nfs_server")
        yield from ground.unless_linked("server", self.machine, ground.steps[self.server].machine)

    def build(self, site: Site, down: ExitStack) -> None:
        machine, directory = site.machines[self.machine], shlex.quote(self.directory)
        server, _ = site.steps[self.server]
        assert isinstance(server, NfsServer)
        *_, options = VERSIONS[server.version]
        exported = "/" if server.version == 4 else server.directory
        source = f"{site.address(server.machine, self.machine)}:{exported}"
        machine.command(
            f"mkdir -p {directory} && "
            f"mount -t nfs -o {shlex.quote(f'{self.options},{options}')} {source} {directory}"
        )
        down.callback(machine.command, f"umount {directory}")
