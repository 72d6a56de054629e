# SPDX-License-Identifier: Apache-2.0
"""What each view of a recording takes, and as root, what top takes while fio writes.

    python -m tests.benchmarks.views [WRITES]

Times are of whole commands: interpreter, reading, analysis, output. ``compare``
analyses two recordings. What follows ``keep`` takes what that left behind, and the
second time (``again``) what it kept itself.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from iostrata.record import refusal
from tests.benchmarks.analysis import EVENTS_A_WRITE, generate
from tests.benchmarks.overhead import FIO, loop_over_tmpfs
from tests.cli.terminal import on_a_terminal

ONE_CORE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
WATCHED_S = 20


def views(path: str, place: Path) -> dict[str, list[str]]:
    return {
        "replay": ["replay", path, "--no-cache"],
        "compare": ["compare", path, path, "--no-cache"],
        "keep": ["replay", path],
        "group": ["replay", path, "--by", "process"],
        "spread": ["replay", path, "--histogram", "--over-time"],
        "choice": ["replay", path, "--from", "1s", "--to", "2s"],
        "runs": ["compare", path, path],
        "timeline": ["timeline", path],
        "html": ["html", path, "--force", "-o", str(place / "page.html")],
        "csv": ["export", path, "--force", "--csv", str(place / "x.csv")],
        "parquet": ["export", path, "--force", "--parquet", str(place / "x.parquet")],
        "spans": ["export", path, "--spans", str(place / "spans.parquet")],
        "perfetto": ["export", path, "--perfetto", str(place / "x.pftrace")],
    }


def measure(name: str, words: list[str]) -> None:
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "iostrata", *words],
        check=True, env=os.environ | ONE_CORE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    wall = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{name:<10}{cpu:6.1f} s of CPU {wall:6.1f} s wall")


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def live() -> None:
    with loop_over_tmpfs() as mounted, tempfile.TemporaryFile() as output:
        fio = [*FIO, "--direct=1", "--fdatasync=1", "--thinktime=30", f"--directory={mounted}",
               f"--runtime={WATCHED_S + 15}"]  # fmt: skip
        with subprocess.Popen(fio, stdout=output) as writer:
            with on_a_terminal("-m", "iostrata", "top") as terminal:
                terminal.until("device.flush")
                begin, spent = time.monotonic(), cpu_s(terminal.process.pid)
                while time.monotonic() < begin + WATCHED_S:
                    terminal.until("q quit")
                share = (cpu_s(terminal.process.pid) - spent) / (time.monotonic() - begin)
                rate = next(line for line in terminal.screen.splitlines() if "writes/s" in line)
                terminal.press("q")
                terminal.end()
            writer.terminate()
    print(f"top       {share:6.1%} of a core at {rate.split()[1]} writes/s")


def main() -> None:
    writes = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        generate(place / "machine", writes * EVENTS_A_WRITE)
        every = views(str(place / "machine"), place)
        for name, words in every.items():
            measure(name, words)
        print("again")
        for name in ("keep", "group", "spread", "choice", "runs", "timeline", "html", "csv",
                     "parquet"):  # fmt: skip
            measure(name, every[name])
    if not refusal():
        live()


if __name__ == "__main__":
    main()
