# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser: drawn, alone, light and dark, wide and narrow, by keys, on paper."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from iostrata.cli import status_of
from tests.report.browser import NAME, Browser, started

RECORDINGS = Path(__file__).parents[1] / "recordings"
NAMES = ("four_methods", "kvm_nfs")
MOST_BYTES = 5_000_000
PATIENCE_S = 60
ARROW_RIGHT, END, HOME, TAB, ENTER = 39, 35, 36, 9, 13
# The colours of the pixels of one column of a chart, from its top down, one after the other.
COLUMN = """(() => {{
  const canvas = document.querySelector("[data-chart={name}] canvas");
  const over = document.querySelector("[data-chart={name}] .u-over");
  const x = over.offsetLeft + {part} * over.offsetWidth;
  const found = canvas.getContext("2d").getImageData(x, 0, 1, canvas.height).data;
  const colours = [];
  for (let at = 0; at < found.length; at += 4)
    colours.push("#" + [0, 1, 2].map(n => found[at + n].toString(16).padStart(2, "0")).join(""));
  return colours;
}})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if not shutil.which(NAME):
        pytest.skip("chromium is not installed")
    with started(tmp_path_factory.mktemp("browser") / "profile") as browser:
        yield browser


@pytest.fixture(scope="module", params=NAMES)
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("page") / "page.html"
    assert status_of(["html", str(RECORDINGS / request.param), "-o", str(file), "-q"]) == 0
    return file


@pytest.fixture
def opened(browser: Browser, page: Path) -> Browser:
    browser.look(1280)
    browser.open(page)
    return browser


def test_it_is_drawn_without_complaint_and_asks_for_nothing(opened: Browser, page: Path) -> None:
    assert page.stat().st_size < MOST_BYTES
    assert opened.run("document.querySelectorAll('canvas').length") == 3
    assert not opened.complaints
    asked = [event["request"]["url"] for event in opened.of("Network.requestWillBeSent")]
    assert asked == [page.as_uri()]


def test_a_complaint_is_heard(opened: Browser) -> None:
    opened.run("setTimeout(() => { throw Error('on purpose') }), fetch('x').catch(() => 0)")
    opened.run("new Promise(done => setTimeout(done, 50))")
    assert "on purpose" in str(opened.complaints)
    assert "Content Security Policy" in str(opened.complaints)


@pytest.mark.parametrize("name", ["over_time", "body"])
def test_each_bin_is_drawn_where_it_is(opened: Browser, name: str) -> None:
    """Its lowest layer that is seen, in the middle of the bin."""
    opened.run("window.page = JSON.parse(document.getElementById('data').textContent)")
    stack = opened.run(f"page.charts.{name}")
    colours = [layer["colour"] for layer in opened.run("page.layers")]
    highest = max(map(sum, zip(*stack["mean_ns"], strict=True)))
    edges, seen = stack["edges"], 0
    for number, times in enumerate(zip(*stack["mean_ns"], strict=True)):
        middle = (edges[number] + edges[number + 1]) / 2
        part = (middle - edges[0]) / (edges[-1] - edges[0])
        column = opened.run(COLUMN.format(name=name, part=part))
        for colour, mean_ns in zip(colours, times, strict=True):
            # Of some 200 pixels: two are certain to be of this colour alone.
            if mean_ns > 0.02 * highest:
                assert colour in column, (number, colour)
                seen += 1
            elif not mean_ns:
                assert colour not in column, (number, colour)
    assert seen >= len(stack["counts"]) // 4


def test_an_axis_has_a_unit_that_is_read(opened: Browser) -> None:
    """Not 40000 us: its marks have four digits at most, and it says of what."""
    opened.run("""(() => {
      const before = CanvasRenderingContext2D.prototype.fillText;
      window.drawn = [];
      CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
        drawn.push([this.canvas.closest("[data-chart]").dataset.chart, text]);
        before.call(this, text, ...place);
      };
      dispatchEvent(new Event("resize"));
    })()""")
    until(opened, "new Set(drawn.map(([chart]) => chart)).size === 3")
    page = opened.run("JSON.parse(document.getElementById('data').textContent)")
    for name, stack in page["charts"].items():
        texts = [text for chart, text in opened.run("drawn") if chart == name]
        (unit,) = (text.split()[0] for text in texts if text.endswith((" a write", " a read")))
        marks = [float(text) for text in texts if re.fullmatch(r"[\d.]+", text)]
        highest_ns = max(map(sum, zip(*stack["mean_ns"], strict=True)))
        assert max(marks) < 10_000, name
        if name == "tail":
            # The others' have marks of their own below them.
            assert 0.5 < max(marks) * {"us": 1e3, "ms": 1e6}[unit] / highest_ns < 1.1


def test_it_follows_the_dark_mode(opened: Browser, page: Path) -> None:
    colours = "(at => [at.color, at.backgroundColor])(getComputedStyle(document.body))"
    light_grid, dark_grid = "#d5dbe1", "#343b43"
    ink, paper = opened.run(colours)
    assert lightness(ink) < 60 < 200 < lightness(paper)
    column = opened.run(COLUMN.format(name="body", part=0.5))
    assert light_grid in column
    assert dark_grid not in column
    opened.look(1280, scheme="dark")
    ink, paper = opened.run(colours)
    assert lightness(paper) < 60 < 200 < lightness(ink)
    opened.open(page)
    column = opened.run(COLUMN.format(name="body", part=0.5))
    assert dark_grid in column
    assert light_grid not in column


def lightness(colour: str) -> float:
    parts = [int(part) for part in re.findall(r"\d+", colour)[:3]]
    return sum(parts) / 3


@pytest.mark.parametrize("width", [320, 390, 800])
def test_a_narrow_window_scrolls_downwards_only(browser: Browser, page: Path, width: int) -> None:
    browser.look(width)
    browser.open(page)
    assert browser.run("document.documentElement.scrollWidth") <= width
    widths = "[...document.querySelectorAll('.strip')].map(strip => strip.clientWidth)"
    assert min(browser.run(widths)) > 60


def test_a_table_that_goes_on_fades(browser: Browser, page: Path) -> None:
    """A number that is cut in two would be read as another one."""
    faded = """[...document.querySelectorAll(".wide")].every(box =>
        (box.scrollWidth - box.clientWidth - box.scrollLeft > 1) ===
        (getComputedStyle(box).maskImage !== "none"))"""
    tables = "[...document.querySelectorAll('.wide')]"
    browser.look(390)
    browser.open(page)
    browser.run("document.querySelectorAll('details').forEach(part => { part.open = true })")
    until(browser, faded)
    assert browser.run(f"{tables}.filter(box => box.matches('.more')).length") > 5
    browser.run(f"{tables}.forEach(box => {{ box.scrollLeft = 9999 }})")
    until(browser, faded)
    assert browser.run(f"{tables}.filter(box => box.matches('.more')).length") == 0
    browser.look(1280)
    until(browser, faded)


def until(browser: Browser, condition: str) -> None:
    """Events come when the browser has time for them."""
    end = time.monotonic() + PATIENCE_S
    while not browser.run(condition):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_keys_do_what_the_mouse_does(opened: Browser) -> None:
    focus = "document.activeElement"
    for _ in range(60):
        opened.press("Tab", TAB)
        if opened.run(f"{focus}.closest('[data-chart=body]') && {focus}.matches('.plot')"):
            break
    head = "document.querySelector('[data-chart=body] .legend').textContent"
    assert opened.run(f"getComputedStyle({focus}).outlineStyle") == "solid"
    assert "arrow keys" in opened.run(head)
    for key, code, begin in (("End", END, "p96 to p98: "), ("Home", HOME, "p0 to p2: "),
                             ("ArrowRight", ARROW_RIGHT, "p2 to p4: ")):  # fmt: skip
        opened.press(key, code)
        assert opened.run(head).startswith(begin)
    opened.press("Tab", TAB)
    assert opened.run(f"{focus}.tagName") == "SUMMARY"
    opened.press("Enter", ENTER, "\r")
    assert opened.run(f"{focus}.parentElement.open")


def test_on_paper_all_is_open(opened: Browser) -> None:
    state = "[...document.querySelectorAll('details')].map(part => part.open)"
    before = opened.run(state)
    assert not all(before)
    opened.run(f"addEventListener('beforeprint', () => {{ window.printed = {state} }}), 0")
    assert opened.printed().startswith(b"%PDF")
    assert all(opened.run("printed"))
    assert opened.run(state) == before
    assert not opened.run("document.body.classList.contains('paper')")
