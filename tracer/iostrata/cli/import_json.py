# SPDX-License-Identifier: Apache-2.0
"""What `iostrata import` made as JSON, schema ``iostrata.import/1``."""

from __future__ import annotations

from msgspec import Struct

from iostrata.report import Count, text
from iostrata.script import Brought


class Import(Struct, frozen=True, tag_field="schema", tag="iostrata.import/1"):
    """What a file of bpftrace's lines became.

    ``recording``: its directory. ``lost``: events that are missing. ``bad_lines``: lines that
    could not be read; ``first_bad_line``: the number of the first one, from 1, null if there is
    none. ``whole``: bpftrace ended by itself. ``cut``: of which of ``partitions`` and
    ``mountinfo`` bpftrace printed a part only.
    """

    recording: str
    hostname: str
    kernel: str
    events: Count
    duration_ns: Count
    lost: Count
    bad_lines: Count
    first_bad_line: Count | None
    whole: bool
    cut: list[str]


def render(brought: Brought, recording: str) -> str:
    return text(
        Import(
            recording=recording,
            hostname=brought.hostname,
            kernel=brought.kernel,
            events=brought.events,
            duration_ns=brought.duration_ns,
            lost=brought.lost,
            bad_lines=brought.bad,
            first_bad_line=brought.first_bad or None,
            whole=brought.whole,
            cut=list(brought.cut),
        )
    )
