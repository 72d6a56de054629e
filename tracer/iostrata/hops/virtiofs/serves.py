# SPDX-License-Identifier: Apache-2.0
"""Hop virtiofs: a host's trace in, the requests that virtiofsd took up and answered out.

Or the calls of one whose functions cannot be looked at: that in Rust.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from iostrata.columns import AsOf, at, columns_of, pair_key
from iostrata.hops.hop import Serves
from iostrata.hops.processes import processes_of, served_by
from iostrata.hops.virtiofs.asks import SYNC_KEY
from iostrata.stitch import Pieces
from iostrata.trace import Trace
from iostrata.trace.layout import THREAD_DAEMON

DAEMON_NAME: Final = b"virtiofsd"


def tells_requests(lower: Trace) -> bool:
    """Whether the daemon's own functions could be looked at."""
    return len(lower.points["virtiofs_request"]) > 0


def serves_of(lower: Trace) -> tuple[Serves, Pieces]:
    """The daemon's requests; of one that does not tell of them, its calls."""
    return _by_requests(lower) if tells_requests(lower) else _by_calls(lower)


def _by_calls(lower: Trace) -> tuple[Serves, Pieces]:
    """One of each request that writes or makes durable, by the place in whatever file."""
    serves, pieces = served_by(lower, processes_of(lower, THREAD_DAEMON, DAEMON_NAME))
    key, never = np.where(serves.flush, SYNC_KEY, serves.key), np.zeros(len(serves), np.bool_)
    return replace(serves, key=key, group=serves.agent, shared=never), pieces


def _by_requests(lower: Trace) -> tuple[Serves, Pieces]:
    """A piece is a thread's time with a request: it answers one before it takes the next up."""
    begun = columns_of(lower.points["virtiofs_request"], "tid", "tgid", "unique")
    ended = columns_of(lower.points["virtiofs_reply"], "tid", "tgid", "unique")
    answer = AsOf(pair_key(ended["unique"], ended["tid"]), ended["time_ns"])
    found = answer.at_or_after(pair_key(begun["unique"], begun["tid"]), begun["time_ns"])
    rows = np.flatnonzero(found >= 0)
    begun, end_ns = (
        {name: column[rows] for name, column in begun.items()},
        at(ended["time_ns"], found[rows]),
    )
    number, none = np.arange(len(rows)), np.zeros(len(rows), np.int64)
    never = np.zeros(len(rows), np.bool_)
    pieces = Pieces(number, begun["tid"], begun["time_ns"], end_ns, none, none)
    serves = Serves(
        begin_ns=begun["time_ns"],
        end_ns=end_ns,
        key=begun["unique"],
        group=begun["tgid"],
        shared=never,
        piece=number,
        agent=begun["tgid"],
        flush=never,
        offset_bytes=none,
        size_bytes=none,
    )
    return serves, pieces
