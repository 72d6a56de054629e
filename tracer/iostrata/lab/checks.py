# SPDX-License-Identifier: Apache-2.0
"""Lab stage: a round's Breakdown and the workload's own account in, what was found out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from statistics import median
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.analysis import LOST
from iostrata.lab.pace import BOUND
from iostrata.lab.scenario import Checks, Fault, Injection
from iostrata.lab.workload import Witness
from iostrata.model import Breakdown, Writes
from iostrata.record import Probe, verdicts
from iostrata.units import duration

OWN_SHARE: Final = 0.1
"""Of a program's mean, what it may be itself where all is slow."""
RESIDUAL: Final = "unattributed"
# Percentiles of the latency.
TYPICAL: Final = (10, 90)
# What a round varies by is seen in the means of so many parts of it, one after the other.
PARTS: Final = 4
CALLS: Final = "program:syscall_"
TOTAL: Final = "total"
# Of a delay as declared: what is found twice comes twice with a write.
MOST: Final = 1.5
# What all else took longer by is the median of so many rows at least, each with such a share.
ENOUGH: Final = 8
LARGE: Final = 0.005


@dataclass(frozen=True)
class Check:
    """``found`` and ``wanted``: text for people."""

    name: str
    passed: bool
    found: str
    wanted: str


@dataclass(frozen=True)
class Measured:
    """A round, as it was recorded and as the workload saw it.

    ``kept_ns``: for how long in all the kernel says that it kept the writes; None: not asked.
    ``struck_ns``: from when to when a fault happened, by the clock of the machine that writes.
    ``waited_ns``: for how long the machines themselves waited for a CPU of this one, ns a write.
    """

    breakdown: Breakdown
    witness: Witness
    kept_ns: int | None = None
    struck_ns: tuple[int, int] = (0, 0)
    waited_ns: float = 0.0


@dataclass(frozen=True)
class Pair:
    """A round with an injection, and one without it."""

    delayed: Measured
    plain: Measured


def observed(wanted: Sequence[str], probes: Sequence[Probe]) -> Iterator[Check]:
    """The layers that a machine's recorder must see, at least partly."""
    for verdict in verdicts(probes):
        if verdict.visibility.name in wanted:
            broken = ", ".join(probe.program for probe in verdict.broken)
            found = f"{verdict.seen}, without {broken}" if broken else verdict.seen
            yield Check(
                f"sees {verdict.visibility.name}", verdict.seen in ("yes", "partly"), found, "yes"
            )


