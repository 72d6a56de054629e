# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: the runs of two sides in, what changed between them, and how surely, out.

What tells a change from chance is how runs of one side differ among themselves:
writes of one run have their disk, their neighbours and their minute in common.
So one run a side is never judged, however many writes it has.

The test is Student's, of the logarithm of each run's figure: what disturbs a run
makes it some percent slower, not some microseconds. A row is judged by what its
change alone would make of the total. If nothing changed, both sides' runs vary
alike, so their variance is one; and it is never less than what the writes within
the runs vary. What drifts from run to run is allowed for (``drift``). All intervals
of a comparison hold together (Bonferroni): the totals have one half of what may go
wrong, all rows the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from math import expm1, log, log1p
from typing import Final

import numpy as np

from iostrata.attribute.aligned import aligned
from iostrata.attribute.batches import FEWEST, Floats
from iostrata.attribute.drift import FEWEST_RUNS, Drift, drift_of
from iostrata.attribute.run import (
    MIX_COLUMNS,
    Figure,
    Run,
    RunGroup,
    left_out_of,
    served_by,
    served_in,
)
from iostrata.attribute.selection import LayerKey, layers_of
from iostrata.attribute.student import quantile
from iostrata.layers import ROWS
from iostrata.model import (
    Change,
    ChangeRow,
    ChangeServed,
    ComparedGroup,
    Comparison,
    Layer,
    Regression,
)

CONFIDENCE: Final = 0.95
# What is too small to matter, where no limit says it.
SMALL: Final = 0.1
# How probably a change of the size that is called detectable is found.
POWER: Final = 0.8
MOST_RUNS: Final = 200
MIX_DIFFERENCE: Final = 0.05
# e to it is more than any ratio of latencies; beyond, numbers end.
WIDEST: Final = 30.0
ANY: Final = ""
Unlike = frozenset[tuple[str, str]]
"""Machines, or ``ANY``, and rows there (or prefixes of them)."""
# The clock's grain: no figure is less, so each has a logarithm.
GRAIN_NS: Final = 1.0


@dataclass(frozen=True)
class Sides:
    """One line of a group: its figure in each run of A and of B; ``rest_ns``: the total's other."""

    a: tuple[Figure, ...]
    b: tuple[Figure, ...]
    rest_ns: float = 0.0


@dataclass(frozen=True)
class Rule:
    """How lines are judged: ``chance`` of a false alarm in each, ``small``: as a part of A.

    ``drift`` None: it is not known when the runs were made.
    """

    judged: bool
    chance: float
    small: float
    drift: Drift | None = None

    def of(self, lines: int) -> Rule:
        """With so many lines sharing the chance."""
        return replace(self, chance=self.chance / lines)


def compare(
    a: Sequence[Run], b: Sequence[Run], by: str = "", limit: float | None = None
) -> Comparison:
    """Every group that all runs have; ``by``: what they are grouped by.

    ``limit``: as a part of A's total, 0.1 for 10 %.
    """
    a, b = (sorted(side, key=lambda run: run.created) for side in (a, b))
    a, b, beside = aligned(a, b)
    layers = layers_of(run.layers for run in (*a, *b))
    unlike = _unlike(a, b) | _unfollowed(a, b, layers)
    names = list(dict.fromkeys(name for run in (*a, *b) for name in run.groups))
    common = [name for name in names if all(name in run.groups for run in (*a, *b))]
    in_a, in_b = ({name for run in side for name in run.groups} for side in (a, b))
    rule = Rule(
        judged=min(len(a), len(b)) >= FEWEST_RUNS,
        chance=(1 - CONFIDENCE) / max(len(common), 1),
        small=limit or SMALL,
        drift=drift_of([run.created for run in a], [run.created for run in b]),
    )
    groups = tuple(
        _group(name, [run.groups[name] for run in a], [run.groups[name] for run in b],
               layers, unlike, rule)
        for name in common
    )  # fmt: skip
    return Comparison(
        confidence=CONFIDENCE,
        power=POWER,
        grouped_by=by,
        runs_a=len(a),
        runs_b=len(b),
        judged=rule.judged,
        groups=groups,
        only_a=tuple(name for name in names if name not in in_b),
        only_b=tuple(name for name in names if name not in in_a),
        not_in_all=tuple(name for name in names if name in in_a & in_b and name not in common),
        mixes=tuple(column for column in MIX_COLUMNS if column != by and _mixed(a, b, column)),
        one_after_the_other=_one_after_the_other(a, b),
        small=rule.small,
        limit=limit,
        regressions=() if limit is None else tuple(_regressions(groups, limit)),
        quality_a=tuple(run.quality for run in a),
        quality_b=tuple(run.quality for run in b),
        op=a[0].op,
        left_out_a=left_out_of(a),
        left_out_b=left_out_of(b),
        beside=beside,
        on_both=len({run.place for run in a} & {run.place for run in b} - {""}),
    )


