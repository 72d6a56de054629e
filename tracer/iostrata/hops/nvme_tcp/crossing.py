# SPDX-License-Identifier: Apache-2.0
"""Hop nvme-tcp: what a command spent between initiator and target."""

from __future__ import annotations

from typing import Final

import numpy as np

from iostrata.columns import AsOf, Ints, at
from iostrata.hops.carried import (
    all_of,
    begun_of,
    carried,
    handed_of,
    more_sent,
    there_of,
    until_answered,
)
from iostrata.hops.hop import Held, Link
from iostrata.hops.nvme_tcp.serves import all_there, asked_of
from iostrata.stitch import Spans

HANDED: Final = "nvme_tcp_handed"


def crossing_of(link: Link, held: Held) -> Spans:
    held = until_answered(link, held)
    more = more_sent(link, held, "nvme_tcp_asked", HANDED)
    return carried(link, held, "target.queue", _asked_for, [more], *handed_of(link, held, HANDED))


def _asked_for(link: Link, serve: Ints) -> tuple[Ints, Ints]:
    """When those commands were there of which the target asked for the data, and when it did; where
    that is not told, when it read them."""
    if not len(serve):
        return serve, serve
    command = begun_of(link, serve, "nvmet_req_init", "request_key", "ready_ns")
    begin, window = at(command.begun["time_ns"], command.first), all_of(link)
    data = all_there(asked_of(window), command.key, begin, command.end_ns)
    asked = (data >= 0) & (command.first >= 0)
    sent = window.columns("nvmet_asked", "request_key")
    found = AsOf(sent["request_key"], sent["time_ns"]).at_or_after(command.key, begin)
    time = at(sent["time_ns"], found)
    made = np.where((found >= 0) & (time <= data), time, begin)
    there = at(there_of(command.begun), command.first)
    times = link.clock.to_upper(there), link.clock.to_upper(made)
    return np.where(asked, times[0], -1), np.where(asked, times[1], -1)
