# SPDX-License-Identifier: Apache-2.0
"""Spans as rows: what held a write adds up to its latency, layer by layer as in the table."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from iostrata.analysis import Beside, analyse, prepare, quality_of
from iostrata.cli import status_of
from iostrata.crew import FEWEST
from iostrata.export import spans
from iostrata.hops import lift
from iostrata.recording import open_recording
from iostrata.stitch import window

RECORDINGS = Path(__file__).parents[1] / "recordings"
parquet = pytest.importorskip("pyarrow.parquet")


def rows(recording: Path, file: Path) -> list[dict[str, Any]]:
    assert status_of(["export", str(recording), "--spans", str(file), "--force", "-q"]) == 0
    found: list[dict[str, Any]] = parquet.read_table(file).to_pylist()
    return found


@pytest.mark.parametrize("name", ["four_methods", "ext4_journal", "asynchronous"])
def test_what_held_adds_up(name: str, tmp_path: Path) -> None:
    breakdown = analyse(open_recording(RECORDINGS / name))
    found = rows(RECORDINGS / name, tmp_path / "x.parquet")
    held: Counter[tuple[int, str]] = Counter()
    for row in found:
        assert row["begin_ns"] <= row["end_ns"]
        assert row["machine"] == "local"
        if row["kind"] == "held":
            held[row["write"], row["layer"]] += row["end_ns"] - row["begin_ns"]
    expected: Counter[tuple[int, str]] = Counter()
    for layer, times in zip(breakdown.layers, breakdown.time_ns, strict=True):
        expected.update({(write, layer.name): int(ns) for write, ns in enumerate(times, 1)})
    expected.update(
        {(write, "unattributed"): int(ns) for write, ns in enumerate(breakdown.residual_ns, 1)}
    )
    assert +held == +expected


def test_what_was_at_work_holds_what_held(tmp_path: Path) -> None:
    """Each stretch that a layer held lies within its spans."""
    found = rows(RECORDINGS / "four_methods", tmp_path / "x.parquet")
    work: dict[tuple[int, str], list[tuple[int, int]]] = {}
    for row in found:
        if row["kind"] == "work":
            key = (row["write"], row["layer"])
            work.setdefault(key, []).append((row["begin_ns"], row["end_ns"]))
    assert len(work) > 1000
    for row in found:
        if row["kind"] == "held" and row["layer"] != "unattributed":
            at_work = work[row["write"], row["layer"]]
            assert any(begin <= row["begin_ns"] < end for begin, end in at_work)


def test_batches_are_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ordered(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        return sorted(tuple(row.values()) for row in found)

    whole = rows(RECORDINGS / "xfs_log", tmp_path / "whole.parquet")
    monkeypatch.setattr(spans, "WRITES_AT_ONCE", 7)
    assert ordered(rows(RECORDINGS / "xfs_log", tmp_path / "parts.parquet")) == ordered(whole)
    assert (
        b"iostrata.spans/1"
        in parquet.read_metadata(tmp_path / "whole.parquet").metadata[b"iostrata"]
    )


def test_several_processes_write_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "WRITES_AT_ONCE", 7)
    files = [tmp_path / jobs for jobs in ("1", "3")]
    for file in files:
        words = ["export", str(RECORDINGS / "xfs_log"), "--spans", str(file), "-q"]
        assert status_of([*words, "--jobs", file.name]) == 0
    assert parquet.ParquetFile(files[0]).num_row_groups > FEWEST
    assert files[0].read_bytes() == files[1].read_bytes()


def test_each_window_is_stitched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was left over in it, of which the file says how much, is told by the way."""
    monkeypatch.setattr(window, "WINDOW_PIECES", 7)
    found = prepare(open_recording(RECORDINGS / "xfs_log"))
    every = Mock(wraps=lift)
    monkeypatch.setattr("iostrata.analysis.beside.lift", every)
    file = tmp_path / "x.parquet"
    rows(RECORDINGS / "xfs_log", file)
    assert every.call_count == sum(len(top.windows) for top in found.tops) > 3
    told = json.loads(parquet.read_metadata(file).metadata[b"iostrata"])
    beside = Beside(found, np.arange(len(found.writes)))
    own = quality_of(found.path, found.plain_writes, {})
    assert told["left_over_share"] == round(beside.told(own).left_over_share, 6) > 0
