# SPDX-License-Identifier: Apache-2.0
"""The words of bpf/iostrata.bt: what a line of its output says, and of which point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from iostrata.trace import count
from iostrata.trace.layout import (
    CALL_FDATASYNC,
    CALL_FSYNC,
    CALL_MSYNC,
    CALL_PWRITE64,
    CALL_PWRITEV,
    CALL_PWRITEV2,
    CALL_SYNC,
    CALL_SYNC_FILE_RANGE,
    CALL_SYNCFS,
    CALL_WRITE,
    CALL_WRITEV,
)

VERSION: Final = 1
NAME: Final = "iostrata.bt"
HEAD: Final = ("number", "cpu", "tid", "time_ns")
"""Of each line that has an event, behind its word. ``number``: of the line on its CPU, from 0."""
HEAD_BITS: Final = (40, 16, 31, 60)


@dataclass(frozen=True)
class Word:
    """``cells``: what follows the head, by name. ``fixed``: what the word itself says.

    ``earlier``: which of the cells are times, none after the line's own; of ``perhaps``, 0 is
    none.
    """

    point: str
    cells: Mapping[str, Callable[[str], int]]
    fixed: Mapping[str, int] = field(default_factory=dict)
    earlier: tuple[str, ...] = ()
    perhaps: tuple[str, ...] = ()


def decimal(bits: int) -> Callable[[str], int]:
    return lambda cell: count(cell, bits)


def hexadecimal(bits: int) -> Callable[[str], int]:
    def parse(cell: str) -> int:
        if len(cell) * 4 > bits or not cell.isalnum():
            raise ValueError(cell)
        return int(cell, 16)

    return parse


def signed(bits: int) -> Callable[[str], int]:
    def parse(cell: str) -> int:
        return -count(cell[1:], bits) if cell.startswith("-") else count(cell, bits)

    return parse


def sector(cell: str) -> int:
    """-1: that of what has none, which the kernel tells as its greatest number."""
    return -1 if cell == str((1 << 64) - 1) else count(cell, 47)


# Places of a request's or bio's flags, of linux/blk_types.h.
SYNC, META, FUA, PREFLUSH, RAHEAD = 1 << 11, 1 << 12, 1 << 17, 1 << 18, 1 << 19
OPERATIONS: Final = {"R": 0, "W": 1, "F": 2, "D": 3, "DE": 5, "WZ": 9, "N": 34}
BEHIND: Final = {"F": FUA, "A": RAHEAD, "S": SYNC, "M": META, "U": 0}


def letters(cell: str) -> int:
    """The flags that the kernel writes as letters (blk_fill_rwbs of kernel/trace/blktrace.c)."""
    asked = 0
    if len(cell) > 1 and cell[0] == "F" and cell[1] in "WDFN":
        asked, cell = PREFLUSH, cell[1:]
    name = next((name for name in ("DE", "WZ", *OPERATIONS) if cell.startswith(name)), None)
    if name is None:
        raise ValueError(cell)
    flags = OPERATIONS[name] | asked
    for letter in cell[len(name) :]:
        if letter not in BEHIND:
            raise ValueError(cell)
        flags |= BEHIND[letter]
    return flags


_NS, _KEY, _TID = decimal(60), decimal(32), decimal(31)
_CALLS: Final = {
    "write": CALL_WRITE,
    "writev": CALL_WRITEV,
    "pwrite64": CALL_PWRITE64,
    "pwritev": CALL_PWRITEV,
    "pwritev2": CALL_PWRITEV2,
    "fsync": CALL_FSYNC,
    "fdatasync": CALL_FDATASYNC,
    "sync_file_range": CALL_SYNC_FILE_RANGE,
    "syncfs": CALL_SYNCFS,
    "msync": CALL_MSYNC,
    "sync": CALL_SYNC,
}


def _of_call(number: int) -> dict[str, int]:
    """Only of a range is it told where."""
    placed = number == CALL_SYNC_FILE_RANGE
    return {"call": number} | ({} if placed else {"offset_bytes": -1})


_OF_CALL: Final = {
    "enter_ns": _NS,
    "tgid": _TID,
    "dev": _KEY,
    "inode": decimal(63),
    "open_flags": hexadecimal(32),
    "rwf": hexadecimal(32),
    "offset_bytes": signed(63),
    "size_bytes": signed(63),
    "result": signed(63),
}
_PLACE: Final = {"dev": _KEY, "sector": sector, "sectors": decimal(32), "flags": letters}
_COMMIT: Final = {"dev": _KEY, "transaction": _KEY, "synchronous": decimal(8)}
_COMMIT_POINTS: Final = (
    "jbd2_start_commit",
    "jbd2_commit_locking",
    "jbd2_commit_flushing",
    "jbd2_commit_logging",
    "jbd2_end_commit",
)

WORDS: Final[Mapping[str, Word]] = {
    **{
        f"sys_exit_{name}": Word("syscall", _OF_CALL, _of_call(number), ("enter_ns",))
        for name, number in _CALLS.items()
    },
    "ext4_sync_file": Word(
        "ext4_sync_file",
        {
            "enter_ns": _NS,
            "dev": _KEY,
            "inode": decimal(63),
            "datasync": decimal(1),
            "result": signed(31),
        },
        earlier=("enter_ns",),
    ),
    "xfs_file_fsync": Word("xfs_file_fsync", {"dev": _KEY, "inode": decimal(63)}),
    **{name: Word(name, _COMMIT) for name in _COMMIT_POINTS},
    "sched_resume": Word(
        "sched_resume",
        {
            "off_ns": _NS,
            "state": decimal(32),
            "wake_ns": _NS,
            "waker_tid": _TID,
            "waker_cpu": decimal(16),
        },
        earlier=("off_ns",),
        perhaps=("wake_ns",),
    ),
    "block_bio_queue": Word("block_bio_queue", {**_PLACE, "kernel_thread": decimal(1)}),
    "block_split": Word(
        "block_split", {"dev": _KEY, "sector": sector, "new_sector": sector, "flags": letters}
    ),
    "block_bio_remap": Word("block_bio_remap", {**_PLACE, "old_dev": _KEY, "old_sector": sector}),
    **{
        name: Word(name, _PLACE)
        for name in ("block_rq_issue", "block_rq_requeue", "block_rq_complete")
    },
    "block_bio_complete": Word("block_bio_complete", _PLACE),
}

THREAD: Final = "thread"
NAME_DIGITS: Final = 32
"""A thread's name, and its process's, in hexadecimal."""

# Lines of BEGIN, END and bpftrace itself.
FACTS: Final = ("hostname", "kernel_release", "boot_id", "cpus")
PARTITIONS: Final = "partitions"
MOUNTS: Final = "mountinfo"
BEGUN: Final = "begun"
END: Final = "end"
