# SPDX-License-Identifier: Apache-2.0
"""The lines below the table."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from iostrata.report import table
from tests.report.synthetic import one_method


@pytest.mark.parametrize("plain_writes", [0, 9000])
def test_own_cost_is_of_a_synchronous_write(plain_writes: int) -> None:
    """However many plain ones there were besides."""
    summary = one_method()
    quality = dataclasses.replace(summary.quality, plain_writes=plain_writes)
    text = table.render(replace(summary, quality=quality), 120).plain
    (line,) = [line for line in text.splitlines() if line.startswith("own cost")]
    assert line.startswith("own cost    1.90 us of BPF a ")
    assert ("plain" in line) == (plain_writes > 0)


@pytest.mark.parametrize("by", ["cgroup", "container", "process"])
def test_groups_that_are_not_known_are_told_of(by: str) -> None:
    """Also where all are of the one that has no name, and so there is no list of groups."""
    summary = one_method()
    groups = (replace(summary.overall, name="unknown"),)
    text = table.render(replace(summary, grouped_by=by, groups=groups), 120).plain
    count = summary.overall.count
    said = (
        f"not seen    the cgroup of {count} of {count} writes (unknown): not told, or gone before"
    )
    assert (said in text) == (by != "process")
