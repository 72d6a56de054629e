# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: bios on stacked devices in, what those did below for themselves out, and for whom.

Device mapper's thin pool has a worker that reads and writes the pool's metadata, and another one
that clears or copies a block, before a bio that needs that is passed on. Two things tell for which
bios that was. Who passes one on, or says that it is complete, kept it waiting with what it had
below since it was let go itself, and so did who had let it go. And what was written, while a bio
waited, to the place that it is passed on to then, was for it. All that waited have it.

Arrays and caches log what is written to them, for many at a time, and a snapshot's origin copies
what is about to be overwritten, and awaits all copies before it notes them: there is only time that
tells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
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
    distinct,
    integers,
    joined,
    numbers,
    one_of,
    order_of,
    overlapping,
    pair_key,
)
from iostrata.stitch.bios import DEPTH, Bios
from iostrata.stitch.endings import SOON_NS
from iostrata.stitch.wakeup import Sleeps, at_rest
from iostrata.stitch.window import Window, whole
from iostrata.trace import BlockDevice, Facts


@dataclass(frozen=True, eq=False)
class Upkeep:
    """Rows of the Bios. ``bio``: one of the device's own; ``above``: one that waited for it, from
    ``begin_ns`` on, until ``end_ns``, when it was passed on."""

    bio: Ints
    above: Ints
    begin_ns: Ints
    end_ns: Ints

    def rows(self, rows: Ints) -> Upkeep:
        return Upkeep(**{name: column[rows] for name, column in vars(self).items()})

    def asked(self, root: Ints) -> Ints:
        """Of each bio the whole one (``root``) that it was asked for by: of the device's own, the
        first that waited."""
        if not len(self.bio):
            return root
        found = np.arange(len(root))
        last = order_of(self.begin_ns)[::-1]
        # What was made for one is that one's, for whomever else it is.
        last = last[root[self.bio[last]] == self.bio[last]]
        found[self.bio[last]] = root[self.above[last]]
        return found[root]


@dataclass(frozen=True, eq=False)
class Kept:
    """Bios (rows, ``above``) that waited in a stacked device, from when to when, and the thread
    that ended that; ``child``: what it was passed on as, -1: it was complete."""

    above: Ints
    begin_ns: Ints
    end_ns: Ints
    tid: Ints
    child: Ints

    def rows(self, rows: Ints) -> Kept:
        return Kept(**{name: column[rows] for name, column in vars(self).items()})


@dataclass(frozen=True, eq=False)
class Hands:
    """Threads that had what waited (``above``) in hand until ``end_ns``, and were at work in one go
    since ``since_ns``; ``begin_ns``: when it began to wait."""

    above: Ints
    tid: Ints
    since_ns: Ints
    begin_ns: Ints
    end_ns: Ints

    def rows(self, rows: Ints) -> Hands:
        return Hands(**{name: column[rows] for name, column in vars(self).items()})

    def once(self) -> Hands:
        """Of each that waits and each go of a thread one row."""
        order = order_of(self.above, self.tid, self.since_ns)
        above, tid, since = self.above[order], self.tid[order], self.since_ns[order]
        first = np.flatnonzero(changes(above) | changes(tid) | changes(since))
        if len(first) == len(order):
            return self
        begin = np.minimum.reduceat(self.begin_ns[order], first)
        end = np.maximum.reduceat(self.end_ns[order], first)
        return Hands(above[first], tid[first], since[first], begin, end)


LOGGING: Final = re.compile("(md|bcache)[0-9]")
"""Devices that log what is written before they write it, or what they know of it."""
NONE = np.zeros(0, np.int64)
NOTHING = Upkeep(NONE, NONE, NONE, NONE)
NOBODY = Hands(NONE, NONE, NONE, NONE, NONE)


def upkeep_of(
    bios: Bios,
    own: NDArray[np.bool_],
    lower_of: Mapping[int, Ints],
    sleeps: Sleeps,
    window: Window,
) -> tuple[Upkeep, Hands]:
    """And in whose hands that was which waited for what those threads did. ``own``: bios that a
    kernel thread queued for nobody who is known."""
    rows = np.flatnonzero(own & (bios.life_end_ns >= 0))
    blocks = window.trace.facts.blocks
    # md is at many stripes at once, and waits for none of them: each has its place.
    stacked = [device for device in lower_of if not blocks[device].name.startswith("md")]
    below = np.concatenate([NONE, *(lower_of[device] for device in stacked)])
    rows = rows[one_of(bios.device_key[rows], below)]
    if len(rows):
        rows = rows[~one_of(bios.tid[rows], whole(window.trace).once(_threads_of_md))]
    if not len(rows):
        return NOTHING, NOBODY
    kept = _kept(bios, np.array(stacked, np.int64), sleeps, window)
    off = Off(sleeps)
    put = _by_place(bios, rows, kept)
    put = Upkeep(**joined([put, _copied(bios, rows, put, off)]))
    hands = _hands(_met(kept, np.sort(bios.life_end_ns[rows])), put, bios, off)
    bio, hand = _by_thread(bios, rows, hands, _places(lower_of))
    had = hands.rows(hand)
    mine = Upkeep(bio, had.above, had.begin_ns, had.end_ns)
    return Upkeep(**joined([mine, put])), hands.rows(distinct(hand))


