# SPDX-License-Identifier: Apache-2.0
"""Hop virtiofs: the daemon's threads that could have taken a request up, and had no CPU."""

from __future__ import annotations

import numpy as np

from iostrata.hops.hop import Context, Held, Link
from iostrata.hops.virtiofs.busy import busy_of
from iostrata.hops.waits import taken_late
from iostrata.stitch import members_of


def waiting_of(link: Link, held: Held) -> Context | None:
    """The thread that took each request up; and with a pool of threads, who hands them on."""
    row, serve = link.served(held.ask)
    pieces = link.lower.pieces.rows(link.serves.piece[serve])
    begun, ended = busy_of(link, pieces)
    daemon = members_of(link.lower.trace, link.agents)
    queue = np.setdiff1d(daemon, np.append(begun[0], pieces.tid))
    busy = np.append(begun[0], ended[0]), np.append(begun[1], ended[1])
    return taken_late(link, held, (row, pieces.tid, pieces.begin_ns), busy, queue)
