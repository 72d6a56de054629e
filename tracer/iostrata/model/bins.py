# SPDX-License-Identifier: Apache-2.0
"""Writes in bins: what is drawn of many of them, as small for ten million as for ten."""

from __future__ import annotations

from msgspec import Struct

from iostrata.model.breakdown import Layer


class Stack(Struct, frozen=True):
    """Writes in bins, and what the layers held of a mean write in each.

    ``edges``: one more than bins. ``counts``: writes in each bin. ``mean_ns``:
    a row a layer of the Breakdown, and the unattributed last; the rows of a bin
    add up to its mean latency. A bin without writes has zeros.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    mean_ns: tuple[tuple[float, ...], ...]


class Charts(Struct, frozen=True):
    """Three ways to cut the writes into bins.

    ``over_time``: by begin, edges in s since the recording's first write. ``body`` and ``tail``:
    by latency, edges in percent: the fastest 98 % of the writes, and the rest.
    """

    layers: tuple[Layer, ...]
    over_time: Stack
    body: Stack
    tail: Stack


class Bin(Struct, frozen=True):
    """The writes of one bin. ``layer``: which held most of them, None: none did, or there are
    none; ``layer_share``: of their time; ``share``, ``up_to``: of all writes, in this bin and
    in all up to it. ``mean_ns`` None: it has no writes.
    """

    low: float
    high: float
    count: int
    share: float
    up_to: float
    mean_ns: float | None
    layer: Layer | None
    layer_share: float


class Course(Struct, frozen=True):
    """One line over time: ``values`` a bin, None where it has no writes."""

    name: str
    values: tuple[float | None, ...]


class OverTime(Struct, frozen=True):
    """``edges_s``: since the first write. ``writes_per_s``; ``mean_ns``: latency; ``shares``: of
    the rows that hold most of the time, and of what is unattributed, 0 to 1.
    """

    edges_s: tuple[float, ...]
    writes_per_s: Course
    mean_ns: Course
    shares: tuple[Course, ...]
