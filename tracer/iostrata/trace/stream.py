# SPDX-License-Identifier: Apache-2.0
"""Streams: what was found in one stream file: the slots of each point, gaps, damage.

A file is an array of 64-byte slots: two for a packet's head, one for each
event. It is mapped, never copied; only slot numbers are kept.
"""

from __future__ import annotations

import mmap
import os
import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from iostrata.errors import RecordingError
from iostrata.foreign import shown
from iostrata.large import in_files
from iostrata.trace.layout import EVENT_BYTES
from iostrata.trace.packet import Data

SPAN_BYTES = 4 << 20
"""How much of a file is looked at between two releases of its pages."""

SINCE_BEGIN = -1
UNTIL_END = (1 << 63) - 1
UNKNOWN_COUNT = -1
RECORDER_STREAM = "recorder"
RECORDER_CPU = 0xFFFF
UNKNOWN_CPU = -1

Slots = NDArray[np.uint32]
Times = NDArray[np.uint64]


@dataclass(frozen=True)
class Gap:
    """A window in which events of a stream are missing; ``count`` -1: nobody knows how many.

    ``total``: how many the CPU had refused at its end.
    """

    begin_ns: int
    end_ns: int
    cpu: int
    count: int
    total: int = 0


class Origin(NamedTuple):
    """The file that was mapped, and what it was then. ``grows``: somebody may record to it."""

    path: str
    status: os.stat_result
    grows: bool = False

    def changed(self) -> bool:
        """Whether it was written to since then. Another one in its place changes nothing."""
        before = self.status
        try:
            now = os.stat(self.path)  # noqa: PTH116 - asked ten thousand times
        except OSError:
            return False
        if now.st_mtime_ns == before.st_mtime_ns and now.st_size == before.st_size:
            return False
        same = now.st_ino == before.st_ino and now.st_dev == before.st_dev
        return same and not (self.grows and now.st_size > before.st_size)


@dataclass
class Stream:
    """One stream file. ``slots``: by point number, where its events are, in file order.

    ``times``: when those were, until they are taken up (``Points``). ``devices``: the different
    ones that the events of a point tell, where that was noted. ``slept``: of events that tell of
    sleeps, where that was noted, who slept and since when (``native.Indexed``), until it is taken
    up. ``kept_bytes``: so much of the file's begin stays mapped while there is memory. ``origin``:
    None, if it is of no file.
    """

    name: str
    cpu: int
    mapped: Data | None = None
    packet_count: int = 0
    event_count: int = 0
    discarded: int = 0
    begin_ns: int = UNTIL_END
    end_ns: int = SINCE_BEGIN
    in_order: bool = True
    slots: dict[int, Slots] = field(default_factory=dict)
    times: dict[int, Times] = field(default_factory=dict)
    devices: dict[int, frozenset[int]] = field(default_factory=dict)
    slept: tuple[NDArray[np.uint32], Times] | None = None
    gaps: list[Gap] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    looked_at: tuple[int, int] | None = None
    kept_bytes: int = 0
    origin: Origin | None = None

    def column(self, fmt: str | np.dtype[Any], offset: int) -> NDArray[Any]:
        """One field of every slot: a strided view of the file."""
        if not self.slot_count:
            return np.empty(0, fmt)
        return np.ndarray((self.slot_count,), fmt, self.mapped, offset, (EVENT_BYTES,))

    @property
    def slot_count(self) -> int:
        return 0 if self.mapped is None else len(self.mapped) // EVENT_BYTES

    def events(self, dtype: np.dtype[np.void]) -> NDArray[np.void]:
        """All slots as events of a type that fills one: a view of the file."""
        return np.frombuffer(self.mapped or b"", dtype, self.slot_count)

    def check(self) -> None:
        """After anything was read. RecordingError: it may be of other events than were found good.

        A file's time changes before its bytes do.
        """
        if self.origin and self.origin.changed():
            raise RecordingError(
                f"{shown(self.origin.path)} was changed while it was read",
                "begin again once nobody changes it",
            )

    def release(self, slots: Slots | NDArray[np.int64], *, stay: bool = False) -> None:
        """Let go of the file's pages: they stay in the page cache, not in this process.

        ``slots``: those looked at since the last call, the outermost first and last. Only what
        reaches over a span is worth it: what is looked at again and again stays. ``stay``: so do
        these themselves, unless they reach over one: others of their time are looked at next.
        """
        if not len(slots):
            return
        own = int(slots[0]), int(slots[-1])
        ends = *own, *(self.looked_at or own)
        self.looked_at = min(ends), max(ends)
        if not _is_far(self.looked_at):
            return
        if stay and not _is_far(own):
            self.looked_at = own
            self._let_go(0, own[0])
            self._let_go(own[1] + 1, self.slot_count)
        else:
            self.looked_at = None
            self._let_go(0, self.slot_count)

    def _let_go(self, first: int, last: int) -> None:
        """Of the pages that are slots' alone, from one to before another, and not kept."""
        begin = max(first * EVENT_BYTES, 0 if in_files() else self.kept_bytes)
        begin = -(-begin // mmap.PAGESIZE) * mmap.PAGESIZE
        end = last * EVENT_BYTES // mmap.PAGESIZE * mmap.PAGESIZE
        if begin < end and isinstance(self.mapped, mmap.mmap):
            self.mapped.madvise(mmap.MADV_DONTNEED, begin, end - begin)


def _is_far(ends: tuple[int, int]) -> bool:
    """Slots that are so far apart that what is between them is let go of."""
    return (ends[1] - ends[0]) * EVENT_BYTES >= SPAN_BYTES


def stream_cpu(name: str) -> int | None:
    """The CPU that a stream file's name stands for; None if it is no stream's name."""
    if name == RECORDER_STREAM:
        return RECORDER_CPU
    match = re.fullmatch(r"cpu_(\d+)(?:\.zst)?", name)
    return int(match[1]) if match else None
