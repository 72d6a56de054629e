# SPDX-License-Identifier: Apache-2.0
"""What a synchronous write takes longer because it is recorded, as root.

    python -m tests.benchmarks.writes [COMMIT] [--rounds N] [--writes N] [--directory DIR]

One process writes, and its writes are timed by itself, a few hundred in a row: with nobody looking
on, with this recorder, with another commit's, and with programs that do nothing at the same points.
They take turns in an order that is drawn anew each round, and a ratio is of one round, so that a
machine whose speed drifts slows them all. Of a round's writes the median counts (others' work makes
few writes very long), and the mean of the thread's own CPU time. The writer goes before all that is
not real-time. Each turn is left alone first: a kernel is busy for a second or more with what was
attached to it, the longer the more that is, whether it is ever hit or not.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from iostrata.record.recorder import find_recorder
from tests.benchmarks.parts.floor import floor_of
from tests.benchmarks.parts.recording import Recording, recorder_of
from tests.benchmarks.parts.spent import told

WRITER = """
import json, os, statistics, sys, time
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
path, flags, synced = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
os.pwrite(file, bytes(1 << 20), 0)
os.fsync(file)
file = os.open(path, os.O_RDWR | flags)
data = bytes(4096)
for line in sys.stdin:
    took = []
    cpu_ns = time.thread_time_ns()
    for number in range(int(line)):
        begin_ns = time.monotonic_ns()
        os.pwrite(file, data, number * 4096 % (1 << 20))
        if synced:
            os.fdatasync(file)
        took.append(time.monotonic_ns() - begin_ns)
    cpu_ns = (time.thread_time_ns() - cpu_ns) / len(took)
    print(json.dumps({"latency": statistics.median(took), "thread's CPU": cpu_ns}), flush=True)
"""
METHODS = {"write+fdatasync, buffered": (0, 1), "O_DSYNC write, buffered": (0o10000, 0)}
BARE, OTHER, THIS, NOTHING = range(4)
SETTLED_S = 3


def round_of(
    write: Callable[[], dict[str, float]], recorders: list[Path | None], place: Path, pid: int
) -> list[dict[str, float]]:
    """One turn of each, in an order drawn anew; in the order of ``recorders`` (None: nobody)."""
    found: dict[int, dict[str, float]] = {}
    for which in random.sample(range(len(recorders)), len(recorders)):
        recorder = recorders[which]
        with tempfile.TemporaryDirectory(dir=place) as directory:
            recording = recorder and Recording(recorder, Path(directory) / "recording", pid)
            time.sleep(SETTLED_S)
            write()
            found[which] = write()
            if recording:
                recording.end()
    return [found[which] for which in range(len(recorders))]


def rounds_of(
    method: tuple[int, int], recorders: list[Path | None], place: Path, rounds: int, writes: int
) -> list[list[dict[str, float]]]:
    with tempfile.TemporaryDirectory(dir=place) as directory:
        arguments = [f"{directory}/data", *map(str, method)]
        command = [sys.executable, "-c", WRITER, *arguments]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdin is not None
            assert writer.stdout is not None
            stdin, stdout = writer.stdin, writer.stdout

            def write() -> dict[str, float]:
                stdin.write(f"{writes}\n")
                stdin.flush()
                took: dict[str, float] = json.loads(stdout.readline())
                return took

            found = [round_of(write, recorders, Path(directory), writer.pid) for _ in range(rounds)]
            stdin.close()
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", nargs="?")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--writes", type=int, default=500)
    parser.add_argument("--directory", type=Path, default=Path.cwd())
    arguments = parser.parse_args()
    with recorder_of(arguments.commit) as other, floor_of(find_recorder()) as floor:
        recorders = [None, other, find_recorder(), floor]
        pairs = {
            "recorded / not": (THIS, BARE),
            f"the same of {arguments.commit or 'itself'}": (OTHER, BARE),
            "this / that": (THIS, OTHER),
            "nothing / not": (NOTHING, BARE),
        }
        for name, method in METHODS.items():
            found = rounds_of(
                method, recorders, arguments.directory, arguments.rounds, arguments.writes
            )
            print(name)
            for what in found[0][0]:
                print(f"  {what}: {sum(one[BARE][what] for one in found) / len(found):,.0f} ns")
                for pair, (new, old) in pairs.items():
                    ratios = [one[new][what] / one[old][what] for one in found]
                    print(f"    {pair:24} {told(ratios)}")


if __name__ == "__main__":
    main()
