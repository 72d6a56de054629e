# SPDX-License-Identifier: Apache-2.0
"""A trace in, how many of the command's processes still ran as it had ended out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from iostrata.model import NotObserved
from iostrata.trace import Trace

OUTLIVED: Final = "what outlived the command"


def outlived(trace: Trace) -> Iterator[NotObserved]:
    """A recording ends with its command, and not with what that left behind: a daemon, `job &`."""
    end = trace.points["end"]
    if "outlived_count" not in end.fields:
        return
    if count := sum(end["outlived_count"].tolist()):
        which = "a process" if count == 1 else f"{count} processes"
        what = f"{which} of its tree still ran: what they did from then on (see --pid)"
        yield NotObserved(OUTLIVED, what, "")
