# SPDX-License-Identifier: Apache-2.0
"""The layers a write's time can be in, and which of two holds it when both are at work."""

from iostrata.layers.declaration import (
    Declaration,
    Depth,
    Observer,
    Programs,
    Rank,
    Row,
    Sight,
    Stage,
)
from iostrata.layers.stack import (
    HOPS,
    LAYERS,
    OBSERVERS,
    PROGRAMS,
    RANK,
    ROWS,
    SIGHTS,
    STACK,
    UNFOLLOWED,
)

__all__ = [
    "HOPS", "LAYERS", "OBSERVERS", "PROGRAMS", "RANK", "ROWS", "SIGHTS", "STACK", "UNFOLLOWED",
    "Declaration", "Depth", "Observer", "Programs", "Rank", "Row", "Sight", "Stage",
]  # fmt: skip
