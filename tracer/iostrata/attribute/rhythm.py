# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: a Breakdown in, when its writes became slower, and every how long they are, out.

Only what chance does not make is told. A write is compared with the median of those of its
own kind (method, size, process, device), so that another mix of writes is no onset. An
onset is looked for in the medians of consecutive writes, as a rank sum that is largest
over all splits; a period in the times of episodes of slow writes, as phases that meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import exp, isqrt, log
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from iostrata.attribute.figures import ranked
from iostrata.columns import Ints, coded, distinct, integers, order_of
from iostrata.model import Breakdown, Onset, Period

KINDS: Final = ("method", "process", "device")
FEWEST_WRITES: Final = 400
BLOCKS: Final = 50
EDGE: Final = 8
"""Blocks on either side of an onset, at least."""
RANK_SUM: Final = 4.3
"""In its standard errors: the largest of so many splits of noise exceeds it once in 10,000."""
LARGER: Final = 1.5
"""What is less is not worth a sentence, up or down."""
APART: Final = 3.0
"""In deviations of the blocks' medians: what wanders all the time has no onset."""
SLOW: Final = 2.0
FAR: Final = 8.0
"""In median deviations, what is slow: more than five deviations of what is normal."""
QUIET: Final = 10.0
"""Between two episodes pass so many times what passes between two writes."""
FEWEST_EPISODES, MOST_EPISODES = 6, 5000
TRIED_AT_ONCE: Final = 500
"""Of these all periods are tried, of more those about the one at which fewer meet best: what
tries as many periods as there are episodes takes their square."""
MISSED: Final = 0.3
"""Of all periods, those at which nothing was slow."""
CONCENTRATED: Final = 0.85
ASTRAY: Final = 0.1
"""Of all episodes, those that are in no time with the others."""
CHANCE: Final = 1e-3

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Series:
    """Writes in order of time. ``kind``: those of one kind are comparable; ``level``: logarithm
    of the latency, from the median of the kind on.
    """

    rows: Ints
    passed_ns: Ints
    kind: Ints
    level: Floats


def rhythm(breakdown: Breakdown) -> tuple[Onset | None, Period | None]:
    """Since when writes take longer, or less long; every how long some do. None: not proven."""
    if len(breakdown.writes) < FEWEST_WRITES:
        return None, None
    series = _series(breakdown)
    return onset(breakdown, series), period(breakdown, series)


