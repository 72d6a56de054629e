# SPDX-License-Identifier: Apache-2.0
"""Stage stitch: a window of one machine's events in, the spans of its pieces out.

Everything hangs on *activities*: stretches of one thread's time that serve a
purpose (a piece of a write, a worker's share of one, a journal commit, what is below a
request on a loop device). Events belong to the activity of their thread at their time;
activities belong to pieces by edges: a piece to itself, a commit to every piece that
waited for it, a request to whoever's bios it carried. A commit can be waited for below a
loop device, too, so that edges lead from activity to activity. All are numbered as one:
pieces first, then commits, then requests.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from iostrata.columns import NEVER, Ints, overlapping
from iostrata.stitch.audit import Audit, activities_of, audit
from iostrata.stitch.awaited import with_upkeep
from iostrata.stitch.batches import others_of_calls, submitted_until, unseen_in_calls
from iostrata.stitch.behind import Behind
from iostrata.stitch.completing import Completing, completing
from iostrata.stitch.endings import endings_of
from iostrata.stitch.fuse import spans_of_daemon
from iostrata.stitch.handing import handers, keepers
from iostrata.stitch.handovers import handovers, next_of, submitted
from iostrata.stitch.inside import Inside
from iostrata.stitch.kinds import Kinds, kinds_of
from iostrata.stitch.osd import handed_of
from iostrata.stitch.others import Others
from iostrata.stitch.owners import Owners
from iostrata.stitch.pages import PAGE_CACHE, awaited, read_at_once
from iostrata.stitch.people import told
from iostrata.stitch.pushes import asleep_for_log, pushes
from iostrata.stitch.scene import Asleep, Scene, asleep_of, scene_of
from iostrata.stitch.serving import WORKER, short_of_cpu
from iostrata.stitch.spans import SpanList, Spans
from iostrata.stitch.stacked import KEY
from iostrata.stitch.stages import stages_of
from iostrata.stitch.turns import Waited, behind_of
from iostrata.stitch.unseen import hidden
from iostrata.stitch.wakers import Explained, Wakers
from iostrata.stitch.wakeup import Sleeps, run_queue
from iostrata.stitch.window import NOTHING, Columns, Window, whole


@dataclass(frozen=True, eq=False)
class Asked:
    """What the window's spans may have asked of a device or of another machine.

    ``key`` and ``begin_ns`` together tell one from all others of the trace: the
    request's pointer and its issue, the call's pointer and when it was sent.
    ``handed_ns``: since when it was waited for, before it was sent; NEVER: not before.
    ``tied_by``: of a call, which of TIED_BY tells whose it is.
    """

    key: Ints
    begin_ns: Ints
    handed_ns: Ints
    tied_by: Ints


@dataclass(frozen=True)
class Stitched:
    """Spans by the window's pieces (``owner`` is the row), and how bios were tied: ``tied_by``, one
    of TIED_BY, and ``tied_to``: to which of these pieces, -1: to what those wait for only.

    ``asked``: what ``spans.of`` are rows of; beyond it, as ``Numbers`` has them. ``audit``: what
    else went on meanwhile; ``idle_of``: of which piece each row of its ``idle`` is. ``behind``: who
    had what spans waited for, None: it is not told. ``served``: of each piece that is a read, from
    where (a code into ``SERVED``); empty: they are none.
    """

    spans: Spans
    asked: Asked
    tied_by: Ints
    tied_to: Ints
    audit: Audit
    idle_of: Ints
    behind: Behind | None
    served: Ints


def stitch(window: Window) -> Stitched:
    """Ties the events of a window to the pieces of its writes."""
    scene, completed = scene_of(window)
    window, sleeps, disks, remote = scene.window, scene.sleeps, scene.disks, scene.remote
    spans, number = _at_work(scene), scene.numbers.sleep
    asleep = asleep_of(scene, _runnable(spans, scene))
    # What most is made of by now takes the most room.
    window.forget()
    kinds = whole(window.trace).once(kinds_of)
    ends = completing(disks.lines.work, disks.bios, disks.requests, completed, sleeps, window.trace)
    explained = _explained(scene, asleep, completed, kinds, ends)
    del completed
    window.forget()
    explained, served = _read(spans, scene, asleep, explained)
    waited = with_upkeep(explained.bios, disks.stack.upkeep, disks.bios, disks.owners)
    explained = replace(explained, bios=waited)
    others = Others(scene)
    waits = others.spans_of(explained)
    spans.extend(waits.where(waits.owner < disks.first_commit))
    spans.extend(scene.unserved(disks.piece))
    handed, let_go = handers(disks.bios, sleeps, kinds, disks.piece)
    spans.extend(short_of_cpu(handed, sleeps, number))
    spans.add(let_go.owner, "held.block.stacked", let_go.begin_ns, let_go.end_ns)
    spans.extend(short_of_cpu(keepers(disks.stack.hands, disks.piece), sleeps, number))
    commits_used = NOTHING
    if (disks.activity >= 0).any() or len(window.commits) or len(disks.lines.work.tid):
        inside = Inside(scene, asleep, explained)
        commits_used = inside.commits
        spans.extend(inside.starts())
        spans.extend(inside.spans(others, waits, ends, kinds))
        del inside
    del others, waits
    slept = np.where(sleeps.asleep, asleep.piece, -1)
    spans.add(slept, "blocked", sleeps.off_ns, sleeps.wake_ns)
    for_log = asleep_for_log(window, scene.owners.syncs, sleeps, asleep.piece)
    if len(for_log):
        caused = explained.ended[for_log] | ~kinds.ended(sleeps.rows(for_log))
        pushes(spans, sleeps, asleep.piece, for_log[~caused])
    others_of_calls(spans, window, scene.owners.submitting, sleeps, number)
    handovers(spans, window, scene.owners, scene.pools, sleeps, scene.numbers)
    spans.extend(stages_of(window, disks.requests, spans))
    found = spans.collect()
    went_on = activities_of(
        window, disks.bios, disks.requests, disks.workers, disks.commit, remote, commits_used, found
    )
    behind = behind_of(window, found, _waited(scene)) if told(window.trace) else None
    audited, idle_of = audit(window, sleeps, asleep.piece, went_on, found, explained.beyond)
    return Stitched(found, _asked(scene), *disks.ties(), audited, idle_of, behind, served)


def _at_work(scene: Scene) -> SpanList:
    """What pieces did, and what was done for them on disks and by other machines."""
    window, disks, owners, spans = scene.window, scene.disks, scene.owners, SpanList()
    _calls(spans, window, owners, scene.sleeps)
    submitted(spans, window, owners.submitting, disks.bios)
    spans.add(owners.runs.piece, "syscall", owners.runs.begin_ns, owners.runs.end_ns)
    spans.extend(disks.spans_of(disks.piece))
    spans.extend(scene.remote.spans(window, len(disks.requests.key)))
    spans.extend(scene.limited(disks.piece))
    return spans


def _runnable(spans: SpanList, scene: Scene) -> Ints:
    """Adds when threads could run and did not; the piece that each sleep was for, -1: none."""
    sleeps, owners, number = scene.sleeps, scene.owners, scene.numbers.sleep
    piece = owners.find(sleeps.tid, sleeps.on_ns)
    next_ns = next_of(owners.runs, sleeps)
    left = sleeps.since(next_ns) if next_ns.any() else sleeps
    spans.extend(run_queue(left, piece, number))
    spans.extend(short_of_cpu(scene.remote.steps, sleeps, number, "wakeup.runqueue"))
    short = scene.pools.short_of(scene.disks.handed)
    spans.extend(short_of_cpu(short, sleeps, number, WORKER))
    spans.extend(spans_of_daemon(scene.window, owners, sleeps, piece))
    # A worker that slept already did not sleep for what came next.
    return np.where(next_ns > sleeps.off_ns, -1, piece)


def _explained(
    scene: Scene, asleep: Asleep, completed: Columns, kinds: Kinds, ends: Completing
) -> Explained:
    window, sleeps, disks = scene.window, scene.sleeps, scene.disks
    calls = scene.remote.calls
    endings = endings_of(window, disks.bios, disks.carried, disks.requests, completed, calls)
    wakers = Wakers(window, sleeps, kinds, endings, disks.bios, scene.numbers, disks.asker)
    owner = np.where(asleep.idle, -1, asleep.owner)
    others = ends.waits(disks.first_request)
    return wakers.explain(owner, others, disks.carried, disks.owners)


def _read(
    spans: SpanList, scene: Scene, asleep: Asleep, explained: Explained
) -> tuple[Explained, Ints]:
    """Of reads, what they waited for that others had asked for, too, and from where each was
    served; of other windows all is as it was."""
    window, reads = scene.window, scene.window.reads
    if reads is None:
        return explained, NOTHING
    found = awaited(
        window, scene.disks.bios, scene.remote.calls, scene.sleeps, asleep.piece, scene.owners,
        (scene.disks.piece, scene.remote.caller), explained,
    )  # fmt: skip
    own = (found.served == PAGE_CACHE) & (reads.size_bytes > 0) & (not window.serves)
    cached = np.flatnonzero(own & (window.pieces.request_key == 0))
    spans.add(cached, "read.cached", window.pieces.begin_ns[cached], window.pieces.end_ns[cached])
    at_once = read_at_once(scene.owners)
    spans.extend(at_once.where(own[at_once.owner]))
    return found.explained, found.served


def _asked(scene: Scene) -> Asked:
    requests, calls = scene.disks.requests, scene.remote.calls
    return Asked(
        np.concatenate([requests.key, calls.key]),
        np.concatenate([requests.issue_ns, calls.send_ns]),
        np.concatenate([np.full(len(requests.key), NEVER), handed_of(calls)]),
        np.concatenate([np.full(len(requests.key), KEY), scene.remote.tied_by]),
    )


def _waited(scene: Scene) -> Waited:
    disks, bios = scene.disks, scene.disks.bios
    root = disks.stack.upkeep.asked(bios.root)
    return Waited(
        scene.numbers, scene.sleeps, disks.requests, bios, root, disks.commit, disks.carried
    )


def _calls(spans: SpanList, window: Window, owners: Owners, sleeps: Sleeps) -> None:
    """The floor of the stack: the calls themselves, and the file system's sync inside them.

    An asynchronous request has no floor: what no layer claims of it is unattributed. A server's
    has: from its begin to its end it is in nobody else's hands.
    """
    pieces = window.pieces
    floored = (pieces.request_key == 0) | window.serves
    calls = np.where(floored, np.arange(len(pieces)), -1)
    spans.add(calls, window.floor, pieces.begin_ns, pieces.end_ns)
    syncs = owners.syncs
    spans.add(syncs.piece, "fs", syncs.begin_ns, syncs.end_ns)
    spans.extend(_left_unseen(window, floored, sleeps))
    requests = np.flatnonzero(pieces.request_key != 0)
    if len(requests):
        # What the submitter itself did for the request before it was on its way.
        until = submitted_until(window, requests, owners.submitting)
        spans.add(requests, "syscall", pieces.begin_ns[requests], until)
        unseen_in_calls(spans, window, requests, owners.submitting)


def _left_unseen(window: Window, floored: NDArray[np.bool_], sleeps: Sleeps) -> Spans:
    """Of the calls (of the pieces), when their thread left the CPU and nobody saw it: whatever no
    layer claims then, it may have slept."""
    tid, since, until = hidden(window, sleeps)
    spans = SpanList()
    if len(tid):
        calls, pieces = np.flatnonzero(floored), window.pieces
        begin, end = pieces.begin_ns[calls], pieces.end_ns[calls]
        row, one = overlapping(pieces.tid[calls], begin, end, tid, since, until)
        since, until = np.maximum(since[one], begin[row]), np.minimum(until[one], end[row])
        spans.add(calls[row], "blocked", since, until)
    return spans.collect()
