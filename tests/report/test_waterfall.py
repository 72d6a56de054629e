# SPDX-License-Identifier: Apache-2.0
"""Waterfalls as printed, compared with tests/report/golden; IOSTRATA_REWRITE=1 rewrites."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from iostrata.analysis import timelines
from iostrata.attribute.choice import Choice
from iostrata.model import Quality
from iostrata.recording import open_recording
from iostrata.report import timeline_json, waterfall
from tests.report.test_golden import golden

FIO = Path(__file__).parents[1] / "recordings" / "ext4_journal"
WIDTHS = [40, 60, 80, 120]


@pytest.mark.parametrize("width", WIDTHS)
def test_waterfall(width: int) -> None:
    seen = timelines(open_recording(FIO), Choice(slowest=1, near=(50,)))
    text = waterfall.render(seen.timelines, seen.quality, width, steps=10).plain
    assert max(map(len, text.splitlines())) <= width
    assert not any(line.endswith(" ") for line in text.splitlines())
    golden(f"waterfall.{width}.txt", text)


def test_without_block_characters_steps_or_luck() -> None:
    seen = timelines(open_recording(FIO), Choice(numbers=(1,)))
    quality = Quality(lost={"local:block_rq_issue": 3}, damage=("cpu_1: packet 2: checksum",))
    text = waterfall.render(seen.timelines, quality, blocks=False, steps=0).plain
    assert text.isascii()
    assert "behind it" not in text
    assert "lost        local:block_rq_issue (3)\ndamage      cpu_1: packet 2" in text


def test_json() -> None:
    seen = timelines(open_recording(FIO), Choice(slowest=1))
    document = json.loads(timeline_json.render(seen.timelines, seen.quality))
    (write,) = document["writes"]
    assert document["schema"] == "iostrata.timeline/1"
    took = sum(step["end_ns"] - step["begin_ns"] for step in write["steps"])
    assert took == sum(layer["time_ns"] for layer in write["layers"]) == write["latency_ns"]
