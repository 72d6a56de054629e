# SPDX-License-Identifier: Apache-2.0
"""The script stage: what tracepoints tell of bios and requests in, the same with keys out.

Pointers are not told to bpftrace's tracepoints. What is at one place of a disk at a time is one:
a place is as good a key as a pointer, which is used again, too. Flushes have no place: requests
that flush have one key a disk, and bios that ask for nothing else end in the order in which they
were queued, as the block layer keeps them (block/blk-flush.c).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from iostrata.columns import Ints, distinct
from iostrata.script.words import FUA, OPERATIONS, PREFLUSH

SECTOR_BYTES: Final = 512
SECTOR_BITS: Final = 48
FLUSHING: Final = (1 << SECTOR_BITS) - 1
EMPTY: Final = 1 << (SECTOR_BITS - 1)
"""Bios without a place are numbered from here on; no disk has as many sectors."""
OPERATION: Final = 0xFF

Columns = dict[str, Ints]


@dataclass(frozen=True)
class Disks:
    """``of``: the disk of each device that is a partition. ``number``: of each disk, from 1."""

    of: Mapping[int, int]
    number: Mapping[int, int]

    def whole(self, devices: Ints) -> Ints:
        return _mapped(devices, self.of)

    def keys(self, devices: Ints, places: Ints) -> Ints:
        """Of places on whole disks."""
        numbers = _mapped(devices, self.number)
        return (numbers << SECTOR_BITS) | (places & FLUSHING)


def _mapped(values: Ints, table: Mapping[int, int]) -> Ints:
    keys, rows = np.unique(values, return_inverse=True)
    return np.array([table.get(key, key) for key in keys.tolist()], np.int64)[rows]


def disks_of(blocks: Mapping[str, Columns], parents: Mapping[int, int]) -> Disks:
    """Those of all block events. ``parents``: the disk of each partition."""
    devices = np.concatenate([columns["dev"] for columns in blocks.values()])
    whole = _mapped(distinct(devices), parents)
    return Disks(parents, {disk: 1 + n for n, disk in enumerate(distinct(whole).tolist())})


def keyed(blocks: Mapping[str, Columns], parents: Mapping[int, int]) -> dict[str, Columns]:
    """Events of each point, with keys, whole disks and bytes.  ``blocks``: rows of each word."""
    disks = disks_of(blocks, parents)
    # In order of time: of two that end alike, the first is found first.
    rows = {word: _in_order(columns) for word, columns in blocks.items()}
    for columns in rows.values():
        columns["dev"] = disks.whole(columns["dev"])
    bios = rows["block_bio_queue"]
    bios["bio_key"] = disks.keys(bios["dev"], bios["sector"])
    empty = np.flatnonzero(bios["sectors"] == 0)
    bios["bio_key"][empty] = disks.keys(bios["dev"][empty], EMPTY + np.arange(len(empty)))
    for word in ("block_rq_issue", "block_rq_requeue", "block_rq_complete"):
        _of_requests(rows[word], disks)
    _behind_flushes(bios, rows["block_rq_complete"])
    ended = rows["block_bio_complete"]
    ended["bio_key"] = disks.keys(ended["dev"], ended["sector"])
    rows["block_split"] = _splits(rows["block_split"], bios, disks)
    moved = rows["block_bio_remap"]
    moved["old_dev"] = disks.whole(moved["old_dev"])
    moved["bio_key"] = disks.keys(moved["dev"], moved["sector"])
    # From a partition to its disk is no way.
    away = np.flatnonzero(moved["dev"] != moved["old_dev"])
    rows["block_bio_remap"] = {name: column[away] for name, column in moved.items()}
    for word, columns in rows.items():
        if word != "block_split":
            columns["size_bytes"] = columns.pop("sectors") * SECTOR_BYTES
    return rows


def _in_order(columns: Columns) -> Columns:
    order = np.argsort(columns["time_ns"], kind="stable")
    return {name: column[order] for name, column in columns.items()}


def _of_requests(columns: Columns, disks: Disks) -> None:
    """A request has the place of its first bio; one that flushes, none."""
    flush = (columns["flags"] & OPERATION) == OPERATIONS["F"]
    place = np.where(flush, FLUSHING, columns["sector"])
    columns["request_key"] = disks.keys(columns["dev"], place)
    columns["bio_key"] = np.where(flush, 0, columns["request_key"])
    columns["sector"] = np.where(flush, -1, columns["sector"])


def _behind_flushes(bios: Columns, ends: Columns) -> None:
    """Whose ends are those that come with no data, once what flushes for them is complete."""
    asks = np.flatnonzero((bios["flags"] & (PREFLUSH | FUA)) != 0)
    flush = (ends["flags"] & OPERATION) == OPERATIONS["F"]
    bare = np.flatnonzero((ends["sectors"] == 0) & ~flush)
    waiting: dict[int, deque[int]] = {}
    at, times = 0, bios["time_ns"]
    for end in bare.tolist():
        while at < len(asks) and times[asks[at]] <= ends["time_ns"][end]:
            waiting.setdefault(int(bios["dev"][asks[at]]), deque()).append(int(asks[at]))
            at += 1
        queue = waiting.get(int(ends["dev"][end]), deque())
        bio = _whose(queue, bios, int(ends["sector"][end]))
        if bio >= 0:
            queue.remove(bio)
            ends["bio_key"][end] = ends["request_key"][end] = bios["bio_key"][bio]


def _whose(queue: deque[int], bios: Columns, sector: int) -> int:
    """The first that has data and begins or ends there, else the first that has none; -1: none."""
    empty = -1
    for bio in queue:
        first, sectors = int(bios["sector"][bio]), int(bios["sectors"][bio])
        if sectors and sector in (first, first + sectors):
            return bio
        if not sectors and empty < 0:
            empty = bio
    return empty


def _splits(columns: Columns, bios: Columns, disks: Disks) -> Columns:
    """What is behind the cut is a bio of its own, which what was before it came from."""
    parent = disks.keys(columns["dev"], columns["sector"])
    rest = disks.keys(columns["dev"], columns["new_sector"])
    own = np.flatnonzero(np.isin(bios["bio_key"], parent))
    ends: dict[int, int] = {}
    size, at = np.zeros(len(parent), np.int64), 0
    for row, time in enumerate(columns["time_ns"].tolist()):
        while at < len(own) and bios["time_ns"][own[at]] <= time:
            bio = own[at]
            ends[int(bios["bio_key"][bio])] = int(bios["sector"][bio] + bios["sectors"][bio])
            at += 1
        end = ends.get(int(parent[row]), 0)
        ends[int(rest[row])] = end
        size[row] = max(end - int(columns["new_sector"][row]), 0) * SECTOR_BYTES
    found = {name: columns[name] for name in ("number", "cpu", "tid", "time_ns", "dev", "flags")}
    return found | {
        "bio_key": rest,
        "parent_key": parent,
        "sector": columns["new_sector"],
        "size_bytes": size,
    }
