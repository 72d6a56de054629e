# SPDX-License-Identifier: Apache-2.0
"""Stage analysis: the link from a guest to its host in, what its idle virtual CPUs cost out, and
for how long they were stopped.

One that has nothing to do leaves guest mode; before its thread sleeps, KVM may look for a while
whether there is something again (halt_poll_ns), which is quicker than to be woken, and keeps a CPU
of the host busy: that is the time of such exits for which the thread was on its CPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata import units
from iostrata.columns import AsOf, Ints, columns_of, distinct, one_of
from iostrata.hops import Link
from iostrata.layers import is_idle
from iostrata.trace import ProcessNames, Trace
from iostrata.trace.layout import THREAD_DAEMON, THREAD_FUSE

OF_NOTE: Final = 0.01
"""Of one CPU's time."""
STOPPED: Final = 4
"""Of a thread's state: by a signal (__TASK_STOPPED)."""
FREEZABLE: Final = 0x2000
"""TASK_FREEZABLE, since Linux 6.1: so sleeps who is frozen, or waits for a lock, or for leave to go
on, of QEMU's (futex), and none that KVM itself lets sleep."""
FROZEN_NS: Final = 100_000_000
"""No such lock is waited for so long."""


def halts(link: Link) -> Iterator[str]:
    host = link.lower.trace
    count = busy_ns = awake = 0
    for exits in host.points["kvm_exit"].pieces("exit_ns", "tid", "tgid", "reason", "isa"):
        idle = one_of(exits["tgid"], link.monitors) & is_idle(exits["isa"], exits["reason"])
        if not idle.any():
            continue
        tid, begin_ns, end_ns = (exits[name][idle] for name in ("tid", "exit_ns", "time_ns"))
        off_ns, slept = _off(host, tid, begin_ns, end_ns)
        count += len(tid)
        busy_ns += int((end_ns - begin_ns).sum()) - off_ns
        awake += len(tid) - slept
    if busy_ns >= OF_NOTE * (host.end_ns - host.begin_ns) > 0:
        share = 100 * busy_ns / (host.end_ns - host.begin_ns)
        yield (
            f"its virtual CPUs had nothing to do {count} times: they kept CPUs of "
            f"{host.machine} busy for {units.duration(busy_ns)} of that ({share:.1f} % of one), "
            f"and in {awake} of these did not sleep (halt polling)"
        )


def stops(link: Link) -> Iterator[str]:
    """A signal, cgroup.freeze or QEMU stops its threads on their way into guest mode: but for the
    last one, the guest's clock goes on."""
    host = link.lower.trace
    exits = host.points["kvm_exit"].pieces("tid", "tgid")
    own = [distinct(some["tid"][one_of(some["tgid"], link.monitors)]) for some in exits]
    threads = distinct(np.concatenate([np.zeros(0, np.int64), *own]))
    stopped_ns = _slept(host, threads, STOPPED)
    frozen_ns = _slept(host, threads, FREEZABLE, FROZEN_NS)
    for how, of_threads, why in (
        ("were stopped", stopped_ns, ""),
        ("stood still", frozen_ns, ", frozen (cgroup.freeze) or halted by QEMU"),
    ):
        if longest_ns := max(of_threads.values(), default=0):
            yield (
                f"its virtual CPUs {how} on {host.machine} for {units.duration(longest_ns)}{why}: "
                "what of that is in writes is in kvm.exit, or in the way back"
            )


def served_by_the_stopped(link: Link) -> Iterator[str]:
    """Processes that serve a guest beside its monitor, which a signal stopped."""
    host = link.lower.trace
    for pid in np.setdiff1d(link.agents, link.monitors).tolist():
        if longest_ns := max(_slept(host, _threads_of(host, pid), STOPPED).values(), default=0):
            yield (
                f"process {pid}, which serves it on {host.machine}, was stopped there for "
                f"{units.duration(longest_ns)}: what of that is in writes is in the way to it, or "
                "unattributed"
            )


