# SPDX-License-Identifier: Apache-2.0
"""What the numbers rest on: writes to leave out, losses, layers not observed, cost."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from iostrata.model import Cost, NotObserved, Quality
from iostrata.stitch import Units
from iostrata.stitch.join import Ints, integers, overlapping
from iostrata.trace.read import Trace

FAILED = "the call failed"
LOST = "events lost meanwhile"

OBSERVERS = (
    # layer, points of which one must be there, merged into, what its absence means
    ("wakeup", ("sched_resume",), "syscall, fs and unattributed", "no scheduler event recorded"),
    ("block.Q2G", ("block_io_start",), "block.Q2I or block.Q2D", "recorded with --detail only"),
    ("block.I2D", ("block_rq_insert",), "block.Q2D", "not recorded, or no I/O scheduler"),
)


def left_out_of(trace: Trace, units: Units) -> tuple[dict[str, int], Ints]:
    """How many units must be left out, by reason, and the rows of the others by begin time.

    Law 3: a write that a loss may touch is not analysed, and it is counted.
    """
    reasons: dict[str, NDArray[np.bool_]] = {FAILED: units.failed, LOST: _touched(trace, units)}
    left_out: dict[str, int] = {}
    kept = np.ones(len(units), np.bool_)
    for reason, touched in reasons.items():
        count = int(np.count_nonzero(touched & kept))
        if count:
            left_out[reason] = count
        kept &= ~touched
    rows = np.flatnonzero(kept)
    return left_out, rows[np.argsort(units.begin_ns[rows], kind="stable")]


def _touched(trace: Trace, units: Units) -> NDArray[np.bool_]:
    losses = trace.losses
    touched = np.zeros(len(units), np.bool_)
    rows, _ = overlapping(
        np.zeros(len(units), np.int64), units.begin_ns, units.end_ns,
        np.zeros(len(losses.begin_ns), np.int64),
        integers(losses.begin_ns) - 1, integers(losses.end_ns) + 1,
    )  # fmt: skip
    touched[rows] = True
    return touched


def quality_of(trace: Trace, plain_writes: int, ties: Mapping[str, int]) -> Quality:
    """The quality lines of one machine's recording."""
    return Quality(
        lost={f"{trace.machine}:{point}": n for point, n in trace.lost_by_point.items() if n},
        damage=trace.damage,
        plain_writes=plain_writes,
        ties=ties,
        not_observed=_not_observed(trace),
        cost=_cost(trace),
    )


def _not_observed(trace: Trace) -> tuple[NotObserved, ...]:
    probes = trace.points["probe"]
    failed = [
        NotObserved(
            bytes(program).decode(errors="replace"),
            f"its program did not attach (error {int(error)})",
            "the layers around it",
        )
        for program, error in zip(probes["program"], integers(probes["error"]), strict=True)
        if error
    ]
    missing = [
        NotObserved(layer, reason, merged)
        for layer, points, merged, reason in OBSERVERS
        if not any(len(trace.points[point]) for point in points)
    ]
    return (*failed, *missing)


def _cost(trace: Trace) -> Cost:
    costs, recorder = trace.points["cost"], trace.points["recorder"]
    bpf = None
    if len(costs):
        # Counters only grow: each program's last sample is its total.
        programs, last = np.unique(costs["program"][::-1], return_index=True)
        bpf = int(integers(costs["run_ns"])[::-1][last].sum()) if len(programs) else None
    spent = integers(recorder["cpu_ns"])
    # The first sample is what setting up took: loading the programs, not recording.
    cpu = int(spent[-1] - spent[0]) if len(spent) > 1 else None
    return Cost(
        events=trace.event_count,
        duration_ns=trace.end_ns - trace.begin_ns,
        bpf_ns=bpf,
        recorder_cpu_ns=cpu,
    )
