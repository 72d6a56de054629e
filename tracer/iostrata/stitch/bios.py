# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: block events in, each bio's way to the devices and back out.

A bio begins when it is queued; when it is split off another one, which is too large
for its disk; or when a stacked device hands it on to the device below, under its own
pointer (md, NVMe multipath). What device mapper and md hand on is mostly a clone, which
is queued below. A row is one of these, and knows the row that it came of, its parent,
which is complete when all that came of it is.

Bios and requests are many to many: several bios are merged into one request, and one
that is given back is issued again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, ascend, at, distinct, joined, pair_key
from iostrata.stitch.requests import (
    META,
    OP_DISCARD,
    OP_FLUSH,
    OPERATION_MASK,
    Requests,
    reads_data,
)
from iostrata.stitch.window import Columns, Window

FUA: Final = 1 << 17
PREFLUSH: Final = 1 << 18

SEARCH: Final = 256
"""How many candidates are looked at where only place and time tie two things."""
MERGED: Final = 128
"""So many further bios of a request are recorded (MAX_MERGED of bpf/block.bpf.c)."""
DEPTH: Final = 16
"""How often a bio can be split and handed on."""
QUEUED, SPLIT, REMAPPED = range(3)


@dataclass(frozen=True, eq=False)
class Bios:
    """Bios, one row each, in order of ``begin_ns``. Times in ns, -1: not seen or none.

    ``read``: of a file's data. ``held``: a control group's limit kept it from being queued.
    ``data_tid``: who wrote last to the file that a kernel thread writes, 0: not told.
    ``parent``: the row that it came of, -1: it was queued for its own sake. ``above``: the row of
    the Requests on a loop device that it is for. ``lowered``: it is on a device below that of
    one of these. ``queue_ns``: Q, for what was split off the whole one's. ``request``: row of the
    first of the Requests that carried its data, -1: an empty flush, or the device has none.
    ``get_ns``: G, with --detail; ``got_ns``: G, where its thread slept until then.
    ``life_end_ns``: it was complete itself (after the flushes that it asked for, and all that
    came of it). ``by_key``: looks them up by ``begin_ns``.
    """

    key: Ints
    tid: Ints
    device_key: Ints
    sector: Ints
    size_bytes: Ints
    meta: NDArray[np.bool_]
    discard: NDArray[np.bool_]
    read: NDArray[np.bool_]
    wants_flush: NDArray[np.bool_]
    kernel_thread: NDArray[np.bool_]
    held: NDArray[np.bool_]
    data_tid: Ints
    parent: Ints
    above: Ints
    lowered: NDArray[np.bool_]
    begin_ns: Ints
    queue_ns: Ints
    get_ns: Ints
    got_ns: Ints
    insert_ns: Ints
    request: Ints
    life_end_ns: Ints
    by_key: AsOf

    def __len__(self) -> int:
        return len(self.key)


@dataclass(frozen=True, eq=False)
class Carried:
    """Which request's data was whose: rows of Bios and Requests, in order of bio and issue."""

    bio: Ints
    request: Ints


@dataclass(frozen=True, eq=False)
class Begun:
    """How bios begin: one row each, in order of time. ``kind``: QUEUED, SPLIT or REMAPPED.

    ``parent_key``: of a split bio. ``old_device_key``, ``old_sector``: where the bio was that
    this one was made for (REMAPPED, or QUEUED as a clone); -1: nothing of the kind.
    """

    kind: Ints
    key: Ints
    tid: Ints
    time_ns: Ints
    device_key: Ints
    sector: Ints
    size_bytes: Ints
    flags: Ints
    kernel_thread: Ints
    above_key: Ints
    held: Ints
    data_tid: Ints
    parent_key: Ints
    old_device_key: Ints
    old_sector: Ints

    def __len__(self) -> int:
        return len(self.key)

    def rows(self, rows: Ints) -> Begun:
        return Begun(**{name: column[rows] for name, column in vars(self).items()})

    @property
    def wants_flush(self) -> NDArray[np.bool_]:
        asked = (self.flags & (FUA | PREFLUSH)) != 0
        wants: NDArray[np.bool_] = asked | ((self.flags & OPERATION_MASK) == OP_FLUSH)
        return wants


