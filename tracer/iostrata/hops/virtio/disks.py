# SPDX-License-Identifier: Apache-2.0
"""Hop virtio: disks whose names tell that no device is behind them, but a machine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from iostrata.trace import Trace

# Each of these drivers gives its disks names of its own.
DRIVERS: Final = {"vd": "virtio", "xvd": "Xen"}
VIRTUAL_DISK: Final = re.compile("(x?vd)[a-z]+")


def disks_of(upper: Trace) -> Iterator[str]:
    """Of those that were asked for anything. A guest's need no telling: its rows say so."""
    for key, block in upper.facts.blocks.items():
        match = VIRTUAL_DISK.match(block.name)
        if match and key in upper.points["block_rq_issue"].values("dev"):
            driver = DRIVERS[match[1]]
            yield f"{block.name} is a {driver} disk: what a hypervisor takes is in device"
