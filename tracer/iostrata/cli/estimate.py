# SPDX-License-Identifier: Apache-2.0
"""iostrata estimate: the arithmetic that needs no tracing, beside what tracing says."""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer
from msgspec import Struct
from rich.console import Console

from iostrata.cli import options
from iostrata.cli.output import check_directory, put
from iostrata.cli.present import STDOUT, terminal_width
from iostrata.cli.story import Story
from iostrata.errors import STATUS_LOSSES, UsageError
from iostrata.model import Estimate, Op
from iostrata.recording import open_recording
from iostrata.report import estimate as report
from iostrata.report import estimate_json
from iostrata.shelf import analysed, answered

NS_A_MS: Final = 1e6


class _Answer(Struct, frozen=True):
    estimate: Estimate
    doubtful: bool


def estimate(
    recording: options.Recording,
    ping: Annotated[
        float | None,
        typer.Option(
            "--ping",
            metavar="MS",
            show_default=False,
            help="Round trip that ping measured with 8 KB; 0: there is no network.",
        ),
    ] = None,
    iops: Annotated[
        float | None,
        typer.Option(
            "--iops",
            metavar="N",
            show_default=False,
            help="Requests a second, one after the other, that the disk was measured to do.",
        ),
    ] = None,
    json: options.JsonOnly = "",
    no_cache: options.NoCache = False,
) -> int:
    """Hold the usual arithmetic against what was measured.

    Without tracing, one takes the network for a ping, the device for 1/IOPS,
    and gives the rest of the latency to the hypervisor. This does it for the
    mean write of a recording, from the recording itself: the round trip that
    TCP knew of, unless that holds the server's time, too, and the requests that
    the disk had one at a time. Your own measurements go before it. Each guess
    stands beside the segment that was measured, with its error.

    \b
      iostrata estimate /var/tmp/path
      iostrata estimate /var/tmp/path --ping 0.5 --iops 4000
    """
    check_directory(json)
    ping_ns = None if ping is None else _sensible("--ping", ping, ping >= 0) * NS_A_MS
    serial = None if iops is None else _sensible("--iops", iops, iops > 0)
    opened, cached = open_recording(recording), not no_cache

    def estimated() -> _Answer:
        # Which is not loaded for what is known.
        from iostrata.analysis import Given, prepare  # noqa: PLC0415
        from iostrata.analysis import estimate as estimated_of  # noqa: PLC0415

        found = prepare(opened)
        breakdown = analysed(opened, cached=cached, found=found)
        made = estimated_of(found, breakdown, Given(ping_ns, serial))
        return _Answer(made, breakdown.quality.doubtful)

    question = f"estimate {ping_ns} {serial}"
    answer = answered(opened, Op.SYNC, question, _Answer, estimated, cached)
    if json == STDOUT:
        sys.stdout.write(estimate_json.render(answer.estimate))
    else:
        put(json, estimate_json.render(answer.estimate))
        width = terminal_width()
        console = Console(file=sys.stdout, width=width, highlight=False, soft_wrap=True)
        console.print(report.render(answer.estimate, width), end="")
    if answer.doubtful:
        Story(False).say(
            "the recording has losses or damage, or much left out or over: see iostrata replay"
        )
        return STATUS_LOSSES
    return 0


MOST: Final = 1e12
"""Of milliseconds or of requests a second: nobody measures more, or less than one in so many."""


def _sensible(option: str, value: float, sensible: bool) -> float:
    if not sensible or value > MOST or 0 < value < 1 / MOST:
        raise UsageError(f"{option} {value:g} cannot be", f"give {option} what you measured")
    return value
