# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: the NFS client's events in, its calls with their times and owners out.

One call is one rpc_task: the NFS client's point says for which file and range it
is, RPC's says when it was sent and answered. Both bear the task's pointer.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from iostrata.columns import AsOf, Ints, at, pair_key
from iostrata.layers import RANK
from iostrata.stitch.owners import Owners
from iostrata.stitch.reconnects import Downs
from iostrata.stitch.spans import NO_SPANS, SpanList, Spans
from iostrata.stitch.window import Window
from iostrata.trace.layout import NFS_OTHER, RPC_WAIT_DELAY, RPC_WAIT_RECOVERY

FUSE_REQUEST: Final = 1 << 16
"""From here on operations are no calls of NFS, but requests of FUSE: its opcodes."""
NINEP_REQUEST: Final = 1 << 17
"""From here on they are requests of 9p: its types of messages."""
OSD_REQUEST: Final = 1 << 18
"""From here on, what one OSD of Ceph asks of another."""
LIBRBD_REQUEST: Final = 1 << 19
"""And from here on, what a program's library asks of the OSDs that have its disk."""
NO_CONNECTION: Final = -1
REQUEST_KEY: Final = "request_key"
"""Of ``nfs_call``; older recorders do not tell it."""


@dataclass(frozen=True, eq=False)
class Calls:
    """Calls that were made and ended: one row each. Times in ns.

    ``tid``: of the thread that made it, ``end_tid``: of the one that found it ended.
    ``reply_ns``: its reply was there (the transport had data, or, where that is
    not known, the reply was matched to the call). ``ends``: of the connection's addresses,
    as in struct rpc_event; 0: not known. ``offset_bytes``, ``size_bytes``: of the file.
    ``stable``, ``request_key``: as in struct nfs_call_event.
    """

    key: Ints
    tid: Ints
    device_key: Ints
    inode: Ints
    begin_ns: Ints
    send_ns: Ints
    reply_ns: Ints
    end_ns: Ints
    xid: Ints
    connection: Ints
    ends: Ints
    operation: Ints
    end_tid: Ints
    offset_bytes: Ints
    size_bytes: Ints
    stable: Ints
    request_key: Ints

    def __len__(self) -> int:
        return len(self.key)

    def rows(self, rows: Ints) -> Calls:
        return Calls(**{name: column[rows] for name, column in vars(self).items()})


NO_CALLS: Final = Calls(**{column.name: np.zeros(0, np.int64) for column in fields(Calls)})


def calls_elsewhere(
    *,
    key: Ints,
    tid: Ints,
    xid: Ints,
    send_ns: Ints,
    reply_ns: Ints,
    operation: Ints,
    **other: Ints,
) -> Calls:
    """Calls that are no RPC: they have no connection, and do not wait before they are sent.

    ``other``: further columns, where they are something else than 0, or than the times given.
    """
    none = np.zeros(len(key), np.int64)
    columns = {"device_key": none, "inode": none, "begin_ns": send_ns, "end_ns": reply_ns,
               "ends": none, "end_tid": none, "offset_bytes": none, "size_bytes": none,
               "stable": none, "request_key": none}  # fmt: skip
    return Calls(
        key=key, tid=tid, xid=xid, send_ns=send_ns, reply_ns=reply_ns, operation=operation,
        connection=none + NO_CONNECTION, **(columns | other),
    )  # fmt: skip


def rpc_calls_of(window: Window) -> Calls:
    """Pairs the two points of each call; a call without its other edge is left out."""
    keyed = tuple({REQUEST_KEY} & set(window.trace.points["nfs_call"].fields))
    made = window.columns(
        "nfs_call", "tid", "call_key", "dev", "inode", "operation", "offset_bytes", "size_bytes",
        "stable", *keyed,
    )  # fmt: skip
    later = tuple({"ends"} & set(window.trace.points["rpc_call"].fields))
    ended = window.columns(
        "rpc_call", "tid", "call_key", "send_ns", "ready_ns", "reply_ns", "xid", "connection",
        *later,
    )  # fmt: skip
    call = AsOf(made["call_key"], made["time_ns"]).at_or_before(
        ended["call_key"], np.where(ended["send_ns"] > 0, ended["send_ns"], ended["time_ns"])
    )
    rows = np.flatnonzero((call >= 0) & (ended["send_ns"] > 0) & (ended["reply_ns"] > 0))
    call = call[rows]
    send, reply, ready = (ended[name][rows] for name in ("send_ns", "reply_ns", "ready_ns"))
    # Data that came in before the call was sent was another call's.
    ready = np.where((ready > send) & (ready < reply), ready, reply)
    return Calls(
        key=ended["call_key"][rows],
        tid=made["tid"][call],
        device_key=made["dev"][call],
        inode=made["inode"][call],
        begin_ns=made["time_ns"][call],
        send_ns=send,
        reply_ns=ready,
        end_ns=ended["time_ns"][rows],
        xid=ended["xid"][rows],
        connection=ended["connection"][rows],
        ends=ended["ends"][rows] if later else np.zeros(len(rows), np.int64),
        operation=made["operation"][call],
        end_tid=ended["tid"][rows],
        offset_bytes=made["offset_bytes"][call],
        size_bytes=made["size_bytes"][call],
        stable=made["stable"][call],
        request_key=made[REQUEST_KEY][call] if keyed else np.zeros(len(rows), np.int64),
    )


