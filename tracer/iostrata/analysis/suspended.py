# SPDX-License-Identifier: Apache-2.0
"""Stage analysis: a trace in, for how long its machine was suspended or halted meanwhile out."""

from __future__ import annotations

from collections.abc import Iterator

from iostrata.model import NotObserved
from iostrata.trace import Trace, halted_ns, suspended_ns
from iostrata.units import duration


def suspended(trace: Trace) -> Iterator[NotObserved]:
    """Who waited for a write waited for that, too; the clock of all events did not go on."""
    if asleep_ns := suspended_ns(trace):
        what = f"{duration(asleep_ns)}, for which its clock stood still: in no latency"
        yield NotObserved("suspension", what, "")
    if still_ns := halted_ns(trace):
        what = f"{duration(still_ns)}, for which its hypervisor had its clock stand still"
        yield NotObserved("halt", f"{what}: in no latency", "")
