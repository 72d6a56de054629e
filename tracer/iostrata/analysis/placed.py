# SPDX-License-Identifier: Apache-2.0
"""Stage analysis: the link from a guest to its host in, where each virtual CPU ran out.

A virtual CPU's exit is recorded as it enters guest mode again, on the CPU that it then has, and
keeps until the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import combinations
from typing import Final

import numpy as np

from iostrata.columns import AsOf, Ints, at, columns_of, distinct, one_of
from iostrata.hops import UNKNOWN_VCPU, Link, vcpus_of
from iostrata.trace import CpuPlace

NAMED: Final = 3
"""CPUs, those where it was most; the others are counted."""
UNKNOWN: Final = "unknown"
CPU_BITS: Final = 16
"""Of the number of a CPU: a recorder has room for fewer."""
NOT_TOLD: Final = CpuPlace(None, None, None)


def placed(link: Link) -> Iterator[str]:
    """Of a host that has one CPU there is nothing to say."""
    host = link.lower.trace
    if max(len(host.facts.apic_ids), len(host.facts.topology)) < 2:
        return
    entries = Entries(link)
    most: dict[int, int] = {}
    for number in distinct(entries.vcpu).tolist():
        cpu = entries.cpu[entries.vcpu == number]
        most[number] = int(np.bincount(cpu).argmax())
        yield f"virtual CPU {number} ran on {entries.where(cpu)} of {host.machine}"
    for one, other in combinations(most, 2):
        core = entries.core(most[one])
        if most[one] != most[other] and core and core == entries.core(most[other]):
            cpus = f"CPUs {most[one]} and {most[other]} of {host.machine}"
            yield f"virtual CPUs {one} and {other} shared a core (SMT): {cpus}"


class Entries:
    """A guest's virtual CPUs as they entered guest mode: on which CPU, in order of time."""

    def __init__(self, link: Link) -> None:
        self.link, self._facts = link, link.lower.trace.facts
        exits = columns_of(link.lower.trace.points["kvm_exit"], "cpu", "tgid", "vcpu")
        told = exits["vcpu"] != UNKNOWN_VCPU
        mine = np.flatnonzero(one_of(exits["tgid"], link.agents) & told)
        mine = mine[np.argsort(exits["time_ns"][mine], kind="stable")]
        self.cpu, self.vcpu = exits["cpu"][mine], exits["vcpu"][mine]
        self.entered_ns = exits["time_ns"][mine]

    def where(self, cpu: Ints) -> str:
        """``cpu``: of each entry, in order of time."""
        numbers, count = np.unique(cpu, return_counts=True)
        if len(numbers) == 1:
            return f"CPU {self.named(int(numbers[0]))}"
        order = np.argsort(-count, kind="stable").tolist()
        shares = [f"{count[one] / len(cpu):.0%}" for one in order]
        cpus = numbers[order].tolist()
        named = [self.named(*one) for one in zip(cpus[:NAMED], shares[:NAMED], strict=True)]
        others = [f"{len(order) - NAMED} others"] if len(order) > NAMED else []
        moved = np.count_nonzero(np.diff(cpu))
        times = "once" if moved == 1 else f"{moved} times"
        return f"CPUs {', '.join([*named, *others])}, as it entered guest mode (moved {times}),"

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
            vcpus = vcpus_of(link.upper, link.lower.trace, link.agents)
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
        row = AsOf(entries.vcpu, entries.entered_ns).at_or_before(vcpu, link.clock.to_lower(end_ns))
        return np.where(row >= 0, vcpu << CPU_BITS | at(entries.cpu, row), -1)

    def text(self, number: int) -> str:
        if self._entries is None or number < 0:
            return UNKNOWN
        vcpu, cpu = number >> CPU_BITS, number & ((1 << CPU_BITS) - 1)
        return f"virtual CPU {vcpu} on CPU {self._entries.named(cpu)}"
