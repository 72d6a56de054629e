# SPDX-License-Identifier: Apache-2.0
"""What recording costs a workload, as root: throughput ratios, BPF time a write, recorder CPU.

    python -m tests.benchmarks.overhead [--pairs N] [--seconds S] [--directory DIR]

Runs with and without the recorder take turns, so that a machine whose speed
drifts slows both; the ratio is taken pair by pair. BPF time is the kernel's own
account (kernel.bpf_stats_enabled), measured in runs of their own because the
accounting costs something itself. Then 64 fio jobs on a loop device over tmpfs:
what is lost must be counted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from iostrata.analysis import analyse
from iostrata.record.recorder import find_recorder
from iostrata.recording import open_recording

FIO = ["fio", "--name=w", "--rw=randwrite", "--bs=8k", "--size=64m", "--time_based",
       "--output-format=json", "--group_reporting"]  # fmt: skip
METHODS = {
    "write+fdatasync, direct": ["--direct=1", "--fdatasync=1"],
    "write+fdatasync, buffered": ["--fdatasync=1"],
    "O_DSYNC write, direct": ["--direct=1", "--sync=dsync"],
}


def run(fio: list[str], recording: Path | None = None, *, stats: bool = False) -> dict[str, Any]:
    """One fio run, recorded or not; its job's figures."""
    with tempfile.NamedTemporaryFile("r", suffix=".json") as output:
        command = [*FIO, *fio, f"--output={output.name}"]
        if recording:
            extra = ["--stats"] if stats else []
            command = [str(find_recorder()), "-o", str(recording), *extra, "--", *command]
        subprocess.run(command, check=True)
        job: dict[str, Any] = json.load(output)["jobs"][0]
        return job


def compare(name: str, fio: list[str], pairs: int) -> None:
    ratios, rates = [], []
    with tempfile.TemporaryDirectory() as directory:
        for pair in range(pairs):
            # The order turns too: A B, B A, A B ...
            recorded = bare = 0.0
            for with_recorder in (pair % 2 == 0, pair % 2 != 0):
                if with_recorder:
                    recorded = run(fio, Path(directory) / f"r{pair}")["write"]["iops"]
                else:
                    bare = run(fio)["write"]["iops"]
            ratios.append(recorded / bare)
            rates.append(bare)
        run(fio, Path(directory) / "stats", stats=True)
        accounted = analyse(open_recording(Path(directory) / "stats"))
        plain = analyse(open_recording(Path(directory) / "r0"))
    cost, measured = plain.quality.cost, accounted.quality.cost
    assert cost is not None
    assert measured is not None
    bpf = measured.bpf_ns_a_write(len(accounted.writes)) or 0
    print(f"{name}: {statistics.median(rates):,.0f} writes/s")
    print(f"  throughput with / without   median {statistics.median(ratios):.3f}"
          f"   min {min(ratios):.3f}   max {max(ratios):.3f}   ({pairs} pairs)")  # fmt: skip
    print(f"  BPF time a write            {bpf / 1000:.2f} us"
          f"   events a write {cost.events / len(plain.writes):.1f}")  # fmt: skip
    share = (cost.recorder_share or 0) * 100
    lost = sum(plain.quality.lost.values())
    print(f"  recorder                    {share:.2f} % of a core   lost {lost} of {cost.events:,}")


@contextlib.contextmanager
def loop_over_tmpfs() -> Iterator[Path]:
    """A directory on ext4 on a loop device over tmpfs; all of it is gone afterwards."""
    with contextlib.ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        memory, mounted = base / "memory", base / "mounted"
        memory.mkdir()
        mounted.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(memory)], check=True)
        stack.callback(subprocess.run, ["umount", str(memory)], check=True)
        image = memory / "image"
        with image.open("wb") as file:
            file.truncate(2 << 30)
        attach = ["losetup", "--find", "--show", str(image)]
        loop = subprocess.run(attach, check=True, capture_output=True, text=True).stdout.strip()
        stack.callback(subprocess.run, ["losetup", "--detach", loop], check=True)
        subprocess.run(["mkfs.ext4", "-q", loop], check=True)
        subprocess.run(["mount", loop, str(mounted)], check=True)
        stack.callback(subprocess.run, ["umount", str(mounted)], check=True)
        yield mounted


def flood(seconds: int) -> None:
    with loop_over_tmpfs() as mounted, tempfile.TemporaryDirectory() as directory:
        fio = ["--direct=1", "--fdatasync=1", "--numjobs=64", "--size=16m",
               f"--directory={mounted}", f"--runtime={seconds}"]  # fmt: skip
        bare = run(fio)["write"]["iops"]
        recorded = run(fio, Path(directory) / "r")["write"]["iops"]
        breakdown = analyse(open_recording(Path(directory) / "r"))
    cost = breakdown.quality.cost
    assert cost is not None
    left_out = sum(breakdown.left_out.values())
    print(f"64 jobs on loop over tmpfs: {bare:,.0f} writes/s, recorded {recorded:,.0f}")
    print(f"  {cost.events_per_s:,.0f} events/s   lost {sum(breakdown.quality.lost.values())} of "
          f"{cost.events:,}   analysed {len(breakdown.writes):,}, left out {left_out}"
          f"   recorder {(cost.recorder_share or 0) * 100:.1f} % of a core")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--directory", type=Path, default=Path.cwd())
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        place = [f"--directory={directory}", f"--runtime={arguments.seconds}"]
        for name, options in METHODS.items():
            compare(name, [*options, *place], arguments.pairs)
    flood(arguments.seconds)


if __name__ == "__main__":
    main()
