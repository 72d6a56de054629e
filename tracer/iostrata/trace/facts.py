# SPDX-License-Identifier: Apache-2.0
"""A machine's facts: its mounts, block devices and clocks, and what they say of each other.

``device_key`` is the kernel's own encoding everywhere: major << 20 | minor.
A fact that was not recorded is missing, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from iostrata.cgroups import virtual_machine_of
from iostrata.columns import Ints, one_of
from iostrata.trace.cells import integer
from iostrata.trace.clocks import Exchange, TscOffset, exchange_of
from iostrata.trace.echo import Echo
from iostrata.trace.images import Extent, File

IN_MEMORY: Final = frozenset({
    "autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts",
    "devtmpfs", "fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "ramfs", "rpc_pipefs",
    "securityfs", "selinuxfs", "sysfs", "tmpfs", "tracefs",
})  # fmt: skip
"""File systems that keep nothing anywhere else: what is written to them is never durable."""
MOST_STACKED: Final = 8
"""File systems on one another: Linux stacks two overlays, what a file says is anybody's."""


@dataclass(frozen=True)
class Mount:
    """``root``: which part of its file system is mounted."""

    device_key: int
    mount_point: str
    file_system: str
    source: str
    options: str
    root: str = "/"


class Striping(NamedTuple):
    """How device mapper lays out an array, or a mirror, on its disks. ``chunk``: in sectors, 0: it
    is a mirror; ``disks``: how many have the data of a stripe; ``begins``: disks, and the sector
    where it begins on each; ``first``, ``length``: of which sectors of the device, 0: all."""

    chunk: int
    disks: int
    begins: tuple[tuple[int, int], ...]
    first: int = 0
    length: int = 0


@dataclass(frozen=True)
class BlockDevice:
    """``parent_key``: the whole disk of a partition, else 0. ``lower_keys``: what it is stacked on.

    ``write_cache``: ``write back`` or ``write through``; ``backing``: a loop
    device's file, ``backing_inode`` its number. ``transport``: by what a disk of NVMe or SCSI is
    reached: ``pcie``, ``tcp``, ``rdma``, ``fc``, ``loop``, ``iscsi``. ``queue_limits``: which
    of ``wbt`` and ``io.cost`` may hold a request back. ``pci``: what its controller is,
    ``vendor:device``. ``store_keys``: where device mapper's snapshots of it keep what is about to
    be overwritten. ``striping``: of its arrays (RAID 4, 5, 6) and mirrors, of which a device may
    have several, one behind the other. Empty or None: not recorded. ``moved``: it was on one thing
    and then on another: on all of these, a loop device on nothing that is known. ``shared``: its
    number was that of several devices, one after the other:
    what they differ in is empty or None, their names are ``sda or sdb``.
    """

    device_key: int
    name: str
    parent_key: int = 0
    scheduler: str = ""
    write_cache: str = ""
    fua: bool | None = None
    rotational: bool | None = None
    logical_block_bytes: int | None = None
    backing: str = ""
    lower_keys: tuple[int, ...] = ()
    backing_inode: int | None = None
    transport: str = ""
    queue_limits: tuple[str, ...] = ()
    pci: str = ""
    store_keys: tuple[int, ...] = ()
    striping: tuple[Striping, ...] = ()
    moved: bool = False
    shared: bool = False


@dataclass(frozen=True)
class Passthrough:
    """A disk's controller that a virtual machine, process ``pid``, has as its own (VFIO).

    ``address``: its place on the host's PCI bus. ``pci``: as a disk's. ``irqs``: the numbers of its
    interrupts on the host.
    """

    pid: int
    address: str
    pci: str
    irqs: tuple[int, ...]


@dataclass(frozen=True)
class CpuPlace:
    """Where a CPU lies; None: the machine does not tell. ``package``: its socket; ``core``: its
    number there. CPUs of one core share what computes (SMT)."""

    node: int | None
    package: int | None
    core: int | None


class Met(NamedTuple):
    """A file system that was met. ``below_key``: its disk, or the file system that an overlay
    writes to; 0: none, or not known."""

    kind: str
    below_key: int = 0


def _upwards(path: str) -> Iterator[str]:
    """A path and all that it is below, the root as "": /a/b, /a, ""; of a relative one nothing."""
    if path.startswith("/"):
        yield path
    while path.startswith("/"):
        path = path.rpartition("/")[0]
        yield path


