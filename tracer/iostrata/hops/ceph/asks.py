# SPDX-License-Identifier: Apache-2.0
"""Hop ceph: a machine's trace in, the operations that its disks and OSDs asked of OSDs out."""

from __future__ import annotations

from typing import Final

import numpy as np

from iostrata.columns import AsOf, Ints, at, joined
from iostrata.hops.ceph.entities import CLIENT, OSD, entity, group_of, key_of
from iostrata.hops.hop import Asks
from iostrata.hops.translation import NO_KEY
from iostrata.stitch import (
    OP_READ,
    Columns,
    Window,
    images_of,
    requests_of,
    suboperations_of,
    whole,
)
from iostrata.trace import Trace

READY: Final = "ready_ns"


def asks_of(upper: Trace) -> Asks:
    return Asks(**joined([_of_disks(upper), _of_osds(upper), _of_programs(upper)]))


def _of_disks(upper: Trace) -> Asks:
    """One that spans objects is an ask for each; what only reads is none."""
    window = whole(upper)
    columns = ["request_key", "number", "client", "osd_number"]
    columns += [READY] * (READY in upper.points["rbd_answered"].fields)
    answered = window.columns("rbd_answered", *columns)
    requests = requests_of(window)[0] if len(answered["osd_number"]) else None
    if requests is None:
        return _none()
    request = AsOf(requests.key, requests.issue_ns).at_or_before(
        answered["request_key"], answered["time_ns"]
    )
    known = (at(requests.complete_ns, request) >= answered["time_ns"]) & (request >= 0)
    rows = np.flatnonzero(known & (at(requests.operation, request) != OP_READ))
    answered, request = {name: each[rows] for name, each in answered.items()}, request[rows]
    client = entity(answered["client"], CLIENT)
    key = key_of(client, answered["number"])
    issue, none = requests.issue_ns[request], np.zeros(len(rows), np.int64)
    told, there = _told(window, key, issue, answered["time_ns"]), answered.get(READY, none)
    return Asks(
        identity=answered["request_key"],
        begin_ns=issue,
        end_ns=requests.complete_ns[request],
        key=key,
        group=group_of(client, answered["osd_number"]),
        shared=none.astype(np.bool_),
        told_ns=told,
        heard_ns=np.where(there > told, there, answered["time_ns"]),
        offset_bytes=none,
        size_bytes=none,
    )


def _told(window: Window, key: Ints, issue_ns: Ints, answered_ns: Ints) -> Ints:
    """When a worker of the messenger began to send each operation; of what was not seen, when the
    messenger had it."""
    sent = window.columns("rbd_sent", "number", "client")
    begun = window.columns("rbd_message", "number", "client")
    found = AsOf(_keys(sent), sent["time_ns"]).at_or_before(key, answered_ns)
    first = AsOf(_keys(begun), begun["time_ns"]).at_or_after(key, issue_ns)
    begun_ns = at(begun["time_ns"], first)
    seen = (first >= 0) & (begun_ns <= answered_ns)
    return np.where(seen, begun_ns, np.maximum(at(sent["time_ns"], found), issue_ns))


def _keys(told: Columns) -> Ints:
    return key_of(entity(told["client"], CLIENT), told["number"])


def _of_osds(upper: Trace) -> Asks:
    """For copies."""
    asked = suboperations_of(whole(upper))
    mine = entity(asked.osd, OSD)
    # Of an OSD that is not known the others do not know it either.
    key = np.where(asked.osd >= 0, key_of(mine, asked.number), NO_KEY)
    return _sent(asked.key, key, group_of(mine, asked.peer), asked.send_ns, asked.reply_ns)


def _of_programs(upper: Trace) -> Asks:
    """By their library, for their own disks."""
    made = images_of(whole(upper)).asked
    client = entity(made.client, CLIENT)
    key, group = key_of(client, made.number), group_of(client, made.osd)
    return _sent(made.key, key, group, made.send_ns, made.reply_ns)


def _sent(identity: Ints, key: Ints, group: Ints, send_ns: Ints, reply_ns: Ints) -> Asks:
    """Those that last from when they were sent until they were answered."""
    none = np.zeros(len(key), np.int64)
    return Asks(
        identity=identity,
        begin_ns=send_ns,
        end_ns=reply_ns,
        key=key,
        group=group,
        shared=none.astype(np.bool_),
        told_ns=send_ns,
        heard_ns=reply_ns,
        offset_bytes=none,
        size_bytes=none,
    )


def _none() -> Asks:
    none = np.zeros(0, np.int64)
    return Asks(none, none, none, none, none, none.astype(np.bool_), none, none, none, none)
