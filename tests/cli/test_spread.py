# SPDX-License-Identifier: Apache-2.0
"""replay --histogram, --over-time: in the terminal and in JSON, on any width."""

from __future__ import annotations

import json
import re

import pytest

import iostrata
from iostrata.attribute import histogram, over_time, summarise
from iostrata.cli import status_of
from iostrata.report import spread, table
from tests.report.test_golden import RECORDINGS

FOUR, KVM = str(RECORDINGS / "four_methods"), str(RECORDINGS / "kvm_nfs")
BOTH = ("--histogram", "--over-time")


def test_what_is_printed_is_what_the_document_has(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["replay", FOUR, *BOTH]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert status_of(["replay", FOUR, *BOTH, "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert sum(one["writes"] for one in document["histogram"]) == 800
    first = next(number for number, line in enumerate(lines) if line.startswith(" us, from"))
    for line, one in zip(lines[first + 1 :], document["histogram"], strict=False):
        low, high, count, part, *_ = line.split()
        assert [float(low) * 1000, float(high) * 1000] == [one["from_ns"], one["to_ns"]]
        assert int(count) == one["writes"]
        assert part == f"{one['share']:.1%}"
    course = document["over_time"]
    rate = next(line for line in lines if line.startswith("writes/s"))
    assert rate.endswith(f"up to {max(course['writes_per_s']):.0f}")
    assert len(course["mean_ns"]) == len(course["edges_s"]) - 1
    device = next(one for one in course["layers"] if one["layer"] == "device.data")
    told = [part for part in device["shares"] if part is not None]
    line = next(line for line in lines if re.match(r"device\.data .* to \d+%$", line))
    assert line.endswith(f"{min(told):.0%} to {max(told):.0%}")


def test_without_asking_there_is_neither(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_of(["replay", FOUR, "--json", "-"]) == 0
    assert not {"histogram", "over_time"} & json.loads(capsys.readouterr().out).keys()


@pytest.mark.parametrize("recording", [FOUR, KVM])
@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("blocks", [True, False])
def test_it_fits(recording: str, width: int, blocks: bool) -> None:
    breakdown = iostrata.open(recording).analyse()
    bins = histogram(breakdown)
    course = over_time(breakdown, spread.intervals(width))
    lines = [
        *spread.histogram(bins, "write", width, blocks),
        *spread.over_time(course, width, blocks),
    ]
    assert max(len(line.plain.rstrip()) for line in lines) <= width
    assert [one.count for one in bins] == [
        int(line.plain.split()[2]) for line in lines[1 : len(bins) + 1]
    ]
    if not blocks:
        assert all(line.plain.isascii() for line in lines)
    assert "most in" in lines[0].plain or width < 80
    summary = summarise(breakdown)
    assert "us, from" not in table.plain(summary)
