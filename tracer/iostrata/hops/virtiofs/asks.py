# SPDX-License-Identifier: Apache-2.0
"""Hop virtiofs: a guest's trace in, what its virtio file systems asked of their daemons out."""

from __future__ import annotations

from typing import Final

import numpy as np

from iostrata.columns import distinct, one_of
from iostrata.hops.fuse.asks import asks_by
from iostrata.hops.hop import Asks
from iostrata.stitch import fuse_calls_of, whole
from iostrata.trace import Trace

TYPES: Final = frozenset({"virtiofs", "unknown"})


def asks_of(upper: Trace) -> Asks:
    """The daemon does not know the guest's number of the file system."""
    calls = fuse_calls_of(whole(upper))
    asks = asks_by(calls, calls.xid)
    known = upper.facts.file_system
    mine = [key for key in distinct(asks.group).tolist() if known(key) in TYPES]
    return asks.rows(np.flatnonzero(one_of(asks.group, mine)))
