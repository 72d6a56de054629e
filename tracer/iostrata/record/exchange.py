# SPDX-License-Identifier: Apache-2.0
"""Record stage: questions for a machine's clock in, the fact ``exchange`` of its trace out.

A row is one question: when it was sent and answered by this machine's
CLOCK_MONOTONIC, and what that machine's said in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from iostrata.trace import write_whole

FILE: Final = "facts/exchange"


class Probe(NamedTuple):
    sent_ns: int
    remote_ns: int
    received_ns: int


def write_exchange(trace: Path, probes: Iterable[Probe]) -> None:
    """Beside the other facts of the trace."""
    rows = ["\t".join(Probe._fields), *("\t".join(map(str, probe)) for probe in probes)]
    file = trace / FILE
    file.parent.mkdir(exist_ok=True)
    write_whole(file, ("\n".join(rows) + "\n").encode())
