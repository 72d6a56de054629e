# SPDX-License-Identifier: Apache-2.0
"""Hop ceph: operations and the OSDs that carried them out in, which had to be sent again out.

The kernel's client sends what was not answered once more, to the same OSD when that was started
anew, or to another that has become the primary. No point tells when it did.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, at, columns_of, pair_key
from iostrata.hops.hop import Link
from iostrata.model import NotObserved

PROCESS: Final = ("tgid", "osd_number")


def known_since(link: Link, ask: Ints, serve: Ints) -> Ints:
    """Since when some asks were on their way to who served them so, in the upper machine's clock:
    since they were sent; not before the first one was there, if their OSD was started anew, nor,
    where they were sent to another one first, before they were there themselves."""
    told_ns, arrived_ns = link.asks.told_ns[ask], link.begin_ns[serve]
    since = np.maximum(told_ns, np.minimum(_started_anew(link)[serve], arrived_ns))
    return np.where(_moved(link)[ask], np.maximum(told_ns, arrived_ns), since)


def sent_again(link: Link) -> Iterator[NotObserved]:
    """A line for each OSD that has carried out what another, or another process of it, had not."""
    pairs, told = link.pairs, columns_of(link.lower.trace.points["osd_message"], *PROCESS)
    again = known_since(link, pairs.ask, pairs.serve) > link.asks.told_ns[pairs.ask]
    agent = link.serves.agent[pairs.serve[again]]
    osd = at(told["osd_number"], AsOf(told["tgid"], told["time_ns"]).at_or_after(agent, agent * 0))
    for number, count in zip(*np.unique(osd, return_counts=True), strict=True):
        operations, were = ("operation", "was") if count == 1 else ("operations", "were")
        what = "had not been answered by another process of it, or by another OSD, and"
        reason = f"{count} {operations} {what} {were} sent again, when is not told"
        yield NotObserved(f"osd.{number}" if number >= 0 else "an OSD", reason, "unfollowed")


def _started_anew(link: Link) -> Ints:
    """When the process of each serve was first asked for anything, in the upper machine's clock, if
    its OSD had another one before; else 0."""
    told = columns_of(link.lower.trace.points["osd_message"], *PROCESS)
    process, first = np.unique(told["tgid"], return_index=True)
    osd, asked_ns = told["osd_number"][first], told["time_ns"][first]
    found = np.zeros(len(link.serves), np.int64)
    for number in np.flatnonzero(osd >= 0).tolist():
        if asked_ns[number] > asked_ns[osd == osd[number]].min():
            mine = link.serves.agent == process[number]
            found[mine] = link.clock.to_upper(asked_ns[number : number + 1])
    return found


def _moved(link: Link) -> NDArray[np.bool_]:
    """Which of the asks another OSD answered than the one that the kernel's client sent it to."""
    points, asks = link.upper.points, link.asks
    sent = columns_of(points["rbd_sent"], "client", "number", "osd_number")
    told = columns_of(points["rbd_answered"], "client", "number", "osd_number", "request_key")
    answers = AsOf(told["request_key"], told["time_ns"])
    answer = answers.at_or_before(asks.identity, asks.heard_ns)
    sends = AsOf(pair_key(sent["client"], sent["number"]), sent["time_ns"])
    key = pair_key(at(told["client"], answer), at(told["number"], answer))
    send = sends.at_or_before(key, asks.heard_ns)
    found: NDArray[np.bool_] = (send >= 0) & (at(told["time_ns"], answer) == asks.heard_ns)
    found &= at(sent["osd_number"], send) != at(told["osd_number"], answer)
    return found
