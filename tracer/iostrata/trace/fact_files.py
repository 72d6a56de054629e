# SPDX-License-Identifier: Apache-2.0
"""The text files beside a trace in, the machine's facts and what is wrong with the files out.

A line that cannot be understood is left out, and a file with any is one defect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Final, TypeVar

from iostrata.foreign import shown
from iostrata.trace.cells import count, integer
from iostrata.trace.clocks import EXCHANGE_COLUMNS, exchange_of, parse_exchange, parse_tsc
from iostrata.trace.echo import ECHOES, HEAD, parse_echo
from iostrata.trace.facts import (
    BlockDevice,
    CpuPlace,
    Facts,
    Mount,
    Passthrough,
    Striping,
    device_key,
    unescape,
)
from iostrata.trace.files import MOST_FACT_BYTES, read_small
from iostrata.trace.images import by_file, parse_extent, parse_file, parse_image

Parsed = TypeVar("Parsed")

ABSENT = "-"
MISSING: Final = "it is missing, or cannot be read"
EMPTY: Final = "it is empty"
ALWAYS: Final = ("block", "mountinfo")
"""Of a machine without disks the one has its head, at least."""
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
    "pci",
    "store_devs",
    "striping",
)
CPU_COLUMNS = "cpu\tapic_id"
CPU_BITS = 16
"""No kernel has more CPUs: there is a row for each below the last."""
TOPOLOGY_COLUMNS = "cpu\tnode\tpackage\tcore"
OVERLAY_COLUMNS = "dev\tupper_dev"
STACK_COLUMNS = "stack\tfunctions"
CGROUP_COLUMNS = "cgroup\tpath"


def read_facts(directory: Path) -> tuple[Facts, list[str]]:
    """The facts, and one line for each file that cannot be understood, or not all of it."""
    files = _Files(directory)
    mounts = files.lines("mountinfo", "mount", parse_mount)
    blocks = files.table("block", "block device", parse_block)
    facts = Facts(
        mounts=tuple(mounts),
        blocks=_by_key(blocks),
        apic_ids=dict(files.lines("cpus", "CPU", _cpu, CPU_COLUMNS)),
        tsc=tuple(files.lines("tsc", "virtual CPU's offset", parse_tsc)),
        exchange=exchange_of(
            files.lines("exchange", "exchange of clocks", parse_exchange, EXCHANGE_COLUMNS)
        ),
        stacks=dict(files.lines("stacks", "stack", _stack, STACK_COLUMNS)),
        cgroups=dict(files.lines("cgroups", "control group", _cgroup, CGROUP_COLUMNS)),
        least_rtt_us=dict(filter(None, files.table("connections", "connection", _least_rtt))),
        echoes=tuple(files.lines(ECHOES, "echo", parse_echo, HEAD)),
        overlays=dict(files.lines("overlays", "overlay", _overlay, OVERLAY_COLUMNS)),
        throttled=dict(files.lines("throttled", "virtual machine", _vmm)),
        vmms=dict(files.lines("vmms", "virtual machine", _vmm)),
        images=dict(files.lines("images", "image", parse_image)),
        backed=frozenset(files.lines("backed", "image over another", parse_file)),
        image_maps=by_file(files.lines("image_maps", "range of an image", parse_extent)),
        cards=dict(files.lines("cards", "network card", _card)),
        topology=dict(files.lines("topology", "CPU", _cpu_place, TOPOLOGY_COLUMNS)),
        affinity=_allowed(files.lines("affinity", "thread's CPUs", _affinity)),
        passthrough=tuple(files.lines("passthrough", "disk of a guest's own", _passthrough)),
    )
    return facts, files.defects


def absent_facts(directory: Path) -> list[str]:
    """A line for each of the files that every recorder writes, and that is not there.

    What is in their place and cannot be read, ``read_facts`` tells.
    """
    found = {name: _size(directory / name) for name in ALWAYS}
    return [f"facts/{name}: {EMPTY if size == 0 else MISSING}" for name, size in found.items()
            if not size]  # fmt: skip


def _size(path: Path) -> int | None:
    """None: there is no such file."""
    return path.stat().st_size if path.exists() else None


class _Files:
    """Those of a directory; ``defects``: of the ones read so far."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.defects: list[str] = []

    def lines(
        self, name: str, what: str, parse: Callable[[str], Parsed], head: str = ""
    ) -> list[Parsed]:
        """What each line says, but for the head."""
        lines = read_lines(self._directory / name, self.defects)
        return self._parsed(name, what, parse, ((n, line) for n, line in lines if line != head))

    def table(
        self, name: str, what: str, parse: Callable[[Mapping[str, str]], Parsed]
    ) -> list[Parsed]:
        """What each row says, by the names of the columns, which are in the first line."""
        lines = read_lines(self._directory / name, self.defects)
        columns = next(lines, (0, ""))[1].split("\t")

        def parse_row(line: str) -> Parsed:
            return parse(dict(zip(columns, line.split("\t"), strict=True)))

        return self._parsed(name, what, parse_row, lines)

    def _parsed(
        self, name: str, what: str, parse: Callable[[str], Parsed], lines: Iterable[tuple[int, str]]
    ) -> list[Parsed]:
        found, broken = [], []
        for number, line in lines:
            try:
                found.append(parse(line))
            except (ValueError, KeyError, IndexError):
                broken.append(number)
        if broken:
            more = len(broken) - 1
            others = f", nor {'is one' if more == 1 else f'are {more}'} more" if more else ""
            self.defects.append(f"facts/{name}: line {broken[0]} is no {what}{others}")
        return found


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


