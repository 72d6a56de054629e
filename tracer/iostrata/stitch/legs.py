# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: writes on devices of which no bio below says what it was made for in, which of
those below are for which out.

An array of md's that device mapper has (dm-raid) has no disk of its own, so that md tells nobody
what it hands on (``mddev->gendisk`` of md_submit_bio and mddev_trace_remap, drivers/md). Two things
still do. Who writes to it queues some for its disks himself, as he unplugs what he had gathered
(raid1_unplug, raid10_unplug). And a mirror's disks have everything at its own place.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Ints, at, distinct, one_of
from iostrata.stitch.arrays import CHUNKS, Layout
from iostrata.stitch.begun import SEARCH
from iostrata.stitch.bios import Bios
from iostrata.stitch.stripes import first_to_end

SAME_PLACE = Layout(CHUNKS[0], 1, {})


def of_own_threads(
    bios: Bios, bare: NDArray[np.bool_], owned: NDArray[np.bool_], lower_of: Mapping[int, Ints]
) -> Ints:
    """Of each bio that somebody's own thread queued (``owned``) the one above that this had queued
    before, -1: none that was not complete yet."""
    parent = np.full(len(bios), -1)
    for _, rows, above in _silent(bios, bare, owned, lower_of):
        parent[rows] = _by_thread(bios, rows, above)
    return parent


def at_same_place(
    bios: Bios,
    bare: NDArray[np.bool_],
    loose: NDArray[np.bool_],
    lower_of: Mapping[int, Ints],
    others: Container[int],
) -> Ints:
    """Of each bio that a kernel thread queued for nobody who is known (``loose``) the one above
    that has its place, there and on another disk: -1, none has. ``others``: devices of which is
    known that they are no such mirrors."""
    parent = np.full(len(bios), -1)
    for device, rows, above in _silent(bios, bare, loose, lower_of):
        if device in others:
            continue
        found = first_to_end(bios, rows, bios.sector[rows], above, SAME_PLACE)
        some = np.flatnonzero(found >= 0)
        disks = np.searchsorted(lower_of[device], bios.device_key[rows[some]])
        legs = distinct(found[some] * len(lower_of[device]) + disks) // len(lower_of[device])
        mirrored = one_of(found, legs[1:][legs[1:] == legs[:-1]])
        parent[rows[mirrored]] = found[mirrored]
    return parent


def _silent(
    bios: Bios, bare: NDArray[np.bool_], some: NDArray[np.bool_], lower_of: Mapping[int, Ints]
) -> Iterator[tuple[int, Ints, Ints]]:
    """Devices that say nothing; which of ``some`` bios were written below each, and what to it."""
    written = ~bios.read & (bios.size_bytes > 0) & (bios.life_end_ns >= 0)
    below = np.flatnonzero(written & some & (bios.parent < 0) & (bios.above < 0))
    # Mostly all have said for what they are.
    if not len(below):
        return
    child = np.flatnonzero(bios.parent >= 0)
    over = bios.device_key[bios.parent[child]]
    told = set(distinct(over[over != bios.device_key[child]]).tolist())
    for device, devices in lower_of.items():
        if device in told:
            continue
        rows = below[one_of(bios.device_key[below], devices)]
        above = np.flatnonzero(bare & written & (bios.device_key == device)) if len(rows) else rows
        if len(above):
            yield device, rows, above


def _by_thread(bios: Bios, rows: Ints, above: Ints) -> Ints:
    """Of what the same thread had queued before and was not complete yet, what has its place; or
    else the last."""
    found, left, time = np.full(len(rows), -1), np.arange(len(rows)), bios.queue_ns[rows]
    before = AsOf(bios.tid[above], bios.queue_ns[above])
    for _ in range(SEARCH):
        upper = at(above, before.at_or_before(bios.tid[rows[left]], time))
        some = upper >= 0
        left, upper = left[some], upper[some]
        if not len(left):
            break
        row = rows[left]
        holds = bios.life_end_ns[upper] >= bios.life_end_ns[row]
        first, size = bios.sector[row] - bios.sector[upper], bios.size_bytes[row] // 512
        same = holds & (first >= 0) & (first + size <= bios.size_bytes[upper] // 512)
        own = same | (holds & (found[left] < 0))
        found[left[own]] = upper[own]
        # Before what was over by then, there is nothing that it has not handed on.
        more = ~same & (bios.life_end_ns[upper] >= bios.queue_ns[row])
        left, time = left[more], bios.queue_ns[upper[more]] - 1
    return found