def _group(
    name: str, a: Sequence[RunGroup], b: Sequence[RunGroup],
    layers: Mapping[LayerKey, Layer], unlike: Unlike, rule: Rule,
) -> ComparedGroup:  # fmt: skip
    def sides(figure: Callable[[RunGroup], Figure]) -> Sides:
        return Sides(tuple(map(figure, a)), tuple(map(figure, b)))

    total = sides(lambda group: group.total)
    mean_a, mean_b = _mean(total.a), _mean(total.b)

    def row(of: Sides) -> Sides:
        return Sides(of.a, of.b, (mean_a - _mean(of.a) + mean_b - _mean(of.b)) / 2)

    nothing = Figure(0.0, 0.0)
    rows: list[tuple[Layer | None, Sides]] = [
        (layer, row(sides(lambda group, key=key: group.layers.get(key, nothing))))  # type: ignore[misc]
        for key, layer in layers.items()
        if any(key in group.layers for group in (*a, *b))
    ]
    rows.append((None, row(sides(lambda group: group.residual))))
    of_total, of_rows = rule.of(2 * 3), rule.of(2 * len(rows))
    p50, p99 = sides(lambda group: group.p50), sides(lambda group: group.p99)
    return ComparedGroup(
        name=name,
        count_a=sum(group.count for group in a),
        count_b=sum(group.count for group in b),
        known=rule.judged or min(group.count for group in (*a, *b)) >= FEWEST,
        total=_change(total, mean_a, of_total),
        p50=_change(p50, _mean(p50.a), of_total),
        p99=_change(p99, _mean(p99.a), of_total),
        rows=tuple(
            ChangeRow(layer, _change(of, mean_a, of_rows), _is_unlike(layer, unlike))
            for layer, of in rows
        ),
        needed_runs=_needed_runs(total, of_total) if rule.judged else None,
        served=tuple(_served(a, b)),
    )


def _served(a: Sequence[RunGroup], b: Sequence[RunGroup]) -> Iterator[ChangeServed]:
    """Whatever any run has, most of A first."""
    for name in dict.fromkeys([*served_in(a), *served_in(b)]):
        of_a, of_b = served_by(name, a), served_by(name, b)
        yield ChangeServed(of_a, of_b, of_b.share - of_a.share)


def _mean(figures: Sequence[Figure]) -> float:
    """Of runs, each as good as the other, however many writes it has."""
    return sum(figure.value_ns for figure in figures) / len(figures)


def _change(of: Sides, base_ns: float, rule: Rule) -> Change:
    a_ns, b_ns = _mean(of.a), _mean(of.b)
    change = b_ns - a_ns
    error, degrees = _error(of, rule)
    critical = quantile(1 - rule.chance / 2, degrees)
    reach = min(critical * error, WIDEST)
    found = min((critical + quantile(POWER, degrees)) * error, WIDEST)
    with_a, with_b = (max(of.rest_ns + value, GRAIN_NS) for value in (a_ns, b_ns))
    # One run that was disturbed moves a mean by far, and the mean of the logarithms by little:
    # the interval reaches as far from either.
    between = _mean_log(of.b, of.rest_ns) - _mean_log(of.a, of.rest_ns) - log(with_b / with_a)
    low = change + with_b * expm1(min(between, 0.0) - reach)
    high = change + with_b * expm1(max(between, 0.0) + reach)
    share, detectable = (
        part / base_ns if base_ns else 0.0 for part in (change, with_a * expm1(found))
    )
    verdict = ""
    if rule.judged:
        reached = max(-low, high)
        verdict = _verdict(low, high, within=reached <= rule.small * base_ns)
    return Change(a_ns, b_ns, change, low, high, share, detectable, verdict)


def _verdict(low: float, high: float, within: bool) -> str:
    if low == high == 0:
        return "same"
    if low > 0 or high < 0:
        return "slower" if low > 0 else "faster"
    return "noise" if within else "unclear"


def _error(of: Sides, rule: Rule) -> tuple[float, int]:
    """The standard error of the logarithm of B over A, and its degrees of freedom."""
    if not any(figure.value_ns for figure in (*of.a, *of.b)):
        return 0.0, FEWEST - 1
    a, b = (_scaled(side, of.rest_ns) for side in (of.a, of.b))
    within = sum(
        float((_errors(side) ** 2 / scaled**2).sum()) / len(side) ** 2
        for side, scaled in ((of.a, a), (of.b, b))
    )
    if not rule.judged:
        return within**0.5, FEWEST - 1
    squares = [float(((np.log(one) - np.log(one).mean()) ** 2).sum()) for one in (a, b)]
    drifted = rule.drift.factor(np.log(a), np.log(b)) if rule.drift else 1.0
    counts = len(a), len(b)
    degrees = sum(counts) - 2
    pooled = sum(squares) / degrees * sum(1 / count for count in counts)
    # Where the sides have not the same number of runs, and the few vary more.
    apart = sum(square / (count - 1) / count for square, count in zip(squares, counts, strict=True))
    return max(drifted * pooled, drifted * apart, within) ** 0.5, degrees


