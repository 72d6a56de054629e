# SPDX-License-Identifier: Apache-2.0
"""Lab stage: the machines that a scenario declares, and the links between them."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from iostrata.lab.architecture import ARCHITECTURES, Architecture
from iostrata.lab.schema import Address, Amount, Count, Module, Name, Parameter, Strict


class Disk(Strict, frozen=True, kw_only=True):
    """A disk, its image a new sparse file of the lab; its serial number is its name.

    ``latency_ns``: QEMU's own disk instead, which keeps nothing, and takes so long for each
    request. ``bus``: virtio-blk, or an NVMe controller of its own, on a machine that loads its
    driver.
    """

    name: Name
    size_mib: Count = 1024
    bus: Literal["virtio-blk", "nvme"] = "virtio-blk"
    latency_ns: Amount = 0


class Machine(Strict, frozen=True, kw_only=True):
    """``nested``: the machine in which this one runs.

    ``architecture``: Debian's name of it; another one than this machine's is emulated.
    ``cpus``: on a machine that is not nested, more than one needs KVM (see ``qemu.racing``).
    ``poll``: its kernel waits without halting the CPU, which an emulator wakes the later the
    longer it was halted: what waits for a delayed part would seem delayed, too.
    ``parameters``: more words for its kernel's command line.
    ``iommu``: it can hand its devices on to machines within it.
    ``shared_memory``: other processes of the machine below can map it, as those of vhost-user do.
    ``vhost``: what it sends by its links its host's kernel takes, instead of its QEMU (vhost-net).
    ``recorded``: as all are; else only the others tell of it.
    ``modules``: loaded although no step needs them, to see whether they can be observed.
    ``observed``: layers that a recorder must see there, at least partly.
    """

    name: Name
    role: Literal["local", "guest", "host", "server"] = "local"
    nested: Name | None = None
    architecture: Literal["amd64", "arm64"] = "amd64"
    kernel: str = "6.1"
    cpus: Count = 1
    poll: bool = False
    parameters: tuple[Parameter, ...] = ()
    iommu: bool = False
    memory_mib: Annotated[int, msgspec.Meta(ge=256)] = 1024
    shared_memory: bool = False
    vhost: bool = False
    recorded: bool = True
    disks: tuple[Disk, ...] = ()
    modules: tuple[Module, ...] = ()
    observed: tuple[str, ...] = ()

    @property
    def hardware(self) -> Architecture:
        return ARCHITECTURES[self.architecture]

    @property
    def carrier(self) -> str:
        """The machine that runs on this one: itself, or that in which it is nested."""
        return self.nested or self.name


class Link(Strict, frozen=True, kw_only=True):
    """A cable between two machines; their interfaces bear its name.

    ``addresses``: of each machine at its end, as 192.0.2.1/24.
    """

    name: Name
    addresses: dict[Name, Address]
