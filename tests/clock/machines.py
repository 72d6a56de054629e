# SPDX-License-Identifier: Apache-2.0
"""Traces of two machines that hold nothing but what tells their clocks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from iostrata.trace.read import Trace, read_trace
from iostrata.trace.write import write_trace

from .worlds import Clock

CYCLES_A_NS = 2.4
BOOTED_CYCLES = 7_000_000_000_000
READING_NS = 200


def sampled(
    directory: Path,
    clock: Clock,
    true_ns: np.ndarray,
    *,
    offset: int = 0,
    ratio: float = 1.0,
    facts: dict[str, str] | None = None,
    interrupted: Sequence[int] = (),
) -> Trace:
    """A machine whose tsc is the host's times ``ratio`` plus ``offset``.

    The clock is read before and after the tsc, READING_NS apart; some samples, by
    number, took 50 us, all of it after the tsc was read.
    """
    width = np.full(len(true_ns), READING_NS)
    width[list(interrupted)] = 50_000
    host_tsc = BOOTED_CYCLES + np.rint(true_ns * CYCLES_A_NS).astype(np.int64)
    tsc = np.rint((host_tsc - BOOTED_CYCLES) * ratio).astype(np.int64) + int(BOOTED_CYCLES * ratio)
    shown = clock(true_ns - READING_NS / 2)
    columns = {
        "time_ns": shown,
        "tsc": (tsc + offset).astype(np.uint64),
        "width_ns": width,
    }
    write_trace(directory, {"clock_sample": columns}, facts=facts)
    return read_trace(directory)


def exchanged(directory: Path, clock: Clock, seed: int, count: int = 60) -> Trace:
    """A machine whose clock was asked for; ways there and back take 50 us and more."""
    random = np.random.default_rng(seed)
    sent = np.sort(random.uniform(0, 30e9, count))
    read = sent + 50e3 + random.exponential(100e3, count)
    received = read + 50e3 + random.exponential(100e3, count)
    coordinator = Clock(123_456_789_000)
    columns = (coordinator(sent), clock(read), coordinator(received))
    rows = ("\t".join(map(str, row)) for row in zip(*(c.tolist() for c in columns), strict=True))
    text = "\n".join(["sent_ns\tremote_ns\treceived_ns", *rows, ""])
    ends = {"time_ns": clock(np.array((0, 30e9)))}
    write_trace(directory, {"clock_sample": ends}, facts={"exchange": text})
    return read_trace(directory)
