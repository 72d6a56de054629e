# SPDX-License-Identifier: Apache-2.0
"""Stage analysis: the link from a guest to its host in, a line of where each virtual CPU ran out.

A virtual CPU's exit is recorded as it enters guest mode again, on the CPU that it then has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from iostrata.columns import Ints, columns_of, distinct, one_of
from iostrata.hops import Link

NAMED: Final = 3
"""CPUs, those where it was most; the others are counted."""
UNTOLD: Final = 0xFFFF_FFFF
"""Which virtual CPU it was, where the kernel does not describe KVM's points."""


def placed(link: Link) -> Iterator[str]:
    """Of a host that has one CPU there is nothing to say."""
    host = link.lower.trace
    if len(host.facts.apic_ids) < 2:
        return
    exits = columns_of(host.points["kvm_exit"], "cpu", "tgid", "vcpu")
    told = exits["vcpu"] != UNTOLD
    mine = np.flatnonzero(one_of(exits["tgid"], link.agents) & told)
    mine = mine[np.argsort(exits["time_ns"][mine], kind="stable")]
    cpu, vcpu = exits["cpu"][mine], exits["vcpu"][mine]
    for number in distinct(vcpu).tolist():
        yield f"virtual CPU {number} ran on {_where(cpu[vcpu == number])} of {host.machine}"


def _where(cpu: Ints) -> str:
    """``cpu``: of each entry, in order of time."""
    numbers, count = np.unique(cpu, return_counts=True)
    if len(numbers) == 1:
        return f"CPU {numbers[0]}"
    order = np.argsort(-count, kind="stable")
    named = [f"{numbers[one]} ({count[one] / len(cpu):.0%})" for one in order[:NAMED].tolist()]
    others = [f"{len(order) - NAMED} others"] if len(order) > NAMED else []
    moved = np.count_nonzero(np.diff(cpu))
    times = "once" if moved == 1 else f"{moved} times"
    return f"CPUs {', '.join([*named, *others])}, as it entered guest mode (moved {times}),"
