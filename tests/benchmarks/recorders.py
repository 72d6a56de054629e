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
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iostrata.record.recorder import find_recorder
from iostrata.trace.read import read_trace
from tests.benchmarks.parts.floor import floor_of
from tests.benchmarks.parts.recording import Recording, recorder_of

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
RESAMPLED = 2000


@dataclass(frozen=True)
class Spent:
    """What one recorder took in one round: of each program ns and hits; of all, a write."""

    programs: dict[str, tuple[int, int]]
    bpf_ns: float
    recorder_ns: float
    bytes: float


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
    programs = {}
    for name, (ns, hits) in after.items():
        earlier_ns, earlier_hits = before.get(name, (0, 0))
        programs[name] = ns - earlier_ns, hits - earlier_hits
    bpf_ns = sum(ns for ns, _ in programs.values())
    if not recording.directory.exists():
        return Spent(programs, bpf_ns / writes, 0, 0)
    own: Any = read_trace(recording.directory).points["recorder"]["cpu_ns"]
    size = sum(path.stat().st_size for path in recording.directory.glob("cpu_*"))
    return Spent(programs, bpf_ns / writes, float(own[-1] - own[0]) / writes, size / writes)


def ratios(rounds: list[list[Spent]], of: Callable[[Spent], float]) -> list[float]:
    """New against old: of each two rounds, one in each order."""
    each = [of(new) / of(old) for old, new, *_ in rounds]
    return [math.sqrt(a * b) for a, b in zip(each[::2], each[1::2], strict=True)]


def ratios_above(rounds: list[list[Spent]]) -> list[float]:
    """The same of the BPF time above that of programs that do nothing."""
    each = [
        (new.bpf_ns - nothing.bpf_ns) / (old.bpf_ns - nothing.bpf_ns)
        for old, new, nothing in rounds
    ]
    return [math.sqrt(a * b) for a, b in zip(each[::2], each[1::2], strict=True)]


def told(found: list[float]) -> str:
    """The median and an interval of nine in ten for it, by drawing anew from what was found."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(found, k=len(found))) for _ in range(RESAMPLED))
    low, high = medians[RESAMPLED // 20], medians[-RESAMPLED // 20]
    return f"{statistics.median(found):.3f}   ({low:.3f} to {high:.3f}, {len(found)} pairs)"


def programs_told(rounds: list[list[Spent]], writes: int) -> Iterator[str]:
    """A line for each program that is hit once in twenty writes or more, the dearest first."""
    sums: list[dict[str, list[int]]] = [{}, {}, {}]
    for found in rounds:
        for one, total in zip(found, sums, strict=True):
            for name, (ns, hits) in one.programs.items():
                of_name = total.setdefault(name, [0, 0])
                of_name[0] += ns
                of_name[1] += hits
    count = len(rounds) * writes
    rows = {name: [total.get(name, [0, 0]) for total in sums] for name in {**sums[0], **sums[1]}}
    for name, times in sorted(rows.items(), key=lambda row: -row[1][0][0] - row[1][1][0]):
        if max(hits for _, hits in times) * 20 < count:
            continue
        a_write = " ".join(f"{ns / count:6.0f}" for ns, _ in times)
        hits_a_write = " ".join(f"{hits / count:6.2f}" for _, hits in times[:2])
        a_hit = " ".join(f"{ns / max(hits, 1):5.0f}" for ns, hits in times)
        yield f"  {a_write}  {hits_a_write}  {a_hit}  {name}"


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


def tell(method: str, rounds: list[list[Spent]], commit: str | None, writes: int) -> None:
    print(f"this recorder against {commit or 'itself'}: {method}")
    print(f"  BPF time a write         {told(ratios(rounds, lambda one: one.bpf_ns))}")
    print(f"  above that of nothing    {told(ratios_above(rounds))}")
    print(f"  recorder's CPU a write   {told(ratios(rounds, lambda one: one.recorder_ns))}")
    print(f"  bytes a write            {told(ratios(rounds, lambda one: one.bytes))}")
    print("  ns a write: old, new, nothing; hits a write: old, new; ns a hit: old, new, nothing")
    print("\n".join(programs_told(rounds, writes)))


if __name__ == "__main__":
    main()
