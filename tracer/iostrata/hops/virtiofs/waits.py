# SPDX-License-Identifier: Apache-2.0
"""Hop virtiofs: the daemon's threads that could have taken a request up, and had no CPU."""

from __future__ import annotations

import numpy as np

from iostrata.columns import columns_of
from iostrata.hops.hop import Context, Held, Link
from iostrata.hops.waits import taken_late


def waiting_of(link: Link, held: Held) -> Context | None:
    """The thread that took each request up; and with a pool of threads, who hands them on."""
    row, serve = link.served(held.ask)
    piece, pieces = link.serves.piece[serve], link.lower.pieces
    points = link.lower.trace.points
    begun, ended = (columns_of(points[f"virtiofs_{name}"], "tid") for name in ("request", "reply"))
    threads = columns_of(points["thread"], "subject_tid", "tgid")
    daemon = np.isin(threads["tgid"], link.agents)
    queue = np.setdiff1d(threads["subject_tid"][daemon], np.append(begun["tid"], pieces.tid))
    # Of a daemon that tells of no request, its calls are.
    own = np.setdiff1d(pieces.tid, begun["tid"])
    calls = columns_of(points["syscall"], "tid")
    calls = {name: column[np.isin(calls["tid"], own)] for name, column in calls.items()}
    who = np.concatenate([begun["tid"], ended["tid"], calls["tid"]])
    busy = np.concatenate([begun["time_ns"], ended["time_ns"], calls["time_ns"]])
    take = (row, pieces.tid[piece], pieces.begin_ns[piece])
    return taken_late(link, held, take, (who, busy), queue)
