# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: what went on inside commits and below requests in, spans of who waited out.

Each is its own activity's first, and becomes by edges that of whoever waits for that: by as
many as it takes, as a commit can be waited for below a loop device, too.
"""

from __future__ import annotations

import numpy as np

from iostrata.columns import Containing, Ints, at, joined
from iostrata.layers import RANK
from iostrata.stitch.awaited import edges_of_commits
from iostrata.stitch.bios import DEPTH
from iostrata.stitch.completing import Completing
from iostrata.stitch.handing import handers, keepers, starters
from iostrata.stitch.journal import phases
from iostrata.stitch.kinds import Kinds
from iostrata.stitch.osd import edges_of_batches
from iostrata.stitch.others import AHEAD, READ, Others
from iostrata.stitch.scene import Asleep, Scene
from iostrata.stitch.serving import (
    completers,
    in_turn,
    late_for,
    log_enders,
    log_writers,
    of_loops,
    short_of_cpu,
)
from iostrata.stitch.spans import Edges, Ranks, SpanList, Spans, follow, seen_as
from iostrata.stitch.stacked import seen_from_above
from iostrata.stitch.wakers import Explained
from iostrata.stitch.wakeup import run_queue


class Inside:
    """Commits and requests of a window, and who waited for them."""

    def __init__(self, scene: Scene, asleep: Asleep, explained: Explained) -> None:
        self._scene, self._asleep, self._explained = scene, asleep, explained
        self._edges = edges_of_commits(
            scene.window, scene.owners, asleep.waiting, scene.sleeps, explained,
            scene.disks.commit, edges_of_batches(scene.remote.stored),
        )  # fmt: skip
        self.commits = self._edges.activity - scene.disks.first_commit
        """Rows of those that anybody waited for."""

    def starts(self) -> Spans:
        """Of pieces: asleep for a commit whose thread had not been let go to begin it."""
        scene = self._scene
        own = self._edges.rows(np.flatnonzero(self._edges.write < scene.disks.first_commit))
        return self._starts(own, scene.window.pieces.tid[own.write], scene.sleeps.tid)

    def spans(self, others: Others, waits: Spans, ends: Completing, kinds: Kinds) -> Spans:
        """Of pieces. ``waits``: of whoever waited for what others had asked for."""
        disks, first = self._scene.disks, self._scene.disks.first_request
        found = self._of_activities(waits)
        self._add_waits(found, ends, kinds)
        # A bio can be both: XFS's log is written by who syncs.
        above, seen = disks.stack.edges(
            disks.requests, disks.carried, disks.owners, disks.logged, first
        )
        beside, seen_beside = others.edges(self._explained.bios)
        asleep = self._asleep
        after = in_turn(
            self._scene.disks.lines,
            self._scene.sleeps,
            asleep.beside,
            disks.requests,
            asleep.needed_ns,
            first,
        )
        edges = Edges(**joined([self._edges, after]))
        above = Edges(**joined([above, beside]))
        return _up(found.collect(), edges, above, np.append(seen, seen_beside), disks.first_commit)

    def _of_activities(self, waits: Spans) -> SpanList:
        """What each did and slept, by its number."""
        scene, asleep = self._scene, self._asleep
        disks, sleeps, numbers = scene.disks, scene.sleeps, scene.numbers
        found = scene.limited(disks.activity)
        edges = self._edges
        own = edges.rows(np.flatnonzero(edges.write >= disks.first_request))
        found.extend(self._starts(own, own.write, asleep.beside))
        found.extend(_phases_and_bios(scene))
        mine = np.where(asleep.owner >= disks.first_commit, asleep.owner, -1)
        found.extend(run_queue(sleeps, mine, numbers.sleep))
        found.extend(waits.where(waits.owner >= disks.first_commit))
        below = np.where(sleeps.asleep & (asleep.beside >= disks.first_request), asleep.beside, -1)
        found.add(below, "blocked", sleeps.off_ns, sleeps.wake_ns)
        return found

    def _add_waits(self, found: SpanList, ends: Completing, kinds: Kinds) -> None:
        """Until a kernel thread had a CPU for it."""
        scene, asleep = self._scene, self._asleep
        disks, sleeps, number = scene.disks, scene.sleeps, scene.numbers.sleep
        bios, requests, first = disks.bios, disks.requests, disks.first_request
        loops = of_loops(disks.lines, disks.workers, requests, asleep.needed_ns)
        found.extend(short_of_cpu(loops.numbered(first), sleeps, number))
        del loops
        found.extend(ends.late(first))
        handed, let_go = handers(bios, sleeps, kinds, disks.activity)
        found.add(let_go.owner, "held.block.stacked", let_go.begin_ns, let_go.end_ns)
        for short in (
            starters(disks.lines, requests, asleep.needed_ns, sleeps, kinds).numbered(first),
            ends.service().numbered(first),
            handed,
            keepers(disks.stack.hands, disks.activity),
            log_writers(scene.window.commits).numbered(disks.first_commit),
        ):
            found.extend(short_of_cpu(short, sleeps, number))
        for late in (
            completers(requests, disks.stack.stacked, ends.request).numbered(first),
            log_enders(scene.window.commits).numbered(disks.first_commit),
        ):
            found.extend(late_for(late, sleeps, number))
        found.extend(scene.unserved(disks.activity))

    def _starts(self, edges: Edges, waiter: Ints, sleeper: Ints) -> Spans:
        """``waiter``: who sleeps, of each edge to a commit; ``sleeper``: who it is, of each
        sleep."""
        sleeps, spans = self._scene.sleeps, SpanList()
        commit = edges.activity - self._scene.disks.first_commit
        begin = self._scene.window.commits.since_ns[commit]
        sleep = Containing(sleeper, sleeps.off_ns, sleeps.on_ns).find(waiter, begin)
        off = at(sleeps.off_ns, sleep)
        asleep = (at(sleeps.wake_ns, sleep) > 0) & (off >= edges.begin_ns)
        owner = np.where(asleep, edges.write, -1)
        spans.add(owner, "journal.start", off, begin, commit + self._scene.numbers.commit)
        return spans.collect()


def _phases_and_bios(scene: Scene) -> Spans:
    """What went on inside each commit and below each request; ``owner`` is its number."""
    disks, commits = scene.disks, scene.window.commits
    spans, ran = SpanList(), phases(commits)
    number = ran.of + scene.numbers.commit
    spans.add(ran.owner + disks.first_commit, ran.rank, ran.begin_ns, ran.end_ns, number)
    spans.extend(disks.spans_of(disks.activity))
    return spans.collect()


def _up(inside: Spans, edges: Edges, above: Edges, kinds: Ints, first_commit: int) -> Spans:
    """The activities' spans as the pieces', by as many edges as it takes.

    ``above``, ``kinds``: as ``Stack.edges`` has them.
    """
    every = Edges(**joined([edges, above]))
    kind = np.concatenate([np.full(len(edges.write), -1), kinds])

    def seen(ranks: Ranks, below: int) -> Ranks:
        if below < 0:
            return ranks
        lower = seen_from_above(ranks)
        lower = np.where(lower == RANK["device.data"], below, lower)
        return np.where(lower == READ, AHEAD, lower) if below == AHEAD else lower

    as_seen = seen_as(kind, seen)

    result, met = SpanList(), set()
    for _ in range(DEPTH):
        inside = follow(inside, every, as_seen)
        if len(kinds):
            # One request below is behind many, of which many are for one who waits above.
            inside = inside.once()
        result.extend(inside.where(inside.owner < first_commit))
        inside = inside.where(inside.owner >= first_commit)
        # What waits for itself (XFS's log, that is written by who syncs) goes round for ever.
        mark = b"".join(column.tobytes() for column in vars(inside).values())
        if not len(inside) or mark in met:
            break
        met.add(mark)
    return result.collect()
