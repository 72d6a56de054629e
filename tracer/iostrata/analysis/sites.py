# SPDX-License-Identifier: Apache-2.0
"""Stitched windows in, what is known of unattributed sleeps out.

Where the recorder was asked for stacks (``--why``), the functions of the kernel that they
were in: a sleep whose cause no event shows is at least told by what its thread waited in.
Whoever was seen to end it is told, too: he had what was waited for, or knew of it. And of how
many nobody was seen to end them. So is who let go what a stacked device had held back.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.attribute import Held
from iostrata.columns import NEVER, AsOf, Ints, at, distinct, one_of, order_of
from iostrata.hops import Lifted, View
from iostrata.layers import HELD_BACK, RANK, STACK
from iostrata.model import UNKNOWN as NOBODY_KNOWN
from iostrata.model import Who
from iostrata.stitch import People, Spans, Window, kinds_of, processes_of, whole
from iostrata.trace import of_all
from iostrata.trace.layout import THREAD_TARGET, WAKE_INTERRUPT, WAKE_THREAD, WAKE_TIMER

# What every sleep goes through before (and every call behind) the functions that tell one.
SCHEDULER: Final = re.compile(r"(__)?bpf_|__traceiter_|trace_|(__|io_|preempt_)?schedule|bit_wait")
HANDS_ON: Final = re.compile("out_of_line_")
ENTRY: Final = re.compile(
    r"(do_|ia32_|invoke_)?syscall|entry_|__(x64|arm64|ia32|se|do)_sys|x64_sys|el0|do_el0|ret_from|kthread"
)
# Ranks of such sleeps.
BLOCKED: Final = [number for number, rank in enumerate(STACK) if rank.row is None]
# That of what a stacked device held back until a program let it go.
HELD: Final = [RANK[HELD_BACK]]
SHOWN: Final = 3
UNKNOWN: Final = "no stack was kept"

AT_INTERRUPTS: Final = {WAKE_INTERRUPT: "an interrupt", WAKE_TIMER: "a timer"}

WOKEN: Final = ("sched_resume", "sched_woken")

Sites = Counter[tuple[str, str]]
"""ns by machine and site."""
Wakers = Counter[tuple[Who, str, bool]]
"""ns by who let go, which stacked device had held that back (empty: nobody knows what had), and
whether it is recorded what he did."""


@dataclass(frozen=True, eq=False)
class Asleep:
    """Time that pieces slept on a machine for no cause that was observed, or for what a stacked
    device held back: one row a stretch.

    ``span``: what it is of among the view's. ``event``: row of the sleep among the window's
    sched_resume events, -1: it was not seen either.
    """

    view: View
    span: Ints
    event: Ints
    took_ns: Ints


def site_of(functions: tuple[str, ...]) -> str:
    """``rwsem_down_write_slowpath < down_write < ext4_buffered_write_iter``, from the innermost."""
    names = [name.partition(".")[0] for name in functions]
    while names and SCHEDULER.match(names[0]):
        names.pop(0)
    inner = [name for name in names if not ENTRY.match(name) and not HANDS_ON.match(name)]
    return " < ".join(inner[:SHOWN]) or UNKNOWN


def are_let_go(ranks: Ints) -> NDArray[np.bool_]:
    """Which ranks are of what is told by who ended it."""
    return one_of(ranks % len(STACK), BLOCKED + HELD)


def stretches(held: Held, ranks: Ints, first: int, some: Sequence[int]) -> Spans:
    """What pieces slept for nobody knows what (``BLOCKED``), or what was held back (``HELD``), of
    those who held their time.

    ``ranks``: what its ranks are among those that were lifted; ``first``: number of the first
    piece, from which on theirs are counted.
    """
    rank = ranks[held.ranks]
    rows = held.rows(one_of(rank % len(STACK), some))
    rows = rows[held.until_ns[rows] > held.since_ns[rows]]
    return Spans(
        held.owner[rows] + first,
        rank[held.level[rows]],
        held.since_ns[rows],
        held.until_ns[rows],
        np.full(len(rows), -1),
    )


def asleep_of(lifted: Lifted, slept: Spans, some: Sequence[int]) -> list[Asleep]:
    """By machine, what some pieces slept (``stretches``)."""
    if not len(slept):
        return []
    rank, owner, since = slept.rank, slept.owner, slept.begin_ns
    took = slept.end_ns - since
    # Most pieces have none that are left: theirs need not be looked at.
    left = np.zeros(int(lifted.spans.owner.max()) + 1, np.bool_)
    left[owner] = True
    asleep = lifted.spans.where(left[lifted.spans.owner])
    asleep = asleep.where(one_of(asleep.rank % len(STACK), some))
    # One number for owner and rank: there are few ranks.
    ranks = distinct(asleep.rank)
    by_owner = AsOf(
        asleep.owner * len(ranks) + np.searchsorted(ranks, asleep.rank), asleep.begin_ns
    )
    key = owner * len(ranks) + np.searchsorted(ranks, rank)
    found = by_owner.at_or_before(key, since)
    # Behind the end of a sleep that was seen, it is of a call in which not all were.
    seen = at(asleep.end_ns, found) > since
    found = np.where(seen, found, by_owner.at_or_after(key, np.zeros_like(since)))
    number = at(asleep.of, found)
    views = lifted.views
    view_of = np.searchsorted([view.first for view in views], number, side="right") - 1
    result = []
    for place, view in enumerate(views):
        mine = np.flatnonzero((view_of == place) & (number >= 0))
        span = number[mine] - view.first
        result.append(Asleep(view, span, _events(view, span), took[mine]))
    return result


def sites_of(asleep: Iterable[Asleep]) -> Sites:
    """Where they slept; empty without stacks."""
    sites: Sites = Counter()
    for some in asleep:
        trace = some.view.window.trace
        if not trace.facts.stacks or "stack" not in trace.points["sched_resume"].fields:
            continue
        stacks = at(some.view.window.columns("sched_resume", "stack")["stack"], some.event)
        for stack in distinct(stacks).tolist():
            functions = trace.facts.stacks.get(stack, ())
            sites[trace.machine, site_of(functions)] += int(some.took_ns[stacks == stack].sum())
    return sites


def wakers_of(asleep: Iterable[Asleep]) -> Wakers:
    """Who ended them, of those that somebody was seen to end; ``UNKNOWN``: nobody tells."""
    wakers: Wakers = Counter()
    for some in asleep:
        window = some.view.window
        if "waker_context" not in window.trace.points["sched_resume"].fields:
            continue
        told = window.columns("sched_resume", "wake_ns", "waker_tid", "waker_context", "state")
        seen = (told["wake_ns"] > 0) & (told["state"] > 0)
        rows = np.flatnonzero(at(seen.astype(np.int64), some.event) > 0)
        event, took_ns = some.event[rows], some.took_ns[rows]
        context, people = told["waker_context"][event], People(window.trace)
        wake_ns = told["wake_ns"][event]
        who = people.threads(told["waker_tid"][event], wake_ns)
        who[context != WAKE_THREAD] = -1
        for context_of, name in AT_INTERRUPTS.items():
            who[context == context_of] = people.number(name, 0)
        kind = whole(window.trace).once(kinds_of).of(told["waker_tid"][event], wake_ns)
        recorded = (context != WAKE_THREAD) | (kind != 0)
        recorded |= whole(window.trace).once(_chosen_of).who(told["waker_tid"][event])
        for number, seen_of in np.unique(np.stack([who, recorded]), axis=1).T.tolist():
            mine = (who == number) & (recorded == seen_of)
            wakers[_named(people, number), "", bool(seen_of)] += int(took_ns[mine].sum())
    return wakers


@dataclass(frozen=True, eq=False)
class _Chosen:
    """Whom the recorder was asked for, though they did nothing that it would tell of: everybody, or
    processes. ``told``: looks up the events that tell which is whose."""

    everybody: bool
    processes: Ints
    told: AsOf
    process: Ints

    def who(self, tid: Ints) -> NDArray[np.bool_]:
        """Which of some threads."""
        known = self.told.at_or_before(tid, np.zeros_like(tid))
        chosen = one_of(np.where(known >= 0, at(self.process, known), tid), self.processes)
        found: NDArray[np.bool_] = chosen | self.everybody
        return found


def _chosen_of(window: Window) -> _Chosen:
    trace = window.trace
    tasks = trace.points["task"].integers("subject_tid", "tgid")
    told = AsOf(tasks["subject_tid"], np.zeros_like(tasks["tgid"]))
    return _Chosen(of_all(trace.env), processes_of(trace, THREAD_TARGET), told, tasks["tgid"])


def released_by(held: Iterable[Asleep]) -> Wakers:
    """Who let go what stacked devices had held back: whoever ended the sleep of the thread of the
    kernel that went on with it then."""
    wakers: Wakers = Counter()
    for some in held:
        window, spans, people = some.view.window, some.view.spans, People(some.view.window.trace)
        woken = [window.columns(point, "wake_ns", "waker_tid") for point in WOKEN]
        wake_ns, tid = (
            np.concatenate([told[name] for told in woken]) for name in ("wake_ns", "waker_tid")
        )
        queued = window.columns("block_bio_queue", "dev")
        disk = at(queued["dev"], _exactly(queued["time_ns"], spans.begin_ns[some.span]))
        waker = at(tid, _exactly(wake_ns, spans.end_ns[some.span]))
        # Whoever is gone meanwhile is told of behind that.
        later = np.full(len(waker), NEVER - 1)
        who = people.threads(waker, later)
        for key, number in np.unique(np.stack([disk, who]), axis=1).T.tolist():
            name = window.trace.facts.device_name(key) if key >= 0 else "a stacked device"
            took_ns = some.took_ns[(disk == key) & (who == number)]
            wakers[_named(people, number), name, True] += int(took_ns.sum())
    return wakers


def _named(people: People, number: int) -> Who:
    one = people.names[number] if number >= 0 else NOBODY_KNOWN
    assert isinstance(one, Who)
    return one


def _exactly(times_ns: Ints, wanted_ns: Ints) -> Ints:
    """Which one is of each wanted time, -1: none."""
    if not len(times_ns):
        return np.full(len(wanted_ns), -1)
    order = order_of(times_ns)
    ascending = times_ns[order]
    place = np.minimum(np.searchsorted(ascending, wanted_ns), len(order) - 1)
    return np.where(ascending[place] == wanted_ns, order[place], -1)


def unseen_of(asleep: Iterable[Asleep]) -> Iterator[tuple[str, int, int]]:
    """By machine, how many of the sleeps nobody was seen to end, and their ns.

    Every kernel tells of each wake-up, unless somebody keeps it from telling.
    """
    for some in asleep:
        columns = some.view.window.columns("sched_resume", "wake_ns", "state")
        unseen = (columns["wake_ns"] == 0) & (columns["state"] != 0)
        mine = (some.event < 0) | (at(unseen.astype(np.int64), some.event) > 0)
        mine &= some.took_ns > 0
        if mine.any():
            count = len(distinct(some.span[mine]))
            yield some.view.window.trace.machine, count, int(some.took_ns[mine].sum())


def _events(view: View, rows: Ints) -> Ints:
    """The sched_resume event of each sleep that some of the view's spans are of, -1: none."""
    off_ns = view.window.columns("sched_resume", "off_ns")["off_ns"]
    return _exactly(off_ns, view.spans.begin_ns[rows])