def is_of_snapshot(block: BlockDevice, blocks: Mapping[int, BlockDevice]) -> bool:
    """Whether a device is a snapshot, or what one is of."""
    if block.store_keys or not block.lower_keys:
        return bool(block.store_keys)
    stores = {store for other in blocks.values() for store in other.store_keys}
    return not stores.isdisjoint(block.lower_keys)


def _kind_of_log(block: BlockDevice) -> str:
    """``md``, also of device mapper's arrays, ``bcache``, or empty."""
    name = LOGGING.match(block.name)
    return name[1] if name else "md" if any(part.chunk for part in block.striping) else ""


def _threads_of_md(window: Window) -> Ints:
    """Device mapper's arrays (dm-raid) are md's."""
    threads = window.trace.points["thread"]
    name = threads["comm"].astype("S16")
    mine = np.char.startswith(name, b"md") & (np.char.find(name, b"_raid") > 0)
    tids: Ints = distinct(integers(threads["subject_tid"])[mine])
    return tids


def _met(kept: Kept, ends_ns: Ints) -> Kept:
    """Those in whose wait anything ended."""
    first, last = (np.searchsorted(ends_ns, time) for time in (kept.begin_ns, kept.end_ns + 1))
    return kept.rows(np.flatnonzero(last > first))


def _kept(bios: Bios, stacked: Ints, sleeps: Sleeps, window: Window) -> Kept:
    child = np.flatnonzero(bios.parent >= 0)
    child = child[bios.device_key[child] != bios.device_key[bios.parent[child]]]
    child = child[one_of(bios.device_key[bios.parent[child]], stacked)]
    above = bios.parent[child]
    last = bios.begin_ns.copy()
    np.maximum.at(last, above, bios.life_end_ns[child])
    ended = np.flatnonzero(one_of(bios.device_key, stacked) & (bios.life_end_ns > last))
    alone = window.columns("block_bio_complete", "bio_key", "tid")
    completion = AsOf(alone["bio_key"], alone["time_ns"])
    end = completion.at_or_before(bios.key[ended], bios.life_end_ns[ended])
    told = at(alone["time_ns"], end) == bios.life_end_ns[ended]
    told &= ~_interrupted(at(alone["tid"], end), bios.life_end_ns[ended], sleeps, window)
    ended, end = ended[told], end[told]
    return Kept(
        above=np.concatenate([above, ended]),
        begin_ns=np.concatenate([bios.begin_ns[above], last[ended]]),
        end_ns=np.concatenate([bios.begin_ns[child], bios.life_end_ns[ended]]),
        tid=np.concatenate([bios.tid[child], alone["tid"][end]]),
        child=np.concatenate([child, np.full(len(ended), -1)]),
    )


def _interrupted(tid: Ints, time_ns: Ints, sleeps: Sleeps, window: Window) -> NDArray[np.bool_]:
    """Whether a thread was there at a time by chance: an interrupt on its CPU had just completed
    a request, and does the same to what that was below of."""
    done = window.columns("block_rq_complete", "tid")
    last = AsOf(done["tid"], done["time_ns"]).at_or_before(tid, time_ns)
    since = at(done["time_ns"], last)
    slept = at(sleeps.off_ns, AsOf(sleeps.tid, sleeps.off_ns).at_or_before(tid, time_ns))
    soon: NDArray[np.bool_] = (last >= 0) & (time_ns - since <= SOON_NS) & (slept < since)
    return soon


