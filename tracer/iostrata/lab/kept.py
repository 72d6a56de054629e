# SPDX-License-Identifier: Apache-2.0
"""Lab stage: two functions of a machine's kernel in, for how long it kept writes meanwhile out.

The kernel's own function tracer tells when it called them, whatever the recorder sees.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import numpy as np

from iostrata.columns import Union, columns_of, overlapping
from iostrata.errors import LabError
from iostrata.lab.machine import RunningMachine
from iostrata.model import Writes
from iostrata.trace import Trace

TRACING: Final = "/sys/kernel/tracing"
# By the clock that a recording has.
BEGIN: Final = """set -e
mountpoint -q {tracing} || mount -t tracefs none {tracing}
cd {tracing}
echo nop >current_tracer
echo mono >trace_clock
echo {functions} >set_ftrace_filter
echo function >current_tracer
echo 1 >tracing_on"""
END: Final = """set -e
cd {tracing}
echo 0 >tracing_on
cat trace >/run/functions
echo nop >current_tracer
echo >set_ftrace_filter"""
CALL: Final = re.compile(r"^.* \[\d+\] .* (\d+)\.(\d{6}): (\w+) <-", re.MULTILINE)
COUNTS: Final = re.compile(r"^# entries-in-buffer/entries-written: (\d+)/(\d+) ", re.MULTILINE)


@contextmanager
def traced(machine: RunningMachine, functions: tuple[str, str], target: Path) -> Iterator[None]:
    """Calls of the kernel's functions during the block, into the file. Errors: LabError."""
    machine.command(BEGIN.format(tracing=TRACING, functions=" ".join(functions)))
    yield
    machine.command(END.format(tracing=TRACING))
    machine.fetch("/run/functions", target)


def spans_of(text: str, functions: tuple[str, str]) -> Union:
    """From each call of the first function to the next one of the second. LabError: some lost."""
    counts = COUNTS.search(text)
    if not counts or counts[1] != counts[2]:
        raise LabError("the function tracer lost calls, or says nothing")
    begins, ends, begin = [], [], None
    for seconds, microseconds, name in CALL.findall(text):
        time_ns = int(seconds) * 1_000_000_000 + int(microseconds) * 1_000
        if name == functions[0] and begin is None:
            begin = time_ns
        elif name == functions[1] and begin is not None:
            begins.append(begin)
            ends.append(time_ns)
            begin = None
    return Union(np.array(begins, np.int64), np.array(ends, np.int64))


def shared_ns(writes: Writes, spans: Union) -> int:
    """How much of all the writes was in the spans, in ns; both by one clock."""
    return int(spans.within(writes.begin_ns, writes.end_ns).sum())


def kept_ns(writes: Writes, trace: Trace, spans: Union) -> int:
    """How much of all the writes' own waits for a CPU was in the spans, in ns."""
    waits = columns_of(
        trace.points["sched_resume"], "subject_tid", "off_ns", "wake_ns", "state", "time_ns"
    )
    since = np.where(waits["state"] == 0, waits["off_ns"], waits["wake_ns"])
    since = np.where(since > 0, since, waits["time_ns"])
    wait, write = overlapping(
        waits["subject_tid"], since, waits["time_ns"], writes.tid, writes.begin_ns, writes.end_ns
    )
    begin = np.maximum(since[wait], writes.begin_ns[write])
    end = np.minimum(waits["time_ns"][wait], writes.end_ns[write])
    return int(spans.within(begin, end).sum())