class Ends:
    """When bios were last heard of: by their request's completion, or their own."""

    def __init__(self, window: Window, completed: Columns) -> None:
        alone = window.columns("block_bio_complete", "bio_key")
        self._time = np.concatenate([completed["time_ns"], alone["time_ns"]])
        self._last = AsOf(np.concatenate([completed["bio_key"], alone["bio_key"]]), self._time)

    def at_or_before(self, key: Ints, time_ns: Ints) -> Ints:
        return at(self._time, self._last.at_or_before(key, time_ns))


def bios_of(window: Window, requests: Requests, completed: Columns) -> tuple[Bios, Carried]:
    """Follows each bio down to the requests that carried it, and to its completion."""
    ends = Ends(window, completed)
    begun = _begun(window, ends)
    parent = _parents(begun, ends)
    # A split of device mapper's names no new bio.
    known = np.flatnonzero((begun.kind != SPLIT) | (parent >= 0))
    if len(known) < len(begun):
        begun = begun.rows(known)
        parent = _parents(begun, ends)
    queue, split = begun.time_ns.copy(), np.flatnonzero(begun.kind == SPLIT)
    for _ in range(DEPTH if len(split) else 0):
        queue[split] = queue[parent[split]]
    above = _above(begun, requests)
    by_key = AsOf(begun.key, begun.time_ns)
    carried = _carried(window, begun, requests, by_key, ends)
    first = np.full(len(begun), -1)
    first[carried.bio[::-1]] = carried.request[::-1]
    issue = at(requests.issue_ns, first)
    life_end = ends.at_or_before(begun.key, by_key.following() - 1)
    life_end = np.where(life_end >= begun.time_ns, life_end, -1)
    np.maximum.at(life_end, carried.bio, requests.complete_ns[carried.request])
    children = np.flatnonzero(parent >= 0)
    for _ in range(DEPTH if len(children) else 0):
        np.maximum.at(life_end, parent[children], life_end[children])
    root = roots(parent)
    get, got = _gets(window, begun, np.where(issue >= 0, issue, life_end))
    return Bios(
        key=begun.key,
        tid=begun.tid,
        device_key=begun.device_key,
        sector=begun.sector,
        size_bytes=begun.size_bytes,
        meta=((begun.flags | begun.flags[root]) & META) != 0,
        discard=(begun.flags & OPERATION_MASK) == OP_DISCARD,
        read=reads_data(begun.flags),
        wants_flush=begun.wants_flush,
        kernel_thread=begun.kernel_thread[root] != 0,
        held=begun.held[root] != 0,
        data_tid=begun.data_tid[root],
        parent=parent,
        above=above,
        lowered=lowered(parent, above, begun.device_key),
        begin_ns=begun.time_ns,
        queue_ns=queue,
        get_ns=get,
        got_ns=got,
        insert_ns=_between(begun, issue, window.columns("block_rq_insert", "bio_key")),
        request=first,
        life_end_ns=life_end,
        by_key=by_key,
    ), carried


def roots(parent: Ints) -> Ints:
    """Of each row, the one that it came of in the end: its own, if it has no parent."""
    root = np.where(parent >= 0, parent, np.arange(len(parent)))
    for _ in range(DEPTH.bit_length() if (parent >= 0).any() else 0):
        root = root[root]
    return root


def lowered(parent: Ints, above: Ints, device_key: Ints) -> NDArray[np.bool_]:
    """Which bios are on a device below that of what they came of."""
    root = roots(parent)
    lower: NDArray[np.bool_] = (above[root] >= 0) | (device_key != device_key[root])
    return lower


