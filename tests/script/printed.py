# SPDX-License-Identifier: Apache-2.0
"""A synthetic world's events as bpf/iostrata.bt would print them.

It has none of what the importer knows: the letters are those of the kernel's blk_fill_rwbs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

from tests.synthetic import CALLS, FUA, META, NO_SECTOR, PREFLUSH, SYNC, World

NAMES = {number: name for name, number in CALLS.items()}
BEGIN = """\
Attaching 50 probes...
iostrata.bt 1 1000 1790000000.250000
hostname db1
kernel_release 6.1.0-13-amd64
boot_id 08b87fe8-3163-409b-b350-49916532f682
cpus 0-3
partitions
major minor  #blocks  name

 254        0  268435456 vda
 254        1  268435455 vda1
 259        0     500000 nvme0n1
 259        1     400000 nvme0n1p1
mountinfo
27 1 254:0 / / rw,relatime - ext4 /dev/vda rw
28 1 254:1 / /data rw,relatime - ext4 /dev/vda1 rw
begun
"""


def printed(world: World, *, shuffled: Random | None = None, lost: str = "") -> str:
    """The whole output; ``lost``: one event of that point is missing in it."""
    rows = [(row["time_ns"], point, row) for point, rows in _rows(world) for row in rows]
    rows.sort(key=lambda each: each[0])
    last: Counter[int] = Counter()
    lines = []
    for _, point, row in rows:
        number = last[row["cpu"]]
        last[row["cpu"]] += 1
        if point == lost:
            lost = ""
            continue
        head = f"{number} {row['cpu']} {row['tid']} {row['time_ns']}"
        word, cells = _told(point, row)
        lines.append(" ".join((word, head, *map(str, cells))))
    if shuffled:
        shuffled.shuffle(lines)
    ends = [f"end {rows[-1][0] + 1000}", "", *(f"@n[{cpu}]: {n}" for cpu, n in last.items())]
    return BEGIN + "\n".join([*lines, *ends, ""])


def _rows(world: World) -> list[tuple[str, list[dict[str, Any]]]]:
    return [(point, rows) for point, rows in world.builder._rows.items() if point != "loss"]


def _told(point: str, row: Mapping[str, Any]) -> tuple[str, list[object]]:
    if point == "syscall":
        flags, rwf = (f"{row[name]:x}" for name in ("open_flags", "rwf"))
        word = f"tracepoint:syscalls:sys_exit_{NAMES[row['call']]}"
        return word, [row["enter_ns"], row["tgid"], row["dev"], row["inode"], flags, rwf,
                      row["offset_bytes"], row["size_bytes"], row["result"]]  # fmt: skip
    if point == "thread":
        comm = row["comm"].ljust(16, b"\0").hex(" ")
        return "thread", [row["tgid"], row["kind"], comm, comm]
    if point == "sched_resume":
        slept = ("off_ns", "state", "wake_ns", "waker_tid")
        return point, [*(row[name] for name in slept), row.get("waker_cpu", 0)]
    if point == "ext4_sync_file":
        cells = ("enter_ns", "dev", "inode", "datasync", "result")
        return point, [row[name] for name in cells]
    if point.startswith("jbd2_"):
        return f"tracepoint:jbd2:{point}", [row["dev"], row["transaction"], row["synchronous"]]
    return _of_block(point, row)


def _of_block(point: str, row: Mapping[str, Any]) -> tuple[str, list[object]]:
    own = (row["flags"] & 0xFF) == 2
    sector = row["sector"]
    if own and point != "block_rq_complete":
        assert sector == NO_SECTOR
        sector = 0
    cells = [row["dev"], sector, row["size_bytes"] // 512, letters(row["flags"])]
    if point == "block_bio_queue":
        return point, [*cells, row["kernel_thread"]]
    return f"tracepoint:block:{point}", cells


def letters(flags: int) -> str:
    first = "F" if flags & PREFLUSH else ""
    operation = {0: "R", 1: "W", 2: "F", 3: "D"}[flags & 0xFF]
    behind = "".join(
        letter for flag, letter in ((FUA, "F"), (SYNC, "S"), (META, "M")) if flags & flag
    )
    return f"{first}{operation}{behind}"