def of_round(
    wanted: Checks,
    measured: Measured,
    pace: float = 1.0,
    between: float = 0.0,
    unfollowed: int = 0,
) -> Iterator[Check]:
    """What holds for every round. ``pace``: by how much all is slower than on an idle machine.

    A program reads its clock before and after its calls: what it takes itself, or has no CPU
    meanwhile, is in its own mean, the more the slower it runs. Ours is never the larger. Nor have
    we what passes until a program that fills a ring asks the kernel to look at it, or itself does.
    ``between``: of its mean, what it may have stood still between two of its writes.
    ``unfollowed``: beside what is wanted, of so many writes something may be found nowhere.

    An interrupt that meets a program of its own kind is not recorded by it: where all is slow, that
    happens. It is counted, and what it may touch is left out; that may be as unlike the rest as
    parts of the rest are unlike each other.
    """
    breakdown, witness = measured.breakdown, measured.witness
    latency = breakdown.writes.latency_ns
    analysed = len(latency)
    all_writes = analysed + sum(breakdown.left_out.values())
    conserved = np.array_equal(breakdown.time_ns.sum(axis=0) + breakdown.residual_ns, latency)
    yield Check("conservation", conserved, "exact" if conserved else "broken", "exact")
    lost, skipped = _lost(breakdown)
    found = f"{lost}, {skipped} skipped" if skipped else str(lost)
    yield Check("lost", not lost and skipped <= wanted.skipped * all_writes, found, "0")
    if wanted.count:
        fewest, made = witness.count - _unseen_calls(breakdown), all_writes - _flushes(breakdown)
        counted = f"{fewest} to {witness.count}" if fewest < witness.count else str(witness.count)
        yield Check("count", fewest <= made <= witness.count, str(made), counted)
    touched = breakdown.left_out.get(LOST, 0) if skipped and not lost else 0
    share = analysed / (all_writes - touched)
    enough = share >= wanted.analysed and touched <= analysed
    found = f"{share:.2%}" + (f" beside {touched}" if touched else "")
    yield Check("analysed", enough, found, f">= {wanted.analysed:.2%}")
    mean = float(latency.mean())
    deviation = mean / witness.mean_ns - 1 if witness.mean_ns else np.inf
    unlike = touched / all_writes * _spread_ns(breakdown, [TOTAL], _latency_ns) / mean
    least = min(wanted.mean_deviation * pace, max(wanted.mean_deviation, OWN_SHARE)) + between
    least += witness.untold_ns / witness.mean_ns if witness.mean_ns else 0.0
    least, most = least + unlike, wanted.mean_deviation + unlike
    yield Check(
        "mean",
        -least <= deviation <= most,
        f"{duration(mean)}, {deviation:+.2%}",
        f"{duration(witness.mean_ns)} -{least:.1%} to +{most:.0%}",
    )
    residual = float(breakdown.residual_ns.mean()) / mean
    yield Check(
        "residual", abs(residual) <= wanted.residual, f"{residual:.2%}", f"<= {wanted.residual:.2%}"
    )
    if wanted.followed is not None:
        quality = breakdown.quality
        followed = 0.0 if quality.apart else 1 - quality.unfollowed / analysed
        enough = followed + unfollowed / analysed >= wanted.followed
        but_for = f", but for {unfollowed} writes" if unfollowed else ""
        yield Check("followed", enough, f"{followed:.2%}", f">= {wanted.followed:.2%}{but_for}")
        least = wanted.followed if wanted.beyond is None else wanted.beyond
        for upper, share in _reached(breakdown).items():
            yield Check(
                "followed", share >= least, f"{share:.2%} beyond {upper}", f">= {least:.2%}"
            )


def _reached(breakdown: Breakdown) -> dict[str, float]:
    """Of what waited for anything beyond a machine's own kernel, the share that has time in the
    rows of a machine below it; of each machine that something was followed from, to another.

    Hops count what they tie: a table that makes nothing of that is as wrong as one without.
    """
    crossings, found = breakdown.quality.crossings, {}
    for upper in dict.fromkeys(crossing.upper for crossing in crossings):
        below = {upper}
        for _ in crossings:
            below |= {crossing.lower for crossing in crossings if crossing.upper in below}
        if below == {upper}:
            continue
        rows = [layer.machine in below - {upper} for layer in breakdown.layers]
        outside = [
            layer.machine == upper and not layer.segment.endswith("OS")
            for layer in breakdown.layers
        ]
        beyond = breakdown.time_ns[rows].max(axis=0, initial=0) > 0
        asked = np.count_nonzero(beyond | (breakdown.time_ns[outside].max(axis=0, initial=0) > 0))
        found[upper] = np.count_nonzero(beyond) / asked if asked else 0.0
    return found


def _flushes(breakdown: Breakdown) -> int:
    """Those of Ceph's library, by themselves: who counts its writes has none of these."""
    flush = [name == "librbd:flush" for name in breakdown.writes.names.get("method", ())]
    return int(np.array(flush)[breakdown.writes.codes["method"]].sum()) if any(flush) else 0


def _lost(breakdown: Breakdown) -> tuple[int, int]:
    """Events that were lost, or damage; and hits that the kernel skipped a program for."""
    lost = breakdown.quality.lost
    skipped = sum(count for name, count in lost.items() if "program" in name.split(":")[:-1])
    return sum(lost.values()) - skipped + len(breakdown.quality.damage), skipped


