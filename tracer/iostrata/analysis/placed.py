# SPDX-License-Identifier: Apache-2.0
"""Stage analysis: the link from a guest to its host in, where each virtual CPU ran out.

A virtual CPU's exit is recorded as it enters guest mode again, on the CPU that it then has, and
keeps until the next one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

import numpy as np

from iostrata.columns import AsOf, Ints, at, changes, columns_of, in_order, one_of, order_of
from iostrata.hops import UNKNOWN_VCPU, Link, vcpus_of
from iostrata.trace import CpuPlace

NAMED: Final = 3
"""CPUs, those where it was most; the others are counted."""
TOLD: Final = 4
"""Virtual CPUs, and cores; of a large guest --by vcpu_placement tells all."""
UNKNOWN: Final = "unknown"
CPU_BITS: Final = 16
"""Of the number of a CPU: a recorder has room for fewer."""
CPU_MASK: Final = (1 << CPU_BITS) - 1
NOT_TOLD: Final = CpuPlace(None, None, None)


def placed(link: Link) -> Iterator[str]:
    """Of a host that has one CPU there is nothing to say."""
    host = link.lower.trace
    if max(len(host.facts.apic_ids), len(host.facts.topology)) < 2:
        return
    entries = Entries(link)
    numbers = sorted(entries.counts)
    for number in numbers[:TOLD]:
        where = f"{entries.where(number)} of {host.machine}{entries.allowed(number)}"
        yield f"virtual CPU {number} ran on {where}"
    if len(numbers) > TOLD:
        yield f"where its {len(numbers) - TOLD} other virtual CPUs ran: --by vcpu_placement"
    of_core: dict[tuple[int | None, int], list[int]] = defaultdict(list)
    for number in numbers:
        if core := entries.core(entries.most(number)[0]):
            of_core[core].append(number)
    for shared in [some for some in of_core.values() if len(some) > 1][:TOLD]:
        cpus = sorted({entries.most(number)[0] for number in shared})
        if len(cpus) > 1:
            yield (
                f"virtual CPUs {_listed(shared)} shared a core (SMT): CPUs {_listed(cpus)} of "
                f"{host.machine}"
            )


def _listed(numbers: Sequence[int]) -> str:
    return f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def _cpus_of(told: str) -> set[int]:
    """0-2,8: 0, 1, 2 and 8."""
    found: set[int] = set()
    for part in told.split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


class Entries:
    """A guest's virtual CPUs as they entered guest mode.

    ``counts``: of each, how often on which CPU. ``vcpu``, ``cpu``, ``since_ns``: one row each time
    one was on another CPU than before, in order of time. ``tid``: of each, its thread.
    """

    def __init__(self, link: Link) -> None:
        self.link, self._facts = link, link.lower.trace.facts
        self.counts: dict[int, Counter[int]] = defaultdict(Counter)
        self.tid: dict[int, int] = {}
        found = list(self._moves(link))
        self.vcpu, self.cpu, self.since_ns = (
            np.concatenate([part[column] for part in found] or [np.empty(0, np.int64)])
            for column in range(3)
        )

    def _moves(self, link: Link) -> Iterator[tuple[Ints, Ints, Ints]]:
        """There may be very many exits, few of which are of note."""
        last: dict[int, int] = {}
        for exits in link.lower.trace.points["kvm_exit"].pieces("cpu", "tid", "tgid", "vcpu"):
            told = exits["vcpu"] != UNKNOWN_VCPU
            mine = np.flatnonzero(one_of(exits["tgid"], link.monitors) & told)
            by_vcpu = mine[order_of(exits["vcpu"][mine])]
            cpu, vcpu = exits["cpu"][by_vcpu], exits["vcpu"][by_vcpu]
            moved = changes(cpu) | changes(vcpu)
            for row in np.flatnonzero(changes(vcpu)).tolist():
                moved[row] = last.get(int(vcpu[row])) != cpu[row]
            last.update(zip(vcpu.tolist(), cpu.tolist(), strict=True))
            self.tid.update(zip(vcpu.tolist(), exits["tid"][by_vcpu].tolist(), strict=True))
            pairs, times = np.unique(vcpu << CPU_BITS | cpu, return_counts=True)
            for pair, count in zip(pairs.tolist(), times.tolist(), strict=True):
                self.counts[pair >> CPU_BITS][pair & CPU_MASK] += count
            found = in_order(by_vcpu[moved])
            yield exits["vcpu"][found], exits["cpu"][found], exits["time_ns"][found]

    def most(self, number: int) -> list[int]:
        """The CPUs that a virtual CPU was on, those where it was most first."""
        counts = self.counts[number]
        return sorted(counts, key=lambda cpu: (-counts[cpu], cpu))

    def where(self, number: int) -> str:
        cpus, counts = self.most(number), self.counts[number]
        if len(cpus) == 1:
            return f"CPU {self.named(cpus[0])}"
        shares = [f"{counts[cpu] / counts.total():.0%}" for cpu in cpus]
        named = [self.named(*one) for one in zip(cpus[:NAMED], shares[:NAMED], strict=True)]
        others = [f"{len(cpus) - NAMED} others"] if len(cpus) > NAMED else []
        moved = np.count_nonzero(self.vcpu == number) - 1
        times = "once" if moved == 1 else f"{moved} times"
        return f"CPUs {', '.join([*named, *others])}, as it entered guest mode (moved {times}),"

    def allowed(self, number: int) -> str:
        """Where it might have run, if not on all of the host's CPUs all the time."""
        told = self._facts.affinity.get(self.tid[number], ())
        sets = [_cpus_of(cpus) for cpus in told]
        online = self._facts.topology.keys() or self._facts.apic_ids.keys()
        if all(online <= cpus for cpus in sets):
            return ""
        if len(sets) == 1 and len(sets[0]) == 1:
            return ", pinned"
        return f", allowed {', then '.join(told)}"

    def named(self, cpu: int, share: str = "") -> str:
        """With its node, where there are several."""
        node = self._place(cpu).node
        told = [share] * bool(share) + [f"node {node}"] * (self._has_nodes and node is not None)
        return f"{cpu} ({', '.join(told)})" if told else f"{cpu}"

    def core(self, cpu: int) -> tuple[int | None, int] | None:
        """What tells it from all cores; None: not known."""
        place = self._place(cpu)
        return None if place.core is None else (place.package, place.core)

    @cached_property
    def _has_nodes(self) -> bool:
        return len({place.node for place in self._facts.topology.values()}) > 1

    def _place(self, cpu: int) -> CpuPlace:
        return self._facts.topology.get(cpu, NOT_TOLD)


