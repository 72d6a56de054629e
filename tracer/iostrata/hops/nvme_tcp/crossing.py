# SPDX-License-Identifier: Apache-2.0
"""Hop nvme-tcp: what a command spent between initiator and target."""

from __future__ import annotations

import numpy as np

from iostrata.columns import Ints, at
from iostrata.hops.carried import all_of, begun_of, carried, until_answered
from iostrata.hops.hop import Held, Link
from iostrata.hops.nvme_tcp.serves import all_there, asked_of, there_of
from iostrata.stitch import Spans


def crossing_of(link: Link, held: Held) -> Spans:
    return carried(link, until_answered(link, held), "target.queue", _asked_for)


def _asked_for(link: Link, serve: Ints) -> tuple[Ints, Ints]:
    """When those commands were there, and read, of which the target asked for the data."""
    if not len(serve):
        return serve, serve
    command = begun_of(link, serve, "nvmet_req_init", "request_key", "ready_ns")
    begin = at(command.begun["time_ns"], command.first)
    asked = all_there(asked_of(all_of(link)), command.key, begin, command.end_ns) >= 0
    asked &= command.first >= 0
    there = at(there_of(command.begun), command.first)
    times = link.clock.to_upper(there), link.clock.to_upper(begin)
    return np.where(asked, times[0], -1), np.where(asked, times[1], -1)
