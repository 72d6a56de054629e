# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: what became of an NFS client's transports in, when each had no connection out.

They are rare, and last longer than a window may: they are found in the whole trace.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from iostrata.columns import AsOf, Ints, at, columns_of, order_of
from iostrata.trace import Trace


@dataclass(frozen=True, eq=False)
class Downs:
    """Times without a connection, one row each: of which transport, from when to when.

    ``up_key``, ``up_ns``, ``up_transport``: each connection's number, since when there is one of
    that number, and whose it is. It is mostly the same one again.
    """

    transport: Ints
    begin_ns: Ints
    end_ns: Ints
    up_key: Ints
    up_ns: Ints
    up_transport: Ints

    def during(self, connection: Ints, begin_ns: Ints, end_ns: Ints) -> tuple[Ints, Ints, Ints]:
        """Of times on connections, by which they ended: the row, and since and until when there
        was none; a row for each such time in between."""
        whose = AsOf(self.up_key, self.up_ns).at_or_before(connection, end_ns)
        known, whose = whose >= 0, at(self.up_transport, whose)
        found = [
            np.flatnonzero(known & (whose == transport) & (begin_ns < end) & (end_ns > begin))
            for transport, begin, end in self._each()
        ]
        counts = [len(rows) for rows in found]
        rows = np.concatenate([np.zeros(0, np.int64), *found])
        since = np.maximum(begin_ns[rows], np.repeat(self.begin_ns, counts))
        return rows, since, np.minimum(end_ns[rows], np.repeat(self.end_ns, counts))

    def apart_from(self, connection: Ints, begin_ns: Ints, end_ns: Ints) -> tuple[Ints, Ints, Ints]:
        """Of such times the row, begin and end of what is left when there was a connection."""
        row, since, until = self.during(connection, begin_ns, end_ns)
        order = order_of(row, since)
        every = np.arange(len(begin_ns))
        # Each gap is between an end (of the one before, or the begin) and the next begin.
        of = np.concatenate([every, row[order]])
        begins = np.concatenate([begin_ns, until[order]])
        ends = np.concatenate([end_ns, since[order]])
        left = order_of(of, begins)
        right = order_of(of, ends)
        return of[left], begins[left], ends[right]

    def _each(self) -> list[tuple[int, int, int]]:
        columns = (self.transport.tolist(), self.begin_ns.tolist(), self.end_ns.tolist())
        return list(zip(*columns, strict=True))


def downs_of(trace: Trace) -> Downs:
    """From the first point that told of its end, to the one that told of the next.

    What comes up and was never seen to go down had none since the trace began.
    """
    turns = columns_of(trace.points["rpc_transport"], "transport_key", "connection", "connected")
    order = order_of(turns["time_ns"])
    turned = {name: column[order] for name, column in turns.items()}
    down_since: dict[int, int] = {}
    met: set[int] = set()
    downs: list[tuple[int, int, int]] = []
    for key, time_ns, connected in zip(
        turned["transport_key"].tolist(), turned["time_ns"].tolist(),
        turned["connected"].tolist(), strict=True,
    ):  # fmt: skip
        if not connected:
            down_since.setdefault(key, time_ns)
        elif key in down_since or key not in met:
            downs.append((key, down_since.pop(key, trace.begin_ns), time_ns))
        met.add(key)
    up = turned["connected"] > 0
    transport, begin_ns, end_ns = np.array(downs, np.int64).reshape(-1, 3).T
    return Downs(
        transport,
        begin_ns,
        end_ns,
        turned["connection"][up],
        turned["time_ns"][up],
        turned["transport_key"][up],
    )
