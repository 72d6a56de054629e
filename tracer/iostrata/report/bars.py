# SPDX-License-Identifier: Apache-2.0
"""Report stage: numbers as bars and strips of characters."""

from __future__ import annotations

from collections.abc import Sequence

from iostrata.report.waterfall import DENSITIES, HEIGHTS


def bar(part: float, width: int, blocks: bool) -> str:
    """``part`` (0..1) of ``width``, to an eighth of a character; nothing for a negative one."""
    eighths = round(max(0.0, min(part, 1.0)) * width * 8)
    if not blocks:
        return "#" * round(eighths / 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (" ▏▎▍▌▋▊▉"[rest] if rest else "")


def strip(values: Sequence[float | None], full: float, blocks: bool) -> str:
    """A character a value, as high as it is a part of ``full``; a space for none, or nothing."""
    levels = HEIGHTS if blocks else DENSITIES
    return "".join(
        levels[min(int(value / full * len(levels)), len(levels) - 1)]
        if value and value > 0
        else " "
        for value in values
    )
