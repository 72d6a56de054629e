# SPDX-License-Identifier: Apache-2.0
"""Hop virtiofs: a guest's trace in, what its virtio file systems asked of their daemons out."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from iostrata.columns import distinct, one_of, pair_key
from iostrata.hops.fuse.asks import asks_by
from iostrata.hops.hop import Asks
from iostrata.stitch import FUSE_REQUEST, Calls, fuse_calls_of, whole
from iostrata.trace import Trace

TYPES: Final = frozenset({"virtiofs", "unknown"})
# Of enum fuse_opcode (linux/fuse.h).
FUSE_WRITE: Final = 16
FUSE_FSYNC: Final = 20
SYNC_KEY: Final = np.iinfo(np.int64).min + 2
"""Of what makes durable, where no number tells which it is."""


def asks_of(upper: Trace) -> Asks:
    """The daemon does not know the guest's number of the file system."""
    calls = _calls_of(upper)
    return asks_by(calls, calls.xid)


def asks_by_place(upper: Trace) -> Asks:
    """By the place in the file; what neither writes nor makes durable is no call that is seen."""
    calls = _calls_of(upper)
    kind = calls.operation - FUSE_REQUEST
    calls = calls.rows(np.flatnonzero((kind == FUSE_WRITE) | (kind == FUSE_FSYNC)))
    writes = calls.operation == FUSE_REQUEST + FUSE_WRITE
    place = pair_key(calls.offset_bytes, calls.size_bytes)
    asks = asks_by(calls, np.where(writes, place, SYNC_KEY))
    return replace(
        asks,
        offset_bytes=np.where(writes, calls.offset_bytes, 0),
        size_bytes=np.where(writes, calls.size_bytes, 0),
    )


def _calls_of(upper: Trace) -> Calls:
    calls = fuse_calls_of(whole(upper))
    known = upper.facts.file_system
    mine = [key for key in distinct(calls.device_key).tolist() if known(key) in TYPES]
    return calls.rows(np.flatnonzero(one_of(calls.device_key, mine)))