class Placements:
    """Which virtual CPU a guest's system calls returned on, and which CPU that had then.

    ``links``: from the guest.
    """

    def __init__(self, links: Sequence[Link]) -> None:
        self._entries: Entries | None = None
        for link in links:
            entries = Entries(link)
            vcpus = vcpus_of(link.upper, link.lower.trace, link.monitors)
            if vcpus is not None and len(entries.cpu):
                self._entries, self._vcpus = entries, vcpus

    def at(self, tid: Ints, end_ns: Ints) -> Ints:
        """A number of each call, by its thread and when it returned; -1: not known."""
        if self._entries is None:
            return np.full(len(tid), -1)
        link, entries = self._entries.link, self._entries
        calls = columns_of(link.upper.points["syscall"], "cpu", "tid")
        call = AsOf(calls["tid"], calls["time_ns"]).at_or_before(tid, end_ns)
        own_cpu = np.where(at(calls["time_ns"], call) == end_ns, at(calls["cpu"], call), -1)
        vcpu = at(self._vcpus, np.where(own_cpu < len(self._vcpus), own_cpu, -1))
        vcpu = np.where(link.is_right(end_ns), vcpu, -1)
        row = AsOf(entries.vcpu, entries.since_ns).at_or_before(vcpu, link.clock.to_lower(end_ns))
        return np.where(row >= 0, vcpu << CPU_BITS | at(entries.cpu, row), -1)

    def text(self, number: int) -> str:
        if self._entries is None or number < 0:
            return UNKNOWN
        vcpu, cpu = number >> CPU_BITS, number & CPU_MASK
        return f"virtual CPU {vcpu} on CPU {self._entries.named(cpu)}"
