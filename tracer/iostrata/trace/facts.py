# SPDX-License-Identifier: Apache-2.0
"""A machine's facts: the text files beside its trace to mounts, block devices and clocks.

``device_key`` is the kernel's own encoding everywhere: major << 20 | minor.
A fact that was not recorded is missing, never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from iostrata.foreign import shown
from iostrata.trace.cells import count, integer
from iostrata.trace.clocks import (
    EXCHANGE_COLUMNS,
    Exchange,
    TscOffset,
    exchange_of,
    parse_exchange,
    parse_tsc,
)
from iostrata.trace.echo import ECHOES, HEAD, Echo, parse_echo
from iostrata.trace.files import MOST_FACT_BYTES, read_small

ABSENT = "-"
BLOCK_COLUMNS = (
    "dev",
    "name",
    "parent_dev",
    "scheduler",
    "write_cache",
    "fua",
    "rotational",
    "logical_block_size",
    "backing",
    "lower_devs",
    "backing_inode",
    "transport",
    "queue_limits",
)
CPU_COLUMNS = ("cpu", "apic_id")
CPU_BITS = 16
"""No kernel has more CPUs: there is a row for each below the last."""
OVERLAY_COLUMNS = ("dev", "upper_dev")
STACK_COLUMNS = "stack\tfunctions"
CGROUP_COLUMNS = "cgroup\tpath"


@dataclass(frozen=True)
class Mount:
    """``root``: which part of its file system is mounted."""

    device_key: int
    mount_point: str
    file_system: str
    source: str
    options: str
    root: str = "/"

    def holds(self, path: str) -> bool:
        """Whether a path is below the mount point."""
        return path == self.mount_point or path.startswith(self.mount_point.rstrip("/") + "/")


@dataclass(frozen=True)
class BlockDevice:
    """``parent_key``: the whole disk of a partition, else 0. ``lower_keys``: what it is stacked on.

    ``write_cache``: ``write back`` or ``write through``; ``backing``: a loop
    device's file, ``backing_inode`` its number. ``transport``: by what a disk of NVMe or SCSI is
    reached: ``pcie``, ``tcp``, ``rdma``, ``fc``, ``loop``, ``iscsi``. ``queue_limits``: which
    of ``wbt`` and ``io.cost`` may hold a request back. Empty text or None: not recorded.
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


@dataclass(frozen=True)
class Facts:
    """``apic_ids``: of each CPU that was online; empty: not recorded, or there are none.

    ``overlays``: of each overlay that was met, the file system that its changes go to.
    ``cgroups``: the path of each control group of version 2 that was met, by its id.
    ``stacks``: the functions of each of the kernel's stacks that a thread slept in, from the
    innermost; empty: not recorded. ``least_rtt_us``: of each connection (client's port << 16 |
    server's) of an NFS mount, what TCP knew when the recording ended. ``echoes``: as they were
    sent; empty: it was not asked for them. ``throttled``: the name of each QEMU whose command line
    limits a disk, by its process; empty where it has none.
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

    def disk_of(self, device_key: int) -> int:
        """The whole disk that a partition, or a file system, is on; anything else is its own."""
        key = self._block_of(device_key)
        block = self.blocks.get(key)
        return block.parent_key if block and block.parent_key else key

    def file_system(self, device_key: int) -> str:
        """``ext4``: what the superblock of this device is of; ``unknown`` if nobody mounted it."""
        types = (mount.file_system for mount in self.mounts if mount.device_key == device_key)
        return next(types, "overlay" if device_key in self.overlays else "unknown")

    def file_system_name(self, device_key: int) -> str:
        """The same, and where an overlay writes to: ``overlay (ext4)``."""
        kind = self.file_system(device_key)
        upper = self._written_by_overlay(device_key) if kind == "overlay" else []
        return f"{kind} ({self.file_system(upper[0])})" if upper else kind

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
        return found

    def _written_by_overlay(self, device_key: int) -> list[int]:
        """The file system that an overlay's changes go to."""
        if device_key in self.overlays:
            return [self.overlays[device_key]]
        options = (mount.options for mount in self.mounts if mount.device_key == device_key)
        upper = re.search(r"(?:^|,)upperdir=([^,]+)", next(options, ""))
        if not upper:
            return []
        directory = PurePosixPath(unescape(upper[1]))
        holding = [
            mount
            for mount in self.mounts
            if directory.is_relative_to(mount.mount_point) and mount.device_key != device_key
        ]
        deepest = sorted(holding, key=lambda mount: len(mount.mount_point))[-1:]
        return [mount.device_key for mount in deepest]

    def path_of(self, device_key: int, path: str) -> str:
        """Of a path in the file system of a device, where it is mounted: ``/mnt/wal/1``.

        Of several mounts the one of the largest part; ``vdb:/wal/1`` where there is none, or
        ``overlay 0:39:/wal/1``.
        """
        mounts = [mount for mount in self.mounts if mount.device_key == device_key]
        for mount in sorted(mounts, key=lambda mount: len(mount.root)):
            root = mount.root.rstrip("/")
            if path == mount.root or path.startswith(root + "/"):
                return mount.mount_point.rstrip("/") + path.removeprefix(root) or "/"
        if device_key in self.overlays:
            return f"overlay {device_numbers(device_key)}:{path}"
        return f"{self.device_name(device_key)}:{path}"

    def device_name(self, device_key: int) -> str:
        """``vda1``, or ``253:1`` where the device's name was not recorded."""
        block = self.blocks.get(self._block_of(device_key))
        return block.name if block else device_numbers(device_key)

    def _block_of(self, device_key: int) -> int:
        """The block device below a file system that has a number of its own (btrfs, overlay)."""
        seen: set[int] = set()
        while device_key not in self.blocks and device_key not in seen:
            seen.add(device_key)
            if upper := self.overlays.get(device_key):
                device_key = upper
                continue
            mount = next((m for m in self.mounts if m.device_key == device_key), None)
            if mount is None:
                return device_key
            device_key = self._held_by(mount) or device_key
        return device_key

    def _held_by(self, mount: Mount) -> int | None:
        if mount.file_system == "overlay":
            # What is written goes to the file system of the upper directory.
            upper = re.search(r"upperdir=([^,]*)", mount.options)
            held = [m for m in self.mounts if upper and m is not mount and m.holds(upper[1])]
            return max(held, key=lambda m: len(m.mount_point)).device_key if held else None
        name = mount.source.removeprefix("/dev/")
        return next((key for key, block in self.blocks.items() if block.name == name), None)


