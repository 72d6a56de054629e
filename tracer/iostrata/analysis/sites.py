# SPDX-License-Identifier: Apache-2.0
"""Stitched windows in, the functions of the kernel in which unattributed sleeps were out.

Only where the recorder was asked for stacks (``--why``): a sleep whose cause no event
shows is at least told by what its thread waited in.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

import numpy as np

from iostrata.attribute import Held
from iostrata.columns import AsOf, Ints, at, integers
from iostrata.hops import Lifted, View
from iostrata.layers import RANK, STACK

# What every sleep goes through before (and every call behind) the functions that tell one.
SCHEDULER: Final = re.compile(r"(__)?bpf_|__traceiter_|trace_|(__|io_|preempt_)?schedule|bit_wait")
HANDS_ON: Final = re.compile("out_of_line_")
ENTRY: Final = re.compile(
    r"(do_|ia32_|invoke_)?syscall|entry_|__(x64|arm64|ia32|se|do)_sys|x64_sys|el0|do_el0|ret_from|kthread"
)
SHOWN: Final = 3
UNKNOWN: Final = "no stack was kept"

Sites = Counter[tuple[str, str]]
"""ns by machine and site."""


def site_of(functions: tuple[str, ...]) -> str:
    """``rwsem_down_write_slowpath < down_write < ext4_buffered_write_iter``, from the innermost."""
    names = [name.partition(".")[0] for name in functions]
    while names and SCHEDULER.match(names[0]):
        names.pop(0)
    inner = [name for name in names if not ENTRY.match(name) and not HANDS_ON.match(name)]
    return " < ".join(inner[:SHOWN]) or UNKNOWN


def sites_of(lifted: Lifted, held: Held, ranks: Ints, counted: Ints) -> Sites:
    """Where the given pieces (``counted`` >= 0) slept for no cause that was observed.

    ``held``: who held their time; ``ranks``: what its ranks are among those that were lifted.
    """
    views = lifted.views
    if not any(view.window.trace.facts.stacks for view in views):
        return Counter()
    rank = ranks[held.ranks][held.level]
    rows = np.flatnonzero((rank % len(STACK) == RANK["blocked"]) & (counted[held.owner] >= 0))
    rank, owner, since = rank[rows], held.owner[rows], held.since_ns[rows]
    took = held.until_ns[rows] - since
    spans = lifted.spans
    asleep = spans.where(spans.rank % len(STACK) == RANK["blocked"])
    # One number for owner and rank: there are few ranks.
    ranks = np.unique(asleep.rank)
    by_owner = AsOf(
        asleep.owner * len(ranks) + np.searchsorted(ranks, asleep.rank), asleep.begin_ns
    )
    found = by_owner.at_or_before(owner * len(ranks) + np.searchsorted(ranks, rank), since)
    number = at(asleep.of, found)
    view_of = np.searchsorted([view.first for view in views], number, side="right") - 1
    sites: Sites = Counter()
    for place, view in enumerate(views):
        mine = np.flatnonzero((view_of == place) & (number >= 0))
        stacks = _stacks(view, number[mine] - view.first)
        for stack in np.unique(stacks).tolist():
            functions = view.window.trace.facts.stacks.get(stack, ())
            ns = int(took[mine[stacks == stack]].sum())
            sites[view.window.trace.machine, site_of(functions)] += ns
    return sites


def _stacks(view: View, rows: Ints) -> Ints:
    """The stack of each sleep that some of the view's spans are of, -1: not recorded."""
    events = view.window.trace.points["sched_resume"]
    if "stack" not in events.fields or not len(rows):
        return np.full(len(rows), -1)
    resumed = view.window.columns("sched_resume", "off_ns", "stack")
    order = np.argsort(resumed["off_ns"], kind="stable")
    off, begin = resumed["off_ns"][order], view.spans.begin_ns[rows]
    place = np.minimum(np.searchsorted(off, begin), max(len(off) - 1, 0))
    same = off[place] == begin if len(off) else np.zeros(len(rows), np.bool_)
    return np.where(same, at(integers(resumed["stack"][order]), place), -1)
