# SPDX-License-Identifier: Apache-2.0
"""A recording in; what is told of it in every way, and whether that can be so."""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np

from iostrata.analysis import analyse
from iostrata.cli import status_of
from iostrata.errors import STATUS_LOSSES, IostrataError
from iostrata.recording import open_recording

# Of what the program says, what a terminal would take for its own.
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class Unlawful(AssertionError):
    """What was told cannot be so."""


def check(recording: Path, output: Path, command: int) -> str:
    """``analysed`` or ``refused``; ``command``: which of ``commands`` shows it, as well.

    Errors: Unlawful, and whatever else is a bug.
    """
    try:
        found = analyse(open_recording(recording))
    except IostrataError as error:
        if not error.hint:
            raise Unlawful(f"no advice: {error}") from error
        told = "refused"
    else:
        told = "analysed"
        latency = found.writes.latency_ns
        if not np.array_equal(found.time_ns.sum(axis=0) + found.residual_ns, latency):
            raise Unlawful("rows and residual are not the latency")
        if len(latency) and (latency.min() < 0 or found.time_ns.min(initial=0) < 0):
            raise Unlawful("time that is less than none")
        if (found.writes.end_ns < found.writes.begin_ns).any():
            raise Unlawful("a write that ends before it begins")
    possible = commands(recording, output)
    _command(possible[command % len(possible)], told)
    return told


def commands(recording: Path, output: Path) -> list[list[str]]:
    place = str(recording)
    return [
        ["replay", place],
        ["replay", place, "--by", "process", "--json", "-"],
        ["timeline", place, "--slowest", "2"],
        ["estimate", place],
        ["dump", place, "--limit", "20"],
        ["export", place, "--csv", str(output / "x.csv")],
        ["html", place, "-o", str(output / "x.html")],
    ]


def _command(arguments: list[str], told: str) -> None:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = status_of(arguments)
    if "this is a bug" in err.getvalue():
        raise Unlawful(f"{' '.join(arguments[:1])}: {err.getvalue().strip()}")
    if told == "analysed" and arguments[0] == "replay" and status not in (0, STATUS_LOSSES):
        raise Unlawful(f"{arguments[0]} ends with {status}: {err.getvalue().strip()}")
    for text in (out.getvalue(), err.getvalue()):
        if found := CONTROL.search(text):
            raise Unlawful(f"{arguments[0]} prints {found[0]!r}")
    if "--json" in arguments and status in (0, STATUS_LOSSES):
        json.loads(out.getvalue())
