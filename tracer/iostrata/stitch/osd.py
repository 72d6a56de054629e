# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: what an OSD of Ceph tells in, what its operations wait for out.

An operation waits for its own store (BlueStore: the data, then a log that many are written to at
once) and for the OSDs that keep the copies, all at the same time: whichever ends last is what it
waited for, since it began.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import NEVER, AsOf, Ints, at, joined, pair_key
from iostrata.stitch.rpc import LIBRBD_REQUEST, OSD_REQUEST, Calls, calls_elsewhere
from iostrata.stitch.serving import Service
from iostrata.stitch.spans import Edges, SpanList, Spans
from iostrata.stitch.window import Columns, Window

OPERATING: Final = "osd.op"
"""The floor of what an OSD serves."""
# Of Ceph's messages: a client's operation, its answer, one for a copy, and that one's answer.
OSD_OP: Final = 42
OSD_OPREPLY: Final = 43
OSD_REPOP: Final = 112
OSD_REPOPREPLY: Final = 113


@dataclass(frozen=True, eq=False)
class SubOperations:
    """What OSDs asked of those that keep copies: one row each, times in ns.

    ``number``: the asking OSD's of them; ``osd``: which that is (-1: not known), in the process
    ``tgid``; ``peer``: which is asked; ``tid``: of the thread that asked, at ``begin_ns``.
    """

    number: Ints
    tgid: Ints
    osd: Ints
    peer: Ints
    tid: Ints
    begin_ns: Ints
    send_ns: Ints
    reply_ns: Ints

    @property
    def key(self) -> Ints:
        return exchange_key(self.number, self.peer, self.tgid)


def exchange_key(number: Ints, peer: Ints, tgid: Ints) -> Ints:
    """Of a message and its answer, as one of both processes knows them."""
    return pair_key(pair_key(number, peer), tgid)


def messages_of(window: Window, point: str, kind: int, *others: str) -> Columns:
    """Those of one type, of ``osd_message``, ``osd_send`` or ``osd_written``."""
    told = window.columns(point, "tid", "tgid", "op_key", "number", "peer", "osd_number", "type",
                          "peer_kind", *others)  # fmt: skip
    rows = np.flatnonzero(told["type"] == kind)
    return {name: column[rows] for name, column in told.items()}


def sent_of(window: Window, handed: Columns) -> Ints:
    """When messages' turn came on their connections; if that is not told, when they were handed."""
    told = window.columns("osd_written", "number", "message_key")
    turns = AsOf(pair_key(told["message_key"], told["number"]), told["time_ns"])
    key = pair_key(handed["message_key"], handed["number"])
    found = turns.at_or_after(key, handed["time_ns"])
    return np.where(found >= 0, at(told["time_ns"], found), handed["time_ns"])


def suboperations_of(window: Window) -> SubOperations:
    """Those that were answered."""
    sent = messages_of(window, "osd_send", OSD_REPOP, "message_key")
    answers = messages_of(window, "osd_message", OSD_REPOPREPLY)
    key, answer = (
        exchange_key(each["number"], each["peer"], each["tgid"]) for each in (sent, answers)
    )
    found = AsOf(answer, answers["time_ns"]).at_or_after(key, sent["time_ns"])
    rows = np.flatnonzero(found >= 0)
    sent = {name: column[rows] for name, column in sent.items()}
    reply_ns = answers["time_ns"][found[rows]]
    return SubOperations(
        number=sent["number"],
        tgid=sent["tgid"],
        osd=sent["osd_number"],
        peer=sent["peer"],
        tid=sent["tid"],
        begin_ns=sent["time_ns"],
        send_ns=np.minimum(sent_of(window, sent), reply_ns),
        reply_ns=reply_ns,
    )


def osd_calls_of(window: Window) -> Calls:
    """Each as the call of the thread that sent it."""
    asked = suboperations_of(window)
    return calls_elsewhere(
        key=asked.key,
        tid=asked.tid,
        xid=asked.number,
        send_ns=asked.send_ns,
        reply_ns=asked.reply_ns,
        operation=np.full(len(asked.number), OSD_REQUEST),
        begin_ns=asked.begin_ns,
    )


def handed_of(calls: Calls) -> Ints:
    """Since when what OSDs ask of others is waited for: its turn at the messenger comes later.

    NEVER: of other calls, which are waited for since they were sent.
    """
    return np.where(_of_osds(calls), calls.begin_ns, NEVER)


