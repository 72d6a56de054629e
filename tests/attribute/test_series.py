# SPDX-License-Identifier: Apache-2.0
"""Several runs of one thing: means over runs, and intervals that hold what they should."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from iostrata.attribute import series
from iostrata.attribute.run import Figure, Run, RunGroup
from iostrata.report import series as report
from tests.attribute.test_compare import runs

# t of two degrees of freedom, 97.5 %.
T_2 = 4.302652729911275


def made(template: Run, total_ns: float) -> Run:
    """A run whose only figure is its total, all unattributed."""
    figure = Figure(total_ns, None)
    group = RunGroup(10, figure, figure, figure, {}, figure)
    return replace(template, layers=(), groups={"all": group})


def test_every_run_counts_alike() -> None:
    found = runs(1, 3, level=0.4)
    totals = [run.groups["all"].total.value_ns for run in found]
    (group,) = series(found).groups
    reach = T_2 * np.std(totals, ddof=1) / 3**0.5
    assert list(group.total.runs_ns) == totals
    assert group.total.mean_ns == pytest.approx(np.mean(totals))
    assert group.total.high_ns == pytest.approx(np.mean(totals) + reach)
    assert sum(row.figure.mean_ns for row in group.rows) == pytest.approx(group.total.mean_ns)
    assert sum(row.share for row in group.rows) == pytest.approx(1)


@pytest.mark.parametrize("count", [2, 5])
def test_the_interval_holds_the_mean_of_all_runs(count: int) -> None:
    """In 95 % of series: of 1000, within three deviations of that."""
    random = np.random.default_rng(7)
    (template,) = runs(1, 1)
    held = 0
    for totals in random.normal(100_000, 5_000, (1_000, count)).tolist():
        (group,) = series([made(template, total) for total in totals]).groups
        held += group.total.low_ns <= 100_000 <= group.total.high_ns
    assert abs(held - 950) <= 3 * (1_000 * 0.95 * 0.05) ** 0.5


def test_a_row_that_only_some_runs_have_is_nothing_in_the_others() -> None:
    one, other = runs(1, 2)
    layer = one.layers[0]
    left = {key: figure for key, figure in other.groups["all"].layers.items()
            if key != (layer.machine, layer.name)}  # fmt: skip
    without = replace(other, groups={"all": replace(other.groups["all"], layers=left)})
    found = series([one, without])
    row = next(row for row in found.groups[0].rows if row.layer == layer)
    mine = one.groups["all"].layers[layer.machine, layer.name].value_ns
    assert list(row.figure.runs_ns) == [mine, 0]
    # What takes time takes no less than none.
    assert row.figure.low_ns == 0
    assert f"all: 2 runs, {one.groups['all'].count} writes in each" in report.plain(found)


def test_groups_that_only_some_runs_have_are_named() -> None:
    one, other = runs(1, 2)
    more = replace(one, groups={**one.groups, "rare": one.groups["all"]})
    found = series([more, other])
    assert [group.name for group in found.groups] == ["all"]
    assert found.not_in_all == ("rare",)
    assert "rare: only some runs have it" in report.plain(found)
