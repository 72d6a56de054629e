# SPDX-License-Identifier: Apache-2.0
"""What is large lies in files, for all of its life, and nothing is different by it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from iostrata import native
from tests.benchmarks.analysis import generate

pytestmark = pytest.mark.skipif(native.LIBRARY is None, reason="what does it is built of C")

HEAD = """
import os, resource, sys
import numpy as np
from iostrata.large import in_memory, large_in_files

large = large_in_files(1 << 20, 4 << 20)
"""
LIFE = """
kept = [np.full(1 << 17, number) for number in range(10)]
assert (large.count, large.in_memory, large.in_files) == (6, 4 << 20, 6 << 20), large.count
assert [int(one.sum()) >> 17 for one in kept] == list(range(10))
assert not os.listdir(os.environ["TMPDIR"])
assert not np.zeros(1 << 17).any() and large.count == 6
some = np.arange(1 << 17)
some.resize(1 << 18)
assert some[-1] == 0 and some[(1 << 17) - 1] == (1 << 17) - 1 and large.count == 7
some.resize(100)
assert some.sum() == 4950 and large.count == 6
with in_memory(2 << 20):
    more = [np.full(1 << 17, number) for number in range(3)]
    assert large.count == 7 and large.in_memory == 6 << 20
    del more
assert large.most_in_memory == 4 << 20 and large.in_memory == 4 << 20
pid = os.fork()
if not pid:
    last = int(kept[9][0])
    del kept
    os._exit(last + large.count)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
assert int(kept[9][-1]) == 9
del kept
assert (large.count, large.in_memory, large.in_files) == (0, 0, 0)
left = np.full(1 << 20, 1)
"""
MANY = "kept = [np.full(1 << 17, 1) for _ in range(8)]\nassert large.count == int(sys.argv[1])\n"
SMALL = f"resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, 1 << 18))\n{MANY}"
REPLAY = """
import sys
from iostrata.__main__ import main
from iostrata.large import large_in_files

large = large_in_files(int(sys.argv.pop()), 0)
main()
"""


def run(code: str, *words: object, place: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)],
        capture_output=True,
        text=True,
        env=os.environ | {"TMPDIR": str(place)},
        check=False,
    )
    assert not done.returncode, done.stderr
    return done.stdout


def test_from_the_first_to_the_last(tmp_path: Path) -> None:
    run(HEAD + LIFE, place=tmp_path)


def test_where_there_can_be_no_file_it_is_in_memory(tmp_path: Path) -> None:
    run(HEAD + MANY, 4, place=tmp_path)
    run(HEAD + MANY, 0, place=tmp_path / "absent")
    run(HEAD + MANY, 0, place=Path("/proc"))
    run(HEAD + SMALL, 0, place=tmp_path)


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_analysis_in_files_comes_to_the_same(tmp_path: Path, jobs: int) -> None:
    path = tmp_path / "machine"
    generate(path, 100_000)
    words = "replay", path, "--no-cache", "--json", "-", "--jobs", jobs
    in_files, as_ever = (run(REPLAY, *words, least, place=tmp_path) for least in (4096, 1 << 40))
    assert in_files == as_ever
