# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: Breakdowns in, a Breakdown of some of their writes, or of all, out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints
from iostrata.layers import ROWS
from iostrata.model import Breakdown, Layer, Writes

PLACES: Final = {row.name: number for number, row in enumerate(ROWS)}

LayerKey = tuple[str, str]


def select(breakdown: Breakdown, rows: Ints) -> Breakdown:
    """Some of the writes (row indices), with everything that was said of the whole."""
    writes = breakdown.writes
    columns: dict[str, Any] = {name: getattr(writes, name)[rows] for name in _columns()}
    codes = {name: column[rows] for name, column in writes.codes.items()}
    return replace(
        breakdown,
        writes=replace(writes, codes=codes, **columns),
        time_ns=breakdown.time_ns[:, rows],
        residual_ns=breakdown.residual_ns[rows],
    )


def joined(breakdowns: Sequence[Breakdown]) -> Breakdown:
    """The writes of all, in their order; what was said of the whole is the last one's."""
    layers = layers_of(one.layers for one in breakdowns)
    parts = [one.writes for one in breakdowns]
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(writes, name) for writes in parts]) for name in _columns()
    }
    names: dict[str, tuple[str, ...]] = {}
    codes: dict[str, NDArray[np.int32]] = {}
    for column in parts[-1].codes:
        names[column], codes[column] = _recoded(parts, column)
    return replace(
        breakdowns[-1],
        writes=replace(parts[-1], codes=codes, names=names, **columns),
        layers=tuple(layers.values()),
        time_ns=np.hstack([times_of(one, layers) for one in breakdowns]),
        residual_ns=np.concatenate([one.residual_ns for one in breakdowns]),
    )


def by_segment(breakdown: Breakdown) -> Breakdown:
    """The same writes, with one layer for all layers of a segment of a machine."""
    places = [(layer.segment, layer.machine) for layer in breakdown.layers]
    segments = list(dict.fromkeys(places))
    times = np.zeros((len(segments), len(breakdown.writes)), np.int64)
    for place, own in zip(places, breakdown.time_ns, strict=True):
        times[segments.index(place)] += own
    layers = tuple(
        Layer(f"{machine}/{segment}", segment, machine, "") for segment, machine in segments
    )
    return replace(breakdown, layers=layers, time_ns=times)


def layers_of(stacks: Iterable[Sequence[Layer]]) -> dict[LayerKey, Layer]:
    """The layers of any of them, each behind those that it is behind in one of them."""
    chains = [{(one.machine, one.name): one for one in layers} for layers in stacks]
    left = {key: layer for chain in chains for key, layer in chain.items()}
    machines = list(dict.fromkeys(machine for machine, _ in left))
    before: dict[LayerKey, set[LayerKey]] = {key: set() for key in left}
    for chain in chains:
        for upper, lower in pairwise(chain):
            before[lower].add(upper)

    def place(key: LayerKey) -> tuple[int, int]:
        return machines.index(key[0]), PLACES.get(left[key].row, len(PLACES))

    found: dict[LayerKey, Layer] = {}
    while left:
        # Two recordings of different machines may contradict each other: then any order will do.
        ready = [key for key in left if not before[key] & left.keys()] or list(left)
        first = min(ready, key=place)
        found[first] = left.pop(first)
    return found


def times_of(breakdown: Breakdown, layers: Mapping[LayerKey, Layer]) -> NDArray[np.int64]:
    """``time_ns`` with a row for each of ``layers``; 0 where it had none."""
    times = np.zeros((len(layers), len(breakdown.writes)), np.int64)
    places = {key: number for number, key in enumerate(layers)}
    for layer, own in zip(breakdown.layers, breakdown.time_ns, strict=True):
        times[places[layer.machine, layer.name]] = own
    return times


def _columns() -> tuple[str, ...]:
    """The columns of numbers."""
    return tuple(
        field.name for field in fields(Writes) if field.name not in ("machine", "codes", "names")
    )


def _recoded(parts: Sequence[Writes], column: str) -> tuple[tuple[str, ...], NDArray[np.int32]]:
    """One set of names for all parts, and the parts' codes into it."""
    names = tuple(dict.fromkeys(name for writes in parts for name in writes.names[column]))
    place = {name: number for number, name in enumerate(names)}
    codes = [
        np.array([place[name] for name in writes.names[column]], np.int32)[writes.codes[column]]
        for writes in parts
    ]
    return names, np.concatenate(codes)
