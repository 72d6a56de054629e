# SPDX-License-Identifier: Apache-2.0
"""Rows, CSV and Parquet: one row a write, columns that add up, the same in both."""

from __future__ import annotations

import csv
import io
import json
from ctypes import CDLL
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iostrata import native
from iostrata.analysis import analyse
from iostrata.export import csv as csv_file
from iostrata.export.csv import write_csv
from iostrata.export.parquet import write_parquet
from iostrata.export.rows import Column, columns
from iostrata.foreign import cell
from iostrata.model import Breakdown, Quality
from iostrata.recording import open_recording
from tests.report.test_several_machines import recording

RECORDING = Path(__file__).parents[1] / "recordings" / "four_methods"


@pytest.fixture(scope="module")
def breakdown() -> Breakdown:
    return analyse(open_recording(RECORDING))


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_layers_add_up_to_the_latency(breakdown: Breakdown, tmp_path: Path) -> None:
    write_csv(tmp_path / "x.csv", columns(breakdown))
    rows = rows_of(tmp_path / "x.csv")
    assert [int(row["id"]) for row in rows] == list(range(1, len(breakdown.writes) + 1))
    layers = [name for name in rows[0] if name.endswith("_ns")]
    layers = [n for n in layers if n not in ("begin_ns", "end_ns", "realtime_ns", "latency_ns")]
    assert {"device_data_ns", "wakeup_runqueue_ns", "unattributed_ns"} <= set(layers)
    for row in rows:
        assert sum(int(row[name]) for name in layers) == int(row["latency_ns"])
    assert {row["method"] for row in rows} == {"fdatasync", "fsync", "open_datasync", "open_sync"}
    assert {row["device"] for row in rows} == {"vda"}


def test_layers_of_several_machines_have_their_names(tmp_path: Path) -> None:
    found = analyse(open_recording(recording(tmp_path / "chain")))
    names = {column.name for column in columns(found)}
    assert {"guest_syscall_ns", "host_vmm_submit_ns", "server_device_data_ns"} <= names
    assert len(names) == 17 + len(found.layers) + 1


def test_pieces_of_a_file_are_one_file(
    breakdown: Breakdown, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_csv(tmp_path / "whole.csv", columns(breakdown))
    monkeypatch.setattr(csv_file, "ROWS_AT_ONCE", 7)
    for jobs in (1, 3):
        write_csv(tmp_path / "pieces.csv", columns(breakdown), jobs)
        assert (tmp_path / "pieces.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-20_000, 20_000)
NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9)


@pytest.mark.parametrize("library", [native.LIBRARY, None])
@given(
    rows=st.lists(st.tuples(NUMBERS, NUMBERS, NAMES), min_size=1, max_size=60),
    at_once=st.integers(1, 70),
)
def test_csv_is_what_the_csv_module_writes(
    tmp_path_factory: pytest.TempPathFactory,
    library: CDLL | None,
    rows: list[tuple[int, int, str]],
    at_once: int,
) -> None:
    first, second, names = zip(*rows, strict=True)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows(
        [("first", "name", "second"), *zip(first, map(cell, names), second, strict=True)]
    )
    path = tmp_path_factory.getbasetemp() / "x.csv"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_file, "ROWS_AT_ONCE", at_once)
        patch.setattr(native, "LIBRARY", library)
        write_csv(path, [Column("first", np.array(first)),
                         Column("name", np.arange(len(names)), names),
                         Column("second", np.array(second))])  # fmt: skip
    assert path.read_bytes().decode() == text.getvalue()


def test_parquet_holds_the_same(breakdown: Breakdown, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    write_csv(tmp_path / "x.csv", columns(breakdown))
    quality = Quality(lost={"local:block_rq_issue": 3})
    write_parquet(tmp_path / "x.parquet", [columns(breakdown)], lambda: quality)
    table = parquet.read_table(tmp_path / "x.parquet")
    texts = [{name: str(value) for name, value in row.items()} for row in table.to_pylist()]
    assert texts == rows_of(tmp_path / "x.csv")
    found = json.loads(parquet.read_metadata(tmp_path / "x.parquet").metadata[b"iostrata"])
    assert found == {"schema": "iostrata.writes/1", "lost": {"local:block_rq_issue": 3},
                     "damage": [], "left_over_share": 0.0}  # fmt: skip
