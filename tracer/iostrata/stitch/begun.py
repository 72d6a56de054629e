# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: block events in, where bios began and which others they came of out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import (
    NEVER,
    AsOf,
    Ints,
    ascend,
    at,
    distinct,
    joined,
    one_of,
    order_of,
    pair_key,
)
from iostrata.stitch.arrays import arrays_of
from iostrata.stitch.requests import FUA, OP_FLUSH, OPERATION_MASK
from iostrata.stitch.window import Columns, Window

PREFLUSH: Final = 1 << 18
QUEUED, SPLIT, REMAPPED = range(3)

SEARCH: Final = 256
"""How many candidates are looked at where only place and time tie two things."""


@dataclass(frozen=True, eq=False)
class Begun:
    """How bios begin: one row each, in order of time. ``kind``: QUEUED, SPLIT or REMAPPED.

    ``parent_key``: of a split bio. ``old_device_key``, ``old_sector``: where the bio was that
    this one was made for (REMAPPED, or QUEUED as a clone); -1: nothing of the kind, or a sector
    that says nothing. ``handed_ns``: when a clone was handed on, to be queued, -1: it was not.
    ``until_ns``: when it was complete, where no bio's key tells that; -1: one does.
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
    handed_ns: Ints
    until_ns: Ints

    def __len__(self) -> int:
        return len(self.key)

    def rows(self, rows: Ints) -> Begun:
        return Begun(**{name: column[rows] for name, column in vars(self).items()})

    @property
    def wants_flush(self) -> NDArray[np.bool_]:
        wants: NDArray[np.bool_] = self.begins_with_flush | ((self.flags & FUA) != 0)
        return wants

    @property
    def begins_with_flush(self) -> NDArray[np.bool_]:
        """Which ask for one before all else: for that a stacked device makes empty clones."""
        before = (self.flags & PREFLUSH) != 0
        begins: NDArray[np.bool_] = before | ((self.flags & OPERATION_MASK) == OP_FLUSH)
        return begins


class Ends:
    """When bios were last heard of: by their request's completion, or their own.

    ``of_requests``, ``alone``: the completions; ``given_back``: which of the former are none.
    """

    def __init__(self, window: Window, completed: Columns) -> None:
        self.of_requests = completed
        self.alone = window.columns("block_bio_complete", "bio_key")
        self.given_back = _given_back(window, completed)

    @cached_property
    def _known(self) -> tuple[AsOf, Ints]:
        """Made when first asked for: where bios are on nothing but disks, nobody does."""
        mine = ~self.given_back
        key, time = (
            np.concatenate([self.of_requests[name][mine], self.alone[name]])
            for name in ("bio_key", "time_ns")
        )
        return AsOf(key, time), time

    def at_or_before(self, key: Ints, time_ns: Ints) -> Ints:
        last, time = self._known
        return at(time, last.at_or_before(key, time_ns))

    def after(self, key: Ints, time_ns: Ints) -> Ints:
        """The first time from one on; NEVER: none is known."""
        following, time = self._known
        found = at(time, following.at_or_after(key, time_ns))
        return np.where(found < 0, NEVER, found)


def _given_back(window: Window, completed: Columns) -> NDArray[np.bool_]:
    """Which completions are of nothing, just before the driver gives the request back: SCSI tells
    so of each command that failed, and its bios go on."""
    back = window.columns("block_rq_requeue", "request_key")
    given = np.zeros(len(completed["time_ns"]), np.bool_)
    if not len(back["time_ns"]):
        return given
    empty = np.flatnonzero(completed["size_bytes"] == 0)
    key, time = completed["request_key"][empty], completed["time_ns"][empty]
    issued = window.columns("block_rq_issue", "request_key")
    later, again = (
        at(events["time_ns"], AsOf(events["request_key"], events["time_ns"]).at_or_after(key, time))
        for events in (back, issued)
    )
    given[empty] = (later >= 0) & ((again < 0) | (later <= again))
    return given


def begun_of(window: Window, ends: Ends) -> Begun:
    """A clone's hand-over and its queueing are one beginning."""
    fields = ("tid", "bio_key", "sector", "dev", "size_bytes", "flags")
    later = ("above_key", "held", "data_tid")
    told = [name for name in later if name in window.trace.points["block_bio_queue"].fields]
    queued = window.columns("block_bio_queue", *fields, "kernel_thread", *told)
    split = window.columns("block_split", *fields, "parent_key")
    handed = window.columns("block_bio_remap", *fields, "old_dev", "old_sector")
    handed |= {"old_sector": _without_parities(window, handed)}
    parts = [_rows(QUEUED, queued)]
    for kind, columns in ((SPLIT, split), (REMAPPED, handed)):
        if len(columns["bio_key"]):
            parts.append(_rows(kind, columns))
    begun = Begun(**joined(parts))
    if len(handed["bio_key"]):
        begun = _announced(begun, ends)
    if ascend(begun.time_ns):
        return begun
    return begun.rows(order_of(begun.time_ns))


def _without_parities(window: Window, handed: Columns) -> Ints:
    """The sectors that bios were made for; md says 0 of a parity, which is no data's: then -1."""
    sector = handed["old_sector"]
    unsure = [key for key, array in arrays_of(window.trace).items() if array.zero]
    if not unsure:
        return sector
    zero = (sector == 0) & (handed["size_bytes"] > 0) & one_of(handed["old_dev"], unsure)
    return np.where(zero, -1, sector)


