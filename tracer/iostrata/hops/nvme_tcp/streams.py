# SPDX-License-Identifier: Apache-2.0
"""Hop nvme-tcp: commands and who carried them out in, where in TCP's streams they and their
responses end out."""

from __future__ import annotations

from typing import Final

import numpy as np

from iostrata.hops.connections import ports_and_addresses_of
from iostrata.hops.hop import Link
from iostrata.hops.nvme_tcp.asks import asks_of
from iostrata.hops.packets import UNSEEN
from iostrata.hops.route import Streams
from iostrata.hops.streams import ends_of

IDENTIFIER: Final = 0xFFFF
"""What of a key is the command's; the rest is its connection's."""


def streams_of(link: Link) -> Streams | None:
    """None: the initiator's recorder was not asked to tell (``--packets``).

    What a target asks for (R2T) comes behind its command: that ends with what was sent at once. Of
    what is read without a response behind the data, nothing tells where that ends.
    """
    if not len(link.upper.points["nvme_stream"]):
        return None
    asks, serves, (ask, serve) = link.asks, link.serves, (link.pairs.ask, link.pairs.serve)
    # As the wire has them: a key may say more.
    command = asks_of(link.upper, link.hop.reads).key & IDENTIFIER
    asked, served = ports_and_addresses_of(asks.group), ports_and_addresses_of(serves.group[serve])
    sent = ends_of(link.upper, "nvme_stream", asked, command, asks.told_ns, asks.end_ns)
    heard = link.clock.to_lower(asks.end_ns[ask] + link.clock.bound_ns)
    reply_end = np.full(len(asks), UNSEEN)
    reply_end[ask] = ends_of(
        link.lower.trace, "nvmet_stream", served, command[ask], serves.end_ns[serve], heard
    )
    return Streams(sent, reply_end)
