# SPDX-License-Identifier: Apache-2.0
"""Stage trace: the times that events tell besides their own in, which of them cannot be out.

An event is written when what it tells of is over: no other time in it is later. A sum that is
right says that nothing was changed on the way, not that the writer wrote the truth.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata import native

LATEST_NS: Final = 1 << 60
"""No machine runs for 36 years; sums and differences of later times would not fit."""
BEFORE_NS: Final = 60_000_000_000
"""Programs are attached one after the other, and what they see first may have begun then."""
OTHER_CLOCKS: Final = frozenset({"time_ns", "boottime_ns", "realtime_ns"})
DURATIONS: Final = frozenset({"width_ns", "run_ns", "cpu_ns", "throttled_ns", "stolen_ns"})
NO_TIMES: Final = OTHER_CLOCKS | DURATIONS
NEVER_ZERO: Final = frozenset({"enter_ns", "off_ns", "exit_ns", "since_ns"})
"""Fields that are always told, but where one says that there was none, or none was seen."""
DEVICE: Final = "dev"
ZERO_TELLS: Final = frozenset({"aio_complete", "sched_hidden", "syscall_cut"})


@dataclass(frozen=True)
class TimeField:
    """Where in an event; ``zero``: whether 0 says that it is not known."""

    offset: int
    zero: bool


@dataclass(frozen=True)
class Expected:
    """What is known of a trace before its events are looked at.

    ``fields``: by point number. ``begin_ns``: of its first packet. ``devices``: by point number,
    where in an event its device is. ``slept``: which events tell of sleeps.
    """

    fields: Mapping[int, tuple[TimeField, ...]] = field(default_factory=dict)
    begin_ns: int = 0
    devices: Mapping[int, int] = field(default_factory=dict)
    slept: native.Slept = native.NOBODY_SLEPT


def time_fields(
    points: Mapping[str, int], dtypes: Mapping[str, np.dtype[np.void]]
) -> dict[int, tuple[TimeField, ...]]:
    """Of each point that has any."""
    found = {
        number: tuple(
            TimeField(offset, name not in NEVER_ZERO or point in ZERO_TELLS)
            for name, (_, offset, *_) in (dtypes[point].fields or {}).items()
            if name.endswith("_ns") and name not in NO_TIMES
        )
        for point, number in points.items()
    }
    return {number: fields for number, fields in found.items() if fields}


def devices(points: Mapping[str, int], dtypes: Mapping[str, np.dtype[np.void]]) -> dict[int, int]:
    """By point number, where its events tell a device, if they do."""
    return {
        number: offset
        for point, number in points.items()
        for name, (kind, offset, *_) in (dtypes[point].fields or {}).items()
        if name == DEVICE and kind == np.uint32
    }


def impossible(
    told: NDArray[np.uint64], times: NDArray[np.uint64], zero: bool, begin_ns: int
) -> NDArray[np.bool_]:
    """Which of the told times of some events cannot be; ``times``: when those were."""
    early = told < np.uint64(max(begin_ns - BEFORE_NS, 0))
    if zero:
        early &= told != 0
    else:
        early |= told == 0
    return early | (told > times)
