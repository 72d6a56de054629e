# SPDX-License-Identifier: Apache-2.0
"""How fast a trace is read, and in how much memory: ``python tests/benchmarks/trace_read.py [N]``.

Each figure is of a process of its own that reads a synthetic trace of N events
(5 million by default): the index alone, and every column of every point.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from iostrata.trace.read import read_trace
from iostrata.trace.write import write_trace

CPUS = 4
PACKET_EVENTS = (100, 4000)
POINTS = (
    "syscall", "ext4_sync_file", "block_bio_queue", "block_io_start", "block_rq_insert",
    "block_rq_issue", "block_rq_complete", "block_bio_complete", "sched_resume",
    "jbd2_start_commit",
)  # fmt: skip


def generate(directory: Path, count: int, packet_events: int) -> None:
    each = count // len(POINTS)
    events = {}
    for index, point in enumerate(POINTS):
        step = np.arange(each, dtype=np.uint64)
        events[point] = {
            "time_ns": step * 10_000 + index * 700,
            "cpu": step % CPUS,
            "tid": step % 64,
        }
    write_trace(directory, events, packet_events=packet_events)


def measure(directory: Path, columns: bool) -> None:
    begin = time.perf_counter()
    trace = read_trace(directory)
    if columns:
        for points in trace.points.values():
            points.columns(*points.fields)
    seconds = time.perf_counter() - begin
    peak = peak_bytes() / (1 << 20)
    print(
        f"{'every column' if columns else 'index':12} {trace.event_count:10} events"
        f" {seconds:6.2f} s {trace.event_count / seconds / 1e6:6.2f} M events/s"
        f" {peak:6.0f} MiB"
    )


def peak_bytes() -> int:
    """Of this program alone: ru_maxrss would begin with the parent's."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[1]) * 1024 if found else 0


def main() -> None:
    if sys.argv[1:2] == ["--measure"]:
        measure(Path(sys.argv[2]), sys.argv[3] == "columns")
        return
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000_000
    for packet_events in PACKET_EVENTS:
        print(f"packets of {packet_events} events")
        with tempfile.TemporaryDirectory() as directory:
            generate(Path(directory), count, packet_events)
            for what in ("index", "columns"):
                command = [sys.executable, __file__, "--measure", directory, what]
                subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
