# SPDX-License-Identifier: Apache-2.0
"""Stage analysis: a virtual machine's trace in, a line for what its hypervisor took of its CPUs
out.

No point of the machine tells when that was: whatever it was at lasts longer. Where the host was
recorded, too, its rows have what of it was in writes (``vcpu.runqueue``), and its own account of
all of it stands beside the machine's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from iostrata import units
from iostrata.columns import Ints, columns_of, distinct, integers, one_of
from iostrata.hops import Link
from iostrata.stitch import sleeps_of, whole
from iostrata.trace import Trace

OF_NOTE: Final = 0.01
"""Of one CPU's time."""
MOSTLY: Final = 0.99
"""Of the time in which both were recorded: what else there is, is said."""


def stolen(trace: Trace, link: Link | None = None) -> Iterator[str]:
    """``link``: to its host, if that was recorded."""
    recorder = trace.points["recorder"]
    if "stolen_ns" not in recorder.fields or not len(recorder):
        return
    # Asked for at the begin and the end only.
    told = integers(recorder["stolen_ns"])
    taken_ns = int(told[-1] - told[0]) if told[-1] else 0
    if taken_ns >= OF_NOTE * (trace.end_ns - trace.begin_ns) > 0:
        share = taken_ns / (trace.end_ns - trace.begin_ns)
        took = f"{units.duration(taken_ns)} of its CPUs' time ({100 * share:.1f} % of one)"
        asked_ns = integers(recorder["time_ns"])[[0, -1]]
        where = f"by {_waited(link, asked_ns)}" if link else "in whatever row was at work then"
        yield f"a hypervisor gave {took} to others (steal): {where}"


def _waited(link: Link, asked_ns: Ints) -> str:
    """How long all of the machine's virtual CPUs waited for one of the host's, by the host, between
    those two times of the machine."""
    host = link.lower.trace
    exits = columns_of(host.points["kvm_exit"], "tid", "tgid")
    threads = distinct(exits["tid"][one_of(exits["tgid"], link.monitors)])
    sleeps = sleeps_of(whole(host))
    mine = one_of(sleeps.tid, threads)
    begin_ns, end_ns = link.clock.to_lower(asked_ns).tolist()
    since_ns, until_ns = max(begin_ns, host.begin_ns), min(end_ns, host.end_ns)
    waited = np.minimum(sleeps.on_ns, until_ns) - np.maximum(sleeps.runnable_ns, since_ns)
    took = units.duration(int(np.maximum(waited, 0)[mine].sum()))
    both_ns = max(until_ns - since_ns, 0)
    when = (
        ""
        if both_ns >= MOSTLY * (end_ns - begin_ns)
        else f" in the {units.duration(both_ns)} of it"
    )
    return f"{host.machine}, they waited {took} for a CPU{when}, in writes (vcpu.runqueue) and else"
