# SPDX-License-Identifier: Apache-2.0
"""What a diagnosis means for the numbers, in a line each."""

from __future__ import annotations

from collections.abc import Iterator

from iostrata.record import Disk, System, Verdict


def cautions(verdict: Verdict, this: System) -> Iterator[str]:
    """What else a layer's numbers need of this machine."""
    if verdict.visibility.debugfs and verdict.working and not this.debugfs:
        yield verdict.visibility.debugfs


def remarks(disk: Disk) -> Iterator[str]:
    """What a disk's settings mean for its table."""
    if disk.stacked_on:
        yield f"stacked on {' '.join(disk.stacked_on)}: its time there is told apart"
    if disk.scheduler == "none":
        yield "no scheduler: block_rq_insert does not fire, the queue is shown undivided"
    if disk.write_cache == "write back" and disk.fua == "no":
        yield "volatile cache without FUA: each synchronous write is followed by a flush"
    if not disk.write_cache:
        yield "does not say whether it caches writes: flushes may be seen or not"
