# SPDX-License-Identifier: Apache-2.0
"""Stage attribute: when the runs of two sides were made in, how much surer they look than they are.

Runs that follow one another have more in common than those that do not: a disk fills, a
cache warms, a neighbour comes and goes. If one side was recorded after the other, what
drifted in between is in the difference of their means, but not in how the runs of each
side differ. The model is the simplest one that has this: what a run has in common with
the next one falls by the same part (``rho``) from run to run. It is estimated from the
runs that follow one another on one side, freed of what their own mean takes from it. Of
so few runs that is a guess, so it is made half a standard error larger, and never less
than what runs of the same thing showed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from iostrata.attribute.batches import Floats

FEWEST_RUNS: Final = 2
LEAST: Final = 0.3
"""As adjacent runs of one command on one machine were alike: without it, 8 % false alarms."""
RHOS: Final = np.linspace(LEAST, 0.95, 27)
CAUTION: Final = 0.5
"""In standard errors of an estimated correlation, each of which is ``1 / sqrt(runs)``."""


@dataclass(frozen=True, eq=False)
class Drift:
    """Of each of ``RHOS``: ``alike``, the correlation of a side's adjacent runs that it would
    show; ``factors``, by how much more the difference of the means varies than it seems to.
    """

    alike: Floats
    factors: Floats
    runs: int

    def factor(self, a: Floats, b: Floats) -> float:
        """Of the difference's variance, 1 and more. ``a``, ``b``: logarithms, in order of time."""
        sides = [side - side.mean() for side in (a, b)]
        spread = sum(float((side**2).sum()) for side in sides)
        if not spread:
            return 1.0
        shown = sum(float((side[1:] * side[:-1]).sum()) for side in sides) / spread
        place = int(np.searchsorted(self.alike, shown + CAUTION / self.runs**0.5))
        return max(1.0, float(self.factors[min(place, len(RHOS) - 1)]))


def drift_of(a: Sequence[str], b: Sequence[str]) -> Drift | None:
    """``a``, ``b``: when the runs of the sides were made, ISO 8601, each side in order of time.

    None: that is not known of all of them, or one of a side tells nothing.
    """
    if not all((*a, *b)) or min(len(a), len(b)) < FEWEST_RUNS:
        return None
    place = np.empty(len(a) + len(b))
    place[sorted(range(len(place)), key=(*a, *b).__getitem__)] = np.arange(len(place))
    lags = np.abs(place[:, None] - place[None, :])
    difference = np.concatenate([np.full(len(a), -1 / len(a)), np.full(len(b), 1 / len(b))])
    sides = slice(0, len(a)), slice(len(a), len(place))

    def within(alike: Floats) -> list[Floats]:
        """How what is left of each side's runs without their mean varies together."""
        return [_centred(alike[side, side]) for side in sides]

    def seen(alike: Floats) -> float:
        return sum(float(np.trace(one)) for one in within(alike))

    matrices = [rho**lags for rho in RHOS]
    alone = np.eye(len(place))
    plain = float(difference @ alone @ difference) / seen(alone)
    return Drift(
        np.array([
            sum(float(np.trace(one, offset=1)) for one in within(matrix)) / seen(matrix)
            for matrix in matrices
        ]),
        np.array([
            float(difference @ matrix @ difference) / seen(matrix) / plain for matrix in matrices
        ]),
        len(place),
    )  # fmt: skip


def _centred(alike: Floats) -> Floats:
    without = alike - alike.mean(axis=0)
    centred: Floats = without - without.mean(axis=1, keepdims=True)
    return centred