def device_key(numbers: str) -> int:
    """``253:1`` as one number."""
    major, minor = numbers.split(":")
    return integer(major, 12) << 20 | integer(minor, 20)


def device_numbers(key: int) -> str:
    return f"{key >> 20}:{key & 0xFFFFF}"


def read_facts(directory: Path) -> tuple[Facts, list[str]]:
    """The facts, and one line for each that cannot be understood."""
    defects: list[str] = []
    mounts: list[Mount] = []
    blocks: dict[int, BlockDevice] = {}
    for number, line in read_lines(directory / "mountinfo", defects):
        try:
            mounts.append(parse_mount(line))
        except (ValueError, IndexError):
            defects.append(f"facts/mountinfo: line {number} is no mount")
    columns: list[str] = []
    for number, line in read_lines(directory / "block", defects):
        if not columns:
            columns = line.split("\t")
            continue
        try:
            block = parse_block(columns, line)
            blocks[block.device_key] = block
        except (ValueError, KeyError):
            defects.append(f"facts/block: line {number} is no block device")
    facts = Facts(
        mounts=tuple(mounts),
        blocks=blocks,
        apic_ids=read_apic_ids(directory, defects),
        tsc=read_tsc(directory, defects),
        exchange=read_exchange(directory, defects),
        stacks=read_stacks(directory, defects),
        cgroups=read_cgroups(directory, defects),
        least_rtt_us=read_least_rtt(directory, defects),
        echoes=tuple(read_echoes(directory, defects)),
        overlays=read_overlays(directory, defects),
        throttled=read_throttled(directory, defects),
    )
    return facts, defects


def read_echoes(directory: Path, defects: list[str]) -> Iterator[Echo]:
    for number, line in read_lines(directory / ECHOES, defects):
        if line == HEAD:
            continue
        try:
            yield parse_echo(line)
        except ValueError:
            defects.append(f"facts/{ECHOES}: line {number} is no echo")


def read_least_rtt(directory: Path, defects: list[str]) -> dict[int, int]:
    least = {}
    columns: list[str] = []
    for number, line in read_lines(directory / "connections", defects):
        if not columns:
            columns = line.split("\t")
            continue
        try:
            row = dict(zip(columns, line.split("\t"), strict=True))
            if row["min_rtt_us"] != ABSENT:
                connection = integer(row["local_port"], 16) << 16 | integer(row["port"], 16)
                least[connection] = integer(row["min_rtt_us"], 32)
        except (ValueError, KeyError):
            defects.append(f"facts/connections: line {number} is no connection")
    return least


def read_apic_ids(directory: Path, defects: list[str]) -> dict[int, int]:
    ids = {}
    for number, line in read_lines(directory / "cpus", defects):
        if line.split() == list(CPU_COLUMNS):
            continue
        try:
            cpu, apic_id = line.split()
            ids[count(cpu, CPU_BITS)] = count(apic_id, 32)
        except ValueError:
            defects.append(f"facts/cpus: line {number} is no CPU")
    return ids


