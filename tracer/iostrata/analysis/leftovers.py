# SPDX-License-Identifier: Apache-2.0
"""Audits of all machines' windows in, what no write consists of out (law 9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from iostrata.columns import Ints, Union, among, distinct, joined, meets, pair_key
from iostrata.model import LeftOver
from iostrata.stitch import KINDS, Activities, Audit, Idle, on_the_way
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
        found, facts = _unused(mine), mine[0].facts
        loose = found.rows(np.flatnonzero(~found.foreign))
        idle = Idle(**joined([audit.idle for audit in mine]))
        background += _background(machine, facts, found)
        total_ns += _beside(facts, loose, idle)
        told += _told(machine, facts, loose, idle)
    return tuple(told), tuple(background), total_ns


def _unused(audits: Sequence[Audit]) -> Activities:
    """Windows overlap: what is unused in one may be part of a write in another."""
    found = Activities(**joined([audit.unused for audit in audits]))
    identity, first, same = np.unique(
        pair_key(found.key, found.begin_ns), return_index=True, return_inverse=True
    )
    used = np.zeros(len(identity), np.bool_)
    for audit in audits:
        used |= among(identity, audit.used)
    foreign = np.bincount(same, weights=found.foreign, minlength=len(identity)) > 0
    return replace(found.rows(first), foreign=foreign).rows(np.flatnonzero(~used))


def _background(machine: str, facts: Facts, found: Activities) -> Iterator[LeftOver]:
    took = found.end_ns - found.begin_ns
    for kind, place, rows in _groups(found):
        yield LeftOver(machine, KINDS[kind], facts.device_name(place), len(rows),
                       int(took[rows].sum()))  # fmt: skip


def _beside(facts: Facts, loose: Activities, idle: Idle) -> int:
    """For how many ns pieces were idle while anything went on that they may have waited for."""
    total_ns = 0
    for key in distinct(idle.device_key).tolist():
        below = loose.rows(np.flatnonzero(on_the_way(facts, key, loose.place)))
        mine = idle.rows(np.flatnonzero(idle.device_key == key))
        total_ns += int(
            Union(below.begin_ns, below.end_ns).within(mine.begin_ns, mine.end_ns).sum()
        )
    return total_ns


def _told(machine: str, facts: Facts, loose: Activities, idle: Idle) -> Iterator[LeftOver]:
    devices = distinct(idle.device_key)
    for kind, place, rows in _groups(loose):
        above = [on_the_way(facts, key, np.array([place])).any() for key in devices.tolist()]
        mine = idle.rows(np.flatnonzero(np.isin(idle.device_key, devices[above])))
        begin, end = loose.begin_ns[rows], loose.end_ns[rows]
        beside_ns = int(Union(begin, end).within(mine.begin_ns, mine.end_ns).sum())
        if beside_ns:
            count = int(np.count_nonzero(meets(begin, end, mine.begin_ns, mine.end_ns)))
            yield LeftOver(machine, KINDS[kind], facts.device_name(place), count, beside_ns)


def _groups(found: Activities) -> Iterator[tuple[int, int, Ints]]:
    for kind in distinct(found.kind).tolist():
        rows = np.flatnonzero(found.kind == kind)
        for place in distinct(found.place[rows]).tolist():
            yield kind, place, rows[found.place[rows] == place]