def _mean_log(figures: Sequence[Figure], rest_ns: float) -> float:
    return float(np.log(_scaled(figures, rest_ns)).mean())


def _scaled(figures: Sequence[Figure], rest_ns: float) -> Floats:
    values: Floats = np.array([figure.value_ns for figure in figures])
    scaled: Floats = np.maximum(rest_ns + values, GRAIN_NS)
    return scaled


def _errors(figures: Sequence[Figure]) -> Floats:
    """A run of too few writes says nothing of what varies within it."""
    errors: Floats = np.array([figure.error_ns or 0.0 for figure in figures])
    return errors


def _needed_runs(total: Sides, rule: Rule) -> int | None:
    """How many of each side would find a change of the size that is not small; None: too many."""
    error, _ = _error(total, rule)
    counts = len(total.a), len(total.b)
    variance = error**2 / sum(1 / count for count in counts)
    for runs in range(FEWEST_RUNS, MOST_RUNS + 1):
        degrees = 2 * runs - 2
        reach = quantile(1 - rule.chance / 2, degrees) + quantile(POWER, degrees)
        if reach * (variance * 2 / runs) ** 0.5 <= log1p(rule.small):
            return runs
    return None


def _is_unlike(layer: Layer | None, unlike: Unlike) -> bool:
    return layer is not None and any(
        machine in (ANY, layer.machine) and layer.row.startswith(prefix)
        for machine, prefix in unlike
    )


def _unlike(a: Sequence[Run], b: Sequence[Run]) -> Unlike:
    """What only some of the runs could tell apart (law 4)."""
    gaps = [
        {(machine, gap.layer): gap for gap in run.quality.not_observed
         for machine in gap.machines or (ANY,)}
        for run in (*a, *b)
    ]  # fmt: skip
    in_all = set.intersection(*(set(of_run) for of_run in gaps))
    names = {row.name for row in ROWS}
    found: set[tuple[str, str]] = set()
    for (machine, layer), gap in chain.from_iterable(of_run.items() for of_run in gaps):
        if (machine, layer) not in in_all:
            # "block.Q2G to I2D" is a range of rows: all of the block layer's.
            found.add((machine, f"{layer.partition('.')[0]}." if " to " in layer else layer))
            found |= {(machine, word) for word in gap.merged_into.split() if word in names}
    return frozenset(found)


def _unfollowed(a: Sequence[Run], b: Sequence[Run], layers: Mapping[LayerKey, Layer]) -> Unlike:
    """Where the time is of what hops led to, and of what not, if not all runs followed alike."""
    runs = [*a, *b]
    beyond = {crossing.beyond for run in runs for crossing in run.quality.crossings} - {""}
    parts = [
        # Where nothing leads to another machine, nothing of what was asked of one is followed.
        run.unfollowed
        if run.quality.crossings
        else float(any(layer.segment in beyond for layer in run.layers))
        for run in runs
    ]
    if max(parts) - min(parts) <= MIX_DIFFERENCE:
        return frozenset()
    left = ((layer.machine, layer.row) for layer in layers.values() if layer.segment in beyond)
    return frozenset(chain(left, *(run.quality.crossed for run in runs)))


def _mixed(a: Sequence[Run], b: Sequence[Run], column: str) -> bool:
    names = {name for run in (*a, *b) for name in run.parts[column]}
    return any(
        abs(_part(a, column, name) - _part(b, column, name)) > MIX_DIFFERENCE for name in names
    )


def _part(side: Sequence[Run], column: str, name: str) -> float:
    return sum(run.parts[column].get(name, 0.0) for run in side) / len(side)


def _one_after_the_other(a: Sequence[Run], b: Sequence[Run]) -> bool:
    """Whether all runs of one side are older than all of the other: then time may be the cause."""
    of_a, of_b = ([run.created for run in side] for side in (a, b))
    if min(len(of_a), len(of_b)) < FEWEST_RUNS or not all((*of_a, *of_b)):
        return False
    return max(of_a) < min(of_b) or max(of_b) < min(of_a)


def _regressions(groups: tuple[ComparedGroup, ...], limit: float) -> Iterator[Regression]:
    for group in groups:
        named = [("total", group.total), ("p50", group.p50), ("p99", group.p99)]
        named += [
            (row.layer.name if row.layer else "unattributed", row.change)
            for row in group.rows
            if not row.unlike
        ]
        for name, change in named:
            if change.real and change.share > limit:
                yield Regression(group.name, name, change.share)
