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
from functools import cached_property
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from iostrata import native
from iostrata.columns import AsOf, Ints, at, distinct, order_of
from iostrata.stitch.begun import SEARCH, SPLIT, Begun, Ends, begun_of, parents_of
from iostrata.stitch.cloned import with_cloned
from iostrata.stitch.lives import Issued, Lives, lives_of
from iostrata.stitch.requests import META, OP_DISCARD, OPERATION_MASK, Requests, reads_data
from iostrata.stitch.window import Columns, Window
from iostrata.trace.layout import QUEUER_LOOP

MERGED: Final = 128
"""So many further bios of a request are recorded (MAX_MERGED of bpf/block.bpf.c)."""
DEPTH: Final = 16
"""How often a bio can be split and handed on."""
Value = TypeVar("Value", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Bios:
    """Bios, one row each, in order of ``begin_ns``. Times in ns, -1: not seen or none.

    ``read``: of a file's data. ``held``: a control group's limit kept it, or what it came of, from
    being queued; ``held_below``: it came of another, and a limit kept it itself.
    ``data_tid``: who wrote last to the file that a kernel thread writes, 0: not told.
    ``parent``: the row that it came of, -1: it was queued for its own sake. ``above``: the row of
    the Requests on a loop device that it is for; ``for_loop``: it is for one, be that recorded or
    not. ``lowered``: it is on a device below that of
    one of these. ``old_device_key``, ``old_sector``, ``handed_ns``: where the bio was that it was
    made for, and when it was handed on, as Begun has them. ``queue_ns``: Q, for what was split off
    the whole one's; ``let_go_ns``: the same, or when a limit let it go that had held it back since
    then. ``request``: row of the first of the Requests that carried its data, -1: an
    empty flush, or the device has none.
    ``get_ns``: G, with --detail; ``got_ns``: G, where its thread slept until then.
    ``life_end_ns``: it was complete itself (after the flushes that it asked for, and all that
    came of it). ``by_key``: looks them up by ``begin_ns``. ``lives``: of what they are.
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
    begins_with_flush: NDArray[np.bool_]
    kernel_thread: NDArray[np.bool_]
    held: NDArray[np.bool_]
    held_below: NDArray[np.bool_]
    data_tid: Ints
    parent: Ints
    above: Ints
    for_loop: NDArray[np.bool_]
    lowered: NDArray[np.bool_]
    old_device_key: Ints
    old_sector: Ints
    handed_ns: Ints
    begin_ns: Ints
    queue_ns: Ints
    let_go_ns: Ints
    get_ns: Ints
    got_ns: Ints
    insert_ns: Ints
    request: Ints
    life_end_ns: Ints
    by_key: AsOf
    lives: Lives

    def __len__(self) -> int:
        return len(self.key)

    @cached_property
    def root(self) -> Ints:
        """Of each, the row of the whole one."""
        return roots(self.parent)

    @cached_property
    def whole(self) -> bool:
        """Whether none came of another."""
        return not (self.parent >= 0).any()

    def of_root(self, values: NDArray[Value]) -> NDArray[Value]:
        """Of each, what its whole one has; the same, where none came of another."""
        return values if self.whole else values[self.root]


@dataclass(frozen=True, eq=False)
class Carried:
    """Which request's data was whose: rows of Bios and Requests, in order of bio and issue."""

    bio: Ints
    request: Ints


def bios_of(window: Window, requests: Requests, completed: Columns) -> tuple[Bios, Carried]:
    """Follows each bio down to the requests that carried it, and to its completion."""
    ends = Ends(window, completed)
    begun = with_cloned(begun_of(window, ends), requests, ends, window.trace.facts)
    parent = parents_of(begun, ends)
    split = np.flatnonzero(begun.kind == SPLIT)
    # A split of device mapper's names no new bio.
    if (parent[split] < 0).any():
        begun = begun.rows(np.flatnonzero((begun.kind != SPLIT) | (parent >= 0)))
        parent, split = parents_of(begun, ends), np.flatnonzero(begun.kind == SPLIT)
    queue = begun.time_ns.copy() if len(split) else begun.time_ns
    for _ in range(DEPTH if len(split) else 0):
        queue[split] = queue[parent[split]]
    above = _above(begun, requests)
    request, issued = _issued(window, requests)
    lives = lives_of(begun, ends, issued)
    carried, first, issue, life_end = _settled(window, begun, requests, request, lives)
    children = np.flatnonzero(parent >= 0)
    for _ in range(DEPTH if len(children) else 0):
        np.maximum.at(life_end, parent[children], life_end[children])
    # Mostly none came of another: then nothing is copied.
    root = roots(parent) if len(children) else slice(None)
    flags = begun.flags | begun.flags[root] if len(children) else begun.flags
    get, got = _gets(window, begun, np.where(issue >= 0, issue, life_end))
    return Bios(
        key=begun.key,
        tid=begun.tid,
        device_key=begun.device_key,
        sector=begun.sector,
        size_bytes=begun.size_bytes,
        meta=(flags & META) != 0,
        discard=(begun.flags & OPERATION_MASK) == OP_DISCARD,
        read=reads_data(begun.flags),
        wants_flush=begun.wants_flush,
        begins_with_flush=begun.begins_with_flush,
        kernel_thread=begun.kernel_thread[root] != 0,
        held=begun.held[root] != 0,
        held_below=(begun.held != 0) & (parent >= 0),
        data_tid=begun.data_tid[root],
        parent=parent,
        above=above,
        for_loop=begun.kernel_thread[root] == QUEUER_LOOP,
        lowered=lowered(parent, above, begun.device_key),
        old_device_key=begun.old_device_key,
        old_sector=begun.old_sector,
        handed_ns=begun.handed_ns,
        begin_ns=begun.time_ns,
        queue_ns=queue,
        let_go_ns=queue,
        get_ns=get,
        got_ns=got,
        insert_ns=_between(begun, issue, window.columns("block_rq_insert", "bio_key")),
        request=first,
        life_end_ns=life_end,
        by_key=AsOf(begun.key, begun.time_ns),
        lives=lives,
    ), carried


def roots(parent: Ints) -> Ints:
    """Of each row, the one that it came of in the end: its own, if it has no parent."""
    root, child = np.arange(len(parent)), parent >= 0
    if not child.any():
        return root
    root[child] = parent[child]
    for _ in range(DEPTH.bit_length()):
        root = root[root]
    return root


def lowered(parent: Ints, above: Ints, device_key: Ints) -> NDArray[np.bool_]:
    """Which bios are on a device below that of what they came of."""
    if not (parent >= 0).any():
        return above >= 0
    root = roots(parent)
    lower: NDArray[np.bool_] = (above[root] >= 0) | (device_key != device_key[root])
    return lower


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


def _issued(window: Window, requests: Requests) -> tuple[Ints, Issued]:
    """Rows of the requests, and the bios' pointers that their events say when they are issued."""
    request = np.flatnonzero(~requests.flush)
    key, issue = requests.bio_key[request], requests.issue_ns[request]
    further = window.columns("block_rq_bio", "request_key", "bio_key")
    if len(further["time_ns"]):
        time = further["time_ns"]
        issued = AsOf(requests.key, requests.issue_ns).at_or_before(further["request_key"], time)
        # Of a request that was not seen to end there is the one before, which has its pointer.
        own = np.flatnonzero((issued >= 0) & (at(requests.complete_ns, issued) >= time))
        request = np.concatenate([request, issued[own]])
        key, issue = np.append(key, further["bio_key"][own]), np.append(issue, time[own])
    return request, Issued(key, issue, at(requests.device_key, request))


def _settled(
    window: Window, begun: Begun, requests: Requests, request: Ints, lives: Lives
) -> tuple[Carried, Ints, Ints, Ints]:
    """What carried each bio, the first of those, when that was issued, and when all was complete.

    ``request``: of what was issued.
    """
    if native.LIBRARY is not None and not _is_old(window):
        found = native.carry_bios(
            (lives.end_ns, begun.until_ns),
            (requests.issue_ns, requests.complete_ns),
            (lives.issued, request),
            MERGED,
        )
        if found:
            bio, carrier, first, issue, life_end = found
            return Carried(bio, carrier), first, issue, life_end
    carried = _carried(window, begun, requests, request, lives.issued)
    first = np.full(len(begun), -1)
    first[carried.bio[::-1]] = carried.request[::-1]
    life_end = np.where(lives.end_ns >= 0, lives.end_ns, begun.until_ns)
    np.maximum.at(life_end, carried.bio, requests.complete_ns[carried.request])
    return carried, first, at(requests.issue_ns, first), life_end


def _carried(window: Window, begun: Begun, requests: Requests, request: Ints, bio: Ints) -> Carried:
    """``bio``: of what was issued for each ``request``, the bio; what was complete by then is
    another, whose begin was not seen: -1."""
    same = np.flatnonzero(bio >= 0)
    bio, request = bio[same], request[same]
    whole = np.bincount(request, minlength=len(requests.key)) > MERGED
    if _is_old(window):
        whole[:] = True
    if whole.any():
        alone = np.ones(len(begun), np.bool_)
        alone[bio] = False
        merged, into = _merged(begun, np.flatnonzero(alone), requests, whole)
        bio, request = np.concatenate([bio, merged]), np.concatenate([request, into])
    order = order_of(bio, request)
    return Carried(bio[order], request[order])


def _is_old(window: Window) -> bool:
    """An older recorder's, which tells neither splits nor what was merged into a request."""
    return "above_key" not in window.trace.points["block_bio_queue"].fields


def _merged(
    begun: Begun, rows: Ints, requests: Requests, whole: NDArray[np.bool_]
) -> tuple[Ints, Ints]:
    """Bios whose request is not told are in the next one on their disk that holds their sectors;
    if the end of that was not seen, theirs was not either.

    ``whole``: the requests of which not all bios are told.
    """
    unended = requests.unended
    found: list[tuple[Ints, Ints]] = [(rows[:0], rows[:0])]
    rows = rows[begun.size_bytes[rows] > 0]
    for disk in distinct(begun.device_key[rows]):
        left = rows[begun.device_key[rows] == disk]
        ended = np.flatnonzero(whole & ~requests.flush & (requests.device_key == disk))
        gone = np.flatnonzero((unended.device_key == disk) & (unended.size_bytes > 0))
        issue = np.concatenate([requests.issue_ns[ended], unended.issue_ns[gone]])
        order = order_of(issue)
        candidates = np.concatenate([ended, np.full(len(gone), -1)])[order]
        sector = np.concatenate([requests.sector[ended], unended.sector[gone]])[order]
        size = np.concatenate([requests.size_bytes[ended], unended.size_bytes[gone]])[order]
        place = np.searchsorted(issue[order], begun.time_ns[left])
        for _ in range(SEARCH):
            ahead = place < len(candidates)
            left, place = left[ahead], place[ahead]
            if not len(left):
                break
            candidate = candidates[place]
            first, last = begun.sector[left], begun.sector[left] + begun.size_bytes[left] // 512
            holds = (sector[place] < last) & (sector[place] + size[place] // 512 > first)
            told = holds & (candidate >= 0)
            found.append((left[told], candidate[told]))
            left, place = left[~holds], place[~holds] + 1
    return np.concatenate([f[0] for f in found]), np.concatenate([f[1] for f in found])


def _gets(window: Window, begun: Begun, until_ns: Ints) -> tuple[Ints, Ints]:
    """When each bio got a request: with --detail, and where its thread slept until then."""
    waited = _waited(window, begun, until_ns)
    if not window.trace.env.get("detail"):
        return np.full(len(begun), -1), waited
    # Older recorders tell of the request's begin, where the kernel does (since v6.5).
    started = window.columns("block_io_start", "bio_key")
    got = window.columns("block_getrq", "bio_key")
    detailed = [_between(begun, until_ns, events) for events in (started, got)]
    return np.maximum(*detailed), waited


def _waited(window: Window, begun: Begun, until_ns: Ints) -> Ints:
    """Until when each bio's thread slept to get a request for it; -1: it did not."""
    asleep = window.columns("block_bio_asleep", "bio_key", "subject_tid")
    key, time, tid = asleep["bio_key"], asleep["time_ns"], asleep["subject_tid"]
    if "held" in window.trace.points["block_getrq"].fields:
        # Older recorders tell of the request that who slept has got.
        got = window.columns("block_getrq", "bio_key", "tid", "held")
        slept = np.flatnonzero(got["held"])
        key = np.concatenate((key, got["bio_key"][slept]))
        time = np.concatenate((time, got["time_ns"][slept]))
        tid = np.concatenate((tid, got["tid"][slept]))
    if not len(key):
        return np.full(len(begun), -1)
    found = AsOf(key, time).at_or_before(begun.key, until_ns)
    until = at(time, found)
    # Of one that sleeps for what is not recorded, the bio it queued last may be another's by now.
    return np.where((until >= begun.time_ns) & (at(tid, found) == begun.tid), until, -1)


def _between(begun: Begun, until_ns: Ints, events: Columns) -> Ints:
    """When a point was hit for a bio, from Q to a time; -1: it was not seen there."""
    found = AsOf(events["bio_key"], events["time_ns"]).at_or_after(begun.key, begun.time_ns)
    time = at(events["time_ns"], found)
    return np.where(time <= until_ns, time, -1)
