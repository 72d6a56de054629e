# SPDX-License-Identifier: Apache-2.0
"""What is printed adds up: as decimals, layers plus residual are the total."""

from __future__ import annotations

import csv as csv_text
import json as json_text
from decimal import Decimal
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from iostrata.model import Figures, Layer, Quality, Row, Summary, Table
from iostrata.report import REPORTS, csv, json

means = st.floats(min_value=0, max_value=1e9, allow_nan=False)


def figures(mean_ns: float) -> Figures:
    return Figures(mean_ns, mean_ns, mean_ns, mean_ns, mean_ns, 0.5)


@given(st.lists(means, max_size=20), st.floats(min_value=-1e6, max_value=1e6))
def test_printed_means_add_up(layers: list[float], residual: float) -> None:
    rows = tuple(
        Row(Layer(f"layer{number}", "os", "local", ""), figures(mean))
        for number, mean in enumerate(layers)
    )
    table = Table("all", 1, figures(sum(layers) + residual), rows, figures(residual))
    document = read(json.render(Summary(table, "method", (), {}, Quality())))
    printed = sum((layer["mean_ns"] for layer in document["layers"]), Decimal())
    assert printed + document["residual"]["mean_ns"] == document["total_ns"]["mean"]


# Their sum is a bit less than half a thousandth more than what it is printed as.
BETWEEN = [1.8120458126068115, 1.0604921579360962, 1.9897736310958862, 1.9897736310958862,
           199023249.628026, 999999999.6613626, 999999999.628026]  # fmt: skip


@given(st.lists(means, min_size=1, max_size=20))
@example(BETWEEN)
def test_where_nothing_is_left_over_nothing_is_printed(layers: list[float]) -> None:
    rows = tuple(
        Row(Layer(f"layer{number}", "os", "local", ""), figures(mean))
        for number, mean in enumerate(layers)
    )
    summary = Summary(
        Table("all", 1, figures(sum(layers)), rows, figures(0.0)), "method", (), {}, Quality()
    )
    table = read(json.render(summary))
    assert table["residual"]["mean_ns"] == 0
    lines = list(csv_text.DictReader(csv.render(summary).splitlines()))
    total, *others = (Decimal(line["mean_ns"]) for line in lines)
    for printed, whole in (
        ([layer["mean_ns"] for layer in table["layers"]], table["total_ns"]["mean"]),
        (others, total),
    ):
        assert sum(printed) == whole
        assert all(
            abs(one - Decimal(mean)) < Decimal("0.012")
            for one, mean in zip(printed, layers, strict=False)
        )
    assert others[-1] == 0


def test_a_real_difference_is_not_rounded_away() -> None:
    row = Row(Layer("syscall", "os", "local", ""), figures(60.0))
    table = Table("all", 1, figures(100.0), (row,), figures(39.0))
    document = read(json.render(Summary(table, "method", (), {}, Quality())))
    assert document["residual"]["mean_ns"] == 39


def test_every_report_prints_an_empty_group() -> None:
    empty = Table("all", 0, figures(0.0), (), figures(0.0))
    for report in REPORTS:
        assert report.render(Summary(empty, "method", (), {}, Quality())).endswith("\n")


def read(text: str) -> Any:
    return json_text.loads(text, parse_float=Decimal, parse_int=Decimal)
