# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: bios on stacked devices in, whose everything below them is out.

Several things tie what goes on below to the bio above. A clone says the place that it was
made for (device mapper, md; in ``Bios.parent``). A loop device's worker writes the file
below for one request after the other: its direct I/O bears the request's key
(``Bios.above``), and a sync of the file is for the flush that it runs in, of which a disk
has one at a time. What md does for a stripe, and a mirror on its disks, has the place there of
what is written above (``stripes``); so it is where nobody tells anything, or the very thread
that queued the one above queues those below, too (``legs``). What device mapper does there for
itself, and what arrays and caches log, is for all that is kept waiting meanwhile (``Upkeep``).
For what remains there is only time: a bio of a kernel thread that lived within one above is for
the first to end of those.

A request on a loop device is an *activity* like a journal commit: what belongs to it is
its own first, and becomes that of whoever waits for the request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Containing, Ints, at, distinct, joined, one_of, order_of
from iostrata.layers import RANK
from iostrata.stitch.arrays import arrays_of, is_mirror, told_of
from iostrata.stitch.bios import Bios, Carried, lowered, roots
from iostrata.stitch.blockio import LOWER, flushes_awaited, is_bare, kinds_of
from iostrata.stitch.legs import at_same_place, of_own_threads
from iostrata.stitch.requests import Requests
from iostrata.stitch.spans import Edges, Ranks
from iostrata.stitch.stripes import of_stripes, of_striping
from iostrata.stitch.syncs import Syncs
from iostrata.stitch.upkeep import (
    NOBODY,
    NONE,
    NOTHING,
    Upkeep,
    is_of_snapshot,
    logged_of,
    read_for_stripes,
    upkeep_of,
)
from iostrata.stitch.wakeup import Sleeps
from iostrata.stitch.window import Window
from iostrata.trace import BlockDevice, Facts, Trace

SEARCH: Final = 64
"""How many of those above that end next are looked at."""

TIED_BY: Final = ("key", "place", "time")
"""How a bio was found to be for the one above: the kernel's own pointers and places of clones, the
place of a stripe, or nothing but time; the surest first. And a call for whom: by the place in its
file, or the order of COMMITs (time)."""
KEY, PLACE, TIME = range(len(TIED_BY))


def stacking(facts: Facts, device_key: Ints) -> tuple[Ints, dict[int, Ints]]:
    """Of the devices that were seen, those that pass requests on, and those below each of them."""
    lower_of: dict[int, Ints] = {}
    # Most are on nothing: then nobody has to know which were seen.
    blocks = [block for block in facts.blocks.values() if block.lower_keys]
    seen = set(distinct(device_key).tolist()) if blocks else set()
    for block in blocks:
        if block.device_key in seen and (below := _seen_below(facts, block, seen)):
            lower_of[block.device_key] = np.array(sorted(below))
    return np.array(sorted(lower_of), np.int64), lower_of


def _seen_below(facts: Facts, block: BlockDevice, seen: set[int]) -> set[int]:
    """A device's next ones below: what passed nothing on may have others below it at work."""
    found, left, passed = set[int](), [block], {block.device_key}
    while left:
        block = left.pop()
        below = {facts.disk_of(key) for key in (*block.lower_keys, *block.store_keys)} - passed
        passed |= below
        found |= below & seen
        left += [facts.blocks[key] for key in below - seen if key in facts.blocks]
    return found


@dataclass(frozen=True, eq=False)
class Workers:
    """Stretches of kernel threads that sync a loop device's file.

    ``sync``: row of the Syncs; ``request``: the flush above. ``others``: other syncs, and of them
    ``another_s``: of the file of a device of which no request is recorded.
    """

    tid: Ints
    begin_ns: Ints
    end_ns: Ints
    sync: Ints
    request: Ints
    others: Containing
    another_s: Containing

    def works_for_another(self, tid: Ints, time_ns: Ints) -> NDArray[np.bool_]:
        """Whether a thread was syncing some other file at a time."""
        busy: NDArray[np.bool_] = self.others.find(tid, time_ns) >= 0
        return busy

    def is_apart(self, tid: Ints, time_ns: Ints) -> NDArray[np.bool_]:
        """Whether a thread was syncing a loop device's file at a time: for a request that is told
        of itself, or another's."""
        found: NDArray[np.bool_] = self.another_s.find(tid, time_ns) >= 0
        return found | (self.request_of(tid, time_ns) >= 0)

    def request_of(self, tid: Ints, time_ns: Ints) -> Ints:
        """The request that a thread works for at a time, -1: none."""
        if not len(self.tid):
            return np.full(len(tid), -1)
        return at(self.request, Containing(self.tid, self.begin_ns, self.end_ns).find(tid, time_ns))


