# SPDX-License-Identifier: Apache-2.0
"""Hops: asks whose own serve is known in, with what else QEMU did for them out.

Before it writes the data of a guest, or of a client of qemu-nbd, it may have to make room for it in
the image (fallocate), and to write the image's tables and make them durable. Behind the data comes
a sync, where the write has to be durable once it is complete: it says so itself (FUA), or its disk
has no write cache. None of that has a key. And while QEMU copies a disk elsewhere, a write has to
wait until what is there was copied (a backup), or until it was written there, too (a mirror).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import (
    NEVER,
    AsOf,
    Ints,
    at,
    changes,
    columns_of,
    distinct,
    one_of,
    order_of,
    overlapping,
)
from iostrata.hops.hop import READ_MARK, Asks, Link, Pairs, Serves
from iostrata.hops.match import ROUNDING_NS, SINCE_EVER
from iostrata.hops.processes import ROOM_KEY, ROOM_MARK, durable_by
from iostrata.layers import RANK, STACK
from iostrata.stitch import FUA, Spans, requests_of, whole
from iostrata.trace import Trace

THROUGH: Final = "write through"
Tied = tuple[Ints, Ints, Ints]
"""Rows of asks and of serves, and since when they were waited for."""


@dataclass(frozen=True, eq=False)
class _Own:
    """Writes whose data was found: rows of the asks, times in the upper's clock.

    ``group``: of the serves. ``first_ns``, ``last_ns``: when the first serve of their data began
    and the last one ended.
    """

    ask: Ints
    group: Ints
    begin_ns: Ints
    end_ns: Ints
    first_ns: Ints
    last_ns: Ints

    def where(self, keep: NDArray[np.bool_]) -> _Own:
        return _Own(**{name: column[keep] for name, column in vars(self).items()})


def completed(link: Link, processes: Ints, unasked: bool = False) -> Pairs:
    """The link's pairs, and what else was done for the writes among them.

    ``processes``: which served. ``unasked``: they may sync behind each write although the upper
    machine does not know that its disk has no write cache.
    """
    pairs = link.pairs
    own = _own(link)
    if not len(own.ask):
        return pairs
    durable = are_durable(link.upper, link.asks.rows(own.ask))
    if unasked:
        durable |= _synced_unasked(link, own.where(~durable), own.ask)
    syncs = durable & ~_by_itself(link, processes, own.ask)
    parts = [*_made_durable(link, own.where(syncs)), *_room(link, own), *_tables(link, own)]
    parts += _tables_behind(link, own.where(~syncs))
    parts += _copies(link, own, durable)
    more = [np.concatenate(columns) for columns in zip(*parts, strict=True)]
    ask, serve, since = (
        np.concatenate([known, new])
        for known, new in zip((pairs.ask, pairs.serve, pairs.since_ns), more, strict=True)
    )
    order = order_of(ask, link.begin_ns[serve])
    return Pairs(ask[order], serve[order], since[order], pairs.crossing, pairs.ambiguous)


def _own(link: Link) -> _Own:
    asks, pairs = link.asks, link.pairs
    keyed = ~asks.shared[pairs.ask] & ((asks.group[pairs.ask] & READ_MARK) == 0)
    rows = np.flatnonzero(keyed)
    ask, first, number = np.unique(pairs.ask[rows], return_index=True, return_inverse=True)
    serve = pairs.serve[rows]
    last_ns = np.full(len(ask), SINCE_EVER)
    np.maximum.at(last_ns, number, link.end_ns[serve])
    return _Own(
        ask, link.serves.group[serve[first]], asks.begin_ns[ask], asks.end_ns[ask],
        link.begin_ns[serve[first]], last_ns,
    )  # fmt: skip


def _made_durable(link: Link, some: _Own) -> Iterator[Tied]:
    """Whatever syncs, and writes tables, behind the data, until a sync that began then is over.

    What was under way already for another write has to end before that can begin: QEMU has one
    sync of an image at a time, which is for all that was written before it began.
    """
    other = np.flatnonzero(_of_image(link))
    row, serve = _meanwhile(link, other, some.group, some.last_ns, some.end_ns)
    until = np.minimum(_synced_ns(link, other, some), some.end_ns)
    late = link.end_ns[serve] - until[row]
    sure = late <= ROUNDING_NS
    # What another relation of the clocks allows, where this one has nothing.
    near = (late <= ROUNDING_NS - link.clock.slack[0]) & ~np.isin(row, row[sure])
    row, serve = row[sure | near], serve[sure | near]
    yield some.ask[row], serve, some.last_ns[row]


def _meanwhile(
    link: Link, some: Ints, group: Ints, begin_ns: Ints, end_ns: Ints
) -> tuple[Ints, Ints]:
    """Which of some serves went on in which times of their groups: rows of these, and serves."""
    row, place = overlapping(
        group, begin_ns, end_ns,
        link.serves.group[some], link.begin_ns[some], link.end_ns[some],
    )  # fmt: skip
    return row, some[place]


def _synced_unasked(link: Link, own: _Own, ask: Ints) -> NDArray[np.bool_]:
    """Of some asks, whether they are of a disk of which a write that need not be durable had a sync
    behind it, while it was all that the disk had to do."""
    row, _ = _behind(link, own, link.serves.flush)
    return one_of(link.asks.group[ask], link.asks.group[own.ask[row]])


def _by_itself(link: Link, processes: Ints, ask: Ints) -> NDArray[np.bool_]:
    """Which of some asks were served by a write that needs no sync behind it (RWF_DSYNC)."""
    durable = durable_by(link.lower.trace, processes, link.hop.reads)
    row, serve = link.served(ask)
    return np.bincount(row[durable[link.serves.piece[serve]]], minlength=len(ask)) > 0


def _synced_ns(link: Link, other: Ints, own: _Own) -> Ints:
    """When the first sync that began behind some data was over; never, if there was none.

    One that tables are written behind is not the last.
    """
    begin, group = link.begin_ns[other], link.serves.group[other]
    order = order_of(group, begin)
    flush = link.serves.flush[other[order]]
    same = np.append(group[order][1:] == group[order][:-1], [False])[: len(order)]
    last = order[flush & ~(same & ~np.append(flush[1:], [True])[: len(order)])]
    found = AsOf(group[last], begin[last]).at_or_after(own.group, own.last_ns)
    end = at(link.end_ns[other[last]], found)
    return np.where(found >= 0, end, NEVER)


def are_durable(upper: Trace, asks: Asks) -> NDArray[np.bool_]:
    """Which are durable once they are complete."""
    issued = columns_of(upper.points["block_rq_issue"], "request_key", "flags")
    found = AsOf(issued["request_key"], issued["time_ns"]).at_or_before(
        asks.identity, asks.begin_ns
    )
    blocks = upper.facts.blocks.items()
    through = [key for key, block in blocks if block.write_cache == THROUGH]
    durable: NDArray[np.bool_] = (at(issued["flags"], found) & FUA) != 0
    return durable | one_of(asks.group, through)


def _room(link: Link, own: _Own) -> Iterator[Tied]:
    """What made room for the data's place, for whichever write it was made: others to the same
    cluster wait for it, too."""
    serves = link.serves
    room = np.flatnonzero((serves.key == ROOM_KEY) & (serves.offset_bytes >= 0))
    row, serve = _meanwhile(link, room, own.group ^ ROOM_MARK, own.begin_ns, own.first_ns)
    ask = own.ask[row]
    before = link.end_ns[serve] <= own.first_ns[row] + ROUNDING_NS
    begin, end = link.asks.offset_bytes[ask], serves.offset_bytes[serve] + serves.size_bytes[serve]
    here = before & (begin >= serves.offset_bytes[serve]) & (begin < end)
    yield ask[here], serve[here], np.full(np.count_nonzero(here), SINCE_EVER)


def _tables(link: Link, own: _Own) -> Iterator[Tied]:
    """What was written of tables, and synced, before the data: if the guest had asked for nothing
    else on that disk meanwhile, it was for this."""
    other = np.flatnonzero(_of_image(link))
    row, serve = _meanwhile(link, other, own.group, own.begin_ns, own.first_ns)
    before = link.end_ns[serve] <= own.first_ns[row] + ROUNDING_NS
    latest_ns = link.begin_ns[serve] + link.clock.slack[1]
    before &= latest_ns >= own.begin_ns[row] - ROUNDING_NS
    row, serve = row[before], serve[before]
    if len(row):
        alone = _alone(link, own.ask[row], serve)
        row, serve = row[alone], serve[alone]
    yield own.ask[row], serve, np.full(len(row), SINCE_EVER)


def _tables_behind(link: Link, own: _Own) -> Iterator[Tied]:
    """The same behind the data, and the syncs there, if tables are: where a snapshot in the image
    shares its clusters, the counts of new ones are durable before the write is complete."""
    some = np.zeros(len(own.ask), np.bool_)
    some[_behind(link, own, ~link.serves.flush)[0]] = True
    own = own.where(some)
    row, serve = _behind(link, own, np.ones(len(link.serves), np.bool_))
    yield own.ask[row], serve, own.last_ns[row]


def _behind(link: Link, own: _Own, some: NDArray[np.bool_]) -> tuple[Ints, Ints]:
    """Which of some serves of no place were all that the disk had to do behind the data of which
    writes, until these were complete."""
    row, serve = _meanwhile(
        link, np.flatnonzero(_of_image(link) & some), own.group, own.last_ns, own.end_ns
    )
    inside = (link.begin_ns[serve] >= own.last_ns[row]) & (link.end_ns[serve] <= own.end_ns[row])
    row, serve = row[inside], serve[inside]
    if len(row):
        alone = _alone(link, own.ask[row], serve)
        row, serve = row[alone], serve[alone]
    return row, serve


def _copies(link: Link, own: _Own, durable: NDArray[np.bool_]) -> Iterator[Tied]:
    """What was written of the data's place to a file that is none of these disks: by a backup
    before the data, and by a mirror behind it; and what made that durable, where it has to be.

    A mirror that no write waits for copies more at once, and later.
    """
    serves, none = link.serves, np.zeros(len(own.ask), np.int64)
    others = ~one_of(serves.group, distinct(serves.group[link.pairs.serve]))
    others &= one_of(serves.agent, link.agents) & ((serves.group & READ_MARK) == 0)
    data = np.flatnonzero(others & ~serves.shared & (serves.size_bytes > 0))
    row, place = overlapping(
        none, own.begin_ns, own.end_ns,
        np.zeros(len(data), np.int64), link.begin_ns[data], link.end_ns[data],
    )  # fmt: skip
    ask, serve = own.ask[row], data[place]
    begin, until = _range(link.asks, ask)
    first, last = _range(serves, serve)
    backed = (first < until) & (last > begin)
    backed &= link.end_ns[serve] <= own.first_ns[row] + ROUNDING_NS
    mirrored = (first >= begin) & (last <= until)
    mirrored &= link.begin_ns[serve] >= own.last_ns[row] - ROUNDING_NS
    mirrored &= link.end_ns[serve] <= own.end_ns[row] + ROUNDING_NS
    syncs = np.flatnonzero(others & serves.flush)
    for some, since, before in (
        (backed, np.full(len(own.ask), SINCE_EVER), own.first_ns),
        (mirrored, own.last_ns, own.end_ns),
    ):
        mine, copy = row[some], serve[some]
        yield own.ask[mine], copy, since[mine]
        mine, copy = mine[durable[mine]], copy[durable[mine]]
        synced, sync = _meanwhile(
            link, syncs, serves.group[copy], link.end_ns[copy], before[mine]
        )  # fmt: skip
        behind = link.begin_ns[sync] >= link.end_ns[copy[synced]] - ROUNDING_NS
        behind &= link.end_ns[sync] <= before[mine[synced]] + ROUNDING_NS
        mine, sync = mine[synced[behind]], sync[behind]
        yield own.ask[mine], sync, since[mine]


def _range(table: Asks | Serves, rows: Ints) -> tuple[Ints, Ints]:
    """Its begin and its end."""
    begin = table.offset_bytes[rows]
    return begin, begin + table.size_bytes[rows]


def copied(link: Link) -> int:
    """How many writes waited for what was written to a file that is not their disk's."""
    asks, serves, pairs = link.asks, link.serves, link.pairs
    data = ~asks.shared[pairs.ask] & ~serves.shared[pairs.serve]
    ask, group = pairs.ask[data], serves.group[pairs.serve[data]]
    ways, way, count = np.unique(
        np.stack([asks.group[ask], group]), axis=1, return_inverse=True, return_counts=True
    )
    order = order_of(ways[0], -count)
    other = order[~changes(ways[0][order])]
    return len(distinct(ask[one_of(way.reshape(-1), other)]))


