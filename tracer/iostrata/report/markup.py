# SPDX-License-Identifier: Apache-2.0
"""Report stage: cells in, pieces of HTML out. What goes in is escaped already."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def swatch(colour: str) -> str:
    return f'<span class="swatch" style="--layer:{colour}"></span>'


def row(cells: Iterable[str], kind: str = "", tag: str = "td") -> str:
    inside = "".join(f"<{tag}>{cell}</{tag}>" for cell in cells)
    return f"<tr{f' class={kind!r}' if kind else ''}>{inside}</tr>"


def table(rows: Iterable[str]) -> Iterator[str]:
    """One that scrolls by itself when it is too wide."""
    yield '<div class="wide" tabindex="0"><table>'
    yield from rows
    yield "</table></div>"
