# SPDX-License-Identifier: Apache-2.0
"""Hop nfs: calls and who served them in, what of its files the server read for each out.

A server tells of a READ call nothing but its xid. Which part of the file it is for says the
client's call; which file, its number, that the client knows it by: mostly its inode's.
"""

from __future__ import annotations

import numpy as np

from iostrata.columns import NEVER, Ints, at, columns_of
from iostrata.hops.hop import Link
from iostrata.hops.nfs.asks import calls_of
from iostrata.stitch import FILE_UNKNOWN, OF_FILE, Reads, longest_read
from iostrata.trace import Trace
from iostrata.trace.layout import NFS_READ


def read_by(link: Link) -> Reads:
    """Of each piece of the server, in the order of the pieces."""
    calls = calls_of(link.upper, reads=True)
    reading = calls.operation[link.pairs.ask] == NFS_READ
    call = np.full(len(link.lower.pieces.tid), -1)
    call[link.serves.piece[link.pairs.serve[reading]]] = link.pairs.ask[reading]
    inode = at(calls.inode, call)
    return Reads(
        device_key=_devices_of(link.lower.trace, inode),
        inode=inode,
        offset_bytes=at(calls.offset_bytes, call),
        size_bytes=np.where(call >= 0, at(calls.size_bytes, call), 0),
        direct=np.zeros(len(call), np.bool_),
        reach_ns=longest_read(link.lower.trace),
    )


def _devices_of(server: Trace, inode: Ints) -> Ints:
    """Of what was read of a file of each number, if it is of one file system."""
    told = columns_of(server.points[OF_FILE], "inode", "dev")
    known, row = np.unique(told["inode"], return_inverse=True)
    least = np.full(len(known), NEVER)
    most = np.full(len(known), FILE_UNKNOWN)
    np.minimum.at(least, row, told["dev"])
    np.maximum.at(most, row, told["dev"])
    device = np.where(least == most, most, FILE_UNKNOWN)
    place = np.minimum(np.searchsorted(known, inode), max(len(known) - 1, 0))
    return np.where(at(known, place) == inode, at(device, place), FILE_UNKNOWN)
