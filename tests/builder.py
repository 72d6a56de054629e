# SPDX-License-Identifier: Apache-2.0
"""What happened on one machine, told event by event, to its trace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from iostrata.trace import layout
from iostrata.trace.fact_files import CGROUP_COLUMNS, CPU_COLUMNS, STACK_COLUMNS, TOPOLOGY_COLUMNS
from iostrata.trace.facts import BlockDevice, Mount, device_numbers
from iostrata.trace.images import OWN, Extent, File
from iostrata.trace.write import (
    as_events,
    begins,
    block_fact,
    fact_text,
    with_fields,
    write_trace,
)


@dataclass
class TraceBuilder:
    """A synthetic trace, told event by event or column by column.

    ``TraceBuilder().add("block_rq_issue", time_ns=5, request_key=1).write(path)``
    """

    env: dict[str, str | int] = field(default_factory=dict)
    packet_events: int = 1000
    unknown: frozenset[str] = frozenset()
    """Points that its recorder does not know."""
    lacking: dict[str, str] = field(default_factory=dict)
    """Points of which it does not know a field yet."""
    _columns: dict[str, list[NDArray[np.void]]] = field(default_factory=dict)
    _rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    _mounts: list[Mount] = field(default_factory=list)
    _blocks: list[BlockDevice] = field(default_factory=list)
    _apic_ids: dict[int, int] = field(default_factory=dict)
    _topology: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    _affinity: list[tuple[int, str]] = field(default_factory=list)
    _stacks: dict[int, tuple[str, ...]] = field(default_factory=dict)
    _cgroups: dict[int, str] = field(default_factory=dict)
    _throttled: dict[int, str] = field(default_factory=dict)
    _vmms: dict[int, str] = field(default_factory=dict)
    _cards: dict[str, str] = field(default_factory=dict)
    _images: dict[File, str] = field(default_factory=dict)
    _backed: list[File] = field(default_factory=list)
    _extents: list[tuple[File, Extent]] = field(default_factory=list)
    _refused: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def add(
        self, point: str, *, time_ns: int, cpu: int = 0, tid: int = 0, **fields: int | str | bytes
    ) -> Self:
        """One event; fields not given are 0."""
        check_fields(point, fields)
        values = {
            name: value.encode() if isinstance(value, str) else value
            for name, value in fields.items()
        }
        self._rows.setdefault(point, []).append(
            {"time_ns": time_ns, "cpu": cpu, "tid": tid, **values}
        )
        return self

    def recorded(self, end_ns: int, field: str, samples: Iterable[tuple[int, int]]) -> Self:
        """By a recorder that counted all that is told until now, and ended by itself.

        ``samples``: when it told what of itself.
        """
        count = sum(len(rows) for rows in self._rows.values())
        for time_ns, value in samples:
            self.add("recorder", time_ns=time_ns, event_count=count, **{field: value})
        return self.add("end", time_ns=end_ns, reason=layout.END_COMMAND)

    def extend(self, point: str, **columns: ArrayLike) -> Self:
        """Many events at once; a scalar stands for all of them."""
        check_fields(point, columns)
        events = as_events(point, columns, layout.DTYPES[point], layout.POINTS[point])
        self._columns.setdefault(point, []).append(events)
        return self

    def refuse(self, point: str, *, time_ns: int, cpu: int = 0, count: int = 1) -> Self:
        """Events that a ring refused: told by the packet and by a ``loss`` event."""
        self._refused.setdefault(cpu, []).append((time_ns, count))
        number = layout.POINTS[point]
        before = max(
            (
                row["lost_count"]
                for row in self._rows.get("loss", [])
                if (row["cpu"], row["lost_point"]) == (cpu, number)
            ),
            default=0,
        )
        return self.add(
            "loss", time_ns=time_ns, cpu=cpu, lost_point=number, lost_count=before + count
        )

    def mount(
        self,
        device_key: int,
        mount_point: str,
        file_system: str,
        source: str = "none",
        options: str = "rw",
        root: str = "/",
    ) -> Self:
        self._mounts.append(Mount(device_key, mount_point, file_system, source, options, root))
        return self

    def block(self, device_key: int, name: str, instead: bool = False, **facts: Any) -> Self:
        """``instead``: of what was said of it before, and not told again."""
        if instead:
            self._blocks = [block for block in self._blocks if block.device_key != device_key]
        self._blocks.append(BlockDevice(device_key, name, **facts))
        return self

    def cpu(self, number: int, apic_id: int) -> Self:
        self._apic_ids[number] = apic_id
        return self

    def lies(self, cpu: int, node: int, package: int, core: int) -> Self:
        """-1: not told."""
        self._topology[cpu] = (node, package, core)
        return self

    def may_run_on(self, tid: int, cpus: str) -> Self:
        self._affinity.append((tid, cpus))
        return self

    def stack(self, number: int, *functions: str) -> Self:
        """From the innermost function."""
        self._stacks[number] = functions
        return self

    def cgroup(self, number: int, path: str) -> Self:
        self._cgroups[number] = path
        return self

    def throttled(self, pid: int, name: str) -> Self:
        self._throttled[pid] = name
        return self

    def vmm(self, pid: int, name: str) -> Self:
        self._vmms[pid] = name
        return self

    def image(self, device_key: int, inode: int, kind: str, backed: bool = False) -> Self:
        self._images[device_key, inode] = kind
        self._backed += [(device_key, inode)] * backed
        return self

    def extent(self, device_key: int, inode: int, extent: Extent) -> Self:
        self._extents.append(((device_key, inode), extent))
        return self

    def card(self, interface: str, driver: str) -> Self:
        self._cards[interface] = driver
        return self

    def write(self, directory: Path) -> Path:
        """The machine's directory, written."""
        facts = {}
        if self._mounts:
            facts["mountinfo"] = "".join(map(mount_line, self._mounts))
        if self._blocks:
            facts["block"] = block_fact(self._blocks)
        if self._apic_ids:
            lines = (f"{cpu}\t{apic_id}" for cpu, apic_id in self._apic_ids.items())
            facts["cpus"] = "\n".join((CPU_COLUMNS, TOPOLOGY_COLUMNS, *lines, ""))
        if self._topology:
            cells = ((cpu, *place) for cpu, place in self._topology.items())
            lines = ("\t".join(str(one) if one >= 0 else "-" for one in row) for row in cells)
            facts["topology"] = "\n".join((TOPOLOGY_COLUMNS, *lines, ""))
        if self._affinity:
            facts["affinity"] = "".join(f"{tid}\t{cpus}\n" for tid, cpus in self._affinity)
        if self._stacks:
            lines = (f"{number}\t{' '.join(names)}" for number, names in self._stacks.items())
            facts["stacks"] = "\n".join((STACK_COLUMNS, *lines, ""))
        if self._cgroups:
            lines = (f"{number}\t{path}" for number, path in self._cgroups.items())
            facts["cgroups"] = "\n".join((CGROUP_COLUMNS, *lines, ""))
        for fact, named in (("throttled", self._throttled), ("vmms", self._vmms)):
            if named:
                facts[fact] = "".join(f"{pid}\t{fact_text(name)}\n" for pid, name in named.items())
        if self._images:
            lines = (f"{dev}\t{inode}\t{kind}\n" for (dev, inode), kind in self._images.items())
            facts["images"] = "".join(lines)
            facts["backed"] = "".join(f"{dev}\t{inode}\n" for dev, inode in self._backed)
        if self._extents:
            facts["image_maps"] = "".join(extent_line(*one) for one in self._extents)
        if self._cards:
            facts["cards"] = "".join(f"{name}\t{driver}\n" for name, driver in self._cards.items())
        refused = {cpu: sorted(rows) for cpu, rows in self._refused.items()}
        write_trace(
            directory,
            self._events(),
            env=self.env,
            facts=facts,
            discarded=refused,
            packet_events=self.packet_events,
            points={name: n for name, n in layout.POINTS.items() if name not in self.unknown},
            dtypes=layout.DTYPES | {name: self._known(name) for name in self.lacking},
        )
        return directory

    def _known(self, point: str) -> np.dtype[np.void]:
        dtype = layout.DTYPES[point]
        names = [name for name in dtype.names or () if name != self.lacking[point]]
        return with_fields(dtype, names)

    def _events(self) -> dict[str, NDArray[np.void]]:
        parts = {point: list(arrays) for point, arrays in self._columns.items()}
        for point, rows in self._rows.items():
            told = np.zeros(len(rows), layout.DTYPES[point])
            for index, row in enumerate(rows):
                for name, value in row.items():
                    told[name][index] = value
                for name in begins(point, told.dtype) - row.keys():
                    told[name][index] = row["time_ns"]
            parts.setdefault(point, []).append(told)
        events = {point: np.concatenate(arrays) for point, arrays in parts.items()}
        older = {point: events[point][[*(self._known(point).names or ())]]
                 for point in self.lacking if point in events}  # fmt: skip
        return events | older


def check_fields(point: str, fields: Mapping[str, object]) -> None:
    unknown = set(fields) - set(layout.DTYPES[point].names or ())
    if unknown:
        raise ValueError(f"{point} has no field {', '.join(sorted(unknown))}")


def mount_line(mount: Mount) -> str:
    root, point, source = (
        text.replace("\\", "\\134").replace(" ", "\\040")
        for text in (mount.root, mount.mount_point, mount.source)
    )
    return (
        f"1 1 {device_numbers(mount.device_key)} {root} {point} {mount.options} - "
        f"{mount.file_system} {source} {mount.options}\n"
    )


def extent_line(file: File, extent: Extent) -> str:
    offset = OWN if extent.offset_bytes < 0 else extent.offset_bytes
    cells = (extent.time_ns, *file, offset, extent.size_bytes, extent.place_bytes)
    return "\t".join(map(str, cells)) + "\n"