@dataclass(frozen=True)
class Hindered:
    """Why calls were neither sent nor answered; ``downs``: while there was no connection."""

    waits: Waits
    downs: Downs


@dataclass(frozen=True, eq=False)
class Waits:
    """When calls waited for what is no answer: rows of the calls, and for what."""

    call: Ints
    begin_ns: Ints
    end_ns: Ints
    reason: Ints


def waits_of(window: Window, calls: Calls) -> Waits:
    """Each wait within its call, if both of its ends were seen."""
    if not len(calls):
        return Waits(*np.zeros((4, 0), np.int64))
    turns = window.columns("rpc_wait", "call_key", "reason", "waits")
    began, ended = np.flatnonzero(turns["waits"] > 0), np.flatnonzero(turns["waits"] == 0)
    task = pair_key(turns["call_key"], turns["reason"])
    begin = AsOf(task[began], turns["time_ns"][began]).at_or_before(
        task[ended], turns["time_ns"][ended]
    )
    # Of one task's waits, each end is of the last that began.
    ended, begin = ended[begin >= 0], began[begin[begin >= 0]]
    begin, first = np.unique(begin, return_index=True)
    begin_ns, end_ns = turns["time_ns"][begin], turns["time_ns"][ended[first]]
    call = AsOf(calls.key, calls.begin_ns).at_or_before(turns["call_key"][begin], begin_ns)
    within = (call >= 0) & (end_ns <= at(calls.end_ns, call))
    return Waits(call[within], begin_ns[within], end_ns[within], turns["reason"][begin][within])


def owners_of_calls(calls: Calls, owners: Owners) -> Ints:
    """The piece that each call was made for, -1: none.

    The thread's own; of a call that the flusher made, the piece that synchronises
    that file at the time, and so waits for all of its calls that write or commit: but for
    those that say for whom they are.
    """
    if not len(calls):
        return np.zeros(0, np.int64)
    own = owners.find(calls.tid, calls.begin_ns)
    syncs = owners.syncs
    file = pair_key(syncs.device_key, syncs.inode)
    wanted = pair_key(calls.device_key, calls.inode)
    sync = AsOf(file, syncs.begin_ns).at_or_before(wanted, calls.end_ns)
    waits = (at(syncs.end_ns, sync) >= calls.end_ns) & (calls.operation != NFS_OTHER)
    waits &= calls.request_key == 0
    return np.where((own < 0) & waits, at(syncs.piece, sync), own)


def spans_of_calls(calls: Calls, owner: Ints, first_ask: int, hindered: Hindered) -> Spans:
    """What each call did, as spans of its owner; the n-th call is ask ``first_ask`` + n."""
    if not len(calls):
        return NO_SPANS
    spans = SpanList()
    asks, waits = first_ask + np.arange(len(calls)), hindered.waits
    ends = (FUSE_REQUEST, NINEP_REQUEST, OSD_REQUEST, LIBRBD_REQUEST)
    kind = np.searchsorted(ends, calls.operation, side="right")
    remote = np.where(kind == 0, owner, -1)
    spans.add(remote, "rpc.queue", calls.begin_ns, calls.send_ns, asks)
    rows = ("rpc.call", "fuse.call", "ninep.call", "osd.replicas", "librbd.call")
    away = np.array([RANK[row] for row in rows], np.int16)
    spans.add(owner, away[kind], calls.send_ns, calls.reply_ns, asks)
    spans.add(remote, "rpc.reply", calls.reply_ns, calls.end_ns, asks)
    for rank, reason in (("rpc.recovery", RPC_WAIT_RECOVERY), ("rpc.delay", RPC_WAIT_DELAY)):
        some = waits.reason == reason
        call = waits.call[some]
        spans.add(owner[call], rank, waits.begin_ns[some], waits.end_ns[some], asks[call])
    row, since, until = hindered.downs.during(calls.connection, calls.begin_ns, calls.reply_ns)
    spans.add(owner[row], "rpc.reconnect", since, until, asks[row])
    return spans.collect()
