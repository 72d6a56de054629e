# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: what md did below for stripes in, for which write above each was out.

RAID 4, 5 and 6 have all of a stripe, data and parities, at one place of their disks, and do nothing
there for another stripe (``sh->sector`` of drivers/md/raid5.c). Where the layout is known, that is
the place of whatever is written above, also if the data's own disk has failed, and only parities
are written; else that of the data which is written there. What has neither is left to time only
while there is one write. A mirror has all at one place, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import (
    NEVER,
    AsOf,
    Ints,
    at,
    distinct,
    one_of,
    order_of,
    overlapping,
    ranges,
)
from iostrata.stitch.arrays import Array, Layout, agreed
from iostrata.stitch.bios import Bios

Found = tuple[Ints, NDArray[np.bool_], tuple[Ints, Ints]]
NO_OTHERS: Final = (np.zeros(0, np.int64), np.zeros(0, np.int64))
MOST_ROWS: Final = 1024
"""Of chunks: more than any write has."""
SEARCH: Final = 1024
"""How many of those above that end next are looked at."""


def of_stripes(bios: Bios, rows: Ints, above: Ints, devices: Ints, array: Array) -> Found:
    """For which writes on an array bios below are, -1: none that is known; of which that is all
    that is to be said: by time alone, they could be for others; and which of them are for which
    other writes, too (rows).

    ``above``: rows of the writes, all on the ``array``.
    """
    if not len(above):
        return np.full(len(rows), -1), np.zeros(len(rows), np.bool_), NO_OTHERS
    device = int(bios.device_key[above[0]])
    told = bios.old_device_key == device
    data = np.flatnonzero(told & (bios.old_sector > 0) & one_of(bios.device_key, devices))
    layout = _known(bios, data, above, array.layouts)
    if layout is None:
        found = _beside_data(bios, rows, device, devices)
        return found, (found >= 0) | (told[rows] & ~_alone(bios, rows, above)), NO_OTHERS
    place = np.where(told[rows], layout.place_on(bios.device_key[rows], bios.sector[rows]), -1)
    found = first_to_end(bios, rows, place, above, layout)
    return found, place >= 0, _others(bios, rows, place, found, above, layout)


def of_striping(
    bios: Bios, rows: Ints, above: Ints, layouts: Sequence[Layout], *, mirror: bool
) -> Found:
    """The same of an array, or of mirrors, whose layouts are told: of no bio below it is said that
    it was made for one above."""
    found, settled, others = np.full(len(rows), -1), np.zeros(len(rows), np.bool_), [NO_OTHERS]
    device, data = bios.device_key[rows], bios.size_bytes[rows] > 0
    for layout in layouts:
        there = data & one_of(device, list(layout.begin_of))
        place = np.where(there, layout.place_on(device, bios.sector[rows]), -1)
        settled |= place >= 0
        if len(above):
            mine = first_to_end(bios, rows, place, above, layout)
            others.append(_others(bios, rows, place, mine, above, layout))
            found = np.where(mine >= 0, mine, found)
    if mirror:
        # Each is flushed, whatever part of the device was written.
        there = one_of(device, [key for layout in layouts for key in layout.begin_of])
        empty = np.flatnonzero(there & bios.wants_flush[rows] & ~data)
        asked = above[bios.begins_with_flush[above]]
        # With data, it is flushed before that.
        data = np.full(len(bios), NEVER)
        np.minimum.at(data, found[found >= 0], bios.queue_ns[rows[found >= 0]])
        end = np.where(bios.size_bytes[asked] > 0, data[asked], bios.life_end_ns[asked])
        known = end < NEVER
        found[empty] = _last_before(bios, rows[empty], asked[known], end[known])
    row, upper = (np.concatenate(columns) for columns in zip(*others, strict=True))
    return found, settled | (found >= 0), (row, upper)


def _last_before(bios: Bios, rows: Ints, asked: Ints, end_ns: Ints) -> Ints:
    """For which of the flushes that were ``asked`` for, until then, those of a mirror's disks are:
    each has one of every disk, and is complete when the last of these is; those before are the
    mirror's own, for its log."""
    found, order = np.full(len(rows), -1), order_of(end_ns)
    asked, end_ns = asked[order], end_ns[order]
    for device in distinct(bios.device_key[rows]):
        mine = np.flatnonzero(bios.device_key[rows] == device)
        mine = mine[order_of(bios.life_end_ns[rows[mine]])]
        begin, end = bios.begin_ns[rows[mine]], bios.life_end_ns[rows[mine]]
        last = np.searchsorted(end, end_ns, "right") - 1
        some = np.flatnonzero((last >= 0) & (begin[last] >= bios.queue_ns[asked]))
        # A fast disk has done those of the next by then, too, which has the last of them.
        number = np.arange(len(some))
        last = np.minimum.accumulate((last[some] - number)[::-1])[::-1] + number
        own = np.flatnonzero((last >= 0) & (begin[last] >= bios.queue_ns[asked[some]]))
        found[mine[last[own]]] = asked[some[own]]
    return found


