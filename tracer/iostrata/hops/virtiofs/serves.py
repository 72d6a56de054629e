# SPDX-License-Identifier: Apache-2.0
"""Hop virtiofs: a host's trace in, the requests that virtiofsd took up and answered out."""

from __future__ import annotations

import numpy as np

from iostrata.columns import AsOf, at, columns_of, pair_key
from iostrata.hops.hop import Serves
from iostrata.stitch import Pieces
from iostrata.trace import Trace


def serves_of(lower: Trace) -> tuple[Serves, Pieces]:
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
