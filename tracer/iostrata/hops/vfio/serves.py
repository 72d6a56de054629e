# SPDX-License-Identifier: Apache-2.0
"""Hop vfio: a host's trace in, the interrupts of its guests' own disks out."""

from __future__ import annotations

import numpy as np

from iostrata.columns import columns_of
from iostrata.hops.hop import Serves
from iostrata.hops.vfio.controllers import key_of
from iostrata.stitch import Pieces
from iostrata.trace import Trace


def serves_of(lower: Trace) -> tuple[Serves, Pieces]:
    """Each takes no time; a disk has one for each of its queues."""
    told = lower.facts.passthrough
    disks = sorted({(one.pid, one.address, key_of(one.pci)) for one in told})
    number = {(pid, address): group for group, (pid, address, _) in enumerate(disks)}
    disk_of = {irq: number[one.pid, one.address] for one in told for irq in one.irqs}
    events = columns_of(lower.points["vfio_interrupt"], "irq")
    group = np.array([disk_of.get(irq, -1) for irq in events["irq"].tolist()], np.int64)
    rows = np.flatnonzero(group >= 0)
    group, time = group[rows], events["time_ns"][rows]
    pid, key = (np.array([disk[column] for disk in disks], np.int64)[group] for column in (0, 2))
    row, none = np.arange(len(rows)), np.zeros(len(rows), np.int64)
    serves = Serves(
        begin_ns=time,
        end_ns=time,
        key=key,
        group=group,
        shared=none > 0,
        piece=row,
        agent=pid,
        flush=none > 0,
        offset_bytes=none,
        size_bytes=none,
    )
    return serves, Pieces(row, pid, time, time, none, none)
