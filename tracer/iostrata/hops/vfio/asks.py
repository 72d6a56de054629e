# SPDX-License-Identifier: Apache-2.0
"""Hop vfio: a guest's trace in, what was asked of disks with a controller on PCI out."""

from __future__ import annotations

import numpy as np

from iostrata.columns import one_of
from iostrata.hops.hop import Asks
from iostrata.hops.vfio.controllers import key_of
from iostrata.stitch import requests_of, whole
from iostrata.trace import Trace


def asks_of(upper: Trace) -> Asks:
    """All requests, those that read, too: any of them may be what interrupted the host."""
    requests = requests_of(whole(upper))[0]
    keys = {
        block.device_key: key_of(block.pci) for block in upper.facts.blocks.values() if block.pci
    }
    disk = one_of(requests.device_key, list(keys))
    rows = np.flatnonzero(disk & ~requests.returned)
    group, none = requests.device_key[rows], np.zeros(len(rows), np.int64)
    return Asks(
        identity=requests.key[rows],
        begin_ns=requests.issue_ns[rows],
        end_ns=requests.complete_ns[rows],
        key=np.array([keys[disk] for disk in group.tolist()], np.int64),
        group=group,
        shared=none > 0,
        told_ns=none - 1,
        heard_ns=none - 1,
        offset_bytes=none,
        size_bytes=none,
    )