def workers_of(syncs: Syncs, requests: Requests, facts: Facts) -> Workers:
    """The syncs that belong to no piece, each with the flush that it runs in."""
    request, unrecorded = np.full(len(syncs.tid), -1), [NONE]
    free = np.flatnonzero((syncs.piece < 0) & (syncs.worker < 0))
    for block in facts.blocks.values() if len(free) else ():
        rows = free[_is_backing(block, syncs, free)]
        if not len(rows):
            continue
        asked = requests.device_key == block.device_key
        flushes = np.flatnonzero(requests.flush & asked)
        if not len(flushes):
            unrecorded.append(rows if not asked.any() else NONE)
            continue
        none = np.zeros(len(rows), np.int64)
        running = AsOf(np.zeros(len(flushes), np.int64), requests.issue_ns[flushes])
        found = at(flushes, running.at_or_before(none, syncs.begin_ns[rows]))
        inside = at(requests.complete_ns, found) >= syncs.begin_ns[rows]
        request[rows] = np.where(inside, found, request[rows])
    sync = np.flatnonzero(request >= 0)
    request, end = request[sync], syncs.end_ns[sync]
    # xfs and btrfs have no point at the return.
    complete = requests.complete_ns[request]
    end = np.where(end < syncs.begin_ns[sync], complete, np.minimum(end, complete))
    # Mostly no sync is a worker's: then nothing is copied.
    other = np.delete(np.arange(len(syncs.tid)), sync) if len(sync) else slice(None)
    others, another_s = (
        Containing(syncs.tid[rows], syncs.begin_ns[rows], syncs.end_ns[rows])
        for rows in (other, np.concatenate(unrecorded))
    )
    return Workers(syncs.tid[sync], syncs.begin_ns[sync], end, sync, request, others, another_s)


def _is_backing(block: BlockDevice, syncs: Syncs, rows: Ints) -> NDArray[np.bool_]:
    if not block.backing:
        return np.zeros(len(rows), np.bool_)
    same = one_of(syncs.device_key[rows], block.lower_keys)
    if block.backing_inode is not None:
        same &= syncs.inode[rows] == block.backing_inode
    return same