def _begun(window: Window, ends: Ends) -> Begun:
    fields = ("tid", "bio_key", "sector", "dev", "size_bytes", "flags")
    later = ("above_key", "held", "data_tid")
    told = [name for name in later if name in window.trace.points["block_bio_queue"].fields]
    queued = window.columns("block_bio_queue", *fields, "kernel_thread", *told)
    split = window.columns("block_split", *fields, "parent_key")
    handed = window.columns("block_bio_remap", *fields, "old_dev", "old_sector")
    parts = [
        _rows(kind, columns)
        for kind, columns in ((QUEUED, queued), (SPLIT, split), (REMAPPED, handed))
    ]
    begun = Begun(**joined(parts))
    if len(handed["bio_key"]):
        begun = _announced(begun, ends)
    if ascend(begun.time_ns):
        return begun
    return begun.rows(np.argsort(begun.time_ns, kind="stable"))


def _rows(kind: int, columns: Columns) -> Begun:
    none, nothing = (np.full(len(columns["bio_key"]), value) for value in (-1, 0))
    return Begun(
        kind=none * 0 + kind,
        key=columns["bio_key"],
        tid=columns["tid"],
        time_ns=columns["time_ns"],
        device_key=columns["dev"],
        sector=columns["sector"],
        size_bytes=columns["size_bytes"],
        flags=columns["flags"],
        kernel_thread=columns.get("kernel_thread", nothing),
        above_key=columns.get("above_key", nothing),
        held=columns.get("held", nothing),
        data_tid=columns.get("data_tid", nothing),
        parent_key=columns.get("parent_key", none),
        old_device_key=columns.get("old_dev", none),
        old_sector=columns.get("old_sector", none),
    )


def _announced(begun: Begun, ends: Ends) -> Begun:
    """A clone is handed on, then queued below: that is one beginning, not two."""
    handed = np.flatnonzero(begun.kind == REMAPPED)
    key, time = begun.key[handed], begun.time_ns[handed]
    any_row = AsOf(begun.key, begun.time_ns)
    before = any_row.at_or_before(key, time - 1)
    itself = (at(begun.device_key, before) == begun.old_device_key[handed]) & (
        ends.at_or_before(key, time) < at(begun.time_ns, before)
    )
    following = any_row.at_or_after(key, time + 1)
    clone = ~itself & (at(begun.kind, following) == QUEUED)
    clone &= at(begun.device_key, following) == begun.device_key[handed]
    old_device, old_sector = begun.old_device_key.copy(), begun.old_sector.copy()
    old_device[following[clone]] = old_device[handed[clone]]
    old_sector[following[clone]] = old_sector[handed[clone]]
    columns = vars(begun) | {"old_device_key": old_device, "old_sector": old_sector}
    kept = np.ones(len(begun), np.bool_)
    kept[handed[clone]] = False
    return Begun(**columns).rows(np.flatnonzero(kept))


def _parents(begun: Begun, ends: Ends) -> Ints:
    """By pointer, where the parent has the same or is named; else by its place above."""
    parent = np.full(len(begun), -1)
    if (begun.kind == QUEUED).all() and (begun.old_device_key < 0).all():
        return parent
    by_key = AsOf(begun.key, begun.time_ns)
    split = np.flatnonzero(begun.kind == SPLIT)
    found = by_key.at_or_before(begun.parent_key[split], begun.time_ns[split])
    same = at(begun.device_key, found) == begun.device_key[split]
    parent[split] = np.where(same & _alive(begun, ends, found, begun.time_ns[split]), found, -1)
    handed = np.flatnonzero(begun.old_device_key >= 0)
    found = by_key.at_or_before(begun.key[handed], begun.time_ns[handed] - 1)
    itself = at(begun.device_key, found) == begun.old_device_key[handed]
    itself &= begun.kind[handed] == REMAPPED
    itself &= _alive(begun, ends, found, begun.time_ns[handed])
    parent[handed] = np.where(itself, found, -1)
    clones = handed[~itself]
    parent[clones] = _at_place(begun, ends, clones)
    return parent