def _unseen_calls(breakdown: Breakdown) -> int:
    """How many calls may have begun or ended unseen: the kernel skipped a program for them."""
    names = breakdown.quality.lost
    return sum(names[name] for name in names if ":".join(name.split(":")[-2:]).startswith(CALLS))


def of_fault(
    wanted: Checks, fault: Fault, measured: Measured, told: Sequence[str]
) -> Iterator[Check]:
    """The table is right, or says what it is not. ``told``: the lines below it.

    What goes wrong may have the CPU that the program's own work needs, however idle this machine
    is. And a machine that stands still does so between two writes as well: that is in the
    program's mean, but in none of its calls.
    """
    begin_ns, (since_ns, until_ns) = measured.breakdown.writes.begin_ns, measured.struck_ns
    before = np.count_nonzero(begin_ns < since_ns)
    after = np.count_nonzero(begin_ns > until_ns)
    # What is not analysed may be all that came behind it.
    amid = bool(before and (after or "analysed" in fault.excused))
    yield Check("struck", amid, f"{before} writes before, {after} after", "in their midst")
    still_ns = _longest_pause_ns(measured.breakdown.writes)
    between = still_ns / (measured.witness.mean_ns * max(measured.witness.count, 1))
    for check in of_round(wanted, measured, BOUND, between, fault.unfollowed):
        if check.name not in fault.excused:
            yield check
    for pattern in fault.told:
        found = [line for line in told if fnmatchcase(line, pattern)]
        yield Check(f"told {pattern}", bool(found), found[0] if found else "nothing", pattern)


def _longest_pause_ns(writes: Writes) -> int:
    """Between two writes of one thread, or two calls of one write."""
    order = np.lexsort((writes.begin_ns, writes.tid))
    tid, begin_ns, end_ns = writes.tid[order], writes.begin_ns[order], writes.end_ns[order]
    writes_ns = (begin_ns[1:] - end_ns[:-1])[tid[1:] == tid[:-1]]
    calls_ns = writes.end_ns - writes.begin_ns - writes.latency_ns
    return int(max(writes_ns.max(initial=0), calls_ns.max(initial=0)))


def of_injection(wanted: Checks, injection: Injection, pairs: Sequence[Pair]) -> Iterator[Check]:
    """Where the injected delay was found: in its rows, and in which other row most.

    What the kernel itself knows of one round needs no other: all else may take longer, too.
    Two rounds differ by what others do on this machine meanwhile, too. Where most other rows
    took longer by one factor, so may each. Beyond that it is no more than what the means of a
    round's own parts differ by; as much is allowed for. Who waits for a CPU in a machine may do so
    for as much longer as that machine itself waited for one of this. All is said.

    Of several pairs each share, and what it is allowed, is the median of theirs.
    """
    compared: list[_Compared] = []
    for pair in pairs:
        if pair.delayed.kept_ns is not None:
            yield from _of_kept(wanted, injection, pair.delayed.breakdown, pair.delayed.kept_ns)
            continue
        match _compared(injection, pair):
            case Check() as undelayed:
                yield undelayed
            case shares:
                compared.append(shares)
    if not compared:
        return
    delay_ns = median(each.delay_ns for each in compared)
    varies = median(each.varies for each in compared)
    share, among = _middle([each.found for each in compared])
    yield Check(
        "found in " + ", ".join(injection.rows),
        wanted.found - varies <= share <= MOST + varies,
        f"{share:.2%} of {duration(delay_ns)}{among}",
        f"{wanted.found:.0%} to {MOST:.0%}, noise {varies:.1%}",
    )
    if injection.behind:
        for pair, each in zip(pairs, compared, strict=True):
            found_ns = each.found * each.delay_ns
            yield _behind(wanted, injection, pair.delayed.breakdown, found_ns, each.varies)
    rows = list(dict.fromkeys(row for each in compared for row in each.elsewhere))
    allowed = {row: median(each.allowed.get(row, 0) for each in compared) for row in rows}
    more = {row: _middle([each.elsewhere.get(row, 0) for each in compared]) for row in rows}
    row = max(more, key=lambda name: abs(more[name][0]) - allowed[name])
    (share, among), varies = more[row], allowed[row]
    slower = median(each.slower for each in compared)
    yield Check(
        "found elsewhere",
        abs(share) <= wanted.elsewhere + varies,
        f"{share:+.2%} in {row}{among}" + (f" beside {slower:.2f} x" if slower != 1 else ""),
        f"<= {wanted.elsewhere:.0%}, noise {varies:.1%}",
    )


