# SPDX-License-Identifier: Apache-2.0
"""Report stage: layers in, what each is called on a page and its colour out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from iostrata.layers import ROWS
from iostrata.model import Layer
from iostrata.report.sections import Place, headed, sections

K = TypeVar("K")

UNATTRIBUTED: Final = "unattributed"

# Hue by kind, lightness by place in it: readable on white and on black.
COLOURS: Final = {row.name: row.colour for row in ROWS} | {
    UNATTRIBUTED: "#fdd835",
    # Segments, where they stand for all their layers.
    "OS": "#9fa8da", "guest OS": "#7e57c2", "host OS": "#ff8f00", "server OS": "#00acc1",
    "hypervisor": "#d84343", "hypervisor and below": "#ad1457", "not followed": "#d7ccc8",
    "network": "#66bb6a", "network and server": "#2e7d32", "device": "#1976d2",
    "daemon": "#4527a0", "file server": "#283593",
}  # fmt: skip
OTHER: Final = "#9e9e9e"
# How far towards white, or black if negative, goes the first row of a name, the second ...
SHADES: Final = (0.0, 0.45, -0.4, 0.7, -0.65)


@dataclass(frozen=True)
class Legend:
    """By the layer's name. ``titles``: of their segments, where a row's name leaves them open.

    ``segments``: their colours, there too, in charts that have no room for layers.
    """

    titles: Mapping[str, str]
    colours: Mapping[str, str]
    segments: Mapping[Place, str]

    @classmethod
    def of(cls, layers: Iterable[Layer]) -> Legend:
        """Of all layers of a page, in their order."""
        listed = list(layers)
        found = sections(listed, lambda layer: layer) if headed(listed) else []
        return cls(
            {layer.name: section.title for section in found for layer in section.rows},
            _told_apart((layer.name, layer.row) for layer in listed),
            _told_apart((section.place, section.place[0]) for section in found),
        )

    def label(self, layer: Layer | None) -> str:
        """What a layer is called where it stands alone; None: the unattributed."""
        if layer is None:
            return UNATTRIBUTED
        title = self.titles.get(layer.name)
        if title and layer.row != layer.segment:
            return f"{title}: {layer.row}"
        return title or layer.name

    def colour(self, layer: Layer | None) -> str:
        if layer is None:
            return COLOURS[UNATTRIBUTED]
        return self.colours.get(layer.name, OTHER)


def _told_apart(named: Iterable[tuple[K, str]]) -> dict[K, str]:
    """The colour of each name, shaded for its second, third ... bearer."""
    same: dict[str, list[K]] = defaultdict(list)
    for key, name in named:
        if key not in same[name]:
            same[name].append(key)
    return {
        key: shaded(COLOURS.get(name, OTHER), number)
        for name, keys in same.items()
        for number, key in enumerate(keys)
    }


def shaded(colour: str, number: int) -> str:
    """``#rrggbb``, told apart from that of the same row on other machines (by number)."""
    shade = SHADES[number % len(SHADES)]
    towards = 255 if shade > 0 else 0
    parts = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    mixed = (round(part + (towards - part) * abs(shade)) for part in parts)
    return "#" + "".join(f"{part:02x}" for part in mixed)