def _alive(begun: Begun, ends: Ends, rows: Ints, time_ns: Ints) -> NDArray[np.bool_]:
    """Whether bios that had begun were not complete at a time."""
    begin = at(begun.time_ns, rows)
    last = ends.at_or_before(at(begun.key, rows), time_ns)
    alive: NDArray[np.bool_] = (rows >= 0) & (last < begin)
    return alive


def _at_place(begun: Begun, ends: Ends, clones: Ints) -> Ints:
    """The bio on the device above that holds the sector which a clone was made for.

    An empty flush has no place: it is for the last bio of the same thread that asked for
    one, or else of any thread.
    """
    time, device = begun.time_ns[clones], begun.old_device_key[clones]
    sector, empty = begun.old_sector[clones], begun.size_bytes[clones] == 0
    data = np.flatnonzero(begun.size_bytes > 0)
    begin = AsOf(pair_key(begun.device_key[data], begun.sector[data]), begun.time_ns[data])
    found = at(data, begin.at_or_before(pair_key(device, sector), time - 1))
    found = np.where(~empty & _alive(begun, ends, found, time), found, -1)
    inside = np.flatnonzero((found < 0) & ~empty)
    if len(inside):
        found[inside] = _holding(begun, ends, device[inside], sector[inside], time[inside])
    asked = np.flatnonzero(begun.wants_flush)
    for keys, wanted in (
        (pair_key(begun.device_key, begun.tid), pair_key(device, begun.tid[clones])),
        (begun.device_key, device),
    ):
        last = AsOf(keys[asked], begun.time_ns[asked])
        flush = at(asked, last.at_or_before(wanted, time - 1))
        flush = np.where(empty & _alive(begun, ends, flush, time), flush, -1)
        found = np.where(found >= 0, found, flush)
    return found