def _alone(link: Link, ask: Ints, serve: Ints) -> NDArray[np.bool_]:
    """Of each of these serves, whether its ask was all that its disk had to do meanwhile, by any
    relation of the clocks that may be."""
    requests = requests_of(whole(link.upper))[0]
    early, late = link.clock.slack
    row, _ = overlapping(
        link.asks.group[ask], link.begin_ns[serve] + early, link.end_ns[serve] + late,
        requests.device_key, requests.issue_ns, requests.complete_ns,
    )  # fmt: skip
    alone: NDArray[np.bool_] = np.bincount(row, minlength=len(ask)) == 1
    return alone


def _of_image(link: Link) -> NDArray[np.bool_]:
    """Which serves are for no place of the guest's: syncs, and what is written of tables."""
    of_image: NDArray[np.bool_] = link.serves.shared & (link.serves.key != ROOM_KEY)
    return of_image


def renamed(link: Link, pieces: Ints, spans: Spans, own: int) -> Spans:
    """What devices had of an image's own tables, and the calls that made room in it."""
    serves = link.serves
    tables = serves.piece[_of_image(link) & ~serves.flush]
    rooms = serves.piece[serves.key == ROOM_KEY]
    data = spans.rank % len(STACK) == RANK["device.data"]
    table = np.isin(pieces, tables)[spans.owner] & data
    room = np.isin(pieces, rooms)[spans.owner] & (spans.rank == own + RANK["syscall"])
    rank = spans.rank + np.where(table, RANK["device.image"] - RANK["device.data"], 0)
    rank += np.where(room, RANK["image.allocate"] - RANK["syscall"], 0)
    return Spans(spans.owner, rank, spans.begin_ns, spans.end_ns, spans.of)
