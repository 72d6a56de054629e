# SPDX-License-Identifier: Apache-2.0
"""Two machines whose clocks' relation is known: what one asked, what the other served."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from iostrata.clock.intervals import Intervals
from iostrata.clock.line import Line
from iostrata.model import Ints

HOUR_NS = 3_600_000_000_000


@dataclass(frozen=True)
class Clock:
    """What a clock shows at a true time since the begin of the recording, ns."""

    start_ns: int
    drift_ppm: float = 0.0

    def __call__(self, true_ns: np.ndarray) -> Ints:
        shown: Ints = self.start_ns + np.rint(true_ns * (1 + self.drift_ppm / 1e6)).astype(np.int64)
        return shown


UPPER = Clock(5 * HOUR_NS)
LOWER = Clock(2 * HOUR_NS, -50.0)


@dataclass(frozen=True)
class Load:
    """Jobs that write one thing after the other; times are means, ns.

    ``steady``: the part of each time that never varies; the rest is exponential.
    ``lost``: of each machine's rows, those not recorded; ``mistaken``: of the
    serves, those whose key is another's.
    """

    count: int = 2000
    jobs: int = 4
    keys: int = 2048
    there_ns: float = 80e3
    serve_ns: float = 500e3
    back_ns: float = 60e3
    think_ns: float = 50e3
    steady: float = 0.7
    lost: float = 0.05
    mistaken: float = 0.0
    upper: Clock = UPPER
    lower: Clock = LOWER

    def run(self, seed: int) -> World:
        random = np.random.default_rng(seed)
        times = np.concatenate([self._job(random) for _ in range(self.jobs)], axis=1)
        times = times[:, np.argsort(times[0])]
        key = random.integers(0, self.keys, (times.shape[1],))
        mistaken = random.random(len(key)) < self.mistaken
        wrong = np.where(mistaken, random.integers(0, self.keys, len(key)), key)
        asks = Intervals(key, self.upper(times[0]), self.upper(times[3]))
        serves = Intervals(wrong, self.lower(times[1]), self.lower(times[2]))
        return World(
            asks.take(random.random(len(key)) >= self.lost),
            serves.take(random.random(len(key)) >= self.lost),
            self.upper(times[1]),
            self.lower(times[1]),
        )

    def _job(self, random: np.random.Generator) -> np.ndarray:
        """Begin of ask and serve, end of serve and ask: one column a write."""
        steps = np.array([self.there_ns, self.serve_ns, self.back_ns, self.think_ns])[:, np.newaxis]
        varying = random.exponential(1 - self.steady, (4, self.count // self.jobs))
        spent = steps * (self.steady + varying) if self.steady < 1 else steps + 0 * varying
        begin = np.concatenate(([0], np.cumsum(spent.sum(axis=0))[:-1]))
        return begin + np.vstack((np.zeros(len(begin)), np.cumsum(spent, axis=0)[:3]))


@dataclass(frozen=True)
class World:
    """``upper_ns`` and ``lower_ns``: what both clocks showed at the same moments."""

    asks: Intervals
    serves: Intervals
    upper_ns: Ints = field(repr=False)
    lower_ns: Ints = field(repr=False)

    def error_ns(self, line: Line) -> int:
        """How far a line is from the truth, at most."""
        return int(np.abs(line(self.lower_ns) - self.upper_ns).max())
