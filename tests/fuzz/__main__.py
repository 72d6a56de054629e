# SPDX-License-Identifier: Apache-2.0
"""``make fuzz``: recordings with something wrong in them, until the time or the number is over.

    python -m tests.fuzz --seconds 600 [--seed N] [--only recording] [--jobs 2]
    python -m tests.fuzz --seed N --number 1      that very one again, with its traceback

Most are of one part of a recording, a few a whole one. They are read by processes that have 1 GiB
and 10 s for each. What was no crash, no hang, no hunger and nothing unlawful is counted; what was
is kept as a seed and, of whole recordings, as a recording.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

from tests.fuzz.lawful import check
from tests.fuzz.mutate import Files, mutated, write
from tests.fuzz.parts import PARTS
from tests.fuzz.run import RECORDING, run
from tests.fuzz.sources import sources

SHM: Final = Path("/dev/shm")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--number", type=int, default=10**9)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", choices=[RECORDING, *PARTS], default="")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir()))
    given = parser.parse_args()
    # A directory that is made and removed costs a disk's journal more than what is read in it.
    with tempfile.TemporaryDirectory(dir=SHM if SHM.is_dir() else None) as directory:
        found = sources(Path(directory))
        for command, files in enumerate(found):
            # What is imported when it is first used is imported here.
            good = Path(directory, f"good{command}")
            assert check(write(files, good / "recording"), good, command) == "analysed"
        seeds = range(given.seed, given.seed + given.number)
        began, became, seen = time.monotonic(), Counter[tuple[str, str]](), set[str]()
        for result in run(seeds, found, Path(directory), given.only, given.jobs, given.seconds):
            became[result.part, result.word] += 1
            if result.word == "WRONG" and result.kind not in seen:
                seen.add(result.kind)
                kept = _kept(result.part, result.seed, found, given.keep)
                print(f"{result.part}, seed {result.seed}{kept}:\n{result.told}", flush=True)
    seconds = time.monotonic() - began
    for part in sorted({part for part, _ in became}):
        words = [f"{count} {word}" for (of, word), count in became.most_common() if of == part]
        print(f"{part}: {', '.join(words)}")
    print(f"{became.total()} in {seconds:.0f} s, {became.total() / seconds:.0f}/s")
    return 1 if any(word == "WRONG" for _, word in became) else 0


def _kept(part: str, seed: int, found: Sequence[Files], place: Path) -> str:
    if part != RECORDING:
        return ""
    files = mutated(found[seed % len(found)], Random(seed))
    return f", kept as {write(files, place / f'fuzz-{seed}')}"


if __name__ == "__main__":
    sys.exit(main())
