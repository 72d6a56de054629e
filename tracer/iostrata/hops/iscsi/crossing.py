# SPDX-License-Identifier: Apache-2.0
"""Hop iscsi: what a command spent between initiator and target."""

from __future__ import annotations

import numpy as np

from iostrata.columns import AsOf, Ints, at
from iostrata.hops.carried import heard_of
from iostrata.hops.hop import Held, Link
from iostrata.stitch import SpanList, Spans


def crossing_of(link: Link, held: Held) -> Spans:
    """Before it is with the connection, and once the response is there, it is the initiator's own.

    An answer that never came was not on its way: nothing is known of what was waited for then.
    Data that the target asks for makes a way of its own: there, once it has the command; until
    it has all, there is a row for that.
    """
    spans, owner, asks = SpanList(), np.arange(len(held.ask)), link.asks.rows(held.ask)
    told, (answered, heard) = asks.told_ns, heard_of(asks)
    row, serve = link.served(held.ask)
    piece = link.serves.piece[serve]
    taken = link.clock.to_upper(link.lower.pieces.begin_ns[piece])
    sent = link.clock.to_upper(link.lower.pieces.end_ns[piece])
    there = link.begin_ns[serve]
    asked = _asked_for(link, serve)
    first, last = heard.copy(), told.copy()
    np.minimum.at(first, row, np.where(asked >= 0, asked, there))
    np.maximum.at(last, row, sent)
    first, last = np.clip(first, told, heard), np.clip(last, told, heard)
    begin, end = held.begin_ns, held.end_ns
    spans.add(owner, "network.there", np.maximum(told, begin), np.minimum(first, end))
    back = np.maximum(last, begin), np.minimum(heard, end)
    spans.add(np.where(answered, owner, -1), "network.back", *back)
    spans.add(np.where(answered, -1, owner), "unfollowed", *back)
    limit = end[row]
    spans.add(
        np.where(asked >= 0, row, -1), "network.r2t", np.maximum(asked, told[row]),
        np.minimum(there, limit),
    )  # fmt: skip
    spans.add(row, "target.queue", np.maximum(there, told[row]), np.minimum(taken, limit))
    return spans.collect()


def _asked_for(link: Link, serve: Ints) -> Ints:
    """Since when the target had some commands of which it asked for more data, -1: it did not."""
    if not len(serve):
        return serve
    end = link.serves.end_ns[serve]
    key = link.lower.pieces.request_key[link.serves.piece[serve]]
    # Since the first of them can have been there, in the lower machine's clock.
    upper = np.array([int(link.asks.begin_ns.min()), int(link.asks.end_ns.max())])
    window = link.meanwhile(*link.clock.to_lower(upper).tolist())
    begun = window.columns("target_sequencer_start", "command_key")
    done = window.columns("target_cmd_complete", "command_key", "r2t_count")
    first = AsOf(begun["command_key"], begun["time_ns"]).at_or_before(key, end)
    last = AsOf(done["command_key"], done["time_ns"]).at_or_before(key, end)
    asked = (at(done["time_ns"], last) == end) & (at(done["r2t_count"], last) > 0) & (first >= 0)
    return np.where(asked, link.clock.to_upper(at(begun["time_ns"], first)), -1)
