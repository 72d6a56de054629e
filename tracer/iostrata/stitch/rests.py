# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: what was left of split bios in, how long a limit held that back out.

A bio that is larger than its disk takes at once is split; what is left of it is submitted again, as
each part is split off, and a limit of requests a second holds that back anew (since Linux
9f5ede3c01f9, in v5.18). Whatever no limit holds back goes on in the same thread at once
(current->bio_list of block/blk-core.c). So it was held back if the worker for what limits hold back
(blk_throtl_dispatch_work_fn) comes to it out of a rest of its own since the part before was split
off: no run of its work goes on behind that.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, at, joined, pair_key
from iostrata.stitch.bios import Bios
from iostrata.stitch.wakeup import Sleeps, at_rest
from iostrata.stitch.window import Window


@dataclass(frozen=True, eq=False)
class Rests:
    """What limits held back of split bios (rows), from when to when; in order of ``until_ns``.

    ``mapped``: of a device of device mapper's, whose parts are no bios of it: it has those all the
    while.
    """

    bio: Ints
    since_ns: Ints
    until_ns: Ints
    mapped: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.bio)

    def rows(self, rows: Ints | NDArray[np.bool_]) -> Rests:
        return Rests(**{name: column[rows] for name, column in vars(self).items()})


@dataclass(frozen=True, eq=False)
class Taken:
    """What is left, each time that the worker takes it up: of which bio it is, -1: of none; since
    when the part before had been split off, -1: that is not told; which worker took it up, when."""

    bio: Ints
    since_ns: Ints
    tid: Ints
    time_ns: Ints
    mapped: NDArray[np.bool_]


def rests_of(window: Window, bios: Bios, sleeps: Sleeps) -> Rests:
    # Older recorders tell nothing of these.
    told = window.trace.points["block_bio_held"]
    if not len(told) or "rest" not in told.fields or bios.whole:
        none = np.zeros(0, np.int64)
        return Rests(none, none, none, none > 0)
    taken = Taken(**joined([_taken(window, bios), _mapped(window, bios)]))
    bio, since_ns, tid, time_ns = taken.bio, taken.since_ns, taken.tid, taken.time_ns
    idle = at_rest(sleeps, np.arange(len(sleeps)))
    rested, others = np.flatnonzero(idle), np.flatnonzero(sleeps.asleep & ~idle)
    rest = AsOf(sleeps.tid[rested], sleeps.on_ns[rested]).at_or_before(tid, time_ns)
    began_ns = at(sleeps.on_ns[rested], rest)
    # For no limit: it sleeps for a request, for this bio or for one before that.
    other = AsOf(sleeps.tid[others], sleeps.off_ns[others]).at_or_after(tid, began_ns)
    off_ns = at(sleeps.off_ns[others], other)
    until_ns = np.where(off_ns >= 0, np.minimum(off_ns, time_ns), time_ns)
    held = np.flatnonzero((bio >= 0) & (since_ns >= 0) & (rest >= 0) & (began_ns > since_ns))
    held = held[np.argsort(until_ns[held], kind="stable")]
    return Rests(bio, since_ns, until_ns, taken.mapped).rows(held)


def _taken(window: Window, bios: Bios) -> Taken:
    told = window.columns("block_bio_held", "bio_key", "tid", "rest")
    rows = np.flatnonzero(told["rest"])
    tid, time_ns = told["tid"][rows], told["time_ns"][rows]
    bio = bios.by_key.at_or_before(told["bio_key"][rows], time_ns)
    bio = np.where(at(bios.life_end_ns, bio) >= time_ns, bio, -1)
    parts = _parts(bios)
    part = AsOf(bios.parent[parts], bios.begin_ns[parts]).at_or_before(bio, time_ns - 1)
    since_ns = at(bios.begin_ns, at(parts, part))
    return Taken(bio, since_ns, tid, time_ns, np.zeros(len(bio), np.bool_))


def _mapped(window: Window, bios: Bios) -> Taken:
    """The same of device mapper, which says of the bio itself that it was split, behind each part;
    the worker takes it up to hand on the next one."""
    clone = np.flatnonzero(bios.held_below & (bios.handed_ns >= 0))
    time_ns, bio = bios.handed_ns[clone], bios.parent[clone]
    handed = window.columns("block_bio_remap", "bio_key", "tid")
    event = AsOf(handed["bio_key"], handed["time_ns"]).at_or_before(bios.key[clone], time_ns)
    tid = at(handed["tid"], event)
    split = window.columns("block_split", "bio_key", "dev")
    place = pair_key(split["bio_key"], split["dev"])
    before = AsOf(place, split["time_ns"]).at_or_before(
        pair_key(bios.key[bio], bios.device_key[bio]), time_ns - 1
    )
    since_ns = at(split["time_ns"], before)
    # Who queued it below hands it on: no limit of the disk there had held it back meanwhile.
    own = (since_ns >= bios.begin_ns[bio]) & (tid == bios.tid[clone])
    since_ns = np.where(own, since_ns, -1)
    return Taken(bio, since_ns, tid, time_ns, np.ones(len(bio), np.bool_))


def let_go_by(bios: Bios, rests: Rests) -> Bios:
    """The same, in the queue since a limit let go what was left of those that they are, or came
    of."""
    rests = rests.rows(~rests.mapped)
    if not len(rests):
        return bios
    parts, let_go_ns = _parts(bios), bios.let_go_ns.copy()
    last = AsOf(rests.bio, rests.until_ns).at_or_before(bios.parent[parts], bios.begin_ns[parts])
    let_go_ns[parts] = np.maximum(let_go_ns[parts], at(rests.until_ns, last))
    # That is its last part: it has no other row.
    np.maximum.at(let_go_ns, rests.bio, rests.until_ns)
    return replace(bios, let_go_ns=let_go_ns)


def _parts(bios: Bios) -> Ints:
    """Those that were split off others."""
    return np.flatnonzero((bios.parent >= 0) & (bios.old_device_key < 0))
