# SPDX-License-Identifier: Apache-2.0
"""What ``--compress`` saves, and what it takes, as root.

    python -m tests.benchmarks.compression [--rounds N] [--writes N] [--directory DIR]

Two recorders look at the same process at the same time, one with it and one without, and take
turns in being the first; a ratio is the geometric mean of two rounds. The recorder's CPU time is
what it tells itself, the writer's thread within.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
from pathlib import Path

from iostrata.record.recorder import find_recorder
from tests.benchmarks.parts.recording import Recording
from tests.benchmarks.parts.spent import Spent, ratios, told
from tests.benchmarks.recorders import METHODS, spent, writer_of

OPTIONS = ((), ("--compress",))


def round_of(method: str, first: int, place: Path, writes: int) -> list[Spent]:
    """Without, with."""
    with tempfile.TemporaryDirectory(dir=place) as directory:
        command = writer_of(method, f"{directory}/data", writes)
        with subprocess.Popen(command, stdin=subprocess.PIPE) as writer:
            recordings: dict[int, Recording] = {}
            for which in (first, 1 - first):
                path = Path(directory) / str(which)
                recordings[which] = Recording(find_recorder(), path, writer.pid, *OPTIONS[which])
            writer.communicate(b"\n")
        for recording in recordings.values():
            recording.end()
        return [spent(recordings[which], {}, {}, writes) for which in range(len(OPTIONS))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=8, help="an even number")
    parser.add_argument("--writes", type=int, default=10_000)
    parser.add_argument("--directory", type=Path, default=Path.cwd())
    arguments = parser.parse_args()
    for method in METHODS:
        rounds = [
            round_of(method, turn % 2, arguments.directory, arguments.writes)
            for turn in range(arguments.rounds // 2 * 2)
        ]
        print(f"with --compress against without: {method}")
        for what, unit in (("bytes", "bytes"), ("recorder_ns", "ns")):
            means = [statistics.fmean(getattr(one[which], what) for one in rounds)
                     for which in range(len(OPTIONS))]  # fmt: skip
            print(f"  {unit} a write: {means[0]:,.0f} without, {means[1]:,.0f} with")
        print(f"  bytes a write            {told(ratios(rounds, lambda one: one.bytes))}")
        print(f"  recorder's CPU a write   {told(ratios(rounds, lambda one: one.recorder_ns))}")


if __name__ == "__main__":
    main()
