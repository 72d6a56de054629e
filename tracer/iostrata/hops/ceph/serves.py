# SPDX-License-Identifier: Apache-2.0
"""Hop ceph: a machine's trace in, the operations that its OSDs carried out out."""

from __future__ import annotations

import numpy as np

from iostrata.columns import NEVER, AsOf, Ints, at, pair_key
from iostrata.hops.ceph.entities import entity, group_of, key_of
from iostrata.hops.hop import Serves
from iostrata.hops.workers import taken_up
from iostrata.stitch import (
    OSD_OP,
    OSD_OPREPLY,
    OSD_REPOP,
    OSD_REPOPREPLY,
    Columns,
    Pieces,
    Window,
    exchange_key,
    messages_of,
    sent_of,
    whole,
)
from iostrata.trace import Trace

NO_PLACE = -1
"""Where in an image an object is, only its client knows."""


def serves_of(lower: Trace, written: bool = False) -> tuple[Serves, Pieces]:
    """A serve begins as its message was read; its piece, as a thread takes it up.

    Both end as the answer's turn on its connection comes. ``written``: only of what wrote something
    to an object of the OSD's, or has that done for a copy: no looks at locks, and none of what
    another OSD did.
    """
    window = whole(lower)
    parts = (_of_clients(window, written), _of_copies(window))
    begun, (end, size) = (
        {name: np.concatenate([part[0][name] for part in parts]) for name in parts[0][0]},
        (np.concatenate([part[place] for part in parts]) for place in (1, 2)),
    )
    rows = np.flatnonzero(end >= 0)
    begun, end = {name: column[rows] for name, column in begun.items()}, end[rows]
    work = window.columns("osd_work", "tid", "request_key")
    tid, taken = taken_up(work, begun["op_key"], begun, end)
    number, none = np.arange(len(rows)), np.zeros(len(rows), np.int64)
    asker = entity(begun["peer"], begun["peer_kind"])
    pieces = Pieces(number, tid, taken, end, none, begun["op_key"])
    serves = Serves(
        begin_ns=begun["time_ns"],
        end_ns=end,
        key=key_of(asker, begun["number"]),
        group=group_of(asker, begun["osd_number"], begun["tgid"]),
        shared=none.astype(np.bool_),
        piece=number,
        agent=begun["tgid"],
        flush=none.astype(np.bool_),
        offset_bytes=none + NO_PLACE,
        size_bytes=size[rows],
    )
    return serves, pieces


Part = tuple[Columns, Ints, Ints]
"""Messages; when what they ask for was answered, -1: it is not known; how much that wrote."""


def _answered(window: Window, begun: Columns, given_ns: Ints, until_ns: Ints) -> Ints:
    """When a thread of the messenger began to send the answers to clients, given when (-1: that is
    not told, as of an error, or of what another OSD did); -1: nothing is told of any.

    Which client one is for is not told: where two of one number are on their way at once, or
    nothing was sent, it is when it was given. ``until_ns``: when the operation's place in memory
    was another's, or it came again.
    """
    told = messages_of(window, "osd_written", OSD_OPREPLY)
    sent = AsOf(pair_key(told["number"], told["tgid"]), told["time_ns"])
    given = given_ns >= 0
    since_ns = np.where(given, given_ns, begun["time_ns"])
    found = sent.at_or_after(pair_key(begun["number"], begun["tgid"]), since_ns)
    mine = (found >= 0) & (given | (at(told["time_ns"], found) < until_ns))
    mine &= given | ~np.isin(found, found[given])
    known = np.flatnonzero(mine)
    alone = known[np.bincount(found[known])[found[known]] == 1]
    end_ns = given_ns.copy()
    end_ns[alone] = told["time_ns"][found[alone]]
    return end_ns


def _of_clients(window: Window, written: bool) -> Part:
    """An operation's place in memory is used again at once."""
    begun = messages_of(window, "osd_message", OSD_OP)
    told = window.columns("osd_message", "op_key")
    replied = window.columns("osd_reply", "op_key", "size_bytes")
    key, time = begun["op_key"], begun["time_ns"]
    found = AsOf(replied["op_key"], replied["time_ns"]).at_or_after(key, time)
    again = at(told["time_ns"], AsOf(told["op_key"], told["time_ns"]).at_or_after(key, time + 1))
    again = np.where(again >= 0, again, NEVER)
    end, size = at(replied["time_ns"], found), at(replied["size_bytes"], found)
    given = (found >= 0) & (end <= again)
    asked = exchange_key(begun["number"], entity(begun["peer"], begun["peer_kind"]), begun["tgid"])
    until = np.minimum(again, AsOf(asked, time).following())
    end = _answered(window, begun, np.where(given, end, -1), until)
    size = np.where(given, np.maximum(size, 0), 0)
    return begun, np.where(size > 0, end, -1) if written else end, size


def _of_copies(window: Window) -> Part:
    begun = messages_of(window, "osd_message", OSD_REPOP)
    answers = messages_of(window, "osd_send", OSD_REPOPREPLY, "message_key")
    key, answer = (
        exchange_key(each["number"], each["peer"], each["tgid"]) for each in (begun, answers)
    )
    found = AsOf(answer, answers["time_ns"]).at_or_after(key, begun["time_ns"])
    return begun, at(sent_of(window, answers), found), np.zeros(len(key), np.int64)