class Stack:
    """Bios with what they are below of.

    ``owned``: bios that belong to a piece or to a commit by their thread or key. ``upkeep``: what
    stacked devices did for themselves, and ``hands``: who kept what waiting with it.
    ``tied_by``: of each bio, which of TIED_BY.
    """

    def __init__(
        self,
        bios: Bios,
        requests: Requests,
        workers: Workers,
        owned: NDArray[np.bool_],
        sleeps: Sleeps,
        window: Window,
    ) -> None:
        self.stacked, lower_of = stacking(window.trace.facts, bios.device_key)
        self.bios, self.tied_by = bios, np.full(len(bios), KEY)
        self.upkeep, self.hands = NOTHING, NOBODY
        if lower_of or len(workers.tid) or (bios.above >= 0).any():
            self._tie(requests, workers, owned, lower_of, sleeps, window)
        parent, above, device = self.bios.parent, self.bios.above, bios.device_key
        child = np.flatnonzero(parent >= 0)
        handed = child[device[child] != device[parent[child]]]
        given = requests.device_key[above[above >= 0]]
        if len(handed) or len(given):
            self.stacked = distinct(np.concatenate([self.stacked, device[parent[handed]], given]))

    def _tie(
        self,
        requests: Requests,
        workers: Workers,
        owned: NDArray[np.bool_],
        lower_of: Mapping[int, Ints],
        sleeps: Sleeps,
        window: Window,
    ) -> None:
        """Bios that are for a request of a loop device, the device's own, or that nothing but time
        ties."""
        bios = replace(self.bios, parent=_with_flushes(self.bios, lower_of))
        above = np.where(bios.above >= 0, bios.above, workers.request_of(bios.tid, bios.begin_ns))
        above[above >= 0] = np.where(
            requests.device_key[above[above >= 0]] != bios.device_key[above >= 0],
            above[above >= 0], -1,
        )  # fmt: skip
        above = np.where(owned, -1, above)
        # What is for a request that was not recorded is another's.
        loose = (bios.parent < 0) & (above < 0) & ~owned & bios.kernel_thread & ~bios.for_loop
        some = np.flatnonzero(loose)
        loose[some] = ~workers.works_for_another(bios.tid[some], bios.begin_ns[some])
        bare, trace = is_bare(bios, requests), window.trace
        parent, tied_by, settled, others = _by_stripe(bios, bare, loose, lower_of, trace)
        loose &= ~settled
        with_stripes = replace(bios, parent=parent)
        upkeep, self.hands = upkeep_of(with_stripes, loose, lower_of, sleeps, window)
        loose[upkeep.bio] = False
        log = logged_of(with_stripes, loose, upkeep, lower_of, trace.facts)
        tied_by[log.bio[loose[log.bio]]] = TIME
        loose[log.bio] = False
        loose &= ~_of_mirrors(bios, trace.facts)
        self.upkeep = Upkeep(**joined([upkeep, log]))
        placed = at_same_place(self.bios, bare, loose, lower_of, _no_mirrors(trace))
        loose &= placed < 0
        leg = np.maximum(placed, of_own_threads(self.bios, bare, owned, lower_of))
        with_stripes = replace(bios, parent=np.where(leg >= 0, leg, parent))
        parent, above, tied = _by_time(with_stripes, requests, bare, loose, above, lower_of)
        read = read_for_stripes(bios, loose, parent, lower_of, window)
        tied_by[read.bio] = PLACE
        self.upkeep = Upkeep(**joined([self.upkeep, read, others]))
        tied_by[tied], tied_by[placed >= 0] = TIME, PLACE
        self.tied_by = self.bios.of_root(tied_by)
        lower = lowered(parent, above, bios.device_key)
        if len(self.upkeep.bio):
            lower |= one_of(roots(parent), self.upkeep.bio)
        # What is made anew for a disk may have lost what that above was said to be.
        meta = bios.meta | bios.meta[roots(parent)]
        self.bios = replace(bios, parent=parent, above=above, lowered=lower, meta=meta)

    def edges(
        self,
        requests: Requests,
        carried: Carried,
        owners: Iterable[Ints],
        journal: NDArray[np.bool_],
        first: int,
    ) -> tuple[Edges, Ints]:
        """Who waits for which request of a stacked device, and what its data is to them.

        ``owners``: of each bio. ``first``: the number of the first request among activities.
        """
        parts = [self._edges(requests, carried, owner, journal, first) for owner in owners]
        return Edges(**joined([edges for edges, _ in parts])), np.concatenate(
            [kinds for _, kinds in parts]
        )

    def _edges(
        self,
        requests: Requests,
        carried: Carried,
        owner: Ints,
        journal: NDArray[np.bool_],
        first: int,
    ) -> tuple[Edges, Ints]:
        below = on_stacked(self.bios, requests, carried, owner >= 0, journal, self.stacked)
        edges = Edges(below.request + first, owner[below.bio], below.begin_ns, below.end_ns)
        return edges, below.kind


@dataclass(frozen=True, eq=False)
class OnStacked:
    """What bios asked of stacked devices: rows of Bios and Requests, and from when to when.

    ``kind``: what the data below is to those who asked.
    """

    bio: Ints
    request: Ints
    begin_ns: Ints
    end_ns: Ints
    kind: Ints


def on_stacked(
    bios: Bios,
    requests: Requests,
    carried: Carried,
    mine: NDArray[np.bool_],
    journal: NDArray[np.bool_],
    stacked: Ints,
) -> OnStacked:
    """Of some bios (``mine``): the requests that carried their data, and flushes.

    ``stacked``: keys of the devices.
    """
    rows = np.flatnonzero(mine[carried.bio])
    rows = rows[one_of(requests.device_key[carried.request[rows]], stacked)]
    bio, request = carried.bio[rows], carried.request[rows]
    some = np.flatnonzero(mine & one_of(bios.device_key, stacked))
    flushes = flushes_awaited(bios, some, requests)
    data = np.full(len(flushes.flush), RANK["device.data"])
    return OnStacked(
        np.concatenate([bio, flushes.bio]),
        np.concatenate([request, flushes.flush]),
        np.concatenate([requests.issue_ns[request], flushes.begin_ns]),
        np.concatenate([requests.complete_ns[request], flushes.end_ns]),
        np.concatenate([kinds_of(bios, journal)[bio], data]),
    )


