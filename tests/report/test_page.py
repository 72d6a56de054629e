# SPDX-License-Identifier: Apache-2.0
"""The page: whole, alone and safe."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from msgspec.structs import replace

from iostrata.analysis import Given, breakdown_of, estimate, prepare, timelines_of
from iostrata.attribute.charts import charts
from iostrata.attribute.choice import Choice
from iostrata.attribute.selection import by_segment
from iostrata.attribute.summarise import summarise
from iostrata.layers import ROWS
from iostrata.model import Fact, Layer
from iostrata.recording import open_recording
from iostrata.report.legend import COLOURS, Legend, shaded
from iostrata.report.page import Page, render
from tests.report.test_several_machines import recording

RECORDING = Path(__file__).parents[1] / "recordings" / "four_methods"
EVIL = "</script><script>alert(1)</script>"


@pytest.fixture(scope="module")
def page() -> Page:
    found = prepare(open_recording(RECORDING))
    breakdown = breakdown_of(found)
    return Page(
        "four_methods",
        summarise(breakdown),
        charts(breakdown),
        timelines_of(found, Choice(slowest=1, near=(50,))),
        {"The machine": (Fact("command", "fio"),)},
    )


class Tags(HTMLParser):
    """Counts tags, and finds what is not closed."""

    VOID = frozenset({"meta"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def parsed(text: str) -> Tags:
    tags = Tags()
    tags.feed(text)
    return tags


def test_it_is_whole_and_needs_nothing_else(page: Page) -> None:
    text = render(page)
    tags = parsed(text)
    assert not tags.open
    assert tags.seen.count("script") == 3
    targets = set(re.findall(r'id="([a-z]+)"', text))
    assert {link.removeprefix("#") for link in tags.links} <= targets
    assert "The MIT License (MIT)" in text
    assert text == render(page)


def test_every_layer_has_a_colour() -> None:
    assert {row.name for row in ROWS} <= set(COLOURS)
    assert len(set(COLOURS.values())) == len(COLOURS)


def test_no_two_machines_have_one_colour() -> None:
    layers = [Layer(f"{machine}/{row.name}", "OS", machine, "")
              for machine in ("guest", "host", "server") for row in ROWS]  # fmt: skip
    legend = Legend.of(layers)
    assert len({legend.colour(layer) for layer in layers}) == len(layers)
    assert legend.colour(layers[0]) == COLOURS[layers[0].row]
    assert all(re.fullmatch("#[0-9a-f]{6}", legend.colour(layer)) for layer in (*layers, None))


def test_what_was_recorded_is_only_text(page: Page) -> None:
    composition = {**page.summary.composition, "process": {EVIL: 1}}
    (first, *others) = page.timelines
    evil = replace(
        page,
        name=EVIL,
        summary=replace(
            page.summary,
            composition=composition,
            left_out={EVIL: 1},
            groups=(replace(page.summary.groups[0], name=EVIL), *page.summary.groups[1:]),
        ),
        timelines=(replace(first, names=dict(first.names) | {"process": EVIL}), *others),
        facts={EVIL: (Fact("command", EVIL),)},
    )
    text = render(evil)
    assert "alert(1)" in text
    assert EVIL not in text
    assert parsed(text).seen.count("script") == 3


def test_several_machines(tmp_path: Path) -> None:
    """Segments head rows of one name, and tell them apart where they stand alone."""
    found = prepare(open_recording(recording(tmp_path / "chain")))
    breakdown = breakdown_of(found)
    several = Page(
        "chain",
        summarise(breakdown),
        charts(by_segment(breakdown)),
        timelines_of(found, Choice(near=(50,))),
        {"Machine guest": (), "Machine host": (), "Machine server": ()},
        estimate(found, breakdown, Given(500_000)),
    )
    text = render(several)
    assert not parsed(text).open
    for title in ("guest OS", "hypervisor", "host OS", "network", "server OS"):
        assert text.count(f">{title}</td>") >= 2
        assert f'<span class="segment">{title}</span>' in text
        assert f"{title} <b></b>" in text
        assert f'"name":"{title}","colour":"{COLOURS[title]}"' in text
    for colour in (COLOURS["block.Q2D"], shaded(COLOURS["block.Q2D"], 1)):
        assert f"--layer:{colour}" in text
    assert text.count('href="#estimate"') == text.count('id="estimate"') == 1
    assert "nfs ±" in text
    assert "guest to host (virtio): 40 of 40 followed by key" in text
    assert render(replace(several, estimate=None)).count("#estimate") == 0


def test_a_write_of_very_many_steps_is_shown_whole(page: Page) -> None:
    (timeline, *_) = page.timelines
    (lane, *_) = timeline.lanes
    width_ns = timeline.latency_ns // 1000
    steps = tuple(
        replace(timeline.steps[0], layer=lane.layer, begin_ns=begin, end_ns=begin + width_ns // 2,
                called_ns=begin)
        for begin in range(0, 1000 * width_ns, width_ns)
    )  # fmt: skip
    many = replace(timeline, lanes=(lane,), steps=steps)
    text = render(replace(page, timelines=(many,)))
    assert text.count(";opacity:") > 290
    assert "1000 steps in all, the longest shown" in text
