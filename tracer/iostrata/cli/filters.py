# SPDX-License-Identifier: Apache-2.0
"""Options that choose writes of a recording in, what is wanted out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from iostrata.attribute import WallTime, Wanted
from iostrata.errors import UsageError

UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
DURATION: Final = re.compile(r"(\d+(?:\.\d*)?) ?(ns|us|ms|s|m|h)", re.ASCII)
TIME: Final = re.compile(r"(\d{4}-\d\d-\d\d[T ])?\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)?")

Since = Annotated[
    str,
    typer.Option(
        "--from", metavar="TIME", show_default=False,
        help="Only writes that began so long after the first one: 30s, 2.5m; or at a time of day "
        "(UTC) and later: 14:03:20.5, 2026-11-22T14:03.",
    ),
]  # fmt: skip
Until = Annotated[
    str, typer.Option("--to", metavar="TIME", show_default=False, help="Only those before.")
]
Process = Annotated[
    list[str] | None,
    typer.Option("--process", metavar="NAME", help="Only writes of this process, or PID."),
]
File = Annotated[
    list[str] | None,
    typer.Option(
        "--file",
        metavar="NAME",
        help="Only to files of this name, path or pattern (*/pg_wal/*); or INODE, DEVICE:INODE.",
    ),
]
SlowerThan = Annotated[
    str,
    typer.Option(
        "--slower-than", metavar="TIME", show_default=False, help="Only writes that took longer."
    ),
]


def wanted(
    since: str,
    until: str,
    processes: Sequence[str] | None,
    files: Sequence[str] | None,
    slower_than: str,
) -> Wanted:
    """Errors: UsageError for what is no time."""
    since_ns, until_ns = _moment("--from", since), _moment("--to", until)
    if isinstance(since_ns, int) and isinstance(until_ns, int) and since_ns >= until_ns:
        raise UsageError(f"--from {since} --to {until}: nothing is between", "swap them")
    return Wanted(
        since_ns=since_ns,
        until_ns=until_ns,
        processes=tuple(processes or ()),
        files=tuple(files or ()),
        slower_ns=_duration("--slower-than", slower_than),
    )


def _moment(option: str, text: str) -> int | WallTime | None:
    if not TIME.fullmatch(text):
        return _duration(option, text)
    try:
        if text[2] == ":":
            time = datetime.fromisoformat(f"1970-01-01T{text}")
        else:
            time = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{option} {text}: {error}", f"{option} 14:03:20") from error
    since_epoch = time.replace(tzinfo=time.tzinfo or UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    told = text if time.tzinfo else f"{text} UTC"
    whole_s = since_epoch.days * 86400 + since_epoch.seconds
    return WallTime(whole_s * 10**9 + since_epoch.microseconds * 1000, text[2] == ":", told)


def _duration(option: str, text: str) -> int | None:
    if not text:
        return None
    match = DURATION.fullmatch(text)
    if not match:
        raise UsageError(f"{option} {text}: no time", f"a number and its unit: {option} 2.5s, 10ms")
    return round(float(match[1]) * UNITS[match[2]])
