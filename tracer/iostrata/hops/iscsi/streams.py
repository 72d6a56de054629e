# SPDX-License-Identifier: Apache-2.0
"""Hop iscsi: commands and who carried them out in, where in TCP's streams they and their responses
end out."""

from __future__ import annotations

import numpy as np

from iostrata.columns import AsOf, at, integers
from iostrata.hops.hop import Link
from iostrata.hops.iscsi.asks import asks_of
from iostrata.hops.packets import UNSEEN
from iostrata.hops.route import Streams
from iostrata.hops.streams import ends_of

SENT, PLACE = "target_sent", "sequence"


def streams_of(link: Link) -> Streams | None:
    """None: the initiator's recorder was not asked to tell (``--packets``), or the target's did not
    know how.

    What a target asks for (R2T) comes behind its command: that ends with what was sent at once.
    """
    upper, sent = link.upper, link.lower.trace.points[SENT]
    if not len(upper.points["iscsi_stream"]) or PLACE not in sent.fields:
        return None
    asks, pieces = link.asks, link.lower.pieces.rows(link.serves.piece)
    key, time = integers(sent["command_key"]), sent.time_ns.astype(np.int64)
    # The responses that the serves end with: where one was not seen, its place is not known.
    last = AsOf(key, time).at_or_before(pieces.request_key, pieces.end_ns)
    seen = (last >= 0) & (at(time, last) == pieces.end_ns)
    place = np.where(seen, at(integers(sent[PLACE]), last), UNSEEN)
    reply_end = np.full(len(asks), UNSEEN)
    reply_end[link.pairs.ask] = place[link.pairs.serve]
    # As the wire has them: a key may say more.
    itt = asks_of(upper, link.hop.reads).key
    return Streams(ends_of(upper, "iscsi_stream", asks.group, itt, asks.told_ns), reply_end)