def seen_from_above(ranks: Ranks) -> Ranks:
    """Ranks of what is below a stacked device, as whoever waits for that device has them."""
    return LOWER[ranks]


def _with_flushes(bios: Bios, lower_of: Mapping[int, Ints]) -> Ints:
    """``parent``, where whoever asks an array for a flush queues those of its disks itself, without
    a word for what (md since Linux b75197e86e6d, in v6.12)."""
    parent = bios.parent
    empty = (parent < 0) & (bios.above < 0) & bios.wants_flush & (bios.size_bytes == 0)
    for device, devices in lower_of.items():
        rows = np.flatnonzero(empty & one_of(bios.device_key, devices))
        if not len(rows):
            continue
        asked = np.flatnonzero(bios.wants_flush & (bios.device_key == device))
        last = AsOf(bios.tid[asked], bios.queue_ns[asked]).at_or_before(
            bios.tid[rows], bios.queue_ns[rows]
        )
        above = at(asked, last)
        holds = (above >= 0) & (at(bios.life_end_ns, above) >= bios.life_end_ns[rows])
        holds &= bios.life_end_ns[rows] >= 0
        if holds.any():
            parent = parent.copy() if parent is bios.parent else parent
            parent[rows[holds]] = above[holds]
    return parent


def _by_stripe(
    bios: Bios,
    bare: NDArray[np.bool_],
    loose: NDArray[np.bool_],
    lower_of: Mapping[int, Ints],
    trace: Trace,
) -> tuple[Ints, Ints, NDArray[np.bool_], Upkeep]:
    """Bios that are for a stripe of an array: ``parent`` with them, of each one of TIED_BY, of
    which that is all that is to be said, and for whom else they are."""
    parent, tied_by, others = bios.parent.copy(), np.full(len(bios), KEY), [NOTHING]
    settled = np.zeros(len(bios), np.bool_)
    arrays, told = arrays_of(trace), told_of(trace.facts)
    for device in (*arrays, *told):
        rows = np.flatnonzero(
            loose
            & (tied_by == KEY)
            & one_of(bios.device_key, lower_of.get(device, NONE))
            & (bios.life_end_ns >= 0)
        )
        above = np.flatnonzero(bare & ~bios.read & (bios.device_key == device))
        if not len(rows):
            continue
        if device in told:
            mirror = is_mirror(trace.facts.blocks[device])
            found = of_striping(bios, rows, above, told[device], mirror=mirror)
        else:
            found = of_stripes(bios, rows, above, lower_of[device], arrays[device])
        parent[rows], settled[rows], (row, upper) = found
        others.append(Upkeep(row, upper, bios.begin_ns[upper], bios.life_end_ns[upper]))
        tied_by[rows[parent[rows] >= 0]] = PLACE
    return parent, tied_by, settled, Upkeep(**joined(others))


def _of_mirrors(bios: Bios, facts: Facts) -> NDArray[np.bool_]:
    """Bios on the disks of device mapper's mirrors: what those log is for who waits for it, and for
    nobody because it lived within."""
    mirrors = filter(is_mirror, facts.blocks.values())
    return one_of(
        bios.device_key, [facts.disk_of(key) for one in mirrors for key in one.lower_keys]
    )


def _no_mirrors(trace: Trace) -> set[int]:
    """Devices of which is known how they lie on their disks, and snapshots with what they are of:
    what those copy has its place, too."""
    blocks = trace.facts.blocks
    snapshots = {key for key, block in blocks.items() if is_of_snapshot(block, blocks)}
    return snapshots.union(arrays_of(trace), told_of(trace.facts))