def onset(breakdown: Breakdown, series: _Series) -> Onset | None:
    """Since when writes take longer, or less long, to the recording's end."""
    bounds = np.linspace(0, len(series.level), BLOCKS + 1).astype(np.int64)
    medians = np.array([_median(series.level[a:b]) for a, b in pairwise(bounds.tolist())])
    split = _split(medians)
    if split is None:
        return None
    low, high = (_median(side) for side in (medians[:split], medians[split:]))
    first, last = bounds[split - EDGE // 2], bounds[split + EDGE // 2]
    at = int(first) + _edge(series.level[first:last], low, high)
    ratio = exp(_median(series.level[at:]) - _median(series.level[:at]))
    if not (ratio >= LARGER or ratio <= 1 / LARGER):
        return None
    after = np.arange(len(series.rows)) >= at
    row, share = _where(breakdown, series, after)
    return Onset(int(series.passed_ns[at]), ratio, row, share)


def period(breakdown: Breakdown, series: _Series) -> Period | None:
    """Every how long some writes take longer."""
    spread = _median(np.abs(series.level))
    slow = series.level > max(log(SLOW), FAR * spread)
    times = series.passed_ns[slow].astype(np.float64)
    if len(times) < FEWEST_EPISODES:
        return None
    passed = np.diff(series.passed_ns)
    gap = QUIET * float(np.mean(ranked(passed, _middle(passed))))
    begins = times[np.append(True, np.diff(times) > gap)]
    found = _period_of(begins)
    if found is None:
        return None
    row, share = _where(breakdown, series, slow)
    ratio = exp(_median(series.level[slow]))
    return Period(round(found), len(begins), ratio, row, share)


def _series(breakdown: Breakdown) -> _Series:
    writes = breakdown.writes
    passed = writes.passed_ns
    rows = np.argsort(passed, kind="stable")
    kind = np.zeros(len(rows), np.int64)
    columns = [integers(writes.codes[name]) for name in KINDS]
    for column in (*columns, writes.size_bytes):
        values, code = coded(column)
        if len(values) > 1:
            kind = coded(kind * len(values) + code)[1]
    kind = kind[rows]
    level = np.log(np.maximum(writes.latency_ns[rows], 1).astype(np.float64))
    if not kind.any():
        return _Series(rows, passed[rows], kind, level - _median(level))
    # One sort instead of a look at all writes for each kind.
    for alike in np.split(order_of(kind), np.cumsum(np.bincount(kind))[:-1]):
        own = level[alike]
        level[alike] = own - _median(own)
    return _Series(rows, passed[rows], kind, level)


def _median(values: Floats) -> float:
    """As NumPy's, which looks longer at what they are."""
    middle = _middle(values)
    return float(np.partition(values, middle)[middle].mean())


def _middle(values: NDArray[Any]) -> list[int]:
    """Places in order of the one, or two, that a median is the mean of."""
    return [(len(values) - 1) // 2, len(values) // 2]


def _split(medians: Floats) -> int | None:
    """Before which block the level changes."""
    count = len(medians)
    rank = np.empty(count)
    rank[np.argsort(medians, kind="stable")] = np.arange(1, count + 1)
    before = np.arange(1, count)
    sums = np.cumsum(rank)[:-1]
    deviation = np.sqrt(before * (count - before) * (count + 1) / 12)
    scores = np.abs(sums - before * (count + 1) / 2) / deviation
    scores[: EDGE - 1] = scores[count - EDGE :] = 0
    split = int(np.argmax(scores)) + 1
    sides = medians[:split], medians[split:]
    low, high = (_median(side) for side in sides)
    within = max(_median(np.abs(side - _median(side))) * 1.48 for side in sides)
    proven = scores[split - 1] > RANK_SUM and abs(high - low) > APART * within
    return split if proven else None


def _edge(level: Floats, low: float, high: float) -> int:
    """Where among these it is that they go from one level to the other."""
    gain = np.abs(level - low) - np.abs(level - high)
    return int(np.argmin(np.append(0.0, np.cumsum(gain))[: len(level)]))


def _period_of(times: Floats) -> float | None:
    """In ns, of episodes that began then."""
    count = len(times)
    if not FEWEST_EPISODES <= count <= MOST_EPISODES:
        return None
    span = float(times[-1] - times[0])
    # Each period has at most one episode, and some have none.
    lowest, highest = 0.95 * (count - 1) / span, (count - 1) / span / (1 - MISSED)
    low, high, some = lowest, highest, min(count, TRIED_AT_ONCE)
    while True:
        passed = times[:some] - times[0]
        step = 1 / (16 * float(passed[-1]))
        tries = np.arange(low, high, step)
        best = float(tries[np.argmax(_met(passed, low, step, len(tries)))])
        if some == count:
            break
        low, high = max(best - 8 * step, lowest), min(best + 8 * step, highest)
        some = min(2 * some, count)
    phases = np.exp(2j * np.pi * best * (times - times[0]))
    concentration = float(np.abs(phases.mean()))
    angle = np.angle(phases / phases.mean()) / (2 * np.pi)
    independent = max((highest - lowest) * span, 1.0)
    rayleigh = independent * exp(-count * concentration**2)
    # That all meet so closely: two of them choose the period, any others do by chance.
    close = independent * count * (2 * float(np.abs(angle).max())) ** (count - 2)
    if concentration < CONCENTRATED or 2 * min(rayleigh, close) > CHANCE:
        return None
    kept = np.abs(angle) < ASTRAY
    cycle = np.round(best * (times - times[0]) - angle)[kept]
    if len(distinct(cycle)) < (1 - ASTRAY) * count:
        return None
    return float(np.polyfit(cycle, times[kept], 1)[0])


def _met(passed: Floats, low: float, step: float, count: int) -> Floats:
    """How closely times meet in the period of each of so many frequencies, ``step`` apart.

    A turn by each is one by a few of them and the rest of it: so few are looked up.
    """
    few = isqrt(count) + 1
    far, rest = (
        np.exp(2j * np.pi * np.outer(frequency, passed))
        for frequency in (low + step * few * np.arange(-(-count // few)), step * np.arange(few))
    )
    met: Floats = np.abs(np.einsum("ip,jp->ij", far, rest)).ravel()[:count]
    return met


def _where(breakdown: Breakdown, series: _Series, chosen: NDArray[np.bool_]) -> tuple[str, float]:
    """The row that has most of the difference between the chosen ones and the others of their
    kind, and its part of it; of the kind that has most of both.
    """
    counts = [np.bincount(series.kind[some], minlength=1 + int(series.kind.max()))
              for some in (chosen, ~chosen)]  # fmt: skip
    kind = series.kind == int(np.argmax(np.minimum(*counts)))
    ours, others = series.rows[kind & chosen], series.rows[kind & ~chosen]
    if not len(ours) or not len(others):
        return "", 0.0
    times = np.vstack([breakdown.time_ns, breakdown.residual_ns])
    change = times[:, ours].mean(axis=1) - times[:, others].mean(axis=1)
    total = float(change.sum())
    most = int(np.argmax(change * np.sign(total)))
    names = [*(layer.name for layer in breakdown.layers), "unattributed"]
    return names[most], float(change[most]) / total if total else 0.0
