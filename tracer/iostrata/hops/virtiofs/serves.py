# SPDX-License-Identifier: Apache-2.0
"""Hop virtiofs: a host's trace in, the requests that virtiofsd took up and answered out.

Or the calls of one whose functions cannot be looked at: that in Rust.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from iostrata.columns import AsOf, at, columns_of, distinct, one_of, pair_key
from iostrata.hops.fuse.serves import SYNCS
from iostrata.hops.hop import Serves
from iostrata.hops.processes import served_by, some_of
from iostrata.hops.virtiofs.asks import FUSE_WRITE, SYNC_KEY
from iostrata.stitch import Pieces, processes_of
from iostrata.trace import Trace
from iostrata.trace.layout import CALL_FDATASYNC, CALL_WRITE, THREAD_DAEMON

DAEMON_NAME: Final = b"virtiofsd"


def written_of(lower: Trace) -> tuple[Serves, Pieces]:
    """Without what neither writes nor makes durable (it looks up, opens, asks for a status).

    The place is that of the daemon's own call, and so is the device.
    """
    serves, pieces = serves_by_requests(lower)
    told = columns_of(lower.points["virtiofs_request"], "tid", "unique", "opcode")
    key = pair_key(told["unique"], told["tid"])
    row = AsOf(key, told["time_ns"]).at_or_before(pair_key(serves.key, pieces.tid), serves.begin_ns)
    opcode = at(told["opcode"], row)
    flush = one_of(opcode, SYNCS)
    serves, pieces = some_of(
        replace(serves, flush=flush), pieces, np.flatnonzero(flush | (opcode == FUSE_WRITE))
    )
    calls = columns_of(
        lower.points["syscall"], "tid", "enter_ns", "dev", "offset_bytes", "result", "call"
    )
    made = np.flatnonzero((calls["call"] >= CALL_WRITE) & (calls["call"] <= CALL_FDATASYNC))
    calls = {name: column[made] for name, column in calls.items()}
    first = AsOf(calls["tid"], calls["enter_ns"]).at_or_after(pieces.tid, pieces.begin_ns)
    first = np.where(at(calls["time_ns"], first) <= pieces.end_ns, first, -1)
    place, size = (np.maximum(at(calls[name], first), 0) for name in ("offset_bytes", "result"))
    serves = replace(
        serves,
        offset_bytes=np.where(serves.flush, 0, place),
        size_bytes=np.where(serves.flush, 0, size),
    )
    return serves, replace(pieces, device_key=np.maximum(at(calls["dev"], first), 0))


def serves_by_calls(lower: Trace) -> tuple[Serves, Pieces]:
    """Of daemons that tell of no request: each call that writes or makes durable, by the place in
    whatever file."""
    telling = distinct(columns_of(lower.points["virtiofs_request"], "tgid")["tgid"])
    daemons = processes_of(lower, THREAD_DAEMON, DAEMON_NAME)
    serves, pieces = served_by(lower, daemons[~one_of(daemons, telling)])
    key, never = np.where(serves.flush, SYNC_KEY, serves.key), np.zeros(len(serves), np.bool_)
    return replace(serves, key=key, group=serves.agent, shared=never), pieces


def serves_by_requests(lower: Trace) -> tuple[Serves, Pieces]:
    """A piece is a thread's time with a request: it answers one before it takes the next up."""
    begun = columns_of(lower.points["virtiofs_request"], "tid", "tgid", "unique")
    ended = columns_of(lower.points["virtiofs_reply"], "tid", "tgid", "unique")
    answer = AsOf(pair_key(ended["unique"], ended["tid"]), ended["time_ns"])
    found = answer.at_or_after(pair_key(begun["unique"], begun["tid"]), begun["time_ns"])
    rows = np.flatnonzero(found >= 0)
    begun, end_ns = (
        {name: column[rows] for name, column in begun.items()},
        at(ended["time_ns"], found[rows]),
    )
    number, none = np.arange(len(rows)), np.zeros(len(rows), np.int64)
    never = np.zeros(len(rows), np.bool_)
    pieces = Pieces(number, begun["tid"], begun["time_ns"], end_ns, none, none)
    serves = Serves(
        begin_ns=begun["time_ns"],
        end_ns=end_ns,
        key=begun["unique"],
        group=begun["tgid"],
        shared=never,
        piece=number,
        agent=begun["tgid"],
        flush=never,
        offset_bytes=none,
        size_bytes=none,
    )
    return serves, pieces