def _rows(kind: int, columns: Columns) -> Begun:
    which, none, nothing = (
        np.broadcast_to(np.int64(value), len(columns["bio_key"])) for value in (kind, -1, 0)
    )
    return Begun(
        kind=which,
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
        handed_ns=none,
        until_ns=none,
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
    handed_ns = begun.handed_ns.copy()
    handed_ns[following[clone]] = time[clone]
    columns = vars(begun) | {
        "old_device_key": old_device, "old_sector": old_sector, "handed_ns": handed_ns,
    }  # fmt: skip
    kept = np.ones(len(begun), np.bool_)
    kept[handed[clone]] = False
    return Begun(**columns).rows(np.flatnonzero(kept))


def parents_of(begun: Begun, ends: Ends) -> Ints:
    """By pointer, where the parent has the same or is named; else by its place above."""
    parent = np.full(len(begun), -1)
    if (begun.kind == QUEUED).all() and (begun.old_device_key < 0).all():
        return parent
    by_key = AsOf(begun.key, begun.time_ns)
    split = np.flatnonzero(begun.kind == SPLIT)
    found = by_key.at_or_before(begun.parent_key[split], begun.time_ns[split])
    same = at(begun.device_key, found) == begun.device_key[split]
    parent[split] = np.where(same & alive(begun, ends, found, begun.time_ns[split]), found, -1)
    handed = np.flatnonzero(begun.old_device_key >= 0)
    found = by_key.at_or_before(begun.key[handed], begun.time_ns[handed] - 1)
    itself = at(begun.device_key, found) == begun.old_device_key[handed]
    itself &= begun.kind[handed] == REMAPPED
    itself &= alive(begun, ends, found, begun.time_ns[handed])
    parent[handed] = np.where(itself, found, -1)
    clones = handed[~itself]
    parent[clones] = _at_place(begun, ends, clones)
    return parent


def alive(begun: Begun, ends: Ends, rows: Ints, time_ns: Ints) -> NDArray[np.bool_]:
    """Whether bios that had begun were not complete at a time."""
    begin = at(begun.time_ns, rows)
    last = ends.at_or_before(at(begun.key, rows), time_ns)
    still: NDArray[np.bool_] = (rows >= 0) & (last < begin)
    return still


def _at_place(begun: Begun, ends: Ends, clones: Ints) -> Ints:
    """The bio on the device above that holds the sector which a clone was made for.

    An empty flush has no place: it is for the last bio of the same thread that asked for
    one, or else for those of any thread, in turn.
    """
    time, device = begun.time_ns[clones], begun.old_device_key[clones]
    sector, empty = begun.old_sector[clones], begun.size_bytes[clones] == 0
    data = np.flatnonzero(begun.size_bytes > 0)
    begin = AsOf(pair_key(begun.device_key[data], begun.sector[data]), begun.time_ns[data])
    found = at(data, begin.at_or_before(pair_key(device, sector), time - 1))
    found = np.where(~empty & alive(begun, ends, found, time), found, -1)
    inside = np.flatnonzero((found < 0) & ~empty & (sector >= 0))
    if len(inside):
        found[inside] = _holding(begun, ends, device[inside], sector[inside], time[inside])
    asked = np.flatnonzero(begun.begins_with_flush)
    by_thread = pair_key(begun.device_key, begun.tid)[asked]
    last = AsOf(by_thread, begun.time_ns[asked])
    flush = at(asked, last.at_or_before(pair_key(device, begun.tid[clones]), time - 1))
    found = np.where(empty & alive(begun, ends, flush, time), flush, found)
    left = np.flatnonzero(empty & (found < 0))
    found[left] = _flushes_in_turn(begun, ends, clones[left], asked)
    return found


def _flushes_in_turn(begun: Begun, ends: Ends, clones: Ints, asked: Ints) -> Ints:
    """For which of those that ``asked`` for a flush a worker hands on empty ones: it takes up in
    turn what it was given, and each has one on each device below; one more is for the last."""
    found = np.full(len(clones), -1)
    begin, end = begun.time_ns, np.full(len(begun), NEVER)
    for rows in (clones, asked):
        end[rows] = ends.after(begun.key[rows], begin[rows])
    place = pair_key(begun.old_device_key[clones], begun.device_key[clones])
    for one in distinct(place):
        mine = np.flatnonzero(place == one)
        upper = asked[begun.device_key[asked] == begun.old_device_key[clones[mine[0]]]]
        given = np.searchsorted(begin[upper], begin[clones[mine]]).tolist()
        waiting: list[int] = []
        last, until = -1, 0
        for row, clone, count in zip(mine.tolist(), clones[mine].tolist(), given, strict=True):
            waiting += upper[until:count].tolist()
            until = count
            waiting = [flush for flush in waiting if end[flush] > begin[clone]]
            fit = next((flush for flush in waiting if end[flush] >= end[clone]), last)
            if fit >= 0 and end[fit] >= end[clone]:
                found[row] = last = fit
            if fit in waiting:
                waiting.remove(fit)
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
            holds &= alive(begun, ends, bio, time_ns[rows])
            found[rows[holds]] = bio[holds]
            rows, place = rows[~holds], place[~holds] - 1
    return found