class Off:
    """When threads of the kernel were at rest, as who has nothing to do."""

    def __init__(self, sleeps: Sleeps) -> None:
        self._sleeps = sleeps
        rests = at_rest(sleeps, np.arange(len(sleeps))) | sleeps.interruptible
        self._idle = np.flatnonzero(rests)
        self._rests = AsOf(sleeps.tid[self._idle], sleeps.on_ns[self._idle])

    def rest(self, tid: Ints, time_ns: Ints) -> Ints:
        """When each thread came to rest, last before a time; -1: never."""
        return at(self._sleeps.off_ns, at(self._idle, self._rests.at_or_before(tid, time_ns)))

    def since(self, tid: Ints, time_ns: Ints) -> Ints:
        """Since when each thread was at work at a time: it had been at rest; -1: always."""
        rest = at(self._idle, self._rests.at_or_before(tid, time_ns))
        return at(self._sleeps.wake_ns, rest)

    def let_go(self, hands: Hands) -> Hands:
        """Who had ended sleeps of those that had it in hand, and so had it before."""
        sleeps = self._sleeps
        itself = np.flatnonzero(sleeps.asleep & ~sleeps.interrupted & (sleeps.waker > 0))
        since = np.maximum(hands.since_ns, hands.begin_ns)
        one, sleep = overlapping(
            hands.tid, since, hands.end_ns, sleeps.tid[itself], sleeps.wake_ns[itself],
            sleeps.wake_ns[itself] + 1,
        )  # fmt: skip
        sleep = itself[sleep]
        tid, wake = sleeps.waker[sleep], sleeps.wake_ns[sleep]
        begin = np.maximum(hands.begin_ns[one], sleeps.off_ns[sleep])
        # Who was at rest did not keep it from anybody.
        begin = np.where(wake == hands.since_ns[one], hands.begin_ns[one], begin)
        return Hands(hands.above[one], tid, self.since(tid, wake), begin, wake)


def _hands(kept: Kept, put: Upkeep, bios: Bios, off: Off) -> Hands:
    """Who ended the waits, or queued what was ``put`` there, and who had let those go, back from
    the last."""
    tid = np.concatenate([kept.tid, bios.tid[put.bio]])
    end = np.concatenate([kept.end_ns, bios.begin_ns[put.bio]])
    last = Hands(
        above=np.concatenate([kept.above, put.above]),
        tid=tid,
        since_ns=off.since(tid, end),
        begin_ns=np.concatenate([kept.begin_ns, put.begin_ns]),
        end_ns=end,
    )
    found = [last]
    for _ in range(DEPTH):
        last = off.let_go(last).once()
        if not len(last.above):
            break
        found.append(last)
    return Hands(**joined(found)).once()


def _places(lower_of: Mapping[int, Ints]) -> dict[int, set[int]]:
    """All devices below each stacked one."""
    places = {}
    for device in lower_of:
        found, left = set[int](), [device]
        while left:
            below = set(lower_of.get(left.pop(), NONE).tolist()) - found
            found |= below
            left += below
        places[device] = found
    return places


def _by_thread(
    bios: Bios, rows: Ints, hands: Hands, places: Mapping[int, set[int]]
) -> tuple[Ints, Ints]:
    """Bios, and in which hands what waited for each was: who had it had queued them since it was
    let go itself."""
    bio, hand = [NONE], [NONE]
    waited = bios.device_key[hands.above]
    for device, below in places.items():
        those = np.flatnonzero(waited == device)
        mine = rows[one_of(bios.device_key[rows], list(below))]
        end = bios.life_end_ns[mine]
        one, row = overlapping(
            hands.tid[those], hands.begin_ns[those], hands.end_ns[those] + 1,
            bios.tid[mine], end, end + 1,
        )  # fmt: skip
        one, row = those[one], mine[row]
        within = np.flatnonzero(bios.begin_ns[row] >= hands.since_ns[one])
        bio.append(row[within])
        hand.append(one[within])
    return np.concatenate(bio), np.concatenate(hand)


