# SPDX-License-Identifier: Apache-2.0
"""Other kinds than synchronous writes: whether a recording has them, and what served reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from iostrata.analysis.path import Path
from iostrata.analysis.quality import errors_of
from iostrata.columns import Ints, coded
from iostrata.errors import NothingToAnalyse
from iostrata.hops import place_of
from iostrata.model import WRITTEN, NotObserved, Op, Writes
from iostrata.stitch import SERVED, read_outside
from iostrata.trace import Trace
from iostrata.units import size

# What must have been recorded for each: of ``enum reads_recorded`` (bpf/shared.h), which a
# trace's environment tells.
NEEDED: Final = {Op.SYNC: 0, Op.DIRECT: 1, Op.READ: 2}
KIND: Final = {Op.READ: "reads", Op.DIRECT: "reads with O_DIRECT"}
# Of several machines, what is on a machine itself.
OWN: Final = frozenset({"page cache", "readahead under way", "device", "device behind a limit"})
NO_PLACE: Final = -1
FAULTS: Final = "page faults of mapped files, or "
# Of what there are methods for, behind the engine's name.
READING: Final = ("read", "read_direct", "fault")


def check_recorded(traces: Sequence[Trace], op: Op) -> None:
    """Errors: NothingToAnalyse."""
    without = [trace.machine for trace in traces if int(trace.env.get("reads", 0)) < NEEDED[op]]
    if without:
        whose = f" of {', '.join(without)}" if len(traces) > 1 else ""
        raise NothingToAnalyse(
            f"the recording{whose} holds no {KIND[op]}: it was not asked for them",
            f"record with --op {op}",
        )


def other_ops(traces: Sequence[Trace]) -> list[Op]:
    """Beside synchronous writes, what the recording was asked for."""
    recorded = min(int(trace.env.get("reads", 0)) for trace in traces)
    return [op for op in (Op.READ, Op.DIRECT) if recorded >= NEEDED[op]]


def faults_of(path: Path) -> Iterator[NotObserved]:
    """What was read in no call and for no fault: that is not looked at, but must not be silent."""
    for member in path.members:
        count, size_bytes = read_outside(member.trace)
        if count:
            seen = errors_of(member.trace).get(b"fault_begin") == 0
            where = f"{member.trace.machine}: " if path.several else ""
            requests = "one request" if count == 1 else f"{count} requests"
            text = (
                f"{where}{requests} ({size(size_bytes)}) of its threads, outside of the calls "
                f"that are recorded: {'' if seen else FAULTS}calls such as sendfile, splice and "
                "readahead"
            )
            yield NotObserved("fault", text, "")


def are_reads(transfers: Writes) -> NDArray[np.bool_]:
    """Which of some transfers read: not those that are written, past the page cache or durably."""
    names = transfers.names["method"]
    reading = np.array([name.endswith(READING) for name in names], np.bool_)
    return reading[transfers.codes["method"]]


def with_served(reads: Writes, served: Ints, path: Path) -> Writes:
    """The reads, with the place that served each as one more column of names; of those that write,
    ``WRITTEN``."""
    known, row = coded(np.where(are_reads(reads), served, NO_PLACE))
    texts = [WRITTEN if code == NO_PLACE else served_from(path, code) for code in known.tolist()]
    names = tuple(dict.fromkeys(texts))
    code = np.array([names.index(text) for text in texts], np.int32)[row]
    return replace(
        reads, codes={**reads.codes, "served": code}, names={**reads.names, "served": names}
    )


def served_from(path: Path, code: int) -> str:
    """What is told of the place that served a read, as ``place_of`` knows it."""
    place, kind = place_of(code)
    name = SERVED[kind]
    return f"{path.graph.machine_at(place)} {name}" if path.several and name in OWN else name