def _middle(shares: Sequence[float]) -> tuple[float, str]:
    """The median, and for people from where to where they are."""
    among = f" ({min(shares):+.2%} to {max(shares):+.2%})" if len(shares) > 1 else ""
    return median(shares), among


@dataclass(frozen=True)
class _Compared:
    """Of a pair: shares of the delay in its rows, and in each other one.

    ``varies``, ``allowed``: what these may be less, or more, for other reasons. ``slower``: all
    that was not delayed, by this factor.
    """

    delay_ns: float
    slower: float
    found: float
    varies: float
    elsewhere: dict[str, float]
    allowed: dict[str, float]


def _compared(injection: Injection, pair: Pair) -> _Compared | Check:
    """The check that fails, where nothing was delayed."""
    delayed, plain = pair.delayed, pair.plain
    delay_ns = injection.delay_ns or delayed.witness.mean_ns - plain.witness.mean_ns
    if delay_ns <= 0:
        found = f"{duration(delay_ns)} longer"
        return Check("delayed", False, found, "longer than without")
    # A delay that comes with each write is best seen where nothing else is unusual.
    means_ns = typical_means_ns if injection.delay_ns else all_means_ns
    before, after = (
        means_ns(each.breakdown, np.ones(len(each.breakdown.writes), np.bool_))
        for each in (plain, delayed)
    )
    all_rows = {**before, **after}
    rows = {row for row in all_rows if any(_matches(row, pattern) for pattern in injection.rows)}
    instead = {row for row in all_rows if any(_matches(row, one) for one in injection.instead)}
    slower = _slower(before, after, rows | instead)
    own = 1 if injection.delay_ns else slower
    more = {
        row: _beyond(after.get(row, 0), before.get(row, 0), own if row in rows else slower)
        for row in all_rows
    }
    # Of what is waited for no longer, nothing is found elsewhere; nor of what is waited for from
    # now on, where the delay is known without that.
    for row in instead - rows:
        if injection.delay_ns or more[row] < 0:
            del more[row]
    if not injection.delay_ns:
        # What all else took longer by is none of it.
        delay_ns = sum(more.values())
        if delay_ns <= 0:
            found = f"as all else, {slower:.2f} x"
            return Check("delayed", False, found, "longer than all else")

    def noise(rows: Collection[str]) -> float:
        rounds = (plain.breakdown, delayed.breakdown)
        return max(_spread_ns(each, rows, means_ns) for each in rounds) / delay_ns

    share = sum(more.pop(row) for row in rows) / delay_ns
    waited = max(delayed.waited_ns - plain.waited_ns, 0) / delay_ns
    return _Compared(
        delay_ns,
        slower,
        share,
        noise(rows),
        {row: ns / delay_ns for row, ns in more.items()},
        {row: noise([row]) + waited * _matches(row, "*.runqueue") for row in more},
    )


def _beyond(after: float, before: float, slower: float) -> float:
    """What a row took longer by, or less: more than it may where all else is slower by so much."""
    return after - min(max(after, min(before, before * slower)), max(before, before * slower))


def _slower(before: dict[str, float], after: dict[str, float], delayed: Collection[str]) -> float:
    """By which factor all that was not delayed took longer, 1: there are too few rows to tell.

    A delay that is credited to the wrong row changes one of them, and so no median.
    """
    least = LARGE * sum(before.values())
    ratios = [
        after.get(row, 0) / ns
        for row, ns in before.items()
        if row not in delayed and row != RESIDUAL and ns >= least
    ]
    return median(ratios) if len(ratios) >= ENOUGH else 1.0


