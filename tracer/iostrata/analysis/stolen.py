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

from iostrata import units
from iostrata.columns import columns_of, distinct, integers, one_of
from iostrata.hops import Link
from iostrata.stitch import sleeps_of, whole
from iostrata.trace import Trace

OF_NOTE: Final = 0.01
"""Of one CPU's time."""


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
        where = f"by {_waited(link)}" if link else "in whatever row was at work then"
        yield f"a hypervisor gave {took} to others (steal): {where}"


def _waited(link: Link) -> str:
    """How long all of the machine's virtual CPUs waited for one of the host's, by the host."""
    host = link.lower.trace
    exits = columns_of(host.points["kvm_exit"], "tid", "tgid")
    threads = distinct(exits["tid"][one_of(exits["tgid"], link.monitors)])
    sleeps = sleeps_of(whole(host))
    mine = one_of(sleeps.tid, threads)
    waited_ns = int((sleeps.on_ns - sleeps.runnable_ns)[mine].sum())
    took = units.duration(waited_ns)
    return f"{host.machine}, they waited {took} for a CPU, in writes (vcpu.runqueue) and else"