def stopped_daemons(trace: Trace, told: Ints) -> Iterator[str]:
    """The same of those that serve others, as Ceph's OSDs and daemons of FUSE do. ``told``:
    processes without these.

    An OSD that is frozen has most of those threads asleep in that way that otherwise wait for what
    comes (epoll), and hardly ever for a lock: there is no other sign.
    """
    threads = columns_of(trace.points["thread"], "subject_tid", "tgid", "kind")
    serving = one_of(threads["kind"], (THREAD_DAEMON, THREAD_FUSE))
    serving &= ~one_of(threads["tgid"], distinct(told))
    if not serving.any():
        return
    names, tids = ProcessNames(trace), distinct(threads["subject_tid"][serving])
    readers = distinct(columns_of(trace.points["osd_message"], "tid")["tid"])
    stopped_ns = _slept(trace, tids, STOPPED)
    frozen_ns = _slept(trace, np.intersect1d(tids, readers), FREEZABLE, FROZEN_NS)
    for pid in distinct(threads["tgid"][serving]).tolist():
        (process, _), _ = names.at(np.array([pid]), np.array([trace.end_ns]))
        own = _threads_of(trace, pid)
        reading = np.intersect1d(own, readers).tolist()
        stopped = [stopped_ns[tid] for tid in own.tolist() if tid in stopped_ns]
        frozen = [frozen_ns[tid] for tid in reading if tid in frozen_ns]
        if 2 * len(frozen) <= max(len(reading), 2):
            frozen.clear()
        for how, of_threads in (("stopped", stopped), ("frozen (cgroup.freeze)", frozen)):
            if longest_ns := max(of_threads, default=0):
                yield (
                    f"{process[0]} was {how} for {units.duration(longest_ns)}: what of that is in "
                    "writes is in the way to it, or back, or in the row of what it was at"
                )


def _threads_of(trace: Trace, pid: int) -> Ints:
    threads = columns_of(trace.points["thread"], "subject_tid", "tgid")
    own: Ints = threads["subject_tid"][threads["tgid"] == pid]
    return own


def _slept(trace: Trace, threads: Ints, state: int, least_ns: int = 1) -> Counter[int]:
    """How long each of these threads slept in a state, in ns, by what took so long at least."""
    found = Counter[int]()
    for sleeps in trace.points["sched_resume"].pieces("off_ns", "wake_ns", "state", "subject_tid"):
        lasted_ns = sleeps["wake_ns"] - sleeps["off_ns"]
        mine = one_of(sleeps["subject_tid"], threads) & ((sleeps["state"] & state) != 0)
        _add(found, sleeps["subject_tid"], lasted_ns, mine & (lasted_ns >= least_ns))
    return found


def _add(of_threads: Counter[int], tid: Ints, lasted_ns: Ints, mine: NDArray[np.bool_]) -> None:
    for row in np.flatnonzero(mine).tolist():
        of_threads[int(tid[row])] += int(lasted_ns[row])


def _off(host: Trace, tid: Ints, begin_ns: Ints, end_ns: Ints) -> tuple[int, int]:
    """For how long the threads of some exits were off the CPU in these, and in how many asleep."""
    resumed = host.points["sched_resume"]
    first, last = np.searchsorted(
        resumed.time_ns.view(np.int64), (int(begin_ns.min()), int(end_ns.max()) + 1)
    ).tolist()
    sleeps = resumed.integers("off_ns", "state", "subject_tid", begin=first, end=last)
    off_ns, on_ns = sleeps["off_ns"], sleeps["time_ns"]
    halt = AsOf(tid, begin_ns).at_or_before(sleeps["subject_tid"], off_ns)
    within = (halt >= 0) & (on_ns <= end_ns[halt])
    asleep = distinct(halt[within & (sleeps["state"] != 0)])
    return int((on_ns - off_ns)[within].sum()), len(asleep)
