# SPDX-License-Identifier: Apache-2.0
"""The layers a write's time can be in, and which of two holds it when both are at work."""

from iostrata.layers.block import BEFORE_REQUESTS, HELD_BACK
from iostrata.layers.declaration import (
    Declaration,
    Depth,
    Observer,
    Programs,
    Rank,
    Row,
    Stage,
    Visibility,
)
from iostrata.layers.exits import exit_name, is_idle
from iostrata.layers.rpc import NFS
from iostrata.layers.stack import (
    HOPS,
    LAYERS,
    OBSERVERS,
    PROGRAMS,
    RANK,
    ROWS,
    SOURCE,
    STACK,
    VISIBILITY,
)
from iostrata.layers.wakeup import BEHIND_WORKERS

__all__ = [
    "BEFORE_REQUESTS", "BEHIND_WORKERS", "HELD_BACK", "HOPS", "LAYERS", "NFS", "OBSERVERS",
    "PROGRAMS", "RANK", "ROWS", "SOURCE", "STACK", "VISIBILITY", "Declaration", "Depth",
    "Observer", "Programs", "Rank", "Row", "Stage", "Visibility", "exit_name", "is_idle",
]  # fmt: skip