def _by_place(bios: Bios, rows: Ints, kept: Kept) -> Upkeep:
    """The last that was written there before."""
    rows = rows[~bios.read[rows] & (bios.size_bytes[rows] > 0)]
    those = np.flatnonzero(kept.child >= 0)
    child = kept.child[those]
    device, sector = bios.device_key[child], bios.sector[child]
    begins = AsOf(bios.device_key[rows], bios.sector[rows])
    place = numbers(bios.device_key[rows], bios.sector[rows])
    nearest = at(place, begins.at_or_before(device, sector))
    found = at(rows, AsOf(place, bios.life_end_ns[rows]).at_or_before(nearest, kept.end_ns[those]))
    behind = at(bios.sector, found) + at(bios.size_bytes, found) // 512
    inside = (found >= 0) & (sector + bios.size_bytes[child] // 512 <= behind)
    inside &= at(bios.life_end_ns, found) > kept.begin_ns[those]
    one = np.flatnonzero(inside)
    those = those[one]
    return Upkeep(found[one], kept.above[those], kept.begin_ns[those], kept.end_ns[those])


def _copied(bios: Bios, rows: Ints, put: Upkeep, off: Off) -> Upkeep:
    """What was read to be ``put`` there: of that size, and the only one that ended since who then
    wrote it had been at rest."""
    reads = rows[bios.read[rows]]
    if not len(reads) or not len(put.bio):
        return NOTHING
    copy = pair_key(bios.tid, bios.size_bytes)
    reads = reads[order_of(copy[reads], bios.life_end_ns[reads])]
    written, begin = distinct(put.bio), bios.begin_ns[put.bio]
    ends = bios.life_end_ns[reads]
    place = AsOf(copy[reads], ends).at_or_before(copy[put.bio], begin)
    read, end, rest = at(reads, place), at(ends, place), off.rest(bios.tid[put.bio], begin)
    alone = (place >= 0) & (end > rest) & (at(bios.begin_ns, read) >= put.begin_ns)
    before = np.maximum(place - 1, 0)
    alone &= (place < 1) | (copy[reads[before]] != copy[put.bio]) | (ends[before] <= rest)
    other = AsOf(copy[written], bios.begin_ns[written]).at_or_before(copy[put.bio], begin - 1)
    alone &= at(bios.begin_ns[written], other) < end
    put = put.rows(np.flatnonzero(alone))
    return Upkeep(read[alone], put.above, put.begin_ns, put.end_ns)


def logged_of(
    bios: Bios, own: NDArray[np.bool_], kept: Upkeep, lower_of: Mapping[int, Ints], facts: Facts
) -> Upkeep:
    """What arrays and caches log before they write it, of what is nobody's (``own``): one write
    after the other, each of what many have asked for. Who is not in one waits for the next, and
    that for this one: so all have it who wait meanwhile. So they have what a snapshot reads, and
    writes, to keep what was there: it is noted when none is under way (dm-snap-persistent.c), for
    those who write to the snapshot, too, whose thread may have had it in hand (``kept``)."""
    found = [NOTHING]
    of_any, asks = own.copy(), bios.wants_flush & (bios.size_bytes > 0)
    of_any[kept.bio] = True
    # What it reads for one, it reads before.
    child = np.flatnonzero((bios.parent >= 0) & ~bios.read)
    passed = np.where(bios.life_end_ns >= 0, bios.life_end_ns, NEVER)
    np.minimum.at(passed, bios.parent[child], bios.begin_ns[child])
    for device, below in lower_of.items():
        block = facts.blocks[device]
        kind = _kind_of_log(block)
        if not (kind or is_of_snapshot(block, facts.blocks)):
            continue
        mine = np.flatnonzero((own if kind else of_any) & (bios.life_end_ns >= 0))
        mine = mine[one_of(bios.device_key[mine], below)]
        if not len(mine):
            continue
        if kind:
            mine = mine[~bios.read[mine]]
        if kind == "bcache":
            # What a cache writes back is for nobody: only its journal asks for a flush with data.
            mine = mine[asks[mine]]
        above = np.flatnonzero((bios.device_key == device) & ~bios.read)
        place = np.zeros(max(len(mine), len(above)), np.int64)
        one, row = overlapping(
            place[: len(above)], bios.begin_ns[above], passed[above],
            place[: len(mine)], bios.begin_ns[mine], bios.life_end_ns[mine],
        )  # fmt: skip
        # What had begun before may be in a loss. But nothing is copied until what was copied before
        # is noted, whoever comes meanwhile.
        within = bios.begin_ns[mine[row]] >= bios.begin_ns[above[one]]
        if not kind:
            within |= asks[mine[row]]
        # What was not over yet was not waited for.
        within &= bios.life_end_ns[mine[row]] <= passed[above[one]]
        above = above[one[within]]
        found.append(Upkeep(mine[row[within]], above, bios.begin_ns[above], passed[above]))
    log = Upkeep(**joined(found))
    # Nobody waits for the same twice.
    again = one_of(pair_key(log.bio, log.above), pair_key(kept.bio, kept.above))
    return log.rows(np.flatnonzero(~again))


def read_for_stripes(
    bios: Bios,
    own: NDArray[np.bool_],
    parent: Ints,
    lower_of: Mapping[int, Ints],
    window: Window,
) -> Upkeep:
    """What an array's thread reads that is nobody's (``own``), before it writes to the same place
    of any of the disks, where the rest of that stripe is: it is for whom it writes that
    (``parent``)."""
    reads = np.flatnonzero(own & bios.read & (bios.life_end_ns >= 0))
    if len(reads):
        reads = reads[one_of(bios.tid[reads], whole(window.trace).once(_threads_of_md))]
    if not len(reads):
        return NOTHING
    found = [NOTHING]
    every = np.flatnonzero(bios.kernel_thread & ~bios.read & (parent >= 0))
    for disks in lower_of.values():
        mine = reads[one_of(bios.device_key[reads], disks)]
        writes = every[one_of(bios.device_key[every], disks)]
        following = AsOf(bios.sector[writes], bios.begin_ns[writes])
        write = at(writes, following.at_or_after(bios.sector[mine], bios.life_end_ns[mine]))
        above = np.where(write >= 0, parent[write], -1)
        begin = at(bios.begin_ns, above)
        one = np.flatnonzero((above >= 0) & (begin <= bios.begin_ns[mine]))
        found.append(Upkeep(mine[one], above[one], begin[one], bios.begin_ns[write[one]]))
    return Upkeep(**joined(found))