def _by_key(blocks: Iterable[BlockDevice]) -> dict[int, BlockDevice]:
    """A device that is told again was put onto something while it was recorded, or is another.

    Device mapper's are on all that they ever were on: their bios, or requests, say as a rule which
    of it each is for. If it was not a loop device's first file, nobody knows what it was on when:
    on nothing that is known.
    """
    found: dict[int, BlockDevice] = {}
    for block in blocks:
        before = found.get(block.device_key)
        if before is None:
            found[block.device_key] = block
        elif not (before.lower_keys or before.moved):
            put = block.lower_keys and block.name == before.name
            found[block.device_key] = block if put else _either(before, block)
        elif before.backing or block.backing or not before.lower_keys:
            found[block.device_key] = replace(
                before, backing="", backing_inode=None, lower_keys=(), moved=True
            )
        else:
            found[block.device_key] = _on_both(before, block)
    return found


def _either(before: BlockDevice, after: BlockDevice) -> BlockDevice:
    """Two that had one number, one after the other: which one it was when is not known."""
    names = dict.fromkeys((*before.name.split(" or "), after.name))
    of_both = {
        each.name: getattr(after, each.name)
        for each in fields(BlockDevice)
        if getattr(after, each.name) == getattr(before, each.name)
    }
    of_both |= {"name": " or ".join(names), "lower_keys": after.lower_keys, "shared": True}
    return BlockDevice(**of_both)


def _on_both(before: BlockDevice, after: BlockDevice) -> BlockDevice:
    """One that has only lost or gained a part (a path, a mirror) has not moved."""
    fewer, more = sorted(({*before.lower_keys}, {*after.lower_keys}), key=len)
    every = dict.fromkeys((*before.lower_keys, *after.lower_keys))
    moved = before.moved or not fewer or not fewer <= more
    striping = before.striping if before.striping == after.striping else ()
    return replace(before, lower_keys=tuple(every), striping=striping, moved=moved)