def _holding(begun: Begun, ends: Ends, device: Ints, sector: Ints, time_ns: Ints) -> Ints:
    """The last bio on a device that had begun by a time, is not complete and holds a sector."""
    found = np.full(len(device), -1)
    for disk in distinct(device):
        candidates = np.flatnonzero((begun.device_key == disk) & (begun.size_bytes > 0))
        rows = np.flatnonzero(device == disk)
        place = np.searchsorted(begun.time_ns[candidates], time_ns[rows]) - 1
        for _ in range(SEARCH):
            rows, place = rows[place >= 0], place[place >= 0]
            if not len(rows):
                break
            bio = candidates[place]
            first = begun.sector[bio]
            holds = (first <= sector[rows]) & (sector[rows] < first + begun.size_bytes[bio] // 512)
            holds &= _alive(begun, ends, bio, time_ns[rows])
            found[rows[holds]] = bio[holds]
            rows, place = rows[~holds], place[~holds] - 1
    return found


def _above(begun: Begun, requests: Requests) -> Ints:
    """The request above, if the key that a bio was queued with is one's that is in flight."""
    above = np.full(len(begun), -1)
    keyed = np.flatnonzero(begun.above_key != 0)
    if len(keyed):
        time = begun.time_ns[keyed]
        found = AsOf(requests.key, requests.issue_ns).at_or_before(begun.above_key[keyed], time)
        other = at(requests.device_key, found) != begun.device_key[keyed]
        above[keyed] = np.where(other & (at(requests.complete_ns, found) >= time), found, -1)
    return above


def _carried(window: Window, begun: Begun, requests: Requests, by_key: AsOf, ends: Ends) -> Carried:
    """By the bios' pointers, which a request's events say when it is issued.

    What was complete by then is another bio, whose begin was not seen.
    """
    request = np.flatnonzero(~requests.flush)
    issue = requests.issue_ns[request]
    bio = by_key.at_or_before(requests.bio_key[request], issue)
    further = window.columns("block_rq_bio", "request_key", "bio_key")
    if len(further["time_ns"]):
        time = further["time_ns"]
        issued = AsOf(requests.key, requests.issue_ns).at_or_before(further["request_key"], time)
        request = np.concatenate([request, issued])
        bio = np.concatenate([bio, by_key.at_or_before(further["bio_key"], time)])
        issue = np.concatenate([issue, time])
    same = _alive(begun, ends, bio, issue) & (
        at(begun.device_key, bio) == at(requests.device_key, request)
    )
    bio, request = bio[same], request[same]
    whole = np.full(len(requests.key), _is_old(window)) | (
        np.bincount(request, minlength=len(requests.key)) > MERGED
    )
    if whole.any():
        alone = np.ones(len(begun), np.bool_)
        alone[bio] = False
        merged, into = _merged(begun, np.flatnonzero(alone), requests, whole)
        bio, request = np.concatenate([bio, merged]), np.concatenate([request, into])
    order = np.lexsort((request, bio))
    return Carried(bio[order], request[order])


def _is_old(window: Window) -> bool:
    """An older recorder's, which tells neither splits nor what was merged into a request."""
    return "above_key" not in window.trace.points["block_bio_queue"].fields


def _merged(
    begun: Begun, rows: Ints, requests: Requests, whole: NDArray[np.bool_]
) -> tuple[Ints, Ints]:
    """Bios whose request is not told are in the next one on their disk that holds their sectors.

    ``whole``: the requests of which not all bios are told.
    """
    found: list[tuple[Ints, Ints]] = [(rows[:0], rows[:0])]
    rows = rows[begun.size_bytes[rows] > 0]
    for disk in distinct(begun.device_key[rows]):
        left = rows[begun.device_key[rows] == disk]
        candidates = np.flatnonzero(whole & ~requests.flush & (requests.device_key == disk))
        place = np.searchsorted(requests.issue_ns[candidates], begun.time_ns[left])
        for _ in range(SEARCH):
            ahead = place < len(candidates)
            left, place = left[ahead], place[ahead]
            if not len(left):
                break
            candidate = candidates[place]
            first, last = begun.sector[left], begun.sector[left] + begun.size_bytes[left] // 512
            begin = requests.sector[candidate]
            holds = (begin < last) & (begin + requests.size_bytes[candidate] // 512 > first)
            found.append((left[holds], candidate[holds]))
            left, place = left[~holds], place[~holds] + 1
    return np.concatenate([f[0] for f in found]), np.concatenate([f[1] for f in found])


def _gets(window: Window, begun: Begun, until_ns: Ints) -> tuple[Ints, Ints]:
    """When each bio got a request: with --detail, and where its thread slept until then."""
    told = ["held"] if "held" in window.trace.points["block_getrq"].fields else []
    got = window.columns("block_getrq", "bio_key", *told)
    slept = np.flatnonzero(got["held"]) if told else np.zeros(0, np.int64)
    waited = _between(begun, until_ns, {name: column[slept] for name, column in got.items()})
    if not window.trace.env.get("detail"):
        return np.full(len(begun), -1), waited
    # Older recorders tell of the request's begin, where the kernel does (since v6.5).
    started = window.columns("block_io_start", "bio_key")
    detailed = [_between(begun, until_ns, events) for events in (started, got)]
    return np.maximum(*detailed), waited


def _between(begun: Begun, until_ns: Ints, events: Columns) -> Ints:
    """When a point was hit for a bio, from Q to a time; -1: it was not seen there."""
    found = AsOf(events["bio_key"], events["time_ns"]).at_or_after(begun.key, begun.time_ns)
    time = at(events["time_ns"], found)
    return np.where((time >= begun.time_ns) & (time <= until_ns), time, -1)