def _known(bios: Bios, data: Ints, above: Ints, layouts: Iterable[Layout]) -> Layout | None:
    """The layout; None: none that is allowed, or several that tell of different places.

    ``data``: rows of bios of which both places are told.
    """
    told = bios.old_sector[data], bios.device_key[data], bios.sector[data]
    every = [layout for layout in layouts if layout.allows(*told)]
    return agreed(every, bios.sector[above], bios.size_bytes[above])


def first_to_end(bios: Bios, rows: Ints, place: Ints, above: Ints, layout: Layout) -> Ints:
    """Of the writes that have a place, and all of a bio there, the first to end: what is written of
    a stripe for several ends before any of them, and for the next only afterwards."""
    found = np.full(len(rows), -1)
    upper = above[order_of(bios.life_end_ns[above])]
    begin, end = bios.sector[upper], bios.sector[upper] + bios.size_bytes[upper] // 512
    since = bios.queue_ns[upper]
    # Of all from one on, when the first was queued: before that, none of them holds anything.
    first = np.minimum.accumulate(since[::-1])[::-1]
    left = np.flatnonzero(place >= 0)
    following = np.searchsorted(bios.life_end_ns[upper], bios.life_end_ns[rows[left]])
    for _ in range(SEARCH):
        queued, ahead = bios.queue_ns[rows[left]], following < len(upper)
        ahead[ahead] = first[following[ahead]] <= queued[ahead]
        left, following, queued = left[ahead], following[ahead], queued[ahead]
        if not len(left):
            break
        count = bios.size_bytes[rows[left]] // 512
        holds = layout.reaches(place[left], count, begin[following], end[following])
        holds &= since[following] <= queued
        found[left[holds]] = upper[following[holds]]
        left, following = left[~holds], following[~holds] + 1
    return found


def _others(
    bios: Bios, rows: Ints, place: Ints, found: Ints, above: Ints, layout: Layout
) -> tuple[Ints, Ints]:
    """Of a stripe that is written for several at once, each bio and whom else it was for: none ends
    before its parities are written, with what they are of (handle_stripe_clean_event)."""
    mine = np.flatnonzero((place >= 0) & (found >= 0))
    above = above[(bios.life_end_ns[above] >= 0) & (bios.size_bytes[above] > 0)]
    # By rows of chunks, of which a write may have several.
    first, last = (
        (bios.sector[above] + behind) // (layout.chunk * layout.disks)
        for behind in (0, bios.size_bytes[above] // 512 - 1)
    )
    count = np.minimum(last - first + 1, MOST_ROWS)
    above, row_of = np.repeat(above, count), np.repeat(first, count) + ranges(count)
    one, other = overlapping(
        place[mine] // layout.chunk, bios.queue_ns[rows[mine]], bios.life_end_ns[rows[mine]],
        row_of, bios.queue_ns[above], bios.life_end_ns[above],
    )  # fmt: skip
    row, upper = rows[mine[one]], above[other]
    within = bios.life_end_ns[upper] >= bios.life_end_ns[row]
    within &= upper != found[mine[one]]
    begin = bios.sector[upper]
    within &= layout.reaches(
        place[mine[one]],
        bios.size_bytes[row] // 512,
        begin,
        begin + bios.size_bytes[upper] // 512,
    )
    return row[within], upper[within]


def _alone(bios: Bios, rows: Ints, above: Ints) -> NDArray[np.bool_]:
    """During which of the bios there was but one write under way on the array."""
    begun = np.sort(bios.queue_ns[above]).searchsorted(bios.life_end_ns[rows], "right")
    over = np.sort(bios.life_end_ns[above]).searchsorted(bios.queue_ns[rows])
    one: NDArray[np.bool_] = begun - over == 1
    return one


def _beside_data(bios: Bios, rows: Ints, device: int, devices: Ints) -> Ints:
    """By the data of a write that is written at the same place, if any is: that says for what it is
    whatever the layout."""
    told = (at(bios.device_key, bios.parent) == device) & ~bios.read
    data = np.flatnonzero(told & one_of(bios.device_key, devices))
    place = AsOf(bios.sector[data], bios.queue_ns[data])
    written, found = ~bios.read[rows], np.full(len(rows), -1)
    # What is read is read before; what is written is queued one after the other.
    since = np.where(written, bios.queue_ns[rows], bios.life_end_ns[rows])
    before = place.at_or_before(bios.sector[rows], bios.queue_ns[rows])
    for write in (
        place.at_or_after(bios.sector[rows], since),
        np.where(written, before, -1),
    ):
        above = at(bios.parent[data], write)
        holds = (above >= 0) & (at(bios.queue_ns, above) <= bios.queue_ns[rows])
        holds &= at(bios.life_end_ns, above) >= bios.life_end_ns[rows]
        found = np.where((found < 0) & holds, above, found)
    return found
