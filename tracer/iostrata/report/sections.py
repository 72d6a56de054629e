# SPDX-License-Identifier: Apache-2.0
"""Report stage: rows in the order of the path in, the same under the headings of their segments.

A report that puts all rows of one machine below each other has no need of
headings; several machines have rows of one name, and what was not recorded is
merged into rows whose segment says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Generic, TypeVar

from iostrata.model import Layer, SegmentRow, TailSegment

T = TypeVar("T")
S = TypeVar("S", SegmentRow, TailSegment)
Place = tuple[str, str]
"""A segment and its machine."""

# The segments of a machine that is all there is.
PLAIN: Final = frozenset({"OS", "device"})
INDENT: Final = "  "
NAME_WIDTH: Final = 18
WIDEST_NAME: Final = 24


@dataclass(frozen=True)
class Section(Generic[T]):
    """``title``: of the segment, and of its machine where several have one of that name."""

    title: str
    place: Place
    rows: tuple[T, ...]


def sections(rows: Iterable[T], layer_of: Callable[[T], Layer]) -> list[Section[T]]:
    """Neighbours of one segment, in the order that they come in."""
    listed = list(rows)
    titles = _titles(layer_of(row) for row in listed)
    return [
        Section(titles[place], place, tuple(some))
        for place, some in groupby(listed, lambda row: _place(layer_of(row)))
    ]


def headed(layers: Iterable[Layer]) -> bool:
    """Whether a row's own name leaves open what it is of."""
    places = {_place(layer) for layer in layers}
    return len({machine for _, machine in places}) > 1 or any(s not in PLAIN for s, _ in places)


def name_width(layers: Iterable[Layer]) -> int:
    """Of the column that holds titles and rows: as wide as it must be, as narrow as it was."""
    listed = list(layers)
    names = [*_titles(listed).values(), *(INDENT + layer.row for layer in listed)]
    return min(max(NAME_WIDTH, *map(len, names)) if names else NAME_WIDTH, WIDEST_NAME)


def subtotal_of(segments: Iterable[S], place: Place) -> S | None:
    """None where the segments were not summed up."""
    found = (row for row in segments if (row.segment, row.machine) == place)
    return next(found, None)


def _place(layer: Layer) -> Place:
    return layer.segment, layer.machine


def _titles(layers: Iterable[Layer]) -> dict[Place, str]:
    machines: dict[str, set[str]] = defaultdict(set)
    for layer in layers:
        machines[layer.segment].add(layer.machine)
    return {
        (segment, machine): f"{segment} of {machine}" if len(found) > 1 else segment
        for segment, found in machines.items()
        for machine in found
    }
