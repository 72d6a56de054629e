# SPDX-License-Identifier: Apache-2.0
"""Hop ceph: the threads of OSDs that could have read a message, or taken an operation up, and had
no CPU."""

from __future__ import annotations

import numpy as np

from iostrata.hops.ceph.crossing import asked_of
from iostrata.hops.hop import Context, Held, Link
from iostrata.hops.waits import without_cpu
from iostrata.stitch import Service


def waiting_of(link: Link, held: Held) -> Context | None:
    """The messenger's thread since a message came until it was read; then who took it up."""
    row, serve = link.served(held.ask)
    if not len(row):
        return None
    window, read = asked_of(link, serve, link.asks.told_ns[held.ask[row]])
    pieces = link.lower.pieces.rows(link.serves.piece[serve])
    read_ns = link.serves.begin_ns[serve]
    needed = Service(
        owner=np.append(row, row),
        tid=np.append(read.tid, pieces.tid),
        begin_ns=np.append(read.begun_ns, read_ns),
        end_ns=np.append(read_ns, pieces.begin_ns),
    )
    return without_cpu(link, held, window, needed)
