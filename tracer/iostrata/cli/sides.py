# SPDX-License-Identifier: Apache-2.0
"""compare's arguments in, the recordings of its two sides out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from iostrata.cli.values import VERSUS, Command
from iostrata.errors import UsageError
from iostrata.recording import runs_in


class TwoSides(Command):
    """A command for which ``--`` stands between two lists, with options on either side of it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, [VERSUS if text == "--" else text for text in args])


def sides(texts: Sequence[str]) -> tuple[list[Path], list[Path]]:
    """``A B``, or several of each with VERSUS between; a directory of recordings is all of them.

    Errors: UsageError.
    """
    if VERSUS in texts:
        at = texts.index(VERSUS)
        a, b = texts[:at], texts[at + 1 :]
    else:
        a, b = texts[:1], texts[1:]
        if len(b) > 1:
            raise UsageError(
                f"which of these {len(texts)} recordings are the first side's?",
                "put -- between the two sides: iostrata compare A1 A2 A3 -- B1 B2 B3",
            )
    if not a or not b or VERSUS in b:
        raise UsageError(
            "two sides are to be compared, with one recording or more each",
            "iostrata compare A B, or iostrata compare A1 A2 A3 -- B1 B2 B3",
        )
    return _runs(a), _runs(b)


def _runs(texts: Sequence[str]) -> list[Path]:
    found: dict[Path, Path] = {}
    for text in texts:
        for run in runs_in(Path(text)) or [Path(text)]:
            if run.resolve() in found:
                raise UsageError(
                    f"{run} is given twice for one side", "a run counts once: record again"
                )
            found[run.resolve()] = run
    return list(found.values())
