# SPDX-License-Identifier: Apache-2.0
"""Hop nvme-tcp: an initiator's trace in, the commands that it sent out."""

from __future__ import annotations

import numpy as np

from iostrata.columns import AsOf, Ints, at
from iostrata.hops.hop import Asks
from iostrata.hops.nvme_tcp.commands import ENDS, NUMBERS, groups_of, keys_of
from iostrata.stitch import OP_READ, Columns, Window, last_hit, requests_of, whole
from iostrata.trace import Trace


def asks_of(upper: Trace, reads: bool = False) -> Asks:
    """Each is a request of the disk: what writes, flushes or discards; ``reads``: or reads.

    A command's identifier is told as it is set up. Later, it need not be there any more: what goes
    with the data that the target has asked for is written over it (nvme_tcp_setup_h2c_data_pdu).
    What the driver gives back, it says to be complete as well: there was no answer, as a rule its
    connection ended.
    """
    window = whole(upper)
    requests = requests_of(window)[0]
    done = window.columns("nvme_complete_rq", "request_key", *NUMBERS, *ENDS)
    last = AsOf(done["request_key"], done["time_ns"])
    found = last.at_or_before(requests.key, requests.complete_ns)
    seen = (found >= 0) & (at(done["time_ns"], found) >= requests.issue_ns)
    rows = np.flatnonzero(seen & (reads | (requests.operation != OP_READ)))
    command = _identifiers(window, done, found[rows])
    done = {name: column[found[rows]] for name, column in done.items()} | {"command": command}
    sent = last_hit(window, "nvme_tcp_send", requests)
    told = np.where(sent >= 0, sent, requests.issue_ns)
    heard = last_hit(window, "nvme_complete_rq", requests, told)
    heard, none = np.where(requests.returned, -1, heard), np.zeros(len(rows), np.int64)
    return Asks(
        identity=requests.key[rows],
        begin_ns=requests.issue_ns[rows],
        end_ns=requests.complete_ns[rows],
        key=keys_of(done),
        group=groups_of(done),
        shared=none.astype(np.bool_),
        told_ns=told[rows],
        heard_ns=heard[rows],
        offset_bytes=none,
        size_bytes=none,
    )


def _identifiers(window: Window, done: Columns, rows: Ints) -> Ints:
    """Of some commands; as it is in the end where nothing had told it before.

    It is set up before its request is issued, but not before the use of that before it was over.
    """
    setup = window.columns("nvme_setup_cmd", "request_key", "wire_key")
    key, time = done["request_key"], done["time_ns"]
    found = AsOf(setup["request_key"], setup["time_ns"]).at_or_before(key[rows], time[rows])
    before = AsOf(key, time).at_or_before(key[rows], time[rows] - 1)
    told = (found >= 0) & (at(setup["time_ns"], found) >= at(time, before))
    return np.where(told, at(setup["wire_key"], found), done["command"][rows])
