# SPDX-License-Identifier: Apache-2.0
"""The live screen: every layer and its strip, in the room there is."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from iostrata.model import LiveSummary
from iostrata.report.live import ORDERS, View, render
from tests.report.synthetic import SUMMARIES
from tests.report.test_golden import golden


def summary() -> LiveSummary:
    table = SUMMARIES["one_method"]().overall
    strips: dict[tuple[str, str], tuple[float | None, ...]] = {
        (row.layer.machine, row.layer.name): tuple(
            None if interval == 7 else row.figures.mean_ns * (1 + (interval * (number + 3)) % 11)
            for interval in range(40)
        )
        for number, row in enumerate(table.rows)
    }
    strips["", "total"] = tuple(float(interval) for interval in range(40))
    return LiveSummary(
        table=table,
        seconds=10.02,
        sampled=1.0,
        seen_ns=None,
        writes_per_s=tuple(100.0 * (interval % 5) for interval in range(40)),
        strips=strips,
        chosen={"method": "fdatasync"},
        lost={},
    )


@pytest.mark.parametrize("width", [40, 80, 120])
def test_screen(width: int) -> None:
    text = render(summary(), View("iostrata top: every process", width, 30)).plain
    assert max(map(len, text.splitlines())) <= width
    golden(f"live.{width}.txt", text + "\n")


@pytest.mark.parametrize("order", ORDERS)
def test_orders(order: str) -> None:
    found = summary()
    assert found.table
    view = View("x", 80, 30, order=order)
    names = [line.split()[0] for line in render(found, view).plain.splitlines()]
    rows = [row for row in found.table.rows if row.figures.mean_ns]
    keys = {"stack": lambda _: 0, "share": lambda row: -row.figures.share,
            "p99": lambda row: -row.figures.p99_ns}  # fmt: skip
    expected = [row.layer.name for row in sorted(rows, key=keys[order])]
    assert [name for name in names if name in expected] == expected


def test_several_machines_have_titles_in_the_order_of_the_stack() -> None:
    found = summary()
    assert found.table
    lower = tuple(
        replace(
            row, layer=dataclasses.replace(row.layer, machine="host", name=f"host/{row.layer.name}")
        )
        for row in found.table.rows
    )
    both = replace(found, table=replace(found.table, rows=(*found.table.rows, *lower)))
    text = render(both, View("x", 90, 60)).plain
    assert "\nOS of local  " in text
    assert "\ndevice of host\n" in text
    flat = render(both, View("x", 90, 60, order="share")).plain
    assert "of local" not in flat
    assert "  host/device.data" in flat


def test_what_does_not_fit_is_said() -> None:
    text = render(summary(), View("x", 80, 12)).plain
    assert len(text.splitlines()) == 12
    assert "  and 5 smaller ones" in text
    # What holds most is shown, in the order of the stack.
    assert text.index("fs") < text.index("device.data") < text.index("device.flush")
    assert "unattributed" in text
    assert "q quit" in text


def test_losses_samples_and_silence() -> None:
    view = View("x", 80, 30, blocks=False)
    lossy = replace(summary(), lost={"local:syscall": 3, "local:thread": 1})
    assert "lost 4 events so far" in render(lossy, view).plain
    some = replace(summary(), sampled=0.25, seen_ns=33_300_000, error=0.341)
    said = "25.0% is analysed: means may be off by 34%, writes over 33.3 ms missing"
    assert said in render(some, view).plain
    assert "means may be far off, w" in render(replace(some, error=None), view).plain
    assert "some of all writes" in render(replace(some, chosen={}), view).plain
    assert "\nall writes" in render(replace(summary(), chosen={}), view).plain
    assert "no synchronous write" in render(replace(summary(), table=None), view).plain
    assert render(summary(), view).plain.isascii()


@pytest.mark.parametrize("height", [12, 30])
@pytest.mark.parametrize(
    ("count", "told"), [(0, ""), (1, "one call hangs since before"), (3, "3 calls hang since")]
)
def test_calls_that_hang_are_told_of(count: int, told: str, height: int) -> None:
    """In the room that there is, and also where nothing else is to be shown."""
    for found in summary(), replace(summary(), table=None):
        text = render(replace(found, hanging=count), View("x", 80, height)).plain
        assert ("since before this began" in text) == bool(count)
        assert told in text
        assert text.splitlines()[-1].startswith("q quit")
        assert len(text.splitlines()) <= height
