# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: what a window's disks did in, whose each of it is out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import AsOf, Containing, Ints, at, one_of
from iostrata.stitch.awaited import numbered
from iostrata.stitch.bios import Bios, Carried, bios_of
from iostrata.stitch.blockio import Awaited, flushes_awaited, spans_of_bios
from iostrata.stitch.fast import of_fast_commits
from iostrata.stitch.held import Asking, asked_for, below_since
from iostrata.stitch.journal import commit_at
from iostrata.stitch.owners import Owners
from iostrata.stitch.pages import own_reads
from iostrata.stitch.pools import Pools
from iostrata.stitch.requests import Requests
from iostrata.stitch.rests import Rests, let_go_by, rests_of
from iostrata.stitch.serving import Lines, Service, lines_of
from iostrata.stitch.spans import SpanList
from iostrata.stitch.stacked import Stack, Workers, workers_of
from iostrata.stitch.wakeup import Sleeps
from iostrata.stitch.window import Columns, Window


@dataclass(frozen=True, eq=False)
class Disks:
    """Bios and requests, and who waits for them; of each bio, -1: nobody.

    ``asker``: the piece that was asking for it, be it for others; ``piece``: the piece, and
    ``commit``: the commit, that it is for. ``first_commit``: activities are numbered from 0 on:
    pieces, then commits from there on, then requests from ``first_request`` on.
    ``logged``: whether it is of a log. ``held``: bios that a limit held back, and ``held_ns``:
    since when; ``rests``: of split ones; ``handed``: as ``Asking`` has it.
    """

    requests: Requests
    workers: Workers
    lines: Lines
    stack: Stack
    carried: Carried
    asker: Ints
    piece: Ints
    commit: Ints
    logged: NDArray[np.bool_]
    flushes: Awaited
    held: Ints
    held_ns: Ints
    rests: Rests
    handed: Service
    first_commit: int
    first_request: int

    @property
    def bios(self) -> Bios:
        return self.stack.bios

    @property
    def handed_ns(self) -> Ints:
        """Of each bio: what a limit held back was handed on before."""
        if not len(self.held):
            return self.bios.begin_ns
        handed_ns = self.bios.begin_ns.copy()
        handed_ns[self.held] = self.held_ns
        return handed_ns

    @cached_property
    def journal(self) -> NDArray[np.bool_]:
        """Whether a bio is of a commit."""
        return self.commit >= 0

    @cached_property
    def activity(self) -> Ints:
        """Of each bio: the commit that it is of, or the request that it is below, by number."""
        below = numbered(self.bios.of_root(self.bios.above), self.first_request)
        if not self.journal.any():
            return below
        return np.where(self.journal, self.commit + self.first_commit, below)

    @property
    def owners(self) -> tuple[Ints, Ints]:
        """Of each bio, by number: both who may wait for it."""
        return self.piece, self.activity

    def spans_of(self, owner: Ints, flushes: Awaited | None = None) -> SpanList:
        """What became of the bios that somebody (``owner``: of each) waited for.

        ``flushes``: what they waited for, if not those that have owners.
        """
        return spans_of_bios(
            self.bios, self.requests, self.carried,
            self.flushes if flushes is None else flushes, owner,
            self.logged, self.stack.stacked,
        )  # fmt: skip

    def ties(self) -> tuple[Ints, Ints]:
        """Of the bios that are for anybody, which of TIED_BY told that, and the piece that each is
        of, -1: it is of none itself."""
        tied = owned = (self.piece >= 0) | (self.activity >= 0)
        upkeep = self.stack.upkeep
        if len(upkeep.bio):
            tied = owned | one_of(self.bios.root, upkeep.bio[owned[upkeep.above]])
        return self.stack.tied_by[tied], self.piece[tied]


def disks_of(
    window: Window,
    owners: Owners,
    pools: Pools,
    sleeps: Sleeps,
    requests: Requests,
    completed: Columns,
) -> Disks:
    """``completed``: all completions."""
    bios, carried = bios_of(window, requests, completed)
    rests = rests_of(window, bios, sleeps)
    bios = let_go_by(bios, rests)
    workers = workers_of(owners.syncs, requests, window.trace.facts)
    lines = lines_of(window, bios, workers, requests, sleeps)
    asking = asked_for(window, bios, owners, pools, sleeps)
    asker = np.where(asking.piece >= 0, asking.piece, owners.find(asking.tid, asking.time_ns))
    piece = bios.of_root(np.where(bios.read & ~own_reads(window, asker), -1, asker))
    commit = bios.of_root(_commits(window, bios, asking))
    keyed = (piece >= 0) | (commit >= 0)
    stack = Stack(bios, requests, workers, keyed, sleeps, window)
    bios = stack.bios
    asker, piece, commit = _of_roots(bios, (asker, piece, commit))
    journal = commit >= 0
    owned = (piece >= 0) | journal | (bios.of_root(bios.above) >= 0)
    below_ns = below_since(bios, requests, lines, sleeps)
    held_ns = np.where(asking.since_ns >= 0, asking.since_ns, below_ns)
    held = np.flatnonzero(held_ns >= 0)
    first_commit = len(window.pieces)
    return Disks(
        requests=requests,
        workers=workers,
        lines=lines,
        stack=stack,
        carried=carried,
        asker=asker,
        piece=piece,
        commit=commit,
        logged=of_fast_commits(window, bios) | _logged(window, bios, commit),
        flushes=flushes_awaited(bios, np.flatnonzero(owned), requests),
        held=held,
        held_ns=held_ns[held],
        rests=rests,
        handed=asking.handed,
        first_commit=first_commit,
        first_request=first_commit + len(window.commits),
    )


def _logged(window: Window, bios: Bios, commit: Ints) -> NDArray[np.bool_]:
    """Ordered mode writes data before the log, with neither the flag nor the name of a journal."""
    if not len(window.commits):
        return np.zeros(len(bios), np.bool_)
    of_log = bios.meta | bios.of_root(bios.wants_flush) | (at(window.commits.store, commit) > 0)
    logged: NDArray[np.bool_] = (commit >= 0) & of_log
    return logged


def _of_roots(bios: Bios, columns: Iterable[Ints]) -> list[Ints]:
    return [bios.of_root(column) for column in columns]


def _commits(window: Window, bios: Bios, asking: Asking) -> Ints:
    """Of each bio, by the committing thread, or by the log write's own bio.

    Where XFS's log is on a device of its own, who writes to it has the file system's own flushed
    before (xlog_write_iclog of fs/xfs/xfs_log.c).
    """
    commits = window.commits
    if not len(commits):
        return np.full(len(bios), -1)
    queue_ns = np.where(asking.since_ns >= 0, asking.time_ns, bios.queue_ns)
    commit = commit_at(commits, asking.tid, queue_ns)
    logs = np.flatnonzero(commits.bio_key != 0)
    by_key = AsOf(commits.bio_key[logs], commits.begin_ns[logs])
    log = at(logs, by_key.at_or_before(bios.key, bios.queue_ns))
    writing = Containing(commits.writer[logs], commits.begin_ns[logs], commits.handed_ns[logs])
    before = at(logs, writing.find(asking.tid, queue_ns))
    log = np.where(at(commits.end_ns, log) >= bios.queue_ns, log, before)
    return np.where(log >= 0, log, commit)