def _by_time(
    bios: Bios,
    requests: Requests,
    bare: NDArray[np.bool_],
    loose: NDArray[np.bool_],
    above: Ints,
    lower_of: Mapping[int, Ints],
) -> tuple[Ints, Ints, NDArray[np.bool_]]:
    """Bios that lived within one above: ``parent`` and ``above`` with them, and which."""
    parent, above, tied = bios.parent.copy(), above.copy(), np.zeros(len(bios), np.bool_)
    for device, devices in lower_of.items():
        rows = np.flatnonzero(
            loose & ~tied & one_of(bios.device_key, devices) & (bios.life_end_ns >= 0)
        )
        if not len(rows):
            continue
        if device in requests.disks:
            if (bios.above >= 0).any():
                # Where direct I/O tells its request, threads that never had one are no workers.
                rows = rows[one_of(bios.tid[rows], bios.tid[above >= 0])]
            found = np.full(len(rows), -1)
            for read in (False, True):
                row = np.flatnonzero(
                    ~requests.returned & (requests.read == read) & (requests.device_key == device)
                )
                flush, size = requests.flush[row], requests.size_bytes[row]
                upper = Upper(row, requests.issue_ns[row], requests.complete_ns[row], flush, size)
                mine = np.flatnonzero(bios.read[rows] == read)
                found[mine] = _within(bios, rows[mine], upper)
            above[rows] = found
        else:
            row = np.flatnonzero(bare & ~bios.read & (bios.device_key == device))
            flush, size = bios.wants_flush[row], bios.size_bytes[row]
            upper = Upper(row, bios.queue_ns[row], bios.life_end_ns[row], flush, size)
            # What it reads is for others.
            rows = rows[~bios.read[rows]]
            parent[rows] = found = _within(bios, rows, upper)
        tied[rows[found >= 0]] = True
    return parent, above, tied


@dataclass(frozen=True, eq=False)
class Upper:
    """What a stacked device had to do, and when; ``row``: of the bios or the requests."""

    row: Ints
    begin_ns: Ints
    end_ns: Ints
    flush: NDArray[np.bool_]
    size_bytes: Ints

    def sorted_by(self, time_ns: Ints) -> Upper:
        order = order_of(time_ns)
        return Upper(**{name: column[order] for name, column in vars(self).items()})


def _within(bios: Bios, rows: Ints, upper: Upper) -> Ints:
    """Which of those above each bio lived within, -1: none.

    Stacked devices take up in turn what they are given: a bio is for the first that has not
    got as many bytes below yet as it has itself; what exceeds that, for the first to end.
    """
    found = _in_turn(bios, rows, upper.sorted_by(upper.begin_ns))
    left = np.flatnonzero(found < 0)
    found[left] = _first_to_end(bios, rows[left], upper.sorted_by(upper.end_ns))
    return found


def _in_turn(bios: Bios, rows: Ints, upper: Upper) -> Ints:
    found = np.full(len(rows), -1)
    room = np.where(upper.flush, 0, upper.size_bytes)
    left = np.flatnonzero(bios.size_bytes[rows] > 0)
    left = left[order_of(bios.queue_ns[rows[left]])]
    # The first that may still be going on when a bio ends.
    place = np.searchsorted(np.maximum.accumulate(upper.end_ns), bios.life_end_ns[rows[left]])
    for _ in range(SEARCH):
        begun = place < len(room)
        begun[begun] &= upper.begin_ns[place[begun]] <= bios.queue_ns[rows[left[begun]]]
        left, place = left[begun], place[begun]
        if not len(left):
            break
        size = bios.size_bytes[rows[left]]
        fits = np.flatnonzero(upper.end_ns[place] >= bios.life_end_ns[rows[left]])
        fits = fits[order_of(place[fits])]
        first = np.searchsorted(place[fits], place[fits])
        sizes = np.concatenate([[0], np.cumsum(size[fits])])
        taken = fits[sizes[1:] - sizes[first] <= room[place[fits]]]
        found[left[taken]] = upper.row[place[taken]]
        np.subtract.at(room, place[taken], size[taken])
        rest = np.ones(len(left), np.bool_)
        rest[taken] = False
        left, place = left[rest], place[rest] + 1
    return found


def _first_to_end(bios: Bios, rows: Ints, upper: Upper) -> Ints:
    """An empty flush is only for what asked for one."""
    found = np.full(len(rows), -1)
    left = np.arange(len(rows))
    place = np.searchsorted(upper.end_ns, bios.life_end_ns[rows])
    for _ in range(SEARCH):
        ahead = place < len(upper.row)
        left, place = left[ahead], place[ahead]
        if not len(left):
            break
        holds = upper.begin_ns[place] <= bios.queue_ns[rows[left]]
        holds &= upper.flush[place] | (bios.size_bytes[rows[left]] > 0)
        found[left[holds]] = upper.row[place[holds]]
        left, place = left[~holds], place[~holds] + 1
    return found