def read_overlays(directory: Path, defects: list[str]) -> dict[int, int]:
    overlays = {}
    for number, line in read_lines(directory / "overlays", defects):
        if line.split("\t") == list(OVERLAY_COLUMNS):
            continue
        try:
            overlay, upper = (integer(cell, 32) for cell in line.split("\t"))
            overlays[overlay] = upper
        except ValueError:
            defects.append(f"facts/overlays: line {number} is no overlay")
    return overlays


def read_stacks(directory: Path, defects: list[str]) -> dict[int, tuple[str, ...]]:
    stacks = {}
    for number, line in read_lines(directory / "stacks", defects):
        if line == STACK_COLUMNS:
            continue
        stack, _, functions = line.partition("\t")
        if not re.fullmatch(r"[0-9]{1,10}", stack):
            defects.append(f"facts/stacks: line {number} is no stack")
            continue
        stacks[int(stack)] = tuple(functions.split())
    return stacks


def read_cgroups(directory: Path, defects: list[str]) -> dict[int, str]:
    cgroups = {}
    for number, line in read_lines(directory / "cgroups", defects):
        if line == CGROUP_COLUMNS:
            continue
        cgroup, _, path = line.partition("\t")
        if not cgroup.isdecimal():
            defects.append(f"facts/cgroups: line {number} is no control group")
            continue
        cgroups[int(cgroup)] = path
    return cgroups


def read_throttled(directory: Path, defects: list[str]) -> dict[int, str]:
    throttled = {}
    for number, line in read_lines(directory / "throttled", defects):
        pid, tab, name = line.partition("\t")
        try:
            if not tab:
                raise ValueError
            throttled[integer(pid, 32)] = "" if name == ABSENT else shown(name)
        except ValueError:
            defects.append(f"facts/throttled: line {number} is no virtual machine")
    return throttled


def read_tsc(directory: Path, defects: list[str]) -> tuple[TscOffset, ...]:
    offsets = []
    for number, line in read_lines(directory / "tsc", defects):
        try:
            offsets.append(parse_tsc(line))
        except ValueError:
            defects.append(f"facts/tsc: line {number} is no virtual CPU's offset")
    return tuple(offsets)


def read_exchange(directory: Path, defects: list[str]) -> Exchange:
    rows = []
    for number, line in read_lines(directory / "exchange", defects):
        if line.split() == list(EXCHANGE_COLUMNS):
            continue
        try:
            rows.append(parse_exchange(line))
        except ValueError:
            defects.append(f"facts/exchange: line {number} is no exchange of clocks")
    return exchange_of(rows)


def read_lines(path: Path, defects: list[str]) -> Iterator[tuple[int, str]]:
    """Each line that is not empty, with its number; nothing where there is no such file."""
    try:
        text = read_small(path, MOST_FACT_BYTES).decode(errors="surrogateescape")
    except FileNotFoundError:
        return
    except OSError as error:
        defects.append(f"facts/{path.name}: cannot be read ({error.strerror})")
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line:
            yield number, line


def parse_mount(line: str) -> Mount:
    """One line of /proc/PID/mountinfo (proc_pid_mountinfo(5))."""
    before, _, after = line.partition(" - ")
    mount, kind = before.split(" "), after.split(" ")
    return Mount(
        device_key(mount[2]), unescape(mount[4]), shown(kind[0]), unescape(kind[1]), kind[2],
        unescape(mount[3]),
    )  # fmt: skip


def unescape(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)


def parse_block(columns: list[str], line: str) -> BlockDevice:
    values = dict(zip(columns, line.split("\t"), strict=True))
    known = {name: value for name, value in values.items() if value != ABSENT}
    lower = known.get("lower_devs", "")
    return BlockDevice(
        device_key=integer(values["dev"], 32),
        name=shown(values["name"]),
        parent_key=integer(known.get("parent_dev", "0"), 32),
        scheduler=known.get("scheduler", ""),
        write_cache=known.get("write_cache", ""),
        fua=boolean(known.get("fua")),
        rotational=boolean(known.get("rotational")),
        logical_block_bytes=integer(known["logical_block_size"], 32)
        if "logical_block_size" in known
        else None,
        backing=known.get("backing", ""),
        lower_keys=tuple(integer(key, 32) for key in lower.split(",") if key),
        backing_inode=integer(known["backing_inode"], 64) if "backing_inode" in known else None,
        transport=shown(known.get("transport", "")),
        queue_limits=tuple(shown(one) for one in known.get("queue_limits", "").split(",") if one),
    )


def boolean(text: str | None) -> bool | None:
    return None if text is None else text == "1"
