# SPDX-License-Identifier: Apache-2.0
"""What a hit costs this recorder and another commit's, as root, on a machine as busy as it may be.

    python -m tests.benchmarks.recorders [COMMIT] [--rounds N] [--writes N] [--directory DIR]

Both record the same process at the same time, so that whatever happens, happens to both. Who is
attached first runs first, and has the caches to warm: they take turns, and a ratio is the
geometric mean of two rounds. Without a commit this recorder stands against itself, which says how
far such a ratio can be trusted. Times are the kernel's own account (kernel.bpf_stats_enabled).
The writer goes before all that is not real-time: a write that waits for others counts their hits.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iostrata.record.recorder import find_recorder
from iostrata.trace.read import read_trace

ROOT = Path(__file__).parents[2]
WRITER = """
import os, sys
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
os.pwrite(file, bytes(1 << 20), 0)
os.fsync(file)
sys.stdin.readline()
for number in range(int(sys.argv[2])):
    os.pwrite(file, bytes(4096), number * 4096 % (1 << 20))
    os.fdatasync(file)
"""
RESAMPLED = 2000


@dataclass(frozen=True)
class Spent:
    """What one recorder took in one round: of each program ns and hits; of all, a write."""

    programs: dict[str, tuple[int, int]]
    bpf_ns: float
    recorder_ns: float
    bytes: float


@contextlib.contextmanager
def recorder_of(commit: str | None) -> Iterator[Path]:
    """The recorder of a commit, built elsewhere; None: this one."""
    if commit is None:
        yield find_recorder()
        return
    with tempfile.TemporaryDirectory() as directory:
        sources = ["bpf", "tracer/iostrata/__init__.py"]
        archive = subprocess.run(
            ["git", "archive", commit, *sources], cwd=ROOT, check=True, capture_output=True
        )
        subprocess.run(["tar", "-x", "-C", directory], input=archive.stdout, check=True)
        make = ["make", "-s", "-C", f"{directory}/bpf", "build/iostrata-record"]
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL)
        yield Path(directory) / "bpf" / "build" / "iostrata-record"


def loaded() -> list[dict[str, Any]]:
    """The BPF programs that the kernel has now."""
    bpftool = shutil.which("bpftool", path=f"{os.environ['PATH']}:/usr/sbin")
    shown = subprocess.run(
        [str(bpftool), "--json", "prog", "show"], check=True, capture_output=True
    )
    programs: list[dict[str, Any]] = json.loads(shown.stdout)
    return programs


class Recording:
    """A recorder that looks at one process, until it is asked to end."""

    def __init__(self, recorder: Path, directory: Path, pid: int, *options: str) -> None:
        self.directory = directory
        ours, theirs = os.pipe()
        command = [recorder, "-o", directory, *options, "--pid", pid, "--status-fd", theirs]
        self.process = subprocess.Popen([str(word) for word in command], pass_fds=[theirs])
        os.close(theirs)
        self.status = os.fdopen(ours)
        if not any(line.startswith("ready") for line in self.status):
            raise SystemExit("the recorder did not begin")

    def ids(self) -> set[str]:
        found = set()
        for path in Path(f"/proc/{self.process.pid}/fdinfo").iterdir():
            with contextlib.suppress(OSError):
                lines = path.read_text().splitlines()
                found |= {line.split()[1] for line in lines if line.startswith("prog_id:")}
        return found

    def programs(self) -> dict[str, tuple[int, int]]:
        """Of each program of it: ns and hits until now."""
        ids = self.ids()
        return {
            program["name"]: (program.get("run_time_ns", 0), program.get("run_cnt", 0))
            for program in loaded()
            if str(program["id"]) in ids and "name" in program
        }

    def end(self) -> None:
        """Until the kernel has let go of its points: whoever is timed next would pay for them."""
        ids = self.ids()
        self.process.send_signal(signal.SIGINT)
        self.status.read()
        self.process.wait()
        while ids & {str(program["id"]) for program in loaded()}:
            time.sleep(0.1)


def round_of(recorders: list[Path], order: list[int], place: Path, writes: int) -> list[Spent]:
    """One process that writes, recorded by both at once; in the order of ``recorders``."""
    with tempfile.TemporaryDirectory(dir=place) as directory:
        command = [sys.executable, "-c", WRITER, f"{directory}/data", str(writes)]
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
    own: Any = read_trace(recording.directory).points["recorder"]["cpu_ns"]
    size = sum(path.stat().st_size for path in recording.directory.glob("cpu_*"))
    bpf_ns = sum(ns for ns, _ in programs.values())
    return Spent(programs, bpf_ns / writes, float(own[-1] - own[0]) / writes, size / writes)


def ratios(rounds: list[list[Spent]], name: str) -> list[float]:
    """New against old: of each two rounds, one in each order."""
    each = [getattr(new, name) / getattr(old, name) for old, new in rounds]
    return [math.sqrt(a * b) for a, b in zip(each[::2], each[1::2], strict=True)]


def told(found: list[float]) -> str:
    """The median and an interval of nine in ten for it, by drawing anew from what was found."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(found, k=len(found))) for _ in range(RESAMPLED))
    low, high = medians[RESAMPLED // 20], medians[-RESAMPLED // 20]
    return f"{statistics.median(found):.3f}   ({low:.3f} to {high:.3f}, {len(found)} pairs)"


def programs_told(rounds: list[list[Spent]], writes: int) -> Iterator[str]:
    """A line for each program that is hit once in twenty writes or more, the dearest first."""
    sums: list[dict[str, list[int]]] = [{}, {}]
    for found in rounds:
        for one, total in zip(found, sums, strict=True):
            for name, (ns, hits) in one.programs.items():
                of_name = total.setdefault(name, [0, 0])
                of_name[0] += ns
                of_name[1] += hits
    old, new = sums
    count = len(rounds) * writes
    rows = {name: (*old.get(name, (0, 0)), *new.get(name, (0, 0))) for name in old | new}
    for name, (ns, hits, new_ns, new_hits) in sorted(
        rows.items(), key=lambda row: -row[1][0] - row[1][2]
    ):
        if max(hits, new_hits) * 20 < count:
            continue
        yield (
            f"{ns / count:10.0f} {new_ns / count:8.0f} {hits / count:9.2f} {new_hits / count:7.2f}"
            f" {ns / max(hits, 1):9.0f} {new_ns / max(new_hits, 1):7.0f}   {name}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", nargs="?")
    parser.add_argument("--rounds", type=int, default=8, help="an even number")
    parser.add_argument("--writes", type=int, default=1000)
    parser.add_argument("--directory", type=Path, default=Path.cwd())
    arguments = parser.parse_args()
    with recorder_of(arguments.commit) as other:
        recorders = [other, find_recorder()]
        rounds = [
            round_of(recorders, [turn % 2, 1 - turn % 2], arguments.directory, arguments.writes)
            for turn in range(arguments.rounds // 2 * 2)
        ]
    print(f"this recorder against {arguments.commit or 'itself'}: write+fdatasync, buffered")
    print(f"  BPF time a write         {told(ratios(rounds, 'bpf_ns'))}")
    print(f"  recorder's CPU a write   {told(ratios(rounds, 'recorder_ns'))}")
    print(f"  bytes a write            {told(ratios(rounds, 'bytes'))}")
    print("  ns a write: old, new; hits a write; ns a hit")
    print("\n".join(programs_told(rounds, arguments.writes)))


if __name__ == "__main__":
    main()