def _of_osds(calls: Calls) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = calls.operation >= OSD_REQUEST
    return found & (calls.operation < LIBRBD_REQUEST)


@dataclass(frozen=True, eq=False)
class Transactions:
    """What pieces had their OSD's store do: one row each, times in ns.

    ``data_ns``: data was on its way to the disk itself, -1: none was; ``ready_ns``: there, and the
    log is next; ``done_ns``: the log has it. ``commit``: which of the window's commits wrote that,
    -1: it is not known. ``readier``, ``writer``, ``finisher``: the threads that then found the
    data there, gave it to the log at ``submit_ns``, and found it in the log, -1: not told.
    """

    piece: Ints
    begin_ns: Ints
    data_ns: Ints
    ready_ns: Ints
    submit_ns: Ints
    done_ns: Ints
    commit: Ints
    readier: Ints
    writer: Ints
    finisher: Ints


NO_TRANSACTIONS: Final = Transactions(*np.zeros((10, 0), np.int64))


def transactions_of(window: Window) -> Transactions:
    if not len(window.trace.points["bluestore_ready"]):
        return NO_TRANSACTIONS
    begun, data, ready, submitted, done = (
        window.columns(f"bluestore_{point}", "tid", "op_key", "transaction_key")
        for point in ("begin", "data", "ready", "submit", "done")
    )
    key, time = ready["transaction_key"], ready["time_ns"]

    def by_key(told: Columns) -> AsOf:
        return AsOf(told["transaction_key"], told["time_ns"])

    begin, end = by_key(begun).at_or_before(key, time), by_key(done).at_or_after(key, time)
    begin_ns, done_ns = at(begun["time_ns"], begin), at(done["time_ns"], end)
    pieces = window.pieces
    op = at(begun["op_key"], begin)
    piece = AsOf(pieces.request_key, pieces.begin_ns).at_or_before(op, begin_ns)
    piece = np.where(at(pieces.end_ns, piece) >= begin_ns, piece, -1)
    data_ns = at(data["time_ns"], by_key(data).at_or_before(key, time))
    written = by_key(submitted).at_or_after(key, time)
    commits = window.commits
    stores = np.flatnonzero(commits.store)
    batch = AsOf(commits.tid[stores], commits.end_ns[stores])
    batch_row = at(
        stores, batch.at_or_after(at(submitted["tid"], written), at(submitted["time_ns"], written))
    )
    known = (begin >= 0) & (end >= 0) & (piece >= 0) & (op != 0)
    rows = np.flatnonzero(known)
    in_time = at(commits.end_ns, batch_row) <= done_ns
    return Transactions(
        piece=piece[rows],
        begin_ns=begin_ns[rows],
        data_ns=np.where(data_ns >= begin_ns, data_ns, -1)[rows],
        ready_ns=time[rows],
        submit_ns=at(submitted["time_ns"], written)[rows],
        done_ns=done_ns[rows],
        commit=np.where(in_time, batch_row, -1)[rows],
        readier=ready["tid"][rows],
        writer=at(submitted["tid"], written)[rows],
        finisher=at(done["tid"], end)[rows],
    )


def awaited(transactions: Transactions, calls: Calls, caller: Ints) -> tuple[Transactions, Calls]:
    """Both until what ends later has begun: that is what is waited for from then on.

    ``caller``: the piece of each call. Before one is sent it is the piece's own.
    """
    of_osds, handed = _of_osds(calls), handed_of(calls)
    calls = replace(calls, begin_ns=np.where(of_osds, calls.send_ns, calls.begin_ns))
    sub = np.flatnonzero(of_osds & (caller >= 0))
    if not len(sub) or not len(transactions.piece):
        return transactions, calls
    own, called = transactions, caller[sub]
    count = int(max(own.piece.max(), called.max())) + 1
    last, first = np.full(count, -1), np.full(count, NEVER)
    np.maximum.at(last, own.piece, own.done_ns)
    np.minimum.at(first, own.piece, own.begin_ns)
    begin, end = calls.send_ns[sub], calls.reply_ns[sub]
    # The store ends last: nobody else is waited for since it began.
    until = np.where(end <= last[called], np.maximum(np.minimum(end, first[called]), begin), end)
    reply = calls.reply_ns.copy()
    reply[sub] = until
    later = np.flatnonzero(end > last[called])
    limit = np.full(count, NEVER)
    np.minimum.at(limit, called[later], handed[sub[later]])
    mine = limit[own.piece]
    own = replace(
        own,
        data_ns=np.minimum(own.data_ns, mine),
        ready_ns=np.minimum(own.ready_ns, mine),
        done_ns=np.minimum(own.done_ns, mine),
    )
    return own, replace(calls, reply_ns=reply, end_ns=np.where(reply < calls.reply_ns, reply,
                                                               calls.end_ns))  # fmt: skip


