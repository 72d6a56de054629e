# SPDX-License-Identifier: Apache-2.0
"""Random recordings: what every field can hold, times with ties, any points on any CPUs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from iostrata.trace import layout
from iostrata.trace.points import Points
from iostrata.trace.sleeps import TOLD
from iostrata.trace.times import NO_TIMES
from iostrata.trace.write import RECORDER_POINTS, write_trace

Events = Mapping[str, NDArray[np.void]]


def random_events(
    seed: int, counts: Mapping[str, int], cpus: int = 3
) -> dict[str, NDArray[np.void]]:
    """Events of every point named, each in order of time as a Trace gives them."""
    rng = np.random.default_rng(seed)
    return {name: random_point(rng, name, count, cpus) for name, count in counts.items()}


def random_point(rng: np.random.Generator, name: str, count: int, cpus: int) -> NDArray[np.void]:
    dtype = layout.DTYPES[name]
    events = np.zeros(count, dtype)
    for field in dtype.names or ():
        kind = dtype[field]
        if kind.kind == "S":
            letters = rng.integers(32, 127, (count, kind.itemsize - 1), np.uint8)
            events[field] = letters.copy().view(f"S{kind.itemsize - 1}")[:, 0]
        else:
            limits = np.iinfo(kind)
            events[field] = rng.integers(limits.min, limits.max, count, kind.type, endpoint=True)
    events["time_ns"] = rng.integers(1_000, 1_000 + 4 * max(1, count), count)
    for field in dtype.names or ():
        if field.endswith("_ns") and field not in NO_TIMES:
            events[field] = rng.integers(1, events["time_ns"], endpoint=True)
    if name in TOLD:
        # No thread sleeps twice, and each is let go while it sleeps.
        tid, off, wake, on = TOLD[name]
        events[off] = np.minimum(events[off], events[wake if off != wake else on])
        events[tid] = 2 * np.arange(count) + list(TOLD).index(name)
    events["cpu"] = rng.integers(0, cpus, count)
    events["point"] = layout.POINTS[name]
    stream = np.zeros(count) if name in RECORDER_POINTS else events["cpu"]
    return events[np.lexsort((stream, events["time_ns"]))]


TELLING = frozenset({"loss", "miss", "recorder"})
"""Points whose events say what else there is: nonsense in them would be damage."""
ordinary = [name for name in layout.POINTS if name not in TELLING]
counts = st.dictionaries(st.sampled_from(ordinary), st.integers(1, 60), max_size=6)
seeds = st.integers(0, 1 << 32)
packet_sizes = st.sampled_from([1, 2, 7, 1000])


def write(directory: Path, events: Events, packet_events: int = 1000) -> Path:
    write_trace(directory, events, packet_events=packet_events)
    return directory


def all_of(points: Points) -> NDArray[np.void]:
    """Every field of every event, as the writer was given them."""
    events = np.zeros(len(points), points.dtype)
    for field, column in points.columns(*points.fields).items():
        events[field] = column
    return events


def rows(events: NDArray[np.void]) -> list[tuple[object, ...]]:
    return [tuple(row) for row in events.tolist()]