def _of_kept(
    wanted: Checks, injection: Injection, breakdown: Breakdown, kept_ns: int
) -> Iterator[Check]:
    """The rows hold what the kernel kept, neither less nor more: all, or what is behind one."""
    name, found_ns = "found in " + ", ".join(injection.rows), _found_ns(injection, breakdown)
    if injection.behind:
        name, found_ns = f"{name} behind {injection.behind}", _behind_ns(injection, breakdown)
    share = found_ns / kept_ns if kept_ns else np.inf
    most = 2 - wanted.found
    yield Check(
        name,
        wanted.found <= share <= most,
        f"{share:.2%} of {duration(kept_ns / len(breakdown.writes))}",
        f"{wanted.found:.0%} to {most:.0%}",
    )


def _behind(
    wanted: Checks, injection: Injection, breakdown: Breakdown, found_ns: float, varies: float
) -> Check:
    """How much of what was found is said to be of who was in the way."""
    mean_ns = _behind_ns(injection, breakdown) / len(breakdown.writes)
    share = mean_ns / found_ns if found_ns > 0 else 0.0
    return Check(
        f"behind {injection.behind}",
        share >= wanted.found - varies,
        f"{share:.2%} of {duration(max(found_ns, 0))}",
        f">= {wanted.found:.0%}, noise {varies:.1%}",
    )


def _found_ns(injection: Injection, breakdown: Breakdown) -> int:
    return int(breakdown.time_ns[_rows_of(injection, breakdown)].sum())


def _behind_ns(injection: Injection, breakdown: Breakdown) -> int:
    behind = breakdown.behind
    named = np.array([injection.behind in (one.process, one.vm) for one in behind.names], np.bool_)
    mine = _rows_of(injection, breakdown)[behind.layer] & named[behind.who]
    return int(behind.time_ns[mine].sum())


def _rows_of(injection: Injection, breakdown: Breakdown) -> NDArray[np.bool_]:
    rows = [any(_matches(layer.name, one) for one in injection.rows) for layer in breakdown.layers]
    return np.array(rows, np.bool_)


def _matches(name: str, pattern: str) -> bool:
    """Patterns are of names with their machine, or of those without."""
    return fnmatchcase(name, pattern) or fnmatchcase(name.rpartition("/")[2], pattern)


Means = Callable[[Breakdown, NDArray[np.bool_]], dict[str, float]]
"""Of each row, over some of the writes."""


def _spread_ns(breakdown: Breakdown, rows: Collection[str], means_ns: Means) -> float:
    """How far apart the means of a round's parts are, of some rows together."""
    order = np.argsort(breakdown.writes.begin_ns, kind="stable")
    found = []
    for part in np.array_split(order, min(PARTS, len(order))):
        among = np.zeros(len(order), np.bool_)
        among[part] = True
        means = means_ns(breakdown, among)
        found.append(sum(means.get(row, 0) for row in rows))
    return max(found) - min(found)


def _latency_ns(breakdown: Breakdown, among: NDArray[np.bool_]) -> dict[str, float]:
    return {TOTAL: float(breakdown.writes.latency_ns[among].mean())}


def all_means_ns(breakdown: Breakdown, among: NDArray[np.bool_]) -> dict[str, float]:
    return _means_ns(breakdown, among)


def typical_means_ns(breakdown: Breakdown, among: NDArray[np.bool_]) -> dict[str, float]:
    """Of those between the 10th and the 90th percentile of their latency."""
    latency = breakdown.writes.latency_ns
    low, high = np.percentile(latency[among], TYPICAL)
    return _means_ns(breakdown, among & (latency >= low) & (latency <= high))


def _means_ns(breakdown: Breakdown, among: NDArray[np.bool_]) -> dict[str, float]:
    """Mean of each row, and of the residual."""
    rows = zip(breakdown.layers, breakdown.time_ns[:, among].mean(axis=1), strict=True)
    means = {layer.name: float(mean) for layer, mean in rows}
    return {**means, RESIDUAL: float(breakdown.residual_ns[among].mean())}
