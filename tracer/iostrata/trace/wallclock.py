# SPDX-License-Identifier: Apache-2.0
"""Times of one machine's CLOCK_MONOTONIC in, its wall clock out, by the recorded clock samples."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.trace.read import Trace

Ints = NDArray[np.int64]

SUSPENDED_NS: Final = 1_000_000
"""What takes less is no suspension."""
PACE: Final = 1e-3
"""What a clock wanders against its CPUs' counter, and more, of the time that it shows."""
HALTING: Final = "kvm-clock"
FEWEST: Final = 3
"""Stretches of time between two samples, that most may tell the clock's pace."""


def realtime_of(trace: Trace, times_ns: Ints) -> Ints | None:
    """ns since 1970 by the sample before each time; None where there is no sample at all.

    What is earlier than the first sample goes by that one. A clock that was set
    while recording therefore jumps, as it did.
    """
    samples = trace.points["clock_sample"]
    if not len(samples):
        return None
    at = samples.time_ns.astype(np.int64)
    ahead = samples["realtime_ns"].astype(np.int64) - at
    place = np.searchsorted(at, times_ns, side="right") - 1
    realtime: Ints = times_ns + ahead[np.maximum(place, 0)]
    return realtime


def suspended_ns(trace: Trace) -> int:
    """For how long the machine was suspended meanwhile, give or take what a sample took; 0: not.

    CLOCK_MONOTONIC stands still then, CLOCK_BOOTTIME does not.
    """
    columns = trace.points["clock_sample"].columns("time_ns", "boottime_ns", "width_ns")
    at, booted, width = (columns[name].astype(np.int64) for name in columns)
    # Both are read one after the other, between which the recorder may have had no CPU.
    ahead_ns = int(np.ptp(booted - at)) if len(at) else 0
    return ahead_ns if ahead_ns > SUSPENDED_NS + int(width.max(initial=0)) else 0


def halted_ns(trace: Trace) -> int:
    """For how long a hypervisor halted the machine meanwhile, give or take what a sample took; 0:
    that is not known, or it did not."""
    return sum(ns for _, _, ns in halts_of(trace))


def halts_of(trace: Trace) -> list[tuple[int, int, int]]:
    """Each halt of a machine by its hypervisor: two times of its clock between which it was, and
    for how long, give or take what a sample took. None: that is not known, or there was none.

    It has the machine's clock stand still then, in all its forms, and its CPUs' counter go on. Of a
    clock that is that counter, or no hypervisor's, this tells nothing.
    """
    if trace.env.get("clocksource") != HALTING:
        return []
    columns = trace.points["clock_sample"].columns("time_ns", "tsc", "width_ns")
    at, counter, width = (columns[name].astype(np.int64) for name in columns)
    passed, counted = np.diff(at), np.diff(counter)
    if len(passed) < FEWEST or (counted <= 0).any() or suspended_ns(trace):
        return []
    missing = counted * np.median(passed / counted) - passed
    rows = np.flatnonzero(missing > SUSPENDED_NS + width[:-1] + width[1:] + PACE * passed)
    return [(int(at[row]), int(at[row + 1]), int(missing[row])) for row in rows.tolist()]
