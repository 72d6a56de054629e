# SPDX-License-Identifier: Apache-2.0
"""What a hit costs this recorder and another commit's, as root, on a machine as busy as it may be.

    python -m tests.benchmarks.recorders [COMMIT] [--rounds N] [--writes N] [--directory DIR]
                                         [--method WORD ...]

Both record the same process at the same time, so that whatever happens, happens to both. Who is
attached first runs first, and has the caches to warm: they take turns, and a ratio is the
geometric mean of two rounds. Without a commit this recorder stands against itself, which says how
far such a ratio can be trusted. Times are by the kernel itself (kernel.bpf_stats_enabled), which
is in them itself: programs that do nothing, at the same points and at the same time, say how much
of a hit that is, and what is above theirs is what a recorder does.
The writer goes before all that is not real-time: a write that waits for others counts their hits.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from iostrata.record.recorder import find_recorder
from iostrata.trace.read import read_trace
from tests.benchmarks.parts.floor import floor_of
from tests.benchmarks.parts.recording import Recording, recorder_of
from tests.benchmarks.parts.spent import Spent, of_programs, tell

WRITER = """
import mmap, os, sys
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
path, writes, flags, synced = sys.argv[1], *map(int, sys.argv[2:])
file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
os.pwrite(file, bytes(1 << 20), 0)
os.fsync(file)
file = os.open(path, os.O_RDWR | flags)
data = mmap.mmap(-1, 8192)
sys.stdin.readline()
for number in range(writes):
    os.pwrite(file, data, number * 8192 % (1 << 20))
    if synced:
        os.fdatasync(file)
"""
METHODS = {
    "buffered": (0, 1),
    "direct": (os.O_DIRECT, 1),
    "dsync": (os.O_DSYNC | os.O_DIRECT, 0),
}
"""Flags of open, and whether fdatasync follows each write."""
URING = "fio --name=w --filename=%s --size=1m --rw=randwrite --bs=8k --direct=1 --ioengine=io_uring"
URING += " --iodepth=16 --sync=dsync --io_size=%d --output=/dev/null"
ALL = (*METHODS, "uring")


def writer_of(method: str, path: str, writes: int) -> list[str]:
    """A command that writes so much as soon as it is given a line."""
    if method in METHODS:
        return [sys.executable, "-c", WRITER, path, *map(str, (writes, *METHODS[method]))]
    return ["chrt", "--fifo", "1", "sh", "-c", f"read go; {URING % (path, writes * 8192)}"]


def round_of(
    method: str, recorders: list[Path], order: list[int], place: Path, writes: int
) -> list[Spent]:
    """One process that writes, recorded by all at once; in the order of ``recorders``."""
    with tempfile.TemporaryDirectory(dir=place) as directory:
        command = writer_of(method, f"{directory}/data", writes)
        with subprocess.Popen(command, stdin=subprocess.PIPE) as writer:
            recordings: dict[int, Recording] = {}
            for which in order:
                path = Path(directory) / str(which)
                recordings[which] = Recording(recorders[which], path, writer.pid, "--stats")
            before = {which: recordings[which].programs() for which in order}
            writer.communicate(b"\n")
        after = {which: recordings[which].programs() for which in order}
        for which in order:
            recordings[which].end()
        return [
            spent(recordings[which], before[which], after[which], writes)
            for which in range(len(recorders))
        ]


def spent(
    recording: Recording,
    before: dict[str, tuple[int, int]],
    after: dict[str, tuple[int, int]],
    writes: int,
) -> Spent:
    programs = of_programs(before, after)
    bpf_ns = sum(ns for ns, _ in programs.values())
    if not recording.directory.exists():
        return Spent(programs, bpf_ns / writes, 0, 0)
    own: Any = read_trace(recording.directory).points["recorder"]["cpu_ns"]
    size = sum(path.stat().st_size for path in recording.directory.glob("cpu_*"))
    return Spent(programs, bpf_ns / writes, float(own[-1] - own[0]) / writes, size / writes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", nargs="?")
    parser.add_argument("--rounds", type=int, default=8, help="an even number")
    parser.add_argument("--writes", type=int, default=1000)
    parser.add_argument("--directory", type=Path, default=Path.cwd())
    parser.add_argument("--method", choices=ALL, nargs="*", default=ALL)
    arguments = parser.parse_args()
    with recorder_of(arguments.commit) as other, floor_of(find_recorder()) as floor:
        recorders = [other, find_recorder(), floor]
        for method in arguments.method:
            rounds = [
                round_of(method, recorders, order, arguments.directory, arguments.writes)
                for turn in range(arguments.rounds // 2 * 2)
                for order in ([[2, 0, 1], [2, 1, 0]][turn % 2],)
            ]
            tell(method, rounds, arguments.commit, arguments.writes)


if __name__ == "__main__":
    main()