def parse_block(values: Mapping[str, str]) -> BlockDevice:
    known = {name: value for name, value in values.items() if value != ABSENT}
    lower, stores = known.get("lower_devs", ""), known.get("store_devs", "")
    key = integer(values["dev"], 32)
    return BlockDevice(
        device_key=key,
        name=shown(values["name"]),
        parent_key=integer(known.get("parent_dev", "0"), 32),
        scheduler=shown(known.get("scheduler", "")),
        write_cache=shown(known.get("write_cache", "")),
        fua=_boolean(known.get("fua")),
        rotational=_boolean(known.get("rotational")),
        logical_block_bytes=integer(known["logical_block_size"], 32)
        if "logical_block_size" in known
        else None,
        backing=known.get("backing", ""),
        lower_keys=tuple(integer(key, 32) for key in lower.split(",") if key),
        backing_inode=integer(known["backing_inode"], 64) if "backing_inode" in known else None,
        transport=shown(known.get("transport", "")),
        queue_limits=tuple(shown(one) for one in known.get("queue_limits", "").split(",") if one),
        pci=shown(known.get("pci", "")),
        store_keys=tuple(integer(key, 32) for key in stores.split(",") if key),
        striping=tuple(
            _striping(part, key) for part in known.get("striping", "").split(";") if part
        ),
    )


def _striping(text: str, device: int) -> Striping:
    """chunk,disks,dev+begin,dev+begin..@first+count, of a device that is none of its disks."""
    layout, _, part = text.partition("@")
    chunk, disks, *begins = layout.split(",")
    told = [begin.split("+") for begin in begins]
    first, length = part.split("+") if part else ("0", "0")
    found = Striping(
        count(chunk, 32),
        count(disks, 16),
        tuple((count(dev, 32), count(begin, 62)) for dev, begin in told),
        count(first, 62),
        count(length, 62),
    )
    keys = {device, *(key for key, _ in found.begins)}
    if not found.disks or len(keys) <= len(found.begins):
        raise ValueError(text)
    return found


def _boolean(text: str | None) -> bool | None:
    return None if text is None else text == "1"


def _cpu(line: str) -> tuple[int, int]:
    cpu, apic_id = line.split()
    return count(cpu, CPU_BITS), count(apic_id, 32)


def _cpu_place(line: str) -> tuple[int, CpuPlace]:
    cpu, *where = line.split("\t")
    node, package, core = (None if cell == ABSENT else count(cell, 31) for cell in where)
    return count(cpu, CPU_BITS), CpuPlace(node, package, core)


def _affinity(line: str) -> tuple[int, str]:
    """0-3,8: in order, and none of them twice."""
    tid, cpus = line.split("\t")
    edges = [count(edge, CPU_BITS) for part in cpus.split(",") for edge in part.split("-", 1)]
    if sorted(set(edges)) != edges:
        raise ValueError(cpus)
    return count(tid, 31), cpus


def _allowed(told: Iterable[tuple[int, str]]) -> dict[int, tuple[str, ...]]:
    """What each thread was told to have, once."""
    found: dict[int, tuple[str, ...]] = {}
    for tid, cpus in told:
        before = found.get(tid, ())
        found[tid] = before if before[-1:] == (cpus,) else (*before, cpus)
    return found


def _stack(line: str) -> tuple[int, tuple[str, ...]]:
    stack, _, functions = line.partition("\t")
    return count(stack, 64), tuple(map(shown, functions.split()))


def _cgroup(line: str) -> tuple[int, str]:
    cgroup, _, path = line.partition("\t")
    return count(cgroup, 64), shown(path)


def _least_rtt(row: Mapping[str, str]) -> tuple[int, int] | None:
    if row["min_rtt_us"] == ABSENT:
        return None
    connection = integer(row["local_port"], 16) << 16 | integer(row["port"], 16)
    return connection, integer(row["min_rtt_us"], 32)


def _card(line: str) -> tuple[str, str]:
    interface, driver = line.split("\t")
    return shown(interface), shown(driver)


def _passthrough(line: str) -> Passthrough:
    pid, address, pci, irqs = line.split("\t")
    return Passthrough(
        integer(pid, 32),
        shown(address),
        shown(pci),
        tuple(integer(irq, 32) for irq in irqs.split(",") if irq),
    )


def _overlay(line: str) -> tuple[int, int]:
    overlay, upper = (integer(cell, 32) for cell in line.split("\t"))
    return overlay, upper


def _vmm(line: str) -> tuple[int, str]:
    pid, tab, name = line.partition("\t")
    if not tab:
        raise ValueError(line)
    return integer(pid, 32), "" if name == ABSENT else shown(name)