@dataclass(frozen=True)
class Facts:
    """``apic_ids``: of each CPU that was online; empty: not recorded, or there are none.

    ``overlays``: of each overlay that was met, the file system that its changes go to, as recorders
    told of it before there was the point file_system.
    ``cgroups``: the path of each control group of version 2 that was met, by its id.
    ``stacks``: the functions of each of the kernel's stacks that a thread slept in, from the
    innermost; empty: not recorded. ``least_rtt_us``: of each connection (client's port << 16 |
    server's) of an NFS mount, what TCP knew when the recording ended. ``echoes``: as they were
    sent; empty: it was not asked for them. ``throttled``: the name of each QEMU whose command line
    limits a disk, by its process; empty where it has none. ``vmms``: the same of every QEMU.
    ``images``: the format of the files that these had open, of those that are not raw;
    ``backed``: those over another one; ``image_maps``: where they kept what, as far as that was
    there. ``cards``: the driver of each network card, by its interface. ``topology``: where each
    CPU lies that was online, by its number; empty: not recorded. ``passthrough``: as told when the
    recording began, and ended; so is ``affinity``, the CPUs (0-3,8) that each thread of a virtual
    machine's process may run on, which is there twice where that changed. ``met``: of each file
    system's number what was met there, one after the other.
    """

    mounts: tuple[Mount, ...] = ()
    blocks: Mapping[int, BlockDevice] = field(default_factory=dict)
    apic_ids: Mapping[int, int] = field(default_factory=dict)
    tsc: tuple[TscOffset, ...] = ()
    exchange: Exchange = field(default_factory=lambda: exchange_of(()))
    stacks: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    cgroups: Mapping[int, str] = field(default_factory=dict)
    least_rtt_us: Mapping[int, int] = field(default_factory=dict)
    echoes: tuple[Echo, ...] = ()
    overlays: Mapping[int, int] = field(default_factory=dict)
    throttled: Mapping[int, str] = field(default_factory=dict)
    vmms: Mapping[int, str] = field(default_factory=dict)
    images: Mapping[File, str] = field(default_factory=dict)
    backed: frozenset[File] = frozenset()
    image_maps: Mapping[File, tuple[Extent, ...]] = field(default_factory=dict)
    cards: Mapping[str, str] = field(default_factory=dict)
    passthrough: tuple[Passthrough, ...] = ()
    topology: Mapping[int, CpuPlace] = field(default_factory=dict)
    affinity: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    met: Mapping[int, tuple[Met, ...]] = field(default_factory=dict)

    def running_machines(self, pid: Ints) -> Ints:
        """Of some processes those that are known to run a virtual machine, 0 for all others."""
        return np.where(one_of(pid, list(self.vmms)), pid, 0)

    def virtual_machine(self, pid: int, cgroup: str) -> str:
        """What a process runs, by its QEMU's name or by its control group's path; empty: none.

        A QEMU that nobody gave a name has its number.
        """
        name = self.vmms.get(pid) or virtual_machine_of(cgroup)
        return name or (f"process {pid}" if pid in self.vmms else "")

    def disk_of(self, device_key: int) -> int:
        """The whole disk that a partition, or a file system, is on; anything else is its own."""
        key = self._block_of(device_key)
        block = self.blocks.get(key)
        return block.parent_key if block and block.parent_key else key

    def file_system(self, device_key: int) -> str:
        """``ext4``: what the superblock of this device is of; ``unknown`` if nobody mounted it, or
        there were several, one after the other."""
        types = self.file_systems(device_key)
        return types[0] if len(types) == 1 else "unknown"

    def is_mounted_with(self, device_key: int, option: str) -> bool:
        """Whether a file system has that option, by what its mounts said when it was recorded."""
        mounts = self._mounts_of.get(device_key, ())
        return any(option in mount.options.split(",") for mount in mounts)

    def name_of(self, met: Met) -> str:
        """As ``file_system_name``, of what was met."""
        is_upper = met.kind == "overlay" and met.below_key
        return f"{met.kind} ({self.file_system(met.below_key)})" if is_upper else met.kind

    def file_system_name(self, device_key: int) -> str:
        """``ext4``; ``ext4 or xfs``, where both were there; where an overlay writes to, too:
        ``overlay (ext4)``."""
        kind = " or ".join(self.file_systems(device_key)) or "unknown"
        return self.name_of(Met(kind, next(iter(self._written_by_overlay(device_key)), 0)))

    def is_used_again(self, device_key: int) -> bool:
        """Whether this number was that of several file systems, one after the other, of other types
        or on other things."""
        return len(self.met.get(device_key, ())) > 1

    def is_in_memory(self, device_key: int) -> bool:
        """Whether what is written to that file system, or to the one that an overlay's changes go
        to, is on no disk and no other machine."""
        for _ in range(MOST_STACKED):
            if not (upper := self._written_by_overlay(device_key)):
                break
            device_key = upper[0]
        return self.file_system(device_key) in IN_MEMORY

    def was_in_memory(self, met: Met) -> bool:
        """As ``is_in_memory``, of what was met."""
        return met.kind in IN_MEMORY or (
            met.kind == "overlay" and met.below_key > 0 and self.is_in_memory(met.below_key)
        )

    def file_systems(self, device_key: int) -> list[str]:
        """All that were there: what was mounted when the recording began comes first."""
        kinds = [mount.file_system for mount in self._mounts_of.get(device_key, ())]
        known = {kind.partition(".")[0] for kind in kinds}
        kinds += [met.kind for met in self.met.get(device_key, ()) if met.kind not in known]
        return list(dict.fromkeys(kinds)) or ["overlay"] * (device_key in self.overlays)

    @cached_property
    def _mounts_of(self) -> dict[int, list[Mount]]:
        """Of each file system, in their order."""
        found: dict[int, list[Mount]] = {}
        for mount in self.mounts:
            found.setdefault(mount.device_key, []).append(mount)
        return found

    @cached_property
    def _named(self) -> dict[str, int]:
        """The first block device of each name."""
        found: dict[str, int] = {}
        for key, block in self.blocks.items():
            found.setdefault(block.name, key)
        return found

    def below(self, device_key: int) -> set[int]:
        """The device itself, its disk, and all that those are stacked on, file systems too."""
        found: set[int] = set()
        left = [device_key]
        while left:
            if (key := left.pop()) not in found:
                found.add(key)
                block = self.blocks.get(key)
                left += [self.disk_of(key), *(block.lower_keys if block else ())]
                left += self._written_by_overlay(key)
                left += [met.below_key for met in self.met.get(key, ()) if met.below_key]
        return found

    def on_top(self, device_key: int) -> set[int]:
        """The device itself, and its disk, or of a file system that is on several each of those."""
        devices = {self.written_to(device_key)}
        devices |= {met.below_key for met in self.met.get(device_key, ()) if met.below_key}
        return devices | {device_key} | {self.disk_of(key) for key in devices}

    def written_to(self, device_key: int) -> int:
        """Of an overlay the file system that its changes go to; anything else is its own."""
        return next(iter(self._written_by_overlay(device_key)), device_key)

    def _written_by_overlay(self, device_key: int) -> list[int]:
        """The file system that an overlay's changes go to."""
        if device_key in self.overlays:
            return [self.overlays[device_key]]
        overlays = [met for met in self.met.get(device_key, ()) if met.kind == "overlay"]
        met = [met.below_key for met in overlays[-1:] if met.below_key]
        return met or self._uppers.get(device_key, [])

    @cached_property
    def _uppers(self) -> dict[int, list[int]]:
        """The same by the overlay's first mount; of each that has an upper directory."""
        first: dict[int, str] = {}
        at: dict[str, list[int]] = {}
        for mount in self.mounts:
            first.setdefault(mount.device_key, mount.options)
            at.setdefault(mount.mount_point.rstrip("/"), []).append(mount.device_key)
        found = {}
        for device_key, options in first.items():
            if upper := re.search(r"(?:^|,)upperdir=([^,]+)", options):
                # Of several mounts at one place the last one is on top.
                holding = (
                    key
                    for directory in _upwards(unescape(upper[1]))
                    for key in reversed(at.get(directory, []))
                    if key != device_key
                )
                found[device_key] = list(islice(holding, 1))
        return found

    def path_of(self, device_key: int, path: str) -> str:
        """Of a path in the file system of a device, where it is mounted: ``/mnt/wal/1``.

        Of several mounts the one of the largest part; ``vdb:/wal/1`` where there is none, or more
        than one file system was, or ``overlay 0:39:/wal/1`` where it was always one.
        """
        one = len(self.file_systems(device_key)) == 1 and not self.is_used_again(device_key)
        mounts = self._mounts_of.get(device_key, []) if one else []
        for mount in sorted(mounts, key=lambda mount: len(mount.root)):
            root = mount.root.rstrip("/")
            if path == mount.root or path.startswith(root + "/"):
                return mount.mount_point.rstrip("/") + path.removeprefix(root) or "/"
        if self.file_systems(device_key) == ["overlay"]:
            return f"overlay {device_numbers(device_key)}:{path}"
        return f"{self.device_name(device_key)}:{path}"

    def device_name(self, device_key: int) -> str:
        """``vda1``, or ``253:1`` where the device's name was not recorded."""
        block = self.blocks.get(self._block_of(device_key))
        return block.name if block else device_numbers(device_key)

    def _block_of(self, device_key: int) -> int:
        """The block device below a file system that has a number of its own (btrfs, overlay)."""
        for _ in range(MOST_STACKED):
            if device_key in self.blocks:
                break
            if upper := self._written_by_overlay(device_key):
                device_key = upper[0]
                continue
            if device_key not in self._mounts_of:
                return device_key
            mount = self._mounts_of[device_key][0]
            return self._named.get(mount.source.removeprefix("/dev/"), device_key)
        return device_key


def device_key(numbers: str) -> int:
    """``253:1`` as one number."""
    major, minor = numbers.split(":")
    return integer(major, 12) << 20 | integer(minor, 20)


def device_numbers(key: int) -> str:
    return f"{key >> 20}:{key & 0xFFFFF}"


def unescape(text: str) -> str:
    """A word of mountinfo, in which spaces are ``\\040``."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
