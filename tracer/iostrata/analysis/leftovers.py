# SPDX-License-Identifier: Apache-2.0
"""Audits of all machines' windows in, what no write consists of out (law 9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import Ints, at, changes, joined, pair_key
from iostrata.model import LeftOver
from iostrata.stitch import KINDS, Activities, Audit, Waits
from iostrata.trace import Facts


def left_over(audits: Sequence[Audit]) -> tuple[tuple[LeftOver, ...], tuple[LeftOver, ...], int]:
    """What all windows of all machines left over, what is background, and the writes' time.

    That time (ns) is of the sleeps during anything left over, each instant once.
    """
    machines = dict.fromkeys(audit.machine for audit in audits)
    told: list[LeftOver] = []
    background: list[LeftOver] = []
    total_ns = 0
    for machine in machines:
        mine = [audit for audit in audits if audit.machine == machine]
        found, waits, own = _together(mine)
        background += _background(machine, mine[0].facts, found)
        total_ns += _length(_alone(waits, own))
        told += _told(machine, mine[0].facts, found, waits, own)
    return tuple(told), tuple(background), total_ns


def _together(audits: Sequence[Audit]) -> tuple[Activities, Waits, Waits]:
    """Windows overlap: what is unused in one may be part of a write in another."""
    used = np.concatenate([audit.used for audit in audits])
    found, waits, own = [], [], []
    pieces = rows = 0
    for each in audits:
        shift = max(int(each.waits.piece.max(initial=-1)), int(each.own.piece.max(initial=-1))) + 1
        found.append(each.unused)
        waits.append(_moved(each.waits, pieces, rows))
        own.append(_moved(each.own, pieces, 0))
        pieces, rows = pieces + shift, rows + len(each.unused.key)
    all_found, all_waits = Activities(**joined(found)), Waits(**joined(waits))
    identity = pair_key(all_found.key, all_found.begin_ns)
    unique, first, same = np.unique(identity, return_index=True, return_inverse=True)
    kept = ~np.isin(unique, used)
    numbers = np.cumsum(kept) - 1
    row = np.where(kept[same], numbers[same], -1)[all_waits.activity]
    mine = np.flatnonzero(row >= 0)
    whole = all_waits.rows(mine)
    whole = Waits(whole.piece, row[mine], whole.begin_ns, whole.end_ns)
    return all_found.rows(first[kept]), whole, Waits(**joined(own))


def _moved(waits: Waits, pieces: int, rows: int) -> Waits:
    activity = np.where(waits.activity >= 0, waits.activity + rows, -1)
    return Waits(waits.piece + pieces, activity, waits.begin_ns, waits.end_ns)


def _background(machine: str, facts: Facts, found: Activities) -> Iterator[LeftOver]:
    took = found.end_ns - found.begin_ns
    for kind, place, rows in _groups(found):
        yield LeftOver(machine, KINDS[kind], facts.device_name(place), len(rows),
                       int(took[rows].sum()))  # fmt: skip


def _told(
    machine: str, facts: Facts, found: Activities, waits: Waits, own: Waits
) -> Iterator[LeftOver]:
    for kind, place, rows in _groups(found):
        some = waits.rows(np.flatnonzero(np.isin(waits.activity, rows)))
        alone = _alone(some, own)
        if len(alone):
            count = len(np.unique(some.activity[_reaches(some, alone)]))
            yield LeftOver(machine, KINDS[kind], facts.device_name(place), count, _length(alone))


def _groups(found: Activities) -> Iterator[tuple[int, int, Ints]]:
    pairs = np.unique(np.stack([found.kind, found.place], axis=1), axis=0)
    for kind, place in pairs.tolist():
        yield kind, place, np.flatnonzero((found.kind == kind) & (found.place == place))


def _alone(waits: Waits, own: Waits) -> Waits:
    """The instants of the waits, each once, at which the piece had nothing of its own under way."""
    both = Waits(**joined([waits, own]))
    mine = np.repeat([0, 1], [len(waits), len(own)])
    piece = np.concatenate([both.piece, both.piece])
    time = np.concatenate([both.begin_ns, both.end_ns])
    step = np.repeat([1, -1], len(both))
    order = np.lexsort((time, piece))
    piece, time = piece[order], time[order]
    waiting = np.cumsum((step * (1 - np.tile(mine, 2)))[order])
    busy = np.cumsum((step * np.tile(mine, 2))[order])
    same = np.append(~changes(piece)[1:], [False])[: len(piece)]
    following = np.append(time[1:], [0])[: len(time)]
    held = np.flatnonzero(same & (waiting > 0) & (busy == 0) & (following > time))
    return Waits(piece[held], np.full(len(held), -1), time[held], following[held])


def _reaches(waits: Waits, alone: Waits) -> NDArray[np.bool_]:
    """Which of the waits hold one of the instants, which are in order of piece and time."""
    times = np.unique(np.concatenate([alone.begin_ns, waits.end_ns, waits.begin_ns]))
    lines = len(times) + 1
    begin = alone.piece * lines + np.searchsorted(times, alone.begin_ns)
    last = np.searchsorted(begin, waits.piece * lines + np.searchsorted(times, waits.end_ns)) - 1
    found: NDArray[np.bool_] = (at(alone.piece, last) == waits.piece) & (
        at(alone.end_ns, last) > waits.begin_ns
    )
    return found


def _length(waits: Waits) -> int:
    return int((waits.end_ns - waits.begin_ns).sum())
