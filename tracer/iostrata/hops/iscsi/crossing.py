# SPDX-License-Identifier: Apache-2.0
"""Hop iscsi: what a command spent between initiator and target."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from iostrata.columns import AsOf, Ints, at
from iostrata.hops.carried import all_of, begun_of, carried
from iostrata.hops.hop import Held, Link
from iostrata.stitch import Spans


def crossing_of(link: Link, held: Held) -> Spans:
    """The response is on its way once it is with the connection."""
    row, serve = link.served(held.ask)
    last, ends = held.last_ns.copy(), link.lower.pieces.end_ns[link.serves.piece[serve]]
    np.maximum.at(last, row, link.clock.to_upper(ends))
    return carried(link, replace(held, last_ns=last), "target.queue", _asked_for)


def _asked_for(link: Link, serve: Ints) -> Ints:
    """Since when the target had some commands of which it asked for more data, -1: it did not."""
    if not len(serve):
        return serve
    command = begun_of(link, serve, "target_sequencer_start", "command_key")
    done = all_of(link).columns("target_cmd_complete", "command_key", "r2t_count")
    last = AsOf(done["command_key"], done["time_ns"]).at_or_before(command.key, command.end_ns)
    asked = (at(done["time_ns"], last) == command.end_ns) & (at(done["r2t_count"], last) > 0)
    begin = at(command.begun["time_ns"], command.first)
    return np.where(asked & (command.first >= 0), link.clock.to_upper(begin), -1)
