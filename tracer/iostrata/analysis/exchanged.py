# SPDX-License-Identifier: Apache-2.0
"""Stage analysis: a trace in, of how many requests of libaio another may have the completion out.

Their sum is right, and so is their mean: each of them has one, whichever that is.
"""

from __future__ import annotations

from collections.abc import Iterator

from iostrata.model import NotObserved
from iostrata.stitch import exchanged_of
from iostrata.trace import Trace


def exchanged(trace: Trace) -> Iterator[NotObserved]:
    if count := exchanged_of(trace):
        what = (
            f"{count} are of requests that shared a control block (struct iocb) while under way: "
            "single latencies may be exchanged, not their mean"
        )
        yield NotObserved("libaio's completions", what, "")
