# SPDX-License-Identifier: Apache-2.0
"""Two sides of runs, layer by layer: what changed."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from iostrata.model.breakdown import Layer, Op, Quality
from iostrata.model.series import ServedInRuns


class Change(Struct, frozen=True):
    """One row of a comparison, from side A to side B, in ns: means over a side's runs.

    ``low_ns``..``high_ns``: the confidence interval of ``change_ns``, which is
    signed. ``share``: the change as a part of A's total mean (of A's own value
    for the total's percentiles); ``detectable``: the least rise that would probably
    be found, likewise. ``verdict``: ``slower``, ``faster``; ``same``: all runs agree;
    ``noise``: any change is small; ``unclear``: it may be large or none; empty: not judged.
    """

    a_ns: float
    b_ns: float
    change_ns: float
    low_ns: float
    high_ns: float
    share: float
    detectable: float
    verdict: str

    @property
    def real(self) -> bool:
        return self.verdict in ("slower", "faster")


class ChangeRow(Struct, frozen=True):
    """``layer`` None: unattributed. ``unlike``: not all runs observed it alike."""

    layer: Layer | None
    change: Change
    unlike: bool


class ChangeServed(Struct, frozen=True):
    """The reads that one place served, in the runs of each side; ``change``: of their shares."""

    a: ServedInRuns
    b: ServedInRuns
    change: float


class ComparedGroup(Struct, frozen=True):
    """Writes of one kind in all runs. Law: the rows' changes add up to the total's.

    ``known``: there is enough for the intervals to mean something. ``needed_runs``: of
    each side, to find a change of the total that is not small; None: not known, or hundreds.
    ``served``: of reads, from where, most of A first.
    """

    name: str
    count_a: int
    count_b: int
    known: bool
    total: Change
    p50: Change
    p99: Change
    rows: tuple[ChangeRow, ...]
    needed_runs: int | None
    served: tuple[ChangeServed, ...] = ()


class Beside(Struct, frozen=True):
    """The own rows of the one machine of ``side`` ("a", "b") are those of ``machine``, which writes
    on the other side."""

    side: str
    machine: str


class Regression(Struct, frozen=True):
    """``row``: ``total``, ``p99`` or a layer's name."""

    group: str
    row: str
    share: float


class Comparison(Struct, frozen=True):
    """Two sides of one run or more each, layer by layer.

    ``confidence``: that all intervals hold; ``power``: how probably what is ``detectable``
    is found. ``judged``: both sides have runs enough for a verdict. ``only_a``, ``only_b``:
    groups that no run of the other has; ``not_in_all``: those that some runs of a side have.
    ``mixes``: columns (``method``, ``size``) of which the two hold different parts.
    ``one_after_the_other``: no run of one side was made between those of the other.
    ``small``: the share below which a change does not matter; ``limit``: that above which
    a real change for the worse is a regression; None: nothing is. ``op``: what the "writes" are.
    ``left_out_a``, ``left_out_b``: those of all runs of a side that were not analysed, by reason.
    ``beside``: whose rows bear another machine's name; None: nobody's. ``on_both``: how many
    runs of A are runs of B.
    """

    confidence: float
    power: float
    grouped_by: str
    runs_a: int
    runs_b: int
    judged: bool
    groups: tuple[ComparedGroup, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    not_in_all: tuple[str, ...]
    mixes: tuple[str, ...]
    one_after_the_other: bool
    small: float
    limit: float | None
    regressions: tuple[Regression, ...]
    quality_a: tuple[Quality, ...]
    quality_b: tuple[Quality, ...]
    op: Op = Op.SYNC
    left_out_a: Mapping[str, int] = field(default_factory=dict)
    left_out_b: Mapping[str, int] = field(default_factory=dict)
    beside: Beside | None = None
    on_both: int = 0

    @property
    def selected(self) -> tuple[str, ...]:
        """What holds for the writes that were compared, where they are not all."""
        chosen = (one.selection for one in (*self.quality_a, *self.quality_b))
        return next((one.by for one in chosen if one), ())
