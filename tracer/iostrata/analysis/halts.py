# SPDX-License-Identifier: Apache-2.0
"""Stage analysis: the link from a guest to its host in, what its idle virtual CPUs cost out.

One that has nothing to do leaves guest mode; before its thread sleeps, KVM may look for a while
whether there is something again (halt_poll_ns), which is quicker than to be woken, and keeps a CPU
of the host busy: that is the time of such exits for which the thread was on its CPU.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from iostrata import units
from iostrata.columns import AsOf, columns_of, distinct, one_of
from iostrata.hops import Link
from iostrata.layers import is_idle
from iostrata.stitch import sleeps_of, whole

OF_NOTE: Final = 0.01
"""Of one CPU's time."""


def halts(link: Link) -> Iterator[str]:
    host = link.lower.trace
    exits = columns_of(host.points["kvm_exit"], "exit_ns", "tid", "tgid", "reason", "isa")
    idle = one_of(exits["tgid"], link.agents) & is_idle(exits["isa"], exits["reason"])
    tid, begin_ns, end_ns = (exits[name][idle] for name in ("tid", "exit_ns", "time_ns"))
    sleeps = sleeps_of(whole(host))
    mine = np.flatnonzero(one_of(sleeps.tid, distinct(tid)))
    halt = AsOf(tid, begin_ns).at_or_before(sleeps.tid[mine], sleeps.off_ns[mine])
    within = (halt >= 0) & (sleeps.on_ns[mine] <= end_ns[halt]) if len(tid) else halt >= 0
    halt, mine = halt[within], mine[within]
    off_ns = int((sleeps.on_ns - sleeps.off_ns)[mine].sum())
    busy_ns = int((end_ns - begin_ns).sum()) - off_ns
    awake = len(tid) - len(distinct(halt[sleeps.asleep[mine]]))
    if busy_ns >= OF_NOTE * (host.end_ns - host.begin_ns) > 0:
        share = 100 * busy_ns / (host.end_ns - host.begin_ns)
        yield (
            f"its virtual CPUs had nothing to do {len(tid)} times: they kept CPUs of "
            f"{host.machine} busy for {units.duration(busy_ns)} of that ({share:.1f} % of one), "
            f"and in {awake} of these did not sleep (halt polling)"
        )
