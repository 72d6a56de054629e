# SPDX-License-Identifier: Apache-2.0
"""Stage analysis: a virtual machine's trace in, a line for what its hypervisor took of its CPUs
out.

No point of the machine tells when that was: whatever it was at lasts longer. Where the host was
recorded, too, its rows have it (``vcpu.runqueue``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from iostrata import units
from iostrata.columns import integers
from iostrata.trace import Trace

OF_NOTE: Final = 0.01
"""Of one CPU's time."""


def stolen(trace: Trace) -> Iterator[str]:
    recorder = trace.points["recorder"]
    if "stolen_ns" not in recorder.fields or not len(recorder):
        return
    # Asked for at the begin and the end only.
    told = integers(recorder["stolen_ns"])
    taken_ns = int(told[-1] - told[0]) if told[-1] else 0
    if taken_ns >= OF_NOTE * (trace.end_ns - trace.begin_ns) > 0:
        share = taken_ns / (trace.end_ns - trace.begin_ns)
        took = f"{units.duration(taken_ns)} of its CPUs' time ({100 * share:.1f} % of one)"
        yield f"a hypervisor gave {took} to others (steal): in whatever row was at work then"
