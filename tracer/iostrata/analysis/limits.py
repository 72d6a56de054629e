# SPDX-License-Identifier: Apache-2.0
"""A machine's trace in, what may have kept bios from having a request out, as lines of quality."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from iostrata.columns import columns_of, distinct
from iostrata.layers import BEFORE_REQUESTS
from iostrata.model import NotObserved
from iostrata.trace import Trace, by_script
from iostrata.units import duration

NEXT_TO_NOTHING: Final = 0.02
"""Of the time that all slept for a request: a disk with less is not named."""

ASYNCHRONOUS: Final = ("aio_submit", "io_uring_submit_req")


def limits(
    trace: Trace, shares: Mapping[tuple[str, str], float], of_note: float, *, detailed: bool
) -> Iterator[NotObserved]:
    """Which limits of their queues may have kept requests from being there, if anything did.

    ``shares``: of all writes' time, by machine and row; what has less than ``of_note`` is left
    out. ``detailed``: each bio that had a request was told.
    """
    point = trace.points["block_bio_asleep"]
    # Older recorders do not tell who slept to get a request.
    told = point.known and not by_script(trace.env)
    slept = told or detailed
    row = BEFORE_REQUESTS[slept or bool(trace.env.get("detail"))]
    if shares.get((trace.machine, row), 0) < of_note:
        return
    if told and "frozen" in point.fields:
        frozen, others = _asleep(trace)
        least = NEXT_TO_NOTHING * (frozen + others).total()
        yield from _frozen(trace, frozen, least, row)
        used = sorted(key for key in others if others[key] > least)
    else:
        name = "block_bio_asleep" if told else "block_getrq" if slept else "block_rq_issue"
        used = sorted(trace.points[name].values("dev"))
    yield from _limiting(trace, used, row, slept=slept)


def held_back(
    trace: Trace, shares: Mapping[tuple[str, str], float], of_note: float
) -> Iterator[NotObserved]:
    """That control groups' limits held back what may have been asynchronous requests, for which
    nobody slept: whose it was is not told, so it is in no row.  ``shares``, ``of_note``: as of
    ``limits``."""
    held, unexplained = trace.points["block_bio_held"], 1 - sum(shares.values())
    asynchronous = any(len(trace.points[point]) for point in ASYNCHRONOUS)
    if not (len(held) and asynchronous and unexplained >= of_note):
        return
    groups = (trace.facts.cgroups.get(key, "") for key in sorted(held.values("cgroup")))
    where = ", ".join(filter(None, groups))
    what = f"what io.max{where and f' of {where}'} held back of libaio's and io_uring's requests"
    yield NotObserved("limits by io.max", what, "unattributed")


def untold_rests(
    trace: Trace, shares: Mapping[tuple[str, str], float], of_note: float, parts: int
) -> Iterator[NotObserved]:
    """That nobody saw when the last of the first split bios went on, where a limit holds such back.
    ``parts``: so many were split off before that was looked at; ``shares``, ``of_note``: as of
    ``limits``."""
    row, held = BEFORE_REQUESTS[0], trace.points["block_bio_held"]
    if parts and len(held) and shares.get((trace.machine, row), 0) >= of_note:
        what = f"the last of bios that were split, until it was looked at ({parts} parts by then)"
        yield NotObserved("limits by io.max", what, row)


def _frozen(trace: Trace, asleep_ns: Counter[int], least: float, row: str) -> Iterator[NotObserved]:
    """The disks whose queues were frozen for more than that."""
    names = [trace.facts.device_name(key) for key in sorted(asleep_ns) if asleep_ns[key] > least]
    if names:
        took = duration(asleep_ns.total())
        what = f"what froze {', '.join(names)}, for {took} of sleeps: settings, or a reset"
        yield NotObserved("why queues were frozen", what, row)


def _limiting(trace: Trace, used: Sequence[int], row: str, *, slept: bool) -> Iterator[NotObserved]:
    """What limits these disks have. ``slept``: it was told who slept for a request."""
    disks: dict[tuple[str, ...], list[str]] = {}
    for block in (trace.facts.blocks[key] for key in used if key in trace.facts.blocks):
        disks.setdefault(block.queue_limits, []).append(block.name)
    for which, names in sorted(disks.items()):
        where = ", ".join(names)
        what = f"{where} may hold requests back, and no point tells of it"
        if slept:
            one = "whether it" if len(which) == 1 else "which of them"
            what = f"{one} held requests for {where} back, or none was free"
        if which:
            yield NotObserved(f"limits by {', '.join(which)}", what, row)


def _asleep(trace: Trace) -> tuple[Counter[int], Counter[int]]:
    """By disk, ns that threads slept before a request: as its queue was frozen, and else."""
    found = columns_of(trace.points["block_bio_asleep"], "dev", "time_ns", "off_ns", "frozen")
    took = found["time_ns"] - found["off_ns"]
    frozen, others = (
        Counter({
            dev: int(took[rows & (found["dev"] == dev)].sum())
            for dev in distinct(found["dev"][rows]).tolist()
        })
        for rows in (found["frozen"] > 0, found["frozen"] == 0)
    )  # fmt: skip
    return frozen, others
