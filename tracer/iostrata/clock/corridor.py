# SPDX-License-Identifier: Apache-2.0
"""Lower and upper limits over time to all straight lines between them (the convex-hull method).

A line is told by its height at both ends of the time looked at, as (ns, ns)
above a line that is known to fit. Each limit is then a half plane, and the lines
that fit are a convex polygon. The box around it holds the truth, and the box's
middle is in it: a convex set that touches all four sides of a box holds its centre.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from iostrata.clock.intervals import Candidates, Pairs
from iostrata.clock.line import DRIFT_BITS, MAX_DRIFT_PPM, Line
from iostrata.model import Ints

Floats = NDArray[np.float64]

TOLERANCE_NS = 1e-3


@dataclass(frozen=True, eq=False)
class Corridor:
    """The lines that pairs allow: heights h with ``sides @ h <= limits``.

    ``line``: what heights count from; ``ends``: first and last time in the
    lower clock; ``sides``: (limits, 2); ``limits``: ns.
    """

    line: Line
    ends: Ints
    sides: Floats
    limits: Floats

    @cached_property
    def corners(self) -> Floats:
        """Heights of the lines that limits hold on two sides, and of ``line``: (corners, 2)."""
        one, other = np.triu_indices(len(self.sides), 1)
        a, b = self.sides[one], self.sides[other]
        area = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
        crossing = np.abs(area) > 1e-12
        a, b, area = a[crossing], b[crossing], area[crossing]
        p, q = self.limits[one[crossing]], self.limits[other[crossing]]
        corners = np.column_stack((p * b[:, 1] - q * a[:, 1], q * a[:, 0] - p * b[:, 0]))
        corners /= area[:, np.newaxis]
        fits = (corners @ self.sides.T <= self.limits + TOLERANCE_NS).all(axis=1)
        return np.vstack((corners[fits], np.zeros((1, 2))))

    @property
    def box(self) -> tuple[Floats, Floats]:
        """The lowest and the highest that a line may be at both ends."""
        return self.corners.min(axis=0), self.corners.max(axis=0)

    @property
    def outermost(self) -> list[Line]:
        """The lines at its corners: between them are all that fit."""
        return [self.at(corner) for corner in self.corners]

    @property
    def middle(self) -> Line:
        """The line that is nowhere further than the bound from any other that fits."""
        low, high = self.box
        return self.at((low + high) / 2)

    @property
    def calmest(self) -> Line:
        """Through the middle of the middle at the same pace if that fits, else the middle.

        Over a short time causality hardly limits the drift, and crystals drift little.
        """
        half = int(self.ends.mean())
        ahead = int(self.middle(np.array([half]))[0]) - half
        level = Line(half, ahead)
        return level if self.clip(level) is level else self.middle

    @property
    def bound_ns(self) -> int:
        """How far any line that fits may be from the middle."""
        low, high = self.reach(self.middle)
        return max(-low, high)

    def over(self, ends: Ints) -> Corridor:
        """The same lines, told by their heights at other times."""
        place = (self.ends - ends[0]) / (ends[1] - ends[0])
        sides = self.sides @ np.column_stack((1 - place, place))
        return Corridor(self.line, ends, sides, self.limits)

    def at(self, heights: Floats) -> Line:
        return Line.through(self.ends, self.line(self.ends) + np.rint(heights).astype(np.int64))

    def clip(self, line: Line) -> Line:
        """The nearest line that fits, on the way to the middle."""
        low, high = self.box
        middle = (low + high) / 2
        way = line(self.ends) - self.line(self.ends) - middle
        room, climb = self.limits - self.sides @ middle, self.sides @ way
        ahead = climb > 0
        part = float(np.min(np.maximum(room[ahead], 0) / climb[ahead], initial=1))
        return self.at(middle + part * way) if part < 1 else line

    def reach(self, line: Line) -> tuple[int, int]:
        """How far below and above a line the others are, at most: ns, negative and positive."""
        low, high = self.box
        height = line(self.ends) - self.line(self.ends)
        return int(np.floor((low - height).min())), int(np.ceil((high - height).max()))


def corridor(candidates: Candidates, pairs: Pairs, line: Line, ends: Ints) -> Corridor:
    """The lines that pairs allow; at least one pair, and a line that fits them all."""
    begins = candidates.serves.begin_ns[pairs.serve]
    finishes = candidates.serves.end_ns[pairs.serve]
    before, after = candidates.slack(pairs, line)
    lower = half_planes(ends, begins, -1, np.maximum(before, 0))
    upper = half_planes(ends, finishes, 1, np.maximum(after, 0))
    sides, limits = zip(lower, upper, drift_limits(ends, line), strict=True)
    return Corridor(line, ends, np.vstack(sides), np.concatenate(limits))


def half_planes(ends: Ints, times: Ints, sign: int, slack: Ints) -> tuple[Floats, Floats]:
    """``sign * height <= slack`` at each time; those only that some line runs into."""
    place = (times - ends[0]) / (ends[1] - ends[0])
    hull = lower_hull(place, slack.astype(np.float64))
    place, limits = place[hull], slack[hull].astype(np.float64)
    return sign * np.column_stack((1 - place, place)), limits


def drift_limits(ends: Ints, line: Line) -> tuple[Floats, Floats]:
    passed, drift = float(ends[1] - ends[0]), line.drift / (1 << DRIFT_BITS)
    sides = np.array([[-1.0, 1.0], [1.0, -1.0]])
    limits = passed * np.array([MAX_DRIFT_PPM / 1e6 - drift, MAX_DRIFT_PPM / 1e6 + drift])
    return sides, np.maximum(limits, 0)


def lower_hull(x: Floats, y: Floats) -> Ints:
    """The rows on the lower side of the convex hull, in order of x.

    A point on or above the line between its neighbours is not needed, whoever these
    are; all such points are taken away together until none is left.
    """
    rows: NDArray[Any] = np.lexsort((y, x))
    rows = rows[np.concatenate(([True], np.diff(x[rows]) > 0))]
    while len(rows) > 2:
        a, p, b = rows[:-2], rows[1:-1], rows[2:]
        turn = (x[b] - x[a]) * (y[p] - y[a]) - (y[b] - y[a]) * (x[p] - x[a])
        keep = np.concatenate(([True], turn < 0, [True]))
        if keep.all():
            break
        rows = rows[keep]
    return rows
