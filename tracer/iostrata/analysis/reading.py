# SPDX-License-Identifier: Apache-2.0
"""Reads: whether a recording can be asked for them, and where they were served from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from iostrata.columns import Ints
from iostrata.errors import NothingToAnalyse, UsageError
from iostrata.model import Writes
from iostrata.stitch import SERVED
from iostrata.trace import Trace

EVERY: Final = 2
"""Of ``enum reads_recorded`` (bpf/shared.h), which a trace's environment tells."""


def check_reads(traces: Sequence[Trace]) -> None:
    """Errors: NothingToAnalyse, UsageError."""
    if len(traces) > 1:
        raise UsageError(
            "reads are not followed from machine to machine yet",
            "ask the recording of one machine alone: give its directory",
        )
    if any(int(trace.env.get("reads", 0)) < EVERY for trace in traces):
        raise NothingToAnalyse(
            "the recording holds no reads: it was not asked for them", "record with --op read"
        )


def no_reads(left_out: Mapping[str, int], damage: Sequence[str]) -> NothingToAnalyse:
    reasons = [f"{reason} ({count})" for reason, count in left_out.items()]
    if not reasons and not damage:
        return NothingToAnalyse(
            "the recording holds no read of a file",
            "pipes, sockets and terminals do not count; check that the filter names the process",
        )
    return NothingToAnalyse(
        f"every read had to be left out: {'; '.join([', '.join(reasons), *damage])}",
        "record again, with a larger --buffer where events were lost",
    )


def with_served(reads: Writes, served: Ints) -> Writes:
    """The reads, with the place that served each as one more column of names."""
    codes = {**reads.codes, "served": served.astype(np.int32)}
    return replace(reads, codes=codes, names={**reads.names, "served": SERVED})
