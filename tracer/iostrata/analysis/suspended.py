# SPDX-License-Identifier: Apache-2.0
"""Stage analysis: a trace in, for how long its machine was suspended meanwhile out."""

from __future__ import annotations

from collections.abc import Iterator

from iostrata.model import NotObserved
from iostrata.trace import Trace, suspended_ns
from iostrata.units import duration


def suspended(trace: Trace) -> Iterator[NotObserved]:
    """Who waited for a write waited for that, too; the clock of all events did not go on."""
    if asleep_ns := suspended_ns(trace):
        what = f"{duration(asleep_ns)}, for which its clock stood still: in no latency"
        yield NotObserved("suspension", what, "")
