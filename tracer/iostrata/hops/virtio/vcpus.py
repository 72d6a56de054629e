# SPDX-License-Identifier: Apache-2.0
"""Hop virtio: a guest and its host in, which of the guest's CPUs is which virtual CPU out.

KVM numbers a virtual CPU by its APIC id, which leaves gaps where cores or sockets are no
power of two; the guest numbers its CPUs without any.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from iostrata.columns import Ints, distinct, integers
from iostrata.model import NotObserved
from iostrata.trace import Trace

UNKNOWN_VCPU: Final = 0xFFFF_FFFF
NO_VCPUS: Final = NotObserved(
    "kvm.exit, vcpu.runqueue",
    "which of the guest's CPUs is which virtual CPU was not recorded",
    "the guest's own rows",
)


def vcpus_of(guest: Trace, host: Trace, monitors: Ints) -> Ints | None:
    """The virtual CPU of each of the guest's CPUs, -1: it has none; None: that is not known.

    ``monitors``: the guest's VMM. A guest that did not record its APIC ids has the same
    numbers if there is no gap in the virtual CPUs'.
    """
    exits = host.points["kvm_exit"]
    seen = distinct(integers(exits["vcpu"])[np.isin(integers(exits["tgid"]), monitors)])
    if UNKNOWN_VCPU in seen:
        return None
    if ids := guest.facts.apic_ids:
        found = np.full(max(ids) + 1, -1, np.int64)
        found[list(ids)] = list(ids.values())
        return found
    told = [each.vcpu for each in host.facts.tsc if each.pid in monitors]
    numbers = np.union1d(seen, np.array(told, np.int64))
    if not len(numbers):
        return None
    return numbers if np.array_equal(numbers, np.arange(len(numbers))) else None