def spans_of_store(transactions: Transactions) -> Spans:
    spans, own = SpanList(), transactions
    written: NDArray[np.bool_] = own.data_ns >= 0
    spans.add(np.where(written, own.piece, -1), "bluestore.data", own.data_ns, own.ready_ns)
    spans.add(own.piece, "bluestore.log", own.ready_ns, own.done_ns)
    return spans.collect()


def steps_of(
    window: Window, transactions: Transactions, stored: Transactions, calls: Calls, caller: Ints
) -> Service:
    """Whom each piece needed until its next step was done: of its store, then of its answer.

    ``stored``: the transactions as far as they were waited for; ``caller``: the piece of each call.
    """
    own, commits = stored, window.commits
    data, known = np.flatnonzero(own.data_ns >= 0), own.submit_ns >= 0
    log = np.flatnonzero(known)
    synced = np.where(own.commit >= 0, at(commits.end_ns, own.commit), own.submit_ns)
    parts = [
        Service(own.piece[data], own.readier[data], own.data_ns[data], own.ready_ns[data]),
        Service(own.piece[log], own.writer[log], own.ready_ns[log],
                np.minimum(own.submit_ns, own.done_ns)[log]),
        Service(own.piece[log], own.finisher[log], synced[log], own.done_ns[log]),
    ]  # fmt: skip
    if len(transactions.piece):
        parts += _answers(window, transactions, calls, caller)
    return Service(**joined(parts))


def _answers(
    window: Window, transactions: Transactions, calls: Calls, caller: Ints
) -> list[Service]:
    """Who gives the answer once all is there, and who then sends it."""
    pieces, count = window.pieces, len(window.pieces.begin_ns)
    last = np.full(count, -1)
    np.maximum.at(last, transactions.piece, transactions.done_ns)
    asked = np.flatnonzero(_of_osds(calls) & (caller >= 0))
    np.maximum.at(last, caller[asked], calls.reply_ns[asked])
    piece = np.flatnonzero(last >= 0)
    op, done_ns, end_ns = pieces.request_key[piece], last[piece], pieces.end_ns[piece]
    begun = window.columns("osd_message", "number", "peer", "tgid", "op_key")
    first = AsOf(begun["op_key"], begun["time_ns"]).at_or_before(op, pieces.begin_ns[piece])
    asker = exchange_key(*(at(begun[name], first) for name in ("number", "peer", "tgid")))
    replied = window.columns("osd_reply", "tid", "op_key")
    handed = messages_of(window, "osd_send", OSD_REPOPREPLY)
    answers = exchange_key(handed["number"], handed["peer"], handed["tgid"])
    parts: list[Service] = []
    for told, keys, key in ((replied, replied["op_key"], op), (handed, answers, asker)):
        found = AsOf(keys, told["time_ns"]).at_or_after(key, done_ns)
        time = at(told["time_ns"], found)
        rows = np.flatnonzero((found >= 0) & (time <= end_ns))
        parts.append(Service(piece[rows], told["tid"][found[rows]], done_ns[rows], time[rows]))
    written = window.columns("osd_written", "tid", "number", "tgid")
    given = Service(**joined(parts))
    number = np.full(count, -1)
    number[piece] = pair_key(at(begun["number"], first), at(begun["tgid"], first))
    sent = AsOf(pair_key(written["number"], written["tgid"]), written["time_ns"])
    found = sent.at_or_after(number[given.owner], given.end_ns)
    rows = np.flatnonzero(
        (found >= 0) & (at(written["time_ns"], found) <= pieces.end_ns[given.owner])
    )
    parts.append(Service(given.owner[rows], written["tid"][found[rows]], given.end_ns[rows],
                         written["time_ns"][found[rows]]))  # fmt: skip
    return parts


def edges_of_batches(transactions: Transactions) -> Edges:
    """Rows of commits, and the pieces whose log they wrote."""
    own = transactions
    rows = np.flatnonzero((own.commit >= 0) & (own.done_ns > own.ready_ns))
    return Edges(own.commit[rows], own.piece[rows], own.ready_ns[rows], own.done_ns[rows])
