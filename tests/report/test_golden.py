# SPDX-License-Identifier: Apache-2.0
"""Reports, compared byte by byte with tests/report/golden; IOSTRATA_REWRITE=1 writes them anew."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from iostrata.analysis import analyse
from iostrata.attribute.compare import compare
from iostrata.attribute.run import Run, run_of
from iostrata.attribute.summarise import summarise
from iostrata.recording import open_recording
from iostrata.report import comparison, comparison_json, csv, json, table
from tests.report.synthetic import SUMMARIES

GOLDEN = Path(__file__).parent / "golden"
RECORDINGS = Path(__file__).parents[1] / "recordings"


def golden(name: str, text: str) -> None:
    path = GOLDEN / name
    if os.environ.get("IOSTRATA_REWRITE"):
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("name", SUMMARIES)
def test_table(name: str, width: int) -> None:
    text = table.render(SUMMARIES[name](), width).plain
    assert max(map(len, text.splitlines())) <= width
    assert not any(line.endswith(" ") for line in text.splitlines())
    golden(f"{name}.{width}.txt", text)


def test_table_without_block_characters() -> None:
    text = table.render(SUMMARIES["one_method"](), blocks=False).plain
    assert text.isascii()
    golden("one_method.ascii.txt", text)


@pytest.mark.parametrize("name", SUMMARIES)
def test_json(name: str) -> None:
    golden(f"{name}.json", json.render(SUMMARIES[name]()))


@pytest.mark.parametrize("name", SUMMARIES)
def test_csv(name: str) -> None:
    golden(f"{name}.csv", csv.render(SUMMARIES[name]()))


@pytest.mark.parametrize("width", [40, 60, 80])
def test_tail(width: int) -> None:
    summary = summarise(analyse(open_recording(RECORDINGS / "ext4_journal")))
    text = table.render(summary, width, with_tail=True).plain
    assert max(map(len, text.splitlines())) <= width
    golden(f"tail.{width}.txt", text)


def test_tail_of_too_few_writes() -> None:
    assert "996 writes are too few" in table.render(SUMMARIES["one_method"](), with_tail=True).plain


def recorded(name: str, by: str = "") -> Run:
    return run_of(analyse(open_recording(RECORDINGS / name)), by)


@pytest.mark.parametrize("width", [40, 60, 80])
def test_comparison(width: int) -> None:
    """As if all runs had been alike: then the writes within them say how sure it is."""
    before, after = (recorded(name, "method") for name in ("xfs_log", "four_methods"))
    found = compare([before] * 5, [after] * 5, "method", limit=0.1)
    names = comparison.Names(["before"], ["after"])
    text = comparison.render(found, names, width).plain
    assert max(map(len, text.splitlines())) <= width
    golden(f"comparison.{width}.txt", text)


@pytest.mark.parametrize("width", [40, 80])
def test_comparison_of_single_runs(width: int) -> None:
    found = compare([recorded("xfs_log")], [recorded("four_methods")])
    text = comparison.render(found, comparison.Names(["before"], ["after"]), width).plain
    assert max(map(len, text.splitlines())) <= width
    golden(f"comparison_single.{width}.txt", text)


def test_comparison_json() -> None:
    found = compare([recorded("xfs_log")] * 2, [recorded("ext4_journal")] * 2, limit=0.1)
    golden("comparison.json", comparison_json.render(found))


def test_a_doubtful_run_is_told() -> None:
    run = recorded("xfs_log")
    doubtful = replace(run, quality=replace(run.quality, left_over_share=0.5))
    found = compare([run] * 2, [run, doubtful])
    text = comparison.plain(found, comparison.Names(["before"], ["after"]))
    assert "\nleft over   B: writes slept beside" in text
    assert "A: writes slept" not in text
    unseen = replace(run, quality=replace(run.quality, unseen_share=0.25))
    text = comparison.plain(compare([run, unseen], [run] * 2), comparison.Names(["a"], ["b"]))
    assert "\nleft out    A: 25% of the writes that ended" in text
    assert "left over" not in text
