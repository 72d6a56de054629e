# SPDX-License-Identifier: Apache-2.0
"""``make fuzz``: recordings with something wrong in them, until the time or the number is over.

    python -m tests.fuzz --seconds 600 [--seed N] [--source DIR]
    python -m tests.fuzz --seed N --number 1      that very one again, with its traceback

Each is read by a process of its own, that has 1 GiB and 10 s. What was no crash, no hang, no
hunger and nothing unlawful is counted; what was is kept as a seed and as a recording.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random

from tests.fuzz.lawful import check
from tests.fuzz.mutate import Files, mutated, write
from tests.fuzz.sources import sources

LIMIT_S = 10
MOST_BYTES = 1 << 30


def tried(files: Files, place: Path, seed: int) -> str:
    """What became of it, by a process that was forked for it: a word, or a last line."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reader)
        # Of its own time: a busy machine makes nothing hang. Who waits for ever uses none.
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S))
        signal.alarm(20 * LIMIT_S)
        used = re.search(r"VmData:\s*(\d+) kB", Path("/proc/self/status").read_text())
        most = int(used[1]) * 1024 + MOST_BYTES if used else MOST_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        try:
            told = check(write(files, place / "recording"), place, seed // 8)
        except BaseException:
            told = "WRONG " + traceback.format_exc()
        os.write(writer, told.encode(errors="replace")[-60_000:])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as told_by:
        told = told_by.read().decode(errors="replace")
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return f"WRONG ended by {signal.Signals(os.WTERMSIG(status)).name} after {LIMIT_S} s"
    return told or "WRONG said nothing"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--number", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        found = sources(Path(directory))
        became: Counter[str] = Counter()
        seen: set[str] = set()
        for command, files in enumerate(found):
            # What is imported when it is first used is imported here.
            good = Path(directory, f"good{command}")
            assert check(write(files, good / "recording"), good, command) == "analysed"
        until = time.monotonic() + given.seconds
        for seed in range(given.seed, given.seed + given.number):
            if time.monotonic() > until:
                break
            random = Random(seed)
            files = mutated(found[seed % len(found)], random)
            with tempfile.TemporaryDirectory(dir=directory) as place:
                told = tried(files, Path(place), seed)
            became[told.partition(" ")[0]] += 1
            last = told.strip().splitlines()[-1]
            where = [line for line in told.splitlines() if line.startswith("  File")][-1:]
            if told.startswith("WRONG") and (kind := f"{last[:80]} {where}") not in seen:
                seen.add(kind)
                kept = write(files, given.keep / f"fuzz-{seed}")
                print(f"seed {seed}, kept as {kept}:\n{told}", flush=True)
    print(", ".join(f"{count} {name}" for name, count in became.most_common()))
    return 1 if became["WRONG"] else 0


if __name__ == "__main__":
    sys.exit(main())
