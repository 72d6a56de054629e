# SPDX-License-Identifier: Apache-2.0
"""Options that choose writes of a recording in, what is wanted out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from iostrata.attribute import Wanted
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
FILE: Final = re.compile(r"(.+:)?\d+", re.ASCII)

Since = Annotated[
    str,
    typer.Option(
        "--from", metavar="TIME", show_default=False,
        help="Only writes that began so long after the first one: 30s, 2.5m.",
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
    typer.Option("--file", metavar="INODE", help="Only to this file; DEVICE:INODE for one disk's."),
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
    """Errors: UsageError for what is no time or no inode."""
    for file in files or ():
        if not FILE.fullmatch(file):
            raise UsageError(
                f"--file {file}: no inode's number", "--file 12, or --file vda:12; ls -i tells it"
            )
    since_ns, until_ns = _duration("--from", since), _duration("--to", until)
    if since_ns is not None and until_ns is not None and since_ns >= until_ns:
        raise UsageError(f"--from {since} --to {until}: nothing is between", "swap them")
    return Wanted(
        since_ns=since_ns,
        until_ns=until_ns,
        processes=tuple(processes or ()),
        files=tuple(files or ()),
        slower_ns=_duration("--slower-than", slower_than),
    )


def _duration(option: str, text: str) -> int | None:
    if not text:
        return None
    match = DURATION.fullmatch(text)
    if not match:
        raise UsageError(f"{option} {text}: no time", f"a number and its unit: {option} 2.5s, 10ms")
    return round(float(match[1]) * UNITS[match[2]])
