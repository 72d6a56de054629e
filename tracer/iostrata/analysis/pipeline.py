# SPDX-License-Identifier: Apache-2.0
"""A recording in, its Breakdown out: read, align, stitch, attribute."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.analysis.earned import Earned, earned
from iostrata.analysis.heap import give_back
from iostrata.analysis.kept import Kept, Sums
from iostrata.analysis.left_out import by_the_unasked, unlike, unseen_share
from iostrata.analysis.leftovers import Audits, left_over
from iostrata.analysis.prepared import Prepared, Top, prepare
from iostrata.analysis.quality import quality_of
from iostrata.analysis.queues import long_queues
from iostrata.analysis.sites import Sites, Wakers
from iostrata.analysis.so_far import SoFar, Tally, nobody
from iostrata.analysis.stopped import stopped
from iostrata.analysis.transfers import faults_of, with_served
from iostrata.analysis.who import Names, told_in
from iostrata.columns import Ints
from iostrata.crew import both, by_threads, each
from iostrata.large import in_memory
from iostrata.model import UNKNOWN, Behind, Breakdown, Layer, Op, Unseen, WaitSite, Waker
from iostrata.recording import Recording
from iostrata.stitch import Section

# Of all time: who ended less of what is unattributed is not told.
LEAST_WAKER: Final = 0.02


def analyse(
    recording: Recording,
    op: Op = Op.SYNC,
    jobs: int = 1,
    heard: Callable[[SoFar], None] = nobody,
) -> Breakdown:
    """Where each synchronous write of the recording, or each read, spent its time.

    ``jobs``: by so many processes, or threads; whatever their number, the result is the same.
    ``heard``: is told now and then what there is so far.

    Errors: RecordingError, NothingToAnalyse, UsageError.
    """
    return breakdown_of(prepare(recording, op, jobs), jobs, heard)


def breakdown_of(
    found: Prepared, jobs: int = 1, heard: Callable[[SoFar], None] = nobody
) -> Breakdown:
    """Where each of the writes spent its time. ``jobs``, ``heard``: as for ``analyse``."""
    credit = _credit(found, jobs, heard)
    crossed = found.path.crossed(
        place for place, sums in credit.time_ns.items() if sums.numbers.any()
    )
    layers, time_ns = _layers(credit, found)
    residual = found.writes.latency_ns - time_ns.sum(axis=0)
    nowhere = (time_ns[[found.path.leads_nowhere(layer) for layer in layers]] > 0).any(axis=0)
    all_ns = max(int(found.writes.latency_ns.sum()), 1)
    shares = {
        (layer.machine, layer.row): int(times.sum()) / all_ns
        for layer, times in zip(layers, time_ns, strict=True)
    }
    quality, (left, background, asleep_ns) = both(
        lambda: quality_of(found.path, found.plain_writes, credit.ties, shares),
        lambda: left_over(credit.audits),
        jobs,
    )
    quality = replace(
        quality,
        unsure_syncs=found.unsure_syncs,
        partial_syncs=found.partial_syncs,
        crossed=crossed,
        unfollowed=int(np.count_nonzero(credit.missed | nowhere)),
        hidden={machine: ns / len(found.writes) for machine, ns in credit.hidden.items()},
        sites=tuple(
            WaitSite(machine, site, ns / len(found.writes))
            for (machine, site), ns in credit.sites.most_common()
            if ns
        ),
        wakers=tuple(
            Waker(who, ns / len(found.writes), device, recorded)
            for (who, device, recorded), ns in credit.wakers.most_common()
            if who != UNKNOWN and ns >= LEAST_WAKER * all_ns
        ),
        asleep_share=credit.asleep_ns / max(int(residual.sum()), 1),
        stacks=any(member.trace.facts.stacks for member in found.path.members),
        unseen=tuple(
            Unseen(machine, count, ns / len(found.writes))
            for machine, told in credit.unseen.items()
            for count, ns in [told.tolist()]
        ),
        left_over=left,
        background=background,
        left_over_share=asleep_ns / all_ns,
        unseen_share=unseen_share(len(found.writes), found.left_out),
    )
    behind = _behind(credit, layers, found)
    writes = found.writes
    if found.op is not Op.SYNC:
        writes = with_served(writes, credit.served, found.path)
    several = found.path.several
    gaps = [*long_queues(credit.audits.beyond, several=several)]
    gaps += stopped(found.tops, found.op, found.writes.latency_ns, several=several)
    gaps += by_the_unasked(found.unasked, found.op)
    gaps += unlike(found.lost_ns, found.writes.latency_ns, found.op)
    if found.op is Op.READ:
        gaps += faults_of(found.path)
    quality = replace(quality, not_observed=(*quality.not_observed, *gaps))
    return Breakdown(writes, layers, time_ns, residual, found.left_out, quality, behind, found.op)


@dataclass(eq=False)
class _Credit:
    """What the windows of all tops come to.

    ``time_ns``: of each place of the path's layers, in each of the writes. ``hidden``: ns
    that writes waited for a machine too, while they waited longer for something else.
    ``missed``: of each write, whether something of it was found on no machine.
    ``asleep_ns``: what they slept for no cause that was observed; ``sites``: that, by where;
    ``wakers``: by who ended it, or let go what a stacked device held back.
    ``unseen``: by machine, of how many sleeps nobody was seen to end them, and their ns.
    ``behind``: writes, their place, who was behind it (of ``names``) and ns. ``served``: of each
    read, from where, -1: it is none.
    """

    time_ns: dict[int, Sums]
    ties: Counter[str]
    audits: Audits
    hidden: Counter[str]
    sites: Sites
    wakers: Wakers
    unseen: dict[str, Ints]
    missed: NDArray[np.bool_]
    behind: Kept
    names: Names
    served: Ints
    asleep_ns: int = 0


def _credit(found: Prepared, jobs: int, heard: Callable[[SoFar], None]) -> _Credit:
    missed = np.zeros(len(found.writes), np.bool_)
    unseen: dict[str, Ints] = defaultdict(lambda: np.zeros(2, np.int64))
    served = np.full(len(found.writes), -1)
    behind = Kept(np.int32, np.int32, np.int32, np.int64)
    credit = _Credit(
        {}, Counter(), Audits(), Counter(), Counter(), Counter(), unseen, missed, behind, Names(),
        served,
    )  # fmt: skip
    told = told_in(found.path)
    every: list[tuple[Top, Section, Ints]] = []
    for top in found.tops:
        write = top.write_of_piece()
        every += [(top, section, write) for section in top.windows]

    def window(one: tuple[Top, Section, Ints]) -> Earned:
        top, section, write = one
        with in_memory():
            return earned(found.path, top.node, section, write, told)

    if jobs > 1:
        _put_in_order(found, jobs)
    pieces = sum(len(section) for _, section, _ in every)
    tally = Tally(found.path, found.op, found.writes.latency_ns, pieces)
    heard(SoFar(0.0))
    for (_, section, _), one in zip(every, each(window, every, jobs), strict=True):
        _add_window(credit, one)
        if heard is not nobody:
            heard(tally.add(len(section), one.writes, one.time_ns))
    give_back()
    return credit


def _put_in_order(found: Prepared, jobs: int) -> None:
    """The events of all points, by threads: else the first window does it, and all wait for it."""
    points = [one for trace in found.path.graph.machines for one in trace.points.values()]
    by_threads(lambda one: one.time_ns, sorted(points, key=len, reverse=True), jobs)


def _add_window(credit: _Credit, one: Earned) -> None:
    for place, time in one.time_ns.items():
        if place not in credit.time_ns:
            credit.time_ns[place] = Sums(len(credit.missed))
        credit.time_ns[place].add(one.writes, time)
    number = credit.names.numbers(one.names)
    for writes, places, people, times in one.behind:
        credit.behind.extend((writes, places, number[people], times))
    asleep_ns, sites, wakers, unseen = one.asleep
    credit.asleep_ns += asleep_ns
    credit.sites.update(sites)
    credit.wakers.update(wakers)
    for machine, count, ns in unseen:
        credit.unseen[machine] += np.array([count, ns])
    credit.ties.update(+one.ties)
    credit.audits.extend(one.audits)
    reads, served = one.served
    credit.served[reads] = served
    credit.missed[one.missed] = True
    for machine, ns in one.hidden.items():
        credit.hidden[machine] += ns


def _behind(credit: _Credit, layers: Sequence[Layer], found: Prepared) -> Behind:
    """By layer instead of by place: several places may be of one."""
    write, place, who, time_ns = credit.behind.joined()
    number = {layer: row for row, layer in enumerate(layers)}
    layer_of = [number.get(layer, -1) if layer else -1 for layer in found.path.layers]
    names, number_of = credit.names.distinct()
    layer = np.array(layer_of, np.int32)[place]
    return Behind(write, layer, number_of.astype(np.int32)[who], time_ns, names)


def _layers(credit: _Credit, found: Prepared) -> tuple[tuple[Layer, ...], NDArray[np.int64]]:
    """The layers that a write was in, in the order of the table, and their times."""
    times = {place: sums.numbers for place, sums in credit.time_ns.items()}
    credit.time_ns.clear()
    held = {place: found.path.layers[place] for place, time in times.items() if time.any()}
    layers = tuple(layer for layer in found.path.in_order() if layer in held.values())
    columns = np.empty((len(layers), len(found.writes)), np.int64)
    filled: set[Layer] = set()
    for place, layer in held.items():
        if not layer:
            continue
        column = columns[layers.index(layer)]
        # What is added up is not kept twice.
        if layer in filled:
            column += times.pop(place)
        else:
            column[:] = times.pop(place)
        filled.add(layer)
    return layers, columns
