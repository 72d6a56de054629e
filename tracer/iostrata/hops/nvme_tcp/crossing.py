# SPDX-License-Identifier: Apache-2.0
"""Hop nvme-tcp: what a command spent between initiator and target."""

from __future__ import annotations

import numpy as np

from iostrata.columns import AsOf, Ints, at
from iostrata.hops.carried import all_of, carried
from iostrata.hops.hop import Held, Link
from iostrata.hops.nvme_tcp.serves import all_there, there_of
from iostrata.stitch import Spans


def crossing_of(link: Link, held: Held) -> Spans:
    return carried(link, held, "target.queue", _asked_for)


def _asked_for(link: Link, serve: Ints) -> Ints:
    """Since when the target had some commands of which it asked for the data, -1: it did not."""
    if not len(serve):
        return serve
    end = link.serves.end_ns[serve]
    key = link.lower.pieces.request_key[link.serves.piece[serve]]
    window = all_of(link)
    begun = window.columns("nvmet_req_init", "request_key", "ready_ns")
    data = window.columns("nvmet_data", "request_key", "ready_ns")
    first = AsOf(begun["request_key"], begun["time_ns"]).at_or_before(key, end)
    there = np.where(first >= 0, at(there_of(begun), first), -1)
    asked = (first >= 0) & (all_there(data, key, at(begun["time_ns"], first), end) >= 0)
    return np.where(asked, link.clock.to_upper(there), -1)
